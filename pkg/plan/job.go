package plan

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// DefaultTimeout is the time a run may take when the Build does not say.
const DefaultTimeout = 30 * time.Minute

// Steps are the containers of a run where the Build does not say. They are no inputs of a build: a controller
// that is upgraded does not rebuild every application of the cluster.
type Steps struct {
	// Images of git-sync and of the builders.
	GitSync, Kaniko, BuildKit, Buildah string
	// Requests and Limits of both containers if the Build has no spec.builder.resources.
	Requests, Limits Quantities
}

// Quantities are amounts of resources. It is the value of a flag: name=quantity, separated by commas.
type Quantities corev1.ResourceList

// Set implements flag.Value.
func (q *Quantities) Set(value string) error {
	*q = Quantities{}
	for _, entry := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, text, _ := strings.Cut(entry, "=")
		if name == "" || !quantity(text) {
			return fmt.Errorf("%q must be a resource and a quantity, for example memory=128Mi", entry)
		}
		if !strings.Contains(name, "/") && !slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) {
			return fmt.Errorf("there is no resource %q; there are cpu, memory, ephemeral-storage, and those with a / in their name", name)
		}
		(*q)[corev1.ResourceName(name)] = resource.MustParse(text)
	}
	return nil
}

// String implements flag.Value.
func (q Quantities) String() string {
	var entries []string
	for name, amount := range q {
		entries = append(entries, string(name)+"="+amount.String())
	}
	slices.Sort(entries)
	return strings.Join(entries, ",")
}

// resources of each container: they run one after the other, so a pod needs them once.
func (s Steps) resources(build *v1alpha1.Build) corev1.ResourceRequirements {
	if build.Spec.Builder != nil && build.Spec.Builder.Resources != nil {
		return *build.Spec.Builder.Resources
	}
	return corev1.ResourceRequirements{Requests: maps.Clone(corev1.ResourceList(s.Requests)), Limits: maps.Clone(corev1.ResourceList(s.Limits))}
}

// sourceLink is the symlink in the workspace that git-sync points at the checked-out commit.
const sourceLink = "source"

// Job returns the Job that is that attempt, from 1, at the inputs with that hash.
func Job(build *v1alpha1.Build, hash string, attempt int32, steps Steps) *batchv1.Job {
	settings := ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	labels := map[string]string{
		v1alpha1.ManagedByLabel: v1alpha1.ManagedBy,
		v1alpha1.BuildLabel:     build.Name,
	}
	pod := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](5), // a cancelled build has nothing to tidy up
		SecurityContext:               podSecurity(build),
		InitContainers:                []corev1.Container{literal(gitSync(build, steps))},
		Containers:                    []corev1.Container{literal(builderContainer(build, steps))},
		Volumes:                       volumes(build),
		NodeSelector:                  settings.NodeSelector,
		Tolerations:                   settings.Tolerations,
		Affinity:                      settings.Affinity,
		PriorityClassName:             settings.PriorityClassName,
		ServiceAccountName:            settings.ServiceAccountName,
		HostAliases:                   settings.HostAliases,
	}
	if settings.RuntimeClassName != "" {
		pod.RuntimeClassName = &settings.RuntimeClassName
	}
	for _, secret := range settings.ImagePullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: secret.Name})
	}
	var annotations map[string]string
	for name, content := range files(build) {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[fileAnnotation(name)] = content
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: build.Namespace,
			Name:      JobName(build, hash, attempt),
			Labels:    labels,
			Annotations: map[string]string{
				v1alpha1.InputsAnnotation:   hash,
				v1alpha1.AttemptAnnotation:  strconv.Itoa(int(attempt)),
				v1alpha1.RevisionAnnotation: build.Spec.Source.Git.Revision,
				v1alpha1.ImageAnnotation:    build.Spec.Image.Name,
				v1alpha1.RebuildAnnotation:  Rebuild(build),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(build, v1alpha1.BuildKind)},
		},
		Spec: batchv1.JobSpec{
			// One try: what is worth another is decided by the reason of the failure, and is a Job of its own. Only a pod
			// that was evicted, preempted or drained is replaced by Kubernetes itself.
			BackoffLimit: ptr.To[int32](0),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				}},
			}}},
			// On the Job and not on the pod, because it also ends a pod that never starts.
			ActiveDeadlineSeconds: ptr.To(seconds(timeout(build))),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec:       pod,
			},
		},
	}
}

// podSecurity has a group for volumes only if a claim is among them, which a builder that is not root could not write to
// otherwise: with it, all directories below a volume inherit the volume's group, and so would those of the image.
func podSecurity(build *v1alpha1.Build) *corev1.PodSecurityContext {
	security := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if settings := build.Spec.Builder; settings != nil {
		for _, volume := range settings.Volumes {
			if user := builderOf(build).security.RunAsGroup; volume.PersistentVolumeClaim != nil && user != nil {
				security.FSGroup = user
				security.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch) // not every file of a cache before every build
			}
		}
	}
	return security
}

// literal keeps the kubelet from reading $(NAME) in a command or an argument as a variable: what users write is taken as it
// is, and a script's $(command) is not replaced by a variable that a user gave that name.
func literal(container corev1.Container) corev1.Container {
	for i, arg := range container.Command {
		container.Command[i] = escaped(arg)
	}
	for i, arg := range container.Args {
		container.Args[i] = escaped(arg)
	}
	return container
}

func escaped(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// userEnv is a copy, to which more is appended: of two variables of a name the last counts.
func userEnv(build *v1alpha1.Build) []corev1.EnvVar {
	if build.Spec.Builder == nil {
		return nil
	}
	return append([]corev1.EnvVar(nil), build.Spec.Builder.Env...)
}

// files are small files that the containers need. They come to them as annotations of the pod, shown as files by the
// downward API: no object to write for them, and no shell to write them.
func files(build *v1alpha1.Build) map[string]string {
	files := map[string]string{}
	if build.Spec.Source.Git.Sparse {
		files[sparseFile] = sparsePattern(path.Clean(build.Spec.Source.ContextDir))
	}
	if inline := inlineDockerfile(build); inline != "" {
		files[dockerfileFile] = inline
	}
	if more := builderOf(build).files; more != nil {
		for name, content := range more(build) {
			files[name] = content
		}
	}
	return files
}

func fileAnnotation(name string) string { return v1alpha1.GroupName + "/" + name }

// fileMount shows one of the files in a directory. By subPath, which makes it a file and not a link to a link.
func fileMount(name, dir string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: filesVolume, MountPath: path.Join(dir, name), SubPath: name, ReadOnly: true}
}

func timeout(build *v1alpha1.Build) time.Duration {
	if build.Spec.Timeout == nil {
		return DefaultTimeout
	}
	return build.Spec.Timeout.Duration
}

// seconds rounds up, so that no duration becomes "at once".
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
