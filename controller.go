package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/admission"
	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/feed"
	clientset "github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned"
	"github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned/scheme"
	informers "github.com/buildcontroller/build-controller/pkg/generated/informers/externalversions/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/observe"
	"github.com/buildcontroller/build-controller/pkg/owned"
	"github.com/buildcontroller/build-controller/pkg/plan"
	"github.com/buildcontroller/build-controller/pkg/policy"
	"github.com/buildcontroller/build-controller/pkg/recorder"
)

const (
	// resync is how often every Build is looked at although nothing changed. It costs memory reads only.
	resync = 10 * time.Minute
	// syncTimeout bounds the writes of one sync.
	syncTimeout = time.Minute
	// logTimeout, logLines and logBytes bound what is read of the end of a failed container's log.
	logTimeout = 5 * time.Second
	logLines   = 400
	logBytes   = 256 << 10
)

// Controller brings every Build to what its spec says. All its state is in the API server: it can
// be killed at any moment, and the next one goes on.
type Controller struct {
	kube   kubernetes.Interface
	client clientset.Interface
	steps  plan.Steps
	policy policy.Policy
	// clock is this machine's, and skew how far the API server's is ahead of it: times are compared with the API server's.
	clock clock.PassiveClock
	skew  atomic.Int64

	// Builds come through the generated shared informer; own outweighs it until it shows our own last write.
	informer cache.SharedIndexInformer
	own      feed.Own[*v1alpha1.Build]

	// What the controller makes, and what happens to it, comes through feeds.
	jobs           *feed.Feed[*batchv1.Job]
	pods           *feed.Feed[*corev1.Pod]
	appPods        *feed.Feed[*corev1.Pod]
	deployments    *owned.Objects[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration]
	services       *owned.Objects[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	ingresses      *owned.Objects[*networkingv1.Ingress, *networkingv1ac.IngressApplyConfiguration]
	mountFailures  *feed.Feed[*corev1.Event]
	createFailures *feed.Feed[*corev1.Event]

	// queue holds the names of Builds to look at: each once, and never given to two workers at a time.
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	events *recorder.Recorder
}

// Settings say what a Controller works on, and how.
type Settings struct {
	// Namespace whose Builds are worked on; metav1.NamespaceAll for all.
	Namespace string
	// Steps are the containers of a run.
	Steps plan.Steps
	// Policy is what Builds may name.
	Policy policy.Policy
}

// NewBuildInformer returns the informer of the Builds of one namespace, or of all if that is metav1.NamespaceAll.
func NewBuildInformer(client clientset.Interface, namespace string) cache.SharedIndexInformer {
	informer := informers.NewBuildInformer(client, namespace, resync, admission.Indexers)
	utilruntime.Must(informer.SetWatchErrorHandlerWithContext(onWatchError))
	return informer
}

// NewController returns a Controller; Run makes it work. The informer is from NewBuildInformer, and somebody else's to run, since it
// has other readers.
func NewController(ctx context.Context, kube kubernetes.Interface, client clientset.Interface, informer cache.SharedIndexInformer, settings Settings, clock clock.PassiveClock) *Controller {
	logger, namespace := klog.FromContext(ctx), settings.Namespace
	c := &Controller{
		kube: kube, client: client, steps: settings.Steps, policy: settings.Policy, clock: clock, informer: informer,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedMaxOfRateLimiter(
				workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, 5*time.Minute),
				&workqueue.TypedBucketRateLimiter[cache.ObjectName]{Limiter: rate.NewLimiter(50, 500)},
			),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "builds"},
		),
		events: recorder.New(ctx, kube, scheme.Scheme, v1alpha1.ManagedBy),
	}
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueue,
		UpdateFunc: func(_, obj any) {
			c.own.Saw(obj.(*v1alpha1.Build))
			c.enqueue(obj)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			c.own.Gone(obj.(*v1alpha1.Build))
		},
	})
	utilruntime.Must(err)

	// A change of anything else is a reason to look at the Build it belongs to.
	c.jobs = feed.Jobs(logger, kube, namespace, func(old, new *batchv1.Job) { c.enqueueOwner(either(old, new)) })
	c.pods = feed.Pods(logger, kube, namespace, func(old, new *corev1.Pod) { c.enqueuePodsBuild(either(old, new)) })
	c.deployments = owned.New("Deployment",
		feed.Deployments(logger, kube, namespace, func(old, new *appsv1.Deployment) { c.enqueue(either(old, new)) }),
		func(namespace string) owned.Client[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration] {
			return kube.AppsV1().Deployments(namespace)
		})
	c.services = owned.New("Service",
		feed.Services(logger, kube, namespace, func(old, new *corev1.Service) { c.enqueue(either(old, new)) }),
		func(namespace string) owned.Client[*corev1.Service, *corev1ac.ServiceApplyConfiguration] {
			return kube.CoreV1().Services(namespace)
		})
	c.ingresses = owned.New("Ingress",
		feed.Ingresses(logger, kube, namespace, func(old, new *networkingv1.Ingress) { c.enqueue(either(old, new)) }),
		func(namespace string) owned.Client[*networkingv1.Ingress, *networkingv1ac.IngressApplyConfiguration] {
			return kube.NetworkingV1().Ingresses(namespace)
		})
	c.appPods = feed.AppPods(logger, kube, namespace, func(old, new *corev1.Pod) { c.enqueuePodsBuild(either(old, new)) })
	c.mountFailures = feed.MountFailures(logger, kube, namespace, func(_, new *corev1.Event) {
		if new == nil {
			return
		}
		for _, pods := range []*feed.Feed[*corev1.Pod]{c.pods, c.appPods} {
			if pod, ok := pods.Get(involved(new)); ok {
				c.enqueuePodsBuild(pod)
			}
		}
	})
	c.createFailures = feed.CreateFailures(logger, kube, namespace, func(_, new *corev1.Event) {
		if new != nil {
			if job, ok := c.jobs.Get(involved(new)); ok {
				c.enqueueOwner(job)
			}
		}
	})
	return c
}

