package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names that the controller puts on the objects it makes and reads from a Build.
const (
	// ManagedByLabel with the value ManagedBy marks every object the controller makes; it watches no others.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel, and the field manager of every write.
	ManagedBy = "build-controller"
	// BuildLabel carries the name of the Build on its Jobs and their pods.
	BuildLabel = GroupName + "/build"
	// AppLabel carries the name of the Build on the pods of its Deployment and is what the Deployment and the Service select.
	AppLabel = GroupName + "/app"
	// RebuildAnnotation on a Build asks for a new run of the same inputs whenever it gets a new value.
	// Taking it away changes nothing.
	RebuildAnnotation = GroupName + "/rebuild"
	// InputsAnnotation carries the full hash of the inputs on a Job.
	InputsAnnotation = GroupName + "/inputs"
	// RevisionAnnotation carries the revision that was asked for on a Job.
	RevisionAnnotation = GroupName + "/revision"
	// ImageAnnotation carries the name under which the image is pushed on a Job.
	ImageAnnotation = GroupName + "/image"
	// AppliedAnnotation carries the hash of what was last applied on a Deployment or Service.
	AppliedAnnotation = GroupName + "/applied"
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
// +kubebuilder:resource:shortName=bld,categories=all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.status.run.shortCommit`
// +kubebuilder:printcolumn:name="Image-Digest",type=string,JSONPath=`.status.shortDigest`
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.status.run.duration`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Job",type=string,priority=1,JSONPath=`.status.run.job`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')",message="metadata.name must start with a letter and have at most 52 lower case letters, digits and '-': Jobs, the Deployment and the Service are named after it"
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
type BuildSpec struct {
	// source is where the code comes from.
	// +required
	Source Source `json:"source"`
	// dockerfile says how the image is made. Absent: the file Dockerfile in the context directory.
	// +optional
	Dockerfile *Dockerfile `json:"dockerfile,omitempty"`
	// builder sets up the container that builds the image.
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
// +kubebuilder:validation:XValidation:rule="!self.url.matches('^(ssh://|[^/]+@)') || (has(self.secretName) && size(self.secretName) > 0)",message="secretName is required for a repository over ssh: name a Secret with the keys ssh and known_hosts"
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
	// secretName is a Secret of this namespace. For ssh it has the keys ssh (the private key) and known_hosts
	// (the host's public key, as ssh-keyscan prints it); for https the keys username and password.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SecretName string `json:"secretName,omitempty"`
}

// Dockerfile says how the image is made from the source.
type Dockerfile struct {
	// path of the Dockerfile, relative to the context directory. Default: Dockerfile.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)') && !self.matches('[[:cntrl:]]')",message="path must be a path inside the context directory: not absolute, no '..'"
	Path string `json:"path,omitempty"`
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

// Builder sets up the container that builds the image.
type Builder struct {
	// resources of the container that builds. Default: none, so the namespace's LimitRange or no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resources.claims are not supported: the pod has no resourceClaims"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
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
	// secretName is a Secret of type kubernetes.io/dockerconfigjson in this namespace. It is used to pull the base
	// images, to push the image, and by the Deployment to pull it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SecretName string `json:"secretName,omitempty"`
	// insecure talks plain http to the registries of the build. The nodes have their own setting for that.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}

// Deployment is how the image runs: a Deployment with the name of the Build.
//
// +kubebuilder:validation:XValidation:rule="!has(self.service) || (has(self.ports) && size(self.ports) > 0)",message="service needs at least one entry in ports"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.ports) || self.ports.all(p, self.ports.filter(q, q.protocol == p.protocol && (has(q.servicePort) ? q.servicePort : q.containerPort) == (has(p.servicePort) ? p.servicePort : p.containerPort)).size() == 1)",message="two ports of a protocol have the same servicePort, which is containerPort by default"
type Deployment struct {
	// replicas is the number of pods. Absent: left alone, so that an autoscaler can set it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`
	// ports the application listens on. The first TCP port becomes the readiness probe.
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
	// progressDeadline is how long a rollout may go without progress before it counts as failed. Default: 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="progressDeadline must be between 1s and 720h"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
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

// Service is how the application is reached.
type Service struct {
	// type of the Service. Default: ClusterIP.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
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
