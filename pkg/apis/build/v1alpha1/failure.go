package v1alpha1

// Failure explains why a run failed or cannot start, or why the rollout failed.
type Failure struct {
	// step that failed: Schedule, Source, Build, Push or Deploy.
	Step Step `json:"step"`
	// reason is the class of the failure, also the reason of the condition.
	Reason FailureReason `json:"reason"`
	// message says in a sentence what happened and what to do.
	Message string `json:"message"`
	// exitCode of the container that failed; absent when none ran.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// logTail is the useful end of the failed step's log; it outlives the pod.
	// +optional
	LogTail string `json:"logTail,omitempty"`
}

// Step is a part of the way from source to running application.
type Step string

// The steps, in order.
const (
	// StepSchedule: the Job gets a pod, the pod gets a node, its images and its volumes.
	StepSchedule Step = "Schedule"
	// StepSource: the repository is cloned.
	StepSource Step = "Source"
	// StepBuild: the image is built.
	StepBuild Step = "Build"
	// StepPush: the image is pushed.
	StepPush Step = "Push"
	// StepDeploy: the image is brought to run.
	StepDeploy Step = "Deploy"
)

// FailureReason is the class of a failure.
type FailureReason string

// The classes of failures.
const (
	// Schedule: the pod could not be made or could not start.

	// FailureQuotaExceeded: a ResourceQuota of the namespace has no room for the pod.
	FailureQuotaExceeded FailureReason = "QuotaExceeded"
	// FailurePodRejected: admission (pod security, a LimitRange, a webhook) refused the pod.
	FailurePodRejected FailureReason = "PodRejected"
	// FailureUnschedulable: no node fits the pod.
	FailureUnschedulable FailureReason = "Unschedulable"
	// FailureSecretNotFound: a Secret that the Build names is not there.
	FailureSecretNotFound FailureReason = "SecretNotFound"
	// FailureSecretKeyNotFound: the Secret lacks a key that is needed.
	FailureSecretKeyNotFound FailureReason = "SecretKeyNotFound"
	// FailureVolumeMountFailed: a volume of the pod cannot be mounted, for another reason than a Secret.
	FailureVolumeMountFailed FailureReason = "VolumeMountFailed"
	// FailureImagePullFailed: the image of a step cannot be pulled by the node.
	FailureImagePullFailed FailureReason = "ImagePullFailed"
	// FailureEvicted: the pod was evicted or preempted and not replaced.
	FailureEvicted FailureReason = "Evicted"
	// FailureNodeLost: the node of the pod went away.
	FailureNodeLost FailureReason = "NodeLost"
	// FailureDeadlineExceeded: the run took longer than spec.timeout.
	FailureDeadlineExceeded FailureReason = "DeadlineExceeded"
	// FailureJobFailed: the Job failed and nothing is left that says why.
	FailureJobFailed FailureReason = "JobFailed"

	// Source.

	// FailureAuthenticationFailed: the git server does not accept the credentials.
	FailureAuthenticationFailed FailureReason = "AuthenticationFailed"
	// FailureInvalidSSHKey: ssh cannot read the private key.
	FailureInvalidSSHKey FailureReason = "InvalidSSHKey"
	// FailureHostKeyVerificationFailed: the host's key is not the one in known_hosts, or none is there.
	FailureHostKeyVerificationFailed FailureReason = "HostKeyVerificationFailed"
	// FailureRepositoryNotFound: the git server has no such repository, or none these credentials may see.
	FailureRepositoryNotFound FailureReason = "RepositoryNotFound"
	// FailureRevisionNotFound: the repository has no such branch, tag or commit.
	FailureRevisionNotFound FailureReason = "RevisionNotFound"
	// FailureHostNotFound: the name of the git server cannot be resolved.
	FailureHostNotFound FailureReason = "HostNotFound"
	// FailureHostUnreachable: the git server cannot be reached.
	FailureHostUnreachable FailureReason = "HostUnreachable"
	// FailureCloneFailed: git-sync failed in a way that has no name of its own.
	FailureCloneFailed FailureReason = "CloneFailed"

	// Build.

	// FailureContextNotFound: the repository has no such context directory.
	FailureContextNotFound FailureReason = "ContextNotFound"
	// FailureDockerfileNotFound: there is no Dockerfile at that path.
	FailureDockerfileNotFound FailureReason = "DockerfileNotFound"
	// FailureDockerfileInvalid: the Dockerfile cannot be parsed.
	FailureDockerfileInvalid FailureReason = "DockerfileInvalid"
	// FailureTargetNotFound: the Dockerfile has no such stage.
	FailureTargetNotFound FailureReason = "TargetNotFound"
	// FailureBaseImageNotFound: a base image is not in its registry, or these credentials may not see it.
	FailureBaseImageNotFound FailureReason = "BaseImageNotFound"
	// FailureBuildCommandFailed: a RUN instruction failed.
	FailureBuildCommandFailed FailureReason = "BuildCommandFailed"
	// FailureOutOfMemory: a container took more memory than it may have.
	FailureOutOfMemory FailureReason = "OutOfMemory"
	// FailureBuildFailed: the builder failed in a way that has no name of its own.
	FailureBuildFailed FailureReason = "BuildFailed"

	// Push; the first three also when a base image is pulled.

	// FailureRegistryDenied: the registry does not accept the credentials, or they may not push there.
	FailureRegistryDenied FailureReason = "RegistryDenied"
	// FailureRegistryUnreachable: the registry cannot be reached, or failed itself.
	FailureRegistryUnreachable FailureReason = "RegistryUnreachable"
	// FailureTLSVerificationFailed: the certificate of a registry or git server is not trusted.
	FailureTLSVerificationFailed FailureReason = "TLSVerificationFailed"
	// FailurePushFailed: the push failed in a way that has no name of its own.
	FailurePushFailed FailureReason = "PushFailed"
	// FailureDigestMissing: the builder ended well but left no digest.
	FailureDigestMissing FailureReason = "DigestMissing"

	// Deploy.

	// FailureRolloutFailed: the Deployment made no progress within its deadline.
	FailureRolloutFailed FailureReason = "RolloutFailed"
	// FailureUnavailable: the rollout was done, but since then too few pods are available.
	FailureUnavailable FailureReason = "Unavailable"

	// Any step.

	// FailureResourceExists: an object of that name exists and does not belong to this Build.
	FailureResourceExists FailureReason = "ErrResourceExists"
	// FailureRejected: the API server refuses an object that the Build asks for.
	FailureRejected FailureReason = "Rejected"
)
