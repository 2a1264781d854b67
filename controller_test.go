package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	buildfake "github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned/fake"
	"github.com/buildcontroller/build-controller/pkg/plan"
	"github.com/buildcontroller/build-controller/pkg/policy"
)

const (
	namespace = "shop"
	digest1   = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	commit    = "2280e99c47e016d5396fea3a1c5bf3624c69b3e9"
)

// world is a cluster that consists of two fake clientsets and the controller under test. Its watches are the real ones,
// its workers are not running: a test calls sync itself.
type world struct {
	t      *testing.T
	ctx    context.Context
	kube   *fake.Clientset
	client *buildfake.Clientset
	c      *Controller
	seen   int           // actions of kube that writes has already returned
	seenB  int           // and of client
	skew   time.Duration // of the API server's clock
	uids   int
}

// inWorld runs the test in a bubble of its own time.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx := klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0))))
		ctx, cancel := context.WithCancel(ctx)
		w := &world{t: t, ctx: ctx, kube: fake.NewClientset(), client: buildfake.NewClientset()}
		w.kube.PrependReactor("create", "*", w.completeMeta)
		w.client.PrependReactor("create", "*", w.completeMeta)
		w.kube.PrependReactor("patch", "deployments", w.newGeneration)
		w.kube.PrependReactor("patch", "*", w.refuseForeign)
		w.kube.PrependWatchReactor("*", w.onlySelected)
		informer := NewBuildInformer(w.client, metav1.NamespaceAll)
		w.c = NewController(ctx, w.kube, w.client, informer, Settings{
			Steps:  plan.Steps{GitSync: "git-sync:test", Kaniko: "kaniko:test"},
			Policy: policy.Policy{Registries: policy.Places{"*.example.com"}},
		}, clock.RealClock{})
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		running.Go(func() { w.c.Run(ctx, 0) })
		time.Sleep(time.Second) // of the bubble: the caches are full
		synctest.Wait()
		test(w)
		cancel()
		running.Wait()
	})
}

// completeMeta sets what an API server sets and the fake one does not.
func (w *world) completeMeta(action clienttesting.Action) (bool, runtime.Object, error) {
	obj, err := meta.Accessor(action.(clienttesting.CreateAction).GetObject())
	if err == nil && obj.GetUID() == "" {
		w.uids++
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", w.uids)))
		obj.SetCreationTimestamp(metav1.NewTime(time.Now().Add(w.skew).Truncate(time.Second)))
	}
	return false, nil, nil
}

// refuseForeign does what an API server does with an apply that asks for a new object where there is one.
func (w *world) refuseForeign(action clienttesting.Action) (bool, runtime.Object, error) {
	patch := action.(clienttesting.PatchAction)
	if patch.GetPatchType() != types.ApplyPatchType || !strings.Contains(string(patch.GetPatch()), `"resourceVersion":"1"`) {
		return false, nil, nil
	}
	_, err := w.kube.Tracker().Get(patch.GetResource(), patch.GetNamespace(), patch.GetName())
	if err == nil {
		return true, nil, apierrors.NewConflict(patch.GetResource().GroupResource(), patch.GetName(), fmt.Errorf("it exists"))
	}
	return false, nil, nil
}

// newGeneration counts the applies of a Deployment, which the fake API server does not; it even stores the version asked for.
func (w *world) newGeneration(action clienttesting.Action) (bool, runtime.Object, error) {
	handled, obj, err := clienttesting.ObjectReaction(w.kube.Tracker())(action)
	if err != nil {
		return handled, obj, err
	}
	deployment := obj.(*appsv1.Deployment)
	deployment.Generation++
	deployment.ResourceVersion = fmt.Sprint(100 + deployment.Generation)
	return true, deployment, w.kube.Tracker().Update(action.GetResource(), deployment, deployment.Namespace)
}

// onlySelected watches what the label selector selects, and shows an object that leaves it as deleted; the fake API server would
// send everything.
func (w *world) onlySelected(action clienttesting.Action) (bool, watch.Interface, error) {
	selector := action.(clienttesting.WatchAction).GetWatchRestrictions().Labels
	all, err := w.kube.Tracker().Watch(action.GetResource(), action.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	return true, watch.Filter(all, func(event watch.Event) (watch.Event, bool) {
		obj, err := meta.Accessor(event.Object)
		selected := err == nil && (selector == nil || selector.Matches(labels.Set(obj.GetLabels())))
		if !selected && event.Type == watch.Modified {
			event.Type, selected = watch.Deleted, true
		}
		return event, selected
	}), nil
}

// sync lets the watches catch up, syncs the Build once, and returns what was written: "verb resource name".
func (w *world) sync() []string {
	w.t.Helper()
	writes, err := w.trySync()
	if err != nil {
		w.t.Fatalf("sync: %v", err)
	}
	return writes
}

func (w *world) trySync() ([]string, error) {
	synctest.Wait()
	w.writes()
	_, err := w.c.sync(w.ctx, cache.NewObjectName(namespace, "app"))
	synctest.Wait()
	return w.writes(), err
}

// settle syncs until nothing is written any more, as the queue would.
func (w *world) settle() {
	w.t.Helper()
	for range 10 {
		if len(w.sync()) == 0 {
			return
		}
	}
	w.t.Fatal("the controller writes for ever")
}

// writes returns what was written since it was asked last. Only what the controller does is counted: it alone has the
// clients' own verbs, tests go through the trackers where they must not be seen.
func (w *world) writes() []string {
	kube, client := w.kube.Actions(), w.client.Actions()
	var writes []string
	for _, action := range append(slices.Clone(client[w.seenB:]), kube[w.seen:]...) {
		if text, ok := written(action); ok {
			writes = append(writes, text)
		}
	}
	w.seen, w.seenB = len(kube), len(client)
	return writes
}

func written(action clienttesting.Action) (string, bool) {
	resource := action.GetResource().Resource
	if action.GetSubresource() != "" {
		resource += "/" + action.GetSubresource()
	}
	switch verb := action.GetVerb(); verb {
	case "list", "watch":
		return "", false
	case "create":
		if event, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Event); ok {
			return "event " + event.Reason, true
		}
		return verb + " " + resource, true
	case "patch":
		if action.(clienttesting.PatchAction).GetPatchType() == types.ApplyPatchType {
			verb = "apply"
		}
		if resource == "events" {
			return "event again", true // the recorder counts one that it has just recorded
		}
		return verb + " " + resource, true
	default:
		return verb + " " + resource, true
	}
}

// given makes a Build, changed from one that uses ssh, has a Deployment with a Service, and asks for nothing else.
func (w *world) given(change ...func(*v1alpha1.Build)) {
	w.t.Helper()
	build := &v1alpha1.Build{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app", Generation: 1},
		Spec: v1alpha1.BuildSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{URL: "ssh://git@git.example.com/app.git", Revision: "main", SecretName: "git-creds"}},
			Image:  v1alpha1.Image{Name: "registry.example.com/app:1.0"},
			Deployment: &v1alpha1.Deployment{
				Replicas: ptr.To[int32](2),
				Ports:    []v1alpha1.Port{{Name: "http", ContainerPort: 8080}},
				Service:  &v1alpha1.Service{},
			},
		},
	}
	for _, f := range change {
		f(build)
	}
	_, err := w.client.BuildcontrollerV1alpha1().Builds(namespace).Create(w.ctx, build, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) build() *v1alpha1.Build {
	w.t.Helper()
	build, err := w.client.BuildcontrollerV1alpha1().Builds(namespace).Get(w.ctx, "app", metav1.GetOptions{})
	w.must(err)
	return build
}

