package plan

import (
	"math"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// DefaultTimeout is the time a run may take when the Build does not say.
const DefaultTimeout = 30 * time.Minute

// Images are the images of the steps. They are no inputs of a build: a controller
// that is upgraded does not rebuild every application of the cluster.
type Images struct {
	GitSync string
	Kaniko  string
}

// The volumes of a run's pod.
const (
	workspaceVolume = "workspace" // the clone
	gitVolume       = "git"       // the Secret for the git server
	pushVolume      = "push"      // the Secret for the registry
)

// sourceLink is the symlink in the workspace that git-sync points at the checked-out commit.
const sourceLink = "source"

// Job returns the Job that builds the inputs with that hash.
func Job(build *v1alpha1.Build, hash string, images Images) *batchv1.Job {
	labels := map[string]string{
		v1alpha1.ManagedByLabel: v1alpha1.ManagedBy,
		v1alpha1.BuildLabel:     build.Name,
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: build.Namespace,
			Name:      JobName(build, hash),
			Labels:    labels,
			Annotations: map[string]string{
				v1alpha1.InputsAnnotation:   hash,
				v1alpha1.RevisionAnnotation: build.Spec.Source.Git.Revision,
				v1alpha1.ImageAnnotation:    build.Spec.Image.Name,
				v1alpha1.RebuildAnnotation:  Rebuild(build),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(build, v1alpha1.BuildKind)},
		},
		Spec: batchv1.JobSpec{
			// A broken build stays broken: one try. A pod that was evicted, preempted or drained is not
			// the build's fault and is replaced.
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
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy:                 corev1.RestartPolicyNever,
					AutomountServiceAccountToken:  ptr.To(false),
					EnableServiceLinks:            ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To[int64](5), // a cancelled build has nothing to tidy up
					SecurityContext: &corev1.PodSecurityContext{
						FSGroup:        ptr.To[int64](gitSyncUser),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					InitContainers: []corev1.Container{literal(gitSync(build, images.GitSync))},
					Containers:     []corev1.Container{literal(kaniko(build, images.Kaniko))},
					Volumes:        volumes(build),
				},
			},
		},
	}
}

// literal keeps the kubelet from reading $(NAME) in an argument as a variable: what users write is taken as it is.
func literal(container corev1.Container) corev1.Container {
	for i, arg := range container.Args {
		container.Args[i] = strings.ReplaceAll(arg, "$", "$$")
	}
	return container
}

func volumes(build *v1alpha1.Build) []corev1.Volume {
	volumes := []corev1.Volume{{
		Name:         workspaceVolume,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	if name := build.Spec.Source.Git.SecretName; name != "" {
		volumes = append(volumes, corev1.Volume{
			Name: gitVolume,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName:  name,
				DefaultMode: ptr.To[int32](0o400), // ssh refuses a key that others can read
			}},
		})
	}
	if name := build.Spec.Image.SecretName; name != "" {
		volumes = append(volumes, corev1.Volume{
			Name: pushVolume,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName:  name,
				DefaultMode: ptr.To[int32](0o400),
				Items:       []corev1.KeyToPath{{Key: corev1.DockerConfigJsonKey, Path: "config.json"}},
			}},
		})
	}
	return volumes
}

func timeout(build *v1alpha1.Build) time.Duration {
	if build.Spec.Timeout == nil {
		return DefaultTimeout
	}
	return build.Spec.Timeout.Duration
}

// seconds rounds up, so that no duration becomes "at once".
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
