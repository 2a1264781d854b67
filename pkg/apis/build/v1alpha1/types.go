package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Names that the controller puts on the objects it makes and reads from a Build.
const (
	// ManagedByLabel with the value ManagedBy marks every object the controller makes; it watches no others.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel, and the field manager of every write.
	ManagedBy = "build-controller"
	// BuildLabel carries the name of the Build on its Jobs and their pods.
	BuildLabel = GroupName + "/build"
	// BuilderLabel carries the name of the builder in lower case on a Build, if the webhook is on: for people to select by.
	BuilderLabel = GroupName + "/builder"
	// AppLabel carries the name of the Build on the pods of its Deployment and is what the Deployment and the Service select.
	AppLabel = GroupName + "/app"
	// AppContainer is the name of the application's container when the Build does not say.
	AppContainer = "app"
	// RebuildAnnotation on a Build asks for a new run of the same inputs whenever it gets a new value.
	// Taking it away changes nothing.
	RebuildAnnotation = GroupName + "/rebuild"
	// InputsAnnotation carries the full hash of the inputs on a Job.
	InputsAnnotation = GroupName + "/inputs"
	// RevisionAnnotation carries the revision that was asked for on a Job.
	RevisionAnnotation = GroupName + "/revision"
	// ImageAnnotation carries the name under which the image is pushed on a Job.
	ImageAnnotation = GroupName + "/image"
	// AttemptAnnotation carries on a Job which attempt at the same inputs it is, from 1.
	AttemptAnnotation = GroupName + "/attempt"
	// AppliedAnnotation carries the hash of what was last applied on a Deployment, Service or Ingress.
	AppliedAnnotation = GroupName + "/applied"
	// RolloutAnnotation carries the hash of what the pods were asked to be on the pods of a Deployment.
	RolloutAnnotation = GroupName + "/rollout"
	// RedeployAnnotation on a Build rolls its image out once more whenever it gets a new value, or is taken away: all pods are
	// replaced, and an image whose rollout failed gets another chance.
	RedeployAnnotation = GroupName + "/redeploy"
	// OwnerAnnotation carries the UID of the Build on what outlives it, in the place of an owner reference.
	OwnerAnnotation = GroupName + "/owner"
	// Finalizer keeps a deleted Build until its running Job and that Job's pods are gone.
	Finalizer = GroupName + "/stop-run"
)

