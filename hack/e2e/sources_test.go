//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestASourceIsFoundWhereTheBuildSays(t *testing.T) {
	t.Parallel()
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

func TestAKeyIsTakenHoweverItWasSaved(t *testing.T) {
	t.Parallel()
	for what, save := range map[string]func(map[string]string){
		"under ssh-privatekey, the key of kubernetes.io/ssh-auth": func(key map[string]string) { key["ssh-privatekey"] = key["ssh"]; delete(key, "ssh") },
		"without its last newline":                                func(key map[string]string) { key["ssh"] = strings.TrimSpace(key["ssh"]) },
		"with the line ends of Windows": func(key map[string]string) {
			key["ssh"], key["known_hosts"] = strings.ReplaceAll(key["ssh"], "\n", "\r\n"), strings.ReplaceAll(key["known_hosts"], "\n", "\r\n")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			_, commit := s.pushPage()
			key := gitKey(s)
			save(key)
			kind := corev1.SecretTypeOpaque
			if key["ssh-privatekey"] != "" {
				kind = corev1.SecretTypeSSHAuth
			}
			s.makeSecret("saved", kind, key)
			s.apply(s.page("page", buildOnly, gitSecret("saved")))
			s.untilReady("page")
			s.expectBuilt("page", commit)
		})
	}
}

func TestATokenAloneOpensAPrivateRepository(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	_, commit := s.pushPage()
	s.makeSecret("token", corev1.SecretTypeOpaque, map[string]string{"token": s.stateFile("git", "password") + "\n"})
	s.apply(s.page("page", buildOnly, fromURL(gitHTTPS+"private/"+pageRepository+".git", "token")))
	s.untilReady("page")
	s.expectBuilt("page", commit)
}

func TestAGitServerWithAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	t.Run("in the Secret", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		_, commit := s.pushPage()
		s.makeSecret("corp-git", corev1.SecretTypeOpaque, map[string]string{
			"username": gitUser, "password": s.stateFile("git", "password"), "ca.crt": s.stateFile("git", "private-ca.crt"),
		})
		s.apply(s.page("page", buildOnly, fromURL(gitPrivateCA+"private/"+pageRepository+".git", "corp-git")))
		s.untilReady("page")
		s.expectBuilt("page", commit)
	})
	t.Run("in a ConfigMap", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		_, commit := s.pushPage()
		s.makeConfigMap("corp-ca", map[string]string{"ca.crt": s.stateFile("git", "private-ca.crt")})
		s.apply(s.page("page", buildOnly, fromURL(gitPrivateCA+"public/"+pageRepository+".git", ""), func(spec *v1alpha1.BuildSpec) {
			spec.Source.Git.CAConfigMapName = "corp-ca"
		}))
		s.untilReady("page")
		s.expectBuilt("page", commit)
	})
	t.Run("nowhere", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		s.apply(s.page("page", buildOnly, fromURL(gitPrivateCA+"public/"+pageRepository+".git", "")))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureTLSVerificationFailed)
	})
}

// The names of repositories as the hosters make them.
func TestURLsAsTheyAreMetInTheField(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ directory, url string }{
		"ssh with a port and no .git":        {"scm/acme/shop.git", gitSSH + "scm/acme/shop"},
		"ssh as Azure DevOps has it":         {"v3/acme/project/shop", gitSSH + "v3/acme/project/shop"},
		"ssh into a user's home":             {"~ada/shop.git", gitSSH + "~ada/shop.git"},
		"https with _git and %20":            {"acme/My Project/_git/shop", gitHTTPS + "public/acme/My%20Project/_git/shop"},
		"https with a port, no .git, a dash": {"acme/shop-2_x.y.git", gitHTTPS + "public/acme/shop-2_x.y"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			_, commit := s.pushPage()
			s.linkRepository(c.directory)
			secret := gitKeySecret
			if strings.HasPrefix(c.url, "https") {
				secret = ""
			}
			s.apply(s.page("page", buildOnly, fromURL(c.url, secret)))
			s.untilReady("page")
			s.expectBuilt("page", commit)
		})
	}
}

// linkRepository gives the repository of the pages another name, until the test ends.
func (s *scene) linkRepository(name string) {
	s.t.Helper()
	repositories := filepath.Join(cluster.state, "git", "repos")
	link := filepath.Join(repositories, name)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		s.t.Fatal(err)
	}
	_ = os.Remove(link) // of a test that was interrupted
	if err := os.Symlink(filepath.Join(repositories, pageRepository+".git"), link); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		for ; link != repositories; link = filepath.Dir(link) {
			if os.Remove(link) != nil {
				return // another test is in it
			}
		}
	})
}

// A repository with a submodule, which has one itself.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	for kind, want := range map[v1alpha1.Submodules]string{
		"":                           "outerinner",
		v1alpha1.SubmodulesRecursive: "outerinner",
		v1alpha1.SubmodulesShallow:   "outer",
		v1alpha1.SubmodulesOff:       "",
	} {
		t.Run("submodules "+string(kind), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			url := gitSSH + pageRepository + ".git"
			module := func(content, within string) (branch string) {
				w := newWorktree(t, pageRepository)
				w.write("name.txt", content)
				if within != "" {
					w.git("submodule", "--quiet", "add", "--branch", within, url, "deeper")
				}
				w.commit("The module " + content)
				branch = s.ns + "-" + content
				w.push("refs/heads/" + branch)
				return branch
			}
			outer := module("outer", module("inner", ""))
			s.pushPage(func(w *worktree) {
				w.git("submodule", "--quiet", "add", "--branch", outer, url, "module")
				w.write("Dockerfile", `ARG BASE
FROM ${BASE}
COPY . /source
RUN mkdir /www && cd /source/module && for f in name.txt deeper/name.txt; do if [ -e $f ]; then cat $f; fi; done >/www/index.html
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
`)
			})
			s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) { spec.Source.Git.Submodules = kind }))
			s.untilReady("page")
			s.expectAnswer("page", "", want)
		})
	}
}

func TestOneDirectoryOfALargeRepository(t *testing.T) {
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		_, commit := s.pushPage(func(w *worktree) {
			// kaniko's own files are to be seen, the clone among them.
			w.write("services/shop/Dockerfile", pageDockerfile+`RUN if [ -e /kaniko ]; then test -e /kaniko/source/services/shop -a ! -e /kaniko/source/services/large; fi
`)
			w.write("services/shop/name.txt", "the shop")
			w.write("services/large/file", strings.Repeat("not needed\n", 1000))
		})
		s.apply(s.page("page", builtBy(builder), func(spec *v1alpha1.BuildSpec) {
			spec.Source.ContextDir, spec.Source.Git.Sparse = "services/shop", true
		}))
		s.untilReady("page")
		s.expectBuilt("page", commit)
		s.expectAnswer("page", "source/name.txt", "the shop")
	})
}

func TestAllOfTheHistoryIsThereWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	w, _ := s.pushPage()
	w.write("later.txt", "later")
	last := w.commit("Later")
	w.push("refs/heads/" + s.ns)
	s.apply(s.page("page", buildOnly, func(spec *v1alpha1.BuildSpec) { spec.Source.Git.Depth = ptr.To[int32](0) }))
	s.untilReady("page")
	s.expectBuilt("page", last)
}

// A build argument goes through the Job, the kubelet, kaniko and a shell's
// environment; each of them has characters that it likes to replace.
func TestBuildArgumentsArriveAsTheyAre(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
