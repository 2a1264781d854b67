// Package observe reads the cluster, and decides nothing: from a Job, its pods
// and Events it tells what became of a run and why it failed, from a Deployment
// how far the rollout is, and from both the status of a Build and the Events
// worth recording. Every function is pure.
package observe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Run is what became of one run.
type Run struct {
	v1alpha1.Run
	// Failure of a run that has ended, or what a run that is under way waits for.
	Failure *v1alpha1.Failure
	// Stuck: something keeps the run from starting, and has for long enough. Nothing was tried, so the run is not over: its
	// Job is deleted, and made anew later.
	Stuck bool
	// Recheck is when to look again although nothing may have changed by then; zero means never.
	Recheck time.Duration
}

// Ended says whether the run has ended.
func (r Run) Ended() bool { return r.CompletionTime != nil }

// Forgotten says whether the run ended before the one that the status shows: the history has dropped it, and the watch does
// not show yet that its Job is deleted.
func (r Run) Forgotten(status v1alpha1.BuildStatus) bool {
	return r.Ended() && status.Run != nil && r.Job != status.Run.Job && r.StartTime.Before(status.Run.StartTime)
}

// lateness is how long the pods of a Job that has ended may be missing before they count as gone.
// Jobs and Pods are watched separately, and one watch can be behind the other.
const lateness = 30 * time.Second

// Observe tells what became of the run whose Job is in the evidence.
func Observe(e Evidence, now time.Time) Run {
	job := e.Job
	// A user may have written them: whoever may make Jobs can make one that says that it is of this Build.
	run := Run{Run: v1alpha1.Run{
		Job:       job.Name,
		Hash:      oneLine(job.Annotations[v1alpha1.InputsAnnotation]),
		Attempt:   attempt(job),
		Revision:  oneLine(job.Annotations[v1alpha1.RevisionAnnotation]),
		Rebuild:   oneLine(job.Annotations[v1alpha1.RebuildAnnotation]),
		StartTime: &job.CreationTimestamp,
	}}
	pod := decisive(e.Pods)

	complete, failed := finished(job, batchv1.JobComplete), finished(job, batchv1.JobFailed)
	switch {
	case pod != nil && pod.Status.Phase == corev1.PodSucceeded:
		// The pod is the authority; its Job follows a second or two later.
		image, ok := pushedImage(job, pod)
		if !ok {
			return run.fail(noDigest(), pod, podEnd(pod, now))
		}
		run.Image = image
		return run.end(v1alpha1.ResultSucceeded, pod, podEnd(pod, now))
	case job.DeletionTimestamp != nil && complete == nil:
		// Its end is not its own; once it is gone it is made again, or something else.
		if e.Before != nil && waitingReasons[e.Before.Reason] {
			run.Failure = e.Before
		}
		return run
	case complete == nil && failed == nil:
		run.Failure = Failure(e)
		return run.waiting(e, now)
	case unfinished(e.Pods) && now.Before(ended(complete, failed).Add(lateness)),
		len(e.Pods) == 0 && !deadlineExceeded(failed) && now.Before(ended(complete, failed).Add(lateness)):
		run.Failure, run.Recheck = e.Before, lateness
		return run
	case complete != nil:
		return run.fail(digestMissing(), pod, complete.LastTransitionTime)
	}
	failure := Failure(e)
	if waitingReasons[failure.Reason] {
		run.Failure, run.Stuck = failure, true
		return run
	}
	return run.fail(failure, pod, failed.LastTransitionTime)
}

func (r Run) fail(failure *v1alpha1.Failure, pod *corev1.Pod, at metav1.Time) Run {
	r.Failure = failure
	return r.end(string(failure.Reason), pod, at)
}

// attempt is which one at the same inputs the Job is; a Job that does not say is the first.
func attempt(job *batchv1.Job) int32 {
	n, err := strconv.ParseInt(job.Annotations[v1alpha1.AttemptAnnotation], 10, 32)
	if err != nil || n < 1 {
		return 1
	}
	return int32(n)
}

// end completes the run. The commit is read only now: alone it would not be worth a write while the run is under way.
func (r Run) end(result string, pod *corev1.Pod, at metav1.Time) Run {
	r.Result = result
	readCommit(&r.Run, pod)
	r.CompletionTime = &at
	r.Duration = duration.HumanDuration(at.Sub(r.StartTime.Time))
	return r
}

