package observe

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// sourceContainer is the init container that clones the repository. The
// builder has no fixed name: it is the first regular container.
const sourceContainer = "git-sync"

// failedContainer is a container that ran and failed.
type failedContainer struct {
	name        string
	step        v1alpha1.Step // Schedule for a container that something else put into the pod
	terminated  *corev1.ContainerStateTerminated
	outOfMemory bool
	memoryLimit string
}

// FailedContainer names the container whose log explains a failed run; ok is false when none ran and failed.
func FailedContainer(pods []*corev1.Pod) (pod, container string, ok bool) {
	p := newest(pods)
	if p == nil {
		return "", "", false
	}
	c := findFailed(p)
	if c == nil {
		return "", "", false
	}
	return p.Name, c.name, true
}

// newest is the only pod that counts: an older one was replaced.
func newest(pods []*corev1.Pod) *corev1.Pod {
	var n *corev1.Pod
	for _, p := range pods {
		if p == nil {
			continue
		}
		if n == nil || n.CreationTimestamp.Before(&p.CreationTimestamp) ||
			n.CreationTimestamp.Equal(&p.CreationTimestamp) && n.Name < p.Name {
			n = p
		}
	}
	return n
}

// findFailed takes init containers first, as they run first, then the builder, then whatever else is in the pod.
func findFailed(pod *corev1.Pod) *failedContainer {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if failed(status) {
			step := v1alpha1.StepSchedule
			if status.Name == sourceContainer {
				step = v1alpha1.StepSource
			}
			return newFailed(pod, status, step)
		}
	}
	if b := builderStatus(pod); b != nil && failed(b) {
		return newFailed(pod, b, v1alpha1.StepBuild)
	}
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; failed(status) {
			return newFailed(pod, status, v1alpha1.StepSchedule)
		}
	}
	return nil
}

func failed(c *corev1.ContainerStatus) bool {
	return c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
}

func newFailed(pod *corev1.Pod, status *corev1.ContainerStatus, step v1alpha1.Step) *failedContainer {
	e := &failedContainer{name: status.Name, step: step, terminated: status.State.Terminated}
	for _, t := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		e.outOfMemory = e.outOfMemory || t != nil && t.Reason == "OOMKilled"
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if limit := containers[i].Resources.Limits.Memory(); containers[i].Name == e.name && !limit.IsZero() {
				e.memoryLimit = limit.String()
			}
		}
	}
	return e
}

func (e *failedContainer) exitCode() *int32 {
	code := e.terminated.ExitCode
	return &code
}

func (e *failedContainer) failure(reason v1alpha1.FailureReason) *v1alpha1.Failure {
	return &v1alpha1.Failure{Step: e.step, Reason: reason, ExitCode: e.exitCode()}
}

// read gives what the container said: its log, or its termination message when there is no log.
func (e *failedContainer) read(log string) output {
	if blank(log) {
		log = e.terminated.Message
		if digestOnly.MatchString(log) { // kaniko writes the digest there before it pushes
			log = ""
		}
	}
	if e.step == v1alpha1.StepSource {
		return readGitSync(log)
	}
	return readBuilder(log, dialectOf(e.name))
}

func builderStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	statuses := pod.Status.ContainerStatuses
	if len(pod.Spec.Containers) > 0 {
		for i := range statuses {
			if statuses[i].Name == pod.Spec.Containers[0].Name {
				return &statuses[i]
			}
		}
		return nil
	}
	if len(statuses) > 0 { // the spec may have been stripped from a cached pod
		return &statuses[0]
	}
	return nil
}

// reached is the step that the pod got to.
func reached(pod *corev1.Pod) v1alpha1.Step {
	if b := builderStatus(pod); b != nil && begun(b) {
		return v1alpha1.StepBuild
	}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if status.Name == sourceContainer && (status.State.Running != nil || failed(status)) {
			return v1alpha1.StepSource
		}
	}
	return v1alpha1.StepSchedule
}

func begun(c *corev1.ContainerStatus) bool {
	return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
}

// anyBegun: a container of the pod runs or ran, so its volumes are mounted.
func anyBegun(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if begun(&statuses[i]) {
				return true
			}
		}
	}
	return false
}
