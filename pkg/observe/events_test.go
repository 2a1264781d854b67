package observe

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// status is one with these changes.
func status(base v1alpha1.BuildStatus, changes ...func(*v1alpha1.BuildStatus)) v1alpha1.BuildStatus {
	changed := *base.DeepCopy()
	for _, change := range changes {
		change(&changed)
	}
	return changed
}

func shows(run Run) func(*v1alpha1.BuildStatus) {
	return func(s *v1alpha1.BuildStatus) { s.Run, s.Failure = run.DeepCopy(), run.Failure }
}

func failing(step v1alpha1.Step, reason v1alpha1.FailureReason) func(*v1alpha1.BuildStatus) {
	return func(s *v1alpha1.BuildStatus) { s.Failure = aFailure(step, reason) }
}

func deployedIs(reason string) func(*v1alpha1.BuildStatus) {
	return func(s *v1alpha1.BuildStatus) {
		is := metav1.ConditionUnknown
		switch reason {
		case "Available":
			is = metav1.ConditionTrue
		case "RolloutFailed", "Unavailable", "Rejected":
			is = metav1.ConditionFalse
		}
		s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDeployed, Status: is, Reason: reason, Message: "It was."}}
	}
}

// gaveUp is a status whose rollout came to this end.
func gaveUp(reason string) func(*v1alpha1.BuildStatus) {
	return func(s *v1alpha1.BuildStatus) {
		deployedIs(reason)(s)
		s.Conditions[0].Status = metav1.ConditionFalse
	}
}

// runs is a status whose Deployment was last seen to be available with this image.
func runs(name string) func(*v1alpha1.BuildStatus) {
	return func(s *v1alpha1.BuildStatus) { s.DeployedImage = imageOf(name) }
}

// back is a status whose Deployment has returned to this image.
func back(from, to string) func(*v1alpha1.BuildStatus) {
	return func(s *v1alpha1.BuildStatus) {
		s.Rollback = &v1alpha1.Rollback{From: imageOf(from), To: imageOf(to), Rollout: from}
	}
}

