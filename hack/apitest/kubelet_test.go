//go:build apitest

package apitest

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

const nodeName = "fake-node"

// A kubelet plays every pod of the cluster: it is the scheduler, the node and
// the containers. The pods of a build go through their containers and succeed,
// any other pod becomes ready, and a deleted pod goes at once, unless a script
// says otherwise. See play_test.go for how.
type kubelet struct {
	client kubernetes.Interface

	mu      sync.Mutex
	pods    map[types.UID]*performance
	scripts map[types.NamespacedName]script // by Build
	pushed  map[types.NamespacedName]int    // images, by Build
}

// A performance is one pod being played: by one goroutine until it is deleted,
// then by another that makes it go.
type performance struct {
	stop   context.CancelFunc
	done   chan struct{} // closed when the first goroutine is through
	ending bool
}

// startKubelet registers the node and plays pods until the context ends.
func startKubelet(ctx context.Context, client kubernetes.Interface) (*kubelet, error) {
	k := &kubelet{
		client:  client,
		pods:    map[types.UID]*performance{},
		scripts: map[types.NamespacedName]script{},
		pushed:  map[types.NamespacedName]int{},
	}
	if err := k.register(ctx); err != nil {
		return nil, fmt.Errorf("registering the node: %w", err)
	}
	go k.heartbeat(ctx)

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.see(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { k.see(ctx, obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			k.forget(obj.(*corev1.Pod).UID)
		},
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return k, ctx.Err()
}

// script says how the pods of a Build go from now on.
func (k *kubelet) script(namespace, build string, s script) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.scripts[types.NamespacedName{Namespace: namespace, Name: build}] = s
}

func (k *kubelet) scriptOf(pod *corev1.Pod) script {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.scripts[buildOf(pod)]
	if s.step == 0 {
		s.step = defaultStep
	}
	return s
}

// pushes says how many images were pushed for a Build.
func (k *kubelet) pushes(namespace, build string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pushed[types.NamespacedName{Namespace: namespace, Name: build}]
}

func (k *kubelet) push(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pushed[buildOf(pod)]++
}

// buildOf names the Build that a pod builds or runs, and nothing for other pods.
func buildOf(pod *corev1.Pod) types.NamespacedName {
	for _, label := range []string{v1alpha1.BuildLabel, v1alpha1.AppLabel} {
		if name := pod.Labels[label]; name != "" {
			return types.NamespacedName{Namespace: pod.Namespace, Name: name}
		}
	}
	return types.NamespacedName{}
}

// see starts to play a pod that is new, and to end one that is deleted.
func (k *kubelet) see(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.pods[pod.UID]
	if !ok {
		playing, stop := context.WithCancel(ctx)
		p = &performance{stop: stop, done: make(chan struct{})}
		k.pods[pod.UID] = p
		go func() {
			defer close(p.done)
			if pod.DeletionTimestamp == nil && !finished(pod) {
				k.play(playing, pod)
			}
		}()
	}
	if pod.DeletionTimestamp != nil && !p.ending {
		p.ending = true
		go func() {
			linger := k.scriptOf(pod).linger
			if linger != nil && isBuild(pod) {
				select {
				case <-linger:
				case <-ctx.Done():
				}
			}
			// The containers stop before the pod goes: what is gone runs no more.
			p.stop()
			<-p.done
			k.remove(ctx, pod)
		}()
	}
}

func (k *kubelet) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.pods[uid]; ok {
		p.stop()
		delete(k.pods, uid)
	}
}

// remove ends a deleted pod: first with the state of its containers, which the
// Job controller waits for, then for good.
func (k *kubelet) remove(ctx context.Context, pod *corev1.Pod) {
	k.insist(ctx, func() error {
		now, err := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.UID == pod.UID && !finished(now) {
			k.report(ctx, now, killed(now))
		}
		return err
	})
	k.insist(ctx, func() error {
		return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0),
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
	})
}

// insist repeats a write until it is done, or has lost its point because the
// pod is gone.
func (k *kubelet) insist(ctx context.Context, write func() error) {
	for {
		err := write()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

func (k *kubelet) register(ctx context.Context) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("10k"),
		corev1.ResourceMemory: resource.MustParse("100Ti"),
		corev1.ResourcePods:   resource.MustParse("100k"),
	}
	now := metav1.Now()
	_, err := k.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName}},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

// heartbeat keeps the node from being taken for lost, with its pods evicted.
func (k *kubelet) heartbeat(ctx context.Context) {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(nodeName), LeaseDurationSeconds: ptr.To[int32](40)},
	}
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		renewed, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			renewed, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		if err == nil {
			lease = renewed
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
