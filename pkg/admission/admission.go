// Package admission answers the API server's questions about Builds that are to be created or changed: the rules that need more
// than the Build itself, which is all that the rules in the CRD can see.
//
// An answer has no side effect, so a dry run is answered as any other request. Nothing is asked about a change that leaves the
// spec as it is, nor about a Build that is being deleted: nobody is kept from tidying up.
package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
	"github.com/buildcontroller/build-controller/pkg/policy"
)

// ByImage files Builds under every full name that they push to.
const ByImage = "image"

// Indexers are what the indexer of Builds needs for a Webhook.
var Indexers = cache.Indexers{ByImage: func(obj any) ([]string, error) {
	return destinations(obj.(*v1alpha1.Build)), nil
}}

// destinations are the full names that a Build pushes to, with the registry in lower case, as DNS has it.
func destinations(build *v1alpha1.Build) []string {
	all := plan.Destinations(build.Spec.Image)
	for i, name := range all {
		host, repository, _ := strings.Cut(name, "/") // which every full name has
		all[i] = strings.ToLower(host) + "/" + repository
	}
	return all
}

// Webhook decides on Builds.
type Webhook struct {
	// Policy is what Builds may name.
	Policy policy.Policy
	// Builds are those that are there, with Indexers; Synced says whether that is all of them.
	Builds cache.Indexer
	Synced cache.InformerSynced
	// Access is where it is asked what a user may do.
	Access authorizationclient.LocalSubjectAccessReviewsGetter
}

// Validate refuses what breaks a rule, and warns of what is risky.
func (w *Webhook) Validate(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	build, old, err := decode(request)
	if err != nil || !matters(build, old) {
		return &admissionv1.AdmissionResponse{Allowed: true}, err
	}
	if !w.Synced() {
		return nil, errors.New("not all Builds are known yet")
	}
	refused := w.Policy.Check(build)
	refused = append(refused, w.clashes(build, old)...)
	pods, failure := podsOf(build)
	if failure != nil {
		refused = append(refused, field.Invalid(field.NewPath("spec", "deployment", "template"), field.OmitValueType{}, failure.Message))
	}
	forbidden, err := w.unusable(ctx, build, pods, access{w.Access, request.UserInfo, request.Namespace})
	if err != nil {
		return nil, err
	}
	refused = append(refused, forbidden...)
	response := &admissionv1.AdmissionResponse{Allowed: len(refused) == 0, Warnings: warnings(build, pods)}
	if !response.Allowed {
		var reasons []string
		for _, err := range refused {
			reasons = append(reasons, err.Error())
		}
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: strings.Join(reasons, "; "),
		}
	}
	return response, nil
}

// Default completes what a user leaves out.
func (w *Webhook) Default(_ context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	build, old, err := decode(request)
	if err != nil || !matters(build, old) {
		return response, err
	}
	if response.Patch, err = defaults(build); response.Patch != nil {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		response.PatchType = &jsonPatch
	}
	return response, err
}

// errMalformed is of a request that no API server sends.
var errMalformed = errors.New("malformed request")

// decode returns the Build as it shall be, and as it is if it is there already. Both are nil for a request that asks for neither.
func decode(request *admissionv1.AdmissionRequest) (build, old *v1alpha1.Build, err error) {
	if endless(request.Object.Raw) || endless(request.OldObject.Raw) {
		return nil, nil, fmt.Errorf("%w: a number has an exponent of more than five digits", errMalformed)
	}
	switch request.Operation {
	case admissionv1.Update:
		old = &v1alpha1.Build{}
		if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
			return nil, nil, fmt.Errorf("%w: the old object is no Build: %w", errMalformed, err)
		}
	case admissionv1.Create:
	default:
		return nil, nil, nil
	}
	build = &v1alpha1.Build{}
	if err := json.Unmarshal(request.Object.Raw, build); err != nil {
		return nil, nil, fmt.Errorf("%w: the object is no Build: %w", errMalformed, err)
	}
	build.Namespace, build.Name = request.Namespace, request.Name
	return build, old, nil
}

var manyDigits = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?[0-9]{6,}$`)

// endless says whether there is a number in JSON that takes hours to be read as a quantity, as 1e-100000000 does. The CRD's patterns refuse
// it, but whoever plays the API server has none.
func endless(raw []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	for {
		switch token, err := decoder.Token(); token := token.(type) {
		case string:
			if manyDigits.MatchString(token) {
				return true
			}
		case json.Number:
			if manyDigits.MatchString(token.String()) {
				return true
			}
		default:
			if err != nil {
				return false // it is all read, or no JSON, which is seen later
			}
		}
	}
}

// matters says whether there is anything to decide.
func matters(build, old *v1alpha1.Build) bool {
	return build != nil && build.DeletionTimestamp == nil && (old == nil || !equality.Semantic.DeepEqual(build.Spec, old.Spec))
}

// clashes returns the names of images that another Build pushes to as well, but for those that the Build had already. Two Builds that come
// within the same moment may both pass, since this only knows what the watch has shown.
func (w *Webhook) clashes(build, old *v1alpha1.Build) field.ErrorList {
	var had []string
	if old != nil {
		had = destinations(old)
	}
	var refused field.ErrorList
	for i, name := range destinations(build) {
		if slices.Contains(had, name) {
			continue
		}
		at := field.NewPath("spec", "image", "name")
		if i > 0 {
			at = field.NewPath("spec", "image", "additionalTags")
		}
		others, _ := w.Builds.ByIndex(ByImage, name) // the index is there
		for _, obj := range others {
			other := obj.(*v1alpha1.Build)
			if other.Namespace == build.Namespace && other.Name == build.Name || other.DeletionTimestamp != nil {
				continue
			}
			who := fmt.Sprintf("the Build %q", other.Name)
			if other.Namespace != build.Namespace {
				who = "a Build of another namespace" // whose name is not for everybody
			}
			refused = append(refused, field.Forbidden(at, fmt.Sprintf("%s pushes to %s already; choose another repository or tag", who, name)))
			break
		}
	}
	return refused
}

// unusable returns what the Build names and the user may not use. A Build brings Secrets into pods whose code the user writes, runs them
// as a ServiceAccount, and puts that code into an application that it adopts.
func (w *Webhook) unusable(ctx context.Context, build *v1alpha1.Build, pods []corev1.PodSpec, access access) (field.ErrorList, error) {
	named := namesOf(build, pods)
	var refused field.ErrorList
	for _, kind := range []struct {
		verb     string
		resource schema.GroupResource
		names    []string
		what     string
	}{
		{"get", schema.GroupResource{Resource: "secrets"}, named.secrets, "Secret"},
		{"impersonate", schema.GroupResource{Resource: "serviceaccounts"}, named.serviceAccounts, "ServiceAccount"},
		{"patch", schema.GroupResource{Group: "apps", Resource: "deployments"}, named.deployments, "Deployment"},
		{"patch", schema.GroupResource{Resource: "services"}, named.services, "Service"},
		{"patch", schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, named.ingresses, "Ingress"},
	} {
		missing, err := access.missing(ctx, kind.verb, kind.resource, kind.names)
		if err != nil {
			return nil, err
		}
		for _, name := range missing {
			refused = append(refused, field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
				"names the %s %q, which %s may not use: ask for the right to %s %s in this namespace", kind.what, name, access.user.Username, kind.verb, kind.resource)))
		}
	}
	return refused, nil
}
