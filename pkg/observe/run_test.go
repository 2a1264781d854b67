package observe

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

const (
	theDigest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	theCommit = "2280e99c47e016d5396fea3a1c5bf3624c69b3e9"
	theImage  = "registry.example.com/shop@" + theDigest
	commitLog = theCommit + "\n2026-01-02T03:04:05+02:00\nJane Doe\nAdd a cart\n"
)

// at is a moment of the run: so many seconds after its Job was made.
func at(seconds int) metav1.Time {
	return metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second))
}

// theJob is one that was just made; conditions say what became of it.
func theJob(conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop-1", UID: "job", CreationTimestamp: at(0),
			Annotations: map[string]string{
				v1alpha1.InputsAnnotation:   "hash",
				v1alpha1.RevisionAnnotation: "main",
				v1alpha1.RebuildAnnotation:  "again",
				v1alpha1.ImageAnnotation:    "registry.example.com/shop:1.0",
			},
		},
		Status: batchv1.JobStatus{Conditions: conditions},
	}
}

func stopped(job *batchv1.Job) *batchv1.Job {
	now := at(50)
	job.DeletionTimestamp = &now
	return job
}

func is(conditionType batchv1.JobConditionType, reason string, since int) batchv1.JobCondition {
	return batchv1.JobCondition{Type: conditionType, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: at(since)}
}

func exited(name string, code int32, message string, when int) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Message: message, FinishedAt: at(when),
	}}}
}

// runPod is the pod of a run: its phase, and what its two containers said when they ended, if they did.
func runPod(phase corev1.PodPhase, containers ...corev1.ContainerStatus) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-1-" + strings.ToLower(string(phase)), CreationTimestamp: at(0)}, Status: corev1.PodStatus{Phase: phase}}
	if len(containers) > 0 {
		pod.Status.InitContainerStatuses = containers[:1]
		pod.Status.ContainerStatuses = containers[1:]
	}
	return pod
}

func succeededPod(digest string) *corev1.Pod {
	return runPod(corev1.PodSucceeded, exited("git-sync", 0, commitLog, 10), exited("kaniko", 0, digest, 40))
}

func failedPod() *corev1.Pod {
	return runPod(corev1.PodFailed, exited("git-sync", 0, commitLog, 10), exited("kaniko", 1, theDigest, 40))
}

