//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// mostLag is how long after a failure its condition may come.
const mostLag = 15 * time.Second

func TestAFailureIsToldWithItsReasonWithinSeconds(t *testing.T) {
	t.Parallel()
	t.Run("a key that may not log in", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		key := gitKey(s)
		key["ssh"] = newKey(t, "")
		s.makeSecret("wrong-key", corev1.SecretTypeOpaque, key)
		s.apply(s.page("page", gitSecret("wrong-key")))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureAuthenticationFailed)
	})
	t.Run("a host that known_hosts does not know", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		key := gitKey(s)
		key["known_hosts"] = "git.example.com " + strings.SplitN(key["known_hosts"], " ", 2)[1]
		s.makeSecret("unknown-host", corev1.SecretTypeOpaque, key)
		s.apply(s.page("page", gitSecret("unknown-host")))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureHostKeyVerificationFailed)
	})
	t.Run("a host with another key than the one in known_hosts", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		key := gitKey(s)
		host, _, _ := strings.Cut(key["known_hosts"], " ")
		key["known_hosts"] = host + " " + newPublicKey(t) + "\n"
		s.makeSecret("changed-host", corev1.SecretTypeOpaque, key)
		s.apply(s.page("page", gitSecret("changed-host")))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureHostKeyVerificationFailed)
	})
	t.Run("a branch that is not there", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.apply(s.page("page", revision("no-such-branch")))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureRevisionNotFound)
	})
	t.Run("a wrong password over https", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.makeSecret("wrong-login", corev1.SecretTypeBasicAuth, map[string]string{"username": gitUser, "password": "not this"})
		s.apply(s.page("page", gitSecret("wrong-login"), func(spec *v1alpha1.BuildSpec) {
			spec.Source.Git.URL = gitHTTPS + "private/" + pageRepository + ".git"
		}))
		failure := s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureAuthenticationFailed)
		if strings.Contains(failure.Message+failure.LogTail, "not this") {
			t.Errorf("the password is in the status: %+v", failure)
		}
	})
	t.Run("a Dockerfile that is not there", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) { spec.Dockerfile.Path = "docker/Dockerfile" }))
		s.expectFailure("page", v1alpha1.StepBuild, v1alpha1.FailureDockerfileNotFound)
	})
	t.Run("a program that does not compile", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage(func(w *worktree) {
			w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nWORKDIR /src\nCOPY . .\nRUN go build -buildvcs=false -o /hello .\n")
			w.write("go.mod", "module example.com/hello\n\ngo 1.26\n")
			w.write("main.go", "package main\n\nfunc main() { greet() }\n")
		})
		s.apply(s.page("page", baseImage(base(t, "golang"))))
		failure := s.expectFailure("page", v1alpha1.StepBuild, v1alpha1.FailureBuildCommandFailed)
		if failure.ExitCode == nil || *failure.ExitCode == 0 {
			t.Errorf("exit code %v", failure.ExitCode)
		}
		if !strings.Contains(failure.LogTail, "main.go:3:15: undefined: greet") {
			t.Errorf("the log in the status has not what the compiler said:\n%s", failure.LogTail)
		}
	})
	t.Run("a base image that is not there", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		s.apply(s.page("page", baseImage(registry+"/library/no-such-image:1")))
		s.expectFailure("page", v1alpha1.StepBuild, v1alpha1.FailureBaseImageNotFound)
	})
	t.Run("a private key with a passphrase", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		key := gitKey(s)
		key["ssh"] = newKey(t, "secret words")
		s.makeSecret("locked-key", corev1.SecretTypeOpaque, key)
		s.apply(s.page("page", gitSecret("locked-key")))
		failure := s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureInvalidSSHKey)
		if !strings.Contains(failure.Message, "passphrase") {
			t.Errorf("the message does not name the passphrase: %s", failure.Message)
		}
	})
	t.Run("a public key in place of the private one", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		key := gitKey(s)
		key["ssh"] = newPublicKey(t) + "\n"
		s.makeSecret("public-key", corev1.SecretTypeOpaque, key)
		s.apply(s.page("page", gitSecret("public-key")))
		failure := s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureInvalidSSHKey)
		if !strings.Contains(failure.Message, "public key") {
			t.Errorf("the message does not say what it is: %s", failure.Message)
		}
	})
	t.Run("no known_hosts at all", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		s.makeSecret("no-hosts", corev1.SecretTypeOpaque, map[string]string{"ssh": gitKey(s)["ssh"]})
		s.apply(s.page("page", gitSecret("no-hosts")))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureHostKeyVerificationFailed)
	})
	t.Run("a repository that is not there", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.apply(s.page("page", fromURL(gitSSH+"none.git", gitKeySecret)))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureRepositoryNotFound)
	})
	t.Run("a git server that refuses connections", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.apply(s.page("page", noRetries, fromURL("ssh://git@"+hostIP+":2223/none.git", gitKeySecret)))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureHostUnreachable)
	})
	t.Run("a git server whose name is none", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.apply(s.page("page", noRetries, fromURL("ssh://git@no-such-host.invalid/none.git", gitKeySecret)))
		s.expectFailure("page", v1alpha1.StepSource, v1alpha1.FailureHostNotFound)
	})
	t.Run("a build that takes too long", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage(func(w *worktree) { w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nRUN sleep 300\n") })
		s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) { spec.Timeout = &metav1.Duration{Duration: 25 * time.Second} }))
		s.expectEnd("page", v1alpha1.StepBuild, v1alpha1.FailureDeadlineExceeded)
	})
	for _, builder := range allBuilders {
		t.Run("a context directory that is not there, with "+string(builder), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.pushPage()
			s.apply(s.page("page", builtBy(builder), func(spec *v1alpha1.BuildSpec) { spec.Source.ContextDir = "none" }))
			end := s.expectEnd("page", v1alpha1.StepBuild, "")
			if end.Reason != v1alpha1.FailureDockerfileNotFound && end.Reason != v1alpha1.FailureContextNotFound {
				t.Errorf("the reason is %s: %s", end.Reason, end.Message)
			}
		})
		t.Run("a Dockerfile with a typo, with "+string(builder), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.pushPage(func(w *worktree) { w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nRUNN true\n") })
			s.apply(s.page("page", builtBy(builder)))
			s.expectFailure("page", v1alpha1.StepBuild, v1alpha1.FailureDockerfileInvalid)
		})
		t.Run("a stage that is not there, with "+string(builder), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.pushPage()
			s.apply(s.page("page", builtBy(builder), func(spec *v1alpha1.BuildSpec) { spec.Dockerfile.Target = "release" }))
			s.expectFailure("page", v1alpha1.StepBuild, v1alpha1.FailureTargetNotFound)
		})
		t.Run("a command that fails, with "+string(builder), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.pushPage(func(w *worktree) {
				w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nRUN echo 'error: 401 unauthorized, connection refused' >&2; exit 3\n")
			})
			s.apply(s.page("page", builtBy(builder)))
			failure := s.expectFailure("page", v1alpha1.StepBuild, v1alpha1.FailureBuildCommandFailed)
			if !strings.Contains(failure.Message, "exit code 3") || !strings.Contains(failure.LogTail, "connection refused") {
				t.Errorf("%s\n%s", failure.Message, failure.LogTail)
			}
		})
		t.Run("a registry that refuses connections, with "+string(builder), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.pushPage()
			s.apply(s.page("page", builtBy(builder), noRetries, func(spec *v1alpha1.BuildSpec) {
				spec.Image.Name, spec.Builder.InsecureRegistries = hostIP+":5999/e2e/none:v1", []string{registry}
			}))
			s.expectFailure("page", v1alpha1.StepPush, v1alpha1.FailureRegistryUnreachable)
		})
		t.Run("a registry that nobody trusts, with "+string(builder), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.pushPage(func(w *worktree) { w.write("Dockerfile", "FROM scratch\nCOPY name.txt /\n"); w.write("name.txt", "x") })
			s.apply(s.page("page", builtBy(builder), func(spec *v1alpha1.BuildSpec) {
				spec.Image = v1alpha1.Image{Name: tlsRegistry + "/e2e/" + s.ns + ":v1", SecretName: pushSecret}
			}))
			s.expectFailure("page", v1alpha1.StepPush, v1alpha1.FailureTLSVerificationFailed)
		})
	}
	t.Run("a build that needs more memory than it may have", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage(func(w *worktree) { w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nRUN tail /dev/zero\n") })
		s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) {
			spec.Builder = &v1alpha1.Builder{Resources: &corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("96Mi")},
			}}
		}))
		s.expectFailure("page", v1alpha1.StepBuild, v1alpha1.FailureOutOfMemory)
	})
	t.Run("a registry that wants a login", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) { spec.Image.Name = loginRegistry + "/e2e/" + s.ns + ":v1" }))
		s.expectFailure("page", v1alpha1.StepPush, v1alpha1.FailureRegistryDenied)
	})
	t.Run("a registry that refuses the login", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		user, _, err := registryLogin()
		if err != nil {
			t.Fatal(err)
		}
		s.makeSecret("wrong-login", corev1.SecretTypeDockerConfigJson, map[string]string{
			corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": "not this"}}}`, loginRegistry, user),
		})
		s.apply(s.page("page", func(spec *v1alpha1.BuildSpec) {
			spec.Image.Name, spec.Image.SecretName = loginRegistry+"/e2e/"+s.ns+":v1", "wrong-login"
		}))
		s.expectFailure("page", v1alpha1.StepPush, v1alpha1.FailureRegistryDenied)
	})
}

