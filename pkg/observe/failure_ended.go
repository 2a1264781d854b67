package observe

import (
	"fmt"
	"regexp"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// deadline: the Job reached spec.timeout. When it only ever waited, what it
// waited for is the news, not the clock.
func deadline(s scene) *v1alpha1.Failure {
	if failedCondition(s.Job).Reason != batchv1.JobReasonDeadlineExceeded {
		return nil
	}
	step := v1alpha1.StepBuild // nearly all the time of a run is spent there
	if s.pod != nil {
		step = reached(s.pod)
	}
	if s.pod == nil || step == v1alpha1.StepSchedule {
		if f := first(whyWaiting, s); f != nil {
			return f
		}
		if waitedBefore(s) {
			return s.Before.DeepCopy()
		}
	}
	during := ""
	if s.pod != nil {
		during = map[v1alpha1.Step]string{
			v1alpha1.StepSchedule: " while its pod was starting",
			v1alpha1.StepSource:   " while the repository was being cloned",
			v1alpha1.StepBuild:    " while the image was being built",
		}[step]
	}
	return &v1alpha1.Failure{
		Step: step, Reason: v1alpha1.FailureDeadlineExceeded,
		Message: "The run was stopped at its timeout" + s.names.ofTimeout() + during + "; raise spec.timeout if it needs longer" + thenAgain,
	}
}

func waitedBefore(s scene) bool { return s.Before != nil && waitingReasons[s.Before.Reason] }

// outOfMemory: the kernel killed a process of the failed container.
func outOfMemory(s scene) *v1alpha1.Failure {
	if s.failed == nil || !s.failed.outOfMemory {
		return nil
	}
	f := s.failed.failure(v1alpha1.FailureOutOfMemory)
	limit := ""
	if s.failed.memoryLimit != "" {
		limit = " of " + s.failed.memoryLimit
	}
	f.Message = fmt.Sprintf("The container %s took more memory than its limit%s and was killed; ", s.failed.name, limit)
	if s.failed.step == v1alpha1.StepBuild {
		f.Message += "raise spec.builder.resources.limits.memory" + whichStarts
	} else {
		f.Message += "raise the limit that the namespace's LimitRange gives it" + thenAgain
	}
	f.LogTail = s.failed.read(s.Log).tail()
	return f
}

// disruptions maps why a pod was taken away; what is not here is an eviction or preemption.
var disruptions = map[string]v1alpha1.FailureReason{
	"DeletionByPodGC":        v1alpha1.FailureNodeLost, // its node is gone
	"DeletionByTaintManager": v1alpha1.FailureNodeLost, // its node is not ready or not reachable
	"NodeLost":               v1alpha1.FailureNodeLost,
	"NodeShutdown":           v1alpha1.FailureNodeLost,
	"Shutdown":               v1alpha1.FailureNodeLost,
	"Terminated":             v1alpha1.FailureNodeLost, // graceful node shutdown
	"Evicted":                v1alpha1.FailureEvicted,
	"Preempting":             v1alpha1.FailureEvicted,
}

// disrupted: the pod was taken away, which is not the build's fault.
func disrupted(s scene) *v1alpha1.Failure {
	if s.pod == nil {
		return nil
	}
	reason, known := disruptions[s.pod.Status.Reason]
	text := s.pod.Status.Message
	for _, c := range s.pod.Status.Conditions {
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue {
			continue
		}
		if !known {
			reason = v1alpha1.FailureEvicted
			if r, ok := disruptions[c.Reason]; ok {
				reason = r
			}
			known = true
		}
		if text == "" {
			text = c.Message
		}
	}
	if !known {
		return nil
	}
	f := &v1alpha1.Failure{Step: v1alpha1.StepSchedule, Reason: reason}
	what := "The pod was evicted"
	if reason == v1alpha1.FailureNodeLost {
		what = "The node of the pod went away"
	}
	f.Message = what + quoted(text) + " and the pod was not replaced; " + again
	if s.failed != nil {
		f.ExitCode = s.failed.exitCode()
		f.LogTail = s.failed.read(s.Log).tail()
	}
	return f
}

// keyMissing: the script of the source step (pkg/plan/gitsync.sh) says what a Secret lacks.
func keyMissing(s scene) *v1alpha1.Failure {
	if s.failed == nil || s.failed.step != v1alpha1.StepSource {
		return nil
	}
	m := secretLacks.FindStringSubmatch(s.failed.read(s.Log).text)
	if m == nil {
		return nil
	}
	f := s.failed.failure(v1alpha1.FailureSecretKeyNotFound)
	if strings.Contains(m[2], corev1.DockerConfigJsonKey) {
		f.Step = v1alpha1.StepPush
	}
	f.Message = secretNamed(m[1], f.Step) + " lacks " + Squash(m[2], 100) + "; add it" + goesOn
	return f
}

var secretLacks = regexp.MustCompile(`(?m)^build-controller: Secret "([^"\n]*)" lacks ([^\n]*)$`)

// refusedByNode: the kubelet failed the pod before any container ran (OutOfcpu, UnexpectedAdmissionError, NodeAffinity, ...).
func refusedByNode(s scene) *v1alpha1.Failure {
	if s.pod == nil || s.pod.Status.Phase != corev1.PodFailed || s.pod.Status.Reason == "" {
		return nil
	}
	return &v1alpha1.Failure{
		Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailurePodRejected,
		Message: "The node refused the pod" + quoted(s.pod.Status.Reason+": "+s.pod.Status.Message) +
			"; see to the node" + goesOn,
	}
}

// nothingLeft: what was found while the pods were there still holds, unless it was only a reason to wait.
func nothingLeft(s scene) *v1alpha1.Failure {
	if s.Before != nil && !waitingReasons[s.Before.Reason] {
		return s.Before.DeepCopy()
	}
	return &v1alpha1.Failure{
		Step: v1alpha1.StepBuild, Reason: v1alpha1.FailureJobFailed,
		Message: "The Job failed" + quoted(failedCondition(s.Job).Message) + " and no pod is left that says why; " + again,
	}
}