func TestObserve(t *testing.T) {
	missingSecret := &v1alpha1.Failure{Step: v1alpha1.StepSource, Reason: v1alpha1.FailureSecretNotFound, Message: "as it was"}
	deadline := is(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded, 100)
	backoff := is(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, 45)
	complete := is(batchv1.JobComplete, "", 42)
	one := func(pod *corev1.Pod) []*corev1.Pod { return []*corev1.Pod{pod} }

	for name, c := range map[string]struct {
		job     *batchv1.Job
		pods    []*corev1.Pod
		before  *v1alpha1.Failure
		now     int // seconds
		result  string
		end     int // seconds; looked at only with a result
		image   string
		commit  bool
		failure v1alpha1.FailureReason // of a run that goes on
		stuck   bool
		recheck bool
	}{
		"a Job that was just made is under way":   {job: theJob()},
		"a running pod is under way":              {job: theJob(), pods: one(runPod(corev1.PodRunning))},
		"the commit alone is not told of":         {job: theJob(), pods: one(runPod(corev1.PodRunning, exited("git-sync", 0, commitLog, 10)))},
		"a clone that failed has no commit":       {job: theJob(backoff), pods: one(runPod(corev1.PodFailed, exited("git-sync", 1, commitLog, 10))), result: "CloneFailed", end: 45},
		"a pod that failed waits for its Job":     {job: theJob(), pods: one(failedPod())},
		"about to fail is not failed yet":         {job: theJob(is(batchv1.JobFailureTarget, "x", 40)), pods: one(failedPod())},
		"a condition that is not true is nothing": {job: theJob(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionFalse})},

		"a pod that succeeded is the end, whatever its Job says": {
			job: theJob(), pods: one(succeededPod(theDigest)), result: "Succeeded", end: 40, image: theImage, commit: true,
		},
		"a Job that is complete": {
			job: theJob(complete), pods: one(succeededPod(theDigest + "\n")), result: "Succeeded", end: 40, image: theImage, commit: true,
		},
		"a pod that succeeded after another was evicted": {
			job: theJob(), pods: []*corev1.Pod{succeededPod(theDigest), {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(50)}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}},
			result: "Succeeded", end: 40, image: theImage, commit: true,
		},
		"a pod that succeeded just when the time was up": {
			job: theJob(deadline), pods: one(succeededPod(theDigest)), result: "Succeeded", end: 40, image: theImage, commit: true,
		},
		"a pod that does not say when it ended ended now": {
			job: theJob(), pods: one(runPod(corev1.PodSucceeded)), now: 77, result: "DigestMissing", end: 77,
		},
		"success without a digest":          {job: theJob(), pods: one(succeededPod("")), result: "DigestMissing", end: 40, commit: true},
		"success with something else":       {job: theJob(), pods: one(succeededPod("no digest")), result: "DigestMissing", end: 40, commit: true},
		"success with another algorithm":    {job: theJob(), pods: one(succeededPod("sha512:" + strings.Repeat("1", 128))), result: "DigestMissing", end: 40, commit: true},
		"success with a digest and more":    {job: theJob(), pods: one(succeededPod(theDigest + "\nevil")), result: "DigestMissing", end: 40, commit: true},
		"success with a digest in capitals": {job: theJob(), pods: one(succeededPod(strings.ToUpper(theDigest))), result: "DigestMissing", end: 40, commit: true},

		"a Job that failed":                      {job: theJob(backoff), pods: one(failedPod()), result: "PushFailed", end: 45, commit: true},
		"the digest of a failed pod is no image": {job: theJob(backoff), pods: one(failedPod()), now: 100, result: "PushFailed", end: 45, commit: true},
		"a Job that took too long":               {job: theJob(deadline), now: 100, result: "DeadlineExceeded", end: 100},
		"a Job that took too long, its pod still there": {
			job: theJob(deadline), pods: one(failedPod()), now: 100, result: "DeadlineExceeded", end: 100, commit: true,
		},
		"a Job that took too long while it waited starts anew": {
			job: theJob(deadline), before: missingSecret, now: 100, failure: v1alpha1.FailureSecretNotFound, stuck: true,
		},
		"a Job that is being deleted fails no more":  {job: stopped(theJob(backoff)), pods: one(failedPod()), now: 100},
		"a Job that is being deleted after its end":  {job: stopped(theJob(complete)), pods: one(succeededPod(theDigest)), result: "Succeeded", end: 40, image: theImage, commit: true},
		"a Job that is deleted just when it is done": {job: stopped(theJob()), pods: one(succeededPod(theDigest)), result: "Succeeded", end: 40, image: theImage, commit: true},
		"a Job that took too long while it built is over": {
			job: theJob(deadline), before: &v1alpha1.Failure{Step: v1alpha1.StepBuild, Reason: v1alpha1.FailureBuildFailed}, now: 100, result: "DeadlineExceeded", end: 100,
		},
		"a Job that failed otherwise while it waited is over": {
			job: theJob(backoff), pods: one(failedPod()), before: missingSecret, result: "PushFailed", end: 45, commit: true,
		},

		"an end whose pods the watch did not show yet": {job: theJob(complete), now: 42, recheck: true},
		"what was found before stays until they do": {
			job: theJob(backoff), before: missingSecret, now: 46, failure: v1alpha1.FailureSecretNotFound, recheck: true,
		},
		"an end whose pods show no end yet":               {job: theJob(complete), pods: one(runPod(corev1.PodRunning)), now: 42 + 29, recheck: true},
		"a failure whose pods the watch did not show yet": {job: theJob(backoff), now: 46, recheck: true},
		"a deadline whose pods show no end yet":           {job: theJob(deadline), pods: one(runPod(corev1.PodRunning)), now: 101, recheck: true},
		"an end whose pods never showed up":               {job: theJob(complete), now: 42 + 30, result: "DigestMissing", end: 42},
		"an end whose pods never end":                     {job: theJob(complete), pods: one(runPod(corev1.PodRunning)), now: 42 + 30, result: "DigestMissing", end: 42},
		"a failure whose pods never showed up":            {job: theJob(backoff), now: 45 + 30, result: "JobFailed", end: 45},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := Evidence{Job: c.job, Pods: c.pods, Before: c.before, Build: &v1alpha1.Build{}}
			run := Observe(evidence, at(c.now).Time)

			if run.Job != "shop-1" || run.Hash != "hash" || run.Revision != "main" || run.Rebuild != "again" || !run.StartTime.Equal(&c.job.CreationTimestamp) {
				t.Errorf("of the Job it has %+v", run.Run)
			}
			if run.Result != c.result || run.Ended() != (c.result != "") {
				t.Fatalf("result is %q, ended %v; want %q (%+v)", run.Result, run.Ended(), c.result, run.Failure)
			}
			if run.Ended() && !run.CompletionTime.Time.Equal(at(c.end).Time) {
				t.Errorf("ended after %s, want %d s", run.CompletionTime.Sub(epoch), c.end)
			}
			if run.Image != c.image || (run.Commit == theCommit) != c.commit {
				t.Errorf("image %q, commit %q", run.Image, run.Commit)
			}
			want := c.failure
			if c.result != "" && c.result != v1alpha1.ResultSucceeded {
				want = v1alpha1.FailureReason(c.result)
			}
			if (run.Failure != nil) != (want != "") || run.Failure != nil && run.Failure.Reason != want {
				t.Errorf("failure is %+v, want %q", run.Failure, want)
			}
			if run.Stuck != c.stuck || (run.Recheck > 0) != c.recheck {
				t.Errorf("stuck %v, recheck %s", run.Stuck, run.Recheck)
			}
		})
	}
}

