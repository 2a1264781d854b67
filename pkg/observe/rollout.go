package observe

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// The reasons of the Deployment controller's Progressing condition: a rollout is done, it made no progress in time, or someone
// holds it up (k8s.io/kubernetes/pkg/controller/deployment/util).
const (
	newReplicaSetAvailable   = "NewReplicaSetAvailable"
	progressDeadlineExceeded = "ProgressDeadlineExceeded"
	deploymentPaused         = "DeploymentPaused"
)

// stage is how far a rollout is.
type stage int

const (
	// unseen: the Deployment controller has not looked at the newest generation yet.
	unseen stage = iota
	// unmoved: there was no progress within the deadline.
	unmoved
	// moving: pods are being replaced.
	moving
	// serving: all pods are of the newest template, and enough of them are available.
	serving
	// scaling: more pods of what runs already are on their way.
	scaling
	// short: it was done, but since then too few pods are available.
	short
)

// stageOf tells how far the rollout is. before is the status of the last sync, from which it is known whether this rollout was done
// before: then nothing but a rollout that someone else began, or pods that go away, is news.
func stageOf(app Application, before v1alpha1.BuildStatus) stage {
	deployment, status := app.Deployment, app.Deployment.Status
	progressing, available := condition(deployment, appsv1.DeploymentProgressing), condition(deployment, appsv1.DeploymentAvailable)
	done := wasRolledOut(before, app)
	switch {
	case status.ObservedGeneration < deployment.Generation && (!done || status.ObservedGeneration == 0):
		return unseen // else annotations or replicas may count the generation up, so what was said last still counts
	case progressing.Reason == progressDeadlineExceeded:
		return unmoved
	case status.UpdatedReplicas != status.Replicas, progressing.Reason != newReplicaSetAvailable && !done:
		return moving
	case available.Status == corev1.ConditionTrue:
		return serving
	case before.DeployedImage != app.Image:
		return moving // so far there was nothing to be seen of it: it was rolled out to no pods at all
	case status.AvailableReplicas >= before.Replicas:
		return scaling // none of those went away that there were
	}
	return short
}

// rollout returns the condition Deployed, and what is in the way if there is something. The condition is False when the rollout
// has failed for good, Unknown while it may still get there.
func rollout(app Application, stage stage) (metav1.Condition, *v1alpha1.Failure) {
	trouble := app.Trouble.Failure
	switch stage {
	case unseen:
		return deploying(app.Image), nil
	case unmoved:
		failure := v1alpha1.Failure{Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureRolloutFailed, Message: lookAt(app.Deployment)}
		if trouble != nil {
			failure = *trouble
		}
		failure.Message = noProgress + failure.Message
		return notDeployed(&failure)
	case moving:
		if app.Trouble.Certain {
			return notDeployed(trouble)
		}
		condition := deploying(app.Image)
		if trouble != nil {
			condition.Reason, condition.Message = string(trouble.Reason), trouble.Message
		} else if paused(app.Deployment) {
			condition.Message += " Somebody has paused it; kubectl rollout resume goes on."
		}
		return condition, trouble
	case serving:
		return metav1.Condition{
			Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAvailable,
			Message: "The Deployment runs " + app.Image + ".",
		}, nil
	case scaling:
		message := "The Deployment starts more pods of " + app.Image + "."
		if trouble != nil {
			message += " " + trouble.Message
		}
		return metav1.Condition{Type: v1alpha1.ConditionDeployed, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonScaling, Message: message}, nil
	}
	failure := &v1alpha1.Failure{Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureUnavailable, Message: lookAt(app.Deployment)}
	if trouble != nil {
		failure.Message, failure.ExitCode, failure.LogTail = trouble.Message, trouble.ExitCode, trouble.LogTail
	}
	failure.Message = "The rollout was done, but now too few pods are available. " + failure.Message
	return notDeployed(failure)
}

// noProgress begins the message of a rollout that came to its deadline.
const noProgress = "The rollout made no progress within its deadline. "

// lookAt is the advice when no pod says what is wrong.
func lookAt(deployment *appsv1.Deployment) string {
	return fmt.Sprintf("Look at its pods with kubectl describe pods -l %s=%s and kubectl logs; a corrected image or spec rolls out by itself.",
		v1alpha1.AppLabel, deployment.Name)
}

func paused(deployment *appsv1.Deployment) bool {
	return condition(deployment, appsv1.DeploymentProgressing).Reason == deploymentPaused
}

// wasRolledOut says whether the status says so of the same image and the same pods.
func wasRolledOut(before v1alpha1.BuildStatus, app Application) bool {
	switch deployedCondition(before).Reason {
	case v1alpha1.ReasonAvailable, v1alpha1.ReasonScaling, string(v1alpha1.FailureUnavailable):
		return before.DeployedImage == app.Image && before.DeployedRollout == rolloutOf(app.Deployment)
	}
	return false
}

func deployedCondition(status v1alpha1.BuildStatus) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDeployed), metav1.Condition{})
}

// takenBack is the condition of a Build whose newest image failed to roll out, while the Deployment is kept at the one before. now is
// how that one is.
func takenBack(rollback *v1alpha1.Rollback, now metav1.Condition) (metav1.Condition, *v1alpha1.Failure) {
	failure := rollback.Failure.DeepCopy()
	end := " The Deployment has returned to " + rollback.To + ", which is available."
	if now.Status != metav1.ConditionTrue {
		end = " The Deployment returns to " + rollback.To + ": " + now.Message
	}
	condition, _ := notDeployed(failure)
	condition.Message = Squash(condition.Message+end, 2*maxMessage)
	return condition, failure
}

// address is the URL of the application: empty without a port that speaks TCP.
func address(build *v1alpha1.Build, app Application) string {
	spec := build.Spec.Deployment
	if app.Ingress != nil && spec.Ingress != nil {
		if spec.Ingress.TLSSecretName != "" {
			return "https://" + spec.Ingress.Host
		}
		return "http://" + spec.Ingress.Host
	}
	port, ok := spec.FirstTCPPort()
	if app.Service == nil || !ok {
		return ""
	}
	url := url.URL{Scheme: "http"}
	host, number := build.Name+"."+build.Namespace+".svc", cmp.Or(port.ServicePort, port.ContainerPort)
	for _, ingress := range app.Service.Status.LoadBalancer.Ingress {
		if at := cmp.Or(ingress.Hostname, ingress.IP); at != "" {
			host = at
			break
		}
	}
	if port.Name == "https" || number == 443 {
		url.Scheme = "https"
	}
	url.Host = net.JoinHostPort(host, strconv.Itoa(int(number)))
	if defaultPort := map[string]int32{"http": 80, "https": 443}[url.Scheme]; number == defaultPort {
		url.Host = strings.TrimSuffix(url.Host, ":"+strconv.Itoa(int(number)))
	}
	return url.String()
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
