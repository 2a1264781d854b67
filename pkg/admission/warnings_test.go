package admission

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestWarnings(t *testing.T) {
	const node = "spec.deployment.template: the application can reach its node (privileged, a namespace or a path of the host); leave that away if you can"
	fromSecret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}
	annotated := func(key string) func(*v1alpha1.Build) {
		return func(b *v1alpha1.Build) { b.Annotations = map[string]string{key: "1", "example.com/rebuild": "1"} }
	}
	for name, c := range map[string]struct {
		build func(*v1alpha1.Build)
		want  []string
	}{
		"none of an ordinary Build": {build: func(b *v1alpha1.Build) {
			template(`{containers: [{name: app, securityContext: {privileged: false}}], volumes: [{name: a, emptyDir: {}}]}`)(b)
			b.Spec.Deployment.Env = []corev1.EnvVar{{Name: "MODE", Value: "x"}}
			b.Spec.Builder = &v1alpha1.Builder{Name: v1alpha1.Kaniko, Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "x"}}, Mirrors: []string{"mirror.example.com"}}
			b.Spec.Dockerfile = &v1alpha1.Dockerfile{BuildArgs: []v1alpha1.BuildArg{{Name: "VERSION", Value: "1"}}}
			b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: "1", v1alpha1.RedeployAnnotation: "1", "example.com/x": "1"}
			b.Labels = map[string]string{v1alpha1.BuilderLabel: "kaniko", "app": "x"}
		}},
		"an insecure registry": {build: func(b *v1alpha1.Build) { b.Spec.Image.Insecure = true }, want: []string{
			"spec.image.insecure: credentials and images travel unencrypted; use TLS, with spec.image.caConfigMapName for an authority of your own"}},
		"insecure registries of base images": {build: builder(v1alpha1.Builder{InsecureRegistries: []string{"a", "b"}}), want: []string{
			"spec.builder.insecureRegistries: base images travel unencrypted; whoever is on the way can replace them"}},
		"a builder's image by its tag": {build: builder(v1alpha1.Builder{Image: "registry.example.com/kaniko:1"}), want: []string{
			"spec.builder.image: a tag can be moved; name the image that sees your source and credentials by its digest"}},
		"none of a builder's image by its digest": {build: builder(v1alpha1.Builder{Image: "registry.example.com/kaniko:1@sha256:1"})},
		"flags of the builder": {build: builder(v1alpha1.Builder{Args: []string{"--x", "--y"}}), want: []string{
			"spec.builder.args: the controller does not check what these flags do"}},
		"a builder that needs more": {build: builder(v1alpha1.Builder{Name: v1alpha1.Buildah}), want: []string{
			"spec.builder.name: Buildah needs the pod security level privileged in this namespace; Kaniko needs baseline"}},
		"a secret as a build argument": {build: func(b *v1alpha1.Build) {
			b.Spec.Dockerfile = &v1alpha1.Dockerfile{BuildArgs: []v1alpha1.BuildArg{{Name: "A", Value: "1"}, {Name: "npm_token", Value: "1"}, {Name: "PASSWORD"}}}
		}, want: []string{
			"spec.dockerfile.buildArgs[1]: the value of npm_token can be read in the image's history; use spec.builder.secrets"}},
		"a secret as a variable of the builder": {build: builder(v1alpha1.Builder{Env: []corev1.EnvVar{{Name: "API_KEY", Value: "1"}, {Name: "TOKEN", ValueFrom: fromSecret}}}), want: []string{
			"spec.builder.env[0]: whoever may read Builds can read the value of API_KEY; use valueFrom.secretKeyRef"}},
		"a secret as a variable of the application": {build: deployment(v1alpha1.Deployment{Env: []corev1.EnvVar{{Name: "TOKEN", ValueFrom: fromSecret}, {Name: "DbPassword", Value: "1"}}}), want: []string{
			"spec.deployment.env[1]: whoever may read Builds can read the value of DbPassword; use valueFrom.secretKeyRef"}},
		"the network of the host":          {build: template(`{hostNetwork: true}`), want: []string{node}},
		"the processes of the host":        {build: template(`{hostPID: true}`), want: []string{node}},
		"the memory of the host":           {build: template(`{hostIPC: true}`), want: []string{node}},
		"a path of the host":               {build: template(`{volumes: [{name: a, hostPath: {path: /}}]}`), want: []string{node}},
		"a privileged container":           {build: template(`{containers: [{name: app, securityContext: {privileged: true}}]}`), want: []string{node}},
		"a privileged init container":      {build: template(`{initContainers: [{name: a, image: a, securityContext: {privileged: true}}]}`), want: []string{node}},
		"no template that is refused":      {build: template(`{hostNetwork: true, x: 1}`)},
		"an annotation that is misspelled": {build: annotated(v1alpha1.GroupName + "/re-build"), want: []string{"metadata.annotations[buildcontroller.dev/re-build]: there is no such annotation; there are rebuild and redeploy"}},
		"a label of the controller's own": {build: func(b *v1alpha1.Build) {
			b.Labels = map[string]string{v1alpha1.AppLabel: "x", v1alpha1.BuilderLabel: "x"}
		}, want: []string{
			"metadata.labels[buildcontroller.dev/app]: labels of buildcontroller.dev are the controller's own"}},
		"more than anybody reads": {build: func(b *v1alpha1.Build) {
			b.Spec.Image.Insecure = true
			b.Annotations = map[string]string{}
			for i := range 50 {
				b.Annotations[v1alpha1.GroupName+"/"+string(rune('A'+i))] = ""
			}
		}, want: []string{"spec.image.insecure:", "[buildcontroller.dev/A]", "[buildcontroller.dev/B]", "", "", "", "", "", "[buildcontroller.dev/H]", "there are 42 more warnings"}},
		"as many as are shown": {build: func(b *v1alpha1.Build) {
			b.Annotations = map[string]string{}
			for i := range maxWarnings {
				b.Annotations[v1alpha1.GroupName+"/"+string(rune('A'+i))] = ""
			}
		}, want: []string{"/A]", "/B]", "/C]", "/D]", "/E]", "/F]", "/G]", "/H]", "/I]", "/J]"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := webhook(may()).Validate(t.Context(), request(t, aBuild(c.build), nil))
			if err != nil || !slices.EqualFunc(got.Warnings, c.want, strings.Contains) {
				t.Fatalf("the warnings are\n%s\nwant\n%s\n(%v)", strings.Join(got.Warnings, "\n"), strings.Join(c.want, "\n"), err)
			}
			for i, warning := range got.Warnings {
				if len(c.want) < maxWarnings && warning != c.want[i] {
					t.Errorf("%q is not %q", warning, c.want[i])
				}
			}
		})
	}
}

// They come with a refusal too: who has to change the Build anyway changes all of it.
func TestWarningsComeWithARefusal(t *testing.T) {
	build := aBuild(func(b *v1alpha1.Build) { b.Spec.Image.Insecure, b.Spec.Image.SecretName = true, "regcred" })
	if got, err := webhook(may()).Validate(t.Context(), request(t, build, nil)); err != nil || got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("the answer is %+v, %v", got, err)
	}
}
