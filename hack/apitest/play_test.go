//go:build apitest

package apitest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// defaultStep is the longest that a step of a pod takes.
const defaultStep = 200 * time.Millisecond

// A script says how the pods of one Build go. What it leaves out is the normal
// course.
type script struct {
	// step is the longest that one step takes; how long it does is random.
	step time.Duration
	// hold keeps the builder running until it is closed.
	hold <-chan struct{}
	// linger keeps a deleted pod of a build running until it is closed, as a
	// container does that takes its time to stop.
	linger <-chan struct{}
	// fail is how the builder ends, when it is to fail.
	fail *corev1.ContainerStateTerminated
	// unready leaves the application's pods running but not ready.
	unready bool
	// crash has the pods of this image end again and again.
	crash string
}

// play takes a pod from Pending to its end, or until it is stopped.
func (k *kubelet) play(ctx context.Context, pod *corev1.Pod) {
	s := k.scriptOf(pod)
	if pod.Spec.NodeName == "" {
		k.insist(ctx, func() error {
			return k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
			}, metav1.CreateOptions{})
		})
	}
	state := newState(pod)
	k.report(ctx, pod, state.status)
	if !isBuild(pod) {
		if app := &state.status.ContainerStatuses[0]; s.crash != "" && pod.Spec.Containers[0].Image == s.crash {
			for wait(ctx, s.step) {
				run(app)
				terminate(app, corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"})
				app.LastTerminationState, app.RestartCount = app.State, app.RestartCount+1
				app.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
				state.status.Phase = corev1.PodRunning
				k.report(ctx, pod, state.status)
			}
			return
		}
		if wait(ctx, s.step) {
			state.serve(!s.unready)
			k.report(ctx, pod, state.status)
		}
		return
	}

	for i := range state.status.InitContainerStatuses {
		container := &state.status.InitContainerStatuses[i]
		if !wait(ctx, s.step) {
			return
		}
		run(container)
		k.report(ctx, pod, state.status)
		if !wait(ctx, s.step) {
			return
		}
		terminate(container, corev1.ContainerStateTerminated{Reason: "Completed", Message: commitMessage(pod)})
		k.report(ctx, pod, state.status)
	}

	builder := &state.status.ContainerStatuses[0]
	run(builder)
	state.status.Phase = corev1.PodRunning
	state.condition(corev1.PodInitialized, true, "")
	state.condition(corev1.ContainersReady, true, "")
	state.condition(corev1.PodReady, true, "")
	k.report(ctx, pod, state.status)
	if !wait(ctx, s.step) {
		return
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return
		}
	}
	if s.fail != nil {
		terminate(builder, *s.fail)
		state.finish(corev1.PodFailed, "PodFailed")
	} else {
		k.push(pod)
		terminate(builder, corev1.ContainerStateTerminated{Reason: "Completed", Message: digestOf(jobOf(pod))})
		state.finish(corev1.PodSucceeded, "PodCompleted")
	}
	k.report(ctx, pod, state.status)
}

