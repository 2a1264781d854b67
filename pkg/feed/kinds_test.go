package feed

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// runner is a Feed of whatever kind.
type runner interface {
	Run(context.Context)
	HasSynced() bool
}

func nobody[T any](_, _ *T) {}

func TestFeedsAskOnlyForWhatTheyAreFor(t *testing.T) {
	const managed = "app.kubernetes.io/managed-by=build-controller"
	logger := klog.Background()
	for name, c := range map[string]struct {
		feed          func(kubernetes.Interface) runner
		label, fields string
	}{
		"jobs": {label: managed, feed: func(c kubernetes.Interface) runner { return Jobs(logger, c, metav1.NamespaceAll, nobody[batchv1.Job]) }},
		"pods": {label: managed, feed: func(c kubernetes.Interface) runner { return Pods(logger, c, metav1.NamespaceAll, nobody[corev1.Pod]) }},
		"deployments": {label: managed, feed: func(c kubernetes.Interface) runner {
			return Deployments(logger, c, metav1.NamespaceAll, nobody[appsv1.Deployment])
		}},
		"services": {label: managed, feed: func(c kubernetes.Interface) runner {
			return Services(logger, c, metav1.NamespaceAll, nobody[corev1.Service])
		}},
		"ingresses": {label: managed, feed: func(c kubernetes.Interface) runner {
			return Ingresses(logger, c, metav1.NamespaceAll, nobody[networkingv1.Ingress])
		}},
		"pods of applications": {
			label: "buildcontroller.dev/app",
			feed: func(c kubernetes.Interface) runner {
				return AppPods(logger, c, metav1.NamespaceAll, nobody[corev1.Pod])
			},
		},
		"events of mounts that failed": {
			fields: "involvedObject.kind=Pod,reason=FailedMount",
			feed: func(c kubernetes.Interface) runner {
				return MountFailures(logger, c, metav1.NamespaceAll, nobody[corev1.Event])
			},
		},
		"events of pods that were not created": {
			fields: "involvedObject.kind=Job,reason=FailedCreate",
			feed: func(c kubernetes.Interface) runner {
				return CreateFailures(logger, c, metav1.NamespaceAll, nobody[corev1.Event])
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			inFeed(t, func() runner { return c.feed(kube) }, func() {
				asked := map[string]bool{}
				for _, action := range kube.Actions() {
					var restrictions clienttesting.ListRestrictions
					switch action := action.(type) {
					case clienttesting.ListAction:
						restrictions = action.GetListRestrictions()
					case clienttesting.WatchAction:
						restrictions = clienttesting.ListRestrictions{
							Labels: action.GetWatchRestrictions().Labels, Fields: action.GetWatchRestrictions().Fields,
						}
					}
					asked[action.GetVerb()] = true
					if restrictions.Labels.String() != c.label || restrictions.Fields.String() != c.fields {
						t.Errorf("%s asks for labels %q and fields %q", action.GetVerb(), restrictions.Labels, restrictions.Fields)
					}
				}
				if !asked["list"] || !asked["watch"] {
					t.Errorf("asked %v", asked)
				}
			})
		})
	}
}

var fromAnApplier = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}}

func TestOfJobsOnlyTheStatusIsKeptAndTheyAreFiledUnderTheirOwner(t *testing.T) {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "shop-1", ManagedFields: fromAnApplier,
			Labels:          map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy},
			Annotations:     map[string]string{v1alpha1.InputsAnnotation: "hash"},
			OwnerReferences: []metav1.OwnerReference{{UID: "not this"}, {UID: "uid", Controller: ptr.To(true)}},
		},
		Spec:   batchv1.JobSpec{BackoffLimit: ptr.To[int32](0)},
		Status: batchv1.JobStatus{Failed: 1},
	}
	want := job.DeepCopy()
	want.ManagedFields, want.Spec = nil, batchv1.JobSpec{}
	feed := Jobs(klog.Background(), fake.NewClientset(job), metav1.NamespaceAll, nobody[batchv1.Job])
	inFeed(t, func() runner { return feed }, func() {
		wantOnly(t, feed.ByIndex(ByOwner, "uid"), want)
		wantOnly(t, feed.ByIndex(ByOwner, "not this"))
	})
}

func TestAJobOfNobodyIsFiledNowhere(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy}}}
	feed := Jobs(klog.Background(), fake.NewClientset(job), metav1.NamespaceAll, nobody[batchv1.Job])
	inFeed(t, func() runner { return feed }, func() {
		if _, ok := feed.Get(cache.NewObjectName("team", "a")); !ok {
			t.Error("it is not there")
		}
		wantOnly(t, feed.ByIndex(ByOwner, ""))
	})
}

