package admission

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// access asks the API server what a user may do in a namespace. The review is of the namespace, so that a Role is right enough for it.
type access struct {
	client    authorizationclient.LocalSubjectAccessReviewsGetter
	user      authenticationv1.UserInfo
	namespace string
}

// maxMissing bounds how many names are found missing: a template has room for thousands, and each is a question to the API server.
const maxMissing = 10

// missing returns those names of a resource that the user may not use with that verb, the first ones of very many.
func (a access) missing(ctx context.Context, verb string, resource schema.GroupResource, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	// Most users may use all or none; then there is one question only, or two.
	if all, err := a.may(ctx, verb, resource, ""); all || err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range names {
		allowed, err := a.may(ctx, verb, resource, name)
		if err != nil {
			return nil, err
		}
		if !allowed {
			if missing = append(missing, name); len(missing) == maxMissing {
				break
			}
		}
	}
	return missing, nil
}

// may asks about one object, or about all of them when it has no name.
func (a access) may(ctx context.Context, verb string, resource schema.GroupResource, name string) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(a.user.Extra))
	for key, values := range a.user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := a.client.LocalSubjectAccessReviews(a.namespace).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: a.user.Username, UID: a.user.UID, Groups: a.user.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: a.namespace, Verb: verb, Group: resource.Group, Resource: resource.Resource, Name: name},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether %s may %s %s: %w", a.user.Username, verb, resource, err)
	}
	return review.Status.Allowed, nil
}
