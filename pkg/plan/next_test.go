package plan

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/observe"
)

// Hashes of the newest inputs, and of older and still older ones.
const (
	newest = "aaaaaaaaaaaaaaaa"
	older  = "bbbbbbbbbbbbbbbb"
	oldest = "cccccccccccccccc"
)

func jobOf(hash string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "shop-" + hash[:hashLength]}}
}

// running is a run that is under way; the others are what else can become of one.
func running(hash string) observe.Run {
	return observe.Run{Run: v1alpha1.Run{Job: jobOf(hash).Name, Hash: hash, StartTime: &metav1.Time{}}}
}

func waiting(hash string) observe.Run {
	run := running(hash)
	run.Failure = &v1alpha1.Failure{Reason: v1alpha1.FailureSecretNotFound}
	return run
}

func stuck(hash string) observe.Run {
	run := waiting(hash)
	run.Stuck = true
	return run
}

func ended(hash, result string) observe.Run {
	run := running(hash)
	run.CompletionTime, run.Result = &metav1.Time{}, result
	return run
}

var now = time.Unix(1_800_000_000, 0)

// failedAt is an attempt that a registry's fault ended so many seconds ago.
func failedAt(hash string, attempt int32, ago time.Duration) observe.Run {
	run := ended(hash, string(v1alpha1.FailureRegistryUnreachable))
	run.Attempt, run.CompletionTime = attempt, &metav1.Time{Time: now.Add(-ago * time.Second)}
	return run
}

func retries(n int32) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) { b.Spec.Retries = &n }
}

// waits makes the status tell of a run that had waited for so many seconds when it was last started, and that is so many seconds ago.
func waits(waited, ago time.Duration) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) {
		run := waiting(newest)
		run.Attempt, run.StartTime = 1, &metav1.Time{Time: now.Add(-ago * time.Second)}
		b.Status.Run, b.Status.Failure = &run.Run, run.Failure
		b.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionBuilt, Status: metav1.ConditionFalse, Reason: string(run.Failure.Reason),
			LastTransitionTime: metav1.Time{Time: now.Add(-(waited + ago) * time.Second)},
		}}
	}
}

// showing makes the status show a run that came a minute after those of the other helpers.
func showing(run observe.Run, job string) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) {
		run.Job, run.StartTime = job, &metav1.Time{Time: run.StartTime.Add(time.Minute)}
		b.Status.Run = &run.Run
		b.Status.History = []v1alpha1.Run{run.Run}
	}
}

// history makes the status remember runs, the newest first, which is also the one that is shown.
func history(runs ...observe.Run) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) {
		for _, run := range runs {
			b.Status.History = append(b.Status.History, run.Run)
		}
		b.Status.Run = runs[0].Run.DeepCopy()
	}
}

