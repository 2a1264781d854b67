package observe

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// The runs of these tests are named by the hash of their inputs, a letter, and start at that second; the newest inputs
// are those of "n".
const newestHash = "n"

func goingOn(hash string, start int) Run {
	return Run{Run: v1alpha1.Run{Job: "shop-" + hash, Hash: hash, StartTime: ptr.To(at(start))}}
}

func good(hash string, start int) Run {
	run := goingOn(hash, start)
	run.Result, run.CompletionTime = v1alpha1.ResultSucceeded, ptr.To(at(start+10))
	run.Image, run.ShortCommit = imageOf(hash), "2280e99"
	return run
}

func bad(hash string, start int) Run {
	run := goingOn(hash, start)
	run.Result, run.CompletionTime = string(v1alpha1.FailureBuildCommandFailed), ptr.To(at(start+10))
	run.Failure = aFailure(v1alpha1.StepBuild, v1alpha1.FailureBuildCommandFailed)
	return run
}

func held(hash string, start int) Run {
	run := goingOn(hash, start)
	run.Failure = aFailure(v1alpha1.StepSource, v1alpha1.FailureSecretNotFound)
	return run
}

func imageOf(hash string) string {
	return "registry.example.com/shop@sha256:" + hash + "1111111111111111"
}

func aFailure(step v1alpha1.Step, reason v1alpha1.FailureReason) *v1alpha1.Failure {
	return &v1alpha1.Failure{Step: step, Reason: reason, Message: fmt.Sprintf("It was %s.", reason)}
}

// remembering is a status that has seen these runs end, the newest first, which it shows.
func remembering(runs ...Run) v1alpha1.BuildStatus {
	var status v1alpha1.BuildStatus
	for _, run := range runs {
		status.History = append(status.History, run.Run)
		if run.Image != "" && status.Image == "" {
			status.Image = run.Image
		}
	}
	status.Run, status.Failure = runs[0].DeepCopy(), runs[0].Failure
	return status
}

// serving3 is a status whose newest image was seen to be available in three pods.
func serving3(status v1alpha1.BuildStatus) v1alpha1.BuildStatus {
	status.DeployedImage, status.Replicas = status.Image, 3
	return status
}

func TestRemembersTellsAJobByItsNameAndItsStart(t *testing.T) {
	status := remembering(good("n", 5))
	for _, c := range []struct {
		name  string
		start int
		want  bool
	}{{"shop-n", 5, true}, {"shop-n", 6, false}, {"shop-o", 5, false}} {
		job := theJob()
		job.Name, job.CreationTimestamp = c.name, at(c.start)
		if got := Remembers(status, job); got != c.want {
			t.Errorf("a Job %s made at %d is remembered: %v", c.name, c.start, got)
		}
	}
	if Remembers(v1alpha1.BuildStatus{Run: status.Run}, theJob()) {
		t.Error("a run that is only shown counts as remembered")
	}
}

