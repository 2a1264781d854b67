package observe

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// EventCanceled is worth recording when a run is stopped before its end.
func EventCanceled(job string) Event {
	return Event{corev1.EventTypeNormal, EventBuildCanceled, "Job " + job + " is stopped: newer inputs take its place"}
}

// Event is one to record on a Build.
type Event struct {
	Type, Reason, Message string
}

// The reasons of Events that name no failure. Beside them stand the FailureReasons
// ErrResourceExists, Rejected, Unavailable, InvalidTemplate and RollbackNotFound.
const (
	EventBuildStarted   = "BuildStarted"
	EventBuildSucceeded = "BuildSucceeded"
	EventBuildFailed    = "BuildFailed"
	EventBuildWaiting   = "BuildWaiting"
	EventBuildCanceled  = "BuildCanceled"
	EventDeployed       = "Deployed"
	EventRolloutWaiting = "RolloutWaiting"
	EventRolloutFailed  = "RolloutFailed"
	EventRolledBack     = "RolledBack"
)

// Events returns the Events that the way from one status to the next is worth. The same status twice is worth none.
func Events(before, after v1alpha1.BuildStatus) []Event {
	var events []Event
	normal := func(reason, format string, args ...any) {
		events = append(events, Event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)})
	}
	warning := func(reason, message string) {
		events = append(events, Event{corev1.EventTypeWarning, reason, message})
	}

	if run := after.Run; run != nil && run.CompletionTime == nil && !sameRun(before.Run, run) && !waitsOn(before, run) {
		normal(EventBuildStarted, "Job %s builds %s", run.Job, orDefault(run.Revision, "the default branch"))
	}
	for _, run := range slices.Backward(after.History) {
		if slices.ContainsFunc(before.History, func(old v1alpha1.Run) bool { return sameRun(&old, &run) }) {
			continue
		}
		if run.Result == v1alpha1.ResultSucceeded {
			normal(EventBuildSucceeded, "Job %s built %s from commit %s in %s", run.Job, run.Image, run.ShortCommit, run.Duration)
		} else {
			warning(EventBuildFailed, fmt.Sprintf("Job %s: %s%s", run.Job, run.Result, explanation(after, run)))
		}
	}
	if failure := after.Failure; failure != nil && failure.Step != v1alpha1.StepDeploy && !sameFailure(before.Failure, failure) {
		switch failure.Reason {
		case v1alpha1.FailureResourceExists, v1alpha1.FailureRejected, v1alpha1.FailureNotAllowed:
			warning(string(failure.Reason), failure.Message)
		default:
			if run := after.Run; run != nil && run.CompletionTime == nil {
				warning(EventBuildWaiting, string(failure.Reason)+": "+failure.Message)
			}
		}
	}
	was, is := deployedCondition(before), deployedCondition(after)
	if was.Status != is.Status || was.Reason != is.Reason {
		switch {
		case is.Reason == v1alpha1.ReasonAvailable, is.Reason == v1alpha1.ReasonDeploying, is.Reason == v1alpha1.ReasonScaling,
			is.Reason == v1alpha1.ReasonWaiting, is.Reason == "":
		case is.Status == metav1.ConditionUnknown:
			warning(EventRolloutWaiting, is.Reason+": "+is.Message)
		case noRollout[v1alpha1.FailureReason(is.Reason)]:
			warning(is.Reason, is.Message)
		default:
			warning(EventRolloutFailed, strings.TrimPrefix(is.Reason+": "+is.Message, EventRolloutFailed+": "))
		}
	}
	if back := after.Rollback; back != nil && (before.Rollback == nil || before.Rollback.Rollout != back.Rollout) {
		normal(EventRolledBack, "The Deployment returns to %s, because the rollout of %s failed", back.To, back.From)
	}
	// More pods of what runs already are no news.
	if is.Reason == v1alpha1.ReasonAvailable && (was.Reason != is.Reason && was.Reason != v1alpha1.ReasonScaling || before.DeployedImage != after.DeployedImage) {
		normal(EventDeployed, "%s", is.Message)
	}
	return events
}

// noRollout are failures of the step Deploy that are none of a rollout.
var noRollout = map[v1alpha1.FailureReason]bool{
	v1alpha1.FailureResourceExists: true, v1alpha1.FailureRejected: true, v1alpha1.FailureUnavailable: true,
	v1alpha1.FailureInvalidTemplate: true, v1alpha1.FailureRollbackNotFound: true,
}

func explanation(status v1alpha1.BuildStatus, run v1alpha1.Run) string {
	if status.Failure == nil || !sameRun(status.Run, &run) {
		return ""
	}
	// With the next attempt in it, if there is one.
	if built := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBuilt); built != nil && built.Reason == v1alpha1.ReasonRetrying {
		return strings.TrimPrefix(built.Message, run.Result)
	}
	return ": " + status.Failure.Message
}

// sameRun tells runs apart by their start too: the Job of a run that was deleted while it ran is made again under its name.
func sameRun(a, b *v1alpha1.Run) bool {
	return a != nil && b != nil && a.Job == b.Job && a.StartTime.Equal(b.StartTime)
}

// waitsOn says whether the run only was made anew because it could not start: no news.
func waitsOn(before v1alpha1.BuildStatus, run *v1alpha1.Run) bool {
	return before.Run != nil && before.Run.Job == run.Job && before.Failure != nil && waitingReasons[before.Failure.Reason]
}

func sameFailure(a, b *v1alpha1.Failure) bool {
	return a != nil && a.Reason == b.Reason && a.Step == b.Step
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
