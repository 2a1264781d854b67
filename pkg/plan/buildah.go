package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// buildah runs rootless, isolates the Dockerfile's commands with chroot, and keeps layers as plain directories: what
// needs no privilege and no device.
var buildah = builder{
	image:       func(steps Steps) string { return steps.Buildah },
	dir:         "/build",
	storage:     "/home/build/.local/share/containers",
	authorities: "/etc/ssl/certs",
	security:    rootless,
	// A list of that name is left on a volume that outlives the pod, and would be added to.
	script: `buildah manifest rm ` + buildahImage + ` >/dev/null 2>&1 || true
buildah build "$@" "$CONTEXT"
for destination in $PUSH_TO; do
	buildah $PUSH --digestfile=` + terminationLog + ` ` + buildahImage + ` "docker://$destination"
done`,
	args:  buildahArgs,
	env:   buildahEnv,
	files: buildahFiles,
}

// buildahImage is what the image is called before it is pushed.
const buildahImage = "localhost/image"

func buildahArgs(b builder, build *v1alpha1.Build) []string {
	image, settings := build.Spec.Image, ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	dir, file := b.dockerfile(build)
	args := []string{
		"--file=" + csv(path.Join(dir, file)),
	}
	if image.Insecure {
		args = append(args, insecureFlag)
	}
	if len(settings.Platforms) > 1 {
		args = append(args, "--manifest="+buildahImage)
	} else {
		args = append(args, "--tag="+buildahImage)
	}
	if len(settings.Platforms) > 0 {
		args = append(args, "--platform="+strings.Join(settings.Platforms, ","))
	}
	if dockerfile := build.Spec.Dockerfile; dockerfile != nil {
		if dockerfile.Target != "" {
			args = append(args, "--target="+dockerfile.Target)
		}
		for _, arg := range dockerfile.BuildArgs {
			args = append(args, "--build-arg="+arg.Name+"="+arg.Value)
		}
	}
	for _, label := range pairs(image.Labels) {
		args = append(args, "--label="+label)
	}
	for _, annotation := range pairs(image.Annotations) {
		args = append(args, "--annotation="+annotation)
	}
	for _, secret := range settings.Secrets {
		args = append(args, "--secret="+csv("id="+secret.ID, "src="+b.below(secretsDir, secret.ID)))
	}
	if image.Reproducible {
		args = append(args, "--timestamp=0")
	}
	if cache := settings.Cache; cache != nil {
		args = append(args, "--layers", "--cache-from="+cache.Repository, "--cache-to="+cache.Repository)
		if cache.TTL != nil {
			args = append(args, "--cache-ttl="+cache.TTL.Duration.String())
		}
	}
	return args
}

const buildahRegistries = "registries.conf"

func buildahEnv(b builder, build *v1alpha1.Build) []corev1.EnvVar {
	image := build.Spec.Image
	push := "push"
	if build.Spec.Builder != nil && len(build.Spec.Builder.Platforms) > 1 {
		push = "manifest push --all"
	}
	if image.Insecure {
		push += " " + insecureFlag
	}
	env := []corev1.EnvVar{
		{Name: "CONTEXT", Value: escaped(b.context(build))},
		{Name: "BUILDAH_ISOLATION", Value: "chroot"},
		{Name: "STORAGE_DRIVER", Value: "vfs"},
		{Name: "CONTAINERS_REGISTRIES_CONF", Value: b.below(filesDir, buildahRegistries)},
		{Name: "PUSH", Value: push},
		{Name: "PUSH_TO", Value: escaped(strings.Join(Destinations(image), " "))},
	}
	if image.SecretName != "" {
		env = append(env, corev1.EnvVar{Name: "REGISTRY_AUTH_FILE", Value: b.below(configDir, dockerConfig)})
	}
	return env
}

// insecureFlag outweighs what registries.conf says, and so would its opposite.
const insecureFlag = "--tls-verify=false"

// buildahFiles names Docker Hub, as the other builders do without being told, for base images without a registry.
func buildahFiles(build *v1alpha1.Build) map[string]string {
	var config strings.Builder
	config.WriteString("unqualified-search-registries = [\"docker.io\"]\nshort-name-mode = \"disabled\"\n")
	settings := ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	if len(settings.Mirrors) > 0 {
		config.WriteString("[[registry]]\nlocation = \"docker.io\"\n")
		for _, mirror := range settings.Mirrors {
			insecure := build.Spec.Image.Insecure || slices.Contains(settings.InsecureRegistries, mirror)
			fmt.Fprintf(&config, "[[registry.mirror]]\nlocation = %q\ninsecure = %t\n", mirror, insecure)
		}
	}
	for _, host := range settings.InsecureRegistries {
		if host == "docker.io" {
			continue
		}
		fmt.Fprintf(&config, "[[registry]]\nlocation = %q\ninsecure = true\n", host)
	}
	return map[string]string{buildahRegistries: config.String()}
}
