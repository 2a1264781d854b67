package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	buildfake "github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned/fake"
	"github.com/buildcontroller/build-controller/pkg/observe"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// The benchmarks have a cluster of this size in the caches, all of it Ready.
const (
	benchBuilds = 10_000
	benchRuns   = 5 // of each Build, remembered, with a Job and its pod
	benchPods   = 2 // of each application
)

// BenchmarkSync is a sync of a Ready Build that finds nothing to do.
func BenchmarkSync(b *testing.B) {
	crowd := newCrowd("builds", "jobs", "pods", "deployments", "apppods")
	c, stop := crowd.controller(b)
	defer stop()
	ctx := context.Background()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if again, err := c.sync(ctx, cache.NewObjectName(namespace, nameAt(i%benchBuilds))); err != nil || again != 0 {
			b.Fatal(again, err)
		}
	}
	b.StopTimer()
	for _, action := range append(crowd.kube.Actions(), crowd.client.Actions()...) {
		if text, ok := written(action); ok {
			b.Fatalf("it wrote: %s", text)
		}
	}
}

// BenchmarkHeap tells what the caches hold of each object. Run it with -benchtime=1x.
func BenchmarkHeap(b *testing.B) {
	for _, c := range []struct {
		kinds []string
		of    int
		unit  string
	}{
		{[]string{"builds"}, benchBuilds, "B/Build"},
		{[]string{"jobs"}, benchBuilds * benchRuns, "B/Job"},
		{[]string{"pods"}, benchBuilds * benchRuns, "B/Pod"},
		{[]string{"deployments"}, benchBuilds, "B/Deployment"},
		{[]string{"apppods"}, benchBuilds * benchPods, "B/Pod"},
		{[]string{"builds", "jobs", "pods", "deployments", "apppods"}, benchBuilds, "B/Build-with-all"},
	} {
		b.Run(strings.Join(c.kinds, "+"), func(b *testing.B) {
			for range b.N {
				before := heapBytes()
				_, stop := newCrowd(c.kinds...).controller(b)
				grown := heapBytes() - before
				b.ReportMetric(float64(grown)/float64(c.of), c.unit)
				b.ReportMetric(float64(grown)/(1<<20), "MiB")
				b.ReportMetric(0, "ns/op") // says how fast the objects are made here, no more
				stop()
			}
		})
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// crowd is an API server that has many Builds. Its objects are made anew when they are listed, and decoded
// as a client does, so that they share no memory.
type crowd struct {
	kube   *fake.Clientset
	client *buildfake.Clientset
}

func newCrowd(kinds ...string) *crowd {
	c := &crowd{fake.NewClientset(), buildfake.NewClientset()}
	for _, kind := range kinds {
		lists := func(clienttesting.Action) (bool, kruntime.Object, error) { return true, crowdOf(kind), nil }
		switch kind {
		case "builds":
			c.client.PrependReactor("list", kind, lists)
		case "pods", "apppods":
			c.kube.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, kruntime.Object, error) {
				ofApp := strings.Contains(action.(clienttesting.ListAction).GetListRestrictions().Labels.String(), v1alpha1.AppLabel)
				if ofApp != (kind == "apppods") {
					return false, nil, nil
				}
				return lists(action)
			})
		default:
			c.kube.PrependReactor("list", kind, lists)
		}
	}
	return c
}

// controller returns one whose caches are full; its workers are not running.
func (c *crowd) controller(b *testing.B) (controller *Controller, stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{})) // which logs nothing
	informer := NewBuildInformer(c.client, metav1.NamespaceAll)
	controller = NewController(ctx, c.kube, c.client, informer, Settings{}, clock.RealClock{})
	var ended sync.WaitGroup
	ended.Go(func() { informer.RunWithContext(ctx) })
	ended.Go(func() { controller.Run(ctx, 0) })
	if !cache.WaitForCacheSync(ctx.Done(), controller.informer.HasSynced, controller.jobs.HasSynced, controller.pods.HasSynced,
		controller.deployments.HasSynced, controller.appPods.HasSynced) {
		b.Fatal("the caches did not fill")
	}
	return controller, func() {
		cancel()
		ended.Wait()
	}
}

// crowdOf lists all objects of a kind: those of the first Build, decoded once more for each, with its name in place of the first's.
func crowdOf(kind string) kruntime.Object {
	build, jobs, pods, deployment := member()
	switch kind {
	case "builds":
		list := &v1alpha1.BuildList{}
		encoded, err := json.Marshal(build)
		for i := range benchBuilds {
			list.Items = append(list.Items, v1alpha1.Build{})
			must(err, json.Unmarshal(renamed(encoded, i), &list.Items[i]))
		}
		return list
	case "jobs":
		list := &batchv1.JobList{}
		for r, job := range jobs {
			encoded, err := job.Marshal()
			for i := range benchBuilds {
				list.Items = append(list.Items, batchv1.Job{})
				must(err, list.Items[r*benchBuilds+i].Unmarshal(renamed(encoded, i)))
			}
		}
		return list
	case "pods":
		list := &corev1.PodList{}
		for r, pod := range pods {
			encoded, err := pod.Marshal()
			for i := range benchBuilds {
				list.Items = append(list.Items, corev1.Pod{})
				must(err, list.Items[r*benchBuilds+i].Unmarshal(renamed(encoded, i)))
			}
		}
		return list
	case "apppods":
		list := &corev1.PodList{}
		for r := range benchPods {
			pod := appPod(deployment, r)
			encoded, err := pod.Marshal()
			for i := range benchBuilds {
				list.Items = append(list.Items, corev1.Pod{})
				must(err, list.Items[r*benchBuilds+i].Unmarshal(renamed(encoded, i)))
			}
		}
		return list
	default:
		list := &appsv1.DeploymentList{}
		encoded, err := deployment.Marshal()
		for i := range benchBuilds {
			list.Items = append(list.Items, appsv1.Deployment{})
			must(err, list.Items[i].Unmarshal(renamed(encoded, i)))
			build.Name, build.UID = nameAt(i), types.UID("build-"+nameAt(i)) // the mark of what was applied covers them
			applied, _ := plan.Deployment(build, build.Status.Image, nil)
			list.Items[i].Annotations, list.Items[i].Spec.Template.Annotations = applied.Annotations, applied.Spec.Template.Annotations
		}
		return list
	}
}

