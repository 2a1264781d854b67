package observe

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// saidSince is a Build that has said for so long that its run cannot start; nil is one that has not said it.
func saidSince(seconds *int) *v1alpha1.Build {
	build := &v1alpha1.Build{}
	if seconds != nil {
		build.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionBuilt, Status: metav1.ConditionFalse, Reason: string(v1alpha1.FailureUnschedulable), LastTransitionTime: at(*seconds),
		}}
	}
	return build
}

func TestARunThatCannotStartIsStuckAfterAWhile(t *testing.T) {
	unschedulable := pendingPod()
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	unpullable := pendingPod()
	unpullable.Status.ContainerStatuses[0].State = waitsFor("ErrImagePull", "not found")
	before := &v1alpha1.Failure{Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureUnschedulable, Message: "as it was"}
	for sentence, c := range map[string]struct {
		pod     *corev1.Pod
		said    *int // seconds after the epoch, when the Job was made too
		now     int
		before  *v1alpha1.Failure
		stuck   bool
		recheck time.Duration
	}{
		"just seen":                      {unschedulable, nil, 100, nil, false, 12 * time.Second},
		"said a moment ago":              {unschedulable, ptr.To(95), 100, before, false, 7 * time.Second},
		"said for long enough":           {unschedulable, ptr.To(88), 100, before, true, 0},
		"said of the Job before":         {unschedulable, ptr.To(-1000), 5, before, false, 7 * time.Second},
		"said of the Job before too":     {unschedulable, ptr.To(-1000), 12, before, true, 0},
		"an image that cannot be pulled": {unpullable, ptr.To(98), 100, before, true, 0},
		"a pod that is about to start, whatever was said before": {pendingPod(), ptr.To(-1000), 100, before, false, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			run := Observe(Evidence{Job: theJob(), Pods: []*corev1.Pod{c.pod}, Before: c.before, Build: saidSince(c.said)}, at(c.now).Time)
			if run.Ended() || run.Failure == nil || !waitingReasons[run.Failure.Reason] {
				t.Fatalf("ended %v, failure %+v", run.Ended(), run.Failure)
			}
			if run.Stuck != c.stuck || run.Recheck != c.recheck {
				t.Errorf("stuck %v, again in %s; want %v, %s", run.Stuck, run.Recheck, c.stuck, c.recheck)
			}
		})
	}
}

func TestAFailureOfTheWorldAnnouncesTheNextAttempt(t *testing.T) {
	lost := failedPod()
	lost.Status.Reason = "NodeLost"
	unreachable := failedPod()
	unreachable.Status.InitContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: "ssh: connect to host h port 22: Connection refused"}
	for sentence, c := range map[string]struct {
		pod     *corev1.Pod
		attempt string
		retries *int32
		want    string // the end of the message
	}{
		"the first of three":       {unreachable, "1", nil, "in the way. Attempt 2 of 3 starts at " + at(55).UTC().Format("15:04:05") + " UTC."},
		"the second of three":      {unreachable, "2", nil, "in the way. Attempt 3 of 3 starts at " + at(65).UTC().Format("15:04:05") + " UTC."},
		"the third of three":       {unreachable, "3", nil, annotation},
		"no more than one":         {unreachable, "1", ptr.To[int32](0), annotation},
		"the first of a lost pod":  {lost, "1", ptr.To[int32](1), "the pod was not replaced. Attempt 2 of 2 starts at " + at(55).UTC().Format("15:04:05") + " UTC."},
		"a Job that does not say":  {unreachable, "", nil, "Attempt 2 of 3 starts at " + at(55).UTC().Format("15:04:05") + " UTC."},
		"a Job that says nonsense": {unreachable, "-7", nil, "Attempt 2 of 3 starts at " + at(55).UTC().Format("15:04:05") + " UTC."},
	} {
		t.Run(sentence, func(t *testing.T) {
			job := theJob(is(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, 45))
			job.Annotations[v1alpha1.AttemptAnnotation] = c.attempt
			build := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Retries: c.retries}}
			run := Observe(Evidence{Job: job, Pods: []*corev1.Pod{c.pod}, Build: build}, at(50).Time)
			if !run.Ended() || !strings.HasSuffix(run.Failure.Message, c.want) {
				t.Errorf("the message is %q, want %q at its end", run.Failure.Message, c.want)
			}
		})
	}
}

func TestADockerfilesFaultIsNeverTriedAgain(t *testing.T) {
	for _, reason := range []v1alpha1.FailureReason{
		v1alpha1.FailureBuildCommandFailed, v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureOutOfMemory, v1alpha1.FailureAuthenticationFailed,
		v1alpha1.FailureTLSVerificationFailed, v1alpha1.FailureRegistryDenied, v1alpha1.FailureDeadlineExceeded, v1alpha1.FailureRevisionNotFound,
	} {
		run := v1alpha1.Run{Result: string(reason), Attempt: 1, CompletionTime: ptr.To(at(0))}
		if due, again := Again(&v1alpha1.Build{}, run); again {
			t.Errorf("%s is tried again at %s", reason, due)
		}
	}
}
