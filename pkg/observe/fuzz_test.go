package observe

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/distribution/reference"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Inputs that failed once, and those that matter most, are in testdata/fuzz. The fuzz test of whole logs is in logtail_test.go.

// oneSafeLine fails the test unless the text is one line of at most so many characters, and nothing that a terminal obeys.
func oneSafeLine(t *testing.T, what, text string, most int) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || utf8.RuneCountInString(text) > most {
		t.Errorf("%s is %q", what, text)
	}
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Whatever a build writes as its digest, and an annotation of the Job as the name: an image is the name that was asked for and a
// digest that was written, or there is none.
func FuzzDigest(f *testing.F) {
	f.Add(theDigest+"\n", "registry.example.com/shop:1.0")
	f.Add(theDigest, "shop")
	f.Add(theDigest, "localhost:5001/shop@"+theDigest)
	f.Fuzz(func(t *testing.T, message, name string) {
		job, pod := theJob(), succeededPod(message)
		job.Annotations[v1alpha1.ImageAnnotation] = name
		jobBefore, podBefore := job.DeepCopy(), pod.DeepCopy()
		run := Observe(Evidence{Job: job, Pods: []*corev1.Pod{pod}, Build: &v1alpha1.Build{}}, epoch)
		if !reflect.DeepEqual(job, jobBefore) || !reflect.DeepEqual(pod, podBefore) {
			t.Error("the evidence was changed")
		}
		asked, err := reference.ParseNormalizedNamed(name)
		if sum := strings.TrimSpace(message); err != nil || !digestForm.MatchString(sum) {
			if run.Image != "" || run.Result != string(v1alpha1.FailureDigestMissing) {
				t.Errorf("%q of %q gives %s and the image %q", message, name, run.Result, run.Image)
			}
		} else if want := asked.Name() + "@" + sum; run.Image != want || run.Result != v1alpha1.ResultSucceeded {
			t.Errorf("%q of %q gives %s and the image %q, want %q", message, name, run.Result, run.Image, want)
		}
	})
}

// A commit is the whole id that stands in the first line. What its author wrote is one short line that a terminal does not obey.
func FuzzCommit(f *testing.F) {
	f.Add(commitLog)
	f.Add(strings.Repeat("ab", 32) + "\n0000-01-01T00:00:00Z\n\u202eJane\n" + strings.Repeat("é", textLength+1) + "\n")
	f.Add(theCommit + "\nyesterday\n\x1b]0;x\x07\n\xff\xfe\n\n")
	f.Fuzz(func(t *testing.T, message string) {
		pod := runPod(corev1.PodSucceeded, exited("git-sync", 0, message, 10), exited("kaniko", 0, theDigest, 40))
		run := Observe(Evidence{Job: theJob(), Pods: []*corev1.Pod{pod}, Build: &v1alpha1.Build{}}, epoch)
		if run.Commit == "" {
			if run.ShortCommit != "" || run.Committed != nil || run.Author != "" || run.Subject != "" {
				t.Errorf("without a commit there is %+v", run.Run)
			}
			return
		}
		if !fullID.MatchString(run.Commit) || !strings.HasPrefix(message, run.Commit+"\n") || run.ShortCommit != run.Commit[:7] {
			t.Errorf("the commit of %q is %q, in short %q", message, run.Commit, run.ShortCommit)
		}
		for _, text := range []string{run.Author, run.Subject} {
			oneSafeLine(t, "what the author wrote", text, textLength)
			if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Cf, r) }) || text != strings.TrimSpace(text) {
				t.Errorf("what the author wrote is %q", text)
			}
		}
		// A time that is no JSON, like one of the year 10000, could not be written into the status.
		encoded, err := json.Marshal(run.Run)
		if err != nil {
			t.Fatal(err)
		}
		var decoded v1alpha1.Run
		if err := json.Unmarshal(encoded, &decoded); err != nil || decoded.Author != run.Author || !decoded.Committed.Equal(run.Committed) {
			t.Errorf("%s is read as %+v: %v", encoded, decoded, err)
		}
	})
}

