package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// How many finished runs are kept when the Build does not say.
const (
	defaultSuccessful = 3
	defaultFailed     = 3
)

// shortDigestLength is how much of a digest is shown to the eyes.
const shortDigestLength = len("sha256:") + 12

// Remembers says whether the history has the end of the run of that Job. Such a Job is not observed
// again: its pods may be gone by now, and what was seen of them is in the status.
func Remembers(status v1alpha1.BuildStatus, job *batchv1.Job) bool {
	return slices.ContainsFunc(status.History, func(run v1alpha1.Run) bool {
		return run.Job == job.Name && run.StartTime.Equal(&job.CreationTimestamp)
	})
}

// Before returns what was found earlier about the run of that Job, which may have been made anew because it only waited.
func Before(status v1alpha1.BuildStatus, job *batchv1.Job) *v1alpha1.Failure {
	run, failure := status.Run, status.Failure
	if run == nil || run.Job != job.Name || failure == nil || failure.Step == v1alpha1.StepDeploy {
		return nil
	}
	if !run.StartTime.Equal(&job.CreationTimestamp) && !waitingReasons[failure.Reason] {
		return nil
	}
	return failure
}

// Settled says whether the newest run is for the inputs with that hash and has ended for good: they are not built again,
// even if its Job is gone. An older run of the same inputs settles nothing: a branch has moved on since.
func Settled(build *v1alpha1.Build, hash string) bool {
	newest := ptr.Deref(build.Status.Run, v1alpha1.Run{})
	if newest.Hash != hash || newest.CompletionTime == nil {
		return false
	}
	_, again := Again(build, newest)
	return !again
}

// Runs returns the status of the Build with run, history, image and the failure of the run brought
// up to date. hash is that of the newest inputs, runs are those that the status does not remember.
// Conclude does the rest of the status.
func Runs(build *v1alpha1.Build, hash string, runs []Run) v1alpha1.BuildStatus {
	status := *build.Status.DeepCopy()
	runFailure := status.Failure
	if runFailure != nil && runFailure.Step == v1alpha1.StepDeploy {
		runFailure = nil
	}
	status.Failure = nil
	// What ended the run, or keeps it from starting, is true also when its Job is gone.
	if run := status.Run; run != nil && run.Hash == hash && runFailure != nil && (run.CompletionTime != nil || waitingReasons[runFailure.Reason]) {
		status.Failure = runFailure
	}
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int { return a.StartTime.Compare(b.StartTime.Time) })
	for _, run := range runs {
		if run.Forgotten(status) {
			continue
		}
		if run.Ended() {
			status.History = slices.DeleteFunc(status.History, func(old v1alpha1.Run) bool { return old.Job == run.Job })
			status.History = slices.Insert(status.History, 0, run.Run)
		}
		if run.Image != "" {
			status.Image, status.Rollback = run.Image, nil // even the same image is tried again: it was asked for
		}
		if run.Hash == hash || status.Run != nil && status.Run.Job == run.Job {
			status.Run = run.Run.DeepCopy()
		}
		if run.Hash == hash {
			status.Failure = run.Failure
		}
	}
	status.History = trimmed(status.History, build.Spec.History, status.Run)
	return status
}

// trimmed keeps the newest runs that the limits allow, and always the one that is shown.
func trimmed(history []v1alpha1.Run, limits *v1alpha1.History, shown *v1alpha1.Run) []v1alpha1.Run {
	limit := ptr.Deref(limits, v1alpha1.History{})
	successful, failed := ptr.Deref(limit.Successful, defaultSuccessful), ptr.Deref(limit.Failed, defaultFailed)
	return slices.DeleteFunc(history, func(run v1alpha1.Run) bool {
		left := &failed
		if run.Result == v1alpha1.ResultSucceeded {
			left = &successful
		}
		*left--
		return *left < 0 && (shown == nil || run.Job != shown.Job)
	})
}