func TestTheNameOfTheImageIsThatOfTheRunWithoutItsTag(t *testing.T) {
	for name, want := range map[string]string{
		"registry.example.com/shop:1.0": "registry.example.com/shop@" + theDigest,
		"registry.example.com:5000/a/b": "registry.example.com:5000/a/b@" + theDigest,
		"localhost:5001/shop:latest":    "localhost:5001/shop@" + theDigest,
		"team/shop":                     "docker.io/team/shop@" + theDigest,
		"":                              "",
		"Not A Name":                    "",
	} {
		job := theJob()
		job.Annotations[v1alpha1.ImageAnnotation] = name
		run := Observe(Evidence{Job: job, Pods: []*corev1.Pod{succeededPod(theDigest)}, Build: &v1alpha1.Build{}}, epoch)
		if run.Image != want {
			t.Errorf("%q becomes %q, want %q", name, run.Image, want)
		}
	}
}

func TestWhatIsReadOfACommit(t *testing.T) {
	long := strings.Repeat("ä", 300)
	for name, c := range map[string]struct {
		message                 string
		commit, author, subject string
		undated                 bool
	}{
		"all of it":                        {commitLog, theCommit, "Jane Doe", "Add a cart", false},
		"a sha256 repository":              {strings.Repeat("ab", 32) + "\n2026-01-02T03:04:05Z\nJ\nS\n", strings.Repeat("ab", 32), "J", "S", false},
		"no subject":                       {theCommit + "\n2026-01-02T03:04:05Z\nJ\n", "", "", "", true},
		"a date that is none":              {theCommit + "\nyesterday\nJ\nS", theCommit, "J", "S", true},
		"a short id":                       {"2280e99\n2026-01-02T03:04:05Z\nJ\nS", "", "", "", true},
		"an id in capitals":                {strings.ToUpper(theCommit) + "\n2026-01-02T03:04:05Z\nJ\nS", "", "", "", true},
		"no message":                       {"", "", "", "", true},
		"control characters and bad UTF-8": {theCommit + "\n2026-01-02T03:04:05Z\nJ\x1b[31m\xffD\nS\tT\nmore", theCommit, "J[31mD", "STmore", false},
		"long names":                       {theCommit + "\n2026-01-02T03:04:05Z\n" + long + "\n" + long, theCommit, long[:2*199] + "…", long[:2*199] + "…", false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := runPod(corev1.PodSucceeded, exited("git-sync", 0, c.message, 10), exited("kaniko", 0, theDigest, 40))
			run := Observe(Evidence{Job: theJob(), Pods: []*corev1.Pod{pod}, Build: &v1alpha1.Build{}}, epoch)
			if run.Commit != c.commit || run.Author != c.author || run.Subject != c.subject || (run.Committed == nil) != c.undated {
				t.Errorf("got %q of %v by %q: %q", run.Commit, run.Committed, run.Author, run.Subject)
			}
			if c.commit != "" && run.ShortCommit != c.commit[:7] {
				t.Errorf("short %q", run.ShortCommit)
			}
		})
	}
}

func TestFinishedAndActive(t *testing.T) {
	for _, c := range []struct {
		job  *batchv1.Job
		want bool
	}{
		{theJob(), false},
		{theJob(is(batchv1.JobFailureTarget, "", 1)), false},
		{theJob(is(batchv1.JobSuspended, "", 1)), false},
		{theJob(is(batchv1.JobFailureTarget, "", 1), is(batchv1.JobFailed, "", 2)), true},
		{theJob(is(batchv1.JobComplete, "", 1)), true},
	} {
		if got := Finished(c.job); got != c.want {
			t.Errorf("with %v a Job is finished: %v", c.job.Status.Conditions, got)
		}
	}
	for phase, want := range map[corev1.PodPhase]bool{"": true, corev1.PodPending: true, corev1.PodRunning: true, corev1.PodUnknown: true, corev1.PodSucceeded: false, corev1.PodFailed: false} {
		if got := Active(runPod(phase)); got != want {
			t.Errorf("a pod that is %q is active: %v", phase, got)
		}
	}
}
