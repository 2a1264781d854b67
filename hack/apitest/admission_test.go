//go:build apitest

package apitest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// The people who create Builds below. All may do anything with Builds and nothing else, but for what follows.
const (
	ann = "ann" // may get the Secrets git-creds and registry-creds, and impersonate the ServiceAccount builder
	bob = "bob" // may do none of that
	eve = "eve" // has the role edit
)

// people gives them their rights in the namespace of a scene.
func (s *scene) people() {
	s.t.Helper()
	rbac := cluster.kube.RbacV1()
	builds := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"builds", "builds/scale"}, Verbs: []string{"*"}}
	for user, rules := range map[string][]rbacv1.PolicyRule{
		ann: {builds,
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"git-creds", "registry-creds"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"builder"}, Verbs: []string{"impersonate"}}},
		bob: {builds},
		eve: {builds},
	} {
		_, err := rbac.Roles(s.ns).Create(s.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		s.bind(user, "Role", user)
	}
	s.bind(eve, "ClusterRole", "edit")
}

func (s *scene) bind(user, kind, role string) {
	s.t.Helper()
	_, err := cluster.kube.RbacV1().RoleBindings(s.ns).Create(s.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "people-"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// as runs kubectl as one of the people.
func (s *scene) as(user string, object *unstructured.Unstructured, args ...string) (string, error) {
	encoded, err := yaml.Marshal(object.Object)
	if err != nil {
		s.t.Fatal(err)
	}
	return kubectl(string(encoded), append(args, "--as="+user, "--namespace="+s.ns, "-f", "-")...)
}

// limits are the flags that the webhook below is started with; the policy has the same.
var limits = map[string]string{
	"registries": "registry.example.com/{namespace},*.mirror.example.com",
	"gitHosts":   "git.example.com/acme,github.com",
	"builders":   "Kaniko,BuildKit",
}

// A ruling is what becomes of a Build that somebody wants to create.
type ruling struct {
	as      string
	changes []change
	says    string // nothing if it is let in
	// policy is what the ValidatingAdmissionPolicy says; without it the same.
	policy string
	// only the webhook knows this rule.
	webhookOnly bool
}

const (
	secretRule = "may not get all of the Secrets that the Build names"
	accountSay = "may not impersonate the ServiceAccount that the Build names"
)

// rulings have an image of the scene's namespace, unless they say another.
var rulings = map[string]ruling{
	"a plain Build of somebody without rights":           {as: bob},
	"a repository of an allowed organisation":            {as: bob, changes: []change{set(url, "https://git.example.com/acme/deep/shop.git")}},
	"a repository of an allowed host, over ssh":          {as: ann, changes: []change{set(url, "git@github.com:acme/shop.git"), withSSH}},
	"a repository of an allowed host, on the usual port": {as: bob, changes: []change{set(url, "https://github.com:443/acme/shop")}, webhookOnly: true},
	"a repository of another organisation": {as: bob, changes: []change{set(url, "https://git.example.com/acmee/shop")},
		says: "this repository is not among those that may be cloned here: git.example.com/acme, github.com"},
	"a repository of another host": {as: bob, changes: []change{set(url, "https://github.com.example.org/acme/shop")},
		says: "this repository is not among those that may be cloned here"},
	"a repository of another host, whose path has an allowed one": {as: ann, changes: []change{set(url, "ssh://git.example.org/x@github.com/acme"), withSSH},
		says: "this repository is not among those that may be cloned here"},
	"a repository on another port": {as: bob, changes: []change{set(url, "https://github.com:8443/acme/shop")},
		says: "this repository is not among those that may be cloned here"},
	"a repository that leads out of its organisation": {as: bob, changes: []change{set(url, "https://git.example.com/acme/../other/shop")},
		says: "this repository is not among those that may be cloned here"},
	"a repository that leads out of its organisation, encoded": {as: bob, changes: []change{set(url, "https://git.example.com/acme/%2e%2e/other/shop")},
		says: "this repository is not among those that may be cloned here"},
	"a variable that configures git": {as: bob, changes: []change{set("spec.builder.env", []object{{"name": "GIT_CONFIG_COUNT", "value": "1"}})},
		says: "variables that configure git, proxies or the builder may not be set where hosts are limited"},
	"a variable for the builder": {as: bob, changes: []change{set("spec.builder.env", []object{{"name": "GOFLAGS", "value": "-v"}})}},
	"an address for an allowed host": {as: bob, changes: []change{set("spec.builder.hostAliases", []object{{"ip": "10.0.0.1", "hostnames": []string{"github.com"}}})},
		says: "names may not be given addresses where hosts are limited"},
	"an image of another namespace": {as: bob, changes: []change{set(image, "registry.example.com/another/shop:1")},
		says: "is not among those that may be used here: registry.example.com/", policy: "this registry is not among those that may be used here: registry.example.com/"},
	"an image of Docker Hub": {as: bob, changes: []change{set(image, "acme/shop")},
		says: "spec.image.name: Forbidden: this repository is not among those", policy: "this registry is not among those"},
	"an image of a registry on another port": {as: bob, changes: []change{set(image, "registry.example.com:5000/NAMESPACE/shop")},
		says: "spec.image.name: Forbidden: this repository is not among those", policy: "this registry is not among those"},
	"a cache of another registry": {as: bob, changes: []change{set("spec.builder.cache", object{"repository": "cache.example.org/shop"})},
		says: "spec.builder.cache.repository: Forbidden", policy: "this registry is not among those"},
	"a cache of the same registry": {as: bob, changes: []change{set("spec.builder.cache", object{"repository": "registry.example.com/NAMESPACE/cache"})}},
	"a builder's image from elsewhere": {as: bob, changes: []change{set("spec.builder.image", "ghcr.io/somebody/kaniko:1")},
		says: "spec.builder.image: Forbidden", policy: "this registry is not among those"},
	"a mirror that is allowed": {as: bob, changes: []change{set("spec.builder.mirrors", []string{"eu.mirror.example.com"})}, webhookOnly: true},
	"a mirror from elsewhere": {as: bob, changes: []change{set("spec.builder.mirrors", []string{"mirror.example.org"})},
		says: "spec.builder.mirrors[0]: Forbidden: this registry is not among those", policy: "this mirror or insecure registry is not among those"},
	"a flag of the builder": {as: bob, changes: []change{set("spec.builder.args", []string{"--destination=evil.example.org/shop"})},
		says: "flags of the builder may not be given where hosts are limited: some clone or push elsewhere"},
	"a builder that is allowed": {as: bob, changes: []change{set("spec.builder.name", "BuildKit")}},
	"a builder that is not allowed": {as: bob, changes: []change{set("spec.builder.name", "Buildah")},
		says: "spec.builder.name: Forbidden: Buildah is not among the builders that may be used here: Kaniko, BuildKit", policy: "this builder is not among those that may be used here: Kaniko, BuildKit"},

	"a Secret of git that the user may get": {as: ann, changes: []change{set(gitSecret, "git-creds")}},
	"a Secret of git that the user may not get": {as: bob, changes: []change{set(gitSecret, "git-creds")},
		says: `names the Secret "git-creds", which bob may not use: ask for the right to get secrets in this namespace`, policy: "bob " + secretRule},
	"another Secret than the user may get": {as: ann, changes: []change{set("spec.image.secretName", "admin-token")},
		says: `names the Secret "admin-token", which ann may not use`, policy: "ann " + secretRule},
	"any Secret, with the role edit": {as: eve, changes: []change{set("spec.image.secretName", "whatever"), set(gitSecret, "git-creds")}},
	"a Secret for RUN": {as: bob, changes: []change{set("spec.builder", object{"name": "BuildKit", "secrets": []object{{"id": "npm", "secretName": "npm-token", "key": "token"}}})},
		says: `names the Secret "npm-token"`, policy: secretRule},
	"a Secret as a volume of the build": {as: bob, changes: []change{set("spec.builder.volumes", []object{{"name": "x", "mountPath": "/x", "secret": object{"secretName": "vault"}}})},
		says: `names the Secret "vault"`, policy: secretRule},
	"a Secret in a variable of the build": {as: bob, changes: []change{set("spec.builder.env", []object{{"name": "X", "valueFrom": object{"secretKeyRef": object{"name": "vault", "key": "x"}}}})},
		says: `names the Secret "vault"`, policy: secretRule},
	"a Secret to pull the builder with": {as: bob, changes: []change{set("spec.builder.imagePullSecrets", []object{{"name": "vault"}})},
		says: `names the Secret "vault"`, policy: secretRule},
	"a Secret in a variable of the application": {as: bob, changes: []change{set("spec.deployment", object{"env": []object{{"name": "X", "valueFrom": object{"secretKeyRef": object{"name": "vault", "key": "x"}}}}})},
		says: `names the Secret "vault"`, policy: secretRule},
	"a Secret of an Ingress": {as: bob, changes: []change{set("spec.deployment", object{"ports": []object{http80}, "service": object{}, "ingress": object{"host": "shop.example.com", "tlsSecretName": "wildcard"}})},
		says: `names the Secret "wildcard"`, policy: secretRule},
	"a Secret of a volume in the template": {as: bob, changes: []change{set("spec.deployment.template.spec", object{"volumes": []object{{"name": "x", "secret": object{"secretName": "vault"}}}})},
		says: `names the Secret "vault"`, policy: "spec.deployment.template.spec can name any Secret, and bob may not get all Secrets of this namespace"},
	"a Secret of a sidecar in the template": {as: bob, changes: []change{set("spec.deployment.template.spec", object{"containers": []object{{"name": "side", "image": "side", "envFrom": []object{{"secretRef": object{"name": "vault"}}}}}})},
		says: `names the Secret "vault"`, policy: "spec.deployment.template.spec can name any Secret"},
	"two Secrets that the user may get, in four places": {as: ann, changes: []change{set(gitSecret, "git-creds"), set("spec.image.secretName", "registry-creds"),
		set("spec.builder", object{"name": "BuildKit", "secrets": []object{{"id": "a", "secretName": "git-creds", "key": "a"}, {"id": "b", "secretName": "registry-creds", "key": "b"}}})}},
	"more Secrets than the policy asks about, the last of which the user may not get": {as: ann, changes: []change{set("spec.builder", object{"name": "BuildKit", "secrets": []object{
		{"id": "a", "secretName": "git-creds", "key": "a"}, {"id": "b", "secretName": "git-creds", "key": "b"}, {"id": "c", "secretName": "git-creds", "key": "c"}, {"id": "d", "secretName": "git-creds", "key": "d"},
		{"id": "e", "secretName": "git-creds", "key": "e"}, {"id": "f", "secretName": "git-creds", "key": "f"}, {"id": "g", "secretName": "vault", "key": "g"}}})},
		says: `names the Secret "vault", which ann may not use`, policy: "the Build names more than six"},
	"a ServiceAccount that the user may impersonate": {as: ann, changes: []change{set("spec.builder.serviceAccountName", "builder")}},
	"a ServiceAccount that the user may not impersonate": {as: bob, changes: []change{set("spec.builder.serviceAccountName", "builder")},
		says: `names the ServiceAccount "builder", which bob may not use: ask for the right to impersonate serviceaccounts in this namespace`, policy: "bob " + accountSay},
	"a ServiceAccount of the application, with the role edit": {as: eve, changes: []change{set("spec.deployment.template.spec", object{"serviceAccountName": "app"})}},
	"a ServiceAccount of the application": {as: bob, changes: []change{set("spec.deployment.template.spec", object{"serviceAccountName": "admin"})},
		says: `names the ServiceAccount "admin"`, policy: "spec.deployment.template.spec can name any Secret"},

	"an application that the user may not patch": {as: bob, changes: []change{set("spec.deployment", object{"adopt": true, "ports": []object{http80}, "service": object{}})},
		says: `names the Deployment "tried", which bob may not use: ask for the right to patch deployments.apps in this namespace`, policy: "bob may not patch what spec.deployment.adopt is to take over: deployments"},
	"an application to adopt, with the role edit": {as: eve, changes: []change{set("spec.deployment", object{"adopt": true, "ports": []object{http80}, "service": object{}, "ingress": shopHost})}},
	"a template that cannot be merged": {as: eve, changes: []change{set("spec.deployment.template.spec", object{"containers": []object{{"name": "side", "imagee": "side"}}})},
		says: "spec.deployment.template: Invalid value: ", webhookOnly: true},
	"an image that another Build pushes to": {as: bob, changes: []change{set(image, "registry.example.com/NAMESPACE/taken:1")},
		says: `spec.image.name: Forbidden: the Build "taken" pushes to registry.example.com/NAMESPACE/taken:1 already; choose another repository or tag`, webhookOnly: true},
	"a further tag that another Build pushes to": {as: bob, changes: []change{set(image, "registry.example.com/NAMESPACE/taken:2"), set("spec.image.additionalTags", []string{"1"})},
		says: `spec.image.additionalTags: Forbidden: the Build "taken" pushes to`, webhookOnly: true},
	"another tag of the same repository": {as: bob, changes: []change{set(image, "registry.example.com/NAMESPACE/taken:2")}},
	"an image that a Build of another namespace pushes to": {as: bob, changes: []change{set(image, "eu.mirror.example.com/shared/shop:1")},
		says: "spec.image.name: Forbidden: a Build of another namespace pushes to eu.mirror.example.com/shared/shop:1 already", webhookOnly: true},
}

// elsewhereName is of a Build in another namespace.
const elsewhereName = "hidden"

// rule tries all rulings through kubectl.
func (s *scene) rule(byPolicy bool) {
	for _, name := range slices.Sorted(maps.Keys(rulings)) {
		c := rulings[name]
		if byPolicy && c.webhookOnly {
			continue
		}
		s.t.Run(name, func(t *testing.T) {
			build := minimal("tried", append([]change{set(image, "registry.example.com/NAMESPACE/shop:1")}, c.changes...)...)
			build = decode(t, strings.ReplaceAll(encode(t, build), "NAMESPACE", s.ns))
			out, err := s.as(c.as, build, "create")
			want := strings.ReplaceAll(c.says, "NAMESPACE", s.ns)
			if byPolicy && c.policy != "" {
				want = c.policy
			}
			switch {
			case err == nil:
				_, deleted := kubectl("", "delete", "build", "tried", "--namespace="+s.ns)
				if want != "" {
					t.Errorf("it is let in, not refused with %q (%v)", want, deleted)
				} else if !strings.Contains(out, "build.buildcontroller.dev/tried created") || deleted != nil {
					t.Errorf("kubectl says %q (%v)", out, deleted)
				}
			case want == "":
				t.Errorf("it is refused: %v", err)
			case !strings.Contains(err.Error(), want):
				t.Errorf("it is refused, but not with %q: %v", want, err)
			default:
				t.Log(err)
			}
			if err != nil && strings.Contains(err.Error(), elsewhereName) {
				t.Errorf("the message names what the user may not see: %v", err)
			}
		})
	}
}

// minimal is a Build with an image of the scene's own.
func (s *scene) minimal(name string, changes ...change) *unstructured.Unstructured {
	return minimal(name, append([]change{set(image, "registry.example.com/"+s.ns+"/"+name)}, changes...)...)
}

func encode(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	encoded, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func decode(t *testing.T, encoded string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(encoded)); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestTheWebhookLetsInAndRefusesWhatItsRulesSay(t *testing.T) {
	s, elsewhere := newScene(t, 2*usual), newScene(t, 2*usual)
	s.people()
	// There before any rule.
	s.create(makeBuild("taken", func(spec *v1alpha1.BuildSpec) {
		spec.Image.Name, spec.Suspend = "registry.example.com/"+s.ns+"/taken:1", true
	}))
	elsewhere.create(makeBuild(elsewhereName, func(spec *v1alpha1.BuildSpec) {
		spec.Image.Name, spec.Suspend = "eu.mirror.example.com/shared/shop:1", true
	}))
	newWebhooked(s, "-allowed-registries="+limits["registries"], "-allowed-git-hosts="+limits["gitHosts"], "-allowed-builders="+limits["builders"])
	s.rule(false)
}

func TestThePolicyLetsInAndRefusesWhatTheWebhookDoes(t *testing.T) {
	s := newScene(t, 2*usual)
	s.people()
	objects, err := manifests("admission-policy.yaml", `registries: ""`, `registries: "`+strings.Split(limits["registries"], ",")[0]+`"`,
		`gitHosts: ""`, `gitHosts: "`+limits["gitHosts"]+`"`, `builders: ""`, `builders: "`+limits["builders"]+`"`)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		encoded := encode(t, &object)
		if _, err := kubectl(encoded, "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
		if object.GetKind() != "Namespace" {
			t.Cleanup(func() {
				if _, err := kubectl(encoded, "delete", "-f", "-"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	s.until("the policy is in force", func() error {
		_, err := s.as(bob, minimal("tried", set("spec.builder.name", "Buildah")), "create", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			time.AfterFunc(100*time.Millisecond, s.notify) // nothing in the namespace tells when it is
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	status, err := kubectl("", "get", "validatingadmissionpolicy", "builds.buildcontroller.dev", "--output=jsonpath={.status.typeChecking}")
	if err != nil || strings.Contains(status, "expressionWarnings") {
		t.Errorf("the API server finds mistakes in the policy: %s (%v)", status, err)
	}
	s.rule(true)
}

// What is in force when nobody has set up anything is nothing.
func TestThePolicyAsShippedLimitsNothingButSecretsAndServiceAccounts(t *testing.T) {
	objects, err := manifests("admission-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() != "ConfigMap" {
			continue
		}
		var settings corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(encode(t, &object)), &settings); err != nil {
			t.Fatal(err)
		}
		for key, value := range settings.Data {
			if value != "" {
				t.Errorf("%s is %q", key, value)
			}
		}
		if len(settings.Data) != len(limits) {
			t.Errorf("it has %v", settings.Data)
		}
	}
}

func TestWhoeverMayNotUseASecretMayNotChangeABuildThatNamesItEither(t *testing.T) {
	s := newScene(t, usual)
	s.people()
	newWebhooked(s)
	build := s.minimal("shop", set(gitSecret, "git-creds"), set("spec.suspend", true), set("spec.deployment", object{}))
	if _, err := s.as(ann, build, "create"); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		user    string
		args    []string
		refused bool
	}{
		"bob changes the repository":       {bob, []string{"patch", "build", "shop", "--type=merge", "-p", `{"spec":{"source":{"git":{"url":"https://git.example.com/bob/shop"}}}}`}, true},
		"ann changes the repository":       {ann, []string{"patch", "build", "shop", "--type=merge", "-p", `{"spec":{"source":{"git":{"url":"https://git.example.com/ann/shop"}}}}`}, false},
		"ann names another Secret":         {ann, []string{"patch", "build", "shop", "--type=merge", "-p", `{"spec":{"source":{"git":{"secretName":"other"}}}}`}, true},
		"bob labels it":                    {bob, []string{"label", "build", "shop", "team=bob"}, false},
		"bob asks for a new run":           {bob, []string{"annotate", "build", "shop", "buildcontroller.dev/rebuild=now"}, false},
		"bob scales it":                    {bob, []string{"scale", "build", "shop", "--replicas=2"}, false},
		"bob writes what it says already":  {bob, []string{"patch", "build", "shop", "--type=merge", "-p", `{"spec":{"suspend":true}}`}, false},
		"bob takes its finalizers away":    {bob, []string{"patch", "build", "shop", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`}, false},
		"bob takes the Secret out of it":   {bob, []string{"patch", "build", "shop", "--dry-run=server", "--type=merge", "-p", `{"spec":{"source":{"git":{"secretName":null}}}}`}, false},
		"eve, with the role edit, changes": {eve, []string{"patch", "build", "shop", "--type=merge", "-p", `{"spec":{"retries":1}}`}, false},
	} {
		_, err := kubectl("", append(c.args, "--as="+c.user, "--namespace="+s.ns)...)
		if refused := err != nil && strings.Contains(err.Error(), "may not use"); refused != c.refused || !refused && err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := kubectl("", "delete", "build", "shop", "--as="+bob, "--namespace="+s.ns, "--timeout=30s"); err != nil {
		t.Errorf("bob deletes it: %v", err)
	}
}

func TestDefaultsSaveAWriteAndLeaveTheInputsAsTheyWere(t *testing.T) {
	s := newScene(t, usual)
	newWebhooked(s)
	from := cluster.audit.here(t)
	build := makeBuild("shop", func(spec *v1alpha1.BuildSpec) { spec.Image.Name = "registry.example.com/" + s.ns + "/shop" })
	s.create(build)
	s.untilReady("shop")
	live := s.build("shop")
	if !slices.Contains(live.Finalizers, v1alpha1.Finalizer) || live.Labels[v1alpha1.BuilderLabel] != "kaniko" {
		t.Errorf("it has the finalizers %v and labels %v", live.Finalizers, live.Labels)
	}
	if got, want := live.Status.Run.Hash, plan.Hash(build); got != want {
		t.Errorf("the run is of the inputs %s, not %s as they were written", got, want)
	}
	for _, r := range cluster.audit.since(t, from) {
		if r.byController() && r.writes() && r.ObjectRef.Resource == "builds" && r.ObjectRef.Subresource == "" {
			t.Errorf("the controller writes the Build: %s", r)
		}
	}
	// An apply does not take away what it never gave, and the label follows the builder.
	for _, builder := range []string{"kaniko", "buildkit"} {
		manifest := s.minimal("applied", set("spec.builder.name", map[string]string{"kaniko": "Kaniko", "buildkit": "BuildKit"}[builder]))
		if _, err := kubectl(encode(t, manifest), "apply", "--server-side", "--namespace="+s.ns, "-f", "-"); err != nil {
			t.Fatal(err)
		}
		s.until("the Build has its defaults", func() error {
			live := s.build("applied")
			if live == nil || live.Labels[v1alpha1.BuilderLabel] != builder || !slices.Contains(live.Finalizers, v1alpha1.Finalizer) {
				return fmt.Errorf("it is %v", live)
			}
			return nil
		})
	}
	selected, err := kubectl("", "get", "builds", "--namespace="+s.ns, "--selector", v1alpha1.BuilderLabel+"=buildkit", "--output=name")
	if err != nil || selected != "build.buildcontroller.dev/applied\n" {
		t.Errorf("selected by its builder there is %q (%v)", selected, err)
	}
}

// The flags hold without the webhook too: a Build may be older than they are.
func TestWithoutTheWebhookABuildThatIsNotAllowedIsToldSoAndStartsWhenItIs(t *testing.T) {
	s := newScene(t, usual)
	startController(t, startOptions{flags: []string{"-allowed-registries=registry.example.com/{namespace}"}})
	s.create(makeBuild("shop", buildOnly))
	s.until("it is told what is allowed", func() error {
		return s.condition("shop", v1alpha1.ConditionBuilt, metav1.ConditionFalse, "NotAllowed", "spec.image.name", "registry.example.com/"+s.ns)
	})
	s.until("there is an Event", func() error { return atLeast(1, s.eventsOf("shop")["NotAllowed"], "Events") })
	if jobs := s.jobsOf("shop"); len(jobs) > 0 {
		t.Errorf("there are %d Jobs", len(jobs))
	}
	s.patch("shop", object{"spec": object{"image": object{"name": "registry.example.com/" + s.ns + "/shop:1"}}})
	s.untilReady("shop")
}

func TestADryRunIsAnsweredAndLeavesNothingBehind(t *testing.T) {
	s := newScene(t, usual)
	s.people()
	newWebhooked(s)
	from := cluster.audit.here(t)
	build := s.minimal("shop", set("spec.image.insecure", true))
	for range 2 { // the first claims nothing
		out, err := s.as(bob, build, "create", "--dry-run=server", "--output=yaml")
		if err != nil || !strings.Contains(out, v1alpha1.Finalizer) {
			t.Errorf("%v: %s", err, out)
		}
	}
	if _, err := s.as(bob, s.minimal("shop", set(gitSecret, "vault")), "create", "--dry-run=server"); err == nil || !strings.Contains(err.Error(), `"vault"`) {
		t.Errorf("a dry run is not refused as the real one is: %v", err)
	}
	if _, err := s.as(bob, s.minimal("other", set(image, "registry.example.com/"+s.ns+"/shop")), "create"); err != nil {
		t.Errorf("the image of a dry run is taken: %v", err)
	}
	s.untilReady("other")
	for _, r := range cluster.audit.since(t, from) {
		if r.byController() && r.writes() && r.ObjectRef.Name == "shop" {
			t.Errorf("a dry run made the controller write: %s", r)
		}
	}
}

func TestWarningsReachTheUser(t *testing.T) {
	s := newScene(t, usual)
	newWebhooked(s)
	for name, c := range map[string]struct {
		changes []change
		warning string
	}{
		"plain http":          {[]change{set("spec.image.insecure", true)}, "Warning: spec.image.insecure: credentials and images travel unencrypted"},
		"a secret in an ARG":  {[]change{set(buildArgs, []object{{"name": "NPM_TOKEN", "value": "hunter2"}})}, "Warning: spec.dockerfile.buildArgs[0]: the value of NPM_TOKEN can be read in the image's history"},
		"a privileged level":  {[]change{set("spec.builder.name", "Buildah")}, "Warning: spec.builder.name: Buildah needs the pod security level privileged"},
		"an image by its tag": {[]change{set("spec.builder.image", "registry.example.com/kaniko:1")}, "Warning: spec.builder.image: a tag can be moved"},
	} {
		said, err := kubectlSays(encode(t, s.minimal("shop", c.changes...)), "create", "--dry-run=server", "--namespace="+s.ns, "-f", "-")
		if err != nil || !strings.Contains(said, c.warning) {
			t.Errorf("%s: kubectl says %q (%v)", name, said, err)
		}
		if strings.Contains(said, "hunter2") {
			t.Errorf("%s: a value is printed: %s", name, said)
		}
	}
	if said, err := kubectlSays(encode(t, s.minimal("shop")), "create", "--dry-run=server", "--namespace="+s.ns, "-f", "-"); err != nil || said != "" {
		t.Errorf("of an ordinary Build kubectl says %q (%v)", said, err)
	}
}
