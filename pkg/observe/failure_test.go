package observe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// failureFixture is a failure as a real cluster showed it.
type failureFixture struct {
	Job         *batchv1.Job
	Pods        []*corev1.Pod
	PendingPods []*corev1.Pod // as they were while they waited
	Events      []*corev1.Event
	Logs        map[string]string
}

func readFixture(t *testing.T, name string) failureFixture {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "failures", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f failureFixture
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// ended is the evidence once the Job is over.
func (f failureFixture) ended() Evidence {
	e := Evidence{Job: f.Job, Pods: f.Pods, Events: f.Events, Build: buildOf(f)}
	if _, container, ok := FailedContainer(f.Pods); ok {
		e.Log = f.Logs[container]
	}
	return e
}

// waiting is the evidence while the pod, if there is one, was pending.
func (f failureFixture) waiting() Evidence {
	job := f.Job.DeepCopy()
	job.Status = batchv1.JobStatus{}
	return Evidence{Job: job, Pods: f.PendingPods, Events: f.Events, Build: buildOf(f)}
}

// buildOf is the Build that such a Job would come from.
func buildOf(f failureFixture) *v1alpha1.Build {
	b := &v1alpha1.Build{}
	spec := f.Job.Spec.Template.Spec
	for _, arg := range spec.InitContainers[0].Args {
		if v, ok := strings.CutPrefix(arg, "--repo="); ok {
			b.Spec.Source.Git.URL = v
		}
		if v, ok := strings.CutPrefix(arg, "--ref="); ok {
			b.Spec.Source.Git.Revision = v
		}
	}
	for _, arg := range spec.Containers[0].Args {
		if v, ok := strings.CutPrefix(arg, "--context=dir:///workspace/"); ok {
			b.Spec.Source.ContextDir = v
		}
		if v, ok := strings.CutPrefix(arg, "--destination="); ok {
			b.Spec.Image.Name = v
		}
		if v, ok := strings.CutPrefix(arg, "--target="); ok {
			b.Spec.Dockerfile = &v1alpha1.Dockerfile{Target: v}
		}
	}
	for _, v := range spec.Volumes {
		switch {
		case v.Name == gitVolume:
			b.Spec.Source.Git.SecretName = v.Secret.SecretName
		case v.Name == pushVolume:
			b.Spec.Image.SecretName = v.Secret.SecretName
		}
	}
	return b
}

// want is what a user should read.
type want struct {
	step     v1alpha1.Step
	reason   v1alpha1.FailureReason
	exitCode int32 // 0: no container failed
	message  []string
	logTail  []string
}

func (w want) check(t *testing.T, got *v1alpha1.Failure) {
	t.Helper()
	if w.reason == "" {
		if got != nil {
			t.Fatalf("got %s/%s %q, want nothing", got.Step, got.Reason, got.Message)
		}
		return
	}
	if got == nil {
		t.Fatalf("got nothing, want %s/%s", w.step, w.reason)
	}
	if got.Step != w.step || got.Reason != w.reason {
		t.Errorf("got %s/%s, want %s/%s\n%s\n%s", got.Step, got.Reason, w.step, w.reason, got.Message, got.LogTail)
	}
	switch {
	case got.ExitCode == nil && w.exitCode != 0:
		t.Errorf("no exit code, want %d", w.exitCode)
	case got.ExitCode != nil && *got.ExitCode != w.exitCode:
		t.Errorf("exit code %d, want %d", *got.ExitCode, w.exitCode)
	}
	for _, m := range w.message {
		if !strings.Contains(got.Message, m) {
			t.Errorf("the message lacks %q: %s", m, got.Message)
		}
	}
	for _, l := range w.logTail {
		if !strings.Contains(got.LogTail, l) {
			t.Errorf("the log tail lacks %q:\n%s", l, got.LogTail)
		}
	}
	if len(w.logTail) == 0 && got.LogTail != "" {
		t.Errorf("unexpected log tail:\n%s", got.LogTail)
	}
	wellFormed(t, got)
}

// wellFormed checks what holds for every failure.
func wellFormed(t *testing.T, f *v1alpha1.Failure) {
	t.Helper()
	if f == nil {
		return
	}
	if f.Step == "" || f.Reason == "" || f.Message == "" {
		t.Errorf("incomplete: %+v", f)
	}
	if n := utf8.RuneCountInString(f.Message); n > maxMessage || strings.ContainsAny(f.Message, "\n\t\x1b") || !utf8.ValidString(f.Message) {
		t.Errorf("bad message of %d characters: %q", n, f.Message)
	}
	if len(f.LogTail) > maxTail || !utf8.ValidString(f.LogTail) {
		t.Errorf("bad log tail of %d bytes: %q", len(f.LogTail), f.LogTail)
	}
	for _, noise := range []string{"\x1b", "\r", "--cache-repo", "executor [flags]", `"caller":`, "stderr:", `\n`} {
		if strings.Contains(f.LogTail, noise) {
			t.Errorf("the log tail has %q in it:\n%s", noise, f.LogTail)
		}
	}
	for _, line := range strings.Split(f.LogTail, "\n") {
		if line != strings.TrimRight(line, " \t") || utf8.RuneCountInString(line) > maxTailLine {
			t.Errorf("bad line in the log tail: %q", line)
		}
	}
}

const annotation = "a new value of the annotation buildcontroller.dev/rebuild starts a new run."

func TestFailedRunsOfARealCluster(t *testing.T) {
	const source, build, push, schedule = v1alpha1.StepSource, v1alpha1.StepBuild, v1alpha1.StepPush, v1alpha1.StepSchedule
	for sentence, c := range map[string]struct {
		fixture string
		want    want
	}{
		"a base image that is not there is named": {"build-base-image-missing", want{build, v1alpha1.FailureBaseImageNotFound, 1,
			[]string{"198.18.0.1:5000/nosuch:9 does not exist", annotation}, []string{"MANIFEST_UNKNOWN"}}},
		// kaniko says the same of a missing directory and a missing Dockerfile, so the message names both fields.
		"a context directory that is not there has no Dockerfile": {"build-context-missing", want{build, v1alpha1.FailureDockerfileNotFound, 1,
			[]string{`"nodir/Dockerfile"`, "spec.source.contextDir"}, []string{"Error: error resolving dockerfile path"}}},
		"a run that only took too long has no other reason": {"build-deadline", want{build, v1alpha1.FailureDeadlineExceeded, 0,
			[]string{"timeout of 12s", "raise spec.timeout", annotation}, nil}},
		"a Dockerfile that is not there is looked for at a path": {"build-dockerfile-missing", want{build, v1alpha1.FailureDockerfileNotFound, 1,
			[]string{`"Dockerfile"`, "spec.dockerfile.path"}, []string{"Error: error resolving dockerfile path"}}},
		"a Dockerfile with a typo is shown with its line": {"build-dockerfile-syntax", want{build, v1alpha1.FailureDockerfileInvalid, 1,
			[]string{"line 2: unknown instruction: RUNN", annotation}, []string{"did you mean RUN?"}}},
		"a build that ran out of memory is told its limit": {"build-oom", want{build, v1alpha1.FailureOutOfMemory, 255,
			[]string{"limit of 96Mi", "raise spec.builder.resources.limits.memory, which starts a new run"}, []string{"signal: killed"}}},
		"a command that failed is shown with its exit code": {"build-run-fails", want{build, v1alpha1.FailureBuildCommandFailed, 3,
			[]string{`"echo compiling; echo 'main.c:3: error: expected ;' >&2; exit 3"`, "exit code 3"}, []string{"\nmain.c:3: error: expected ;\n"}}},
		"a stage that is not there is named": {"build-target-missing", want{build, v1alpha1.FailureTargetNotFound, 1,
			[]string{`no stage "two"`, "spec.dockerfile.target"}, []string{"two is not a valid target build stage"}}},
		"an evicted pod whose successor runs is no failure": {"pod-evicted", want{}},
		// The quota's Events are on the Job, and no pod was ever made.
		"a run that never got a pod says why": {"pod-quota-exceeded", want{schedule, v1alpha1.FailureQuotaExceeded, 0,
			[]string{"exceeded quota: q", "goes on by itself"}, nil}},
		"a registry that refuses connections is unreachable when pushing": {"push-connection-refused", want{push, v1alpha1.FailureRegistryUnreachable, 1,
			[]string{"198.18.0.1:5999", "connection refused", annotation}, []string{"connect: connection refused"}}},
		"a push without credentials is denied": {"push-unauthorized", want{push, v1alpha1.FailureRegistryDenied, 1,
			[]string{"198.18.0.1:5001/faults:1", "spec.image.secretName, which starts a new run"}, []string{"UNAUTHORIZED: authentication required"}}},
		"a git server that refuses connections is unreachable": {"source-connection-refused", want{source, v1alpha1.FailureHostUnreachable, 1,
			[]string{"[198.18.0.1]:2223", "Connection refused", annotation}, []string{"ssh: connect to host 198.18.0.1 port 2223: Connection refused"}}},
		"a git server without a name is not found": {"source-dns", want{source, v1alpha1.FailureHostNotFound, 1,
			[]string{"no-such-host.invalid", "spec.source.git.url"}, []string{"Could not resolve hostname no-such-host.invalid"}}},
		"a key that ssh cannot read is invalid": {"source-key-no-newline", want{source, v1alpha1.FailureInvalidSSHKey, 1,
			[]string{`Secret "keynonl"`, "no private key that OpenSSH knows", annotation}, []string{`Load key "/etc/git-secret/ssh": error in libcrypto`}}},
		// ssh does not say that it could not unlock the key.
		"a key with a passphrase is not accepted": {"source-key-passphrase", want{source, v1alpha1.FailureAuthenticationFailed, 1,
			[]string{"passphrase", annotation}, []string{"Permission denied (publickey"}}},
		"a Secret without known_hosts leaves the host unknown": {"source-no-known-hosts", want{source, v1alpha1.FailureHostKeyVerificationFailed, 1,
			[]string{`Secret "noknown"`, "known_hosts", `"ssh-keyscan -p 2222 198.18.0.1"`, annotation}, []string{"No ED25519 host key is known"}}},
		"a repository that is not there is named": {"source-repo-missing", want{source, v1alpha1.FailureRepositoryNotFound, 1,
			[]string{"ssh://git@198.18.0.1:2222/srv/git/none", "spec.source.git.url", annotation}, []string{"does not appear to be a git repository"}}},
		"a branch that is not there is named": {"source-revision-missing", want{source, v1alpha1.FailureRevisionNotFound, 1,
			[]string{`"nosuchbranch"`, "spec.source.git.revision"}, []string{"couldn't find remote ref nosuchbranch"}}},
		"a host with another key than in known_hosts is not trusted": {"source-unknown-host", want{source, v1alpha1.FailureHostKeyVerificationFailed, 1,
			[]string{`Secret "unknownhost"`, "ssh-keyscan"}, []string{"Host key verification failed."}}},
		"a key that the server does not know is not accepted": {"source-wrong-key", want{source, v1alpha1.FailureAuthenticationFailed, 1,
			[]string{"[198.18.0.1]:2222", "public key", annotation}, []string{"git@198.18.0.1: Permission denied"}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := readFixture(t, c.fixture)
			c.want.check(t, Failure(f.ended()))
		})
	}
}

func TestWaitingRunsOfARealCluster(t *testing.T) {
	for sentence, c := range map[string]struct {
		fixture string
		change  func(*corev1.Pod)
		want    want
	}{
		"a missing git Secret is named": {"source-secret-missing", nil, want{step: v1alpha1.StepSource, reason: v1alpha1.FailureSecretNotFound,
			message: []string{`Secret "nosecret" does not exist in this namespace; create it with the keys ssh (or ssh-privatekey) and known_hosts and the build goes on by itself.`}}},
		"a registry Secret without its key is named": {"push-secret-wrong-key", nil, want{step: v1alpha1.StepPush, reason: v1alpha1.FailureSecretKeyNotFound,
			message: []string{`Secret "regwrong" has no key .dockerconfigjson`, "goes on by itself"}}},
		"a pod that fits no node waits": {"pod-unschedulable", nil, want{step: v1alpha1.StepSchedule, reason: v1alpha1.FailureUnschedulable,
			message: []string{"didn't match Pod's node affinity/selector", "goes on by itself"}}},
		"a builder image that cannot be pulled is named": {"pod-image-pull", func(pod *corev1.Pod) {
			// The fixture was taken a moment before; this is the state that followed.
			pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: `Back-off pulling image "198.18.0.1:5000/kaniko-none:1": ErrImagePull: rpc error: code = NotFound desc = failed to resolve image`}
		}, want{step: v1alpha1.StepSchedule, reason: v1alpha1.FailureImagePullFailed,
			message: []string{"198.18.0.1:5000/kaniko-none:1 of the container kaniko (rpc error: code = NotFound", "goes on by itself"}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := readFixture(t, c.fixture)
			if c.change != nil {
				c.change(f.PendingPods[0])
			}
			waiting := Failure(f.waiting())
			c.want.check(t, waiting)

			t.Run("and is remembered when the pod and then the Job end", func(t *testing.T) {
				gone := f.waiting()
				gone.Pods, gone.Before = nil, waiting
				c.want.check(t, Failure(gone))

				e := f.ended()
				e.Pods, e.Before = nil, waiting
				c.want.check(t, Failure(e))
			})
			t.Run("and is told even when nobody looked before the deadline", func(t *testing.T) {
				e := f.ended()
				e.Pods = f.PendingPods
				c.want.check(t, Failure(e))
			})
		})
	}
}

