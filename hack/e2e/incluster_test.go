//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// installed is where artifacts/install.yaml puts the controller, and how it calls it.
const installed = "build-controller"

// The controller's image is built by a Build of this very repository. With that
// image, artifacts/install.yaml and no other rights, it handles the next Build.
func TestTheControllerBuildsItselfAndRunsInTheCluster(t *testing.T) {
	s := newScene(t)
	self := s.self()
	s.apply(self)
	// All of client-go is compiled, with a cache that is empty.
	s.until(25*time.Minute, "the controller is built", func() error { return s.ready(self.Name) })
	image := s.build(self.Name).Status.Image
	if s.deployment(self.Name) != nil {
		t.Error("there is a Deployment that nobody asked for")
	}

	s.expectSameBinary(s.build(self.Name))

	// From here on nobody but the one in the cluster works; at the end the others
	// need theirs again, also to clear this scene.
	if err := cluster.controller.stop(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.controller.start(); err != nil {
			t.Error(err)
		}
	})
	from := auditEnd(t)
	role := install(t, image)
	s.installWebhook()
	example := s.example("go")
	s.apply(example)
	s.untilReady(example.Name)
	s.expectDeployed(example.Name)
	s.expectAnswer(example.Name, "", "Hello from Go, version v1\n")
	if s.build(example.Name).Labels[v1alpha1.BuilderLabel] != "kaniko" {
		t.Error("the webhook did not complete the Build")
	}
	s.expectEvents(example.Name, theUsualEvents)

	const user = "system:serviceaccount:" + installed + ":" + installed
	used := map[string]bool{}
	for _, r := range requestsSince(t, from) {
		if r.User.Username != user {
			continue
		}
		if r.ResponseStatus.Code == 401 || r.ResponseStatus.Code == 403 {
			t.Errorf("it was not allowed to %s", r)
		}
		used[r.Verb+" "+r.ObjectRef.APIGroup+" "+r.resource()] = true
	}
	if len(used) == 0 {
		t.Errorf("the audit log has no request of %s", user)
	}
	// For the eyes. Lists are what a watch falls back to, and "create" is asked for inside an
	// apply that creates, where the log has only the patch.
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			if key := verb + " " + rule.APIGroups[0] + " " + rule.Resources[0]; !used[key] {
				t.Logf("a right that this test did not need: %s %s", verb, rule.Resources[0])
			}
		}
	}
}

// self returns a Build of this repository's own Dockerfile.
func (s *scene) self() *v1alpha1.Build {
	s.t.Helper()
	// Its modules come from this machine's module cache.
	download := exec.Command("go", "mod", "download")
	download.Dir = checkoutDir
	if _, err := output(download); err != nil {
		s.t.Fatal(err)
	}
	return &v1alpha1.Build{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Build"},
		ObjectMeta: metav1.ObjectMeta{Name: "build-controller"},
		Spec: v1alpha1.BuildSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{URL: gitSSH + "build-controller.git", SecretName: gitKeySecret}},
			Dockerfile: &v1alpha1.Dockerfile{BuildArgs: []v1alpha1.BuildArg{
				{Name: "BASE", Value: base(s.t, "golang")},
				{Name: "GOPROXY", Value: goProxy},
			}},
			Image: v1alpha1.Image{Name: s.image("build-controller"), Insecure: true},
		},
	}
}

