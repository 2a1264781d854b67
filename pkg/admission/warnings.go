package admission

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// secretName is of what people call values that nobody else is to know.
var secretName = regexp.MustCompile(`(?i)(passw|secret|token|credential|api_?key|private_?key)`)

// maxWarnings bounds what kubectl prints, in warnings; the API server bounds it too, in bytes.
const maxWarnings = 10

// warnings returns what is allowed and risky, each in one line that says what to do.
func warnings(build *v1alpha1.Build, pods []corev1.PodSpec) []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }

	spec, builder := build.Spec, v1alpha1.Builder{}
	if spec.Builder != nil {
		builder = *spec.Builder
	}
	if spec.Image.Insecure {
		warn("spec.image.insecure: credentials and images travel unencrypted; use TLS, with spec.image.caConfigMapName for an authority of your own")
	}
	if len(builder.InsecureRegistries) > 0 {
		warn("spec.builder.insecureRegistries: base images travel unencrypted; whoever is on the way can replace them")
	}
	if builder.Image != "" && !strings.Contains(builder.Image, "@") {
		warn("spec.builder.image: a tag can be moved; name the image that sees your source and credentials by its digest")
	}
	if len(builder.Args) > 0 {
		warn("spec.builder.args: the controller does not check what these flags do")
	}
	if name := plan.BuilderName(build); name != v1alpha1.Kaniko {
		warn("spec.builder.name: %s needs the pod security level privileged in this namespace; Kaniko needs baseline", name)
	}
	if spec.Dockerfile != nil {
		for i, arg := range spec.Dockerfile.BuildArgs {
			if secretName.MatchString(arg.Name) && arg.Value != "" {
				warn("spec.dockerfile.buildArgs[%d]: the value of %s can be read in the image's history; use spec.builder.secrets", i, arg.Name)
			}
		}
	}
	for i, env := range builder.Env {
		if secretName.MatchString(env.Name) && env.Value != "" {
			warn("spec.builder.env[%d]: whoever may read Builds can read the value of %s; use valueFrom.secretKeyRef", i, env.Name)
		}
	}
	if app := spec.Deployment; app != nil {
		for i, env := range app.Env {
			if secretName.MatchString(env.Name) && env.Value != "" {
				warn("spec.deployment.env[%d]: whoever may read Builds can read the value of %s; use valueFrom.secretKeyRef", i, env.Name)
			}
		}
	}
	if len(pods) > 1 && powerful(pods[1]) {
		warn("spec.deployment.template: the application can reach its node (privileged, a namespace or a path of the host); leave that away if you can")
	}
	for _, key := range unknown(build.Annotations, v1alpha1.RebuildAnnotation, v1alpha1.RedeployAnnotation) {
		warn("metadata.annotations[%s]: there is no such annotation; there are rebuild and redeploy", key)
	}
	for _, key := range unknown(build.Labels, v1alpha1.BuilderLabel) {
		warn("metadata.labels[%s]: labels of %s are the controller's own", key, v1alpha1.GroupName)
	}
	if len(all) > maxWarnings {
		all = append(all[:maxWarnings-1], fmt.Sprintf("there are %d more warnings", len(all)-maxWarnings+1))
	}
	return all
}

// powerful is of a pod that is not kept apart from its node.
func powerful(pod corev1.PodSpec) bool {
	containers := slices.Concat(pod.InitContainers, pod.Containers)
	return pod.HostNetwork || pod.HostPID || pod.HostIPC ||
		slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }) ||
		slices.ContainsFunc(containers, func(c corev1.Container) bool {
			return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		})
}

// unknown returns the keys of our own group that mean nothing, sorted.
func unknown(all map[string]string, known ...string) []string {
	var keys []string
	for key := range all {
		if strings.HasPrefix(key, v1alpha1.GroupName+"/") && !slices.Contains(known, key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return keys
}
