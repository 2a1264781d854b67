package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// builderRun is a builder's container that failed on a real node: its exit code, its reason, then its log.
type builderRun struct {
	code        int32
	reason, log string
}

func readBuilderRun(t *testing.T, file string) builderRun {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var run builderRun
	if _, err := fmt.Sscanf(string(raw), "exit %d\nreason %s\n", &run.code, &run.reason); err != nil {
		t.Fatal(err)
	}
	run.log = strings.SplitN(string(raw), "\n", 3)[2]
	return run
}

// failureIn is what becomes of such a run; message is that of the termination.
func (run builderRun) failureIn(container, message string, b *v1alpha1.Build) *v1alpha1.Failure {
	pod := buildingPod(run.code, run.reason)
	pod.Spec.Containers[0].Name, pod.Status.ContainerStatuses[0].Name = container, container
	pod.Status.ContainerStatuses[0].State.Terminated.Message = message
	return Failure(Evidence{Job: failedJob(batchv1.JobReasonBackoffLimitExceeded), Pods: []*corev1.Pod{pod}, Log: run.log, Build: b})
}

// asTermination is what the kubelet makes of a log for the termination message.
func asTermination(log string) string {
	lines := strings.SplitAfter(log, "\n")
	log = strings.Join(lines[max(0, len(lines)-81):], "")
	return log[max(0, len(log)-2048):]
}