func TestFailureWaitsForTheJobToEnd(t *testing.T) {
	e := readFixture(t, "build-run-fails").ended()
	e.Job = e.Job.DeepCopy()
	e.Job.Status.Conditions = e.Job.Status.Conditions[:1] // FailureTarget alone
	want{}.check(t, Failure(e))

	e.Job.Status.Conditions[0].Type = batchv1.JobComplete
	want{}.check(t, Failure(e))
}

func TestFailureSurvivesEmptyEvidence(t *testing.T) {
	want{}.check(t, Failure(Evidence{}))
	failed := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}}
	for _, e := range []Evidence{
		{Job: &batchv1.Job{}, Pods: []*corev1.Pod{nil}, Events: []*corev1.Event{nil}},
		{Job: &batchv1.Job{}, Pods: []*corev1.Pod{{}}, Events: []*corev1.Event{{Reason: "FailedMount"}, {Reason: "FailedCreate"}}},
		{Job: failed},
		{Job: failed, Pods: []*corev1.Pod{nil, {}}},
		{Job: failed, Pods: []*corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: make([]corev1.ContainerStatus, 2)}}}},
	} {
		wellFormed(t, Failure(e))
	}
	if _, _, ok := FailedContainer([]*corev1.Pod{nil, {}}); ok {
		t.Error("no container failed")
	}
}

