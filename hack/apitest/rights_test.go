//go:build apitest

package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// unasked are rights that are needed although no request here asks for them.
var unasked = []string{
	// The API server checks these beside an apply: of an object that is new, and of one with an owner reference.
	"create deployments.apps", "create services", "create ingresses.networking.k8s.io", "update builds/finalizers.buildcontroller.dev",
	// An API server that cannot stream its lists is asked for them.
	"list deployments.apps", "list services", "list ingresses.networking.k8s.io", "list jobs.batch", "list pods", "list events",
	"list secrets", "list validatingwebhookconfigurations.admissionregistration.k8s.io", "list mutatingwebhookconfigurations.admissionregistration.k8s.io",
}

// checkRights compares what the controllers of all tests have asked for, by the audit log, with the rights that the manifests
// give: nothing is to be denied, and no right to be there that nothing uses.
func checkRights() error {
	log, err := os.ReadFile(cluster.audit.path)
	if err != nil {
		return err
	}
	unused := map[string]bool{}
	objects, err := manifestsOf(installed)
	if err != nil {
		return err
	}
	for _, rule := range rulesOf(objects) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					unused[right(verb, resource, group)] = true
				}
			}
		}
	}
	for _, right := range unasked {
		delete(unused, right)
	}
	denied := map[string]bool{}
	for line := range bytes.Lines(log) {
		var r request
		if json.Unmarshal(line, &r) != nil || !r.byController() {
			continue
		}
		resource := r.ObjectRef.Resource
		if r.ObjectRef.Subresource != "" {
			resource += "/" + r.ObjectRef.Subresource
		}
		asked := right(r.Verb, resource, r.ObjectRef.Group)
		delete(unused, asked)
		if r.Annotations["authorization.k8s.io/decision"] == "forbid" {
			denied[asked] = true
		}
	}
	if len(unused)+len(denied) > 0 {
		return fmt.Errorf("%s: no controller used the rights %q, and these were missing: %q",
			strings.Join(installed, ", "), slices.Sorted(maps.Keys(unused)), slices.Sorted(maps.Keys(denied)))
	}
	return nil
}

func right(verb, resource, group string) string {
	return strings.TrimSuffix(verb+" "+resource+"."+group, ".")
}

// rulesOf returns the rules of all roles in there.
func rulesOf(objects []unstructured.Unstructured) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, object := range objects {
		var role rbacv1.ClusterRole // a Role has the same rules
		if strings.HasSuffix(object.GetKind(), "Role") && runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role) == nil {
			rules = append(rules, role.Rules...)
		}
	}
	return rules
}

func TestNoManifestGivesARightOnASecretButTheCertificate(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository, "artifacts", "*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	given := 0
	for _, file := range files {
		objects, err := manifests(filepath.Base(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range rulesOf(objects) {
			for _, resource := range rule.Resources {
				switch {
				case resource == "*" || slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Verbs, "impersonate") || slices.Contains(rule.Verbs, "escalate"):
					t.Errorf("%s gives too much: %v", file, rule)
				case resource == "secrets":
					given++
					if !slices.Equal(rule.ResourceNames, []string{certificateSecret}) || slices.Contains(rule.Verbs, "create") {
						t.Errorf("%s gives a right on other Secrets: %v", file, rule)
					}
				}
			}
		}
	}
	if given == 0 {
		t.Error("no manifest gives a right on the certificate")
	}
}

func TestANamespacedInstallHasTheSameFeaturesWithARoleOnly(t *testing.T) {
	s, other := newScene(t, usual), newScene(t, usual)
	objects, err := manifests("namespaced.yaml", "my-team", s.ns)
	if err != nil {
		t.Fatal(err)
	}
	everywhere, err := manifests("install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(rulesOf(objects), rulesOf(everywhere)) {
		t.Errorf("the rules of namespaced.yaml are not those of install.yaml:\n%v\n%v", rulesOf(objects), rulesOf(everywhere))
	}
	var flags []string
	for _, object := range objects {
		switch object.GetKind() {
		case "ClusterRole", "ClusterRoleBinding":
			t.Errorf("it has a %s", object.GetKind())
		case "Deployment":
			containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
			if err != nil {
				t.Fatal(err)
			}
			flags = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-health-address") })
		}
	}
	account, err := applyRights(objects)
	if err != nil {
		t.Fatal(err)
	}
	controller := startController(t, startOptions{as: account, flags: append(flags, "-leader-elect", "-leader-elect-namespace="+s.ns)})
	other.create(makeBuild("shop"))
	s.create(makeBuild("shop", withAll))
	s.untilReady("shop")
	s.patch("shop", revision("v2"))
	s.until("the second version runs", func() error { return errors.Join(s.ready("shop"), s.runs("shop", "v2")) })
	s.delete("shop", metav1.DeletePropagationBackground)
	s.until("all of it is gone", func() error {
		return errors.Join(absent(s.build("shop") == nil, "the Build"), absent(s.deployment("shop") == nil, "the Deployment"))
	})
	if build := other.build("shop"); build.Status.Phase != "" || len(build.Finalizers) > 0 || len(other.jobsOf("shop")) > 0 {
		t.Errorf("the Build of another namespace was touched: %+v", build.Status)
	}
	if said := controller.read(t); bytes.Contains(said, []byte("forbidden")) {
		t.Errorf("something is forbidden: %s", lastLines(said, 20))
	}
	other.delete("shop", metav1.DeletePropagationBackground)
}

func TestTheClustersRolesCoverBuilds(t *testing.T) {
	s := newScene(t, usual)
	if _, err := kubectl("", "apply", "--server-side", "-f", filepath.Join(repository, "artifacts", "roles.yaml")); err != nil {
		t.Fatal(err)
	}
	for role, may := range map[string]map[string]bool{
		"view":  {"get builds": true, "watch builds": true, "get builds/scale": true, "create builds": false, "patch builds/scale": false, "update builds/status": false},
		"edit":  {"get builds": true, "create builds": true, "patch builds/scale": true, "deletecollection builds": true, "update builds/status": false},
		"admin": {"get builds": true, "create builds": true, "update builds/status": false},
	} {
		user := "user-of-" + role
		if _, err := kubectl("", "create", "rolebinding", user, "--namespace", s.ns, "--clusterrole="+role, "--user="+user); err != nil {
			t.Fatal(err)
		}
		for right, want := range may {
			verb, resource, _ := strings.Cut(right, " ")
			resource, subresource, _ := strings.Cut(resource, "/")
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: s.ns, Verb: verb, Group: v1alpha1.GroupName, Resource: resource, Subresource: subresource,
				},
			}}
			s.until(fmt.Sprintf("the role %s allows %q: %v", role, right, want), func() error {
				answer, err := cluster.kube.AuthorizationV1().SubjectAccessReviews().Create(s.ctx, review, metav1.CreateOptions{})
				if err == nil && answer.Status.Allowed != want {
					// The controller that adds roles up may not have come to it yet, and nothing in the namespace tells when it has.
					time.AfterFunc(100*time.Millisecond, s.notify)
					err = errors.New(answer.Status.Reason)
				}
				return err
			})
		}
	}
}
