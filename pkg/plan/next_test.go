package plan

import (
	"slices"
	"testing"

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

func expired(hash string) observe.Run {
	run := waiting(hash)
	run.Expired = true
	return run
}

func ended(hash, result string) observe.Run {
	run := running(hash)
	run.CompletionTime, run.Result = &metav1.Time{}, result
	return run
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
	start := Step{Start: true}
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
		"a new Build is built":                               {want: start},
		"a run of the newest inputs goes on":                 {runs: []observe.Run{running(newest)}},
		"a run of the newest inputs that waits goes on":      {runs: []observe.Run{waiting(newest)}},
		"a run of the newest inputs that has ended is all":   {runs: []observe.Run{ended(newest, good)}},
		"a failed run of the newest inputs is not repeated":  {runs: []observe.Run{ended(newest, bad)}},
		"suspending does not stop a run that is under way":   {build: []func(*v1alpha1.Build){suspend}, runs: []observe.Run{running(newest)}},
		"a run that only waited till its deadline is redone": {runs: []observe.Run{expired(newest)}, want: stop(newest)},
		"an older run that only waited gives way":            {runs: []observe.Run{expired(older)}, want: stop(older)},

		"suspended, nothing starts": {build: []func(*v1alpha1.Build){suspend}, want: Step{Hold: observe.Suspended}},
		"suspended, an older run is not cancelled": {
			build: []func(*v1alpha1.Build){suspend, replace}, runs: []observe.Run{running(older)}, want: Step{Hold: observe.Suspended},
		},
		"suspended, an older run that only waited is left alone": {
			build: []func(*v1alpha1.Build){suspend}, runs: []observe.Run{expired(older)}, want: Step{Hold: observe.Suspended},
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
			got := Next(aBuild(c.build...), newest, jobs, c.pods, c.runs)
			if got.Start != c.want.Start || got.Hold != c.want.Hold || !slices.Equal(names(got.Stop), names(c.want.Stop)) {
				t.Errorf("got start %v, stop %q, hold %q; want start %v, stop %q, hold %q",
					got.Start, names(got.Stop), got.Hold, c.want.Start, names(c.want.Stop), c.want.Hold)
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
		"a run that waited till its deadline is no surplus": {runs: []observe.Run{expired(newest)}},
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
