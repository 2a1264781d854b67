//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// A hostileRow is an input that gets in. Its Build is of a repository with a Dockerfile that copies all of it, and only builds.
type hostileRow struct {
	name string
	// push writes what the repository has; history is called after the commit. Neither: the repository of the scene.
	push, history func(*scene, *worktree)
	asks          func(*scene, *v1alpha1.BuildSpec)
	// fails for one of these reasons; empty: it becomes Ready.
	fails []v1alpha1.FailureReason
	then  func(*scene, *v1alpha1.Build)
}

func because(reasons ...v1alpha1.FailureReason) []v1alpha1.FailureReason { return reasons }

// afterFlood is how a command ends that has written megabytes: its output and the builder's own words come to the node by two
// ways, so that the words may stand before the end of the output, where nobody looks for them, or in the midst of it.
var afterFlood = because(v1alpha1.FailureBuildCommandFailed, v1alpha1.FailureBuildFailed)

// asking is what a row asks for that needs nothing of the scene.
func asking(changes ...func(*v1alpha1.BuildSpec)) func(*scene, *v1alpha1.BuildSpec) {
	return func(_ *scene, spec *v1alpha1.BuildSpec) {
		for _, change := range changes {
			change(spec)
		}
	}
}

// hostileRows are run group by group, each in a scene of its own.
var hostileRows = map[string][]hostileRow{
	"urls and revisions": {
		{name: "the API server in the place of a git server",
			asks:  asking(fromURL("https://kubernetes.default.svc/api/v1/secrets", "")),
			fails: because(v1alpha1.FailureTLSVerificationFailed, v1alpha1.FailureHostNotFound)},
		{name: "the API server in the place of a git server, with a password for it",
			asks: func(s *scene, spec *v1alpha1.BuildSpec) {
				fromURL("https://"+apiServer(s)+"/api/v1/secrets", gitLoginSecret)(spec)
			},
			fails: because(v1alpha1.FailureTLSVerificationFailed)},
		{name: "the metadata of a cloud",
			asks:  asking(fromURL("https://169.254.169.254/latest/meta-data", ""), within(20*time.Second)),
			fails: because(v1alpha1.FailureHostUnreachable, v1alpha1.FailureDeadlineExceeded)},
		{name: "the pod itself",
			asks:  asking(fromURL("https://localhost:8443/x.git", "")),
			fails: because(v1alpha1.FailureHostUnreachable)},
		{name: "a host that accepts and never answers",
			asks: func(s *scene, spec *v1alpha1.BuildSpec) {
				fromURL("https://"+silentHost(s)+"/x.git", "")(spec)
				within(12 * time.Second)(spec)
			},
			fails: because(v1alpha1.FailureDeadlineExceeded)},
		{name: "a host in punycode",
			asks:  asking(fromURL("https://xn--thub-n4ab.invalid/x.git", "")),
			fails: because(v1alpha1.FailureHostNotFound)},
		{name: "a repository above the others",
			asks:  asking(fromURL(gitSSH+"../../../../etc/.git", gitKeySecret)),
			fails: because(v1alpha1.FailureRepositoryNotFound, v1alpha1.FailureCloneFailed)},
		{name: "a command behind the repository",
			asks:  asking(fromURL(gitSSH+pageRepository+".git';id;'", gitKeySecret)),
			fails: because(v1alpha1.FailureRepositoryNotFound, v1alpha1.FailureCloneFailed)},
		{name: "a query and a fragment behind the repository",
			asks:  asking(fromURL(gitHTTPS+"public/"+pageRepository+".git?service=git-receive-pack#x", "")),
			fails: because(v1alpha1.FailureRepositoryNotFound, v1alpha1.FailureCloneFailed)},
		{name: "a variable of the kubelet in the url",
			asks:  asking(fromURL(gitHTTPS+"public/$(GIT_SECRET)$$(id)`id`.git", "")),
			fails: because(v1alpha1.FailureRepositoryNotFound)},
		{name: "a command in the place of the revision",
			asks:  asking(revision("$(id)`id`;id|id&&id>x")),
			fails: because(v1alpha1.FailureRevisionNotFound)},
		{name: "a revision of other letters that looks like main",
			asks:  asking(revision("mаin")),
			fails: because(v1alpha1.FailureRevisionNotFound)},
		{name: "a commit that is nowhere",
			asks:  asking(revision(strings.Repeat("0", 40))),
			fails: because(v1alpha1.FailureRevisionNotFound)},
		{name: "a branch whose name is a command",
			push: func(s *scene, w *worktree) { w.write("name.txt", "x") },
			history: func(s *scene, w *worktree) {
				w.push("refs/heads/" + commandBranch(s))
			},
			asks: func(s *scene, spec *v1alpha1.BuildSpec) { revision(commandBranch(s))(spec) }},
		{name: "an option of git-sync by a variable",
			asks: asking(builderEnv("GITSYNC_EXECHOOK_COMMAND", "/bin/false"), builderEnv("GITSYNC_REPO", "https://localhost/x"), builderEnv("CONTEXT_DIR", "x"))},
		{name: "a variable with commands in it",
			asks: asking(builderEnv("GIT_SECRET", "$(id)`id`\";id;\""), builderEnv("LD_PRELOAD", "/none.so"), builderEnv("PATH_", "$(id)"))},
	},
	"repositories": {
		{name: "a commit with control characters, colours and 100 kB of subject",
			push: func(s *scene, w *worktree) { w.write("name.txt", "x") },
			history: func(s *scene, w *worktree) {
				w.rewrite("\x1b[31mE\x1b]0;title\x07vil\u202e\x01 Author", "\x1b[2J\x07\u202eno\xff\xfe subject\x9b31m "+strings.Repeat("long ", 20_000))
			},
			then: func(s *scene, build *v1alpha1.Build) {
				if run := build.Status.Run; run == nil || run.Commit == "" || len([]rune(run.Subject)) > 200 || len([]rune(run.Author)) > 200 {
					s.t.Errorf("the run is %+v", run)
				}
			}},
		{name: "a commit whose author and subject look like another commit",
			push: func(s *scene, w *worktree) { w.write("name.txt", "x") },
			history: func(s *scene, w *worktree) {
				w.rewrite(strings.Repeat("0", 40), strings.Repeat("1", 40))
			},
			then: func(s *scene, build *v1alpha1.Build) {
				if strings.Trim(build.Status.Run.Commit, "0") == "" || strings.Trim(build.Status.Run.Commit, "1") == "" {
					s.t.Errorf("the commit is %s", build.Status.Run.Commit)
				}
			}},
		{name: "hooks and a filter, which are run by nobody",
			push: func(s *scene, w *worktree) {
				w.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
				w.write(".gitconfig", "[filter \"evil\"]\n\tsmudge = touch /tmp/evil; echo filtered\n\trequired = true\n[core]\n\tfsmonitor = touch /tmp/evil\n\thooksPath = hooks\n")
				w.write("hooks/post-checkout", "#!/bin/sh\necho hooked >name.txt\n")
				w.write("name.txt", "neither-hooked-nor-filtered")
			},
			then: func(s *scene, build *v1alpha1.Build) { s.expectInImage(build, "neither-hooked-nor-filtered", true) }},
		{name: "a directory that looks like a repository",
			push: func(s *scene, w *worktree) {
				w.write("bare/HEAD", "ref: refs/heads/main\n")
				w.write("bare/config", "[core]\n\tbare = true\n\tfsmonitor = touch /tmp/evil\n")
				w.write("bare/objects/x", "")
				w.write("bare/refs/x", "")
			},
			asks: asking(inContext("bare"), inlined("FROM scratch\nCOPY . /\n"))},
		{name: "a submodule by git's ext transport", history: submodule("module", "module", "ext::sh -c touch% /tmp/x"), fails: because(v1alpha1.FailureCloneFailed)},
		{name: "a submodule of the node's files", history: submodule("module", "module", "file:///etc"), fails: because(v1alpha1.FailureCloneFailed, v1alpha1.FailureRepositoryNotFound)},
		{name: "a submodule of the repository itself, by path", history: submodule("module", "module", "/workspace/.git"), fails: because(v1alpha1.FailureCloneFailed, v1alpha1.FailureRepositoryNotFound)},
		{name: "a submodule whose url is an option", history: submodule("module", "module", "--upload-pack=touch /tmp/x"), fails: because(v1alpha1.FailureCloneFailed)},
		{name: "a submodule of ssh whose host is an option", history: submodule("module", "module", "ssh://-oProxyCommand=id/x"), fails: because(v1alpha1.FailureCloneFailed)},
		{name: "a submodule whose name climbs", history: submodule("../../hooks", "module", gitSSH+pageRepository+".git"), fails: because(v1alpha1.FailureCloneFailed)},
		{name: "names of files with line breaks, control characters and dashes",
			push: func(s *scene, w *worktree) {
				for _, name := range []string{"line\nbreak", "\x1b[31mred", "-rf", "--no-push", "$(id)", "`id`;id", "a\tb", "\xff\xfe", " ", "quote'\"", "\u202etxt.exe"} {
					w.write(name, "x")
				}
			}},
		{name: "a Dockerfile with a name of its own making",
			push: func(s *scene, w *worktree) {
				w.write("--no-push $(id),x\"", "FROM scratch\nCOPY name.txt /\n")
				w.write("name.txt", "x")
			},
			asks: asking(dockerfileAt("--no-push $(id),x\""))},
		{name: "a context directory with a name of its own making",
			push: func(s *scene, w *worktree) { w.write("-a $(id)/`id`,\"=x/Dockerfile", "FROM scratch\nCOPY . /\n") },
			asks: asking(inContext("-a $(id)/`id`,\"=x"))},
	},
	"links that lead out": {
		{name: "a context directory that is all of the pod",
			push: links("up", "/"), asks: asking(inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "a context directory that is outside of the repository",
			push: links("up", "../../.."), asks: asking(inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "a context directory that is the one of the repository",
			push: links("up", ".."), asks: asking(inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "a context directory with the credentials beside the repository",
			push: links("up", "../.docker"), asks: asking(inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "a context directory with the credentials",
			push: links("up", "/kaniko/.docker"), asks: asking(inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "a context directory in the files of the process",
			push: links("up", "/proc/self"), asks: asking(inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "a context directory that is another of the repository",
			push: func(s *scene, w *worktree) {
				links("other", "services/shop")(s, w)
				w.write("services/shop/Dockerfile", "FROM scratch\nCOPY . /\n")
			},
			asks: asking(inContext("other"))},
		{name: "a Dockerfile that is the node's users",
			push: links("Dockerfile.x", "/etc/passwd"), asks: asking(dockerfileAt("Dockerfile.x")),
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureDockerfileNotFound)},
		{name: "a Dockerfile that is the environment of the process",
			push: links("Dockerfile.x", "/proc/self/environ"), asks: asking(dockerfileAt("Dockerfile.x")),
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureDockerfileNotFound, v1alpha1.FailureBuildFailed)},
		{name: "a Dockerfile that is the credentials for the registry",
			push: links("Dockerfile.x", "/kaniko/.docker/config.json"), asks: func(s *scene, spec *v1alpha1.BuildSpec) { dockerfileAt("Dockerfile.x")(spec); compactSecret(s, spec) },
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureDockerfileNotFound)},
		{name: "a Dockerfile that is the key for the git server",
			push: links("Dockerfile.x", "/etc/git-secret/ssh"), asks: asking(dockerfileAt("Dockerfile.x")),
			fails: because(v1alpha1.FailureDockerfileNotFound)},
		{name: "a Dockerfile that never ends",
			push: links("Dockerfile.x", "/dev/zero"), asks: asking(dockerfileAt("Dockerfile.x"), within(15*time.Second), memory("128Mi")),
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureOutOfMemory, v1alpha1.FailureDeadlineExceeded, v1alpha1.FailureBuildFailed)},
		{name: "a context directory with the credentials of BuildKit",
			push: links("up", ".."), asks: asking(builtBy(v1alpha1.BuildKit), inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "files to copy that lead to the credentials of BuildKit",
			push: links("a", "../.docker/config.json"), asks: asking(builtBy(v1alpha1.BuildKit), everything), then: noSecretInImage},
		{name: "a Dockerfile that is the credentials of BuildKit",
			push: links("Dockerfile.x", "../.docker/config.json"), asks: asking(builtBy(v1alpha1.BuildKit), dockerfileAt("Dockerfile.x"), registrySecret),
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureDockerfileNotFound, v1alpha1.FailureBuildFailed)},
		{name: "a context directory with the credentials of Buildah",
			push: links("up", ".."), asks: asking(builtBy(v1alpha1.Buildah), inContext("up"), everything),
			fails: because(v1alpha1.FailureContextNotFound), then: noSecretInImage},
		{name: "files to copy that lead to the credentials of Buildah",
			push: links("a", "../.docker/config.json"), asks: asking(builtBy(v1alpha1.Buildah), everything), then: noSecretInImage},
		{name: "a Dockerfile that is the credentials of Buildah",
			push: links("Dockerfile.x", "../.docker/config.json"), asks: asking(builtBy(v1alpha1.Buildah), dockerfileAt("Dockerfile.x"), registrySecret),
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureDockerfileNotFound, v1alpha1.FailureBuildFailed)},
		{name: "files to copy that lead to the Secrets",
			push: func(s *scene, w *worktree) {
				links("a", "/kaniko/.docker/config.json")(s, w)
				links("b", "/etc/git-secret/ssh")(s, w)
				links("c", "/run/git/key")(s, w)
				links("d", "/proc/1/environ")(s, w)
				links("e", "../../../../../../etc/shadow")(s, w)
			},
			asks: asking(everything), then: noSecretInImage},
		{name: "files to copy that lead to the credentials beside the repository, by their names",
			push: links("a", "../.docker/config.json"), asks: asking(inlined("FROM scratch\nCOPY a /a\n"), registrySecret), then: noSecretInImage},
		{name: "a file to copy that leads to the credentials, by its name",
			push: links("a", "/kaniko/.docker/config.json"), asks: asking(inlined("FROM scratch\nCOPY a /a\n"), registrySecret),
			then: noSecretInImage},
		{name: "a file to copy that climbs",
			asks: asking(inlined("FROM scratch\nCOPY ../.docker/config.json /a\n"), registrySecret), then: noSecretInImage},
	},
	"Dockerfiles and objects": {
		{name: "a Dockerfile of 64 kB of garbage",
			asks:  asking(inlined(strings.Repeat("\x01\x1b[31m garbage \u202e\\\n", 2_900))),
			fails: because(v1alpha1.FailureDockerfileInvalid)},
		{name: "a Dockerfile of one line of 64 kB",
			asks:  asking(inlined("FROM " + strings.Repeat("x", 65_000))),
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureBuildFailed, v1alpha1.FailureBaseImageNotFound)},
		{name: "stages that are made of each other",
			asks:  asking(inlined("FROM b AS a\nCOPY --from=b / /\nFROM a AS b\nCOPY --from=c / /\nFROM b AS c\n"), within(time.Minute)),
			fails: because(v1alpha1.FailureDockerfileInvalid, v1alpha1.FailureBaseImageNotFound)},
		{name: "a thousand stages",
			asks: asking(inlined(strings.Repeat("FROM scratch\n", 1000)+"COPY . /\n"), within(2*time.Minute))},
		{name: "a command that fills the log and says it was something else",
			asks: asking(onBusybox(`RUN yes "$(printf '\033[31merror: 401 Unauthorized\r\007\342\200\256')" | head -c 8000000; ` +
				`echo 'error: error building image: no space left on device: FATAL OOMKilled'; exit 3`)),
			fails: afterFlood},
		{name: "a command that writes one line of megabytes",
			asks:  asking(onBusybox(`RUN head -c 6000000 /dev/zero | tr '\000' 'x'; echo; exit 3`)),
			fails: afterFlood},
		{name: "a command that prints bytes",
			asks:  asking(onBusybox(`RUN head -c 300000 /dev/urandom; echo; exit 3`)),
			fails: afterFlood},
		{name: "a command that prints the credentials for the registry",
			asks:  asking(onBusybox(`RUN cat /kaniko/.docker/config.json; exit 3`), registrySecret),
			fails: because(v1alpha1.FailureBuildCommandFailed)},
		{name: "a command that makes processes and goes on after the signal",
			asks:  asking(onBusybox(`RUN trap '' TERM; for i in $(seq 300); do (trap '' TERM; setsid sleep 600) & done; sleep 600`), within(15*time.Second)),
			fails: because(v1alpha1.FailureDeadlineExceeded)},
		{name: "a command that ends the builder",
			asks:  asking(onBusybox(`RUN kill -TERM 1; sleep 600`), within(15*time.Second)),
			fails: because(v1alpha1.FailureBuildFailed, v1alpha1.FailureDeadlineExceeded)},
		{name: "100 build arguments of 4 kB and a history of 50",
			asks: asking(func(spec *v1alpha1.BuildSpec) {
				for i := range 99 {
					buildArg(fmt.Sprint("A", i), strings.Repeat("x", 4096))(spec)
				}
				spec.History = &v1alpha1.History{Successful: ptr.To[int32](50), Failed: ptr.To[int32](50)}
			})},
		{name: "a Build of more than a megabyte, whose application has 200 variables of 5 kB",
			asks: asking(onBusybox(`CMD ["sleep", "600"]`), func(spec *v1alpha1.BuildSpec) {
				spec.Deployment = &v1alpha1.Deployment{Replicas: ptr.To[int32](1)}
				for i := range 200 {
					spec.Deployment.Env = append(spec.Deployment.Env, corev1.EnvVar{Name: fmt.Sprint("E", i), Value: strings.Repeat("x", 5_000)})
				}
			}),
			then: func(s *scene, build *v1alpha1.Build) { s.expectDeployed(build.Name) }},
		{name: "a template that is nested 2,000 deep",
			asks:  asking(template(strings.Repeat(`{"x":`, 2_000) + `1` + strings.Repeat(`}`, 2_000))),
			fails: because(v1alpha1.FailureInvalidTemplate, v1alpha1.FailureRejected)},
		{name: "a template with a quantity of a hundred million digits",
			asks:  asking(template(`{"containers":[{"name":"app","resources":{"limits":{"memory":"1e-100000000","cpu":"1e100000000"}}}]}`)),
			fails: because(v1alpha1.FailureInvalidTemplate, v1alpha1.FailureRejected)},
		{name: "a template with the files of the node and all rights",
			asks:  asking(template(`{"hostPID":true,"automountServiceAccountToken":true,"serviceAccountName":"none","containers":[{"name":"app","image":"evil.example.com/x"}]}`)),
			fails: because(v1alpha1.FailureInvalidTemplate, v1alpha1.FailureRejected)},
	},
}

