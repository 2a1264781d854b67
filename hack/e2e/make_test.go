//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// exampleFile is the Build of an example.
func exampleFile(name string) string {
	return filepath.Join(checkoutDir, "artifacts", "examples", name, "build.yaml")
}

// exampleBases are the base images of the examples.
var exampleBases = map[string]string{"go": "golang", "nodejs": "node", "java": "openjdk", "function": "node"}

// example returns the Build of an example with nothing changed but what belongs
// to this cluster: where things are.
func (s *scene) example(name string) *v1alpha1.Build {
	s.t.Helper()
	content, err := os.ReadFile(exampleFile(name))
	if err != nil {
		s.t.Fatal(err)
	}
	build := &v1alpha1.Build{}
	if err := yaml.UnmarshalStrict(content, build); err != nil {
		s.t.Fatal(err)
	}
	build.Spec.Source.Git.URL = gitSSH + name + ".git"
	build.Spec.Source.Git.SecretName = gitKeySecret
	build.Spec.Image.Name = s.image(build.Name)
	build.Spec.Image.Insecure = true
	build.Spec.Dockerfile.BuildArgs = append(build.Spec.Dockerfile.BuildArgs, v1alpha1.BuildArg{Name: "BASE", Value: base(s.t, exampleBases[name])})
	return build
}

// image is a name in the registry that no other scene has.
func (s *scene) image(name string) string { return registry + "/e2e/" + s.ns + "-" + name + ":v1" }

// pageRepository is the repository that the tests push branches and tags of
// their own to.
const pageRepository = "nodejs"

// A page is the smallest application there is: a web server with a file or two.
const pageDockerfile = `ARG BASE
FROM ${BASE}
ARG TEXT=hello
RUN mkdir /www && printf %s "$TEXT" >/www/index.html
COPY . /www/source
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
`

// pushPage makes a commit with a page in the root, and a branch of it that is
// called like the namespace.
func (s *scene) pushPage(change ...func(*worktree)) (*worktree, commit) {
	s.t.Helper()
	w := newWorktree(s.t, pageRepository)
	w.write("Dockerfile", pageDockerfile)
	for _, change := range change {
		change(w)
	}
	made := w.commit("A page of " + s.ns)
	w.push("refs/heads/" + s.ns)
	return w, made
}

// page returns the Build of the branch that pushPage has pushed.
func (s *scene) page(name string, changes ...func(*v1alpha1.BuildSpec)) *v1alpha1.Build {
	s.t.Helper()
	build := &v1alpha1.Build{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Build"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.BuildSpec{
			Source:     v1alpha1.Source{Git: v1alpha1.GitSource{URL: gitSSH + pageRepository + ".git", Revision: s.ns, SecretName: gitKeySecret}},
			Dockerfile: &v1alpha1.Dockerfile{BuildArgs: []v1alpha1.BuildArg{{Name: "BASE", Value: base(s.t, "busybox")}}},
			Image:      v1alpha1.Image{Name: s.image(name), Insecure: true},
			Deployment: &v1alpha1.Deployment{
				Replicas: ptr.To[int32](1),
				Ports:    []v1alpha1.Port{{Name: "http", ContainerPort: 8080, ServicePort: 80}},
				Service:  &v1alpha1.Service{},
			},
		},
	}
	for _, change := range changes {
		change(&build.Spec)
	}
	return build
}

// builtBy names the builder.
func builtBy(name v1alpha1.BuilderName) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) {
		if spec.Builder == nil {
			spec.Builder = &v1alpha1.Builder{}
		}
		spec.Builder.Name = name
	}
}

func fromURL(url, secret string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Source.Git.URL, spec.Source.Git.SecretName = url, secret }
}

// noRetries makes a failure that would pass by itself one that stays.
func noRetries(spec *v1alpha1.BuildSpec) { spec.Retries = ptr.To[int32](0) }

func buildOnly(spec *v1alpha1.BuildSpec) { spec.Deployment = nil }

func revision(r string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Source.Git.Revision = r }
}

func buildArg(name, value string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) {
		spec.Dockerfile.BuildArgs = append(spec.Dockerfile.BuildArgs, v1alpha1.BuildArg{Name: name, Value: value})
	}
}

// apply applies a Build with kubectl, as users do.
func (s *scene) apply(build *v1alpha1.Build) {
	s.t.Helper()
	if _, err := kubectl(manifest(build), "apply", "--namespace", s.ns, "-f", "-"); err != nil {
		s.t.Fatal(err)
	}
}

// manifest is any object as YAML.
func manifest(object any) string {
	encoded, err := yaml.Marshal(object)
	if err != nil {
		panic(err) // API objects are always YAML
	}
	return string(encoded)
}

type object = map[string]any

// patch changes a Build as a user does.
func (s *scene) patch(build string, changes object) {
	s.t.Helper()
	encoded, err := json.Marshal(changes)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Patch(s.ctx, build, types.MergePatchType, encoded, metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		s.t.Fatal(err)
	}
}

func toRevision(r string) object {
	return object{"spec": object{"source": object{"git": object{"revision": r}}}}
}
