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

// rollout returns the condition Deployed, and the failure if it is one.
func rollout(deployment *appsv1.Deployment, image string) (metav1.Condition, *v1alpha1.Failure) {
	progressing, available := condition(deployment, appsv1.DeploymentProgressing), condition(deployment, appsv1.DeploymentAvailable)
	switch {
	case deployment.Status.ObservedGeneration < deployment.Generation || progressing == nil:
		return deploying(image), nil
	case progressing.Reason == progressDeadlineExceeded:
		return notDeployed(&v1alpha1.Failure{
			Step:   v1alpha1.StepDeploy,
			Reason: v1alpha1.FailureRolloutFailed,
			Message: fmt.Sprintf("The Deployment made no progress within its deadline. Look at its pods with kubectl describe pods -l %s=%s and kubectl logs; a corrected image or spec rolls out by itself.",
				v1alpha1.AppLabel, deployment.Name),
		})
	case progressing.Reason != newReplicaSetAvailable || deployment.Status.UpdatedReplicas != deployment.Status.Replicas:
		return deploying(image), nil
	case available == nil || available.Status != corev1.ConditionTrue:
		return notDeployed(&v1alpha1.Failure{
			Step:   v1alpha1.StepDeploy,
			Reason: v1alpha1.FailureUnavailable,
			Message: fmt.Sprintf("The rollout was done, but now too few pods are available. Look at them with kubectl describe pods -l %s=%s and kubectl logs.",
				v1alpha1.AppLabel, deployment.Name),
		})
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAvailable,
		Message: "The Deployment runs " + image + ".",
	}, nil
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

func condition(deployment *appsv1.Deployment, conditionType appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range deployment.Status.Conditions {
		if c := &deployment.Status.Conditions[i]; c.Type == conditionType {
			return c
		}
	}
	return nil
}