func TestSettled(t *testing.T) {
	goesOn := remembering(bad("n", 1))
	goesOn.Run = ptr.To(goingOn("n", 50).Run)
	lost := remembering(good("n", 1))
	lost.Run = nil
	for name, c := range map[string]struct {
		status v1alpha1.BuildStatus
		want   bool
	}{
		"nothing was ever built":                          {v1alpha1.BuildStatus{}, false},
		"only others were built":                          {remembering(good("o", 1)), false},
		"a good run, just now":                            {remembering(good("n", 1)), true},
		"a good run, and others since":                    {remembering(bad("p", 3), good("o", 2), good("n", 1)), false},
		"a failed run, just now":                          {remembering(bad("n", 1)), true},
		"a failed run, and others since":                  {remembering(good("o", 2), bad("n", 1)), false},
		"a failed run that is being repeated":             {goesOn, false},
		"a good run of a status that lost its newest run": {lost, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Settled(&v1alpha1.Build{Status: c.status}, newestHash); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRuns(t *testing.T) {
	none := v1alpha1.BuildStatus{}
	rolledBack := remembering(good("n", 1))
	rolledBack.Failure = aFailure(v1alpha1.StepDeploy, v1alpha1.FailureRolloutFailed)
	showsOlder := remembering(good("o", 1))
	showsOlder.Run = ptr.To(goingOn("o", 20).Run)
	showsNewest := remembering(good("p", 10))
	showsNewest.Run = ptr.To(goingOn("n", 20).Run)
	lost := remembering(good("n", 1))
	lost.Run = nil
	const failed = v1alpha1.FailureBuildCommandFailed

	for name, c := range map[string]struct {
		before  v1alpha1.BuildStatus
		runs    []Run
		shown   string   // the hash of the newest run
		start   int      // and its start
		history []string // hashes
		image   string   // the hash it is of
		failure v1alpha1.FailureReason
	}{
		"no run yet":                                  {},
		"a first run":                                 {runs: []Run{goingOn("n", 1)}, shown: "n", start: 1},
		"a first run that waits":                      {runs: []Run{held("n", 1)}, shown: "n", start: 1, failure: v1alpha1.FailureSecretNotFound},
		"a first run that was good":                   {runs: []Run{good("n", 1)}, shown: "n", start: 1, history: []string{"n"}, image: "n"},
		"a first run that failed":                     {runs: []Run{bad("n", 1)}, shown: "n", start: 1, history: []string{"n"}, failure: failed},
		"a run that was seen to fail":                 {before: remembering(bad("n", 1)), shown: "n", start: 1, history: []string{"n"}, failure: failed},
		"a run that was seen to be good":              {before: remembering(good("n", 1)), shown: "n", start: 1, history: []string{"n"}, image: "n"},
		"a failure to deploy is not one of the run":   {before: rolledBack, shown: "n", start: 1, history: []string{"n"}, image: "n"},
		"a new run does not lose the image of before": {before: remembering(good("o", 1)), runs: []Run{goingOn("n", 20)}, shown: "n", start: 20, history: []string{"o"}, image: "o"},
		"a failed run does not lose it either":        {before: remembering(good("o", 1)), runs: []Run{bad("n", 20)}, shown: "n", start: 20, history: []string{"n", "o"}, image: "o", failure: failed},
		"the failure of older inputs is over":         {before: remembering(bad("o", 1)), runs: []Run{goingOn("n", 20)}, shown: "n", start: 20, history: []string{"o"}},
		"older inputs failed and the newest wait":     {before: remembering(bad("o", 1)), shown: "o", start: 1, history: []string{"o"}},
		"an older run ends while the newest inputs wait": {
			before: showsOlder, runs: []Run{good("o", 20)}, shown: "o", start: 20, history: []string{"o"}, image: "o",
		},
		"an older run fails while the newest inputs wait": {before: showsOlder, runs: []Run{bad("o", 20)}, shown: "o", start: 20, history: []string{"o"}, image: "o"},
		"two ends seen at once": {
			runs: []Run{good("n", 20), good("o", 1)}, shown: "n", start: 20, history: []string{"n", "o"}, image: "n",
		},
		"an older end seen late": {
			before: remembering(good("n", 20)), runs: []Run{good("o", 1)}, shown: "n", start: 20, history: []string{"n"}, image: "n",
		},
		"a dropped run seen again while the newest goes on": {
			before: showsNewest, runs: []Run{good("o", 1), goingOn("n", 20)}, shown: "n", start: 20, history: []string{"p"}, image: "p",
		},
		"a repeated run replaces the one of before": {
			before: remembering(good("o", 2), bad("n", 1)), runs: []Run{good("n", 20)}, shown: "n", start: 20, history: []string{"n", "o"}, image: "n",
		},
		"inputs of before again, the others are what runs until they are built": {
			before: remembering(good("o", 2), good("n", 1)), shown: "o", start: 2, history: []string{"o", "n"}, image: "o",
		},
		"the newest inputs, while others still run": {
			before: remembering(good("n", 1)), runs: []Run{goingOn("o", 20)}, shown: "n", start: 1, history: []string{"n"}, image: "n",
		},
		"a status that was lost is found again": {
			before: none, runs: []Run{good("o", 1), bad("n", 20)}, shown: "n", start: 20, history: []string{"n", "o"}, image: "o", failure: failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			build := &v1alpha1.Build{Status: c.before}
			before, given := build.DeepCopy(), slices.Clone(c.runs)
			got := Runs(build, newestHash, c.runs)
			if !reflect.DeepEqual(build, before) || !reflect.DeepEqual(given, c.runs) {
				t.Error("it changed what it was given")
			}

			run := ptr.Deref(got.Run, v1alpha1.Run{StartTime: ptr.To(at(0))})
			if run.Hash != c.shown || !run.StartTime.Time.Equal(at(c.start).Time) {
				t.Errorf("shown is %+v, want %q of %d", run, c.shown, c.start)
			}
			var history []string
			for _, run := range got.History {
				history = append(history, run.Hash)
			}
			if !slices.Equal(history, c.history) {
				t.Errorf("history is %q, want %q", history, c.history)
			}
			image := ""
			if c.image != "" {
				image = imageOf(c.image)
			}
			if got.Image != image {
				t.Errorf("image is %q, want %q", got.Image, image)
			}
			if failure := ptr.Deref(got.Failure, v1alpha1.Failure{}); failure.Reason != c.failure {
				t.Errorf("failure is %q, want %q", failure.Reason, c.failure)
			}
		})
	}
}

func TestRunsOfTheSameStatusTwiceIsTheSame(t *testing.T) {
	for _, runs := range [][]Run{{good("n", 1)}, {bad("n", 1)}, {bad("n", 20), good("o", 1)}} {
		once := Runs(&v1alpha1.Build{}, newestHash, runs)
		if twice := Runs(&v1alpha1.Build{Status: once}, newestHash, nil); !reflect.DeepEqual(once, twice) {
			t.Errorf("after\n%+v comes\n%+v", once, twice)
		}
	}
}

// Its Job was deleted, but the watch does not show that yet: it is seen once more, and must not bring its image back.
func TestARunThatTheHistoryHasDroppedDoesNotComeBack(t *testing.T) {
	build := &v1alpha1.Build{Status: remembering(good("o", 1))}
	build.Spec.History = &v1alpha1.History{Successful: ptr.To[int32](1)}
	build.Status = Runs(build, newestHash, []Run{good("n", 20)})
	got := Runs(build, newestHash, []Run{good("o", 1)})
	if !reflect.DeepEqual(got, build.Status) {
		t.Errorf("after\n%+v comes\n%+v", build.Status, got)
	}
}

func TestHowManyRunsAreKept(t *testing.T) {
	runs := []Run{good("a", 10), bad("b", 9), good("c", 8), good("d", 7), bad("e", 6), good("f", 5), bad("g", 4), bad("h", 3)}
	limits := func(successful, failed int32) *v1alpha1.History {
		return &v1alpha1.History{Successful: &successful, Failed: &failed}
	}
	for name, c := range map[string]struct {
		limits *v1alpha1.History
		shown  string
		want   []string
	}{
		"three of each, when nothing is said": {nil, "a", []string{"a", "b", "c", "d", "e", "g"}},
		"three of the one that is not said":   {&v1alpha1.History{Failed: ptr.To[int32](1)}, "a", []string{"a", "b", "c", "d"}},
		"as many as there are":                {limits(50, 50), "a", []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
		"none but the one that is shown":      {limits(0, 0), "a", []string{"a"}},
		"none but an old one that is shown":   {limits(0, 0), "h", []string{"h"}},
		"the shown one beside the newest":     {limits(1, 1), "f", []string{"a", "b", "f"}},
		"none at all":                         {limits(0, 0), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var history []v1alpha1.Run
			for _, run := range runs {
				history = append(history, run.Run)
			}
			var shown *v1alpha1.Run
			if c.shown != "" {
				shown = ptr.To(goingOn(c.shown, 1).Run)
			}
			var got []string
			for _, run := range trimmed(history, c.limits, shown) {
				got = append(got, run.Hash)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("kept %q, want %q", got, c.want)
			}
		})
	}
}

func TestConclude(t *testing.T) {
	gone := func(d *appsv1.Deployment) { d.Status.Conditions[1].Reason = progressDeadlineExceeded }
	moves := func(d *appsv1.Deployment) { d.Status.Conditions[1].Reason = "ReplicaSetUpdated" }
	sick := func(d *appsv1.Deployment) { d.Status.Conditions[0].Status, d.Status.AvailableReplicas = "False", 1 }
	well := func(*appsv1.Deployment) {}
	foreignJob := aFailure(v1alpha1.StepSchedule, v1alpha1.FailureResourceExists)
	foreignDeployment := aFailure(v1alpha1.StepDeploy, v1alpha1.FailureResourceExists)

	for name, c := range map[string]struct {
		runOnly    bool
		before     v1alpha1.BuildStatus
		runs       []Run
		hold       Hold
		obstacle   *v1alpha1.Failure
		deployment func(*appsv1.Deployment) // nil: none
		// The phase and the conditions as "status reason".
		phase                  v1alpha1.Phase
		built, deployed, ready string
		failure                v1alpha1.FailureReason
	}{
		"the first run": {
			runs: []Run{goingOn("n", 1)}, phase: "Building", built: "Unknown Building", deployed: "Unknown WaitingForImage", ready: "Unknown Building",
		},
		"the first run waits for what is missing": {
			runs: []Run{held("n", 1)}, phase: "Pending", failure: "SecretNotFound",
			built: "False SecretNotFound", deployed: "Unknown WaitingForImage", ready: "False SecretNotFound",
		},
		"the first run failed": {
			runs: []Run{bad("n", 1)}, phase: "Failed", failure: "BuildCommandFailed",
			built: "False BuildCommandFailed", deployed: "Unknown WaitingForImage", ready: "False BuildCommandFailed",
		},
		"the image is there, the Deployment is not": {
			runs: []Run{good("n", 1)}, phase: "Deploying", built: "True Succeeded", deployed: "Unknown Deploying", ready: "Unknown Deploying",
		},
		"the Deployment moves": {
			runs: []Run{good("n", 1)}, deployment: moves, phase: "Deploying", built: "True Succeeded", deployed: "Unknown Deploying", ready: "Unknown Deploying",
		},
		"all is done": {
			runs: []Run{good("n", 1)}, deployment: well, phase: "Ready", built: "True Succeeded", deployed: "True Available", ready: "True Ready",
		},
		"all is done, and was done before": {
			before: remembering(good("n", 1)), deployment: well, phase: "Ready", built: "True Succeeded", deployed: "True Available", ready: "True Ready",
		},
		"the rollout failed": {
			runs: []Run{good("n", 1)}, deployment: gone, phase: "Failed", failure: "RolloutFailed",
			built: "True Succeeded", deployed: "False RolloutFailed", ready: "False RolloutFailed",
		},
		"the application is not well any more": {
			before: serving3(remembering(good("n", 1))), deployment: sick, phase: "Failed", failure: "Unavailable",
			built: "True Succeeded", deployed: "False Unavailable", ready: "False Unavailable",
		},

		"only built, all is done":            {runOnly: true, runs: []Run{good("n", 1)}, phase: "Ready", built: "True Succeeded", ready: "True Ready"},
		"only built, under way":              {runOnly: true, runs: []Run{goingOn("n", 1)}, phase: "Building", built: "Unknown Building", ready: "Unknown Building"},
		"only built, the run failed":         {runOnly: true, runs: []Run{bad("n", 1)}, phase: "Failed", failure: "BuildCommandFailed", built: "False BuildCommandFailed", ready: "False BuildCommandFailed"},
		"only built, an older image is none": {runOnly: true, before: remembering(good("o", 1)), runs: []Run{goingOn("n", 20)}, phase: "Building", built: "Unknown Building", ready: "Unknown Building"},

		"a new run while the application is well": {
			before: remembering(good("o", 1)), runs: []Run{goingOn("n", 20)}, deployment: well,
			phase: "Building", built: "Unknown Building", deployed: "True Available", ready: "Unknown Building",
		},
		"a new run failed while the application is well": {
			before: remembering(good("o", 1)), runs: []Run{bad("n", 20)}, deployment: well, failure: "BuildCommandFailed",
			phase: "Failed", built: "False BuildCommandFailed", deployed: "True Available", ready: "False BuildCommandFailed",
		},
		"a new run waits while the application is not well": {
			before: serving3(remembering(good("o", 1))), runs: []Run{held("n", 20)}, deployment: sick, failure: "SecretNotFound",
			phase: "Pending", built: "False SecretNotFound", deployed: "False Unavailable", ready: "False SecretNotFound",
		},
		"a new run while the application is not well": {
			before: serving3(remembering(good("o", 1))), runs: []Run{goingOn("n", 20)}, deployment: sick, failure: "Unavailable",
			phase: "Failed", built: "Unknown Building", deployed: "False Unavailable", ready: "False Unavailable",
		},
		"both the run and the rollout failed: the run is told of": {
			before: remembering(good("o", 1)), runs: []Run{bad("n", 20)}, deployment: gone, failure: "BuildCommandFailed",
			phase: "Failed", built: "False BuildCommandFailed", deployed: "False RolloutFailed", ready: "False BuildCommandFailed",
		},

		"the newest inputs wait for a run": {
			before: remembering(good("o", 1)), hold: Queued, deployment: well,
			phase: "Queued", built: "Unknown Queued", deployed: "True Available", ready: "Unknown Queued",
		},
		"the newest inputs wait, older ones failed": {
			before: remembering(bad("o", 1)), hold: Queued, phase: "Queued", built: "Unknown Queued", deployed: "Unknown WaitingForImage", ready: "Unknown Queued",
		},
		"suspended before the first run": {
			hold: Suspended, phase: "Suspended", built: "Unknown Suspended", deployed: "Unknown WaitingForImage", ready: "Unknown Suspended",
		},
		"suspended with an application that is well": {
			before: remembering(good("o", 1)), hold: Suspended, deployment: well,
			phase: "Suspended", built: "Unknown Suspended", deployed: "True Available", ready: "Unknown Suspended",
		},
		"suspended with an application that is not well": {
			before: serving3(remembering(good("o", 1))), hold: Suspended, deployment: sick, failure: "Unavailable",
			phase: "Failed", built: "Unknown Suspended", deployed: "False Unavailable", ready: "False Unavailable",
		},

		"the Job cannot be made": {
			obstacle: foreignJob, phase: "Failed", failure: "ErrResourceExists",
			built: "False ErrResourceExists", deployed: "Unknown WaitingForImage", ready: "False ErrResourceExists",
		},
		"the Job cannot be made, the application is well": {
			before: remembering(good("o", 1)), obstacle: foreignJob, deployment: well, phase: "Failed", failure: "ErrResourceExists",
			built: "False ErrResourceExists", deployed: "True Available", ready: "False ErrResourceExists",
		},
		"the Deployment cannot be made": {
			runs: []Run{good("n", 1)}, obstacle: foreignDeployment, phase: "Failed", failure: "ErrResourceExists",
			built: "True Succeeded", deployed: "False ErrResourceExists", ready: "False ErrResourceExists",
		},
		"the Service cannot be made, the Deployment is well": {
			runs: []Run{good("n", 1)}, obstacle: foreignDeployment, deployment: well, phase: "Failed", failure: "ErrResourceExists",
			built: "True Succeeded", deployed: "False ErrResourceExists", ready: "False ErrResourceExists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			build := &v1alpha1.Build{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Status: c.before}
			outcome := Outcome{Hold: c.hold, Obstacle: c.obstacle}
			if !c.runOnly {
				build.Spec.Deployment = &v1alpha1.Deployment{}
			}
			status := Runs(build, newestHash, c.runs)
			if !c.runOnly {
				outcome.App.Image = status.Image
			}
			if c.deployment != nil {
				outcome.App.Deployment = aDeployment(c.deployment)
			}
			got := Conclude(build, status, newestHash, outcome, at(100))

			if got.Phase != c.phase {
				t.Errorf("phase is %s, want %s", got.Phase, c.phase)
			}
			for conditionType, want := range map[string]string{"Built": c.built, "Deployed": c.deployed, "Ready": c.ready} {
				is := ""
				if condition := meta.FindStatusCondition(got.Conditions, conditionType); condition != nil {
					is = string(condition.Status) + " " + condition.Reason
					if condition.Message == "" || condition.ObservedGeneration != 7 {
						t.Errorf("condition is %+v", condition)
					}
				}
				if is != want {
					t.Errorf("%s is %q, want %q", conditionType, is, want)
				}
			}
			if failure := ptr.Deref(got.Failure, v1alpha1.Failure{}); failure.Reason != c.failure {
				t.Errorf("failure is %+v, want %q", failure, c.failure)
			}
			if got.ObservedGeneration != 7 {
				t.Errorf("observedGeneration is %d", got.ObservedGeneration)
			}
			again := build.DeepCopy()
			again.Status = got
			if twice := Conclude(again, Runs(again, newestHash, stillOn(c.runs)), newestHash, outcome, at(200)); !reflect.DeepEqual(got, twice) {
				t.Errorf("the next sync makes\n%+v of\n%+v", twice, got)
			}
		})
	}
}

// stillOn are the runs that the next sync sees again.
func stillOn(runs []Run) []Run {
	return slices.DeleteFunc(slices.Clone(runs), Run.Ended)
}

// crashesAt is an application at that image, by its hash, whose pods crash for certain.
func crashesAt(image string) Application {
	return Application{Image: imageOf(image), Deployment: aDeployment(rollsOut), Trouble: Trouble{Certain: true, Failure: &v1alpha1.Failure{
		Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureCrashLoopBackOff, Message: "It crashes.", LogTail: "panic",
	}}}
}

func TestWhichRolloutsAreTakenBack(t *testing.T) {
	becomes := func(change func(*appsv1.Deployment)) func(*Application) {
		return func(a *Application) { change(a.Deployment); a.Trouble = Trouble{} }
	}
	late := func(d *appsv1.Deployment) { d.Status.Conditions[1].Reason = progressDeadlineExceeded }
	for name, c := range map[string]struct {
		build  func(*v1alpha1.Build)
		app    func(*Application)
		reason v1alpha1.FailureReason // of the rollback; "": there is none
	}{
		"one that crashes for certain":       {reason: v1alpha1.FailureCrashLoopBackOff},
		"one that made no progress in time":  {app: becomes(late), reason: v1alpha1.FailureRolloutFailed},
		"one that crashes past its deadline": {app: func(a *Application) { late(a.Deployment); a.Trouble.Certain = false }, reason: v1alpha1.FailureCrashLoopBackOff},
		"one when that is said":              {build: func(b *v1alpha1.Build) { b.Spec.Deployment.OnFailure = v1alpha1.OnFailureRollback }, reason: v1alpha1.FailureCrashLoopBackOff},
		"one whose run is followed by another": {build: func(b *v1alpha1.Build) {
			b.Status.Run, b.Status.Failure = ptr.To(bad("m", 50).Run), bad("m", 50).Failure
		}, reason: v1alpha1.FailureCrashLoopBackOff},

		"none that may still get there": {app: func(a *Application) { a.Trouble.Certain = false }},
		"none that goes well":           {app: becomes(func(*appsv1.Deployment) {})},
		"none that was done and is not available": {app: becomes(func(d *appsv1.Deployment) {
			*d = *aDeployment(func(d *appsv1.Deployment) { d.Status.Conditions[0].Status = "False" })
		})},
		"none that is to be kept":                {build: func(b *v1alpha1.Build) { b.Spec.Deployment.OnFailure = v1alpha1.OnFailureKeep }},
		"none of a pinned image":                 {build: func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = "sha256:111111111111" }},
		"none when nothing was available before": {build: func(b *v1alpha1.Build) { b.Status.DeployedImage = "" }},
		"none of the image that was available":   {build: func(b *v1alpha1.Build) { b.Status.DeployedImage = imageOf("n") }},
		"none of an older image":                 {build: func(b *v1alpha1.Build) { b.Status.Image = imageOf("m") }},
	} {
		t.Run(name, func(t *testing.T) {
			build := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Deployment: &v1alpha1.Deployment{}}, Status: remembering(good("n", 20), good("o", 1))}
			build.Status.DeployedImage = imageOf("o")
			app := crashesAt("n")
			if c.build != nil {
				c.build(build)
			}
			if c.app != nil {
				c.app(&app)
			}
			got := Conclude(build, *build.Status.DeepCopy(), newestHash, Outcome{App: app}, at(100)).Rollback
			if c.reason == "" {
				if got != nil {
					t.Errorf("it is taken back: %+v", got)
				}
				return
			}
			if got == nil || got.From != imageOf("n") || got.To != imageOf("o") || got.Rollout != "newest" || got.Failure.Reason != c.reason || got.Failure.Message == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestTheWayOfARolloutThatIsTakenBack(t *testing.T) {
	well := func(image string) Application {
		return Application{Image: imageOf(image), Deployment: aDeployment(func(*appsv1.Deployment) {})}
	}
	moves := Application{Image: imageOf("o"), Deployment: aDeployment(rollsOut)}
	build := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Deployment: &v1alpha1.Deployment{}}}
	for _, step := range []struct {
		name     string
		hash     string // of the newest inputs
		runs     []Run
		hold     Hold
		app      Application
		phase    v1alpha1.Phase
		deployed string // "status reason"
		message  string // what the condition ends with
		failure  v1alpha1.FailureReason
		tail     string
		taken    bool
		runsNow  string // the image that was last seen to be available
	}{
		{"the first image runs", "o", []Run{good("o", 1)}, "", well("o"), "Ready", "True Available", imageOf("o") + ".", "", "", false, "o"},
		{"the next one crashes", "n", []Run{good("n", 20)}, "", crashesAt("n"), "Failed", "False CrashLoopBackOff", "It crashes.", "CrashLoopBackOff", "panic", true, "o"},
		{"the first one comes back", "n", nil, "", moves, "Failed", "False CrashLoopBackOff", "The Deployment returns to " + imageOf("o") + ": The Deployment moves to " + imageOf("o") + ".", "CrashLoopBackOff", "panic", true, "o"},
		{"it crashes now, too", "n", nil, "", crashesAt("o"), "Failed", "False CrashLoopBackOff", "The Deployment returns to " + imageOf("o") + ": It crashes.", "CrashLoopBackOff", "panic", true, "o"},
		{"it runs", "n", nil, "", well("o"), "Failed", "False CrashLoopBackOff", "It crashes. The Deployment has returned to " + imageOf("o") + ", which is available.", "CrashLoopBackOff", "panic", true, "o"},
		{"there are newer inputs, which wait", "m", nil, Suspended, well("o"), "Suspended", "False CrashLoopBackOff", "which is available.", "CrashLoopBackOff", "panic", true, "o"},
		{"they are built", "m", []Run{goingOn("m", 50)}, "", well("o"), "Building", "False CrashLoopBackOff", "which is available.", "CrashLoopBackOff", "panic", true, "o"},
		{"their run waits for what is missing", "m", []Run{held("m", 50)}, "", well("o"), "Pending", "False CrashLoopBackOff", "which is available.", "SecretNotFound", "", true, "o"},
		{"their run failed", "m", []Run{bad("m", 50)}, "", well("o"), "Failed", "False CrashLoopBackOff", "which is available.", "BuildCommandFailed", "", true, "o"},
		{"the next run is good, and its image moves in", "l", []Run{good("l", 70)}, "", Application{Image: imageOf("l"), Deployment: aDeployment(rollsOut)}, "Deploying", "Unknown Deploying", "moves to " + imageOf("l") + ".", "", "", false, "o"},
		{"it runs after all", "l", nil, "", well("l"), "Ready", "True Available", imageOf("l") + ".", "", "", false, "l"},
	} {
		outcome := Outcome{Hold: step.hold, App: step.app}
		build.Status = Conclude(build, Runs(build, step.hash, step.runs), step.hash, outcome, at(100))
		got := build.Status
		condition := deployedCondition(got)
		if is := string(condition.Status) + " " + condition.Reason; is != step.deployed || !strings.HasSuffix(condition.Message, step.message) {
			t.Errorf("%s: the condition is %s, %q", step.name, is, condition.Message)
		}
		if failure := ptr.Deref(got.Failure, v1alpha1.Failure{}); failure.Reason != step.failure || failure.LogTail != step.tail {
			t.Errorf("%s: failure is %+v", step.name, failure)
		}
		if got.Phase != step.phase || got.DeployedImage != imageOf(step.runsNow) || (got.Rollback != nil) != step.taken {
			t.Errorf("%s: the phase is %s, %s was available, the rollback is %+v", step.name, got.Phase, got.DeployedImage, got.Rollback)
		}
		if !strings.HasPrefix(step.app.Image, "registry.example.com/shop@"+got.ShortDigest) {
			t.Errorf("%s: the short digest is %s", step.name, got.ShortDigest)
		}
		if twice := Conclude(build, Runs(build, step.hash, stillOn(step.runs)), step.hash, outcome, at(200)); !reflect.DeepEqual(got, twice) {
			t.Errorf("%s: the next sync makes\n%+v of\n%+v", step.name, twice, got)
		}
	}
}