// Build turns a git repository into a running application: the repository is
// cloned, its image built in a Job and pushed, and the image run as a
// Deployment that follows every later change of this object.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.deployment.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=bld,categories=all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.status.run.shortCommit`
// +kubebuilder:printcolumn:name="Image-Digest",type=string,JSONPath=`.status.shortDigest`
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.status.run.duration`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Job",type=string,priority=1,JSONPath=`.status.run.job`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')",message="metadata.name must start with a letter and have at most 52 lower case letters, digits and '-': Jobs, the Deployment and the Service are named after it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.deployedImage) || size(oldSelf.status.deployedImage) == 0 || !has(oldSelf.spec.deployment) || !has(self.spec.deployment) || (has(self.spec.deployment.containerName) && size(self.spec.deployment.containerName) > 0 ? self.spec.deployment.containerName : 'app') == (has(oldSelf.spec.deployment.containerName) && size(oldSelf.spec.deployment.containerName) > 0 ? oldSelf.spec.deployment.containerName : 'app')",message="spec.deployment.containerName cannot change once the application runs: the container of the old name would stay wherever somebody else has set a field of it"
type Build struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to build, where to push it and how to run it.
	// +required
	Spec BuildSpec `json:"spec"`
	// status says what was observed; only the controller writes it.
	// +optional
	Status BuildStatus `json:"status,omitempty"`
}

// BuildList is a list of Builds.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BuildList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Build `json:"items"`
}

// BuildSpec is what the user asks for. The sections source, dockerfile, builder
// and image are the inputs of a build: a change in one of them makes a new run.
// The others never do.
//
// +kubebuilder:validation:XValidation:rule="!has(self.builder) || !has(self.builder.secrets) || size(self.builder.secrets) == 0 || (has(self.builder.name) && self.builder.name in ['BuildKit', 'Buildah'])",message="builder.secrets cannot be honoured by Kaniko; set builder.name to BuildKit or Buildah"
// +kubebuilder:validation:XValidation:rule="!has(self.builder) || !has(self.builder.platforms) || size(self.builder.platforms) < 2 || (has(self.builder.name) && self.builder.name in ['BuildKit', 'Buildah'])",message="builder.platforms: Kaniko builds for one platform only; set builder.name to BuildKit or Buildah for several"
// +kubebuilder:validation:XValidation:rule="!has(self.builder) || !has(self.builder.cache) || !has(self.builder.cache.ttl) || !has(self.builder.name) || self.builder.name != 'BuildKit'",message="builder.cache.ttl cannot be honoured by BuildKit, whose cache does not age; take it away, or set builder.name to Kaniko or Buildah"
// +kubebuilder:validation:XValidation:rule="!has(self.image.annotations) || size(self.image.annotations) == 0 || (has(self.builder) && has(self.builder.name) && self.builder.name in ['BuildKit', 'Buildah'])",message="image.annotations cannot be honoured by Kaniko; set builder.name to BuildKit or Buildah"
// +kubebuilder:validation:XValidation:rule="!has(self.image.sbom) || !self.image.sbom || (has(self.builder) && has(self.builder.name) && self.builder.name == 'BuildKit')",message="image.sbom cannot be honoured by Kaniko or Buildah; set builder.name to BuildKit"
// +kubebuilder:validation:XValidation:rule="!has(self.image.provenance) || !self.image.provenance || (has(self.builder) && has(self.builder.name) && self.builder.name == 'BuildKit')",message="image.provenance cannot be honoured by Kaniko or Buildah; set builder.name to BuildKit"
// +kubebuilder:validation:XValidation:rule="!has(self.source.git.sparse) || !self.source.git.sparse || (has(self.source.contextDir) && !self.source.contextDir.matches('^([.]?/*)*$'))",message="source.git.sparse needs source.contextDir: that directory is what is checked out"
type BuildSpec struct {
	// source is where the code comes from.
	// +required
	Source Source `json:"source"`
	// dockerfile says how the image is made. Absent: the file Dockerfile in the context directory.
	// +optional
	Dockerfile *Dockerfile `json:"dockerfile,omitempty"`
	// builder says which tool builds the image, and sets up its pod.
	// +optional
	Builder *Builder `json:"builder,omitempty"`
	// image is what is pushed.
	// +required
	Image Image `json:"image"`
	// deployment runs the image. Absent: the image is built and pushed, and nothing runs.
	// +optional
	Deployment *Deployment `json:"deployment,omitempty"`
	// timeout ends a run that takes longer, waiting for a node or a Secret included, for example 45m. Default: 30m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="timeout must be between 1s and 720h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// retries is how often a run is tried again whose failure passes by itself: a pod that was evicted, a node that was lost, a
	// registry or git server that could not be reached or was out of order. The pauses between double from 10s to at most 5m.
	// What the source, the Dockerfile or the spec does wrong is never tried again. Raising it gives a run that failed so
	// further attempts. Default: 2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries *int32 `json:"retries,omitempty"`
	// runPolicy says what happens to a running build when the inputs change: Latest lets it finish and then
	// builds the newest inputs only; Replace cancels it at once. Default: Latest.
	// +optional
	// +kubebuilder:validation:Enum=Latest;Replace
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`
	// suspend starts no new run while true. A run that is under way goes on, and the Deployment is kept as it should be.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// history bounds how many finished runs are kept.
	// +optional
	History *History `json:"history,omitempty"`
}

// RunPolicy says what happens to a running build when the inputs change.
type RunPolicy string

const (
	// RunPolicyLatest lets the running build finish, then builds the newest inputs only.
	RunPolicyLatest RunPolicy = "Latest"
	// RunPolicyReplace cancels the running build.
	RunPolicyReplace RunPolicy = "Replace"
)