// change edits the Build as a user would.
func (w *world) change(f func(*v1alpha1.Build)) {
	w.t.Helper()
	build := w.build()
	f(build)
	build.Generation++
	_, err := w.client.BuildcontrollerV1alpha1().Builds(namespace).Update(w.ctx, build, metav1.UpdateOptions{})
	w.must(err)
}

// jobs returns the Jobs there are, oldest first.
func (w *world) jobs() []batchv1.Job {
	w.t.Helper()
	list, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	slices.SortStableFunc(list.Items, func(a, b batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

// job returns the newest Job.
func (w *world) job() *batchv1.Job {
	w.t.Helper()
	jobs := w.jobs()
	if len(jobs) == 0 {
		w.t.Fatal("there is no Job")
	}
	return &jobs[len(jobs)-1]
}

// pod makes or changes the pod of the newest Job.
func (w *world) pod(phase corev1.PodPhase, change func(*corev1.PodStatus)) {
	w.t.Helper()
	job := w.job()
	pods := w.kube.CoreV1().Pods(namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: job.Name + "-pod", Labels: job.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}}
	if old, err := pods.Get(w.ctx, pod.Name, metav1.GetOptions{}); err == nil {
		pod = old
	} else {
		created, err := pods.Create(w.ctx, pod, metav1.CreateOptions{})
		w.must(err)
		pod = created
	}
	pod.Status = corev1.PodStatus{Phase: phase}
	if change != nil {
		change(&pod.Status)
	}
	_, err := pods.UpdateStatus(w.ctx, pod, metav1.UpdateOptions{})
	w.must(err)
}

func terminated(name, message string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Message: message, FinishedAt: metav1.NewTime(time.Now().Truncate(time.Second)),
	}}}
}

// runSucceeds plays the pod of the newest Job to its good end.
func (w *world) runSucceeds(digest string) {
	w.t.Helper()
	time.Sleep(42 * time.Second)
	w.pod(corev1.PodSucceeded, func(status *corev1.PodStatus) {
		status.InitContainerStatuses = []corev1.ContainerStatus{terminated("git-sync", commit+"\n2026-01-02T03:04:05+02:00\nJane Doe\nAdd a cart\n", 0)}
		status.ContainerStatuses = []corev1.ContainerStatus{terminated("kaniko", digest, 0)}
	})
}

// runFails plays the newest Job to its bad end: the clone fails.
func (w *world) runFails() {
	w.t.Helper()
	time.Sleep(5 * time.Second)
	w.pod(corev1.PodFailed, func(status *corev1.PodStatus) {
		status.InitContainerStatuses = []corev1.ContainerStatus{terminated("git-sync", "fatal: couldn't find remote ref main", 1)}
	})
	w.jobEnds(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
}

// nodeLost plays the newest Job to an end that is nobody's fault.
func (w *world) nodeLost() {
	w.t.Helper()
	w.pod(corev1.PodFailed, func(status *corev1.PodStatus) { status.Reason = "NodeLost" })
	w.jobEnds(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
}

func (w *world) jobEnds(conditionType batchv1.JobConditionType, reason string) {
	w.t.Helper()
	job := w.job()
	job.Status.Conditions = []batchv1.JobCondition{{Type: conditionType, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(time.Now().Add(w.skew))}}
	_, err := w.kube.BatchV1().Jobs(namespace).UpdateStatus(w.ctx, job, metav1.UpdateOptions{})
	w.must(err)
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	deployment, err := w.kube.AppsV1().Deployments(namespace).Get(w.ctx, "app", metav1.GetOptions{})
	w.must(err)
	return deployment
}

// rollout sets what the Deployment controller says of the rollout.
func (w *world) rollout(progressing string, available corev1.ConditionStatus, changes ...func(*appsv1.DeploymentStatus)) {
	w.t.Helper()
	deployment := w.deployment()
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: progressing},
			{Type: appsv1.DeploymentAvailable, Status: available},
		},
	}
	for _, change := range changes {
		change(&deployment.Status)
	}
	_, err := w.kube.AppsV1().Deployments(namespace).UpdateStatus(w.ctx, deployment, metav1.UpdateOptions{})
	w.must(err)
}

// ready brings a fresh Build all the way to Ready.
func (w *world) ready(change ...func(*v1alpha1.Build)) {
	w.t.Helper()
	w.given(change...)
	w.settle()
	w.runSucceeds(digest1)
	w.settle()
	if w.build().Spec.Deployment != nil {
		w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
		w.settle()
	}
	w.wantPhase(v1alpha1.PhaseReady)
}

func (w *world) wantWrites(got []string, want ...string) {
	w.t.Helper()
	// Events are written by a goroutine of their own, so the order tells nothing.
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("writes:\n got %q\nwant %q", got, want)
	}
}

func (w *world) wantPhase(want v1alpha1.Phase) {
	w.t.Helper()
	if got := w.build().Status.Phase; got != want {
		w.t.Errorf("phase is %s, want %s; status %+v", got, want, w.build().Status)
	}
}

func (w *world) wantCondition(conditionType string, status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	got := meta.FindStatusCondition(w.build().Status.Conditions, conditionType)
	if got == nil || got.Status != status || got.Reason != reason {
		w.t.Errorf("condition %s is %+v, want %s with reason %s", conditionType, got, status, reason)
	}
}