// Outcome is what a sync did and found beside the runs.
type Outcome struct {
	// Hold says why the newest inputs have no run.
	Hold Hold
	// Obstacle is what kept an object from being made.
	Obstacle *v1alpha1.Failure
	// App is the application as it is now.
	App Application
}

// Hold is a reason for which a run is held back.
type Hold string

// The reasons for which a run is held back.
const (
	NotHeld   Hold = ""
	Queued    Hold = v1alpha1.ReasonQueued
	Retrying  Hold = v1alpha1.ReasonRetrying
	Suspended Hold = v1alpha1.ReasonSuspended
)

// Conclude returns the whole status: the conditions, the phase and the failure that matters most, added to what Runs returned.
func Conclude(build *v1alpha1.Build, status v1alpha1.BuildStatus, hash string, outcome Outcome, now metav1.Time) v1alpha1.BuildStatus {
	status.Conditions = slices.Clone(status.Conditions)
	status.ObservedGeneration = build.Generation
	if _, digest, ok := strings.Cut(cmp.Or(outcome.App.Image, status.DeployedImage, status.Image), "@"); ok && len(digest) > shortDigestLength {
		status.ShortDigest = digest[:shortDigestLength]
	}

	conditions := []metav1.Condition{built(build, &status, hash, outcome)}
	if build.Spec.Deployment == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionDeployed)
		status.DeployedImage, status.DeployedRollout, status.Rollback = "", "", nil
		status.URL, status.Replicas, status.Selector = "", 0, ""
	} else {
		conditions = append(conditions, deployed(build, &status, outcome))
		status.URL = address(build, outcome.App)
	}
	conditions = append(conditions, ready(conditions))
	for _, condition := range conditions {
		condition.ObservedGeneration = build.Generation
		condition.LastTransitionTime = now
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.Phase = phase(status, outcome.Hold)
	return status
}

func built(build *v1alpha1.Build, status *v1alpha1.BuildStatus, hash string, outcome Outcome) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionBuilt, Status: metav1.ConditionUnknown}
	run := ptr.Deref(status.Run, v1alpha1.Run{})
	due, again := Again(build, run)
	if outcome.Obstacle != nil && outcome.Obstacle.Step != v1alpha1.StepDeploy {
		status.Failure, again = outcome.Obstacle, false
	}
	switch {
	case outcome.Hold == Suspended:
		condition.Reason, condition.Message = v1alpha1.ReasonSuspended, "The newest inputs are built when spec.suspend is taken away."
	case again && run.Hash == hash && status.Failure != nil:
		condition.Reason, condition.Message = v1alpha1.ReasonRetrying, announcement(build, run, status.Failure, due)
	case status.Failure != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = string(status.Failure.Reason), status.Failure.Message
	case outcome.Hold == Queued:
		condition.Reason, condition.Message = v1alpha1.ReasonQueued, "The newest inputs are built when the run of older ones has ended."
	case run.Hash == hash && run.Result == v1alpha1.ResultSucceeded:
		condition.Status = metav1.ConditionTrue
		condition.Reason, condition.Message = v1alpha1.ReasonSucceeded, fmt.Sprintf("Built %s from commit %s.", run.Image, run.ShortCommit)
	case run.Hash == hash && run.Result != "":
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = run.Result, "The run failed; its Job "+run.Job+" may have more."
	default:
		condition.Reason, condition.Message = v1alpha1.ReasonBuilding, "Job "+run.Job+" builds the newest inputs."
	}
	return condition
}

