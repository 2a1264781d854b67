package owned

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/observe"
)

// RetryAfter is how long to wait before trying again what the API server refused. Nothing is watched that would tell of the cause's end.
const RetryAfter = 30 * time.Second

// maxMessage bounds messages with the API server's words in them, in characters.
const maxMessage = 1000

// OnlyThis deletes obj and no namesake that came after it.
func OnlyThis(obj metav1.Object, propagation metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(obj.GetUID())),
		PropagationPolicy: &propagation,
	}
}

// Gone says whether a delete failed because the object is not there any more: none, or another of its name.
func Gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// Refused says whether the API server refuses what the Build asks for, so that trying again at once is no use.
func Refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// Rejection is the obstacle of such a refusal.
func Rejection(kind string, step v1alpha1.Step, err error) *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step: step, Reason: v1alpha1.FailureRejected,
		Message: observe.Squash(fmt.Sprintf("The API server refuses the %s: %v. It is tried again every %s.", kind, err, RetryAfter), maxMessage),
	}
}

// NotAllowed is the obstacle of a policy that forbids what the Build names.
func NotAllowed(refused field.ErrorList) *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureNotAllowed,
		Message: observe.Squash(fmt.Sprintf("The controller's settings do not allow this build: %v.", refused.ToAggregate()), maxMessage),
	}
}

// Unexpected is the obstacle of an error that nobody has foreseen, one of a webhook for example.
func Unexpected(err error) *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureRejected,
		Message: observe.Squash(fmt.Sprintf("Deploying failed: %v. It is tried again.", err), maxMessage),
	}
}

// Foreign is the obstacle of an object that belongs to someone else. One of an earlier Build of the same name is none: there
// can be only one such Build, so garbage collection is about to delete it, and its end is an event that brings us back.
func Foreign(build *v1alpha1.Build, kind string, obj metav1.Object, step v1alpha1.Step) *v1alpha1.Failure {
	owner, advice := "it has no controller", "Delete it"
	if step == v1alpha1.StepDeploy {
		advice = "Delete it, have it taken over with spec.deployment.adopt"
	}
	if controller := metav1.GetControllerOfNoCopy(obj); controller != nil {
		if controller.Kind == v1alpha1.BuildKind.Kind && controller.Name == build.Name {
			return nil
		}
		owner, advice = "its controller is "+controller.Kind+" "+controller.Name, "Delete it"
	}
	return &v1alpha1.Failure{
		Step: step, Reason: v1alpha1.FailureResourceExists,
		Message: fmt.Sprintf("%s %q exists and does not belong to this Build (%s), so it is left alone. %s, or give the Build another name.", kind, obj.GetName(), owner, advice),
	}
}
