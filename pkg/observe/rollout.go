package observe

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// The reason of the Deployment controller's Progressing condition when a rollout is done, and when it
// made no progress in time (k8s.io/kubernetes/pkg/controller/deployment/util).
const (
	newReplicaSetAvailable   = "NewReplicaSetAvailable"
	progressDeadlineExceeded = "ProgressDeadlineExceeded"
)

// rollout returns the condition Deployed, and the failure if it is one. rolledOut says that the rollout of this image
// and spec was done before: then nothing but a rollout that someone else began, or pods that go away, is news.
func rollout(deployment *appsv1.Deployment, image string, before metav1.Condition, rolledOut bool) (metav1.Condition, *v1alpha1.Failure) {
	progressing, available := condition(deployment, appsv1.DeploymentProgressing), condition(deployment, appsv1.DeploymentAvailable)
	switch {
	case deployment.Status.ObservedGeneration < deployment.Generation && rolledOut && deployment.Status.ObservedGeneration > 0:
		// Annotations and replicas count the generation up too.
		if before.Status == metav1.ConditionFalse {
			return notDeployed(&v1alpha1.Failure{Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureReason(before.Reason), Message: before.Message})
		}
		return metav1.Condition{Type: before.Type, Status: before.Status, Reason: before.Reason, Message: before.Message}, nil
	case deployment.Status.ObservedGeneration < deployment.Generation:
		return deploying(image), nil
	case progressing.Reason == progressDeadlineExceeded:
		return notDeployed(&v1alpha1.Failure{
			Step:   v1alpha1.StepDeploy,
			Reason: v1alpha1.FailureRolloutFailed,
			Message: fmt.Sprintf("The Deployment made no progress within its deadline. Look at its pods with kubectl describe pods -l %s=%s and kubectl logs; a corrected image or spec rolls out by itself.",
				v1alpha1.AppLabel, deployment.Name),
		})
	case deployment.Status.UpdatedReplicas != deployment.Status.Replicas, progressing.Reason != newReplicaSetAvailable && !rolledOut:
		return deploying(image), nil
	case available.Status == corev1.ConditionTrue:
		return metav1.Condition{
			Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAvailable,
			Message: "The Deployment runs " + image + ".",
		}, nil
	case progressing.Reason != newReplicaSetAvailable:
		return metav1.Condition{
			Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonScaling,
			Message: "The Deployment starts more pods of " + image + ".",
		}, nil
	}
	return notDeployed(&v1alpha1.Failure{
		Step:   v1alpha1.StepDeploy,
		Reason: v1alpha1.FailureUnavailable,
		Message: fmt.Sprintf("The rollout was done, but now too few pods are available. Look at them with kubectl describe pods -l %s=%s and kubectl logs.",
			v1alpha1.AppLabel, deployment.Name),
	})
}

// wasRolledOut says whether the condition Deployed of before says so for the same spec and image.
func wasRolledOut(build *v1alpha1.Build, before metav1.Condition, image string) bool {
	switch before.Reason {
	case v1alpha1.ReasonAvailable, v1alpha1.ReasonScaling, string(v1alpha1.FailureUnavailable):
		return before.ObservedGeneration == build.Generation && build.Status.Image == image
	}
	return false
}

func deploying(image string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDeploying,
		Message: "The Deployment moves to " + image + ".",
	}
}

func notDeployed(failure *v1alpha1.Failure) (metav1.Condition, *v1alpha1.Failure) {
	return metav1.Condition{
		Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionFalse, Reason: string(failure.Reason), Message: failure.Message,
	}, failure
}

// condition returns the condition of that type; an empty one when the Deployment has none yet.
func condition(deployment *appsv1.Deployment, conditionType appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, c := range deployment.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}