// Source is where the code comes from.
type Source struct {
	// git is the repository to clone.
	// +required
	Git GitSource `json:"git"`
	// contextDir is the directory of the repository that is built, for example services/shop. Default: its root.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)') && !self.matches('[[:cntrl:]]')",message="contextDir must be a path inside the repository: not absolute, no '..'"
	ContextDir string `json:"contextDir,omitempty"`
}

// GitSource is a git repository and a revision of it.
//
// +kubebuilder:validation:XValidation:rule="!self.url.matches('^(ssh://|[^/]+@)') || (has(self.secretName) && size(self.secretName) > 0)",message="secretName is required for a repository over ssh: name a Secret with the keys ssh (or ssh-privatekey) and known_hosts"
type GitSource struct {
	// url of the repository: ssh://git@host/path, git@host:path or https://host/path.
	// Credentials belong into the Secret, never into the url.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://([A-Za-z0-9][A-Za-z0-9.-]*|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?/[!-~]+$') || self.matches('^ssh://([A-Za-z0-9_][A-Za-z0-9_.-]*@)?([A-Za-z0-9][A-Za-z0-9.-]*|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?/[!-~]+$') || self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]*@([A-Za-z0-9][A-Za-z0-9.-]*|[[][0-9A-Fa-f:.]+[]]):[!-9;-~][!-~]*$')",message="url must be ssh://user@host/path, user@host:path or https://host/path, with no password in it"
	URL string `json:"url"`
	// revision is a branch, a tag or a full commit id. Default: the default branch of the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[-/]|[.][.]|[[:cntrl:] ~^:?*\\\\[\\\\\\\\]|@[{]|[/.]$|[.]lock$')",message="revision must be the name of a branch or tag, or a full commit id"
	Revision string `json:"revision,omitempty"`
	// secretName is a Secret of this namespace. For ssh it has the keys ssh or ssh-privatekey (the private key, without a
	// passphrase) and known_hosts (the host's public key, as ssh-keyscan prints it); for https the keys username and password, or
	// a token alone under password or token. A certificate under the key ca.crt is trusted beside the public authorities.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SecretName string `json:"secretName,omitempty"`
	// caConfigMapName is a ConfigMap of this namespace; the certificates under its key ca.crt are trusted beside the public
	// authorities when the repository is cloned over https.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	CAConfigMapName string `json:"caConfigMapName,omitempty"`
	// depth is how many commits of the history are fetched; 0 is all of it. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Depth *int32 `json:"depth,omitempty"`
	// submodules says which of them are cloned: Recursive all, Shallow those of the repository itself, Off none.
	// Default: Recursive.
	// +optional
	// +kubebuilder:validation:Enum=Recursive;Shallow;Off
	Submodules Submodules `json:"submodules,omitempty"`
	// sparse checks out nothing but contextDir, and the files beside the directories above it, and fetches no other file's
	// content: for a directory of a large repository. The git server has to allow partial clones, as all the well-known ones do.
	// +optional
	Sparse bool `json:"sparse,omitempty"`
}

// Submodules says which submodules are cloned.
type Submodules string

const (
	// SubmodulesRecursive clones submodules and theirs.
	SubmodulesRecursive Submodules = "Recursive"
	// SubmodulesShallow clones the submodules of the repository itself.
	SubmodulesShallow Submodules = "Shallow"
	// SubmodulesOff clones none.
	SubmodulesOff Submodules = "Off"
)

// Dockerfile says how the image is made from the source.
//
// +kubebuilder:validation:XValidation:rule="!has(self.inline) || size(self.inline) == 0 || !has(self.path) || size(self.path) == 0",message="inline and path exclude each other: the Dockerfile is either here or in the repository"
type Dockerfile struct {
	// path of the Dockerfile, relative to the context directory. Default: Dockerfile.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)') && !self.matches('[[:cntrl:]]')",message="path must be a path inside the context directory: not absolute, no '..'"
	Path string `json:"path,omitempty"`
	// inline is the Dockerfile itself, for source that has none. Its COPY instructions copy from the context directory.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Inline string `json:"inline,omitempty"`
	// target is the stage of the Dockerfile to build. Default: the last one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9][A-Za-z0-9._-]*)?$`
	Target string `json:"target,omitempty"`
	// buildArgs are the values of the Dockerfile's ARG instructions.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	BuildArgs []BuildArg `json:"buildArgs,omitempty"`
}

