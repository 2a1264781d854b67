package observe

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Kinds of failure: what keeps a run from starting is waited for, what passes by itself is tried again a few
// times, a rollout is taken back, and everything else stays until the user has mended it.
var (
	// waitingReasons keep a run from starting. Nothing is tried while they last, so the run is not over and none of its
	// attempts is used up: its Job is taken away and made anew until the cause is gone.
	waitingReasons = map[v1alpha1.FailureReason]bool{
		v1alpha1.FailureQuotaExceeded:     true,
		v1alpha1.FailurePodRejected:       true,
		v1alpha1.FailureUnschedulable:     true,
		v1alpha1.FailureSecretNotFound:    true,
		v1alpha1.FailureSecretKeyNotFound: true,
		v1alpha1.FailureVolumeMountFailed: true,
		v1alpha1.FailureImagePullFailed:   true,
	}
	// transientReasons are failures of the world around a run, which end the run and are worth another attempt.
	transientReasons = map[v1alpha1.FailureReason]bool{
		v1alpha1.FailureEvicted:             true,
		v1alpha1.FailureNodeLost:            true,
		v1alpha1.FailureHostNotFound:        true,
		v1alpha1.FailureHostUnreachable:     true,
		v1alpha1.FailureRegistryUnreachable: true,
	}
	// rolloutReasons are those of an image that does not get to run.
	rolloutReasons = map[v1alpha1.FailureReason]bool{
		v1alpha1.FailureCrashLoopBackOff: true,
		v1alpha1.FailureNotReady:         true,
		v1alpha1.FailureRolloutFailed:    true,
	}
)

// defaultRetries is how many further attempts a run has when the Build does not say.
const defaultRetries = 2

const (
	// patience is how long the first pod of a run is left waiting for what keeps it from starting. A Secret that is applied
	// beside its Build comes a moment later. That an image cannot be pulled the kubelet shows only with its second try,
	// 10 s after the first.
	patience     = 12 * time.Second
	pullPatience = 2 * time.Second
	// firstWait is the time from there to the second pod. That and every further one is left waiting for as long as the run has
	// waited before, so that an autoscaler sees it until its node has come, and then gives way for as long.
	firstWait = 30 * time.Second
	// firstPause is the time to the second attempt at a run that failed; it doubles with every further one.
	firstPause = 10 * time.Second
	// longestPause bounds all of these.
	longestPause = 5 * time.Minute
)

// Behavior says what happens after a failure, in the words of the documentation.
func Behavior(reason v1alpha1.FailureReason) string {
	switch {
	case rolloutReasons[reason]:
		return "taken back"
	case waitingReasons[reason], reason == v1alpha1.FailureResourceExists, reason == v1alpha1.FailureRejected, reason == v1alpha1.FailureNotAllowed, reason == v1alpha1.FailureUnavailable:
		return "goes on by itself"
	case transientReasons[reason]:
		return "tried again"
	}
	return "stays"
}

// Again returns when the next attempt is due after this run, which has ended; ok is false when there is none.
func Again(build *v1alpha1.Build, run v1alpha1.Run) (at time.Time, ok bool) {
	// Without a number it is of a controller that knew no attempts: it is not for its successor to build everything anew.
	if run.CompletionTime == nil || run.Attempt < 1 || run.Attempt > ptr.Deref(build.Spec.Retries, defaultRetries) ||
		!transientReasons[v1alpha1.FailureReason(run.Result)] {
		return time.Time{}, false
	}
	pause := firstPause << min(run.Attempt-1, 10)
	return run.CompletionTime.Add(min(pause, longestPause)), true
}

// NextAttempt returns the number of the attempt that comes next at the inputs with that hash, and the time before which it is
// not to be made. Only inputs that are not Settled have one.
func NextAttempt(build *v1alpha1.Build, hash string) (attempt int32, due time.Time) {
	run := ptr.Deref(build.Status.Run, v1alpha1.Run{})
	if run.Hash != hash {
		return 1, time.Time{}
	}
	if run.CompletionTime != nil {
		due, _ = Again(build, run)
		return run.Attempt + 1, due
	}
	if said := waitsSince(build); !said.IsZero() {
		due = run.StartTime.Add(firstWait)
		if waited := run.StartTime.Sub(said); waited >= firstWait {
			due = run.StartTime.Add(2 * min(waited, longestPause))
		}
	}
	return max(run.Attempt, 1), due
}

// waitsSince is when the Build first said that its run cannot start; zero if it does not say so.
func waitsSince(build *v1alpha1.Build) time.Time {
	condition := meta.FindStatusCondition(build.Status.Conditions, v1alpha1.ConditionBuilt)
	if condition == nil || !waitingReasons[v1alpha1.FailureReason(condition.Reason)] {
		return time.Time{}
	}
	return condition.LastTransitionTime.Time
}

// waiting decides about a run that is kept from starting: it is stuck when that has been seen long enough.
func (r Run) waiting(e Evidence, now time.Time) Run {
	said := waitsSince(e.Build)
	e.Before = nil
	failure := Failure(e)
	if failure == nil {
		return r // it only waited the last time
	}
	left := patience
	if failure.Reason == v1alpha1.FailureImagePullFailed {
		left = pullPatience
	}
	since := now
	if !said.IsZero() {
		since = said
	}
	if waited := r.StartTime.Sub(since); waited > 0 {
		since, left = r.StartTime.Time, min(max(waited, left), longestPause)
	}
	if rest := left - now.Sub(since); rest > 0 {
		r.Recheck = rest
	} else {
		r.Stuck = true
	}
	return r
}

// announcement is the message of a failure with the next attempt in the place of the advice to ask for one.
func announcement(build *v1alpha1.Build, run v1alpha1.Run, failure *v1alpha1.Failure, due time.Time) string {
	text := strings.TrimSuffix(strings.TrimSuffix(failure.Message, thenAgain), "; "+again)
	return fmt.Sprintf("%s: %s. Attempt %d of %d starts at %s.", failure.Reason, strings.TrimSuffix(text, "."), run.Attempt+1,
		ptr.Deref(build.Spec.Retries, defaultRetries)+1, due.UTC().Format("15:04:05 MST"))
}
