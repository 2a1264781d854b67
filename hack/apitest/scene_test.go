//go:build apitest

package apitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	buildinformers "github.com/buildcontroller/build-controller/pkg/generated/informers/externalversions"
)

// A scene is a namespace of a test's own and all that is in it, as the watches
// show it. It is left as it is: other tests run in a cluster that has other
// things to do.
type scene struct {
	t   *testing.T
	ctx context.Context
	ns  string

	builds, jobs, pods, deployments, services, ingresses, events cache.Store

	mu      sync.Mutex
	changed chan struct{}                 // closed at the next change
	made    map[string]map[types.UID]bool // the Jobs of each name that ever were
}

// newScene makes a namespace for a test that may take so long.
func newScene(t *testing.T, limit time.Duration) *scene {
	t.Helper()
	s := &scene{t: t, ctx: testContext(t, limit), changed: make(chan struct{}), made: map[string]map[types.UID]bool{}}
	namespace, err := cluster.kube.CoreV1().Namespaces().Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: strings.ToLower(strings.NewReplacer("_", "-", "/", "-").Replace(shorten(t.Name(), 40))) + "-",
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.ns = namespace.Name

	kube := informers.NewSharedInformerFactoryWithOptions(cluster.kube, 0, informers.WithNamespace(s.ns))
	custom := buildinformers.NewSharedInformerFactoryWithOptions(cluster.builds, 0, buildinformers.WithNamespace(s.ns))
	accounts := s.follow(kube.Core().V1().ServiceAccounts().Informer())
	s.builds = s.follow(custom.Buildcontroller().V1alpha1().Builds().Informer())
	jobs := kube.Batch().V1().Jobs().Informer()
	if _, err := jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: s.countJob}); err != nil {
		t.Fatal(err)
	}
	s.jobs = s.follow(jobs)
	s.pods = s.follow(kube.Core().V1().Pods().Informer())
	s.deployments = s.follow(kube.Apps().V1().Deployments().Informer())
	s.services = s.follow(kube.Core().V1().Services().Informer())
	s.ingresses = s.follow(kube.Networking().V1().Ingresses().Informer())
	s.events = s.follow(kube.Core().V1().Events().Informer())
	kube.Start(s.ctx.Done())
	custom.Start(s.ctx.Done())
	kube.WaitForCacheSync(s.ctx.Done())
	custom.WaitForCacheSync(s.ctx.Done())

	// Without it no pod can be made, as in any namespace that is that young.
	s.until("the namespace has its default ServiceAccount", func() error {
		return exists(accounts, s.ns, "default")
	})
	return s
}

func shorten(s string, n int) string { return strings.TrimRight(s[:min(n, len(s))], "-_/") }

func (s *scene) follow(informer cache.SharedIndexInformer) cache.Store {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.notify() },
		UpdateFunc: func(_, _ any) { s.notify() },
		DeleteFunc: func(any) { s.notify() },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return informer.GetStore()
}

func (s *scene) countJob(obj any) {
	job := obj.(*batchv1.Job)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[job.Name] == nil {
		s.made[job.Name] = map[types.UID]bool{}
	}
	s.made[job.Name][job.UID] = true
}

func (s *scene) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *scene) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// until returns when check has no complaint any more. It looks whenever
// something in the namespace has changed; at the test's end it fails with the
// last complaint.
func (s *scene) until(what string, check func() error) {
	s.t.Helper()
	for {
		next := s.next()
		err := check()
		if err == nil {
			return
		}
		select {
		case <-next:
		case <-s.ctx.Done():
			s.t.Fatalf("waited in vain until %s: %v", what, err)
		}
	}
}

// get returns an object as the watch last showed it, and nil if it is not there.
func get[T any](store cache.Store, namespace, name string) *T {
	object, ok, _ := store.GetByKey(namespace + "/" + name)
	if !ok {
		return nil
	}
	return object.(*T)
}

func list[T any](store cache.Store) []*T {
	var all []*T
	for _, object := range store.List() {
		all = append(all, object.(*T))
	}
	return all
}