// BuildArg is the value of one ARG instruction. It ends up in the history of the image, so it is no place for a secret.
type BuildArg struct {
	// name of the ARG.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`
	// value of the ARG, taken as it is.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}

// Builder says which tool builds the image, and sets up its pod.
type Builder struct {
	// name of the builder: Kaniko, BuildKit or Buildah. docs/builders.md has what each can do. Default: Kaniko.
	// +optional
	// +kubebuilder:validation:Enum=Kaniko;BuildKit;Buildah
	Name BuilderName `json:"name,omitempty"`
	// image of the builder. Default: the one that the controller's flags name.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[!-~]*$`
	Image string `json:"image,omitempty"`
	// args are further flags for the builder (executor, buildctl build, buildah build), given after all others.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^--?(no-push|push|digest-file|tar-path|tarPath|metadata-file|help|h|version|v)(=.*)?$')",message="args must not name a flag by which nothing is pushed or the digest goes elsewhere: the Deployment runs what was pushed, by digest"
	Args []string `json:"args,omitempty"`
	// env of the containers that clone and build, for example HTTPS_PROXY. The Dockerfile does not see it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(e, !has(e.valueFrom) || !has(e.valueFrom.fileKeyRef))",message="valueFrom.fileKeyRef is not supported: the pod has no volume that it could name"
	Env []corev1.EnvVar `json:"env,omitempty"`
	// cache keeps layers in a registry, so that the next run need not build them again. Absent: none is kept.
	// +optional
	Cache *Cache `json:"cache,omitempty"`
	// secrets are what RUN --mount=type=secret,id=… sees. They are in no layer, no history and no argument.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=20
	Secrets []BuildSecret `json:"secrets,omitempty"`
	// platforms to build for, for example linux/arm64. Default: that of the node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]+/[a-z0-9]+(/v[0-9]+)?$`
	Platforms []string `json:"platforms,omitempty"`
	// mirrors of Docker Hub, host[:port], asked before it for base images that name no registry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:Pattern=`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?$`
	Mirrors []string `json:"mirrors,omitempty"`
	// insecureRegistries are further registries, host[:port], of base images that speak plain http. Kaniko then pulls from any that does.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:Pattern=`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?$`
	InsecureRegistries []string `json:"insecureRegistries,omitempty"`
	// resources of the container that clones and of the one that builds. Default: what the controller's flags say, which is a small request and no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resources.claims are not supported: the pod has no resourceClaims"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// nodeSelector of the pod.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of the pod.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity of the pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// priorityClassName of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// runtimeClassName of the pod, for example one that isolates builds in virtual machines.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	// serviceAccountName of the pod. Its token is not mounted all the same. Default: default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// imagePullSecrets are for the images of git-sync and the builder, not for base images.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`
	// hostAliases are names that the pod resolves by itself.
	// +optional
	// +listType=map
	// +listMapKey=ip
	// +kubebuilder:validation:MaxItems=20
	HostAliases []corev1.HostAlias `json:"hostAliases,omitempty"`
	// volumes are mounted into the container that builds, for caches and configuration. A claim where BuildKit keeps its layers
	// (/home/user/.local/share/buildkit) makes them outlive the pod; of Buildah (/home/build/.local/share/containers) only base images do.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.filter(w, w.mountPath == v.mountPath).size() == 1)",message="two volumes have the same mountPath"
	Volumes []Volume `json:"volumes,omitempty"`
}

// BuilderName names the tool that builds the image.
type BuilderName string

const (
	// Kaniko builds as root in its own file system, without any privilege beyond that.
	Kaniko BuilderName = "Kaniko"
	// BuildKit builds rootless, its daemon in the same container.
	BuildKit BuilderName = "BuildKit"
	// Buildah builds rootless, with chroot isolation.
	Buildah BuilderName = "Buildah"
)

// Cache keeps layers in a registry.
type Cache struct {
	// repository for the layers: [registry/]repository without a tag, for example registry.example.com/team/shop-cache.
	// image.secretName has to be good for it.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:]+[]])(:[0-9]{1,5})?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*$')",message="repository must be [registry/]repository in lower case, without a tag"
	Repository string `json:"repository"`
	// ttl is the age from which a layer is built anew, for example 168h. Kaniko and Buildah only. Default: the builder's own.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="ttl must be between 1s and 87600h"
	TTL *metav1.Duration `json:"ttl,omitempty"`
}

// BuildSecret is one value of a Secret that RUN instructions may mount.
type BuildSecret struct {
	// id that the Dockerfile names it by.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`
	ID string `json:"id"`
	// secretName is a Secret of this namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SecretName string `json:"secretName"`
	// key of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// SecretReference names a Secret of this namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Name string `json:"name"`
}

// Volume is mounted into the container that builds. It has exactly one source.
//
// +kubebuilder:validation:XValidation:rule="[has(self.persistentVolumeClaim), has(self.emptyDir), has(self.configMap), has(self.secret)].filter(x, x).size() == 1",message="a volume has exactly one of persistentVolumeClaim, emptyDir, configMap and secret"
type Volume struct {
	// name of the volume, unique among them.
	// +required
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// mountPath is where the volume is mounted.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self != '/' && !self.contains(':') && !self.matches('//|/[.][.]?(/|$)') && !self.matches('[[:cntrl:]]')",message="mountPath must be an absolute path without '//', '.', '..' and ':'"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/(kaniko|build|dev|proc|sys)(/|$)')",message="mountPath must not be below /kaniko, /build, /dev, /proc or /sys, where the build's own files are"
	MountPath string `json:"mountPath"`
	// subPath is the directory of the volume that is mounted. Default: its root.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)') && !self.matches('[[:cntrl:]]')",message="subPath must be a path inside the volume: not absolute, no '..'"
	SubPath string `json:"subPath,omitempty"`
	// readOnly mounts the volume read-only.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// persistentVolumeClaim of this namespace, for a cache that outlives the pod.
	// +optional
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// emptyDir lives as long as the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
	// configMap of this namespace.
	// +optional
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// secret of this namespace.
	// +optional
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`
}

// Image is what is pushed, and where.
type Image struct {
	// name is [registry/]repository[:tag], for example registry.example.com/team/shop:1.0. The Deployment runs
	// it by digest, so the tag is only for people.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=383
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="name must have no digest: the digest is what the build finds out"
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || self.matches('^(([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:]+[]])(:[0-9]{1,5})?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$')",message="name must be [registry/]repository[:tag] with a lower case repository and a tag of at most 128 characters, for example registry.example.com/team/shop:1.0"
	// +kubebuilder:validation:XValidation:rule="(!self.contains('/') || self.matches('^([^/]*[.:][^/]*|localhost|[a-z0-9._-]+)/')) && !self.matches('^([^/]*[.:][^/]*|localhost)/[a-z0-9](:[^/]*)?$')",message="name must have a lower case repository of at least two characters; a registry before it has a '.' or ':' in it or is localhost"
	Name string `json:"name"`
	// additionalTags are pushed beside the tag of name, for example latest.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`
	AdditionalTags []string `json:"additionalTags,omitempty"`
	// labels are put on the image, beside those of the Dockerfile.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 253 && k.matches('^[A-Za-z0-9][A-Za-z0-9._/-]*$') && size(self[k]) <= 4096)",message="a label's name has letters, digits, '.', '_', '/' and '-', and its value at most 4096 characters"
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are put on the image's manifest. BuildKit and Buildah only.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 253 && k.matches('^[A-Za-z0-9][A-Za-z0-9._/-]*$') && size(self[k]) <= 4096)",message="an annotation's name has letters, digits, '.', '_', '/' and '-', and its value at most 4096 characters"
	Annotations map[string]string `json:"annotations,omitempty"`
	// reproducible sets all times in the image to 1970, so that the same source makes the same digest.
	// +optional
	Reproducible bool `json:"reproducible,omitempty"`
	// sbom attaches a list of the software in the image. BuildKit only; it pulls a scanner for that.
	// +optional
	SBOM bool `json:"sbom,omitempty"`
	// provenance attaches how the image was made (SLSA, mode max). BuildKit only.
	// +optional
	Provenance bool `json:"provenance,omitempty"`
	// secretName is a Secret of type kubernetes.io/dockerconfigjson in this namespace, or one with the same content under the
	// key config.json. It is used to pull the base images, to push the image, and by the Deployment to pull it, for which it
	// has to be of that type.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SecretName string `json:"secretName,omitempty"`
	// insecure talks plain http to the registries of the build; with BuildKit to those of name, builder.cache and
	// builder.mirrors. The nodes have their own setting for that.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
	// caConfigMapName is a ConfigMap of this namespace; the certificates under its key ca.crt are trusted beside the public
	// authorities when the build talks to registries. The nodes have their own setting for that.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	CAConfigMapName string `json:"caConfigMapName,omitempty"`
}

// Deployment is how the image runs: a Deployment with the name of the Build. docs/rollouts.md tells the whole story.
//
// +kubebuilder:validation:XValidation:rule="!has(self.service) || (has(self.ports) && size(self.ports) > 0)",message="service needs at least one entry in ports"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.ports) || self.ports.all(p, self.ports.filter(q, q.protocol == p.protocol && (has(q.servicePort) ? q.servicePort : q.containerPort) == (has(p.servicePort) ? p.servicePort : p.containerPort)).size() == 1)",message="two ports of a protocol have the same servicePort, which is containerPort by default"
// +kubebuilder:validation:XValidation:rule="!has(self.ingress) || (has(self.service) && has(self.ports) && self.ports.exists(p, p.protocol == 'TCP'))",message="ingress needs service and a TCP port: that is where it leads to"
type Deployment struct {
	// replicas is the number of pods. Absent: left alone, so that an autoscaler can set it on the Deployment. kubectl scale and an
	// autoscaler whose target is the Build set this field.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`
	// ports the application listens on. The first TCP port becomes the readiness probe, if there is no other, and is what the
	// ingress leads to.
	// +optional
	// +listType=map
	// +listMapKey=containerPort
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.filter(q, q.name == p.name).size() == 1)",message="the names of ports must differ"
	Ports []Port `json:"ports,omitempty"`
	// service makes a Service with the name of the Build for all ports. Absent: none.
	// +optional
	Service *Service `json:"service,omitempty"`
	// ingress makes an Ingress with the name of the Build that leads to the first TCP port. Absent: none.
	// +optional
	Ingress *Ingress `json:"ingress,omitempty"`
	// env of the application's container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:XValidation:rule="self.all(e, !has(e.valueFrom) || !has(e.valueFrom.fileKeyRef))",message="valueFrom.fileKeyRef is not supported: the pod has no volume that it could name"
	Env []corev1.EnvVar `json:"env,omitempty"`
	// resources of the application's container.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resources.claims are not supported: the pod has no resourceClaims"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// readinessProbe of the application's container: while it fails the pod gets no requests, and a rollout waits for it. Default: a
	// connection to the first TCP port every 2 s.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// livenessProbe of the application's container: when it fails the container is started again. Default: none.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
	// startupProbe of the application's container: the other two begin when it has succeeded. Default: none.
	// +optional
	StartupProbe *corev1.Probe `json:"startupProbe,omitempty"`
	// containerName of the application's container. An existing Deployment that is adopted has one already. It cannot change once the
	// application runs. Default: app.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	ContainerName string `json:"containerName,omitempty"`
	// template is merged over the pod template that the other fields make, for everything that has no field of its own: sidecars,
	// volumes, affinity, a security context. Lists are merged as kubectl patch does, containers and volumes by their name.
	// +optional
	Template *PodTemplate `json:"template,omitempty"`
	// progressDeadline is how long a rollout may go without progress before it counts as failed. What surely fails is given up
	// earlier. Default: 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="progressDeadline must be between 1s and 720h"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// onFailure says what happens when the rollout of a new image fails: Rollback returns to the image that was available before,
	// Keep leaves the new one in place, where it may recover. Default: Rollback.
	// +optional
	// +kubebuilder:validation:Enum=Rollback;Keep
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// rollback keeps the Deployment at the image of the history with this digest, or start of a digest, until it is taken away. New
	// inputs are built all the same.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{12,64})?$')",message="rollback must be sha256: and at least 12 hex digits of the digest of an image in status.history"
	Rollback string `json:"rollback,omitempty"`
	// adopt takes over a Deployment, Service and Ingress of that name that exist and have no controller. Without it they are left
	// alone, and the condition Deployed says so.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
	// deletionPolicy says what becomes of the Deployment, Service and Ingress when the Build is deleted: Delete takes them away,
	// Retain leaves them running, without owner references. Default: Delete.
	// +optional
	// +kubebuilder:validation:Enum=Delete;Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// OnFailure says what happens when the rollout of a new image fails.
type OnFailure string

const (
	// OnFailureRollback returns to the image that was available before.
	OnFailureRollback OnFailure = "Rollback"
	// OnFailureKeep leaves the new image in place.
	OnFailureKeep OnFailure = "Keep"
)

// DeletionPolicy says what becomes of the application when its Build is deleted.
type DeletionPolicy string

const (
	// DeletionPolicyDelete takes it away.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain leaves it running.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// PodTemplate is a part of a pod template.
type PodTemplate struct {
	// metadata of the pods.
	// +optional
	Metadata *PodMetadata `json:"metadata,omitempty"`
	// spec is a part of a pod's spec (k8s.io/api/core/v1 PodSpec). A probe or a lifecycle hook of the application's container
	// takes the place of the generated one, and null takes a field away. The image of the application's container is not to be set.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// PodMetadata are the labels and annotations of pods.
type PodMetadata struct {
	// labels of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Port is one port of the application.
type Port struct {
	// name of the port, unique among the ports, for example http.
	// +required
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.matches('[a-z]') && !self.contains('--')",message="name of a port must have lower case letters, digits and '-', and at least one letter"
	Name string `json:"name"`
	// containerPort is the number the application listens on.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ContainerPort int32 `json:"containerPort"`
	// protocol is TCP, UDP or SCTP.
	// +optional
	// +default="TCP"
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	// servicePort is the number under which the Service offers the port. Default: containerPort.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ServicePort int32 `json:"servicePort,omitempty"`
}

// FirstTCPPort is the port that the readiness probe connects to and an Ingress leads to.
func (d *Deployment) FirstTCPPort() (port Port, ok bool) {
	for _, port := range d.Ports {
		if port.Protocol == "" || port.Protocol == corev1.ProtocolTCP {
			return port, true
		}
	}
	return Port{}, false
}

// Service is how the application is reached.
type Service struct {
	// type of the Service. Default: ClusterIP.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// annotations of the Service, for a load balancer for example.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('buildcontroller.dev/'))",message="annotations of buildcontroller.dev are the controller's own"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Ingress is how the application is reached from outside.
type Ingress struct {
	// host is the name in the URL, for example shop.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host must be the name of a host in lower case, without scheme, port and path, for example shop.example.com"
	Host string `json:"host"`
	// className is the IngressClass whose controller serves it. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	ClassName string `json:"className,omitempty"`
	// tlsSecretName is a Secret of type kubernetes.io/tls in this namespace, with which the host is served over https. It may come
	// later, from cert-manager for example. Absent: http.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// annotations of the Ingress, for its controller or for cert-manager.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('buildcontroller.dev/'))",message="annotations of buildcontroller.dev are the controller's own"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// History bounds how many finished runs are kept, with their Jobs, pods and logs. The newest run is always kept.
type History struct {
	// successful runs to keep. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	Successful *int32 `json:"successful,omitempty"`
	// failed runs to keep. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	Failed *int32 `json:"failed,omitempty"`
}
