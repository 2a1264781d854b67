package observe

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// waitingReasons are the failures that end by themselves once their cause is gone.
var waitingReasons = map[v1alpha1.FailureReason]bool{
	v1alpha1.FailureQuotaExceeded:     true,
	v1alpha1.FailurePodRejected:       true,
	v1alpha1.FailureUnschedulable:     true,
	v1alpha1.FailureSecretNotFound:    true,
	v1alpha1.FailureSecretKeyNotFound: true,
	v1alpha1.FailureVolumeMountFailed: true,
	v1alpha1.FailureImagePullFailed:   true,
}

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
			return ranOut(f, s)
		}
		if waitedBefore(s) {
			return ranOut(s.Before, s)
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

// ranOut turns a failure of a waiting run into that of a run which waited until
// its deadline. A run that was seen waiting is started anew; one that turns out
// to have waited, because nobody looked before, has ended. It leaves a failure that
// says so already as it is: the status is read back as Before.
func ranOut(f *v1alpha1.Failure, s scene) *v1alpha1.Failure {
	const waited = " The run waited for that until its timeout"
	message := f.Message
	switch {
	case strings.Contains(message, waited):
	case waitedBefore(s):
		message += waited + s.names.ofTimeout() + " and is started anew."
	default:
		message = strings.TrimSuffix(strings.TrimSuffix(message, goesOn), ".") + "." + waited + s.names.ofTimeout() + "; once it is done, " + again
	}
	return &v1alpha1.Failure{Step: f.Step, Reason: f.Reason, Message: message}
}

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

// refusedByNode: the kubelet failed the pod before any container ran (OutOfcpu, UnexpectedAdmissionError, NodeAffinity, ...).
func refusedByNode(s scene) *v1alpha1.Failure {
	if s.pod == nil || s.pod.Status.Phase != corev1.PodFailed || s.pod.Status.Reason == "" {
		return nil
	}
	return &v1alpha1.Failure{
		Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailurePodRejected,
		Message: "The node refused the pod" + quoted(s.pod.Status.Reason+": "+s.pod.Status.Message) +
			"; see to the node" + thenAgain,
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