func exists(store cache.Store, namespace, name string) error {
	if _, ok, _ := store.GetByKey(namespace + "/" + name); !ok {
		return fmt.Errorf("%s is not there", name)
	}
	return nil
}

func (s *scene) build(name string) *v1alpha1.Build { return get[v1alpha1.Build](s.builds, s.ns, name) }
func (s *scene) job(name string) *batchv1.Job      { return get[batchv1.Job](s.jobs, s.ns, name) }
func (s *scene) service(name string) *corev1.Service {
	return get[corev1.Service](s.services, s.ns, name)
}
func (s *scene) ingress(name string) *networkingv1.Ingress {
	return get[networkingv1.Ingress](s.ingresses, s.ns, name)
}
func (s *scene) deployment(name string) *appsv1.Deployment {
	return get[appsv1.Deployment](s.deployments, s.ns, name)
}

// jobsOf returns the Jobs of a Build, oldest first.
func (s *scene) jobsOf(build string) []*batchv1.Job {
	var jobs []*batchv1.Job
	for _, job := range list[batchv1.Job](s.jobs) {
		if job.Labels[v1alpha1.BuildLabel] == build {
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return jobs
}

// podsOf returns the pods that build a Build.
func (s *scene) podsOf(build string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range list[corev1.Pod](s.pods) {
		if pod.Labels[v1alpha1.BuildLabel] == build {
			pods = append(pods, pod)
		}
	}
	return pods
}

// eventsOf counts the Events about a Build by their reason.
func (s *scene) eventsOf(build string) map[string]int {
	counts := map[string]int{}
	for _, event := range list[corev1.Event](s.events) {
		if event.InvolvedObject.Kind != "Build" || event.InvolvedObject.Name != build {
			continue
		}
		n := max(1, int(event.Count))
		if event.Series != nil {
			n = max(n, int(event.Series.Count))
		}
		counts[event.Reason] += n
	}
	return counts
}

// ready returns nil for a Build that is all its spec asks for, and else what is
// missing.
func (s *scene) ready(name string) error {
	build := s.build(name)
	if build == nil {
		return fmt.Errorf("there is no Build %s", name)
	}
	condition := meta.FindStatusCondition(build.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case build.Status.ObservedGeneration != build.Generation:
		return fmt.Errorf("the status of %s is of generation %d, not %d", name, build.Status.ObservedGeneration, build.Generation)
	case condition == nil:
		return fmt.Errorf("%s has no condition Ready, phase %s", name, build.Status.Phase)
	case condition.Status != metav1.ConditionTrue:
		return fmt.Errorf("%s is not Ready, phase %s: %s: %s", name, build.Status.Phase, condition.Reason, condition.Message)
	}
	return nil
}

// untilReady returns when these Builds are Ready.
func (s *scene) untilReady(names ...string) {
	s.t.Helper()
	s.until("all Builds are Ready", func() error {
		waiting, first := 0, error(nil)
		for _, name := range names {
			if err := s.ready(name); err != nil {
				if waiting++; first == nil {
					first = err
				}
			}
		}
		if waiting > 0 {
			return fmt.Errorf("%d of %d are not; %w", waiting, len(names), first)
		}
		return nil
	})
}

// condition expects a condition of a Build to say something.
func (s *scene) condition(build, kind string, status metav1.ConditionStatus, reason string, mentions ...string) error {
	b := s.build(build)
	if b == nil {
		return fmt.Errorf("there is no Build %s", build)
	}
	c := meta.FindStatusCondition(b.Status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("%s has no condition %s", build, kind)
	}
	if c.Status != status || c.Reason != reason {
		return fmt.Errorf("%s is %s of %s (%s), not %s of %s", kind, c.Status, c.Reason, c.Message, status, reason)
	}
	for _, word := range mentions {
		if !strings.Contains(c.Message, word) {
			return fmt.Errorf("the message of %s does not name %q: %s", kind, word, c.Message)
		}
	}
	return nil
}