// Run works until ctx ends, and returns when everything under way is done. It ends in order: no more changes
// come in, the workers finish what they have in hand, the last Events are written.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer utilruntime.HandleCrashWithContext(ctx)
	logger := klog.FromContext(ctx)

	var feeds, working sync.WaitGroup
	feeds.Go(func() { c.jobs.Run(ctx) })
	feeds.Go(func() { c.pods.Run(ctx) })
	feeds.Go(func() { c.deployments.Run(ctx) })
	feeds.Go(func() { c.services.Run(ctx) })
	feeds.Go(func() { c.ingresses.Run(ctx) })
	feeds.Go(func() { c.appPods.Run(ctx) })
	feeds.Go(func() { c.mountFailures.Run(ctx) })
	feeds.Go(func() { c.createFailures.Run(ctx) })

	logger.Info("Waiting for the caches to fill")
	if cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced, c.jobs.HasSynced, c.pods.HasSynced, c.deployments.HasSynced,
		c.services.HasSynced, c.ingresses.HasSynced, c.appPods.HasSynced, c.mountFailures.HasSynced, c.createFailures.HasSynced) {
		logger.Info("Working", "workers", workers)
		for range workers {
			working.Go(func() { c.work(ctx) })
		}
		<-ctx.Done()
	}

	logger.Info("Shutting down")
	feeds.Wait()
	c.queue.ShutDown()
	working.Wait()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	c.events.Flush(flush, &v1alpha1.Build{})
}

// work syncs one Build after the other until ctx ends.
func (c *Controller) work(ctx context.Context) {
	for ctx.Err() == nil {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.process(ctx, name)
	}
}

// process syncs one Build, and decides when to look at it again.
func (c *Controller) process(ctx context.Context, name cache.ObjectName) {
	defer c.queue.Done(name)
	// A sync that has begun ends, although the controller is asked to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncTimeout)
	defer cancel()
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "build", klog.KRef(name.Namespace, name.Name))

	again, err := c.sync(klog.NewContext(ctx, logger), name)
	switch {
	case apierrors.IsConflict(err):
		logger.V(2).Info("The cache is behind, trying again", "reason", err)
		c.queue.AddRateLimited(name)
	case err != nil:
		utilruntime.HandleErrorWithLogger(logger, err, "Sync failed, trying again")
		c.queue.AddRateLimited(name)
	default:
		c.queue.Forget(name)
		if again > 0 {
			c.queue.AddAfter(name, again)
		}
	}
}

