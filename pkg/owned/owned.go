// Package owned writes the objects that belong to a Build and have its name: Deployment, Service, Ingress. It writes only what makes a
// difference, and to nothing of anyone else.
package owned

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/feed"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// Client is the part of a typed client of one namespace that is needed.
type Client[T any, D any] interface {
	Apply(context.Context, D, metav1.ApplyOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// Desired is an apply configuration that can carry preconditions.
type Desired[D any] interface {
	WithUID(types.UID) D
	WithResourceVersion(string) D
}

// Objects are the objects of one kind, each of which has the name of its Build. Make them with New.
type Objects[T feed.Object, D Desired[D]] struct {
	*feed.Feed[T]
	kind   string
	client func(namespace string) Client[T, D]
	// answers are what the API server made, by UID, of applies whose result is not what was asked for, because admission changes it.
	answers sync.Map
}

// New returns the objects of a kind, which a Feed shows and a client writes.
func New[T feed.Object, D Desired[D]](kind string, known *feed.Feed[T], client func(namespace string) Client[T, D]) *Objects[T, D] {
	return &Objects[T, D]{Feed: known, kind: kind, client: client}
}

// Of returns the object of the Build; nil if there is none, or one that does not belong to it.
func (o *Objects[T, D]) Of(build *v1alpha1.Build) (none T) {
	if live, exists := o.named(build); exists && plan.Owns(build, live) {
		return live
	}
	return none
}

func (o *Objects[T, D]) named(build *v1alpha1.Build) (T, bool) {
	return o.Get(cache.NewObjectName(build.Namespace, build.Name))
}

// mustNotExist as the resourceVersion of an apply makes it fail with a conflict when the object exists: no object
// ever has this version, and the API server ignores the field when it creates one. So nothing of anyone else is
// ever taken over, without asking first.
const mustNotExist = "1"

// Apply brings the object of the Build to what is wanted of it as it is, nil if there is none, and returns it as it is then. It writes
// only if that makes a difference, and never to an object that neither belongs to the Build nor is to be adopted. Without an
// object it returns nil: with the obstacle, or because one is on its way out, whose end the Feed tells.
func (o *Objects[T, D]) Apply(ctx context.Context, build *v1alpha1.Build, want func(live T) (D, *v1alpha1.Failure)) (applied T, obstacle *v1alpha1.Failure, err error) {
	var none T
	live, exists := o.named(build)
	switch {
	case !exists:
		live = none
	case !MayApply(build, live):
		return none, Foreign(build, o.kind, live, v1alpha1.StepDeploy), nil
	case live.GetDeletionTimestamp() != nil:
		return none, nil, nil
	}
	wanted, obstacle := want(live)
	switch {
	case obstacle != nil:
		return none, obstacle, nil
	case exists && (!plan.Differs(wanted, live) || o.answered(wanted, live)):
		return live, nil, nil
	case exists:
		wanted.WithUID(live.GetUID())
	default:
		wanted.WithResourceVersion(mustNotExist)
	}
	client, options := o.client(build.Namespace), metav1.ApplyOptions{FieldManager: v1alpha1.ManagedBy, Force: true}
	applied, err = client.Apply(ctx, wanted, options)
	if !exists && apierrors.IsConflict(err) {
		// Somebody else's, or our own without the label that we watch by.
		live, err = client.Get(ctx, build.Name, metav1.GetOptions{})
		if err == nil && !MayApply(build, live) {
			return none, Foreign(build, o.kind, live, v1alpha1.StepDeploy), nil
		}
		if err == nil {
			wanted, obstacle = want(live)
			if obstacle != nil {
				return none, obstacle, nil
			}
			applied, err = client.Apply(ctx, wanted.WithUID(live.GetUID()).WithResourceVersion(live.GetResourceVersion()), options)
		}
	}
	if Refused(err) {
		return none, Rejection(o.kind, v1alpha1.StepDeploy, err), nil
	}
	if err != nil {
		return none, nil, fmt.Errorf("applying the %s: %w", o.kind, err)
	}
	if exists && plan.Differs(wanted, applied) { // a new object would differ by its preconditions
		o.answers.Store(applied.GetUID(), plan.Answer(wanted, applied))
	} else {
		o.answers.Delete(applied.GetUID())
	}
	klog.FromContext(ctx).Info("Applied", "kind", o.kind)
	o.Wrote(applied)
	return applied, nil, nil
}

// answered says whether the object is what the API server made of the same wish before. To ask again, at every sync, would change
// nothing.
func (o *Objects[T, D]) answered(wanted any, live metav1.Object) bool {
	before, ok := o.answers.Load(live.GetUID())
	return ok && before == plan.Answer(wanted, live)
}

// MayApply says whether the object is the Build's, or free and to be adopted.
func MayApply(build *v1alpha1.Build, object metav1.Object) bool {
	return plan.Owns(build, object) || build.Spec.Deployment.Adopt && metav1.GetControllerOfNoCopy(object) == nil
}

// Remove deletes the object of the Build.
func (o *Objects[T, D]) Remove(ctx context.Context, build *v1alpha1.Build) error {
	live, exists := o.named(build)
	if !exists || live.GetDeletionTimestamp() != nil || !plan.Owns(build, live) {
		return nil
	}
	if err := o.client(build.Namespace).Delete(ctx, build.Name, OnlyThis(live, metav1.DeletePropagationBackground)); err != nil && !Gone(err) {
		return fmt.Errorf("deleting the %s: %w", o.kind, err)
	}
	return nil
}

// Release leaves the object of a Build that goes as deletionPolicy says: it does what applying did not come to, if the policy
// was changed just before.
func (o *Objects[T, D]) Release(ctx context.Context, build *v1alpha1.Build) error {
	live, exists := o.named(build)
	controlled := exists && metav1.IsControlledBy(live, build)
	if !plan.Retains(build) {
		if controlled {
			return nil // garbage collection takes it
		}
		return o.Remove(ctx, build)
	}
	if !controlled || live.GetDeletionTimestamp() != nil {
		return nil
	}
	owners := slices.DeleteFunc(slices.Clone(live.GetOwnerReferences()), func(owner metav1.OwnerReference) bool { return owner.UID == build.UID })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"ownerReferences": owners, "uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(),
	}})
	if err != nil {
		return err
	}
	released, err := o.client(build.Namespace).Patch(ctx, build.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.ManagedBy})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("releasing the %s: %w", o.kind, err)
	}
	o.Wrote(released)
	return nil
}