// The number of an attempt is the one in the annotation if that is one from 1, else 1, and the next one is due within bounds.
func FuzzAttempt(f *testing.F) {
	for _, n := range []string{"1", "3", "0", "-1", "2147483647", "2147483648", "1e1", " 2", "", "+2", "02"} {
		f.Add(n, int32(2))
	}
	f.Fuzz(func(t *testing.T, annotation string, retries int32) {
		job := theJob(is(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, 45))
		job.Annotations[v1alpha1.AttemptAnnotation] = annotation
		pod := pendingPod()
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
		build := &v1alpha1.Build{}
		build.Spec.Retries = &retries
		run := Observe(Evidence{Job: job, Pods: []*corev1.Pod{pod}, Build: build}, at(50).Time)
		want := int32(1)
		if n, err := strconv.Atoi(annotation); err == nil && n >= 1 && n <= math.MaxInt32 {
			want = int32(n)
		}
		if run.Attempt != want {
			t.Fatalf("%q is the attempt %d, want %d", annotation, run.Attempt, want)
		}
		build.Status.Run = &run.Run
		due, again := Again(build, run.Run)
		if again != (want <= retries) {
			t.Errorf("after attempt %d of 1+%d there is another: %v", want, retries, again)
		}
		if pause := due.Sub(run.CompletionTime.Time); again && (pause < firstPause || pause > longestPause) {
			t.Errorf("the attempt after number %d is made after %s", want, pause)
		}
		if retries > 10 { // which the CRD does not let pass
			return
		}
		if next, _ := NextAttempt(build, run.Hash); again && next != want+1 {
			t.Errorf("after attempt %d comes %d", want, next)
		}
	})
}

// git's own words come out of git-sync's log, which quotes them twice, as they went in.
func FuzzGitSyncLog(f *testing.F) {
	f.Add("fatal: couldn't find remote ref x", "noise")
	f.Add("a \" }\" b \\ stderr: \"c\\n", `{"msg":"x"}`)
	f.Add("\x1b[31mred\x1b[0m\r\nsecond\u2028line", `" }","failCount":1,"maxFailures":0}`)
	f.Fuzz(func(t *testing.T, stderr, noise string) {
		// Each character can become six and more, and what ends like git-sync's own mark is taken for that: nothing is lost by it.
		if len(stderr) > window/8 || strings.HasSuffix(stderr, strings.TrimSuffix(stderrMark, `"`)) {
			return
		}
		o := readGitSync(noise + "\n" + gitSyncLog(stderr))
		if want := clean(strings.ToValidUTF8(stderr, "\uFFFD")); !blank(stderr) && utf8.ValidString(stderr) && o.text != want {
			t.Errorf("got %q, want %q", o.text, want)
		}
		for cut := range min(len(noise), 40) { // a termination message has only the end of a log
			wellFormedTail(t, &v1alpha1.Failure{Reason: "x", Step: "x", LogTail: readGitSync(gitSyncLog(noise)[cut:]).tail()})
		}
	})
}