func TestOfAnApplicationsPodsThatAreReadyOnlyThatIsKept(t *testing.T) {
	for name, ready := range map[string]corev1.ConditionStatus{"ready": corev1.ConditionTrue, "not ready": corev1.ConditionFalse} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "team", Name: "shop-7f-abc", ManagedFields: fromAnApplier,
					Labels:      map[string]string{v1alpha1.AppLabel: "shop", "pod-template-hash": "7f"},
					Annotations: map[string]string{v1alpha1.RolloutAnnotation: "hash", "example.com/large": "x"},
				},
				Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "app", Image: "shop"}}},
				Status: corev1.PodStatus{
					Phase: corev1.PodRunning, PodIP: "192.0.2.1",
					Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
					ContainerStatuses: []corev1.ContainerStatus{{Name: "app", RestartCount: 2}},
				},
			}
			want := pod.DeepCopy()
			want.ManagedFields, want.Spec, want.Status.PodIP = nil, corev1.PodSpec{}, ""
			want.Labels, want.Annotations = map[string]string{v1alpha1.AppLabel: "shop"}, map[string]string{v1alpha1.RolloutAnnotation: "hash"}
			if ready == corev1.ConditionTrue {
				want.Status.ContainerStatuses = nil
			}
			feed := AppPods(klog.Background(), fake.NewClientset(pod), metav1.NamespaceAll, nobody[corev1.Pod])
			inFeed(t, func() runner { return feed }, func() { wantOnly(t, feed.ByIndex(ByBuild, BuildKey("team", "shop")), want) })
		})
	}
}

func TestOfPodsTheSpecIsNotKeptAndTheyAreFiledUnderTheirBuild(t *testing.T) {
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "shop-1-abc", ManagedFields: fromAnApplier,
			Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy, v1alpha1.BuildLabel: "shop"},
		},
		Spec: corev1.PodSpec{
			NodeName:       "node",
			InitContainers: []corev1.Container{{Name: "git-sync", Args: []string{"--repo=x"}}},
			Containers:     []corev1.Container{{Name: "kaniko", Image: "kaniko", Resources: limits}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"},
	}
	want := pod.DeepCopy()
	want.ManagedFields = nil
	want.Spec = corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "git-sync"}},
		Containers:     []corev1.Container{{Name: "kaniko", Resources: limits}},
	}
	feed := Pods(klog.Background(), fake.NewClientset(pod), metav1.NamespaceAll, nobody[corev1.Pod])
	inFeed(t, func() runner { return feed }, func() {
		wantOnly(t, feed.ByIndex(ByBuild, BuildKey("team", "shop")), want)
		wantOnly(t, feed.ByIndex(ByBuild, BuildKey("other", "shop")))
	})
}

func TestStrippingAPodTwiceIsStrippingItOnce(t *testing.T) {
	feed := Pods(klog.Background(), fake.NewClientset(), metav1.NamespaceAll, nobody[corev1.Pod])
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kaniko", Image: "x"}}}}
	feed.options.Strip(pod)
	once := pod.DeepCopy()
	feed.options.Strip(pod)
	if !reflect.DeepEqual(pod, once) {
		t.Errorf("twice gives %v", pod)
	}
}

func TestDeploymentsAndServicesAreKeptWhole(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "team", Name: "shop", ManagedFields: fromAnApplier,
		Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy},
	}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}
	kube, name := fake.NewClientset(deployment.DeepCopy(), service.DeepCopy()), cache.NewObjectName("team", "shop")
	deployment.ManagedFields, service.ManagedFields = nil, nil

	deployments := Deployments(klog.Background(), kube, metav1.NamespaceAll, nobody[appsv1.Deployment])
	inFeed(t, func() runner { return deployments }, func() {
		got, _ := deployments.Get(name)
		wantOnly(t, []*appsv1.Deployment{got}, deployment)
	})
	services := Services(klog.Background(), kube, metav1.NamespaceAll, nobody[corev1.Service])
	inFeed(t, func() runner { return services }, func() {
		got, _ := services.Get(name)
		wantOnly(t, []*corev1.Service{got}, service)
	})
}

func TestEventsAreFiledUnderWhatTheySpeakOf(t *testing.T) {
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "team", Name: "e"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team", Name: "shop-1-abc"},
		Reason:         "FailedMount",
	}
	feed := MountFailures(klog.Background(), fake.NewClientset(event.DeepCopy()), metav1.NamespaceAll, nobody[corev1.Event])
	inFeed(t, func() runner { return feed }, func() {
		wantOnly(t, feed.ByIndex(ByInvolved, InvolvedKey("Pod", "team", "shop-1-abc")), event)
		wantOnly(t, feed.ByIndex(ByInvolved, InvolvedKey("Job", "team", "shop-1-abc")))
	})
}

// inFeed runs the test while the Feed runs and has synced.
func inFeed(t *testing.T, feed func() runner, test func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f, ended := feed(), make(chan struct{})
		go func() {
			defer close(ended)
			f.Run(ctx)
		}()
		synctest.Wait()
		if !f.HasSynced() {
			t.Error("not synced")
		}
		test()
		cancel()
		<-ended
	})
}

func wantOnly[T kruntime.Object](t *testing.T, got []T, want ...T) {
	t.Helper()
	if len(got) != len(want) || len(want) == 1 && !reflect.DeepEqual(got[0], want[0]) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// unreachable returns a client whose every call fails.
func unreachable() kubernetes.Interface {
	kube := fake.NewClientset()
	kube.PrependReactor("*", "*", func(clienttesting.Action) (bool, kruntime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	return kube
}