// nameAt has the same length for all, so that it can be replaced in encoded objects.
func nameAt(i int) string { return fmt.Sprintf("app-%05d", i) }

func renamed(encoded []byte, i int) []byte {
	return bytes.ReplaceAll(encoded, []byte(nameAt(0)), []byte(nameAt(i)))
}

func must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}

// member is the first Build, which is Ready, and all that belongs to it.
func member() (*v1alpha1.Build, []*batchv1.Job, []*corev1.Pod, *appsv1.Deployment) {
	build := &v1alpha1.Build{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: nameAt(0), UID: types.UID("build-" + nameAt(0)),
			Generation: 1, ResourceVersion: "1", Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.BuildSpec{
			Source:     v1alpha1.Source{Git: v1alpha1.GitSource{URL: "ssh://git@git.example.com/app.git", SecretName: "git-creds"}},
			Image:      v1alpha1.Image{Name: "registry.example.com/shop:1.0"},
			Deployment: &v1alpha1.Deployment{Replicas: ptr.To[int32](2), Ports: []v1alpha1.Port{{Name: "http", ContainerPort: 8080}}},
			History:    &v1alpha1.History{Successful: ptr.To[int32](benchRuns)},
		},
	}
	made := time.Unix(1_800_000_000, 0)
	var jobs []*batchv1.Job
	var pods []*corev1.Pod
	var runs []observe.Run
	for r := range benchRuns {
		build.Spec.Source.Git.Revision = fmt.Sprint("v1.", r)
		job := plan.Job(build, plan.Hash(build), 1, plan.Steps{GitSync: "git-sync:test", Kaniko: "kaniko:test"})
		job.UID, job.ResourceVersion, job.CreationTimestamp = types.UID(fmt.Sprint("job-", nameAt(0), "-", r)), "1", metav1.NewTime(made.Add(time.Duration(r)*time.Hour))
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(made)}}
		job.ManagedFields = writtenBy("build-controller", "kube-controller-manager")
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: job.Name + "-x7k2p", Labels: job.Labels, UID: types.UID(fmt.Sprint("pod-", nameAt(0), "-", r)), ResourceVersion: "1",
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
				ManagedFields:   writtenBy("kube-controller-manager", "kubelet"),
			},
			Spec: job.Spec.Template.Spec,
			Status: corev1.PodStatus{
				Phase:                 corev1.PodSucceeded,
				InitContainerStatuses: []corev1.ContainerStatus{terminated("git-sync", commit+"\n2026-01-02T03:04:05+02:00\nJane Doe\nAdd a cart\n", 0)},
				ContainerStatuses:     []corev1.ContainerStatus{terminated("kaniko", digest1, 0)},
			},
		}
		jobs, pods = append(jobs, job), append(pods, pod)
		runs = append(runs, observe.Observe(observe.Evidence{Job: job, Pods: []*corev1.Pod{pod}, Build: build}, made))
	}

	hash := plan.Hash(build)
	build.Status = observe.Runs(build, hash, runs)
	deployment := &appsv1.Deployment{}
	applied, _ := plan.Deployment(build, build.Status.Image, nil)
	encoded, err := json.Marshal(applied)
	must(err, json.Unmarshal(encoded, deployment))
	deployment.UID, deployment.ResourceVersion, deployment.Generation = types.UID("deployment-"+nameAt(0)), "1", 1
	deployment.ManagedFields = writtenBy("build-controller", "kube-controller-manager")
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
	}}
	build.Status = observe.Conclude(build, build.Status, hash, observe.Outcome{App: observe.Application{Image: build.Status.Image, Deployment: deployment}}, metav1.NewTime(made))
	return build, jobs, pods, deployment
}

// appPod is a pod of the first Build's application, which is ready.
func appPod(deployment *appsv1.Deployment, i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: deployment.Spec.Template.ObjectMeta,
		Spec:       deployment.Spec.Template.Spec,
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "192.0.2.1", HostIP: "192.0.2.2", StartTime: ptr.To(metav1.Now()),
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Ready: true, Image: deployment.Spec.Template.Spec.Containers[0].Image,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			}},
		},
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
	pod.Namespace, pod.Name = namespace, fmt.Sprintf("%s-7d4b9c-%d", nameAt(0), i)
	pod.UID, pod.ResourceVersion = types.UID(fmt.Sprint("apppod-", nameAt(0), "-", i)), "1"
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: nameAt(0) + "-7d4b9c", UID: "replicas", Controller: ptr.To(true)}}
	pod.ManagedFields = writtenBy("kube-controller-manager", "kubelet")
	return pod
}

func writtenBy(managers ...string) []metav1.ManagedFieldsEntry {
	var entries []metav1.ManagedFieldsEntry
	for _, manager := range managers {
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":"` + strings.Repeat("x", 900) + `"}}}`),
		})
	}
	return entries
}