// What is made of an output is readable and bounded, and of an output that is so already nothing but its last lines.
func FuzzTail(f *testing.F) {
	f.Add("one\n\ntwo  \n", 10)
	f.Add(strings.Repeat("é", maxTailLine+1)+"\n", 3)
	f.Add("a\x1b\x1b[0m[0mb\rc\x9b31m\u061c\n", 1)
	f.Fuzz(func(t *testing.T, log string, n int) {
		text := clean(end(log, window))
		if strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
		}) || !utf8.ValidString(text) || clean(text) != text {
			t.Errorf("%q is cleaned to %q", log, text)
		}
		o := output{text: text}
		tail := o.tail()
		wellFormedTail(t, &v1alpha1.Failure{Reason: "x", Step: "x", LogTail: tail})
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			if !blank(line) {
				lines = append(lines, line)
			}
		}
		kept := strings.Split(tail, "\n")
		if tail == "" {
			kept = nil
		}
		if mask(text) == text && len(text) <= maskWindow/2 {
			for i, line := range kept {
				if want := lines[len(lines)-len(kept)+i]; line != cutMiddle(want, maxTailLine) {
					t.Errorf("line %d is %q, want %q", i, line, want)
				}
			}
			if o.last() != "" && o.last() != cutMiddle(lines[len(lines)-1], maxTailLine) || len(lines) > 0 && tail == "" {
				t.Errorf("the last line of %q is %q", text, o.last())
			}
		}
		n = 1 + int(uint(n)%maxMessage)
		line := Squash(log, n)
		oneSafeLine(t, "what is squashed", line, n)
		if strings.Contains(line, "  ") || line != strings.TrimSpace(line) {
			t.Errorf("%q is squashed to %q", log, line)
		}
		if short := cut(text, n); utf8.RuneCountInString(short) > n || !strings.HasPrefix(text, strings.TrimSuffix(short, "…")) {
			t.Errorf("%q is cut to %q", text, short)
		}
		if short := cutMiddle(text, n); utf8.RuneCountInString(short) > max(n, 1) || !utf8.ValidString(short) {
			t.Errorf("%q is cut in the middle to %q", text, short)
		}
		if part := end(log, n); len(part) > n || !strings.HasSuffix(log, part) {
			t.Errorf("the end of %q is %q", log, part)
		}
	})
}

