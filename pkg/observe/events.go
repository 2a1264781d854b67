package observe

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

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
// ErrResourceExists, Rejected, RolloutFailed and Unavailable.
const (
	EventBuildStarted   = "BuildStarted"
	EventBuildSucceeded = "BuildSucceeded"
	EventBuildFailed    = "BuildFailed"
	EventBuildWaiting   = "BuildWaiting"
	EventBuildCanceled  = "BuildCanceled"
	EventDeployed       = "Deployed"
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
	if failure := after.Failure; failure != nil && !sameFailure(before.Failure, failure) {
		switch failure.Reason {
		case v1alpha1.FailureResourceExists, v1alpha1.FailureRejected, v1alpha1.FailureRolloutFailed, v1alpha1.FailureUnavailable:
			warning(string(failure.Reason), failure.Message)
		default:
			if run := after.Run; run != nil && run.CompletionTime == nil {
				warning(EventBuildWaiting, string(failure.Reason)+": "+failure.Message)
			}
		}
	}
	was, is := deployedReason(before), deployedReason(after)
	// More pods of what runs already are no news.
	if is == v1alpha1.ReasonAvailable && (was != is && was != v1alpha1.ReasonScaling || before.Image != after.Image) {
		normal(EventDeployed, "The Deployment runs %s", after.Image)
	}
	return events
}

func deployedReason(status v1alpha1.BuildStatus) string {
	if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDeployed); condition != nil {
		return condition.Reason
	}
	return ""
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