// TestSync has a case for every situation that a sync can find. Its cases are sentences about what the controller does.
func TestSync(t *testing.T) {
	for name, test := range map[string]func(*world){
		"a new Build gets the finalizer, one Job, a status and an Event": func(w *world) {
			w.given()
			w.wantWrites(w.sync(), "patch builds", "update builds/status", "create jobs", "event BuildStarted")
			w.wantPhase(v1alpha1.PhaseBuilding)
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionUnknown, v1alpha1.ReasonBuilding)
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionUnknown, v1alpha1.ReasonWaiting)
			if run := w.build().Status.Run; run == nil || run.Job != w.job().Name || run.Revision != "main" {
				w.t.Errorf("run is %+v", run)
			}
		},
		"a Build that is gone is forgotten": func(w *world) {
			w.wantWrites(w.sync())
		},
		"a run that is under way is left alone": func(w *world) {
			w.given()
			w.settle()
			w.pod(corev1.PodRunning, nil)
			w.wantWrites(w.sync())
			if n := len(w.jobs()); n != 1 {
				w.t.Errorf("%d Jobs", n)
			}
		},
		"an own Job that the watch did not show yet is adopted": func(w *world) {
			w.given()
			w.settle()
			w.client.BuildcontrollerV1alpha1().Builds(namespace)
			build := w.build()
			build.Status = v1alpha1.BuildStatus{}
			_, err := w.client.BuildcontrollerV1alpha1().Builds(namespace).UpdateStatus(w.ctx, build, metav1.UpdateOptions{})
			w.must(err)
			synctest.Wait()
			job, obstacle, err := w.c.start(w.ctx, build, plan.Hash(build), 1)
			if err != nil || obstacle != nil || job.UID != w.job().UID {
				w.t.Errorf("start returned %v, %v, %v", job, obstacle, err)
			}
		},
		"a foreign Job of that name is not touched and named in condition and Event": func(w *world) {
			w.given()
			build := w.build()
			_, err := w.kube.BatchV1().Jobs(namespace).Create(w.ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: plan.JobName(build, plan.Hash(build), 1),
			}}, metav1.CreateOptions{})
			w.must(err)
			w.wantWrites(w.sync(), "patch builds", "update builds/status", "create jobs", "get jobs", "event ErrResourceExists")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "ErrResourceExists")
			w.wantPhase(v1alpha1.PhaseFailed)
			w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, w.job().Name, metav1.DeleteOptions{}))
			w.settle()
			w.wantPhase(v1alpha1.PhaseBuilding)
		},
		"a pod that succeeded is a good run, and its image is deployed by digest": func(w *world) {
			w.given()
			w.settle()
			w.runSucceeds(digest1)
			w.wantWrites(w.sync(), "update builds/status", "apply deployments", "apply services", "event BuildSucceeded")
			status := w.build().Status
			if want := "registry.example.com/app@" + digest1; status.Image != want || status.Run.Image != want {
				w.t.Errorf("image is %s and %s, want %s", status.Image, status.Run.Image, want)
			}
			if run := status.Run; run.Commit != commit || run.Author != "Jane Doe" || run.Subject != "Add a cart" || run.Duration != "42s" || run.Result != "Succeeded" {
				w.t.Errorf("run is %+v", run)
			}
			if len(status.History) != 1 {
				w.t.Errorf("history is %+v", status.History)
			}
			if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != status.Image {
				w.t.Errorf("the Deployment runs %s", got)
			}
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
			w.wantPhase(v1alpha1.PhaseDeploying)
			w.jobEnds(batchv1.JobComplete, "")
			w.wantWrites(w.sync())
		},
		"a run that failed says why and is not tried again": func(w *world) {
			w.given()
			w.settle()
			w.runFails()
			w.wantWrites(w.sync(), "update builds/status", "get pods/log", "event BuildFailed")
			w.wantPhase(v1alpha1.PhaseFailed)
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, w.build().Status.Run.Result)
			if w.build().Status.Failure == nil {
				w.t.Error("no failure in the status")
			}
			w.wantWrites(w.sync())
		},
		"a rollout that is available makes the Build ready": func(w *world) {
			w.given()
			w.settle()
			w.runSucceeds(digest1)
			w.settle()
			w.rollout("ReplicaSetUpdated", corev1.ConditionFalse)
			w.wantWrites(w.sync())
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.wantWrites(w.sync(), "update builds/status", "event Deployed")
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"a Build that is ready costs no write": func(w *world) {
			w.ready()
			for range 10 {
				w.wantWrites(w.sync())
			}
		},
		"a rollout that passed its deadline is said in the conditions": func(w *world) {
			w.given()
			w.settle()
			w.runSucceeds(digest1)
			w.settle()
			w.rollout("ProgressDeadlineExceeded", corev1.ConditionFalse)
			w.wantWrites(w.sync(), "update builds/status", "event RolloutFailed")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "RolloutFailed")
			w.wantPhase(v1alpha1.PhaseFailed)
		},
		"pods that go away after the rollout are said in the conditions": func(w *world) {
			w.ready()
			w.rollout("NewReplicaSetAvailable", corev1.ConditionFalse, func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 1 })
			w.wantWrites(w.sync(), "update builds/status", "event Unavailable")
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.wantWrites(w.sync(), "update builds/status", "event again")
		},
		"without a deployment an image is all": func(w *world) {
			w.given(func(b *v1alpha1.Build) { b.Spec.Deployment = nil })
			w.settle()
			w.runSucceeds(digest1)
			w.wantWrites(w.sync(), "update builds/status", "event BuildSucceeded")
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"a change of the replicas is applied without a run": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](5) })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			if got := *w.deployment().Spec.Replicas; got != 5 {
				w.t.Errorf("%d replicas", got)
			}
		},
		"a change of the environment is applied without a run": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Env = []corev1.EnvVar{{Name: "MODE", Value: "dark"}} })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
		},
		"a change of an input makes one new run while the old image goes on": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
			w.wantWrites(w.sync(), "update builds/status", "create jobs", "event BuildStarted")
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
			w.wantPhase(v1alpha1.PhaseBuilding)
			w.wantWrites(w.sync())
			w.runSucceeds(strings.ReplaceAll(digest1, "1", "2"))
			w.wantWrites(w.sync(), "update builds/status", "apply deployments", "event BuildSucceeded")
		},
		"a new value of the rebuild annotation makes one new run, and taking it away none": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: "1"} })
			w.wantWrites(w.sync(), "update builds/status", "create jobs", "event BuildStarted")
			w.runSucceeds(strings.ReplaceAll(digest1, "1", "2"))
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Annotations = nil })
			w.settle()
			if n := len(w.jobs()); n != 2 {
				w.t.Errorf("%d Jobs", n)
			}
		},
		"a running Job that someone deletes is run again": func(w *world) {
			w.given()
			w.settle()
			first := w.job()
			time.Sleep(time.Minute)
			w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, first.Name, metav1.DeleteOptions{}))
			w.wantWrites(w.sync(), "update builds/status", "create jobs", "event again")
			if again := w.job(); again.Name != first.Name || again.UID == first.UID {
				w.t.Errorf("the Job is %s %s, was %s %s", again.Name, again.UID, first.Name, first.UID)
			}
		},
		"a Job is made only when the pods of the one before are gone": func(w *world) {
			w.given()
			w.settle()
			w.pod(corev1.PodRunning, nil)
			w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, w.job().Name, metav1.DeleteOptions{}))
			w.settle()
			if n := len(w.jobs()); n != 0 {
				w.t.Errorf("%d Jobs", n)
			}
			pods, err := w.kube.CoreV1().Pods(namespace).List(w.ctx, metav1.ListOptions{})
			w.must(err)
			w.must(w.kube.CoreV1().Pods(namespace).Delete(w.ctx, pods.Items[0].Name, metav1.DeleteOptions{}))
			w.settle()
			if n := len(w.jobs()); n != 1 {
				w.t.Errorf("%d Jobs", n)
			}
		},
		"a finished Job that someone deletes is not run again": func(w *world) {
			w.ready()
			w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, w.job().Name, metav1.DeleteOptions{}))
			w.wantWrites(w.sync())
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"a failed Job that someone deletes is not run again": func(w *world) {
			w.given()
			w.settle()
			w.runFails()
			w.settle()
			w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, w.job().Name, metav1.DeleteOptions{}))
			w.wantWrites(w.sync())
			w.wantPhase(v1alpha1.PhaseFailed)
		},
		"a Deployment and a Service that someone deletes come back": func(w *world) {
			w.ready()
			w.must(w.kube.AppsV1().Deployments(namespace).Delete(w.ctx, "app", metav1.DeleteOptions{}))
			w.must(w.kube.CoreV1().Services(namespace).Delete(w.ctx, "app", metav1.DeleteOptions{}))
			w.wantWrites(w.sync(), "update builds/status", "apply deployments", "apply services")
		},
		"a hand edit of an owned field is undone once, and others' fields stay": func(w *world) {
			w.ready()
			deployment := w.deployment()
			deployment.Spec.Template.Spec.Containers[0].Image = "evil"
			deployment.Spec.Template.Spec.Containers = append(deployment.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "mesh"})
			_, err := w.kube.AppsV1().Deployments(namespace).Update(w.ctx, deployment, metav1.UpdateOptions{FieldManager: "someone"})
			w.must(err)
			w.wantWrites(w.sync(), "apply deployments")
			w.wantWrites(w.sync())
			if containers := w.deployment().Spec.Template.Spec.Containers; len(containers) != 2 || !strings.HasSuffix(containers[0].Image, digest1) {
				w.t.Errorf("containers are %+v", containers)
			}
		},
		"a Deployment that lost the label we watch by gets it back": func(w *world) {
			w.ready()
			deployment := w.deployment()
			delete(deployment.Labels, v1alpha1.ManagedByLabel)
			_, err := w.kube.AppsV1().Deployments(namespace).Update(w.ctx, deployment, metav1.UpdateOptions{FieldManager: "someone"})
			w.must(err)
			w.sync()
			if w.deployment().Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedBy {
				w.t.Errorf("labels are %v", w.deployment().Labels)
			}
		},
		"a change of a foreign annotation of the Deployment is no news": func(w *world) {
			w.ready()
			deployment := w.deployment()
			deployment.Annotations["who"] = "someone"
			deployment.Generation++
			_, err := w.kube.AppsV1().Deployments(namespace).Update(w.ctx, deployment, metav1.UpdateOptions{FieldManager: "someone"})
			w.must(err)
			w.wantWrites(w.sync())
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"more pods of what runs already are no Event": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](5) })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			w.wantPhase(v1alpha1.PhaseReady)
			// A rollout that was done stays done for the Deployment controller.
			w.rollout("NewReplicaSetAvailable", corev1.ConditionFalse, func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas = 5, 5 })
			w.wantWrites(w.sync(), "update builds/status")
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionUnknown, v1alpha1.ReasonScaling)
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue, func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas, s.AvailableReplicas = 5, 5, 5 })
			w.wantWrites(w.sync(), "update builds/status")
			w.wantPhase(v1alpha1.PhaseReady)
			if replicas := w.build().Status.Replicas; replicas != 5 {
				w.t.Errorf("status has %d replicas", replicas)
			}
		},
		"a change of the deadline alone is no rollout": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.ProgressDeadline = &metav1.Duration{Duration: time.Hour} })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"a foreign Deployment of that name is not touched": func(w *world) {
			w.given()
			_, err := w.kube.AppsV1().Deployments(namespace).Create(w.ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"}}, metav1.CreateOptions{})
			w.must(err)
			w.settle()
			w.runSucceeds(digest1)
			w.wantWrites(w.sync(), "update builds/status", "apply deployments", "get deployments", "event BuildSucceeded", "event ErrResourceExists")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "ErrResourceExists")
			if w.deployment().Spec.Template.Spec.Containers != nil {
				w.t.Error("it was touched")
			}
		},
		"a foreign Service of that name is not touched": func(w *world) {
			w.given()
			_, err := w.kube.CoreV1().Services(namespace).Create(w.ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"}}, metav1.CreateOptions{})
			w.must(err)
			w.settle()
			w.runSucceeds(digest1)
			w.wantWrites(w.sync(), "update builds/status", "apply deployments", "apply services", "get services", "event BuildSucceeded", "event ErrResourceExists")
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "ErrResourceExists")
		},
		"a Service that is not asked for any more is deleted": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Service = nil })
			w.wantWrites(w.sync(), "update builds/status", "delete services")
		},
		"a deployment that is not asked for any more is deleted": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment = nil })
			w.wantWrites(w.sync(), "update builds/status", "delete services", "delete deployments")
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"a suspended Build starts nothing, but keeps its Deployment": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) {
				b.Spec.Suspend = true
				b.Spec.Source.Git.Revision = "v2"
				b.Spec.Deployment.Replicas = ptr.To[int32](3)
			})
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			w.wantPhase(v1alpha1.PhaseSuspended)
			w.change(func(b *v1alpha1.Build) { b.Spec.Suspend = false })
			w.wantWrites(w.sync(), "update builds/status", "create jobs", "event BuildStarted")
		},
		"under Latest new inputs wait for the run of older ones": func(w *world) {
			w.given()
			w.settle()
			w.pod(corev1.PodRunning, nil)
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
			w.wantWrites(w.sync(), "update builds/status")
			w.wantPhase(v1alpha1.PhaseQueued)
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v3" })
			w.settle()
			w.runSucceeds(digest1)
			w.settle()
			if revision := w.build().Status.Run.Revision; len(w.jobs()) != 2 || revision != "v3" {
				w.t.Errorf("%d Jobs, the newest for %s", len(w.jobs()), revision)
			}
			if history := w.build().Status.History; len(history) != 1 || history[0].Revision != "main" {
				w.t.Errorf("history is %+v", history)
			}
		},
		"under Replace new inputs cancel the run of older ones": func(w *world) {
			w.given(func(b *v1alpha1.Build) { b.Spec.RunPolicy = v1alpha1.RunPolicyReplace })
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
			w.wantWrites(w.sync(), "update builds/status", "delete jobs", "event BuildCanceled")
			w.wantWrites(w.sync(), "update builds/status", "create jobs", "event BuildStarted")
		},
		"a run that waits for what is missing gives way to new inputs": func(w *world) {
			w.given()
			w.settle()
			w.secretMissing()
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.SecretName = "other" })
			w.wantWrites(w.sync(), "update builds/status", "delete jobs", "event BuildCanceled")
		},
		"a Secret that does not exist is said at once, and the run goes on when it does": func(w *world) {
			w.given()
			w.settle()
			w.secretMissing()
			w.wantWrites(w.sync(), "update builds/status", "event BuildWaiting")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "SecretNotFound")
			w.wantPhase(v1alpha1.PhasePending)
			w.wantWrites(w.sync())
			w.pod(corev1.PodPending, func(status *corev1.PodStatus) {
				status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "git-sync", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			})
			w.wantWrites(w.sync(), "update builds/status")
			w.wantPhase(v1alpha1.PhaseBuilding)
		},
		"a run that cannot start gives its Job up, keeps the reason and is made anew": func(w *world) {
			w.given()
			w.settle()
			w.secretMissing()
			w.settle()
			first := w.job()
			time.Sleep(11 * time.Second)
			w.wantWrites(w.sync())
			time.Sleep(time.Second)
			w.wantWrites(w.sync(), "delete jobs")
			w.must(w.kube.CoreV1().Pods(namespace).Delete(w.ctx, first.Name+"-pod", metav1.DeleteOptions{}))
			w.wantWrites(w.sync())
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "SecretNotFound")
			w.wantPhase(v1alpha1.PhasePending)
			time.Sleep(17 * time.Second)
			w.wantWrites(w.sync())
			time.Sleep(time.Second)
			w.wantWrites(w.sync(), "update builds/status", "create jobs")
			if job := w.job(); job.Name != first.Name || job.UID == first.UID {
				w.t.Errorf("the Job is %s %s, it was %s %s", job.Name, job.UID, first.Name, first.UID)
			}
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "SecretNotFound")
			w.runSucceeds(digest1)
			w.settle()
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		},
		"suspending a run that cannot start is said, and taking it back starts it at once": func(w *world) {
			w.given()
			w.settle()
			w.secretMissing()
			w.settle()
			pod := w.job().Name + "-pod"
			time.Sleep(12 * time.Second)
			w.wantWrites(w.sync(), "delete jobs")
			w.must(w.kube.CoreV1().Pods(namespace).Delete(w.ctx, pod, metav1.DeleteOptions{}))
			w.change(func(b *v1alpha1.Build) { b.Spec.Suspend = true })
			w.wantWrites(w.sync(), "update builds/status")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionUnknown, v1alpha1.ReasonSuspended)
			w.wantPhase(v1alpha1.PhaseSuspended)
			time.Sleep(time.Hour)
			w.wantWrites(w.sync())
			w.change(func(b *v1alpha1.Build) { b.Spec.Suspend = false })
			w.settle()
			if len(w.jobs()) != 1 {
				w.t.Errorf("%d Jobs", len(w.jobs()))
			}
		},
		"a clock that is ahead of the API server's makes no hot loop of waiting": func(w *world) {
			w.skew = -5 * time.Minute
			w.given()
			w.settle()
			w.secretMissing()
			w.settle()
			pod := w.job().Name + "-pod"
			time.Sleep(13 * time.Second)
			w.wantWrites(w.sync(), "delete jobs")
			w.must(w.kube.CoreV1().Pods(namespace).Delete(w.ctx, pod, metav1.DeleteOptions{}))
			w.wantWrites(w.sync())
			time.Sleep(16 * time.Second)
			w.wantWrites(w.sync())
			time.Sleep(2 * time.Second)
			w.wantWrites(w.sync(), "update builds/status", "create jobs")
			w.pod(corev1.PodPending, nil) // of which the same Event speaks
			time.Sleep(28 * time.Second)
			w.wantWrites(w.sync())
			time.Sleep(3 * time.Second)
			w.wantWrites(w.sync(), "delete jobs")
			w.wantWrites(w.sync())
		},
		"a clock that is behind the API server's tries again in time": func(w *world) {
			w.skew = 5 * time.Minute
			w.given()
			w.settle()
			w.nodeLost()
			w.settle()
			time.Sleep(11 * time.Second)
			w.wantWrites(w.sync(), "update builds/status", "create jobs", "event BuildStarted")
		},
		"a failure that passes by itself is tried again, and again, and then stays": func(w *world) {
			w.given()
			w.settle()
			for attempt := range int32(3) {
				if got := w.build().Status.Run.Attempt; got != attempt+1 {
					w.t.Errorf("attempt is %d, want %d", got, attempt+1)
				}
				w.nodeLost()
				if attempt == 2 {
					w.wantWrites(w.sync(), "update builds/status", "event BuildFailed")
					break
				}
				w.wantWrites(w.sync(), "update builds/status", "event BuildFailed")
				w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionUnknown, v1alpha1.ReasonRetrying)
				w.wantPhase(v1alpha1.PhasePending)
				time.Sleep(10*time.Second<<attempt - time.Second)
				w.wantWrites(w.sync())
				time.Sleep(time.Second)
				w.wantWrites(w.sync(), "update builds/status", "create jobs", "event BuildStarted")
			}
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "NodeLost")
			w.wantPhase(v1alpha1.PhaseFailed)
			if jobs, history := len(w.jobs()), len(w.build().Status.History); jobs != 3 || history != 3 {
				w.t.Errorf("%d Jobs and %d runs in the history, want 3 of each", jobs, history)
			}
			time.Sleep(time.Hour)
			w.wantWrites(w.sync())
		},
		"a run that took too long failed": func(w *world) {
			w.given()
			w.settle()
			w.jobEnds(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
			w.wantWrites(w.sync(), "update builds/status", "event BuildFailed")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "DeadlineExceeded")
		},
		"inputs of before are built anew, since a branch has moved on": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
			w.settle()
			w.runSucceeds(strings.ReplaceAll(digest1, "1", "2"))
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "main" })
			w.wantWrites(w.sync(), "update builds/status", "delete jobs")
			w.wantWrites(w.sync(), "update builds/status", "create jobs", "event again")
			if !strings.HasSuffix(w.build().Status.Image, "2") {
				w.t.Errorf("image is %s", w.build().Status.Image)
			}
		},
		"going back to inputs of before cancels the run between them under Replace": func(w *world) {
			w.ready(func(b *v1alpha1.Build) { b.Spec.RunPolicy = v1alpha1.RunPolicyReplace })
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "main" })
			w.settle()
			w.wantPhase(v1alpha1.PhaseBuilding)
			if jobs := w.jobs(); len(jobs) != 1 || jobs[0].Name != plan.JobName(w.build(), plan.Hash(w.build()), 1) {
				w.t.Errorf("Jobs are %v", jobs)
			}
		},
		"replicas that are left out from now on stay as they are": func(w *world) {
			w.ready(func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](7) })
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = nil })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments", "apply deployments")
			if got := ptr.Deref(w.deployment().Spec.Replicas, 0); got != 7 {
				w.t.Errorf("%d replicas", got)
			}
		},
		"what is left of an earlier Build of that name is waited out": func(w *world) {
			w.given()
			build := w.build()
			earlier := build.DeepCopy()
			earlier.UID = "another"
			_, err := w.kube.BatchV1().Jobs(namespace).Create(w.ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: plan.JobName(build, plan.Hash(build), 1),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(earlier, v1alpha1.BuildKind)},
			}}, metav1.CreateOptions{})
			w.must(err)
			w.wantWrites(w.sync(), "patch builds", "update builds/status", "create jobs", "get jobs")
			w.wantPhase(v1alpha1.PhaseQueued)
		},
		"a Job that is being deleted has not failed": func(w *world) {
			w.given()
			w.settle()
			job := w.job()
			job.DeletionTimestamp, job.Finalizers = ptr.To(metav1.Now()), []string{"foregroundDeletion"}
			_, err := w.kube.BatchV1().Jobs(namespace).Update(w.ctx, job, metav1.UpdateOptions{})
			w.must(err)
			w.runFails()
			w.wantWrites(w.sync())
			w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, job.Name, metav1.DeleteOptions{}))
			w.settle()
			w.wantPhase(v1alpha1.PhaseBuilding)
		},
		"a failed rollout is not taken for the failure of the next run": func(w *world) {
			w.ready()
			w.rollout("ProgressDeadlineExceeded", corev1.ConditionFalse)
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
			w.settle()
			w.jobEnds(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
			time.Sleep(time.Minute)
			w.settle()
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "JobFailed")
		},
		"finished runs beyond the limits are deleted": func(w *world) {
			w.ready(func(b *v1alpha1.Build) { b.Spec.History = &v1alpha1.History{Successful: ptr.To[int32](1)} })
			w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
			w.settle()
			w.runSucceeds(strings.ReplaceAll(digest1, "1", "2"))
			w.wantWrites(w.sync(), "update builds/status", "apply deployments", "delete jobs", "event BuildSucceeded")
			if jobs := w.jobs(); len(jobs) != 1 || jobs[0].Name != w.build().Status.Run.Job {
				w.t.Errorf("Jobs are %v", jobs)
			}
		},
		"a Job that ended is believed when its pod shows up, and not before": func(w *world) {
			w.given()
			w.settle()
			w.pod(corev1.PodRunning, nil)
			w.jobEnds(batchv1.JobComplete, "")
			w.wantWrites(w.sync())
			w.runSucceeds(digest1)
			w.settle()
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
		},
		"a Job that ended and whose pod never shows up failed": func(w *world) {
			w.given()
			w.settle()
			w.jobEnds(batchv1.JobComplete, "")
			w.wantWrites(w.sync())
			time.Sleep(time.Minute)
			w.settle()
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "DigestMissing")
		},
		"a Job that the API server refuses is said, and tried again later": func(w *world) {
			w.given()
			w.kube.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(batchv1.Resource("jobs"), "app", fmt.Errorf("policy says no"))
			})
			w.wantWrites(w.sync(), "patch builds", "update builds/status", "create jobs", "event Rejected")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "Rejected")
		},
		"a registry that is not allowed is said, no run is started, and what runs goes on": func(w *world) {
			w.given()
			w.settle()
			w.runSucceeds(digest1)
			w.settle()
			w.change(func(build *v1alpha1.Build) { build.Spec.Image.Name = "registry.example.org/app:1.0" })
			w.wantWrites(w.sync(), "update builds/status", "event NotAllowed")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionFalse, "NotAllowed")
			if message := w.build().Status.Failure.Message; !strings.Contains(message, "spec.image.name") || !strings.Contains(message, "*.example.com") {
				w.t.Errorf("the message is %q", message)
			}
			w.wantWrites(w.sync())
			w.change(func(build *v1alpha1.Build) { build.Spec.Image.Name = "registry.example.com/app:2.0" })
			w.wantWrites(w.sync(), "create jobs", "update builds/status", "event BuildStarted")
		},
		"a Job of a Build that was deleted before the finalizer was on it is stopped": func(w *world) {
			w.given()
			w.client.PrependReactor("update", "builds", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewNotFound(v1alpha1.Resource("builds"), "app")
			})
			w.wantWrites(w.sync(), "patch builds", "create jobs", "update builds/status", "delete jobs")
			if n := len(w.jobs()); n != 0 {
				w.t.Errorf("%d Jobs are left", n)
			}
		},
		"a server error is tried again and changes no status": func(w *world) {
			w.given()
			w.kube.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewInternalError(fmt.Errorf("etcd is down"))
			})
			if writes, err := w.trySync(); err == nil || slices.Contains(writes, "update builds/status") {
				w.t.Errorf("sync returned %v after %q", err, writes)
			}
		},
		"a deleted Build stops its Job and waits for the pods before it goes": func(w *world) {
			w.given()
			w.settle()
			w.pod(corev1.PodRunning, nil)
			name := w.job().Name
			w.change(func(b *v1alpha1.Build) { b.DeletionTimestamp = ptr.To(metav1.Now()) })
			w.wantWrites(w.sync(), "delete jobs")
			w.wantWrites(w.sync())
			w.must(w.kube.CoreV1().Pods(namespace).Delete(w.ctx, name+"-pod", metav1.DeleteOptions{}))
			w.wantWrites(w.sync(), "patch builds")
		},
		"nothing is made for a Build that is being deleted": func(w *world) {
			w.given(func(b *v1alpha1.Build) {
				b.DeletionTimestamp = ptr.To(metav1.Now())
				b.Finalizers = []string{"someone/else"}
			})
			w.wantWrites(w.sync())
		},
		"finished Jobs do not hold a deleted Build back": func(w *world) {
			w.ready()
			w.jobEnds(batchv1.JobComplete, "")
			w.change(func(b *v1alpha1.Build) { b.DeletionTimestamp = ptr.To(metav1.Now()) })
			w.wantWrites(w.sync(), "patch builds")
		},
	} {
		t.Run(name, func(t *testing.T) { inWorld(t, test) })
	}
}

