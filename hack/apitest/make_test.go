//go:build apitest

package apitest

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// makeBuild returns a Build of all that there is: a run, a Deployment, a Service.
func makeBuild(name string, changes ...func(*v1alpha1.BuildSpec)) *v1alpha1.Build {
	build := &v1alpha1.Build{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.BuildSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{URL: "https://git.example.com/team/" + name + ".git", Revision: "v1"}},
			Image:  v1alpha1.Image{Name: "registry.example.com/team/" + name + ":1"},
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

func buildOnly(spec *v1alpha1.BuildSpec) { spec.Deployment = nil }

func numbered(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("app-%03d", i))
	}
	return names
}

// create creates a Build. Like patch it may be called from any goroutine.
func (s *scene) create(build *v1alpha1.Build) {
	s.t.Helper()
	if _, err := cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Create(s.ctx, build, metav1.CreateOptions{}); err != nil {
		s.t.Errorf("creating %s: %v", build.Name, err)
	}
}

// patch changes a Build as a user does.
func (s *scene) patch(build string, changes map[string]any) {
	s.t.Helper()
	encoded, err := json.Marshal(changes)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Patch(s.ctx, build, types.MergePatchType, encoded, metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		s.t.Errorf("changing %s: %v", build, err)
	}
}

func revision(r string) map[string]any {
	return map[string]any{"spec": map[string]any{"source": map[string]any{"git": map[string]any{"revision": r}}}}
}

// digest of the image that the Job's run pushes.
func (s *scene) digest(job string) string {
	return digestOf(types.NamespacedName{Namespace: s.ns, Name: job})
}

// runs returns nil when the Deployment of a Build runs what the newest run of
// it has built, and that run built this revision.
func (s *scene) runs(build, revision string) error {
	b, deployment := s.build(build), s.deployment(build)
	if b == nil || b.Status.Run == nil || deployment == nil {
		return fmt.Errorf("%s has no run or no Deployment", build)
	}
	job := s.job(b.Status.Run.Job)
	if job == nil {
		return fmt.Errorf("the Job %s of %s is not there", b.Status.Run.Job, build)
	}
	if got := argument(job.Spec.Template.Spec.InitContainers[0], "--ref="); got != revision {
		return fmt.Errorf("the newest run of %s is of revision %q, not %q", build, got, revision)
	}
	want := "registry.example.com/team/" + build + "@" + s.digest(job.Name)
	if got := containerNamed(deployment, "app").Image; got != want {
		return fmt.Errorf("%s runs %s, not %s", build, got, want)
	}
	if b.Status.Image != want {
		return fmt.Errorf("the status of %s has image %s, not %s", build, b.Status.Image, want)
	}
	if want := commitOf(types.NamespacedName{Namespace: s.ns, Name: job.Name}); b.Status.Run.Commit != want {
		return fmt.Errorf("the status of %s has commit %s, not %s", build, b.Status.Run.Commit, want)
	}
	return nil
}

// argument returns the value of a container's flag.
func argument(c corev1.Container, flag string) string {
	for _, arg := range c.Args {
		if len(arg) >= len(flag) && arg[:len(flag)] == flag {
			return arg[len(flag):]
		}
	}
	return ""
}
