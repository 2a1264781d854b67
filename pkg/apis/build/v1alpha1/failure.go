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

// The classes of failures, by step. docs/failures.md is written from these comments: what a class means, then what to do.
const (
	// Schedule: the pod could not be made or could not start.

	// FailureQuotaExceeded: a ResourceQuota of the namespace has no room for the pod, or wants resources named that the pod
	// does not name.
	// To do: raise the quota or free some of it, ask for less in spec.builder.resources or spec.deployment.resources, or give
	// the namespace a LimitRange with defaults.
	FailureQuotaExceeded FailureReason = "QuotaExceeded"
	// FailurePodRejected: admission (pod security, a LimitRange, a webhook) or the node refused the pod.
	// To do: change what refused it: BuildKit and Buildah need the pod security level privileged, Kaniko needs baseline; what the
	// application's pods need goes into spec.deployment.template.
	FailurePodRejected FailureReason = "PodRejected"
	// FailureUnschedulable: no node fits the pod.
	// To do: ask for less in spec.builder.resources or spec.deployment.resources, correct nodeSelector, tolerations or affinity
	// of the pod, or make room on a node.
	FailureUnschedulable FailureReason = "Unschedulable"
	// FailureSecretNotFound: a Secret that the Build names is not there.
	// To do: create it in the namespace of the Build, with the keys that the message names.
	FailureSecretNotFound FailureReason = "SecretNotFound"
	// FailureSecretKeyNotFound: the Secret lacks a key that is needed.
	// To do: add the key that the message names to the Secret.
	FailureSecretKeyNotFound FailureReason = "SecretKeyNotFound"
	// FailureVolumeMountFailed: a volume of the pod cannot be mounted, for another reason than a Secret.
	// To do: create the ConfigMap or PersistentVolumeClaim that the message names, or see to its volume.
	FailureVolumeMountFailed FailureReason = "VolumeMountFailed"
	// FailureImagePullFailed: the image of a step, or of the application, cannot be pulled by the node.
	// To do: correct spec.builder.image or the controller's flag for that image, add spec.builder.imagePullSecrets, or let the
	// nodes reach its registry; for the application's own image see to spec.image.secretName.
	FailureImagePullFailed FailureReason = "ImagePullFailed"
	// FailureEvicted: the pod was evicted or preempted and not replaced.
	// To do: nothing if it happens once; otherwise ask for more in spec.builder.resources.requests, or set
	// spec.builder.priorityClassName.
	FailureEvicted FailureReason = "Evicted"
	// FailureNodeLost: the node of the pod went away.
	// To do: nothing if it happens once; otherwise choose other nodes with spec.builder.nodeSelector.
	FailureNodeLost FailureReason = "NodeLost"
	// FailureDeadlineExceeded: the run took longer than spec.timeout.
	// To do: raise spec.timeout, or make the build faster, with spec.builder.cache for example; then ask for a new run.
	FailureDeadlineExceeded FailureReason = "DeadlineExceeded"
	// FailureJobFailed: the Job failed and nothing is left that says why.
	// To do: see who deleted the pods or which container failed beside the build, then ask for a new run.
	FailureJobFailed FailureReason = "JobFailed"

	// Source: the repository could not be cloned.

	// FailureAuthenticationFailed: the git server does not accept the credentials.
	// To do: give the key or token in the Secret of spec.source.git.secretName access to the repository, or store the right
	// one, without a passphrase; then ask for a new run.
	FailureAuthenticationFailed FailureReason = "AuthenticationFailed"
	// FailureInvalidSSHKey: ssh cannot read the private key.
	// To do: store the private key unchanged from its file, and one without a passphrase, under ssh or ssh-privatekey; then
	// ask for a new run.
	FailureInvalidSSHKey FailureReason = "InvalidSSHKey"
	// FailureHostKeyVerificationFailed: the host's key is not the one in known_hosts, or none is there.
	// To do: check what ssh-keyscan prints for the host and store it under known_hosts; then ask for a new run.
	FailureHostKeyVerificationFailed FailureReason = "HostKeyVerificationFailed"
	// FailureRepositoryNotFound: the git server has no such repository, or none these credentials may see.
	// To do: correct spec.source.git.url, or give the credentials access and ask for a new run.
	FailureRepositoryNotFound FailureReason = "RepositoryNotFound"
	// FailureRevisionNotFound: the repository has no such branch, tag or commit.
	// To do: correct spec.source.git.revision (a commit in full), or push it and ask for a new run.
	FailureRevisionNotFound FailureReason = "RevisionNotFound"
	// FailureHostNotFound: the name of the git server cannot be resolved.
	// To do: correct spec.source.git.url, or see to the cluster's DNS.
	FailureHostNotFound FailureReason = "HostNotFound"
	// FailureHostUnreachable: the git server cannot be reached.
	// To do: see that the server runs and that no firewall or NetworkPolicy is in the way; a proxy goes into spec.builder.env.
	FailureHostUnreachable FailureReason = "HostUnreachable"
	// FailureCloneFailed: git-sync failed in a way that has no name of its own.
	// To do: read status.failure.logTail, mend what it names, then ask for a new run.
	FailureCloneFailed FailureReason = "CloneFailed"

	// Build: the image could not be built.

	// FailureContextNotFound: the repository has no such context directory.
	// To do: correct spec.source.contextDir, or add the directory and ask for a new run.
	FailureContextNotFound FailureReason = "ContextNotFound"
	// FailureDockerfileNotFound: there is no Dockerfile at that path.
	// To do: correct spec.dockerfile.path, which is relative to spec.source.contextDir, or add the file and ask for a new run.
	FailureDockerfileNotFound FailureReason = "DockerfileNotFound"
	// FailureDockerfileInvalid: the Dockerfile cannot be parsed.
	// To do: correct the line that the message names, then ask for a new run.
	FailureDockerfileInvalid FailureReason = "DockerfileInvalid"
	// FailureTargetNotFound: the Dockerfile has no such stage.
	// To do: correct spec.dockerfile.target, or add the stage and ask for a new run.
	FailureTargetNotFound FailureReason = "TargetNotFound"
	// FailureBaseImageNotFound: a base image is not in its registry, or not for the platform.
	// To do: correct FROM in the Dockerfile and ask for a new run, or correct spec.builder.platforms.
	FailureBaseImageNotFound FailureReason = "BaseImageNotFound"
	// FailureBuildCommandFailed: a RUN instruction failed.
	// To do: read its output in status.failure.logTail, correct the command or what it runs, then ask for a new run.
	FailureBuildCommandFailed FailureReason = "BuildCommandFailed"
	// FailureOutOfMemory: a container took more memory than it may have.
	// To do: raise spec.builder.resources.limits.memory, or for the application spec.deployment.resources.limits.memory.
	FailureOutOfMemory FailureReason = "OutOfMemory"
	// FailureBuildFailed: the builder failed in a way that has no name of its own: a file to copy or a secret that is missing,
	// a flag it does not know, a node that allows no user namespace.
	// To do: do what the message says; status.failure.logTail has the builder's words.
	FailureBuildFailed FailureReason = "BuildFailed"

	// Push: the image could not be pushed; the first three also when a base image could not be pulled.

	// FailureRegistryDenied: the registry does not accept the credentials, or they may not push there.
	// To do: name a Secret of type kubernetes.io/dockerconfigjson for this very registry in spec.image.secretName, or correct
	// the one that is there and ask for a new run.
	FailureRegistryDenied FailureReason = "RegistryDenied"
	// FailureRegistryUnreachable: the registry cannot be reached, or failed itself.
	// To do: correct the name of the image, or see that the registry runs and that no firewall or NetworkPolicy is in the way.
	FailureRegistryUnreachable FailureReason = "RegistryUnreachable"
	// FailureTLSVerificationFailed: the certificate of a registry or git server is not trusted, or the registry speaks plain
	// http.
	// To do: name a ConfigMap with its authority in spec.image.caConfigMapName or spec.source.git.caConfigMapName; for a
	// registry without TLS set spec.image.insecure.
	FailureTLSVerificationFailed FailureReason = "TLSVerificationFailed"
	// FailurePushFailed: the push failed in a way that has no name of its own.
	// To do: create the repository in the registry, or correct spec.image.name; status.failure.logTail has the builder's
	// words.
	FailurePushFailed FailureReason = "PushFailed"
	// FailureDigestMissing: the builder ended well but left no digest.
	// To do: ask for a new run; the image was pushed, but nobody knows which it is.
	FailureDigestMissing FailureReason = "DigestMissing"

	// Deploy: the image could not be brought to run. The reasons of Schedule, and OutOfMemory, are given for the application's pods
	// too.

	// FailureCrashLoopBackOff: a container of the application's pods ends again and again.
	// To do: read its last lines in status.failure.logTail, then correct the program, or what spec.deployment gives it.
	FailureCrashLoopBackOff FailureReason = "CrashLoopBackOff"
	// FailureNotReady: the application's pods run, but the readiness probe fails.
	// To do: have the program listen on the first of spec.deployment.ports on all addresses, or set
	// spec.deployment.readinessProbe to what it answers.
	FailureNotReady FailureReason = "NotReady"
	// FailureRolloutFailed: the Deployment made no progress within its deadline, and no pod says why.
	// To do: look at the Deployment and its pods with kubectl describe, then correct spec.deployment or the program, or raise
	// spec.deployment.progressDeadline.
	FailureRolloutFailed FailureReason = "RolloutFailed"
	// FailureUnavailable: the rollout was done, but since then too few pods are available.
	// To do: look at the Deployment's pods and their logs; the status follows when enough are available.
	FailureUnavailable FailureReason = "Unavailable"
	// FailureInvalidTemplate: spec.deployment.template cannot be merged into a pod template.
	// To do: correct the field that the message names; until then the Deployment stays as it is.
	FailureInvalidTemplate FailureReason = "InvalidTemplate"
	// FailureRollbackNotFound: spec.deployment.rollback names no image of the history.
	// To do: choose a digest of status.history, or take the field away; until then the Deployment stays as it is.
	FailureRollbackNotFound FailureReason = "RollbackNotFound"

	// Any step: an object could not be made.

	// FailureResourceExists: an object of that name exists and does not belong to this Build.
	// To do: delete or rename the object that the message names, have it taken over with spec.deployment.adopt, or give the Build
	// another name; it is tried again every 30 s.
	FailureResourceExists FailureReason = "ErrResourceExists"
	// FailureNotAllowed: the controller's flags do not allow a registry, a git host or a builder that the Build names.
	// To do: name one that the message says is allowed, or ask whoever runs the controller to allow this one.
	FailureNotAllowed FailureReason = "NotAllowed"
	// FailureRejected: the API server refuses an object that the Build asks for.
	// To do: correct the field that the message names, in the spec or in the live object; it is tried again every 30 s.
	FailureRejected FailureReason = "Rejected"
)
