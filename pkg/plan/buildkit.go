package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// buildKit runs rootless, its daemon in the same container for as long as the build takes.
var buildKit = builder{
	image:       func(steps Steps) string { return steps.BuildKit },
	dir:         "/build",
	storage:     "/home/user/.local/share/buildkit",
	authorities: "/etc/ssl/certs",
	security:    rootless,
	// The metadata has more than fits into a termination message; the digest in it is the pushed image's.
	script: `buildctl-daemonless.sh build --metadata-file=/tmp/metadata.json "$@"
sed -n 's/.*"containerimage.digest": *"\(sha256:[0-9a-f]*\)".*/\1/p' /tmp/metadata.json >` + terminationLog,
	args:  buildKitArgs,
	env:   buildKitEnv,
	files: buildKitFiles,
}

// rootlessUser is the user of the images of BuildKit and Buildah.
const rootlessUser = 1000

// rootless lets a builder make a user namespace and mount inside it. newuidmap, which has file capabilities, maps its
// users; the default seccomp and AppArmor profiles forbid what follows.
var rootless = corev1.SecurityContext{
	RunAsUser:                ptr.To[int64](rootlessUser),
	RunAsGroup:               ptr.To[int64](rootlessUser),
	RunAsNonRoot:             ptr.To(true),
	AllowPrivilegeEscalation: ptr.To(true),
	Capabilities: &corev1.Capabilities{
		Drop: []corev1.Capability{"ALL"},
		Add:  []corev1.Capability{"SETGID", "SETUID"},
	},
	SeccompProfile:  &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
	AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
}

func buildKitArgs(b builder, build *v1alpha1.Build) []string {
	image, settings := build.Spec.Image, ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	dir, file := b.dockerfile(build)
	args := []string{
		"--progress=plain",
		"--frontend=dockerfile.v0",
		"--local=context=" + b.context(build),
		"--local=dockerfile=" + dir,
		"--opt=filename=" + file,
	}
	if dockerfile := build.Spec.Dockerfile; dockerfile != nil {
		if dockerfile.Target != "" {
			args = append(args, "--opt=target="+dockerfile.Target)
		}
		for _, arg := range dockerfile.BuildArgs {
			args = append(args, "--opt=build-arg:"+arg.Name+"="+arg.Value)
		}
	}
	for _, label := range pairs(image.Labels) {
		args = append(args, "--opt=label:"+label)
	}
	if len(settings.Platforms) > 0 {
		args = append(args, "--opt=platform="+strings.Join(settings.Platforms, ","))
	}
	for _, secret := range settings.Secrets {
		args = append(args, "--secret="+csv("id="+secret.ID, "src="+b.below(secretsDir, secret.ID)))
	}
	if image.SBOM {
		args = append(args, "--opt=attest:sbom=")
	}
	if image.Provenance {
		args = append(args, "--opt=attest:provenance=mode=max")
	}
	output := []string{"type=image", "name=" + strings.Join(Destinations(image), ","), "push=true"}
	if image.Reproducible {
		args = append(args, "--opt=build-arg:SOURCE_DATE_EPOCH=0")
		output = append(output, "rewrite-timestamp=true")
	}
	for _, annotation := range pairs(image.Annotations) {
		output = append(output, "annotation."+annotation)
	}
	args = append(args, "--output="+csv(output...))
	if cache := settings.Cache; cache != nil {
		ref := "ref=" + cache.Repository + ":" + buildKitCacheTag
		args = append(args, "--export-cache="+csv("type=registry", ref, "mode=max"), "--import-cache="+csv("type=registry", ref))
	}
	return args
}

const (
	buildKitConfig = "buildkitd.toml"
	// buildKitCacheTag is of the cache; without one it would be latest, perhaps of the image itself.
	buildKitCacheTag = "buildcache"
)

func buildKitEnv(b builder, build *v1alpha1.Build) []corev1.EnvVar {
	flags := "--oci-worker-no-process-sandbox" // it would need to mount /proc, which an unprivileged container may not
	if len(buildKitFiles(build)) > 0 {
		flags += " --config=" + path.Join(b.below(filesDir), buildKitConfig)
	}
	env := []corev1.EnvVar{{Name: "BUILDKITD_FLAGS", Value: flags}}
	if build.Spec.Image.SecretName != "" {
		env = append(env, corev1.EnvVar{Name: "DOCKER_CONFIG", Value: b.below(configDir)})
	}
	return env
}

// buildKitFiles is the daemon's configuration: it pulls and pushes, and knows of registries only what stands there.
func buildKitFiles(build *v1alpha1.Build) map[string]string {
	settings := ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	var config strings.Builder
	if len(settings.Mirrors) > 0 {
		fmt.Fprintf(&config, "[registry.%q]\nmirrors = [%s]\n", "docker.io", quotedList(settings.Mirrors))
	}
	plainHTTP := slices.Clone(settings.InsecureRegistries)
	if build.Spec.Image.Insecure {
		plainHTTP = append(append(plainHTTP, registryOf(build.Spec.Image.Name)), settings.Mirrors...)
		if settings.Cache != nil {
			plainHTTP = append(plainHTTP, registryOf(settings.Cache.Repository))
		}
	}
	slices.Sort(plainHTTP)
	for _, host := range slices.Compact(plainHTTP) {
		if host != "" && host != "docker.io" {
			fmt.Fprintf(&config, "[registry.%q]\nhttp = true\n", host)
		}
	}
	if config.Len() == 0 {
		return nil
	}
	return map[string]string{buildKitConfig: config.String()}
}

// registryOf is the host, with its port, of an image's or repository's name; empty for a name that is none.
func registryOf(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return reference.Domain(named)
}

func quotedList(values []string) string {
	var quoted []string
	for _, value := range values {
		quoted = append(quoted, fmt.Sprintf("%q", value))
	}
	return strings.Join(quoted, ", ")
}