func TestAConditionKeepsTheTimeOfItsTransition(t *testing.T) {
	build := &v1alpha1.Build{}
	build.Status = Conclude(build, Runs(build, newestHash, []Run{goingOn("n", 1)}), newestHash, Outcome{}, at(1))
	build.Status = Conclude(build, Runs(build, newestHash, []Run{held("n", 1)}), newestHash, Outcome{}, at(2))
	build.Status = Conclude(build, Runs(build, newestHash, []Run{bad("n", 1)}), newestHash, Outcome{}, at(3))
	condition := meta.FindStatusCondition(build.Status.Conditions, v1alpha1.ConditionBuilt)
	if condition.Reason != "BuildCommandFailed" || !condition.LastTransitionTime.Time.Equal(at(2).Time) {
		t.Errorf("it has %+v; it became False at 2 s", condition)
	}
}

func TestADeploymentThatIsNotAskedForAnyMoreHasNoCondition(t *testing.T) {
	build := &v1alpha1.Build{Status: remembering(good("n", 1))}
	build.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDeployed, Status: "False", Reason: "RolloutFailed"}}
	got := Conclude(build, build.Status, newestHash, Outcome{}, at(1))
	if meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionDeployed) != nil || got.Phase != v1alpha1.PhaseReady {
		t.Errorf("got %+v", got)
	}
	if len(build.Status.Conditions) != 1 || build.Status.Conditions[0].Reason != "RolloutFailed" {
		t.Error("the conditions of the Build were changed in place")
	}
}

func TestTheShortDigestIsTheStartOfTheImages(t *testing.T) {
	for image, want := range map[string]string{theImage: "sha256:111111111111", "": "", "no-digest": "", "short@sha256:1": ""} {
		if got := Conclude(&v1alpha1.Build{}, v1alpha1.BuildStatus{Image: image}, newestHash, Outcome{}, at(1)); got.ShortDigest != want {
			t.Errorf("of %q it is %q, want %q", image, got.ShortDigest, want)
		}
	}
}