func deployed(build *v1alpha1.Build, status *v1alpha1.BuildStatus, outcome Outcome) metav1.Condition {
	app, pinned := outcome.App, build.Spec.Deployment.Rollback != ""
	condition, failure := metav1.Condition{Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionUnknown}, (*v1alpha1.Failure)(nil)
	switch {
	case app.Image == "":
		condition.Reason, condition.Message = v1alpha1.ReasonWaiting, "Nothing is deployed before the first good image."
	case app.Deployment == nil:
		condition = deploying(app.Image)
	default:
		stage := stageOf(app, build.Status)
		condition, failure = rollout(app, stage)
		status.Selector = metav1.FormatLabelSelector(app.Deployment.Spec.Selector)
		switch {
		case stage == serving:
			status.Replicas = app.Deployment.Status.Replicas
			if app.Deployment.Status.AvailableReplicas > 0 {
				status.DeployedImage, status.DeployedRollout = app.Image, rolloutOf(app.Deployment)
			}
			if back := status.Rollback; back != nil && back.From == status.DeployedImage {
				status.Rollback = nil // it got well, somewhere else or by hand
			}
			if pinned {
				condition.Message = "The Deployment runs " + app.Image + ", as spec.deployment.rollback asks."
			}
		case condition.Status == metav1.ConditionFalse && stage != short:
			to := status.DeployedImage
			switch {
			case pinned:
				condition.Message += " spec.deployment.rollback keeps the Deployment at this image; take it away, or name another."
			case build.Spec.Deployment.OnFailure == v1alpha1.OnFailureKeep:
				condition.Message += " It stays, as spec.deployment.onFailure asks."
			case app.Image != status.Image: // it was returned to
			case to == "":
				condition.Message += " No other image was available before that it could return to."
			case to == app.Image:
				condition.Message += " The image is the one that was available before, so there is none to return to; the pods of before keep serving."
			default:
				status.Rollback = &v1alpha1.Rollback{From: app.Image, To: to, Rollout: rolloutOf(app.Deployment), Failure: *failure}
			}
		}
		if back := status.Rollback; back != nil && back.To == app.Image && !pinned {
			condition, failure = takenBack(back, condition)
		}
	}
	if outcome.Obstacle != nil && outcome.Obstacle.Step == v1alpha1.StepDeploy {
		condition, failure = notDeployed(outcome.Obstacle)
	}
	if status.Failure == nil {
		status.Failure = failure
	}
	return condition
}

// ready is True when all the others are; otherwise it speaks of the first that is False, else of the first that is Unknown.
func ready(others []metav1.Condition) metav1.Condition {
	worst := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "All that the spec asks for is done."}
	for _, condition := range others {
		if condition.Status == metav1.ConditionFalse && worst.Status != metav1.ConditionFalse ||
			condition.Status == metav1.ConditionUnknown && worst.Status == metav1.ConditionTrue {
			worst = condition
		}
	}
	worst.Type = v1alpha1.ConditionReady
	return worst
}

func phase(status v1alpha1.BuildStatus, hold Hold) v1alpha1.Phase {
	is := func(conditionType string, value metav1.ConditionStatus) bool {
		return meta.IsStatusConditionPresentAndEqual(status.Conditions, conditionType, value)
	}
	underWay := status.Run != nil && status.Run.CompletionTime == nil
	switch {
	case is(v1alpha1.ConditionReady, metav1.ConditionTrue):
		return v1alpha1.PhaseReady
	case is(v1alpha1.ConditionBuilt, metav1.ConditionFalse) && underWay:
		return v1alpha1.PhasePending
	case is(v1alpha1.ConditionReady, metav1.ConditionFalse) && !(status.Rollback != nil && is(v1alpha1.ConditionBuilt, metav1.ConditionUnknown)):
		return v1alpha1.PhaseFailed // but a build after a rollout that was taken back is under way, or held
	case hold == Suspended:
		return v1alpha1.PhaseSuspended
	case hold == Queued:
		return v1alpha1.PhaseQueued
	case hold == Retrying:
		return v1alpha1.PhasePending
	case is(v1alpha1.ConditionBuilt, metav1.ConditionUnknown):
		return v1alpha1.PhaseBuilding
	}
	return v1alpha1.PhaseDeploying
}