// secretMissing plays what the kubelet does about a Secret that does not exist.
func (w *world) secretMissing() {
	w.t.Helper()
	w.pod(corev1.PodPending, nil)
	pod := w.job().Name + "-pod"
	_, err := w.kube.CoreV1().Events(namespace).Create(w.ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: pod + ".1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod},
		Reason:         "FailedMount",
		Message:        `MountVolume.SetUp failed for volume "git" : secret "git-creds" not found`,
	}, metav1.CreateOptions{})
	w.must(err)
}

const digest2 = "sha256:2222222222222222222222222222222222222222222222222222222222222222"

// moves has a Build that is Ready build a second image, whose rollout is then under way.
func (w *world) moves() {
	w.t.Helper()
	w.change(func(b *v1alpha1.Build) { b.Spec.Source.Git.Revision = "v2" })
	w.settle()
	w.runSucceeds(digest2)
	w.settle()
	w.rollout("ReplicaSetUpdated", corev1.ConditionTrue)
	deployment := w.deployment()
	deployment.Status.UpdatedReplicas = 1
	_, err := w.kube.AppsV1().Deployments(namespace).UpdateStatus(w.ctx, deployment, metav1.UpdateOptions{})
	w.must(err)
	w.wantRuns(digest2)
}

// appPod makes or changes a pod of the rollout that is under way.
func (w *world) appPod(change func(*corev1.PodStatus)) {
	w.t.Helper()
	rollout := w.deployment().Spec.Template.Annotations[v1alpha1.RolloutAnnotation]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "app-" + rollout,
			Labels:      map[string]string{v1alpha1.AppLabel: "app"},
			Annotations: map[string]string{v1alpha1.RolloutAnnotation: rollout},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-1", UID: "replicas", Controller: ptr.To(true),
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	change(&pod.Status)
	pods := w.kube.CoreV1().Pods(namespace)
	if _, err := pods.Create(w.ctx, pod.DeepCopy(), metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = pods.UpdateStatus(w.ctx, pod, metav1.UpdateOptions{})
		w.must(err)
	}
}

