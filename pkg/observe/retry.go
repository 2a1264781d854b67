package observe

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Three kinds of failure: what keeps a run from starting is waited for, what passes by itself is tried again a few
// times, and everything else stays until the user has mended it.
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
)

// defaultRetries is how many further attempts a run has when the Build does not say.
const defaultRetries = 2

const (
	// patience is how long a pod is left waiting for what keeps it from starting. An autoscaler looks every 10 s for pods
	// that fit on no node, and a Secret that is applied beside its Build comes a moment later. That an image cannot be pulled
	// the kubelet shows only with its second try, 10 s after the first.
	patience     = 12 * time.Second
	pullPatience = 2 * time.Second
	// Further attempts are made after 10 s, 20 s, 40 s and so on, and at least every 5 min.
	firstPause = 10 * time.Second
	// A run that waits starts anew after 30 s at the earliest, then after as long as it has waited already.
	firstWait    = 30 * time.Second
	longestPause = 5 * time.Minute
)

// Behavior says what happens after a failure, in the words of the documentation.
func Behavior(reason v1alpha1.FailureReason) string {
	switch {
	case waitingReasons[reason], reason == v1alpha1.FailureResourceExists, reason == v1alpha1.FailureRejected:
		return "goes on by itself"
	case transientReasons[reason]:
		return "tried again"
	}
	return "stays"
}

// Again returns when the next attempt is due after this run, which has ended; ok is false when there is none.
func Again(build *v1alpha1.Build, run v1alpha1.Run) (at time.Time, ok bool) {
	if !transientReasons[v1alpha1.FailureReason(run.Result)] || run.Attempt > ptr.Deref(build.Spec.Retries, defaultRetries) {
		return time.Time{}, false
	}
	pause := firstPause << min(max(run.Attempt-1, 0), 10)
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
	if failure := build.Status.Failure; failure != nil && waitingReasons[failure.Reason] {
		waited := run.StartTime.Sub(waitsSince(build))
		due = run.StartTime.Add(min(max(waited, firstWait), longestPause))
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
	if since.Before(r.StartTime.Time) {
		since = r.StartTime.Time
	}
	if rest := left - now.Sub(since); rest > 0 {
		r.Recheck = rest
	} else {
		r.Stuck = true
	}
	return r
}

// announce puts the next attempt in the place of the advice to ask for one.
func announce(build *v1alpha1.Build, run v1alpha1.Run, failure *v1alpha1.Failure) *v1alpha1.Failure {
	at, ok := Again(build, run)
	if !ok {
		return failure
	}
	announced := failure.DeepCopy()
	text := strings.TrimSuffix(strings.TrimSuffix(failure.Message, thenAgain), "; "+again)
	announced.Message = fmt.Sprintf("%s. Attempt %d of %d starts at %s.", strings.TrimSuffix(text, "."), run.Attempt+1,
		ptr.Deref(build.Spec.Retries, defaultRetries)+1, at.UTC().Format("15:04:05 MST"))
	return announced
}