// sync brings one Build to what its spec says: gather, observe, plan, act, report. It returns when to look again
// although nothing may have changed by then; zero means never.
func (c *Controller) sync(ctx context.Context, name cache.ObjectName) (time.Duration, error) {
	build, ok := c.build(name)
	if !ok {
		return 0, nil // what it owned goes by garbage collection
	}
	jobs := c.jobs.ByIndex(feed.ByOwner, string(build.UID))
	pods := slices.DeleteFunc(c.pods.ByIndex(feed.ByBuild, feed.BuildKey(build.Namespace, build.Name)), func(pod *corev1.Pod) bool {
		return !ofRun(pod, build) // a label is quickly copied
	})
	if build.DeletionTimestamp != nil {
		return 0, c.finalize(ctx, build, jobs, pods)
	}
	build, err := c.ensureFinalizer(ctx, build)
	if err != nil {
		return 0, err
	}

	hash := plan.Hash(build)
	runs := c.observe(ctx, build, jobs, pods)
	step := plan.Next(build, hash, jobs, pods, runs, c.now())
	outcome := observe.Outcome{Hold: step.Hold}
	if err := c.stop(ctx, build, step.Stop, runs); err != nil {
		return 0, err
	}
	var started []*batchv1.Job
	if step.Start > 0 {
		job, obstacle, err := c.start(ctx, build, hash, step.Start)
		switch {
		case err != nil:
			return 0, err
		case job != nil:
			started = []*batchv1.Job{job}
			runs = append(runs, c.observe(ctx, build, started, pods)...)
		case obstacle == nil:
			outcome.Hold = observe.Queued
		}
		outcome.Obstacle = obstacle
	}

	status := observe.Runs(build, hash, runs)
	app, obstacle, failed := c.deploy(ctx, build, &status)
	switch {
	case apierrors.IsConflict(failed):
		return 0, failed
	case failed != nil: // what became of the run is worth a report all the same
		obstacle = owned.Unexpected(failed)
	default:
		app.Trouble = c.trouble(ctx, build, app, obstacle == nil)
	}
	outcome.App = app
	if outcome.Obstacle == nil {
		outcome.Obstacle = obstacle
	}

	status = observe.Conclude(build, status, hash, outcome, metav1.NewTime(c.now()))
	err = c.report(ctx, build, status)
	if apierrors.IsNotFound(err) {
		// Deleted before our finalizer was on it. Garbage collection may take its time, and what was started must not push.
		return 0, c.remove(ctx, started, metav1.DeletePropagationForeground)
	}
	if err != nil {
		return 0, err
	}
	// After the report: a run whose Job is gone must be in the history, or it would be built again.
	return recheck(step, runs, outcome), errors.Join(failed, c.remove(ctx, plan.Prune(status, jobs, runs), metav1.DeletePropagationBackground))
}

// build returns the Build as it was last seen or written, whichever is newer; ok is false when there is none.
func (c *Controller) build(name cache.ObjectName) (build *v1alpha1.Build, ok bool) {
	shown, exists := c.shown(name)
	if !exists {
		return nil, false
	}
	return c.own.Newest(name, shown, true)
}

// shown is the Build as the informer shows it.
func (c *Controller) shown(name cache.ObjectName) (*v1alpha1.Build, bool) {
	obj, exists, err := c.informer.GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return nil, false
	}
	return obj.(*v1alpha1.Build), true
}

// observe tells what became of the runs that the status does not remember as finished. Only for
// one that has just failed it asks the API server: for the log that says why.
func (c *Controller) observe(ctx context.Context, build *v1alpha1.Build, jobs []*batchv1.Job, pods []*corev1.Pod) []observe.Run {
	var runs []observe.Run
	for _, job := range jobs {
		if observe.Remembers(build.Status, job) {
			continue
		}
		evidence := observe.Evidence{Job: job, Build: build, Before: observe.Before(build.Status, job)}
		evidence.Events = append(evidence.Events, c.createFailures.ByIndex(feed.ByInvolved, feed.InvolvedKey("Job", job.Namespace, job.Name))...)
		for _, pod := range pods {
			if metav1.IsControlledBy(pod, job) {
				evidence.Pods = append(evidence.Pods, pod)
				evidence.Events = append(evidence.Events, c.mountFailures.ByIndex(feed.ByInvolved, feed.InvolvedKey("Pod", pod.Namespace, pod.Name))...)
			}
		}
		run := observe.Observe(evidence, c.now())
		if run.Ended() && run.Failure != nil {
			evidence.Log = c.failedLog(ctx, job.Namespace, evidence.Pods)
			run = observe.Observe(evidence, c.now())
		}
		runs = append(runs, run)
	}
	return runs
}