// report writes a pod's status. It says what it owns and leaves the rest, such
// as the conditions that other controllers set, as the kubelet does.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, // never that of a successor of the same name
		"status":   status,
	})
	if err != nil {
		panic(err)
	}
	k.insist(ctx, func() error {
		_, err := k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// podState is the status of a pod while it is played.
type podState struct{ status corev1.PodStatus }

// newState is how a pod is right after it has got its node.
func newState(pod *corev1.Pod) *podState {
	s := &podState{corev1.PodStatus{
		Phase:     corev1.PodPending,
		HostIP:    "198.18.0.2",
		PodIP:     "198.18.0.3",
		PodIPs:    []corev1.PodIP{{IP: "198.18.0.3"}},
		StartTime: ptr.To(metav1.Now()),
	}}
	s.status.InitContainerStatuses = waiting(pod.Spec.InitContainers)
	s.status.ContainerStatuses = waiting(pod.Spec.Containers)
	s.condition(corev1.PodScheduled, true, "")
	s.condition(corev1.PodInitialized, len(pod.Spec.InitContainers) == 0, "ContainersNotInitialized")
	s.condition(corev1.ContainersReady, false, "ContainersNotReady")
	s.condition(corev1.PodReady, false, "ContainersNotReady")
	return s
}

func (s *podState) condition(kind corev1.PodConditionType, is bool, unlessReason string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	if !is {
		c.Status, c.Reason = corev1.ConditionFalse, unlessReason
	}
	for i, old := range s.status.Conditions {
		if old.Type == kind {
			s.status.Conditions[i] = c
			return
		}
	}
	s.status.Conditions = append(s.status.Conditions, c)
}

// serve is a pod whose containers all run.
func (s *podState) serve(ready bool) {
	s.status.Phase = corev1.PodRunning
	for i := range s.status.ContainerStatuses {
		run(&s.status.ContainerStatuses[i])
		s.status.ContainerStatuses[i].Ready = ready
	}
	s.condition(corev1.ContainersReady, ready, "ContainersNotReady")
	s.condition(corev1.PodReady, ready, "ContainersNotReady")
}

func (s *podState) finish(phase corev1.PodPhase, reason string) {
	s.status.Phase = phase
	s.condition(corev1.ContainersReady, false, reason)
	s.condition(corev1.PodReady, false, reason)
}

// killed is the status of a pod that was deleted while it ran.
func killed(pod *corev1.Pod) corev1.PodStatus {
	s := &podState{*pod.Status.DeepCopy()}
	if len(s.status.ContainerStatuses) == 0 {
		s = newState(pod)
	}
	for _, containers := range [][]corev1.ContainerStatus{s.status.InitContainerStatuses, s.status.ContainerStatuses} {
		for i := range containers {
			if containers[i].State.Terminated == nil {
				terminate(&containers[i], corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"})
			}
		}
	}
	s.finish(corev1.PodFailed, "PodFailed")
	return s.status
}

func waiting(containers []corev1.Container) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range containers {
		statuses = append(statuses, corev1.ContainerStatus{
			Name:    c.Name,
			Image:   c.Image,
			Started: ptr.To(false),
			State:   corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
		})
	}
	return statuses
}

func run(c *corev1.ContainerStatus) {
	c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	c.Started, c.Ready = ptr.To(true), true
	c.ImageID, c.ContainerID = c.Image, "fake://"+c.Name
}

func terminate(c *corev1.ContainerStatus, how corev1.ContainerStateTerminated) {
	how.FinishedAt = metav1.Now()
	how.StartedAt = how.FinishedAt
	if c.State.Running != nil {
		how.StartedAt = c.State.Running.StartedAt
	}
	how.ContainerID = c.ContainerID
	c.State = corev1.ContainerState{Terminated: &how}
	c.Started, c.Ready = ptr.To(false), false
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isBuild(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.BuildLabel] != "" }

func jobOf(pod *corev1.Pod) types.NamespacedName {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// commitMessage is what the git-sync step leaves: commit, date, author, subject.
func commitMessage(pod *corev1.Pod) string {
	return commitOf(jobOf(pod)) + "\n2026-03-04T05:06:07+02:00\nAda Lovelace\nAdd the analytical engine\n"
}

// commitOf is the commit that a run of this Job finds, always the same.
func commitOf(job types.NamespacedName) string {
	sum := sha256.Sum256([]byte("commit of " + job.String()))
	return hex.EncodeToString(sum[:20])
}

// digestOf is the digest of the image that a run of this Job pushes.
func digestOf(job types.NamespacedName) string {
	sum := sha256.Sum256([]byte("image of " + job.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// wait lets a random time go by, and says whether there is a point in going on.
func wait(ctx context.Context, most time.Duration) bool {
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
