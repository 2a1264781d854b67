package plan

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

const (
	// kanikoSourceDir lies below /kaniko because kaniko leaves that out of the image; a mount at
	// /workspace, the usual place, would hide what a Dockerfile puts into a WORKDIR of that name.
	kanikoSourceDir = "/kaniko/source"
	kanikoConfigDir = "/kaniko/.docker"
)

// kaniko is the step that builds and pushes the image. The flags are those of kaniko v1.24 and of its maintained fork.
func kaniko(build *v1alpha1.Build, image string) corev1.Container {
	spec := build.Spec
	contextDir := path.Join(kanikoSourceDir, spec.Source.ContextDir)
	dockerfile := ptr.Deref(spec.Dockerfile, v1alpha1.Dockerfile{})
	if dockerfile.Path == "" {
		dockerfile.Path = "Dockerfile"
	}
	container := corev1.Container{
		Name:  "kaniko",
		Image: image,
		Args: []string{
			"--context=dir://" + contextDir,
			"--dockerfile=" + path.Join(contextDir, dockerfile.Path),
			"--destination=" + spec.Image.Name,
			"--digest-file=" + terminationLog,
			"--log-format=text",
			"--compressed-caching=false", // needs far less memory
			"--push-retry=2",
			"--image-download-retry=2",
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		// subPath: the kubelet follows git-sync's link; kaniko itself would copy the link.
		VolumeMounts: []corev1.VolumeMount{{Name: workspaceVolume, MountPath: kanikoSourceDir, SubPath: sourceLink}},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser:                ptr.To[int64](0), // kaniko unpacks the base image over its own root
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"},
				Add:  []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "SETFCAP", "KILL"},
			},
		},
	}
	if dockerfile.Target != "" {
		container.Args = append(container.Args, "--target="+dockerfile.Target)
	}
	for _, arg := range dockerfile.BuildArgs {
		container.Args = append(container.Args, "--build-arg="+arg.Name+"="+arg.Value)
	}
	if spec.Image.Insecure {
		container.Args = append(container.Args, "--insecure", "--insecure-pull")
	}
	if spec.Image.SecretName != "" {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: pushVolume, MountPath: kanikoConfigDir, ReadOnly: true})
	}
	if spec.Builder != nil && spec.Builder.Resources != nil {
		container.Resources = *spec.Builder.Resources
	}
	return container
}