// failedLog returns the end of the log of the container that failed, or nothing when it cannot be had.
func (c *Controller) failedLog(ctx context.Context, namespace string, pods []*corev1.Pod) string {
	pod, container, ok := observe.FailedContainer(pods)
	if !ok {
		return ""
	}
	return c.log(ctx, namespace, pod, container, false)
}

// log returns the end of a container's log, or nothing when it cannot be had; previous is that of the run before.
func (c *Controller) log(ctx context.Context, namespace, pod, container string, previous bool) string {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	stream, err := c.kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: ptr.To[int64](logLines), // not LimitBytes, which would cut the end off
	}).Stream(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Log of a container cannot be read", "pod", pod, "container", container, "reason", err)
		return ""
	}
	defer func() { _ = stream.Close() }()
	var log tail
	_, _ = io.Copy(&log, stream) // what was read before an error still helps
	return string(log)
}

// tail keeps the last logBytes of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if surplus := len(*t) - logBytes; surplus > 0 {
		*t = append((*t)[:0], (*t)[surplus:]...)
	}
	return len(p), nil
}

// start makes the Job of an attempt at the newest inputs. Its name is made of their hash, so it is made once, whatever crashes when. It returns
// neither a Job nor an obstacle while garbage collection is about to make room.
func (c *Controller) start(ctx context.Context, build *v1alpha1.Build, hash string, attempt int32) (*batchv1.Job, *v1alpha1.Failure, error) {
	if refused := c.policy.Check(build); len(refused) > 0 {
		return nil, owned.NotAllowed(refused), nil
	}
	jobs, asked := c.kube.BatchV1().Jobs(build.Namespace), c.clock.Now()
	job, err := jobs.Create(ctx, plan.Job(build, hash, attempt, c.steps), metav1.CreateOptions{FieldManager: v1alpha1.ManagedBy})
	if err == nil {
		c.setClock(asked, job.CreationTimestamp.Time)
	}
	if apierrors.IsAlreadyExists(err) {
		// Our own earlier write that the watch has not shown yet, or an object of somebody else.
		job, err = jobs.Get(ctx, plan.JobName(build, hash, attempt), metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(job, build) {
			return nil, owned.Foreign(build, "Job", job, v1alpha1.StepSchedule), nil
		}
	}
	if owned.Refused(err) {
		return nil, owned.Rejection("Job", v1alpha1.StepSchedule, err), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("creating Job %s: %w", plan.JobName(build, hash, attempt), err)
	}
	klog.FromContext(ctx).Info("Started a run", "job", klog.KObj(job), "inputs", hash, "attempt", attempt)
	c.jobs.Wrote(job)
	return job, nil, nil
}

// now is the time by the API server's clock, from which most times come that are compared with it. On a laptop whose clock is
// ahead every pause would be over before it began.
func (c *Controller) now() time.Time { return c.clock.Now().Add(time.Duration(c.skew.Load())) }

// setClock learns the API server's clock from what was asked for then and made now, or in between: that is no difference, nor are the
// fractions of a second that the API server's times lack.
func (c *Controller) setClock(asked, made time.Time) {
	const tolerance = 2 * time.Second
	skew := made.Sub(asked)
	if skew > 0 {
		skew = max(0, made.Sub(c.clock.Now()))
	}
	if skew.Abs() < tolerance {
		skew = 0
	}
	c.skew.Store(int64(skew))
}

// stop ends Jobs that are in the way. In the foreground: such a Job stays until its pods are gone, and whoever waits
// for its end knows that nothing of it runs any more.
func (c *Controller) stop(ctx context.Context, build *v1alpha1.Build, jobs []*batchv1.Job, runs []observe.Run) error {
	if err := c.remove(ctx, jobs, metav1.DeletePropagationForeground); err != nil {
		return err
	}
	for _, job := range jobs {
		underWay := slices.ContainsFunc(runs, func(run observe.Run) bool { return run.Job == job.Name && !run.Stuck })
		if underWay && job.DeletionTimestamp == nil {
			event := observe.EventCanceled(job.Name)
			c.events.Event(build, event.Type, event.Reason, event.Message)
		}
	}
	return nil
}

// remove deletes Jobs, and through garbage collection their pods.
func (c *Controller) remove(ctx context.Context, jobs []*batchv1.Job, propagation metav1.DeletionPropagation) error {
	for _, job := range jobs {
		if job.DeletionTimestamp != nil {
			continue
		}
		klog.FromContext(ctx).Info("Deleting a Job", "job", klog.KObj(job))
		err := c.kube.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, owned.OnlyThis(job, propagation))
		if err != nil && !owned.Gone(err) {
			return fmt.Errorf("deleting Job %s: %w", job.Name, err)
		}
	}
	return nil
}

