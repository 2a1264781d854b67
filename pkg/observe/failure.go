package observe

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Evidence is what the cluster shows of one run. Any part of it may be missing.
type Evidence struct {
	// Job of the run.
	Job *batchv1.Job
	// Pods of the Job, of any age.
	Pods []*corev1.Pod
	// Events with the reason FailedMount on the pods and FailedCreate on the Job. Others may be there and are ignored.
	Events []*corev1.Event
	// Log of the container that FailedContainer names; empty when it was not or could not be read.
	Log string
	// Before is what was found earlier for this run: a Job that hits its deadline loses its pods.
	Before *v1alpha1.Failure
	// Build lends its names to the messages.
	Build *v1alpha1.Build
}

// scene is the Evidence with what every rule looks at.
type scene struct {
	Evidence
	pod     *corev1.Pod      // the newest one; nil when there is none
	pending *corev1.Pod      // the newest one while it waits to start; nil otherwise
	failed  *failedContainer // the container of the newest pod that failed; nil when none did
	names   names
}

// rule is one class of evidence. It gives nil when that evidence is not there.
type rule func(scene) *v1alpha1.Failure

// The priority list. The first rule that finds something gives the failure, so
// that reason and message always speak of the same thing.
var (
	// whyFailed are the rules for a Job that failed.
	whyFailed = []rule{
		deadline,      // the Job was stopped; what its containers then printed is only an echo of that
		outOfMemory,   // a killed process leaves all kinds of errors in the log
		disrupted,     // so does a pod that is taken away
		keyMissing,    // the source step looks at the Secrets before it does anything
		stepFailed,    // what the log of the failed container says, or at least which step it was
		refusedByNode, // no container ran
		nothingLeft,   // the pods are gone
	}
	// whyWaiting are the rules for a Job that is not finished, the most specific first.
	whyWaiting = []rule{
		containerNotCreated,
		imageNotPulled,
		volumeNotMounted,
		unschedulable,
		podNotCreated,
		nothingNew,
	}
)

// Failure says why the run failed or cannot start; nil when nothing is wrong, or not yet.
func Failure(e Evidence) *v1alpha1.Failure {
	s := scene{Evidence: e, pod: newest(e.Pods), names: namesOf(e.Build, e.Job)}
	if s.pod != nil {
		s.failed = findFailed(s.pod)
	}
	if s.pod != nil && (s.pod.Status.Phase == corev1.PodPending || s.pod.Status.Phase == "") {
		s.pending = s.pod
	}
	switch {
	case failedCondition(e.Job) != nil:
		return first(whyFailed, s)
	case jobSucceeded(e.Job):
		return nil
	default:
		return first(whyWaiting, s)
	}
}

func first(rules []rule, s scene) *v1alpha1.Failure {
	for _, rule := range rules {
		if f := rule(s); f != nil {
			f.Message = Squash(sentence(f.Message), maxMessage) // names in it are the user's and may be anything
			return f
		}
	}
	return nil
}

// failedCondition gives the condition Failed. FailureTarget, which comes a little
// earlier, does not count: the pods may still be running then.
func failedCondition(job *batchv1.Job) *batchv1.JobCondition {
	for _, c := range conditionsOf(job) {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return &c
		}
	}
	return nil
}

func jobSucceeded(job *batchv1.Job) bool {
	for _, c := range conditionsOf(job) {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobSuccessCriteriaMet) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func conditionsOf(job *batchv1.Job) []batchv1.JobCondition {
	if job == nil {
		return nil
	}
	return job.Status.Conditions
}