func TestNext(t *testing.T) {
	const good, bad = v1alpha1.ResultSucceeded, string(v1alpha1.FailureBuildCommandFailed)
	replace := func(b *v1alpha1.Build) { b.Spec.RunPolicy = v1alpha1.RunPolicyReplace }
	suspend := func(b *v1alpha1.Build) { b.Spec.Suspend = true }
	pod := func(phase corev1.PodPhase) []*corev1.Pod {
		return []*corev1.Pod{{Status: corev1.PodStatus{Phase: phase}}}
	}
	start := Step{Start: 1}
	stop := func(hashes ...string) Step {
		step := Step{Hold: observe.Queued}
		for _, hash := range hashes {
			step.Stop = append(step.Stop, jobOf(hash))
		}
		return step
	}

	for name, c := range map[string]struct {
		build []func(*v1alpha1.Build)
		jobs  []string // hashes of those that have no run in runs, because the history remembers them
		pods  []*corev1.Pod
		runs  []observe.Run
		want  Step
	}{
		"a new Build is built":                              {want: start},
		"a run of the newest inputs goes on":                {runs: []observe.Run{running(newest)}},
		"a run of the newest inputs that waits goes on":     {runs: []observe.Run{waiting(newest)}},
		"a run of the newest inputs that has ended is all":  {runs: []observe.Run{ended(newest, good)}},
		"a failed run of the newest inputs is not repeated": {runs: []observe.Run{ended(newest, bad)}},
		"suspending does not stop a run that is under way":  {build: []func(*v1alpha1.Build){suspend}, runs: []observe.Run{running(newest)}},
		"a run that cannot start gives its Job up":          {runs: []observe.Run{stuck(newest)}, want: Step{Hold: observe.Retrying, Stop: []*batchv1.Job{jobOf(newest)}}},
		"an older run that only waited gives way":           {runs: []observe.Run{stuck(older)}, want: stop(older)},

		"suspended, nothing starts": {build: []func(*v1alpha1.Build){suspend}, want: Step{Hold: observe.Suspended}},
		"suspended, an older run is not cancelled": {
			build: []func(*v1alpha1.Build){suspend, replace}, runs: []observe.Run{running(older)}, want: Step{Hold: observe.Suspended},
		},
		"suspended, an older run that cannot start gives its Job up all the same": {
			build: []func(*v1alpha1.Build){suspend}, runs: []observe.Run{stuck(older)}, want: Step{Hold: observe.Suspended, Stop: []*batchv1.Job{jobOf(older)}},
		},
		"under Latest an older run may end":           {runs: []observe.Run{running(older)}, want: Step{Hold: observe.Queued}},
		"under Latest an older run that waits is not": {runs: []observe.Run{waiting(older)}, want: stop(older)},
		"under Latest one that waits takes all others with it": {
			runs: []observe.Run{running(oldest), waiting(older)}, want: stop(oldest, older),
		},
		"under Replace older runs are cancelled": {
			build: []func(*v1alpha1.Build){replace}, runs: []observe.Run{running(oldest), running(older)}, want: stop(oldest, older),
		},
		"an older run that has ended is in nobody's way": {runs: []observe.Run{ended(older, good)}, want: start},
		"an older run beside one of the newest inputs is left alone": {
			build: []func(*v1alpha1.Build){replace}, runs: []observe.Run{running(older), running(newest)},
		},

		"remembered as good, nothing is built": {build: []func(*v1alpha1.Build){history(ended(newest, good))}, jobs: []string{newest}},
		"remembered as good although its Job is gone": {
			build: []func(*v1alpha1.Build){history(ended(newest, good))},
		},
		"remembered as good but others were built since, a branch has moved on": {
			build: []func(*v1alpha1.Build){history(ended(older, good), ended(newest, good))}, jobs: []string{older, newest},
			want: stop(newest),
		},
		"built before others were, but suspended now": {
			build: []func(*v1alpha1.Build){suspend, history(ended(older, good), ended(newest, good))}, jobs: []string{older, newest}, want: Step{Hold: observe.Suspended},
		},
		"built before others were, its Job is gone: once more": {
			build: []func(*v1alpha1.Build){history(ended(older, good), ended(newest, good))}, jobs: []string{older}, want: start,
		},
		"remembered as failed just now, nothing is repeated": {
			build: []func(*v1alpha1.Build){history(ended(newest, bad))}, jobs: []string{newest},
		},
		"failed before others were tried: its Job goes first": {
			build: []func(*v1alpha1.Build){history(ended(older, good), ended(newest, bad))}, jobs: []string{older, newest}, want: stop(newest),
		},
		"failed before others were tried, its Job is gone: once more": {
			build: []func(*v1alpha1.Build){history(ended(older, good), ended(newest, bad))}, jobs: []string{older}, want: start,
		},

		"a failure that passes by itself: another attempt after a pause": {
			runs: []observe.Run{failedAt(newest, 1, 0)}, want: Step{Hold: observe.Retrying, After: 10 * time.Second},
		},
		"the pause goes on although the Job is gone": {
			build: []func(*v1alpha1.Build){history(failedAt(newest, 1, 4))}, want: Step{Hold: observe.Retrying, After: 6 * time.Second},
		},
		"the pause is over": {build: []func(*v1alpha1.Build){history(failedAt(newest, 1, 10))}, jobs: []string{newest}, want: Step{Start: 2}},
		"the second pause is twice as long": {
			build: []func(*v1alpha1.Build){history(failedAt(newest, 2, 10))}, want: Step{Hold: observe.Retrying, After: 10 * time.Second},
		},
		"the third attempt was the last": {build: []func(*v1alpha1.Build){history(failedAt(newest, 3, 100))}},
		"no retries asked for":           {build: []func(*v1alpha1.Build){retries(0), history(failedAt(newest, 1, 100))}},
		"pauses have a limit": {
			build: []func(*v1alpha1.Build){retries(10), history(failedAt(newest, 10, 0))}, want: Step{Hold: observe.Retrying, After: 5 * time.Minute},
		},
		"suspended, no further attempt":                         {build: []func(*v1alpha1.Build){suspend, history(failedAt(newest, 1, 10))}, want: Step{Hold: observe.Suspended}},
		"suspended in the moment of the failure":                {build: []func(*v1alpha1.Build){suspend}, runs: []observe.Run{failedAt(newest, 1, 0)}, want: Step{Hold: observe.Suspended}},
		"a failure that a controller without attempts has left": {build: []func(*v1alpha1.Build){history(failedAt(newest, 0, 100))}, jobs: []string{newest}},
		"an attempt that the history dropped, its Job still shown, tells nothing": {
			build: []func(*v1alpha1.Build){retries(1), showing(failedAt(newest, 2, 5), "shop-attempt-2")}, runs: []observe.Run{failedAt(newest, 1, 60)},
		},
		"older inputs are not tried again": {build: []func(*v1alpha1.Build){history(failedAt(older, 1, 0))}, want: start},

		"what could not start waits half a minute":             {build: []func(*v1alpha1.Build){waits(5, 17)}, want: Step{Hold: observe.Retrying, After: 13 * time.Second}},
		"then it is started anew, which is no attempt":         {build: []func(*v1alpha1.Build){waits(5, 30)}, want: start},
		"then its pod may wait as long, and gives way as long": {build: []func(*v1alpha1.Build){waits(100, 40)}, want: Step{Hold: observe.Retrying, After: 160 * time.Second}},
		"but neither is ever longer than five minutes":         {build: []func(*v1alpha1.Build){waits(10000, 0)}, want: Step{Hold: observe.Retrying, After: 10 * time.Minute}},
		"what could not start, and was suspended since, is started at once": {build: []func(*v1alpha1.Build){waits(5, 1), func(b *v1alpha1.Build) {
			b.Status.Conditions[0].Status, b.Status.Conditions[0].Reason = metav1.ConditionUnknown, v1alpha1.ReasonSuspended
		}}, want: start},
		"a run whose Job somebody deleted is made anew at once": {build: []func(*v1alpha1.Build){history(running(newest))}, want: start},

		"a pod whose Job is gone still pushes": {pods: pod(corev1.PodRunning), want: Step{Hold: observe.Queued}},
		"a pod that waits may still push":      {pods: pod(corev1.PodPending), want: Step{Hold: observe.Queued}},
		"a pod that nothing is known of":       {pods: pod(corev1.PodUnknown), want: Step{Hold: observe.Queued}},
		"a pod that failed pushes nothing":     {pods: pod(corev1.PodFailed), want: start},
		"a pod that succeeded pushes nothing":  {pods: pod(corev1.PodSucceeded), want: start},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []*batchv1.Job
			for _, run := range c.runs {
				jobs = append(jobs, jobOf(run.Hash))
			}
			for _, hash := range c.jobs {
				jobs = append(jobs, jobOf(hash))
			}
			got := Next(aBuild(c.build...), newest, jobs, c.pods, c.runs, now)
			if got.Start != c.want.Start || got.Hold != c.want.Hold || got.After != c.want.After || !slices.Equal(names(got.Stop), names(c.want.Stop)) {
				t.Errorf("got start %v, stop %q, hold %q, after %s; want start %v, stop %q, hold %q, after %s",
					got.Start, names(got.Stop), got.Hold, got.After, c.want.Start, names(c.want.Stop), c.want.Hold, c.want.After)
			}
		})
	}
}