// noDigest is of a builder that was there to be asked, digestMissing of one that was not.
func noDigest() *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step:    v1alpha1.StepPush,
		Reason:  v1alpha1.FailureDigestMissing,
		Message: "The builder ended well but said no digest of an image that it pushed; see that nothing in spec.builder.args or spec.builder.image keeps it from that" + thenAgain,
	}
}

func digestMissing() *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step:    v1alpha1.StepPush,
		Reason:  v1alpha1.FailureDigestMissing,
		Message: "The builder ended well but its pod was gone before the image's digest could be read. Set the annotation " + v1alpha1.RebuildAnnotation + " to a new value to build again.",
	}
}

// finished returns the condition of that type when it is true.
func finished(job *batchv1.Job, conditionType batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == conditionType && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Finished says whether the Job has ended, well or badly.
func Finished(job *batchv1.Job) bool {
	return finished(job, batchv1.JobComplete) != nil || finished(job, batchv1.JobFailed) != nil
}

func ended(complete, failed *batchv1.JobCondition) time.Time {
	if complete != nil {
		return complete.LastTransitionTime.Time
	}
	return failed.LastTransitionTime.Time
}

func deadlineExceeded(failed *batchv1.JobCondition) bool {
	return failed != nil && failed.Reason == batchv1.JobReasonDeadlineExceeded
}

// decisive is the pod that tells how the run went: the one that succeeded, else the newest.
func decisive(pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded {
			return pod
		}
	}
	return newest(pods)
}

// Active says whether the pod may still do something.
func Active(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func unfinished(pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if Active(pod) {
			return true
		}
	}
	return false
}

// podEnd is when the last container of the pod ended.
func podEnd(pod *corev1.Pod, now time.Time) metav1.Time {
	end := metav1.Time{}
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil && end.Before(&t.FinishedAt) {
			end = t.FinishedAt
		}
	}
	if end.IsZero() {
		return metav1.NewTime(now)
	}
	return end
}

// pushedImage is the image by digest. kaniko writes the digest before it pushes, so it counts only in a
// pod that succeeded; and since a build can write what it likes there, only in the form of a digest.
func pushedImage(job *batchv1.Job, pod *corev1.Pod) (string, bool) {
	builder := builderStatus(pod)
	if builder == nil || builder.State.Terminated == nil {
		return "", false
	}
	sum := digest.Digest(strings.TrimSpace(builder.State.Terminated.Message))
	if sum.Validate() != nil || sum.Algorithm() != digest.SHA256 {
		return "", false
	}
	name, err := reference.ParseNormalizedNamed(job.Annotations[v1alpha1.ImageAnnotation])
	if err != nil {
		return "", false
	}
	image, err := reference.WithDigest(reference.TrimNamed(name), sum)
	if err != nil {
		return "", false
	}
	return image.String(), true
}

const (
	shortLength = 7   // of a commit, for the eyes
	textLength  = 200 // of an author or subject, which are whatever the commit says
)

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// readCommit takes commit, date, author and subject, a line each, from the termination message of the source step.
func readCommit(run *v1alpha1.Run, pod *corev1.Pod) {
	if pod == nil {
		return
	}
	source := slices.IndexFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == sourceContainer })
	if source < 0 {
		return
	}
	terminated := pod.Status.InitContainerStatuses[source].State.Terminated
	if terminated == nil || terminated.ExitCode != 0 {
		return
	}
	lines := strings.SplitN(strings.TrimRight(terminated.Message, "\n"), "\n", 4)
	if len(lines) < 4 || !commitID.MatchString(lines[0]) {
		return
	}
	run.Commit, run.ShortCommit = lines[0], lines[0][:shortLength]
	if at, err := time.Parse(time.RFC3339, lines[1]); err == nil {
		run.Committed = &metav1.Time{Time: at}
	}
	run.Author, run.Subject = oneLine(lines[2]), oneLine(lines[3])
}

// oneLine makes text of a commit or an annotation safe to show.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
	text = strings.TrimSpace(text)
	if runes := []rune(text); len(runes) > textLength {
		return string(runes[:textLength-1]) + "…"
	}
	return text
}
