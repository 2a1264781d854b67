package plan

import (
	"cmp"
	encodingcsv "encoding/csv"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// builder is one of the tools that turn the source into an image. Each has a file of its own.
type builder struct {
	// image of the tool.
	image func(Steps) string
	// dir has below it everything that is mounted for the builder, but for storage.
	dir string
	// storage is where the builder keeps layers while it works; empty for one that needs no volume for that.
	storage string
	// authorities is where the public certificate authorities are in the builder's image.
	authorities string
	// security of the container: the least that the builder works with.
	security corev1.SecurityContext
	// script runs the builder where that is more than one command; empty for the entrypoint of the image. Its arguments
	// are those of the container.
	script string
	// args of the builder.
	args func(builder, *v1alpha1.Build) []string
	// env of the builder, beside the user's; nil for none.
	env func(builder, *v1alpha1.Build) []corev1.EnvVar
	// files of the builder: what goes into its configuration; nil for none.
	files func(*v1alpha1.Build) map[string]string
}

// builders has every builder by its name in the API.
var builders = map[v1alpha1.BuilderName]builder{
	v1alpha1.Kaniko:   kaniko,
	v1alpha1.BuildKit: buildKit,
	v1alpha1.Buildah:  buildah,
}

// BuilderName returns the builder of a Build, which is kaniko when it does not say. The CRD lets no name pass that is not here.
func BuilderName(build *v1alpha1.Build) v1alpha1.BuilderName {
	if settings := build.Spec.Builder; settings != nil {
		if _, known := builders[settings.Name]; known {
			return settings.Name
		}
	}
	return v1alpha1.Kaniko
}

// BuilderNames returns the names of all builders, sorted.
func BuilderNames() []v1alpha1.BuilderName { return slices.Sorted(maps.Keys(builders)) }

func builderOf(build *v1alpha1.Build) builder { return builders[BuilderName(build)] }

const dockerfileFile = "Dockerfile"

// Where things are below a builder's dir.
const (
	sourceDir  = "source"
	configDir  = ".docker" // config.json in it has the credentials for registries
	caDir      = "ca"
	secretsDir = "secrets"
	filesDir   = "files"
)

// builderContainer is the step that builds and pushes the image.
func builderContainer(build *v1alpha1.Build, steps Steps) corev1.Container {
	b, settings := builderOf(build), ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	name := strings.ToLower(string(BuilderName(build)))
	container := corev1.Container{
		Name:                     name,
		Image:                    cmp.Or(settings.Image, b.image(steps)),
		Args:                     append(b.args(b, build), settings.Args...),
		Env:                      userEnv(build),
		Resources:                steps.resources(build),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             builderMounts(build, b),
		SecurityContext:          b.security.DeepCopy(),
	}
	if b.script != "" {
		container.Command = []string{"/bin/sh", "-ec", b.script, name}
	}
	if build.Spec.Image.CAConfigMapName != "" {
		// Every builder is a Go program: it reads all the directories in this variable.
		container.Env = append(container.Env, corev1.EnvVar{Name: "SSL_CERT_DIR", Value: b.authorities + ":" + b.below(caDir)})
	}
	if b.env != nil {
		container.Env = append(container.Env, b.env(b, build)...)
	}
	return container
}

func builderMounts(build *v1alpha1.Build, b builder) []corev1.VolumeMount {
	// subPath: the kubelet follows git-sync's link; kaniko itself would copy the link.
	mounts := []corev1.VolumeMount{{Name: workspaceVolume, MountPath: b.below(sourceDir), SubPath: sourceLink}}
	for _, mount := range []corev1.VolumeMount{
		{Name: pushVolume, MountPath: b.below(configDir), ReadOnly: true},
		{Name: registryCAVolume, MountPath: b.below(caDir), ReadOnly: true},
		{Name: secretsVolume, MountPath: b.below(secretsDir), ReadOnly: true},
		{Name: storageVolume, MountPath: b.storage},
	} {
		if hasVolume(build, mount.Name) {
			mounts = append(mounts, mount)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files(build))) {
		if name != sparseFile {
			mounts = append(mounts, fileMount(name, b.below(filesDir)))
		}
	}
	if build.Spec.Builder != nil {
		for _, volume := range build.Spec.Builder.Volumes {
			mounts = append(mounts, corev1.VolumeMount{
				Name: userVolume + volume.Name, MountPath: volume.MountPath, SubPath: volume.SubPath, ReadOnly: volume.ReadOnly,
			})
		}
	}
	return mounts
}

// below is a path under the builder's dir.
func (b builder) below(elements ...string) string {
	return path.Join(append([]string{b.dir}, elements...)...)
}

// context is the directory that is built.
func (b builder) context(build *v1alpha1.Build) string {
	return b.below(sourceDir, build.Spec.Source.ContextDir)
}

// dockerfile returns the directory that the Dockerfile's path is relative to, and that path.
func (b builder) dockerfile(build *v1alpha1.Build) (dir, file string) {
	dockerfile := ptr.Deref(build.Spec.Dockerfile, v1alpha1.Dockerfile{})
	if dockerfile.Inline != "" {
		return b.below(filesDir), dockerfileFile
	}
	return b.context(build), cmp.Or(dockerfile.Path, "Dockerfile")
}

func inlineDockerfile(build *v1alpha1.Build) string {
	return ptr.Deref(build.Spec.Dockerfile, v1alpha1.Dockerfile{}).Inline
}

// Destinations are the full names under which the image is pushed, the Build's own first.
func Destinations(image v1alpha1.Image) []string {
	named, err := reference.ParseNormalizedNamed(image.Name)
	if err != nil {
		return []string{image.Name} // which the CRD does not let pass
	}
	all := []string{reference.TagNameOnly(named).String()}
	for _, tag := range image.AdditionalTags {
		if tagged := reference.TrimNamed(named).String() + ":" + tag; tagged != all[0] {
			all = append(all, tagged)
		}
	}
	return all
}

// pairs returns the map as key=value, in the order of the keys.
func pairs(values map[string]string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		all = append(all, key+"="+values[key])
	}
	return all
}

// csv writes a list as one value, for flags that read it so.
func csv(fields ...string) string {
	var line strings.Builder
	writer := encodingcsv.NewWriter(&line)
	_ = writer.Write(fields) // a Builder takes everything
	writer.Flush()
	return strings.TrimSuffix(line.String(), "\n")
}