func gitSecret(name string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Source.Git.SecretName = name }
}

func baseImage(image string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Dockerfile.BuildArgs[0].Value = image }
}

// newKey returns the private half of a key that nobody knows.
func newKey(t *testing.T, passphrase string) string {
	t.Helper()
	content, err := os.ReadFile(generateKey(t, passphrase))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func newPublicKey(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(generateKey(t, "") + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// expectFailure waits until the run of a Build has failed, and expects it to be
// said in the status, the conditions and one Event, soon after the container's end.
func (s *scene) expectFailure(name string, step v1alpha1.Step, reason v1alpha1.FailureReason) v1alpha1.Failure {
	s.t.Helper()
	s.untilFailed(name)
	s.expectEvents(name, map[string]int{"BuildStarted": 1, "BuildFailed": 1})
	return s.expectReason(name, step, reason, "BuildFailed", s.containerFailed(name))
}

func (s *scene) untilFailed(name string) {
	s.t.Helper()
	s.until(buildLimit, "the run has failed", func() error {
		if build := s.build(name); build == nil || build.Status.Run == nil || build.Status.Run.CompletionTime == nil {
			return fmt.Errorf("it has not")
		}
		return s.happened(name, "BuildFailed")
	})
}

// expectEnd is expectFailure for a run whose pod may be gone, or which may have more than one reason.
func (s *scene) expectEnd(name string, step v1alpha1.Step, reason v1alpha1.FailureReason) v1alpha1.Failure {
	s.t.Helper()
	s.untilFailed(name)
	failure := s.build(name).Status.Failure
	if failure == nil || failure.Step != step || reason != "" && failure.Reason != reason {
		s.t.Fatalf("the failure is %+v, not %s/%s", failure, step, reason)
	}
	s.t.Logf("%s/%s: %s", failure.Step, failure.Reason, failure.Message)
	return *failure
}

// expectReason expects a failure to be said everywhere, soon after it happened.
func (s *scene) expectReason(name string, step v1alpha1.Step, reason v1alpha1.FailureReason, event string, happened time.Time) v1alpha1.Failure {
	s.t.Helper()
	status := s.build(name).Status
	if status.Failure == nil {
		s.t.Fatalf("the status has no failure: %+v", status)
	}
	failure := *status.Failure
	if failure.Step != step || failure.Reason != reason || failure.Message == "" {
		s.t.Errorf("the failure is %s/%s (%s), not %s/%s", failure.Step, failure.Reason, failure.Message, step, reason)
	}
	built := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBuilt)
	if built == nil || built.Status != metav1.ConditionFalse || built.Reason != string(reason) {
		s.t.Fatalf("the condition Built is %+v", built)
	}
	if !meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionReady) {
		s.t.Errorf("the condition Ready is not False: %+v", status.Conditions)
	}
	if !slices.ContainsFunc(s.eventsAbout("Build", name), func(e *corev1.Event) bool {
		return e.Reason == event && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, string(reason))
	}) {
		s.t.Errorf("no Event %s says %s", event, reason)
	}
	// Both are written in whole seconds.
	lag := built.LastTransitionTime.Sub(happened)
	if lag < -time.Second || lag > mostLag {
		s.t.Errorf("the condition came %s after what it tells of", lag)
	}
	s.t.Logf("%s/%s after %s: %s", failure.Step, failure.Reason, lag, failure.Message)
	return failure
}

// containerFailed is when the container ended that failed the run of a Build.
func (s *scene) containerFailed(build string) time.Time {
	s.t.Helper()
	for _, pod := range s.podsOf(build) {
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if end := status.State.Terminated; end != nil && end.ExitCode != 0 {
				return end.FinishedAt.Time
			}
		}
	}
	s.t.Fatalf("no container of %s failed", build)
	return time.Time{}
}

// generateKey makes a key pair and returns where its private half is.
func generateKey(t *testing.T, passphrase string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if _, err := output(exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "nobody", "-f", path)); err != nil {
		t.Fatal(err)
	}
	return path
}