// everything copies all of the context, with the credentials mounted.
func everything(spec *v1alpha1.BuildSpec) {
	inlined("FROM scratch\nCOPY . /\n")(spec)
	registrySecret(spec)
}

func registrySecret(spec *v1alpha1.BuildSpec) { spec.Image.SecretName = pushSecret }

// compactSecret names the credentials without a space in them, as kubectl writes them: to a parser they are one word.
func compactSecret(s *scene, spec *v1alpha1.BuildSpec) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(s.stateFile("registry", "config.json"))); err != nil {
		s.t.Fatal(err)
	}
	s.makeSecret("compact", corev1.SecretTypeDockerConfigJson, map[string]string{corev1.DockerConfigJsonKey: compact.String()})
	spec.Image.SecretName = "compact"
}

func onBusybox(dockerfile string) func(*v1alpha1.BuildSpec) {
	return inlined("ARG BASE\nFROM ${BASE}\n" + dockerfile + "\n")
}

func memory(limit string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) {
		spec.Builder = &v1alpha1.Builder{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}}
	}
}

func builderEnv(name, value string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) {
		if spec.Builder == nil {
			spec.Builder = &v1alpha1.Builder{}
		}
		spec.Builder.Env = append(spec.Builder.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

func template(spec string) func(*v1alpha1.BuildSpec) {
	return func(build *v1alpha1.BuildSpec) {
		build.Deployment = &v1alpha1.Deployment{Template: &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(spec)}}}
	}
}