// crashed is the status of a pod whose container has ended that often after the first time.
func crashed(restarts int32) func(*corev1.PodStatus) {
	return func(status *corev1.PodStatus) {
		status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", RestartCount: restarts,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
		}}
	}
}

func (w *world) wantRuns(digest string) {
	w.t.Helper()
	if image := w.deployment().Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, digest) {
		w.t.Errorf("the Deployment runs %s, not %s", image, digest)
	}
}

// logsRead counts how often a log was asked for since it was counted last.
func (w *world) logsRead() int {
	n := 0
	for _, action := range w.kube.Actions() {
		if action.GetResource().Resource == "pods" && action.GetSubresource() == "log" {
			n++
		}
	}
	w.kube.ClearActions()
	w.seen = 0
	return n
}

// existing makes a Deployment that somebody else made, with the name of the Build.
func (w *world) existing(container string) {
	w.t.Helper()
	labels := map[string]string{"run": "app"}
	_, err := w.kube.AppsV1().Deployments(namespace).Create(w.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: "old"}}},
			},
		},
	}, metav1.CreateOptions{FieldManager: "someone"})
	w.must(err)
	_, err = w.kube.CoreV1().Services(namespace).Create(w.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"},
		Spec:       corev1.ServiceSpec{Selector: labels},
	}, metav1.CreateOptions{FieldManager: "someone"})
	w.must(err)
}

