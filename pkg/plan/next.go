package plan

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/observe"
)

// Step is what is to be done next about the runs of a Build; the zero value is nothing.
type Step struct {
	// Start this attempt at the newest inputs, from 1; 0 starts none.
	Start int32
	// Stop these Jobs first: a sync that sees them gone goes on.
	Stop []*batchv1.Job
	// Hold the newest inputs back.
	Hold observe.Hold
	// After that time it is worth to decide again; zero means never.
	After time.Duration
}

// Next decides about the runs of a Build. hash is that of the newest inputs; jobs and pods are all that belong to
// the Build; runs are the Jobs that its status does not remember as finished.
func Next(build *v1alpha1.Build, hash string, jobs []*batchv1.Job, pods []*corev1.Pod, runs []observe.Run, now time.Time) Step {
	var others, stuck []*batchv1.Job // of older inputs, under way
	replaceable := build.Spec.RunPolicy == v1alpha1.RunPolicyReplace
	for _, run := range runs {
		switch job := jobNamed(jobs, run.Job); {
		case run.Forgotten(build.Status):
		case run.Hash == hash && run.Stuck:
			return Step{Stop: []*batchv1.Job{job}, Hold: observe.Retrying}
		case run.Hash == hash && run.Ended():
			due, again := observe.Again(build, run.Run)
			switch {
			case again && build.Spec.Suspend:
				return Step{Hold: observe.Suspended}
			case again:
				return Step{Hold: observe.Retrying, After: due.Sub(now)}
			}
			return Step{}
		case run.Hash == hash:
			return Step{}
		case !run.Ended():
			others = append(others, job)
			if run.Stuck {
				stuck = append(stuck, job)
			}
			// Under Latest a run may end, but one that waits for what may never come only stands in the way.
			replaceable = replaceable || run.Failure != nil
		}
	}
	if observe.Settled(build, hash) {
		return Step{}
	}
	attempt, due := observe.NextAttempt(build, hash)
	switch old := jobNamed(jobs, JobName(build, hash, attempt)); {
	case build.Spec.Suspend:
		return Step{Stop: stuck, Hold: observe.Suspended}
	case len(others) > 0 && replaceable:
		return Step{Stop: others, Hold: observe.Queued}
	case len(others) > 0:
		return Step{Hold: observe.Queued}
	case now.Before(due):
		return Step{Hold: observe.Retrying, After: due.Sub(now)}
	case old != nil:
		// The same inputs were built before others; they are built anew, and the name must be free for that.
		return Step{Stop: []*batchv1.Job{old}, Hold: observe.Queued}
	}
	for _, pod := range pods {
		// Its Job is gone but it still pushes: two runs at once would race for the tag.
		if observe.Active(pod) {
			return Step{Hold: observe.Queued}
		}
	}
	return Step{Start: attempt}
}

// Prune returns the Jobs of ended runs that the history, already trimmed, does not keep.
func Prune(status v1alpha1.BuildStatus, jobs []*batchv1.Job, runs []observe.Run) []*batchv1.Job {
	var surplus []*batchv1.Job
	for _, job := range jobs {
		underWay := slices.ContainsFunc(runs, func(run observe.Run) bool { return run.Job == job.Name && !run.Ended() })
		if !underWay && !observe.Remembers(status, job) {
			surplus = append(surplus, job)
		}
	}
	return surplus
}

func jobNamed(jobs []*batchv1.Job, name string) *batchv1.Job {
	for _, job := range jobs {
		if job.Name == name {
			return job
		}
	}
	return nil
}
