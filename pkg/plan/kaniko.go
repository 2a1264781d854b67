package plan

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// kaniko unpacks the base image over its own root and runs the Dockerfile there. The flags are those of v1.24.0 and
// of the maintained fork.
var kaniko = builder{
	image: func(steps Steps) string { return steps.Kaniko },
	// kaniko leaves what is below it out of the image; a mount at /workspace, the usual place, would hide what a
	// Dockerfile puts into a WORKDIR of that name.
	dir:         "/kaniko",
	authorities: "/kaniko/ssl/certs",
	security: corev1.SecurityContext{
		RunAsUser:                ptr.To[int64](0),
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities: &corev1.Capabilities{
			Drop: []corev1.Capability{"ALL"},
			Add:  []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "SETFCAP", "KILL"},
		},
	},
	args: kanikoArgs,
}

func kanikoArgs(b builder, build *v1alpha1.Build) []string {
	image, settings := build.Spec.Image, ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	dir, file := b.dockerfile(build)
	args := []string{
		"--context=dir://" + b.context(build),
		"--dockerfile=" + path.Join(dir, file),
	}
	for _, destination := range Destinations(image) {
		args = append(args, "--destination="+destination)
	}
	args = append(args,
		"--digest-file="+terminationLog,
		"--log-format=text",
		"--compressed-caching=false", // needs far less memory
		"--push-retry=2",
		"--image-download-retry=2",
	)
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
	if len(settings.Platforms) > 0 {
		args = append(args, "--custom-platform="+strings.Join(settings.Platforms, ","))
	}
	if image.Reproducible {
		args = append(args, "--reproducible")
	}
	if cache := settings.Cache; cache != nil {
		args = append(args, "--cache=true", "--cache-repo="+cache.Repository)
		if cache.TTL != nil {
			args = append(args, "--cache-ttl="+cache.TTL.Duration.String())
		}
	}
	for _, mirror := range settings.Mirrors {
		args = append(args, "--registry-mirror="+mirror)
	}
	if image.Insecure {
		args = append(args, "--insecure")
	}
	if image.Insecure || len(settings.InsecureRegistries) > 0 {
		args = append(args, "--insecure-pull") // kaniko can hang over registries that only --insecure-registry names
	}
	return args
}