// deploy brings Deployment, Service and Ingress to what the spec says, and returns them as they are then. In the status it forgets a
// rollout that failed once that is not to be held against the image any more.
func (c *Controller) deploy(ctx context.Context, build *v1alpha1.Build, status *v1alpha1.BuildStatus) (app observe.Application, obstacle *v1alpha1.Failure, err error) {
	spec := build.Spec.Deployment
	if spec == nil || spec.Ingress == nil {
		err = c.ingresses.Remove(ctx, build)
	}
	if err == nil && (spec == nil || spec.Service == nil) {
		err = c.services.Remove(ctx, build)
	}
	if err == nil && spec == nil {
		err = c.deployments.Remove(ctx, build)
	}
	if err != nil || spec == nil {
		return app, nil, err
	}

	app.Service, app.Ingress = c.services.Of(build), c.ingresses.Of(build)
	app.Image, status.Rollback, obstacle = plan.Target(build, *status)
	if obstacle != nil || app.Image == "" {
		return app, obstacle, nil
	}
	if live, exists := c.deployments.Get(cache.NewObjectName(build.Namespace, build.Name)); exists && owned.MayApply(build, live) {
		if handover := plan.Handover(build, app.Image, live); handover != nil {
			if _, err := c.kube.AppsV1().Deployments(build.Namespace).Apply(ctx, handover, metav1.ApplyOptions{FieldManager: v1alpha1.ManagedBy + "-replicas", Force: true}); err != nil {
				return app, nil, fmt.Errorf("handing the replicas over: %w", err)
			}
		}
	}
	app.Deployment, obstacle, err = c.deployments.Apply(ctx, build, func(live *appsv1.Deployment) (*appsv1ac.DeploymentApplyConfiguration, *v1alpha1.Failure) {
		return plan.Deployment(build, app.Image, live)
	})
	if err != nil || obstacle != nil || app.Deployment == nil {
		return app, obstacle, err
	}
	// A Service that is adopted finds the pods by our label, which they all have when the Deployment that was adopted is rolled out.
	mayMove := !spec.Adopt || status.DeployedImage != "" || observe.RolledOut(app.Deployment)
	if spec.Service != nil && (mayMove || app.Service != nil) {
		app.Service, obstacle, err = c.services.Apply(ctx, build, func(*corev1.Service) (*corev1ac.ServiceApplyConfiguration, *v1alpha1.Failure) {
			return plan.Service(build), nil
		})
	}
	if err == nil && obstacle == nil && spec.Ingress != nil && (mayMove || app.Ingress != nil) {
		app.Ingress, obstacle, err = c.ingresses.Apply(ctx, build, func(*networkingv1.Ingress) (*networkingv1ac.IngressApplyConfiguration, *v1alpha1.Failure) {
			return plan.Ingress(build), nil
		})
	}
	return app, obstacle, err
}

// trouble looks at the pods of the rollout for what keeps them from becoming available. For a container that crashes or does not get
// ready it asks the API server once: for the log that says why, if that is going to be shown.
func (c *Controller) trouble(ctx context.Context, build *v1alpha1.Build, app observe.Application, shown bool) observe.Trouble {
	if !observe.MayBeInTrouble(build, app) {
		return observe.Trouble{}
	}
	var events []*corev1.Event
	pods := slices.DeleteFunc(c.appPods.ByIndex(feed.ByBuild, feed.BuildKey(build.Namespace, build.Name)), func(pod *corev1.Pod) bool {
		return !observe.OfRollout(pod, app.Deployment)
	})
	for _, pod := range pods {
		events = append(events, c.mountFailures.ByIndex(feed.ByInvolved, feed.InvolvedKey("Pod", pod.Namespace, pod.Name))...)
	}
	trouble := observe.FindTrouble(build, app, pods, events, c.now())
	if shown && trouble.Container != "" && !trouble.Known(build) {
		trouble.Read(c.log(ctx, build.Namespace, trouble.Pod, trouble.Container, trouble.Previous))
	}
	return trouble
}

// report writes the status if it is another than before, and then records what the change is worth. Never the other
// way round: an Event whose status was not written would be recorded again.
func (c *Controller) report(ctx context.Context, build *v1alpha1.Build, status v1alpha1.BuildStatus) error {
	if equality.Semantic.DeepEqual(build.Status, status) {
		return nil
	}
	changed := build.DeepCopy()
	changed.Status = status
	written, err := c.client.BuildcontrollerV1alpha1().Builds(build.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{FieldManager: v1alpha1.ManagedBy})
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	c.own.Wrote(written, c.shown)
	for _, event := range observe.Events(build.Status, status) {
		c.events.Event(build, event.Type, event.Reason, event.Message)
	}
	return nil
}

