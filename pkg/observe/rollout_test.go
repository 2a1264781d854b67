package observe

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// aDeployment is one whose rollout is done and all of whose pods are available, changed.
func aDeployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 2},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: newReplicaSetAvailable},
			},
		},
	}
	change(deployment)
	return deployment
}

func TestRollout(t *testing.T) {
	available := func(d *appsv1.Deployment) *appsv1.DeploymentCondition { return &d.Status.Conditions[0] }
	progressing := func(d *appsv1.Deployment) *appsv1.DeploymentCondition { return &d.Status.Conditions[1] }
	updated := func(d *appsv1.Deployment) { progressing(d).Reason = "ReplicaSetUpdated" }
	for name, c := range map[string]struct {
		change    func(*appsv1.Deployment)
		rolledOut string // the reason with which this image and spec were rolled out before; "" if they were not
		status    metav1.ConditionStatus
		reason    string
	}{
		"done and available":                     {func(*appsv1.Deployment) {}, "", "True", "Available"},
		"done with no pods at all, as asked for": {func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.UpdatedReplicas = 0, 0 }, "", "True", "Available"},

		"nothing observed yet":                     {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }, "", "Unknown", "Deploying"},
		"an older generation observed":             {func(d *appsv1.Deployment) { d.Generation = 3 }, "", "Unknown", "Deploying"},
		"an older generation that had failed":      {func(d *appsv1.Deployment) { d.Generation, progressing(d).Reason = 3, progressDeadlineExceeded }, "", "Unknown", "Deploying"},
		"a new ReplicaSet made":                    {func(d *appsv1.Deployment) { progressing(d).Reason = "NewReplicaSetCreated" }, "", "Unknown", "Deploying"},
		"pods come up":                             {updated, "", "Unknown", "Deploying"},
		"pods come up while too few are available": {func(d *appsv1.Deployment) { updated(d); available(d).Status = "False" }, "", "Unknown", "Deploying"},
		"old pods are still there":                 {func(d *appsv1.Deployment) { d.Status.Replicas = 4 }, "", "Unknown", "Deploying"},
		"no conditions at all":                     {func(d *appsv1.Deployment) { d.Status.Conditions = nil }, "", "Unknown", "Deploying"},
		"no progress in time": {func(d *appsv1.Deployment) {
			progressing(d).Reason, progressing(d).Status = progressDeadlineExceeded, "False"
		}, "", "False", "RolloutFailed"},
		"no progress in time, old pods still serve": {func(d *appsv1.Deployment) {
			progressing(d).Reason, d.Status.UpdatedReplicas = progressDeadlineExceeded, 1
		}, "", "False", "RolloutFailed"},
		"done, and since then too few are available":  {func(d *appsv1.Deployment) { available(d).Status = "False" }, "", "False", "Unavailable"},
		"done, and nothing said of what is available": {func(d *appsv1.Deployment) { d.Status.Conditions = d.Status.Conditions[1:] }, "", "False", "Unavailable"},

		"rolled out before, more pods come up":                  {updated, "Available", "True", "Available"},
		"rolled out before, more pods come up than can be had":  {func(d *appsv1.Deployment) { updated(d); available(d).Status = "False" }, "Available", "Unknown", "Scaling"},
		"rolled out before, a new generation is not seen yet":   {func(d *appsv1.Deployment) { d.Generation = 3 }, "Available", "True", "Available"},
		"rolled out before, the Deployment was made anew":       {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }, "Available", "Unknown", "Deploying"},
		"rolled out before, someone rolls out something else":   {func(d *appsv1.Deployment) { updated(d); d.Status.UpdatedReplicas = 1 }, "Available", "Unknown", "Deploying"},
		"rolled out before, pods went away":                     {func(d *appsv1.Deployment) { available(d).Status = "False" }, "Available", "False", "Unavailable"},
		"unavailable before, a new generation is not seen yet":  {func(d *appsv1.Deployment) { d.Generation = 3 }, "Unavailable", "False", "Unavailable"},
		"unavailable before, and well again":                    {func(*appsv1.Deployment) {}, "Unavailable", "True", "Available"},
		"scaling before, and a new generation is not seen yet":  {func(d *appsv1.Deployment) { d.Generation = 3 }, "Scaling", "Unknown", "Scaling"},
		"rolled out before, and what someone began got nowhere": {func(d *appsv1.Deployment) { progressing(d).Reason = progressDeadlineExceeded }, "Available", "False", "RolloutFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			before := v1alpha1.BuildStatus{Conditions: []metav1.Condition{conditionBefore(c.rolledOut)}}
			got, failure := rollout(Application{Image: theImage, Deployment: aDeployment(c.change)}, before, c.rolledOut != "")
			if got.Type != "Deployed" || got.Status != c.status || got.Reason != c.reason || got.Message == "" {
				t.Errorf("got %+v, want %s with reason %s", got, c.status, c.reason)
			}
			if (failure != nil) != (c.status == metav1.ConditionFalse) {
				t.Fatalf("failure is %+v", failure)
			}
			if failure == nil {
				if !strings.Contains(got.Message, theImage) {
					t.Errorf("%q does not name the image", got.Message)
				}
			} else if string(failure.Reason) != c.reason || failure.Step != "Deploy" || failure.Message != got.Message || !strings.Contains(failure.Message, "buildcontroller.dev/app=shop") {
				t.Errorf("failure is %+v", failure)
			}
		})
	}
}

// conditionBefore is what an earlier sync said of theImage with that reason.
func conditionBefore(reason string) metav1.Condition {
	before := metav1.Condition{Type: v1alpha1.ConditionDeployed, Reason: reason, Message: "It was " + theImage + " of buildcontroller.dev/app=shop."}
	switch reason {
	case v1alpha1.ReasonAvailable:
		before.Status = metav1.ConditionTrue
	case v1alpha1.ReasonScaling:
		before.Status = metav1.ConditionUnknown
	default:
		before.Status = metav1.ConditionFalse
	}
	return before
}

func TestARolloutCountsOnlyForTheSpecAndTheImageItWasOf(t *testing.T) {
	build := &v1alpha1.Build{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
	for name, c := range map[string]struct {
		reason     string
		generation int64
		image      string
		want       bool
	}{
		"available":              {"Available", 7, theImage, true},
		"scaling":                {"Scaling", 7, theImage, true},
		"unavailable since then": {"Unavailable", 7, theImage, true},
		"of an older spec":       {"Available", 6, theImage, false},
		"of another image":       {"Available", 7, "other", false},
		"under way":              {"Deploying", 7, theImage, false},
		"failed":                 {"RolloutFailed", 7, theImage, false},
		"never":                  {"", 0, theImage, false},
	} {
		before := conditionBefore(c.reason)
		before.ObservedGeneration = c.generation
		build.Status = v1alpha1.BuildStatus{DeployedImage: theImage, Conditions: []metav1.Condition{before}}
		if got := wasRolledOut(build, c.image); got != c.want {
			t.Errorf("%s: rolled out is %v", name, got)
		}
	}
}