func TestWithoutALogTheTerminationMessageHasToDo(t *testing.T) {
	for fixture, c := range map[string]struct {
		reason v1alpha1.FailureReason
		tail   string
	}{
		"source-wrong-key": {v1alpha1.FailureAuthenticationFailed, "Permission denied (publickey"},
		"build-run-fails":  {v1alpha1.FailureBuildCommandFailed, "main.c:3: error"},
		// The kubelet keeps 2 KiB, which the usage text fills.
		"build-dockerfile-missing": {v1alpha1.FailureDockerfileNotFound, ""},
	} {
		t.Run(fixture, func(t *testing.T) {
			e := readFixture(t, fixture).ended()
			e.Log = ""
			f := Failure(e)
			wellFormed(t, f)
			if f.Reason != c.reason || !strings.Contains(f.LogTail, c.tail) {
				t.Errorf("got %s:\n%s", f.Reason, f.LogTail)
			}
		})
	}
	t.Run("unless it is the digest that kaniko wrote before it pushed", func(t *testing.T) {
		e := readFixture(t, "push-unauthorized").ended()
		e.Log = ""
		e.Pods[0].Status.ContainerStatuses[0].State.Terminated.Message = "sha256:" + strings.Repeat("0a", 32)
		want{step: v1alpha1.StepPush, reason: v1alpha1.FailurePushFailed, exitCode: 1, message: []string{"exit code 1"}}.check(t, Failure(e))
	})
}

