package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BuildStatus is what the controller observed.
type BuildStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase sums the conditions up in one word, for the eyes only: Pending, Queued, Building, Deploying, Ready,
	// Failed or Suspended. Programs read the conditions.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// conditions are Built (the newest inputs are an image in the registry), Deployed (the Deployment runs the
	// newest image, or the one that spec.deployment.rollback names) and Ready (all that the spec asks for is done).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// image is the newest image that was built, by digest.
	// +optional
	Image string `json:"image,omitempty"`
	// shortDigest is the start of the digest of the image that the Deployment is kept at, without one of image, for the eyes.
	// +optional
	ShortDigest string `json:"shortDigest,omitempty"`
	// deployedImage is the image, by digest, whose pods were last seen to be available: what a rollout that fails returns to.
	// +optional
	DeployedImage string `json:"deployedImage,omitempty"`
	// deployedRollout is the hash of what these pods were asked to be, which they carry in the annotation
	// buildcontroller.dev/rollout.
	// +optional
	DeployedRollout string `json:"deployedRollout,omitempty"`
	// rollback says which rollout failed and what the Deployment returned to. It is there until other inputs or pods are asked
	// for, or the annotation buildcontroller.dev/redeploy gets a new value; until then the image is not tried again.
	// +optional
	Rollback *Rollback `json:"rollback,omitempty"`
	// url under which the application is reached: that of the ingress, else of the load balancer, else that of the Service inside
	// the cluster.
	// +optional
	URL string `json:"url,omitempty"`
	// replicas is the number of pods that the Deployment had when it was last seen to be available.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// selector of these pods, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`
	// run is the newest run.
	// +optional
	Run *Run `json:"run,omitempty"`
	// failure explains why the newest run failed or cannot start, or why the rollout failed. Absent when nothing is wrong.
	// +optional
	Failure *Failure `json:"failure,omitempty"`
	// history are the finished runs that are kept, newest first.
	// +optional
	// +listType=atomic
	History []Run `json:"history,omitempty"`
}

// Phase sums the conditions up in one word.
type Phase string

// The phases, in the order in which a Build normally goes through them.
const (
	// PhasePending: the run waits to start, or cannot start and failure says why.
	PhasePending Phase = "Pending"
	// PhaseQueued: new inputs wait for the run of older ones to end.
	PhaseQueued Phase = "Queued"
	// PhaseBuilding: a run is under way.
	PhaseBuilding Phase = "Building"
	// PhaseDeploying: the image is built and the Deployment moves to it.
	PhaseDeploying Phase = "Deploying"
	// PhaseReady: all that the spec asks for is done.
	PhaseReady Phase = "Ready"
	// PhaseFailed: the newest run or the rollout failed.
	PhaseFailed Phase = "Failed"
	// PhaseSuspended: new inputs wait for spec.suspend to be taken away.
	PhaseSuspended Phase = "Suspended"
)

// The types of conditions.
const (
	// ConditionBuilt is True when the newest inputs are an image in the registry, False when their run failed or
	// cannot start, Unknown while it is under way.
	ConditionBuilt = "Built"
	// ConditionDeployed is True when the Deployment runs the newest good image and is available, False when the
	// rollout failed, also when the Deployment has returned to an older image since, Unknown while it is under way. Absent
	// when the spec has no deployment.
	ConditionDeployed = "Deployed"
	// ConditionReady is True when all that the spec asks for is done, False when something of it failed.
	ConditionReady = "Ready"
)

// Reasons of conditions that name no failure; Failure has the others.
const (
	ReasonQueued    = "Queued"
	ReasonRetrying  = "Retrying"
	ReasonSuspended = "Suspended"
	ReasonBuilding  = "Building"
	ReasonSucceeded = "Succeeded"
	ReasonWaiting   = "WaitingForImage"
	ReasonDeploying = "Deploying"
	ReasonAvailable = "Available"
	ReasonScaling   = "Scaling"
	ReasonReady     = "Ready"
)

// Rollback is a return to an older image.
type Rollback struct {
	// from is the image, by digest, whose rollout failed.
	From string `json:"from"`
	// to is the image, by digest, that the Deployment returned to.
	To string `json:"to"`
	// rollout is the hash of what the pods were asked to be in the rollout that failed.
	Rollout string `json:"rollout"`
	// failure of the rollout.
	Failure Failure `json:"failure"`
}

// Run is one execution for one set of inputs: one Job.
type Run struct {
	// job is the name of the run's Job.
	Job string `json:"job"`
	// hash of the inputs that the run builds.
	Hash string `json:"hash"`
	// attempt counts the runs of the same inputs, from 1: more than one when the failure of the one before passes by itself.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// revision that was asked for; empty for the default branch.
	// +optional
	Revision string `json:"revision,omitempty"`
	// rebuild is the value of the annotation buildcontroller.dev/rebuild that the run was made for.
	// +optional
	Rebuild string `json:"rebuild,omitempty"`
	// commit that was built, in full.
	// +optional
	Commit string `json:"commit,omitempty"`
	// shortCommit is the start of commit, for the eyes.
	// +optional
	ShortCommit string `json:"shortCommit,omitempty"`
	// author of the commit.
	// +optional
	Author string `json:"author,omitempty"`
	// committed is when the commit was authored.
	// +optional
	Committed *metav1.Time `json:"committed,omitempty"`
	// subject is the first line of the commit's message.
	// +optional
	Subject string `json:"subject,omitempty"`
	// image that the run pushed, by digest.
	// +optional
	Image string `json:"image,omitempty"`
	// startTime of the run.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime of the run; absent while it is under way.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// duration from startTime to completionTime, for the eyes.
	// +optional
	Duration string `json:"duration,omitempty"`
	// result of the run: Succeeded, or the reason of its failure; absent while it is under way.
	// +optional
	Result string `json:"result,omitempty"`
}

// ResultSucceeded is the result of a good run; that of a bad one is its FailureReason.
const ResultSucceeded = "Succeeded"
