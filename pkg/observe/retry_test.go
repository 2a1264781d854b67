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
		"said of the Job before":         {unschedulable, ptr.To(-100), 40, before, false, time.Minute},
		"said of the Job before too":     {unschedulable, ptr.To(-100), 100, before, true, 0},
		"said of many Jobs before":       {unschedulable, ptr.To(-1000), 299, before, false, time.Second},
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
	after := func(seconds int) string { return at(seconds).UTC().Format("15:04:05") + " UTC." }
	for sentence, c := range map[string]struct {
		pod     *corev1.Pod
		attempt string
		build   v1alpha1.BuildSpec
		outcome Outcome
		want    string // the end of the condition's message
	}{
		"the first of three":       {unreachable, "1", v1alpha1.BuildSpec{}, Outcome{Hold: Retrying}, "in the way. Attempt 2 of 3 starts at " + after(55)},
		"the second of three":      {unreachable, "2", v1alpha1.BuildSpec{}, Outcome{Hold: Retrying}, "in the way. Attempt 3 of 3 starts at " + after(65)},
		"the third of three":       {unreachable, "3", v1alpha1.BuildSpec{}, Outcome{}, annotation},
		"no more than one":         {unreachable, "1", v1alpha1.BuildSpec{Retries: ptr.To[int32](0)}, Outcome{}, annotation},
		"the first of a lost pod":  {lost, "1", v1alpha1.BuildSpec{Retries: ptr.To[int32](1)}, Outcome{Hold: Retrying}, "the pod was not replaced. Attempt 2 of 2 starts at " + after(55)},
		"a Job that does not say":  {unreachable, "", v1alpha1.BuildSpec{}, Outcome{Hold: Retrying}, "Attempt 2 of 3 starts at " + after(55)},
		"a Job that says nonsense": {unreachable, "-7", v1alpha1.BuildSpec{}, Outcome{Hold: Retrying}, "Attempt 2 of 3 starts at " + after(55)},
		"held back by a pod":       {unreachable, "1", v1alpha1.BuildSpec{}, Outcome{Hold: Queued}, "Attempt 2 of 3 starts at " + after(55)},
		"held back on purpose":     {unreachable, "1", v1alpha1.BuildSpec{Suspend: true}, Outcome{Hold: Suspended}, "when spec.suspend is taken away."},
		"kept from being made":     {unreachable, "1", v1alpha1.BuildSpec{}, Outcome{Obstacle: aFailure(v1alpha1.StepSchedule, v1alpha1.FailureRejected)}, "as it was"},
	} {
		t.Run(sentence, func(t *testing.T) {
			job := theJob(is(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, 45))
			job.Annotations[v1alpha1.AttemptAnnotation] = c.attempt
			if c.outcome.Obstacle != nil {
				c.outcome.Obstacle.Message = c.want
			}
			build := &v1alpha1.Build{Spec: c.build}
			run := Observe(Evidence{Job: job, Pods: []*corev1.Pod{c.pod}, Build: build}, at(50).Time)
			if !run.Ended() || !strings.HasSuffix(run.Failure.Message, annotation) {
				t.Errorf("the failure says %q", run.Failure.Message)
			}
			status := Conclude(build, Runs(build, run.Hash, []Run{run}), run.Hash, c.outcome, at(50))
			if built := status.Conditions[0]; !strings.HasSuffix(built.Message, c.want) {
				t.Errorf("the condition says %q, want %q at its end", built.Message, c.want)
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