func TestFailedContainerIsTheOneThatTellsWhy(t *testing.T) {
	exit := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	pod := func(name string, age time.Duration, init, main []corev1.ContainerStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
		p.Spec.Containers = []corev1.Container{{Name: "executor"}, {Name: "a-sidecar"}}
		p.Status.InitContainerStatuses, p.Status.ContainerStatuses = init, main
		return p
	}
	type list = []corev1.ContainerStatus
	for sentence, c := range map[string]struct {
		pods           []*corev1.Pod
		pod, container string
	}{
		"an init container goes first": {[]*corev1.Pod{pod("a", 0, list{exit("git-sync", 1)}, list{exit("executor", 2)})}, "a", "git-sync"},
		"the builder goes before a sidecar": {[]*corev1.Pod{pod("a", 0, list{exit("git-sync", 0)},
			list{exit("a-sidecar", 143), exit("executor", 1)})}, "a", "executor"},
		"a sidecar is better than nothing": {[]*corev1.Pod{pod("a", 0, nil, list{exit("a-sidecar", 1), exit("executor", 0)})}, "a", "a-sidecar"},
		"only the newest pod counts": {[]*corev1.Pod{pod("b", 0, nil, list{exit("executor", 0)}),
			pod("a", time.Minute, nil, list{exit("executor", 1)})}, "", ""},
		"of two of the same age the later name counts": {[]*corev1.Pod{pod("a", 0, nil, nil), pod("b", 0, nil, list{exit("executor", 1)})}, "b", "executor"},
	} {
		t.Run(sentence, func(t *testing.T) {
			pod, container, ok := FailedContainer(c.pods)
			if pod != c.pod || container != c.container || ok != (c.pod != "") {
				t.Errorf("got %q %q %v", pod, container, ok)
			}
		})
	}
}