// wanted has for each run what is to be said of it, with BuildKit as with Buildah.
var wanted = map[string]struct {
	fixture string
	step    v1alpha1.Step
	reason  v1alpha1.FailureReason
	message string
	logTail string // what the user has to see; of Buildah's if they differ
}{
	"a command that failed is shown with its exit code":        {"run-fails", "Build", v1alpha1.FailureBuildCommandFailed, `The command "echo line one; echo error: it does not compile >&2; for i in 1 2 3 4 5; do echo out $i; done; exit 3" of the Dockerfile failed with exit code 3;`, "error: it does not compile"},
	"a command that is not there is shown with its exit code":  {"run-not-found", "Build", v1alpha1.FailureBuildCommandFailed, `The command "nosuchcommand" of the Dockerfile failed with exit code 127;`, "/bin/sh: nosuchcommand: not found"},
	"a Dockerfile that is not there is looked for at a path":   {"dockerfile-missing", "Build", v1alpha1.FailureDockerfileNotFound, `"sub/Nofile"; correct spec.dockerfile.path or spec.source.contextDir, which starts a new run, or add the file, then`, "Nofile: no such file"},
	"a context directory that is not there is named":           {"context-missing", "Build", v1alpha1.FailureContextNotFound, `no directory "sub" to build; correct spec.source.contextDir`, "no such file or directory"},
	"a Dockerfile with a typo is shown with it":                {"dockerfile-syntax", "Build", v1alpha1.FailureDockerfileInvalid, `nknown instruction: `, "RUNN"},
	"an empty Dockerfile is invalid":                           {"dockerfile-empty", "Build", v1alpha1.FailureDockerfileInvalid, `The Dockerfile "sub/Nofile" cannot be read (`, "rror: "},
	"a stage that is not there is named":                       {"target-missing", "Build", v1alpha1.FailureTargetNotFound, `no stage "nostage"; correct spec.dockerfile.target`, `"nostage"`},
	"a base image whose repository is not there is named":      {"base-image-missing", "Build", v1alpha1.FailureBaseImageNotFound, "The base image 198.18.0.1:5000/library/nosuch:1 does not exist; correct FROM", "library/nosuch:1"},
	"a base image whose tag is not there is named":             {"base-image-tag-missing", "Build", v1alpha1.FailureBaseImageNotFound, "The base image 198.18.0.1:5000/library/busybox:nosuch does not exist", "busybox:nosuch"},
	"a base image that may not be pulled is named":             {"base-image-unauthorized", "Build", v1alpha1.FailureRegistryDenied, `The base image 198.18.0.1:5001/library/app:1 may not be pulled, or does not exist`, "nauthorized"},
	"a base image's registry without a name is unreachable":    {"base-image-host-unknown", "Build", v1alpha1.FailureRegistryUnreachable, "The registry of the base image registry.example.com/library/app:1 cannot be reached", "no such host"},
	"a base image whose name is none is shown":                 {"base-image-bad-name", "Build", v1alpha1.FailureDockerfileInvalid, "The base image Not/A/Name::x has an invalid name", "invalid reference format"},
	"a base image's registry without trust is told":            {"tls-unknown-authority-pull", "Build", v1alpha1.FailureTLSVerificationFailed, "The certificate of the registry of the base image 198.18.0.1:5002/trial/base:1 is not trusted", "x509: certificate signed by unknown authority"},
	"a base image's registry that speaks plain http is told":   {"plain-http-pull", "Build", v1alpha1.FailureTLSVerificationFailed, "The registry of the base image 198.18.0.1:5000/library/busybox:1 speaks plain http and not https; if that is meant, set spec.image.insecure", "HTTP response to HTTPS client"},
	"a copy of a file that is not there is named":              {"copy-missing", "Build", v1alpha1.FailureBuildFailed, "copies a file that is not there (/nosuchfile); correct it or add the file", `"/nosuchfile"`},
	"a secret that is wanted and not given is named":           {"secret-missing", "Build", v1alpha1.FailureBuildFailed, `The Dockerfile wants the secret "x" and the build has none of that id; add it to spec.builder.secrets, which starts a new run.`, "RUN --mount=type=secret,id=x"},
	"a secret whose file is not there is named":                {"secret-file-missing", "Build", v1alpha1.FailureBuildFailed, `The Dockerfile wants the secret "token" and the build has none of that id; add it to spec.builder.secrets`, "/nosuch/token"},
	"a flag that the builder does not know is the user's":      {"unknown-flag", "Build", v1alpha1.FailureBuildFailed, "correct spec.builder.args, which starts a new run.", ""},
	"a builder that was killed is told its limit":              {"oom", "Build", v1alpha1.FailureOutOfMemory, "raise spec.builder.resources.limits.memory, which starts a new run.", "before"},
	"a command that was killed is told the limit":              {"oom-256Mi", "Build", v1alpha1.FailureOutOfMemory, "raise spec.builder.resources.limits.memory, which starts a new run.", "tail /dev/zero"},
	"a container that may not escalate cannot do without":      {"no-privilege-escalation", "Build", v1alpha1.FailureBuildFailed, "cannot set up a user namespace (", "peration not permitted"},
	"a container without capabilities cannot do without":       {"no-capabilities", "Build", v1alpha1.FailureBuildFailed, "set spec.builder.name to Kaniko, which starts a new run, or see that the nodes allow user namespaces and that the pod security level of the namespace is privileged, then", "peration not permitted"},
	"a seccomp profile that forbids user namespaces is quoted": {"seccomp-default", "Build", v1alpha1.FailureBuildFailed, "peration not permitted), which BuildKit and Buildah need", "peration not permitted"},
	"a push with the wrong credentials is denied":              {"push-unauthorized", "Push", v1alpha1.FailureRegistryDenied, `The registry 198.18.0.1:5001 does not let Secret "regcred" push 198.18.0.1:5001/trial/x:1;`, "nauthorized"},
	"a registry that refuses connections is unreachable":       {"push-connection-refused", "Push", v1alpha1.FailureRegistryUnreachable, "The registry 198.18.0.1:5999 cannot be reached or failed itself (connection refused); correct spec.image.name", "connect: connection refused"},
	"a registry without a name is unreachable":                 {"push-host-unknown", "Push", v1alpha1.FailureRegistryUnreachable, "The registry registry.example.com cannot be reached or failed itself (no such host)", "no such host"},
	"a registry without trust is told":                         {"tls-unknown-authority-push", "Push", v1alpha1.FailureTLSVerificationFailed, "The certificate of the registry 198.18.0.1:5002 is not trusted", "x509: certificate signed by unknown authority"},
	"a registry that speaks plain http is told":                {"plain-http-push", "Push", v1alpha1.FailureTLSVerificationFailed, "The registry 198.18.0.1:5000 speaks plain http and not https", "HTTP response to HTTPS client"},
}