func TestPrune(t *testing.T) {
	const good = v1alpha1.ResultSucceeded
	for name, c := range map[string]struct {
		remembered []observe.Run
		runs       []observe.Run
		want       []string
	}{
		"a run that is under way is kept":                   {runs: []observe.Run{running(newest)}},
		"a run that waited till its deadline is no surplus": {runs: []observe.Run{stuck(newest)}},
		"a run that the history keeps is kept":              {remembered: []observe.Run{ended(newest, good)}, runs: []observe.Run{ended(newest, good)}},
		"a run that the history has dropped is surplus":     {remembered: []observe.Run{ended(newest, good)}, runs: []observe.Run{ended(older, good)}, want: []string{older}},
		"one of two is surplus":                             {runs: []observe.Run{running(newest), ended(older, good)}, want: []string{older}},
	} {
		t.Run(name, func(t *testing.T) {
			var status v1alpha1.BuildStatus
			jobs := map[string]*batchv1.Job{}
			for _, run := range c.remembered {
				status.History = append(status.History, run.Run)
				jobs[run.Hash] = jobOf(run.Hash)
			}
			for _, run := range c.runs {
				jobs[run.Hash] = jobOf(run.Hash)
			}
			var all, want []*batchv1.Job
			for _, job := range jobs {
				all = append(all, job)
			}
			for _, hash := range c.want {
				want = append(want, jobOf(hash))
			}
			if got := Prune(status, all, c.runs); !slices.Equal(names(got), names(want)) {
				t.Errorf("surplus is %q, want %q", names(got), names(want))
			}
		})
	}
}

// A Job of the same name that was made later is another run.
func TestPruneTellsAJobFromItsNamesake(t *testing.T) {
	status := v1alpha1.BuildStatus{History: []v1alpha1.Run{ended(newest, v1alpha1.ResultSucceeded).Run}}
	namesake := jobOf(newest)
	namesake.CreationTimestamp = metav1.Unix(1_800_000_000, 0)
	if got := Prune(status, []*batchv1.Job{namesake}, nil); len(got) != 1 {
		t.Errorf("surplus is %q", names(got))
	}
}

func names(jobs []*batchv1.Job) []string {
	var names []string
	for _, job := range jobs {
		names = append(names, job.Name)
	}
	slices.Sort(names)
	return names
}