func (w *world) service() *corev1.Service {
	w.t.Helper()
	service, err := w.kube.CoreV1().Services(namespace).Get(w.ctx, "app", metav1.GetOptions{})
	w.must(err)
	return service
}

func adopting(b *v1alpha1.Build)  { b.Spec.Deployment.Adopt = true }
func retaining(b *v1alpha1.Build) { b.Spec.Deployment.DeletionPolicy = v1alpha1.DeletionPolicyRetain }
func withIngress(b *v1alpha1.Build) {
	b.Spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "shop.example.com", TLSSecretName: "shop-tls"}
}

// TestSyncOfTheApplication is TestSync for what comes after the image.
func TestSyncOfTheApplication(t *testing.T) {
	for name, test := range map[string]func(*world){
		"a pod that crashes is said at once, with the end of its log": func(w *world) {
			w.ready()
			w.moves()
			w.appPod(crashed(1))
			w.wantWrites(w.sync(), "update builds/status", "event RolloutWaiting", "get pods/log")
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionUnknown, "CrashLoopBackOff")
			w.wantPhase(v1alpha1.PhaseDeploying)
			if failure := w.build().Status.Failure; failure == nil || failure.LogTail != "fake logs" || *failure.ExitCode != 3 {
				w.t.Errorf("failure is %+v", failure)
			}
		},
		"the log is read once, and once more when the rollout is given up": func(w *world) {
			w.ready(func(b *v1alpha1.Build) { b.Spec.Deployment.OnFailure = v1alpha1.OnFailureKeep })
			w.moves()
			w.logsRead()
			for restarts, want := range []int{0, 1, 1, 0, 0} {
				w.appPod(crashed(int32(restarts)))
				w.settle()
				w.settle()
				if n := w.logsRead(); n != want {
					w.t.Errorf("after %d restarts the log was read %d times, not %d", restarts, n, want)
				}
			}
		},
		"a rollout that surely fails is taken back, which is remembered": func(w *world) {
			w.ready()
			w.moves()
			w.appPod(crashed(2))
			w.wantWrites(w.sync(), "update builds/status", "event RolloutFailed", "event RolledBack", "get pods/log")
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			w.wantRuns(digest1)
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.wantWrites(w.sync(), "update builds/status")
			w.wantWrites(w.sync())
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "CrashLoopBackOff")
			w.wantPhase(v1alpha1.PhaseFailed)
			status := w.build().Status
			if back := status.Rollback; back == nil || !strings.HasSuffix(back.From, digest2) || !strings.HasSuffix(back.To, digest1) {
				w.t.Errorf("rollback is %+v", back)
			}
			if status.Failure == nil || status.Failure.LogTail != "fake logs" || !strings.HasSuffix(status.Image, digest2) || !strings.HasSuffix(status.DeployedImage, digest1) {
				w.t.Errorf("status is %+v", status)
			}
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](3) })
			w.settle()
			w.wantRuns(digest1)
		},
		"an image that was taken back is tried again when other pods are asked for": func(w *world) {
			w.ready()
			w.moves()
			w.appPod(crashed(2))
			w.settle()
			w.wantRuns(digest1)
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Env = []corev1.EnvVar{{Name: "TILL", Value: "open"}} })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			w.wantRuns(digest2)
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionUnknown, v1alpha1.ReasonDeploying)
		},
		"an image that was taken back is tried again when somebody asks": func(w *world) {
			w.ready()
			w.moves()
			w.appPod(crashed(2))
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RedeployAnnotation: "1"} })
			w.settle()
			w.wantRuns(digest2)
		},
		"an image that was taken back is tried again when it is built again": func(w *world) {
			w.ready()
			w.moves()
			w.appPod(crashed(2))
			w.settle()
			w.change(func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: "1"} })
			w.settle()
			w.wantPhase(v1alpha1.PhaseBuilding)
			w.wantRuns(digest1)
			w.runSucceeds(digest2)
			w.sync()
			w.wantRuns(digest2)
		},
		"a rollout past its deadline is taken back": func(w *world) {
			w.ready()
			w.moves()
			w.rollout("ProgressDeadlineExceeded", corev1.ConditionTrue)
			w.settle()
			w.wantRuns(digest1)
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "RolloutFailed")
		},
		"under Keep a rollout that failed stays, and may recover": func(w *world) {
			w.ready(func(b *v1alpha1.Build) { b.Spec.Deployment.OnFailure = v1alpha1.OnFailureKeep })
			w.moves()
			w.appPod(crashed(2))
			w.settle()
			w.wantRuns(digest2)
			w.wantPhase(v1alpha1.PhaseFailed)
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.settle()
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"a first image that fails has nothing to return to": func(w *world) {
			w.given()
			w.settle()
			w.runSucceeds(digest1)
			w.settle()
			w.rollout("ReplicaSetUpdated", corev1.ConditionFalse)
			w.appPod(crashed(2))
			w.settle()
			w.wantRuns(digest1)
			w.wantPhase(v1alpha1.PhaseFailed)
			if back := w.build().Status.Rollback; back != nil {
				w.t.Errorf("rollback is %+v", back)
			}
		},
		"a container that does not get ready is said after a while": func(w *world) {
			w.ready()
			w.moves()
			started := metav1.NewTime(time.Now().Truncate(time.Second))
			w.appPod(func(status *corev1.PodStatus) {
				status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
			})
			w.wantWrites(w.sync())
			time.Sleep(21 * time.Second)
			w.wantWrites(w.sync(), "update builds/status", "event RolloutWaiting", "get pods/log")
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionUnknown, "NotReady")
			w.wantWrites(w.sync())
		},
		"spec.deployment.rollback keeps the Deployment at an older image": func(w *world) {
			w.ready()
			w.moves()
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.settle()
			for _, job := range w.jobs() {
				w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, job.Name, metav1.DeleteOptions{}))
			}
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = digest1[:19] })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			w.wantRuns(digest1)
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.settle()
			w.wantPhase(v1alpha1.PhaseReady)
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = "" })
			w.settle()
			w.wantRuns(digest2)
		},
		"a rollback to an image that is not known leaves the Deployment alone": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = digest2 })
			w.wantWrites(w.sync(), "update builds/status", "event RollbackNotFound")
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "RollbackNotFound")
			w.wantRuns(digest1)
			w.wantWrites(w.sync())
		},
		"a template that cannot be merged leaves the Deployment alone": func(w *world) {
			w.ready()
			w.change(func(b *v1alpha1.Build) {
				b.Spec.Deployment.Template = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(`{"hostNetwerk":true}`)}}
			})
			w.wantWrites(w.sync(), "update builds/status", "event InvalidTemplate")
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "InvalidTemplate")
			w.wantRuns(digest1)
			w.wantWrites(w.sync())
		},
		"an image that got well by hand is not taken back once more": func(w *world) {
			w.ready()
			w.moves()
			w.appPod(crashed(2))
			w.settle()
			w.wantRuns(digest1)
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = digest2 })
			w.settle()
			w.wantRuns(digest2)
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.settle()
			w.wantPhase(v1alpha1.PhaseReady)
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = "" })
			w.settle()
			w.wantRuns(digest2)
			w.wantPhase(v1alpha1.PhaseReady)
		},
		"an image that was rolled out to no pods is taken back when its first ones fail": func(w *world) {
			none := func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas, s.AvailableReplicas = 0, 0, 0 }
			w.ready()
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](0) })
			w.settle()
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue, none)
			w.settle()
			w.moves()
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue, none)
			w.settle()
			w.wantPhase(v1alpha1.PhaseReady)
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](1) })
			w.settle()
			w.rollout("NewReplicaSetAvailable", corev1.ConditionFalse, none, func(s *appsv1.DeploymentStatus) { s.Replicas, s.UpdatedReplicas = 1, 1 })
			w.appPod(crashed(2))
			w.settle()
			w.wantRuns(digest1)
		},
		"no log is read that is not shown": func(w *world) {
			w.ready()
			w.moves()
			w.appPod(crashed(2))
			w.settle()
			w.wantRuns(digest1)
			w.rollout("ReplicaSetUpdated", corev1.ConditionFalse)
			w.appPod(crashed(1))
			w.settle()
			w.logsRead()
			for range 5 {
				w.wantWrites(w.sync())
			}
			if n := w.logsRead(); n != 0 {
				w.t.Errorf("it was read %d times", n)
			}
		},
		"an error on the way to the application does not keep the end of a run from being said": func(w *world) {
			w.given(withIngress)
			w.kube.PrependReactor("patch", "ingresses", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewInternalError(errors.New("failed calling webhook: " + strings.Repeat("no route to host ", 3000)))
			})
			w.settle()
			w.runSucceeds(digest1)
			writes, err := w.trySync()
			if err == nil {
				w.t.Error("it is not tried again")
			}
			w.wantWrites(writes, "apply deployments", "apply services", "apply ingresses", "update builds/status", "event BuildSucceeded", "event Rejected")
			w.wantCondition(v1alpha1.ConditionBuilt, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "Rejected")
			if said := len(w.build().Status.Failure.Message); said > 2000 {
				w.t.Errorf("%d characters are said", said)
			}
		},
		"an Ingress is made and taken away, and gives the URL": func(w *world) {
			w.ready()
			if url := w.build().Status.URL; url != "http://app.shop.svc:8080" {
				w.t.Errorf("url is %q", url)
			}
			w.change(withIngress)
			w.wantWrites(w.sync(), "update builds/status", "apply ingresses")
			if url := w.build().Status.URL; url != "https://shop.example.com" {
				w.t.Errorf("url is %q", url)
			}
			w.wantWrites(w.sync())
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Ingress = nil })
			w.wantWrites(w.sync(), "update builds/status", "delete ingresses")
		},
		"what admission changes is not asked for again at every sync": func(w *world) {
			w.kube.PrependReactor("patch", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
				handled, obj, err := w.newGeneration(action)
				if err != nil {
					return handled, obj, err
				}
				obj.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = "mirror.example.com/app"
				return true, obj, w.kube.Tracker().Update(action.GetResource(), obj, namespace)
			})
			w.ready()
			for range 10 {
				w.wantWrites(w.sync())
			}
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.Env = []corev1.EnvVar{{Name: "MODE", Value: "dark"}} })
			w.wantWrites(w.sync(), "update builds/status", "apply deployments")
			deployment := w.deployment()
			deployment.Spec.Template.Spec.Containers[0].Env = nil
			_, err := w.kube.AppsV1().Deployments(namespace).Update(w.ctx, deployment, metav1.UpdateOptions{FieldManager: "someone"})
			w.must(err)
			w.wantWrites(w.sync(), "apply deployments")
		},
		"an existing Deployment is adopted on request, and its Service when all pods are new": func(w *world) {
			w.given(adopting)
			w.existing("app")
			w.settle()
			w.runSucceeds(digest1)
			w.wantWrites(w.sync(), "apply deployments", "get deployments", "apply deployments", "update builds/status", "event BuildSucceeded")
			w.wantRuns(digest1)
			if selector := w.deployment().Spec.Selector.MatchLabels; len(selector) != 1 || selector["run"] != "app" {
				w.t.Errorf("its selector became %v", selector)
			}
			if labels := w.deployment().Spec.Template.Labels; labels["run"] != "app" || labels[v1alpha1.AppLabel] != "app" {
				w.t.Errorf("its pods have the labels %v", labels)
			}
			if !metav1.IsControlledBy(w.deployment(), w.build()) || w.service().Spec.Selector["run"] == "" {
				w.t.Error("the Service moved before the pods, or the Deployment did not")
			}
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue)
			w.wantWrites(w.sync(), "apply services", "get services", "apply services", "update builds/status", "event Deployed")
			if service := w.service(); !metav1.IsControlledBy(service, w.build()) || service.Spec.Selector[v1alpha1.AppLabel] != "app" {
				w.t.Errorf("the Service is %+v", service)
			}
			w.wantPhase(v1alpha1.PhaseReady)
			if selector := w.build().Status.Selector; selector != "run=app" {
				w.t.Errorf("the selector in status is %q", selector)
			}
			w.settle()
		},
		"a Service that is gone comes back although adopt is still there and a pod is away": func(w *world) {
			w.ready(adopting)
			w.rollout("NewReplicaSetAvailable", corev1.ConditionTrue, func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 1 })
			w.must(w.kube.CoreV1().Services(namespace).Delete(w.ctx, "app", metav1.DeleteOptions{}))
			w.wantWrites(w.sync(), "apply services")
		},
		"replicas that a Build left behind are handed over to the next one that leaves them out": func(w *world) {
			w.ready(retaining, func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](3) })
			w.collected()
			w.given(adopting, func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = nil })
			w.settle()
			w.runSucceeds(digest2)
			w.settle()
			w.wantRuns(digest2)
			if replicas := w.deployment().Spec.Replicas; replicas == nil || *replicas != 3 {
				w.t.Errorf("replicas are %v", replicas)
			}
		},
		"a Deployment without such a container is not adopted": func(w *world) {
			w.given(adopting)
			w.existing("web")
			w.settle()
			w.runSucceeds(digest1)
			w.sync()
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "ErrResourceExists")
			w.wantRuns("old")
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.ContainerName = "web" })
			w.settle()
			w.wantRuns(digest1)
		},
		"a Deployment of another controller is not adopted": func(w *world) {
			w.given(adopting)
			w.existing("app")
			deployment := w.deployment()
			deployment.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "other", UID: "other", Controller: ptr.To(true)}}
			_, err := w.kube.AppsV1().Deployments(namespace).Update(w.ctx, deployment, metav1.UpdateOptions{})
			w.must(err)
			w.settle()
			w.runSucceeds(digest1)
			w.sync()
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "ErrResourceExists")
			w.wantRuns("old")
		},
		"under Retain nothing of the application has an owner, and it stays when the Build goes": func(w *world) {
			w.ready(retaining, withIngress)
			w.jobEnds(batchv1.JobComplete, "")
			w.wantOwners(0)
			w.wantWrites(w.sync())
			w.change(func(b *v1alpha1.Build) { b.DeletionTimestamp = ptr.To(metav1.Now()) })
			w.wantWrites(w.sync(), "patch builds")
		},
		"when Retain is set owners are taken off, and put back when it is taken away": func(w *world) {
			w.ready(withIngress)
			w.wantOwners(1)
			w.change(retaining)
			w.wantWrites(w.sync(), "apply deployments", "apply services", "apply ingresses", "update builds/status")
			w.wantOwners(0)
			w.wantWrites(w.sync())
			w.change(func(b *v1alpha1.Build) { b.Spec.Deployment.DeletionPolicy = "" })
			w.wantWrites(w.sync(), "apply deployments", "apply services", "apply ingresses", "update builds/status")
			w.wantOwners(1)
		},
		"Retain counts although it was set just before the Build was deleted": func(w *world) {
			w.ready(withIngress)
			w.jobEnds(batchv1.JobComplete, "")
			w.change(func(b *v1alpha1.Build) { retaining(b); b.DeletionTimestamp = ptr.To(metav1.Now()) })
			w.wantWrites(w.sync(), "patch deployments", "patch services", "patch ingresses", "patch builds")
			w.wantOwners(0)
		},
		"and so does taking it away": func(w *world) {
			w.ready(withIngress, retaining)
			w.jobEnds(batchv1.JobComplete, "")
			w.change(func(b *v1alpha1.Build) {
				b.Spec.Deployment.DeletionPolicy = v1alpha1.DeletionPolicyDelete
				b.DeletionTimestamp = ptr.To(metav1.Now())
			})
			w.wantWrites(w.sync(), "delete deployments", "delete services", "delete ingresses", "patch builds")
		},
		"what a Build left behind is taken over by the next one of its name only when that asks for it": func(w *world) {
			w.ready(retaining)
			build := w.build()
			w.collected()
			w.given()
			w.settle()
			if w.build().UID == build.UID {
				w.t.Fatal("it is the same Build")
			}
			w.runSucceeds(digest2)
			w.settle()
			w.wantCondition(v1alpha1.ConditionDeployed, metav1.ConditionFalse, "ErrResourceExists")
			w.wantRuns(digest1)
			w.change(adopting)
			w.settle()
			w.wantRuns(digest2)
		},
	} {
		t.Run(name, func(t *testing.T) { inWorld(t, test) })
	}
}

// collected takes the Build away, and its newest Job and that Job's pod as garbage collection does.
func (w *world) collected() {
	w.t.Helper()
	job := w.job().Name
	w.must(w.client.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("builds"), namespace, "app"))
	w.must(w.kube.CoreV1().Pods(namespace).Delete(w.ctx, job+"-pod", metav1.DeleteOptions{}))
	w.must(w.kube.BatchV1().Jobs(namespace).Delete(w.ctx, job, metav1.DeleteOptions{}))
}

// wantOwners expects that each object of the application has that many owners.
func (w *world) wantOwners(want int) {
	w.t.Helper()
	ingress, err := w.kube.NetworkingV1().Ingresses(namespace).Get(w.ctx, "app", metav1.GetOptions{})
	w.must(err)
	for kind, object := range map[string]metav1.Object{"Deployment": w.deployment(), "Service": w.service(), "Ingress": ingress} {
		if owners := object.GetOwnerReferences(); len(owners) != want {
			w.t.Errorf("the %s has the owners %v", kind, owners)
		}
	}
}