func TestEvents(t *testing.T) {
	none := v1alpha1.BuildStatus{}
	const schedule, source, deploy = v1alpha1.StepSchedule, v1alpha1.StepSource, v1alpha1.StepDeploy
	for name, c := range map[string]struct {
		before, after v1alpha1.BuildStatus
		want          []string // "Type Reason"
		says          []string // parts of the first message
	}{
		"a run begins":                      {none, status(none, shows(goingOn("n", 1))), []string{"Normal BuildStarted"}, []string{"shop-n", "the default branch"}},
		"a run begins after another":        {remembering(good("o", 1)), status(remembering(good("o", 1)), shows(goingOn("n", 20))), []string{"Normal BuildStarted"}, nil},
		"the same Job is made once more":    {status(none, shows(goingOn("n", 1))), status(none, shows(goingOn("n", 20))), []string{"Normal BuildStarted"}, nil},
		"a run learns its commit":           {status(none, shows(goingOn("n", 1))), status(none, shows(goingOn("n", 1)), func(s *v1alpha1.BuildStatus) { s.Run.Commit = theCommit }), nil, nil},
		"a run was good":                    {status(none, shows(goingOn("n", 1))), remembering(good("n", 1)), []string{"Normal BuildSucceeded"}, []string{"shop-n", imageOf("n"), "2280e99"}},
		"a run failed":                      {status(none, shows(goingOn("n", 1))), remembering(bad("n", 1)), []string{"Warning BuildFailed"}, []string{"shop-n", "BuildCommandFailed", "It was"}},
		"a run was over before it was seen": {none, remembering(good("n", 1)), []string{"Normal BuildSucceeded"}, nil},
		"two runs ended, the older is told of first": {
			none, remembering(good("n", 20), bad("o", 1)), []string{"Warning BuildFailed", "Normal BuildSucceeded"}, []string{"shop-o"},
		},
		"a run failed again":                       {remembering(bad("n", 1)), remembering(bad("n", 20)), []string{"Warning BuildFailed"}, nil},
		"an old run is forgotten":                  {remembering(good("n", 20), good("o", 1)), remembering(good("n", 20)), nil, nil},
		"a run was cancelled, the next one begins": {status(none, shows(goingOn("o", 1))), status(none, shows(goingOn("n", 20))), []string{"Normal BuildStarted"}, nil},

		"a run waits for what is missing":       {status(none, shows(goingOn("n", 1))), status(none, shows(held("n", 1))), []string{"Warning BuildWaiting"}, []string{"SecretNotFound: It was"}},
		"a run begins and waits at once":        {none, status(none, shows(held("n", 1))), []string{"Normal BuildStarted", "Warning BuildWaiting"}, nil},
		"it still waits, said in other words":   {status(none, shows(held("n", 1))), status(none, shows(held("n", 1)), func(s *v1alpha1.BuildStatus) { s.Failure.Message = "Still." }), nil, nil},
		"it waits for something else":           {status(none, shows(held("n", 1))), status(none, shows(held("n", 1)), failing(schedule, v1alpha1.FailureUnschedulable)), []string{"Warning BuildWaiting"}, []string{"Unschedulable"}},
		"it waits for the same in another step": {status(none, shows(held("n", 1))), status(none, shows(held("n", 1)), failing(v1alpha1.StepPush, v1alpha1.FailureSecretNotFound)), []string{"Warning BuildWaiting"}, nil},
		"it waits no more":                      {status(none, shows(held("n", 1))), status(none, shows(goingOn("n", 1))), nil, nil},

		"the Job cannot be made":        {none, status(none, failing(schedule, v1alpha1.FailureResourceExists)), []string{"Warning ErrResourceExists"}, []string{"It was"}},
		"the Job still cannot be made":  {status(none, failing(schedule, v1alpha1.FailureResourceExists)), status(none, failing(schedule, v1alpha1.FailureResourceExists)), nil, nil},
		"nor can the Deployment":        {status(none, failing(schedule, v1alpha1.FailureRejected)), status(none, failing(deploy, v1alpha1.FailureRejected), deployedIs("Rejected")), []string{"Warning Rejected"}, nil},
		"the rollout failed":            {remembering(good("n", 1)), status(remembering(good("n", 1)), deployedIs("RolloutFailed")), []string{"Warning RolloutFailed"}, nil},
		"the application is not well":   {remembering(good("n", 1)), status(remembering(good("n", 1)), deployedIs("Unavailable")), []string{"Warning Unavailable"}, nil},
		"the application is well again": {status(remembering(good("n", 1)), failing(deploy, v1alpha1.FailureUnavailable), deployedIs("Unavailable")), status(remembering(good("n", 1)), deployedIs("Available")), []string{"Normal Deployed"}, nil},

		"the image runs":                   {status(remembering(good("n", 1)), deployedIs("Deploying")), status(remembering(good("n", 1)), deployedIs("Available")), []string{"Normal Deployed"}, []string{"It was."}},
		"another image runs at once":       {status(remembering(good("o", 1)), deployedIs("Available"), runs("o")), status(remembering(good("n", 20), good("o", 1)), deployedIs("Available"), runs("n")), []string{"Normal BuildSucceeded", "Normal Deployed"}, nil},
		"the application moves on":         {status(remembering(good("n", 1)), deployedIs("Available")), status(remembering(good("n", 1)), deployedIs("Deploying")), nil, nil},
		"the application grows":            {status(remembering(good("n", 1)), deployedIs("Available")), status(remembering(good("n", 1)), deployedIs("Scaling")), nil, nil},
		"the application has grown":        {status(remembering(good("n", 1)), deployedIs("Scaling")), status(remembering(good("n", 1)), deployedIs("Available")), nil, nil},
		"another image runs while it grew": {status(remembering(good("o", 1)), deployedIs("Scaling"), runs("o")), status(remembering(good("o", 1)), deployedIs("Available"), runs("n")), []string{"Normal Deployed"}, nil},

		"a pod of the rollout is in trouble": {status(none, deployedIs("Deploying")), status(none, deployedIs("CrashLoopBackOff")), []string{"Warning RolloutWaiting"}, []string{"CrashLoopBackOff: It was"}},
		"it still is":                        {status(none, deployedIs("CrashLoopBackOff")), status(none, deployedIs("CrashLoopBackOff")), nil, nil},
		"the trouble has passed":             {status(none, deployedIs("Unschedulable")), status(none, deployedIs("Deploying")), nil, nil},
		"the rollout is given up":            {status(none, deployedIs("CrashLoopBackOff")), status(none, gaveUp("CrashLoopBackOff")), []string{"Warning RolloutFailed"}, []string{"CrashLoopBackOff: It was"}},
		"the rollout is given up and taken back": {
			status(none, deployedIs("CrashLoopBackOff")), status(none, gaveUp("CrashLoopBackOff"), back("n", "o")),
			[]string{"Warning RolloutFailed", "Normal RolledBack"}, nil,
		},
		"the older image runs again":     {status(none, gaveUp("NotReady"), back("n", "o")), status(none, gaveUp("NotReady"), back("n", "o"), runs("o")), nil, nil},
		"a second rollout is taken back": {status(none, gaveUp("NotReady"), back("n", "o")), status(none, gaveUp("NotReady"), back("m", "o")), []string{"Normal RolledBack"}, []string{imageOf("m"), imageOf("o")}},
		"a template cannot be merged":    {none, status(none, gaveUp("InvalidTemplate")), []string{"Warning InvalidTemplate"}, nil},
		"the phase alone changes":        {none, status(none, func(s *v1alpha1.BuildStatus) { s.Phase, s.ObservedGeneration = "Queued", 3 }), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			events := Events(c.before, c.after)
			var got []string
			for _, event := range events {
				got = append(got, event.Type+" "+event.Reason)
				if event.Message == "" {
					t.Errorf("%s says nothing", event.Reason)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for _, part := range c.says {
				if !strings.Contains(events[0].Message, part) {
					t.Errorf("%q does not say %q", events[0].Message, part)
				}
			}
			for _, same := range []v1alpha1.BuildStatus{c.before, c.after} {
				if got := Events(same, *same.DeepCopy()); len(got) != 0 {
					t.Errorf("the same status twice gives %v", got)
				}
			}
		})
	}
}