func TestFailedBuildersOfARealNode(t *testing.T) {
	b := &v1alpha1.Build{}
	b.Spec.Image = v1alpha1.Image{Name: "r.example.com/shop:1", SecretName: "regcred"}
	b.Spec.Source.ContextDir = "sub"
	b.Spec.Dockerfile = &v1alpha1.Dockerfile{Path: "Nofile"}
	for _, container := range []string{"buildkit", "buildah"} {
		left, err := filepath.Glob(filepath.Join("testdata", "builders", container, "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for sentence, c := range wanted {
			file := filepath.Join("testdata", "builders", container, c.fixture+".txt")
			left = slices.DeleteFunc(left, func(name string) bool { return name == file })
			t.Run(container+": "+sentence, func(t *testing.T) {
				run := readBuilderRun(t, file)
				w := want{c.step, c.reason, run.code, []string{c.message, "starts a new run."}, []string{c.logTail}}
				w.check(t, run.failureIn(container, asTermination(run.log), b))

				t.Run("and by the termination message alone", func(t *testing.T) {
					message := asTermination(run.log)
					run.log = ""
					if c.fixture == "unknown-flag" && container == "buildkit" {
						w.logTail = nil // the usage text fills it
					}
					w.check(t, run.failureIn(container, message, b))
				})
			})
		}
		if len(left) > 0 {
			t.Errorf("no test reads %v", left)
		}
	}
}

const (
	buildKitRunHead = "#5 [2/2] RUN make\n"
	buildKitFailed  = "error: failed to solve: process \"/bin/sh -c make\" did not complete successfully: exit code: 2"
	buildahRunHead  = "STEP 2/2: RUN make\n"
	buildahFailed   = "subprocess exited with status 2\nsubprocess exited with status 2\nError: building at STEP \"RUN make\": exit status 2"
)

func TestWordsOfBuildKitAndBuildah(t *testing.T) {
	const build, push = v1alpha1.StepBuild, v1alpha1.StepPush
	const made = "STEP 1/1: FROM scratch\nCOMMIT localhost/image\nSuccessfully tagged localhost/image:latest\n0a0a\n"
	for sentence, c := range map[string]struct {
		container, log string
		step           v1alpha1.Step
		reason         v1alpha1.FailureReason
		message        string
	}{
		"what a command printed under BuildKit is not its error": {"buildkit", buildKitRunHead + "#5 0.1 error: failed to solve: failed to push x: 401 Unauthorized\n#5 0.2 x509: manifest unknown: connection refused\n" + buildKitFailed,
			build, v1alpha1.FailureBuildCommandFailed, `"make" of the Dockerfile failed with exit code 2`},
		"what a command printed under Buildah is not its error": {"buildah", buildahRunHead + "Error: pushing image \"x\" to \"docker://y\": unauthorized\nError: manifest unknown\nx509: connection refused\n" + buildahFailed,
			build, v1alpha1.FailureBuildCommandFailed, `"make" of the Dockerfile failed with exit code 2`},
		"what a command of BuildKit's is made of is not its error": {"buildkit", `error: failed to solve: process "/bin/sh -c echo \"unauthorized\"; echo no space left on device; exit 4" did not complete successfully: exit code: 4`,
			build, v1alpha1.FailureBuildCommandFailed, `"echo "unauthorized"; echo no space left on device; exit 4" of the Dockerfile failed with exit code 4`},
		"what a command of Buildah's is made of is not its error": {"buildah", `Error: building at STEP "RUN echo "unauthorized": secret x: not found; exit 4": while running runtime: exit status 4`,
			build, v1alpha1.FailureBuildCommandFailed, `"echo "unauthorized": secret x: not found; exit 4" of the Dockerfile failed with exit code 4`},
		"a command that builds images itself does not push":      {"buildah", buildahRunHead + "Successfully tagged localhost/x:latest\n" + buildahFailed, build, v1alpha1.FailureBuildCommandFailed, `"make"`},
		"a command of several lines is shown in one":             {"buildah", "Error: building at STEP \"RUN echo a &&\nfalse\": exit status 1", build, v1alpha1.FailureBuildCommandFailed, `"echo a && false" of the Dockerfile failed with exit code 1`},
		"of two platforms the first is told":                     {"buildah", "Error: 2 errors occurred:\n\t* building at STEP \"RUN make\": while running runtime: exit status 2\n\t* building at STEP \"RUN make\": while running runtime: exit status 3", build, v1alpha1.FailureBuildCommandFailed, `"make" of the Dockerfile failed with exit code 2`},
		"a stage of several tells its base image":                {"buildah", "[2/2] STEP 1/2: FROM --platform=linux/arm64 r/a:1 AS b\nError: creating build container: dial tcp: connection refused", build, v1alpha1.FailureRegistryUnreachable, "base image r/a:1 cannot be reached"},
		"a line that comes late hides no error":                  {"buildah", buildahFailed + "\nunauthorized\nlast words", build, v1alpha1.FailureBuildCommandFailed, "exit code 2"},
		"a builder that dies without a word is quoted":           {"buildkit", buildKitRunHead + "#5 0.1 dial tcp: connection refused", build, v1alpha1.FailureBuildFailed, "The builder failed (#5 0.1 dial tcp: connection refused)"},
		"a Buildah that dies without a word is quoted":           {"buildah", buildahRunHead + "Error: connection refused\nKilled", build, v1alpha1.FailureBuildFailed, "The builder failed (Killed)"},
		"a file that may not be written is no registry's matter": {"buildah", "Error: creating build container: mkdir /home/build/.local: permission denied", build, v1alpha1.FailureBuildFailed, "(Error: creating build container: mkdir /home/build/.local: permission denied)"},
		"an error that is new is quoted":                         {"buildah", "Error: something new", build, v1alpha1.FailureBuildFailed, "(Error: something new)"},
		"a daemon that does not start is quoted": {"buildkit", "could not connect to unix:///run/user/1000/buildkit/buildkitd.sock after 10 trials\n========== log ==========\nbuildkitd: failed to load config\nsh: can't kill pid 9: No such process",
			build, v1alpha1.FailureBuildFailed, "(buildkitd: failed to load config)"},
		"a daemon that is gone wants memory": {"buildkit", buildKitRunHead + "error: failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF\nsh: can't kill pid 11: No such process",
			build, v1alpha1.FailureOutOfMemory, "BuildKit's daemon ended in the middle of the build"},
		"a command whose child is killed may want memory": {"buildkit", `error: failed to solve: process "/bin/sh -c make" did not complete successfully: exit code: 137`, build, v1alpha1.FailureBuildCommandFailed, "want of memory"},
		"a command that is killed wants memory":           {"buildah", buildahRunHead + "oopssubprocess exited on killed\nsubprocess exited with status 1\nError: building at STEP \"RUN make\": exit status 1", build, v1alpha1.FailureOutOfMemory, `"make" was killed`},
		"a download that fails is no registry's fault":    {"buildkit", `error: failed to solve: failed to load cache key: Get "https://x/y": dial tcp: lookup x: no such host`, build, v1alpha1.FailureBuildFailed, "instruction of the Dockerfile failed"},
		"an ADD that fails is no registry's fault":        {"buildah", `Error: building at STEP "ADD https://x/y /": getting "https://x/y": Get "https://x/y": dial tcp: lookup x: no such host`, build, v1alpha1.FailureBuildFailed, "instruction of the Dockerfile failed"},
		"a flag of an instruction is the Dockerfile's":    {"buildkit", "error: failed to solve: dockerfile parse error on line 2: unknown flag: --nosuch", build, v1alpha1.FailureDockerfileInvalid, "line 2: unknown flag: --nosuch"},
		"a full disk is told":                             {"buildah", "Error: committing container: write /x: no space left on device", build, v1alpha1.FailureBuildFailed, "room"},
		"no room for a user namespace is no full disk":    {"buildah", "Error during unshare(CLONE_NEWUSER): No space left on device", build, v1alpha1.FailureBuildFailed, "Buildah cannot set up a user namespace"},
		"a secret's id in quotes is read":                 {"buildah", `Error: building at STEP "RUN x": resolving mountpoints for container "0a": secret required but no secret with id "npm" found`, build, v1alpha1.FailureBuildFailed, `secret "npm"`},

		"a base image for other platforms is none for BuildKit": {"buildkit", "error: failed to solve: r/arm:1: failed to resolve source metadata for r/arm:1: no match for platform in manifest: not found", build, v1alpha1.FailureBaseImageNotFound, "The base image r/arm:1 does not exist for the platform; correct spec.builder.platforms"},
		"a base image for other platforms is none for Buildah":  {"buildah", `Error: creating build container: choosing an image from manifest list docker://r/arm:1: no image found in image index for architecture "arm64", variant "", OS "linux"`, build, v1alpha1.FailureBaseImageNotFound, "does not exist for the platform"},
		"a platform that is none is told":                       {"buildkit", `error: failed to solve: "nosuch": unknown operating system or architecture: invalid argument`, build, v1alpha1.FailureBuildFailed, "spec.builder.platforms"},
		"a base image of Docker Hub goes by its short name":     {"buildkit", "error: failed to solve: docker.io/library/nosuch:1: failed to resolve source metadata for docker.io/library/nosuch:1: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed", build, v1alpha1.FailureRegistryDenied, "The base image nosuch:1 may not"},
		"a registry that throttles pulls is told":               {"buildah", "Error: creating build container: initializing source docker://alpine:3: reading manifest 3 in docker.io/library/alpine: toomanyrequests: You have reached your unauthenticated pull rate limit", build, v1alpha1.FailureRegistryUnreachable, "no more requests"},
		"a registry that fails when pulling is unreachable":     {"buildkit", "error: failed to solve: r/a:1: failed to resolve source metadata for r/a:1: unexpected status from HEAD request to https://r/v2/a/manifests/1: 503 Service Unavailable", build, v1alpha1.FailureRegistryUnreachable, "503 Service Unavailable"},
		"a registry that is slow when pulling is unreachable":   {"buildah", `Error: creating build container: initializing source docker://r/a:1: pinging container registry r: Get "https://r/v2/": dial tcp 1.2.3.4:443: i/o timeout`, build, v1alpha1.FailureRegistryUnreachable, "i/o timeout"},

		"a registry that fails at the end of a push is unreachable": {"buildkit", "error: failed to solve: failed to push r.example.com/shop:1: unexpected status from PUT request to https://r.example.com/v2/shop/manifests/1: 502 Bad Gateway", push, v1alpha1.FailureRegistryUnreachable, "502 Bad Gateway"},
		"a push to nowhere wants a repository":                      {"buildkit", "error: failed to solve: failed to push r.example.com/shop:1: unexpected status from POST request to https://r.example.com/v2/shop/blobs/uploads/: 404 Not Found", push, v1alpha1.FailurePushFailed, "create the repository"},
		"a push that is forbidden is denied":                        {"buildah", made + `Error: pushing image "localhost/image" to "docker://r.example.com/shop:v2": writing blob: initiating layer upload to /v2/shop/blobs/uploads/ in r.example.com: denied: no`, push, v1alpha1.FailureRegistryDenied, "push r.example.com/shop:v2;"},
		"an error after the build is one of the push":               {"buildah", made + `Error: Get "https://r.example.com/v2/": dial tcp 1.2.3.4:443: connect: connection refused`, push, v1alpha1.FailureRegistryUnreachable, "The registry r.example.com cannot be reached"},
		"a push that fails in a new way is one of the push":         {"buildah", made + `Error: pushing manifest list "localhost/image" to "docker://r.example.com/shop:1": something new`, push, v1alpha1.FailurePushFailed, "something new"},
		"BuildKit's cache has a registry of its own": {"buildkit", "#8 exporting to image\n#8 DONE 1.0s\n#9 exporting cache to registry\n#9 ERROR: error writing layer blob: 401\n------\n > exporting cache to registry:\n------\nerror: failed to solve: error writing layer blob: unexpected status from POST request to https://cache.example.com/v2/c/blobs/uploads/: 401 Unauthorized",
			push, v1alpha1.FailureRegistryDenied, `The registry cache.example.com does not let Secret "regcred" push cache.example.com/c;`},
		"Buildah's cache has a registry of its own": {"buildah", `Error: building at STEP "RUN make": failed pushing cache to "cache.example.com/c": trying to reuse blob: dial tcp: connection refused`,
			push, v1alpha1.FailureRegistryUnreachable, "The registry cache.example.com cannot be reached or failed itself (connection refused); correct spec.builder.cache.repository"},
		"a cache that is only read does not fail a build": {"buildkit", "#3 importing cache manifest from cache.example.com/c\n#3 ERROR: 401 Unauthorized\n" + buildKitRunHead + buildKitFailed, build, v1alpha1.FailureBuildCommandFailed, "exit code 2"},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := &v1alpha1.Build{}
			b.Spec.Image = v1alpha1.Image{Name: "r.example.com/shop:1", SecretName: "regcred"}
			b.Spec.Builder = &v1alpha1.Builder{Cache: &v1alpha1.Cache{Repository: "cache.example.com/c"}}
			got := builderRun{1, "Error", c.log}.failureIn(c.container, "", b)
			want{c.step, c.reason, 1, []string{c.message, "starts a new run."}, []string{c.log[strings.LastIndexByte(c.log, '\n')+1:]}}.check(t, got)
		})
	}
}

func TestTheTailOfBuildKitsLogSaysThingsOnce(t *testing.T) {
	run := readBuilderRun(t, filepath.Join("testdata", "builders", "buildkit", "run-fails.txt"))
	if tail := run.failureIn("buildkit", "", nil).LogTail; strings.Count(tail, "error: it does not compile\n") != 1 {
		t.Errorf("the tail is\n%s", tail)
	}
}