// credentials are the forms of which tokens are masked, around a token of letters and digits.
var credentials = []func(token string) string{
	func(s string) string { return "https://jane:" + s + "@git.example.com/shop" },
	func(s string) string { return "https://" + s + "@git.example.com/shop" },
	func(s string) string { return "GET https://jane:" + s + "@h/v2/a/manifests/1: UNAUTHORIZED: x" },
	func(s string) string { return "Authorization: Bearer " + s },
	func(s string) string { return "authorization: basic " + s + "==" },
	func(s string) string { return "NPM_TOKEN=" + s },
	func(s string) string { return "DB_PASSWORD=\"" + s + "\"" },
	func(s string) string { return "--build-arg=api_key='" + s + "'" },
	func(s string) string {
		return `{"auths": {"h": {"username": "jane", "password": "` + s + `", "auth": "` + s + `=="}}}`
	},
	func(s string) string { return `unknown instruction: {"auths":{"h":{"auth":"` + s + `"}}}` },
	func(s string) string { return "ghp_" + s },
	func(s string) string { return "github_pat_" + s },
	func(s string) string { return "glpat-" + s },
	func(s string) string { return "dckr_pat_" + s },
	func(s string) string { return "npm_" + s },
	func(s string) string { return "eyJ" + s + "." + s + ".x" },
	func(s string) string { return "-----BEGIN PRIVATE KEY-----\n" + s + "\n-----END PRIVATE KEY-----" },
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9]{20,100}$`)

// Nothing of the status has a credential in it, whatever stands around it in a log, a termination message or an Event.
func FuzzMask(f *testing.F) {
	const token = "0123456789abcdefghijABCDEFGHIJ"
	for form := range credentials {
		f.Add(byte(form), token, "", "")
		f.Add(byte(form), token, "error building image: ", "")
		f.Add(byte(form), token, "error: failed to solve: failed to push ", ": 401 Unauthorized")
		f.Add(byte(form), token, "Error: building at STEP \"RUN x\ny ", "\": exit status 1")
	}
	f.Add(byte(0), token, "fatal: clone of '", "' into submodule path 'x' failed")
	f.Add(byte(0), token, "INFO[0000] Retrieving image manifest ", "\nerror building image: UNAUTHORIZED: x")
	f.Add(byte(5), token, "INFO[0000] Running: [/bin/sh -c ", "]\nerror building image: waiting for process to exit: exit status 1")
	f.Fuzz(func(t *testing.T, form byte, token, before, after string) {
		// Next to a letter it is another word, also once a control character between them is gone.
		hidden := strings.ContainsFunc(before+after, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
		})
		around := regexp.MustCompile(`[\w\\$.+/~-]$`).MatchString(before) || regexp.MustCompile(`^[\w\\$.+/~@-]`).MatchString(after)
		if !tokenForm.MatchString(token) || hidden || around || strings.Contains(before+after, token) || len(before)+len(after) > 4<<10 {
			return
		}
		log := before + credentials[int(form)%len(credentials)](token) + after
		b := &v1alpha1.Build{}
		b.Spec.Image.SecretName, b.Spec.Source.Git.SecretName = "regcred", "creds"
		failures := []*v1alpha1.Failure{sourceFailure(log, b), sourceFailure(gitSyncLog(log), b)}
		for container := range dialects {
			failures = append(failures, builderRun{1, "Error", log}.failureIn(container, "", b), builderRun{1, "Error", ""}.failureIn(container, log, b))
		}
		for _, reason := range []string{"ErrImagePull", "CreateContainerError"} {
			waiting := pendingPod()
			waiting.Status.InitContainerStatuses[0].State = waitsFor(reason, log)
			failures = append(failures, Failure(Evidence{Build: b, Pods: []*corev1.Pod{waiting}}))
		}
		trouble := Trouble{Failure: &v1alpha1.Failure{}}
		trouble.Read(log)
		failures = append(failures, trouble.Failure)
		for _, failure := range failures {
			if failure != nil && (strings.Contains(failure.Message, token) || strings.Contains(failure.LogTail, token)) {
				t.Errorf("%s/%s %q\n%q", failure.Step, failure.Reason, failure.Message, failure.LogTail)
			}
		}
		if line := Squash(log, maxMessage); strings.Contains(line, token) {
			t.Errorf("%q", line)
		}
	})
}

// The window of a very long line may begin between the name of a password and the password.
func TestNoCutPartsAPasswordFromItsName(t *testing.T) {
	const token = "0123456789abcdefghijABCDEFGHIJ"
	for form, written := range credentials {
		line := written(token) + " "
		line += strings.Repeat("y", maskWindow-len(line)+strings.Index(line, token)) // so that the window begins with the token
		if tail := (output{text: line}).tail(); strings.Contains(tail, token) {
			t.Errorf("form %d: %q", form, tail)
		}
	}
}

// What keeps a pod from starting is said in one line, the same in whatever order the Events come, and nothing of the evidence is
// changed. A Secret that is said to be missing is one that an Event names.
func FuzzEvents(f *testing.F) {
	f.Add("MountVolume.SetUp failed for volume \"git\" : secret \"git-creds\" not found", "Error creating: pods \"shop-1-x\" is forbidden: exceeded quota: q", "Pending")
	f.Add("MountVolume.SetUp failed for volume \"push\" : references non-existent secret key: x", "Error creating: violates PodSecurity \"restricted:latest\"", "x")
	f.Add("configmap \"\x1b[31m\" not found", "persistentvolumeclaim \"\xff\" not found", "couldn't find key a in Secret team/b")
	f.Add("object \"team\"/\"x\" not registered", "Operation cannot be fulfilled on resourcequotas", "subPath")
	f.Fuzz(func(t *testing.T, mount, create, said string) {
		pod := pendingPod()
		event := func(name, reason, kind, object, message string) *corev1.Event {
			return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, Reason: reason, Message: message,
				InvolvedObject: corev1.ObjectReference{Kind: kind, Name: object}, LastTimestamp: at(5)}
		}
		job := failedJob("")
		job.Status.Conditions = nil
		events := []*corev1.Event{
			event("a", "FailedMount", "Pod", pod.Name, mount), event("b", "FailedMount", "Pod", pod.Name, said),
			event("c", "FailedCreate", "Job", job.Name, create), nil,
		}
		unschedulable, broken := pendingPod(), pendingPod()
		unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: said}}
		broken.Status.ContainerStatuses[0].State = waitsFor("CreateContainerConfigError", said)
		for _, pods := range [][]*corev1.Pod{nil, {pod}, {unschedulable}, {broken}} {
			e := Evidence{Job: job.DeepCopy(), Pods: pods, Events: events}
			given, _ := json.Marshal(e)
			failure := Failure(e)
			if after, _ := json.Marshal(e); string(given) != string(after) {
				t.Error("the evidence was changed")
			}
			turned := slices.Clone(events)
			slices.Reverse(turned)
			e.Events = turned
			if other := Failure(e); !reflect.DeepEqual(failure, other) {
				t.Errorf("%+v, the other way round %+v", failure, other)
			}
			if failure == nil {
				continue
			}
			wellFormedTail(t, failure)
			oneSafeLine(t, "the message", failure.Message, maxMessage)
			if failure.Reason == v1alpha1.FailureSecretNotFound && !strings.Contains(mount+said, " not found") {
				t.Errorf("%q and %q give %q", mount, said, failure.Message)
			}
		}
	})
}

var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Whatever the pods of a rollout say, the status that comes of it is one that the API server takes, and its Events are single lines.
func FuzzRollout(f *testing.F) {
	f.Add("CrashLoopBackOff", "back-off 10s restarting failed container", "Error", "/healthz", int32(3))
	f.Add("ErrImagePull", "manifest unknown", "OOMKilled", "", int32(0))
	f.Add("", "pods \"x\" is forbidden: exceeded quota: \x1b[31m", "StartError", "/a\nb", int32(-1))
	f.Add("CreateContainerConfigError", "secret \"\xff\" not found", "", "http", int32(2))
	f.Fuzz(func(t *testing.T, reason, said, ended, at string, restarts int32) {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 1}}
		deployment.Spec.Selector = &metav1.LabelSelector{}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: at, Port: intstr.FromString(at)}}}}}
		deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: said}, {Type: appsv1.DeploymentProgressing, Reason: reason}}}
		pod := func(name string, phase corev1.PodPhase, state corev1.ContainerState) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "pod"}, Status: corev1.PodStatus{Phase: phase,
				ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: said, RestartCount: restarts, State: state}}}}
		}
		died := &corev1.ContainerStateTerminated{ExitCode: restarts, Reason: ended, Message: said}
		stuck := pod("c", corev1.PodPending, corev1.ContainerState{})
		stuck.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: said}}
		events := []*corev1.Event{{Reason: "FailedMount", Message: said, InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: "pod"}}}
		build := &v1alpha1.Build{}
		build.Spec.Deployment = &v1alpha1.Deployment{}
		for _, pods := range [][]*corev1.Pod{nil, {stuck},
			{pod("a", corev1.PodPending, waitsFor(reason, said))},
			{pod("b", corev1.PodRunning, corev1.ContainerState{Terminated: died})},
			{pod("d", corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(epoch)}})},
		} {
			given, _ := json.Marshal(pods)
			app := Application{Image: theImage, Deployment: deployment}
			app.Trouble = FindTrouble(build, app, pods, events, epoch.Add(time.Hour))
			if app.Trouble.Failure != nil {
				app.Trouble.Read(said)
				wellFormedTail(t, app.Trouble.Failure)
			}
			if after, _ := json.Marshal(pods); string(given) != string(after) {
				t.Error("the pods were changed")
			}
			was := v1alpha1.BuildStatus{DeployedImage: imageOf("o"), Image: theImage, Run: &v1alpha1.Run{Hash: "hash", Result: v1alpha1.ResultSucceeded}}
			status := Conclude(build, was, "hash", Outcome{App: app}, metav1.NewTime(epoch))
			for _, c := range status.Conditions {
				oneSafeLine(t, "the message of "+c.Type, c.Message, 3*maxMessage)
				if !conditionReason.MatchString(c.Reason) || c.Message == "" {
					t.Errorf("bad condition %+v", c)
				}
			}
			for _, event := range Events(was, status) {
				oneSafeLine(t, "the Event "+event.Reason, event.Message, 3*maxMessage)
			}
		}
	})
}

// Names that messages take from the spec never make one that is too long or of several lines, the server of a URL is a part of
// it, and the registry of a name is the one that a builder takes.
func FuzzNames(f *testing.F) {
	f.Add("git@git.example.com:shop.git", "registry.example.com:5000/shop:1.0", int64(1800))
	f.Add("ssh://git@[2001:db8::1]:2222/a", "localhost/shop", int64(90))
	f.Add("git@[2001:db8::1]:a", "[2001:db8::1]:5000/shop", int64(3600))
	f.Add("https://h\n:\xff/@", "shop@"+theDigest, int64(-1))
	f.Fuzz(func(t *testing.T, url, image string, secs int64) {
		b := &v1alpha1.Build{}
		b.Spec.Source.Git.URL, b.Spec.Source.Git.SecretName, b.Spec.Image.Name = url, "creds", image
		b.Spec.Timeout = &metav1.Duration{Duration: time.Duration(secs)}
		given := b.DeepCopy()
		n := namesOf(b, nil)
		for _, text := range []string{n.server(), n.keyscan(), n.repository(), n.credentials(), n.ofTimeout()} {
			oneSafeLine(t, "a name", text, 400)
		}
		if plainURL.MatchString(url) && (n.host == "" || !strings.Contains(url, n.host) || strings.ContainsAny(n.host, "/@ ")) {
			t.Errorf("the host of %q is %q", url, n.host)
		}
		if named, err := reference.ParseNormalizedNamed(image); err == nil && image == strings.ToLower(image) && reference.Domain(named) != n.registry && n.registry != "index.docker.io" {
			t.Errorf("the registry of %q is %q, want %q", image, n.registry, reference.Domain(named))
		}
		for _, d := range []time.Duration{time.Duration(secs), time.Duration(secs) * time.Second} {
			if again, err := time.ParseDuration(shortDuration(d)); err != nil || again != d {
				t.Errorf("%s is written as %q, which is %s: %v", d, shortDuration(d), again, err)
			}
		}
		for _, reason := range []string{"couldn't find remote ref", "Host key verification failed", "Authentication failed", "x509: y", "no such host"} {
			failure := sourceFailure(gitSyncLog(reason), b)
			wellFormedTail(t, failure)
			oneSafeLine(t, "the message", failure.Message, maxMessage)
		}
		if !reflect.DeepEqual(b, given) {
			t.Error("the Build was changed")
		}
	})
}

// plainURL are the URLs that the CRD lets pass, but for long ones, which are cut.
var plainURL = regexp.MustCompile(`^(https://|ssh://(\w+@)?|\w+@)[A-Za-z0-9][A-Za-z0-9.-]{0,60}(:[0-9]{1,5}/|[:/])[0-9a-z./]{1,40}$`)

// The message of a failure that is tried again, and of one that is over, stays one line in the Events that tell of it.
func FuzzAnnouncement(f *testing.F) {
	f.Add("git-sync could not clone x; see to it"+thenAgain, "main", int32(1))
	f.Add(". . .", "\n", int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, message, revision string, attempt int32) {
		message = Squash(message, maxMessage) // as every message of a failure is
		build := &v1alpha1.Build{}
		run := bad("n", 1)
		run.Hash, run.Result, run.Attempt, run.Revision = "hash", string(v1alpha1.FailureHostUnreachable), attempt, Squash(revision, 255)
		run.Failure = &v1alpha1.Failure{Step: v1alpha1.StepSource, Reason: v1alpha1.FailureHostUnreachable, Message: message}
		status := Conclude(build, Runs(build, "hash", []Run{run}), "hash", Outcome{}, at(60))
		_, again := Again(build, run.Run)
		for _, c := range status.Conditions {
			oneSafeLine(t, "the message of "+c.Type, c.Message, 2*maxMessage)
			if again != (c.Reason == v1alpha1.ReasonRetrying) {
				t.Errorf("attempt %d is followed by another: %v, and the reason is %s", attempt, again, c.Reason)
			}
		}
		for _, event := range Events(v1alpha1.BuildStatus{}, status) {
			oneSafeLine(t, "the Event "+event.Reason, event.Message, 2*maxMessage)
		}
		if got := ptr.Deref(status.Failure, v1alpha1.Failure{}).Message; got != message {
			t.Errorf("the failure says %q, want %q", got, message)
		}
	})
}