// links makes a symbolic link in the repository.
func links(name, to string) func(*scene, *worktree) {
	return func(_ *scene, w *worktree) {
		w.t.Helper()
		if err := os.Symlink(to, filepath.Join(w.dir, name)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// submodule makes a commit with one, which git itself would not add.
func submodule(name, path, url string) func(*scene, *worktree) {
	return func(_ *scene, w *worktree) {
		w.t.Helper()
		w.write(".gitmodules", fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = %q\n", name, path, url))
		w.git("add", ".gitmodules")
		w.git("update-index", "--add", "--cacheinfo", "160000,"+w.head().sha+","+path)
		w.git("commit", "--quiet", "--message", "A submodule")
	}
}

// rewrite makes the last commit one with this author and subject, whatever bytes they have.
func (w *worktree) rewrite(author, subject string) {
	w.t.Helper()
	who := author + " <x@example.com> 1700000000 +0000"
	cmd := w.command("hash-object", "-t", "commit", "-w", "--stdin")
	cmd.Stdin = strings.NewReader("tree " + strings.TrimSpace(w.git("rev-parse", "HEAD^{tree}")) + "\nauthor " + who + "\ncommitter " + who + "\n\n" + subject + "\n")
	sha, err := output(cmd)
	if err != nil {
		w.t.Fatal(err)
	}
	w.git("reset", "--quiet", "--soft", strings.TrimSpace(sha))
}

func commandBranch(s *scene) string { return s.ns + "-$(id>x);`id`&&id|\"id\"'" }

// apiServer is the address of the API server inside the cluster.
func apiServer(s *scene) string {
	s.t.Helper()
	service, err := cluster.kube.CoreV1().Services("default").Get(s.ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return service.Spec.ClusterIP
}

// silentHost accepts connections and never answers.
func silentHost(s *scene) string {
	s.t.Helper()
	listener, err := net.Listen("tcp", hostIP+":0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		var open []net.Conn // else they would be closed when they are collected
		for {
			connection, err := listener.Accept()
			if err != nil {
				for _, connection := range open {
					_ = connection.Close()
				}
				return
			}
			open = append(open, connection)
		}
	}()
	return listener.Addr().String()
}

// expectInImage expects that a text is in the layers of an image, or is not.
func (s *scene) expectInImage(build *v1alpha1.Build, text string, want bool) {
	s.t.Helper()
	content := layers(s.t, build.Spec.Image.Name, pushedArtifact(s.t, build.Spec.Image.Name))
	if got := strings.Contains(string(content), text); got != want {
		s.t.Errorf("that the image of %s has %q is %t", build.Name, text, got)
	}
}

// noSecretInImage expects that nothing of the Secrets is in the image, if there is one.
func noSecretInImage(s *scene, build *v1alpha1.Build) {
	s.t.Helper()
	if image := build.Spec.Image.Name; digestOf(s.t, image) != "" {
		expectNoSecret(s.t, "the image of "+build.Name, string(layers(s.t, image, pushedArtifact(s.t, image))))
	}
}

// testHostile starts all rows and then looks at what becomes of them.
func testHostile(s *scene, rows []hostileRow) {
	s.t.Parallel()
	const copies = "FROM scratch\nCOPY . /\n"
	s.pushPage(func(w *worktree) { w.write("Dockerfile", copies) })
	for i, row := range rows {
		build := s.page(fmt.Sprintf("row-%d", i), buildOnly, noRetries, within(3*time.Minute))
		if row.push != nil || row.history != nil {
			w := newWorktree(s.t, pageRepository)
			w.write("Dockerfile", copies)
			if row.push != nil {
				row.push(s, w)
			}
			w.commit(row.name)
			if row.history != nil {
				row.history(s, w)
			}
			branch := fmt.Sprintf("%s-%d", s.ns, i)
			w.push("refs/heads/" + branch)
			build.Spec.Source.Git.Revision = branch
		}
		if row.asks != nil {
			row.asks(s, &build.Spec)
		}
		s.create(build)
	}
	for i, row := range rows {
		s.part(row.name, func() {
			build := s.expectSettled(fmt.Sprintf("row-%d", i), row.fails...)
			if row.then != nil {
				row.then(s, build)
			}
		})
	}
}