// finalize lets a deleted Build go once nothing of it can push any more. It never makes anything.
func (c *Controller) finalize(ctx context.Context, build *v1alpha1.Build, jobs []*batchv1.Job, pods []*corev1.Pod) error {
	if !slices.Contains(build.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	var running []*batchv1.Job
	for _, job := range jobs {
		if !observe.Finished(job) {
			running = append(running, job)
		}
	}
	if err := c.remove(ctx, running, metav1.DeletePropagationForeground); err != nil {
		return err
	}
	if len(running) > 0 || slices.ContainsFunc(pods, observe.Active) {
		return nil // their end is an event that brings us back
	}
	err := errors.Join(c.ingresses.Release(ctx, build), c.services.Release(ctx, build), c.deployments.Release(ctx, build))
	if err != nil {
		return err
	}
	without := slices.DeleteFunc(slices.Clone(build.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	_, err = c.patchFinalizers(ctx, build, without)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ensureFinalizer returns the Build with our finalizer on it.
func (c *Controller) ensureFinalizer(ctx context.Context, build *v1alpha1.Build) (*v1alpha1.Build, error) {
	if slices.Contains(build.Finalizers, v1alpha1.Finalizer) {
		return build, nil
	}
	return c.patchFinalizers(ctx, build, append(slices.Clone(build.Finalizers), v1alpha1.Finalizer))
}

func (c *Controller) patchFinalizers(ctx context.Context, build *v1alpha1.Build, finalizers []string) (*v1alpha1.Build, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": build.ResourceVersion, // others may change the list too
	}})
	if err != nil {
		return nil, err
	}
	patched, err := c.client.BuildcontrollerV1alpha1().Builds(build.Namespace).
		Patch(ctx, build.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.ManagedBy})
	if err != nil {
		return nil, fmt.Errorf("setting the finalizers: %w", err)
	}
	c.own.Wrote(patched, c.shown)
	return patched, nil
}

// enqueue puts the Build that obj is on the queue.
func (c *Controller) enqueue(obj any) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		c.queue.Add(name)
	}
}

// enqueueOwner puts the Build that controls obj on the queue.
func (c *Controller) enqueueOwner(obj metav1.Object) {
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil && owner.Kind == v1alpha1.BuildKind.Kind {
		c.queue.Add(cache.NewObjectName(obj.GetNamespace(), owner.Name))
	}
}

// enqueuePodsBuild puts the Build that a pod builds or runs on the queue.
func (c *Controller) enqueuePodsBuild(pod *corev1.Pod) {
	if name := cmp.Or(pod.Labels[v1alpha1.BuildLabel], pod.Labels[v1alpha1.AppLabel]); name != "" {
		c.queue.Add(cache.NewObjectName(pod.Namespace, name))
	}
}

// onWatchError says what a user can mend, once a retry, and leaves the rest to client-go.
func onWatchError(ctx context.Context, reflector *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Info("The CustomResourceDefinition is not installed; apply artifacts/crd.yaml. Trying again",
			"crd", v1alpha1.Resource("builds").String())
		return
	}
	cache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// recheck is the soonest time at which something is worth another look.
func recheck(step plan.Step, runs []observe.Run, outcome observe.Outcome) time.Duration {
	times := []time.Duration{step.After, outcome.App.Trouble.Recheck}
	if outcome.Obstacle != nil {
		times = append(times, owned.RetryAfter)
	}
	for _, run := range runs {
		times = append(times, run.Recheck)
	}
	times = slices.DeleteFunc(times, func(d time.Duration) bool { return d <= 0 })
	if len(times) == 0 {
		return 0
	}
	return slices.Min(times)
}

// ofRun says whether the pod belongs to a Job that is named after the Build.
func ofRun(pod *corev1.Pod, build *v1alpha1.Build) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.Name, build.Name+"-")
}

func involved(event *corev1.Event) cache.ObjectName {
	return cache.NewObjectName(event.InvolvedObject.Namespace, event.InvolvedObject.Name)
}

// either is the newer of the two that is there.
func either[T any](old, new *T) *T {
	if new != nil {
		return new
	}
	return old
}