// expectSameBinary builds the controller here, from the commit that a Build of it built, and finds the very same bytes in the image.
func (s *scene) expectSameBinary(build *v1alpha1.Build) {
	s.t.Helper()
	source := newWorktree(s.t, "build-controller")
	source.checkout(build.Status.Run.Commit)
	binary := filepath.Join(s.t.TempDir(), "build-controller")
	if _, err := output(exec.Command(filepath.Join(checkoutDir, "hack", "build.sh"), binary, source.dir)); err != nil {
		s.t.Fatal(err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		s.t.Fatal(err)
	}
	image := build.Spec.Image.Name
	if !bytes.Contains(layers(s.t, image, pushedArtifact(s.t, image)), content) {
		s.t.Error("the image has another binary than the one built here")
	}
}

// installWebhook does what artifacts/webhook.yaml says, and returns when a Build is refused that only the webhook refuses: one of a user who
// may not get its Secret. The API server calls the pods through their Service.
func (s *scene) installWebhook() {
	s.t.Helper()
	certificate, file := filepath.Join(checkoutDir, "artifacts", "certificate.yaml"), filepath.Join(checkoutDir, "artifacts", "webhook.yaml")
	s.t.Cleanup(func() {
		if _, err := kubectl("", "delete", "--ignore-not-found", "-f", file, "-f", certificate); err != nil {
			s.t.Error(err)
		}
	})
	for _, args := range [][]string{
		{"apply", "-f", certificate, "-f", file},
		{"set", "env", "--namespace", installed, "deployment/" + installed, "ENABLE_WEBHOOKS=true"},
		{"rollout", "status", "--namespace", installed, "deployment/" + installed, "--timeout=3m"},
		{"create", "rolebinding", "developer", "--namespace", s.ns, "--user=developer", "--role=developer"},
		{"create", "role", "developer", "--namespace", s.ns, "--verb=create", "--resource=builds.buildcontroller.dev"},
	} {
		if _, err := kubectl("", args...); err != nil {
			s.t.Fatal(err)
		}
	}
	refused := s.example("go")
	refused.Spec.Source.Git.SecretName = gitKeySecret
	s.until(time.Minute, "a Build is refused that names a Secret of somebody else's", func() error {
		_, err := kubectl(manifest(refused), "create", "--dry-run=server", "--namespace", s.ns, "--as=developer", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "which developer may not use") {
			time.AfterFunc(time.Second, s.notify) // nothing in the namespace tells when it is
			return fmt.Errorf("kubectl says %w", err)
		}
		return nil
	})
}

// install applies artifacts/install.yaml as it is but for the images, until the
// test ends. It returns the role that the controller has when all its replicas
// are available.
func install(t *testing.T, image string) *rbacv1.ClusterRole {
	t.Helper()
	shipped, err := os.ReadFile(filepath.Join(checkoutDir, "artifacts", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role *rbacv1.ClusterRole
	var manifests []string
	for document := range bytes.SplitSeq(shipped, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "ClusterRole":
			role = &rbacv1.ClusterRole{}
			if err := yaml.UnmarshalStrict(document, role); err != nil {
				t.Fatal(err)
			}
		case "Deployment":
			deployment := &appsv1.Deployment{}
			if err := yaml.UnmarshalStrict(document, deployment); err != nil {
				t.Fatal(err)
			}
			container := &deployment.Spec.Template.Spec.Containers[0]
			container.Image = image
			container.Args = slices.Concat(container.Args, imageFlags, []string{"-v=2"})
			document = []byte(manifest(deployment))
		}
		manifests = append(manifests, string(document))
	}
	if role == nil {
		t.Fatal("artifacts/install.yaml has no ClusterRole")
	}
	all := strings.Join(manifests, "\n---\n")
	t.Cleanup(func() {
		if t.Failed() {
			log, err := kubectl("", "logs", "--namespace", installed, "--selector", "app.kubernetes.io/name="+installed, "--prefix", "--tail=40")
			t.Logf("the log in the cluster: %s %v", log, err)
		}
		if _, err := kubectl(all, "delete", "--ignore-not-found", "--wait", "--timeout=90s", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	if _, err := kubectl(all, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if out, err := kubectl("", "rollout", "status", "--namespace", installed, "deployment/"+installed, "--timeout=3m"); err != nil {
		pods, _ := kubectl("", "describe", "pods", "--namespace", installed)
		t.Fatal(fmt.Errorf("%w %s %s", err, out, pods))
	}
	return role
}
