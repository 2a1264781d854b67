//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestASourceIsFoundWhereTheBuildSays(t *testing.T) {
	t.Run("a branch over ssh", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		_, commit := s.pushPage()
		s.apply(s.page("page", buildOnly))
		s.untilReady("page")
		s.expectBuilt("page", commit)
		s.expectEvents("page", map[string]int{"BuildStarted": 1, "BuildSucceeded": 1})
	})
	t.Run("a tag", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		w, tagged := s.pushPage()
		w.push("refs/tags/release-" + s.ns)
		w.write("later.txt", "not this one")
		w.commit("Later")
		w.push("refs/heads/" + s.ns)
		s.apply(s.page("page", buildOnly, revision("release-"+s.ns)))
		s.untilReady("page")
		s.expectBuilt("page", tagged)
	})
	t.Run("a full commit id that is the tip of no branch", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		w, first := s.pushPage()
		w.write("later.txt", "not this one")
		w.commit("Later")
		w.push("refs/heads/" + s.ns)
		s.apply(s.page("page", buildOnly, revision(first.sha)))
		s.untilReady("page")
		s.expectBuilt("page", first)
	})
	t.Run("no revision, the default branch", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		w := newWorktree(t, "nodejs")
		w.checkout("HEAD")
		build := s.example("nodejs")
		build.Spec.Source.Git.Revision, build.Spec.Deployment = "", nil
		s.apply(build)
		s.untilReady(build.Name)
		s.expectBuilt(build.Name, w.head())
	})
	t.Run("a public repository over https", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		_, commit := s.pushPage()
		s.apply(s.page("page", buildOnly, func(spec *v1alpha1.BuildSpec) {
			spec.Source.Git.URL, spec.Source.Git.SecretName = gitHTTPS+"public/"+pageRepository+".git", ""
		}))
		s.untilReady("page")
		s.expectBuilt("page", commit)
	})
	t.Run("a private repository over https with user and password", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		_, commit := s.pushPage()
		s.apply(s.page("page", buildOnly, func(spec *v1alpha1.BuildSpec) {
			spec.Source.Git.URL, spec.Source.Git.SecretName = gitHTTPS+"private/"+pageRepository+".git", gitLoginSecret
		}))
		s.untilReady("page")
		s.expectBuilt("page", commit)
	})
	t.Run("a context directory and a Dockerfile of another name", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		_, commit := s.pushPage(func(w *worktree) {
			w.write("Dockerfile", "FROM scratch\nCOPY not-this-one /\n")
			w.write("services/shop/build/Shop.dockerfile", pageDockerfile)
			w.write("services/shop/name.txt", "the shop")
		})
		s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) {
			spec.Source.ContextDir, spec.Dockerfile.Path = "services/shop", "build/Shop.dockerfile"
		}))
		s.untilReady("page")
		s.expectBuilt("page", commit)
		s.expectAnswer("page", "source/name.txt", "the shop")
	})
}

// A build argument goes through the Job, the kubelet, kaniko and a shell's
// environment; each of them has characters that it likes to replace.
func TestBuildArgumentsArriveAsTheyAre(t *testing.T) {
	values := map[string]string{
		"SPACES":    "  two  words ",
		"QUOTES":    `"double" 'single' back\slash \n`,
		"COMMANDS":  "$(id) `id` ; id && id | id > /tmp/x",
		"VARIABLES": "$HOME ${HOME} $(HOME) $$ $$HOME $$(HOME) 5$",
		"NEWLINES":  "first\nsecond\n\nlast",
		"EQUALS":    "a=b,c=d --build-arg=e=f",
		"UTF8":      "grüße 世界",
		"EMPTY":     "",
	}
	s := newScene(t)
	s.pushPage(func(w *worktree) {
		var dockerfile strings.Builder
		dockerfile.WriteString("ARG BASE\nFROM ${BASE}\n")
		for name := range values {
			dockerfile.WriteString("ARG " + name + "=default\n")
		}
		dockerfile.WriteString("RUN mkdir /www\n")
		for name := range values {
			dockerfile.WriteString(`RUN printf %s "$` + name + `" >/www/` + name + "\n")
		}
		dockerfile.WriteString(`CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]` + "\nSTOPSIGNAL SIGKILL\n")
		w.write("Dockerfile", dockerfile.String())
	})
	var changes []func(*v1alpha1.BuildSpec)
	for name, value := range values {
		changes = append(changes, buildArg(name, value))
	}
	s.apply(s.page("page", changes...))
	s.untilReady("page")
	for name, value := range values {
		s.expectAnswer("page", name, value)
	}
}

func TestAPrivateRegistryIsPushedToAndPulledFromWithTheSameSecret(t *testing.T) {
	s := newScene(t)
	_, commit := s.pushPage()
	s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) {
		spec.Image.Name, spec.Image.SecretName = loginRegistry+"/e2e/"+s.ns+":v1", pushSecret
	}))
	s.untilReady("page")
	s.expectBuilt("page", commit)
	s.expectDeployed("page")
	s.expectAnswer("page", "", "hello")
}
