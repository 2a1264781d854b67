//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	buildinformers "github.com/buildcontroller/build-controller/pkg/generated/informers/externalversions"
)

// A scene is a namespace of a test's own and all that is in it, as the watches
// show it.
type scene struct {
	t   *testing.T
	ctx context.Context
	ns  string

	builds, jobs, pods, deployments, services, events, quotas cache.Store

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

// newScene makes a namespace, with the Secrets that a Build may name.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, ctx: t.Context(), changed: make(chan struct{})}
	namespace, err := cluster.kube.CoreV1().Namespaces().Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-",
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.ns = namespace.Name
	t.Cleanup(s.clear)

	kube := informers.NewSharedInformerFactoryWithOptions(cluster.kube, 0, informers.WithNamespace(s.ns))
	custom := buildinformers.NewSharedInformerFactoryWithOptions(cluster.builds, 0, buildinformers.WithNamespace(s.ns))
	accounts := s.follow(kube.Core().V1().ServiceAccounts().Informer())
	s.builds = s.follow(custom.Buildcontroller().V1alpha1().Builds().Informer())
	s.jobs = s.follow(kube.Batch().V1().Jobs().Informer())
	s.pods = s.follow(kube.Core().V1().Pods().Informer())
	s.deployments = s.follow(kube.Apps().V1().Deployments().Informer())
	s.services = s.follow(kube.Core().V1().Services().Informer())
	s.events = s.follow(kube.Core().V1().Events().Informer())
	s.quotas = s.follow(kube.Core().V1().ResourceQuotas().Informer())
	// They outlive the test's own context: what is left is shown and cleared after it has ended.
	watching, stop := context.WithCancel(context.WithoutCancel(s.ctx))
	t.Cleanup(stop)
	t.Cleanup(s.clearBuilds)
	t.Cleanup(s.explain)
	kube.Start(watching.Done())
	custom.Start(watching.Done())
	kube.WaitForCacheSync(watching.Done())
	custom.WaitForCacheSync(watching.Done())

	// Without it no pod can be made, as in any namespace that is that young.
	s.until(time.Minute, "the namespace has its default ServiceAccount", func() error {
		if get[corev1.ServiceAccount](accounts, s.ns, "default") == nil {
			return errors.New("it has not")
		}
		return nil
	})
	s.makeSecrets()
	return s
}

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
// something in the namespace has changed; after the limit it fails with the
// last complaint.
func (s *scene) until(limit time.Duration, what string, check func() error) {
	s.t.Helper()
	if err := s.eventually(limit, check); err != nil {
		s.t.Fatalf("waited %s in vain until %s: %v", limit, what, err)
	}
}

func (s *scene) eventually(limit time.Duration, check func() error) error {
	timeout := time.After(limit)
	for {
		next := s.next()
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-next:
		case <-timeout:
			return err
		}
	}
}

// clearBuilds takes the Builds away while there is a controller to let them go.
func (s *scene) clearBuilds() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err == nil {
		err = s.eventually(time.Minute, func() error {
			if n := len(s.builds.List()); n > 0 {
				return fmt.Errorf("%d Builds that were deleted are still there", n)
			}
			return nil
		})
	}
	if err != nil {
		s.t.Errorf("clearing %s: %v", s.ns, err)
	}
}

func (s *scene) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cluster.kube.CoreV1().Namespaces().Delete(ctx, s.ns, metav1.DeleteOptions{}); err != nil {
		s.t.Errorf("deleting namespace %s: %v", s.ns, err)
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

func (s *scene) build(name string) *v1alpha1.Build { return get[v1alpha1.Build](s.builds, s.ns, name) }
func (s *scene) job(name string) *batchv1.Job      { return get[batchv1.Job](s.jobs, s.ns, name) }
func (s *scene) service(name string) *corev1.Service {
	return get[corev1.Service](s.services, s.ns, name)
}
func (s *scene) deployment(name string) *appsv1.Deployment {
	return get[appsv1.Deployment](s.deployments, s.ns, name)
}

// jobsOf returns the Jobs of a Build, oldest first.
func (s *scene) jobsOf(build string) []*batchv1.Job {
	jobs := slices.DeleteFunc(list[batchv1.Job](s.jobs), func(job *batchv1.Job) bool { return job.Labels[v1alpha1.BuildLabel] != build })
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return jobs
}

// podsOf returns the pods that build a Build.
func (s *scene) podsOf(build string) []*corev1.Pod {
	return slices.DeleteFunc(list[corev1.Pod](s.pods), func(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.BuildLabel] != build })
}

// containerRuns returns nil when this container of a pod that builds runs now.
func (s *scene) containerRuns(build, container string) error {
	for _, pod := range s.podsOf(build) {
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if status.Name == container && status.State.Running != nil && pod.DeletionTimestamp == nil {
				return nil
			}
		}
	}
	return fmt.Errorf("no container %s of %s runs", container, build)
}

// eventsAbout returns the Events about an object whose name starts like this.
func (s *scene) eventsAbout(kind, prefix string) []*corev1.Event {
	return slices.DeleteFunc(list[corev1.Event](s.events), func(event *corev1.Event) bool {
		return event.InvolvedObject.Kind != kind || !strings.HasPrefix(event.InvolvedObject.Name, prefix)
	})
}

// eventCount counts how often Events about a Build gave a reason.
func (s *scene) eventCount(build string) map[string]int {
	counts := map[string]int{}
	for _, event := range s.eventsAbout("Build", build) {
		if event.InvolvedObject.Name == build {
			counts[event.Reason] += times(event)
		}
	}
	return counts
}

func times(event *corev1.Event) int {
	n := max(1, int(event.Count))
	if event.Series != nil {
		n = max(n, int(event.Series.Count))
	}
	return n
}

// firstSeen is when an Event was first recorded; those of the newer API have that in another field.
func firstSeen(event *corev1.Event) time.Time {
	if event.FirstTimestamp.IsZero() {
		return event.EventTime.Time
	}
	return event.FirstTimestamp.Time
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

// buildLimit is how long a build and its rollout may take on a small machine
// that has other tests to run as well.
const buildLimit = 6 * time.Minute

// untilReady returns the Build when it is Ready.
func (s *scene) untilReady(name string) *v1alpha1.Build {
	s.t.Helper()
	s.until(buildLimit, name+" is Ready", func() error { return s.ready(name) })
	return s.build(name)
}
