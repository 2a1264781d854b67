package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakeauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/policy"
)

// aBuild is the smallest Build there can be, changed.
func aBuild(change ...func(*v1alpha1.Build)) *v1alpha1.Build {
	build := &v1alpha1.Build{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"},
		Spec: v1alpha1.BuildSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{URL: "https://git.example.com/shop.git"}},
			Image:  v1alpha1.Image{Name: "registry.example.com/shop:1.0"},
		},
	}
	for _, f := range change {
		f(build)
	}
	return build
}

// another is a Build of the name, given as namespace/name, that pushes to those.
func another(name, image string, tags ...string) *v1alpha1.Build {
	return aBuild(func(b *v1alpha1.Build) {
		b.Namespace, b.Name, _ = strings.Cut(name, "/")
		b.Spec.Image = v1alpha1.Image{Name: image, AdditionalTags: tags}
	})
}

func beingDeleted(b *v1alpha1.Build) { b.DeletionTimestamp = ptr.To(metav1.Now()) }

func image(name string, tags ...string) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) { b.Spec.Image = v1alpha1.Image{Name: name, AdditionalTags: tags} }
}

func builder(settings v1alpha1.Builder) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) { b.Spec.Builder = &settings }
}

func deployment(d v1alpha1.Deployment) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) { b.Spec.Deployment = &d }
}

// template is of a deployment with that spec of a pod, in YAML.
func template(spec string) func(*v1alpha1.Build) {
	raw, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		panic(err)
	}
	return deployment(v1alpha1.Deployment{Template: &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: raw}}})
}

// rights answers reviews: a user may do what is listed, as "verb resource name"; without a name that is all of them.
type rights struct {
	fakeauthorizationv1.FakeAuthorizationV1
	reviews []*authorizationv1.LocalSubjectAccessReview
}

func may(allowed ...string) *rights {
	r := &rights{}
	r.Fake = &clienttesting.Fake{}
	r.Fake.AddReactor("create", "localsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.LocalSubjectAccessReview).DeepCopy()
		if action.GetNamespace() != review.Namespace {
			return true, nil, fmt.Errorf("a review of %s in %s", review.Namespace, action.GetNamespace())
		}
		r.reviews = append(r.reviews, review)
		asked := r.asked()
		review.Status.Allowed = slices.Contains(allowed, asked[len(asked)-1])
		return true, review, nil
	})
	return r
}

// asked are the questions, in the form of what is allowed.
func (r *rights) asked() []string {
	var all []string
	for _, review := range r.reviews {
		of := review.Spec.ResourceAttributes
		all = append(all, strings.TrimSpace(of.Verb+" "+of.Resource+" "+of.Name))
	}
	return all
}

func webhook(access *rights, builds ...*v1alpha1.Build) *Webhook {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers)
	for _, build := range builds {
		_ = indexer.Add(build)
	}
	return &Webhook{Builds: indexer, Synced: func() bool { return true }, Access: access}
}

// request is what the API server asks when jane makes a Build out of the old one, nil for none.
func request(t testing.TB, build, old *v1alpha1.Build) *admissionv1.AdmissionRequest {
	encoded := func(b *v1alpha1.Build) []byte {
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	r := &admissionv1.AdmissionRequest{
		UID: "uid-of-the-review", Operation: admissionv1.Create, Namespace: build.Namespace, Name: build.Name,
		UserInfo: authenticationv1.UserInfo{Username: "jane"}, Object: runtime.RawExtension{Raw: encoded(build)},
	}
	if old != nil {
		r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: encoded(old)}
	}
	return r
}

func TestWhatIsRefused(t *testing.T) {
	registry := policy.Policy{Registries: policy.Places{"registry.example.com"}}
	for name, c := range map[string]struct {
		policy policy.Policy
		others []*v1alpha1.Build
		rights []string
		build  func(*v1alpha1.Build)
		old    *v1alpha1.Build // nil: it is new
		want   string          // empty: it is allowed
	}{
		"nothing of an ordinary Build": {},

		"nothing that the policy allows": {policy: registry},
		"what the policy does not allow": {policy: registry, build: image("docker.io/team/shop"), want: `spec.image.name: Forbidden: this repository is not among those that may be used here: registry.example.com`},

		"the image of another Build": {others: []*v1alpha1.Build{another("team/other", "registry.example.com/shop:1.0")},
			want: `spec.image.name: Forbidden: the Build "other" pushes to registry.example.com/shop:1.0 already; choose another repository or tag`},
		"the image of a Build of another namespace, whose name is not told": {others: []*v1alpha1.Build{another("private/hidden", "registry.example.com/shop:1.0")},
			want: `spec.image.name: Forbidden: a Build of another namespace pushes to registry.example.com/shop:1.0 already; choose another repository or tag`},
		"the image of a Build of the same name in another namespace": {others: []*v1alpha1.Build{another("private/shop", "registry.example.com/shop:1.0")},
			want: `spec.image.name: Forbidden: a Build of another namespace pushes to registry.example.com/shop:1.0 already; choose another repository or tag`},
		"the image of another Build under a name that says the same": {build: image("team/shop"), others: []*v1alpha1.Build{another("team/other", "docker.io/team/shop:latest")},
			want: `spec.image.name: Forbidden: the Build "other" pushes to docker.io/team/shop:latest already; choose another repository or tag`},
		"the image of another Build whose registry is in upper case": {others: []*v1alpha1.Build{another("team/other", "Registry.Example.com/shop:1.0")},
			want: `spec.image.name: Forbidden: the Build "other" pushes to registry.example.com/shop:1.0 already; choose another repository or tag`},
		"a tag of another Build": {build: image("registry.example.com/shop:1.0", "1", "latest"), others: []*v1alpha1.Build{another("team/other", "registry.example.com/shop")},
			want: `spec.image.additionalTags: Forbidden: the Build "other" pushes to registry.example.com/shop:latest already; choose another repository or tag`},
		"an additional tag of another Build": {others: []*v1alpha1.Build{another("team/other", "registry.example.com/shop:2.0", "1.0")},
			want: `spec.image.name: Forbidden: the Build "other" pushes to registry.example.com/shop:1.0 already; choose another repository or tag`},
		"each name that clashes, once": {build: image("registry.example.com/shop:1.0", "1"), others: []*v1alpha1.Build{another("team/other", "registry.example.com/shop:1", "1.0"), another("a/b", "registry.example.com/shop:2", "1")},
			want: `spec.image.name: Forbidden: the Build "other" pushes to registry.example.com/shop:1.0 already; choose another repository or tag; ` +
				`spec.image.additionalTags: Forbidden: `},
		"nothing of other repositories and tags": {others: []*v1alpha1.Build{
			another("team/other", "registry.example.com/shop:2.0"), another("team/third", "registry.example.com/shop2:1.0"), another("team/fourth", "example.com/shop:1.0"), another("x/y", "registry.example.com/shop:1.0.0")}},
		"nothing of what it pushes to itself":        {others: []*v1alpha1.Build{aBuild()}, old: another("team/shop", "registry.example.com/before")},
		"nothing of a Build that is being deleted":   {others: []*v1alpha1.Build{aBuild(beingDeleted, func(b *v1alpha1.Build) { b.Name = "other" })}},
		"nothing of a clash that was there already":  {others: []*v1alpha1.Build{another("team/other", "registry.example.com/shop:1.0")}, old: aBuild(func(b *v1alpha1.Build) { b.Spec.Suspend = true })},
		"nothing of a name that moves into the tags": {build: image("registry.example.com/shop:2.0", "1.0"), others: []*v1alpha1.Build{another("team/other", "registry.example.com/shop:1.0")}, old: aBuild()},
		"a clash that comes with a change": {others: []*v1alpha1.Build{another("team/other", "registry.example.com/shop:1.0")}, old: another("team/shop", "registry.example.com/shop:2.0"),
			want: `spec.image.name: Forbidden: the Build "other" pushes to registry.example.com/shop:1.0 already; choose another repository or tag`},

		"a Secret that the user may not get": {build: func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }, rights: []string{"list secrets", "get secrets other", "get configmaps regcred"},
			want: `spec: Forbidden: names the Secret "regcred", which jane may not use: ask for the right to get secrets in this namespace`},
		"no Secret that the user may get":               {build: func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }, rights: []string{"get secrets regcred"}},
		"no Secret when the user may get all":           {build: func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }, rights: []string{"get secrets"}},
		"no Secret that the user may get, on a change":  {build: func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }, rights: []string{"get secrets regcred"}, old: aBuild()},
		"a Secret that was named before, on any change": {build: func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }, old: aBuild(func(b *v1alpha1.Build) { b.Spec.Image.SecretName, b.Spec.Suspend = "regcred", true }), want: `spec: Forbidden: names the Secret "regcred", which jane may not use: ask for the right to get secrets in this namespace`},
		"a ServiceAccount that the user may not be": {build: builder(v1alpha1.Builder{ServiceAccountName: "admin"}), rights: []string{"get serviceaccounts admin", "get secrets"},
			want: `spec: Forbidden: names the ServiceAccount "admin", which jane may not use: ask for the right to impersonate serviceaccounts in this namespace`},
		"no ServiceAccount that the user may be": {build: builder(v1alpha1.Builder{ServiceAccountName: "builder"}), rights: []string{"impersonate serviceaccounts builder"}},

		"a template that is none": {build: template(`{containers: [{name: x, imige: y}]}`),
			want: `spec.deployment.template: Invalid value: spec.deployment.template cannot be merged: unknown field "spec.containers[0].imige".`},
		"a template that runs another image": {build: template(`{containers: [{name: app, image: x}]}`),
			want: `spec.deployment.template: Invalid value: spec.deployment.template cannot be merged: the container app is the application's, has to stay and to run the image that was built; leave its image out.`},
		"no template that can be merged": {build: template(`{containers: [{name: proxy, image: proxy}]}`)},

		"all of that at once": {policy: registry, build: func(b *v1alpha1.Build) {
			template(`{x: 1}`)(b)
			b.Spec.Image = v1alpha1.Image{Name: "docker.io/team/shop"}
			b.Spec.Deployment.Ingress = &v1alpha1.Ingress{TLSSecretName: "tls"}
		}, others: []*v1alpha1.Build{another("team/other", "team/shop")}, want: `spec.image.name: Forbidden: this repository is not among those that may be used here: registry.example.com; ` +
			`spec.image.name: Forbidden: the Build "other" pushes to docker.io/team/shop:latest already; choose another repository or tag; ` +
			`spec.deployment.template: Invalid value: spec.deployment.template cannot be merged: unknown field "spec.x".; ` +
			`spec: Forbidden: names the Secret "tls", which jane may not use: ask for the right to get secrets in this namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			build := aBuild()
			if c.build != nil {
				c.build(build)
			}
			w := webhook(may(c.rights...), c.others...)
			w.Policy = c.policy
			got, err := w.Validate(t.Context(), request(t, build, c.old))
			if err != nil {
				t.Fatal(err)
			}
			if got.Allowed != (c.want == "") || got.Allowed != (got.Result == nil) {
				t.Fatalf("allowed is %v, with %+v", got.Allowed, got.Result)
			}
			if got.Allowed {
				return
			}
			message := got.Result.Message
			if strings.HasSuffix(c.want, "Forbidden: ") { // which of two others is named is left open
				message = message[:min(len(c.want), len(message))]
			}
			if message != c.want || got.Result.Code != 403 || got.Result.Reason != metav1.StatusReasonForbidden || got.Result.Status != metav1.StatusFailure {
				t.Errorf("it is refused with %+v", got.Result)
			}
			for _, hidden := range []string{"private", "hidden"} {
				if strings.Contains(got.Result.Message, hidden) {
					t.Errorf("%q tells of another namespace", got.Result.Message)
				}
			}
		})
	}
}

func TestNothingIsAskedAboutWhatDoesNotMatter(t *testing.T) {
	// Everything is wrong with it.
	bad := func(change ...func(*v1alpha1.Build)) *v1alpha1.Build {
		return aBuild(append([]func(*v1alpha1.Build){template(`{x: 1}`), builder(v1alpha1.Builder{ServiceAccountName: "admin", Args: []string{"--x"}}), func(b *v1alpha1.Build) {
			b.Spec.Image.SecretName = "regcred"
		}}, change...)...)
	}
	for name, r := range map[string]*admissionv1.AdmissionRequest{
		"a change of metadata alone": request(t, bad(func(b *v1alpha1.Build) {
			b.Labels, b.Finalizers = map[string]string{"a": "b"}, []string{}
		}), bad()),
		"a change of the status alone":  request(t, bad(func(b *v1alpha1.Build) { b.Status.Phase = "x" }), bad()),
		"a Build that is being deleted": request(t, bad(beingDeleted), aBuild(beingDeleted)),
		"an empty list for none": request(t, bad(func(b *v1alpha1.Build) {
			b.Spec.Builder.Mirrors, b.Spec.Image.AdditionalTags = []string{}, []string{}
		}), bad()),
		"a deletion":   {Operation: admissionv1.Delete, OldObject: request(t, bad(), nil).Object},
		"a connection": {Operation: admissionv1.Connect},
	} {
		t.Run(name, func(t *testing.T) {
			access := may()
			w := webhook(access, another("team/other", "registry.example.com/shop:1.0"))
			w.Policy.Registries = policy.Places{"elsewhere.example.com"}
			for _, decide := range []decide{w.Validate, w.Default} {
				got, err := decide(t.Context(), r)
				if want := (&admissionv1.AdmissionResponse{Allowed: true}); err != nil || !equality.Semantic.DeepEqual(got, want) {
					t.Errorf("the answer is %+v, %v", got, err)
				}
			}
			if len(access.reviews) > 0 {
				t.Errorf("%q was asked", access.asked())
			}
		})
	}
}

// The namespace and the name are those of the request: what the object says of itself was not compared with anything.
func TestTheObjectDoesNotSayWhereItIs(t *testing.T) {
	build := aBuild(func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" })
	r := request(t, build, nil)
	r.Namespace, r.Name = "other", ""
	access := may("get secrets")
	if got, err := webhook(access, aBuild()).Validate(t.Context(), r); err != nil || got.Allowed || strings.Contains(got.Result.Message, `"shop"`) {
		t.Errorf("a Build of another namespace is taken for one of its own: %+v, %v", got, err)
	}
	if len(access.reviews) != 1 || access.reviews[0].Namespace != "other" || access.reviews[0].Spec.ResourceAttributes.Namespace != "other" {
		t.Errorf("asked was %+v", access.reviews)
	}
}

func TestTheReviewIsOfTheUser(t *testing.T) {
	r := request(t, aBuild(func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }), nil)
	r.UserInfo = authenticationv1.UserInfo{Username: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"x", "y"}}}
	access := may("get secrets")
	if _, err := webhook(access).Validate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"x", "y"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "team", Verb: "get", Resource: "secrets"},
	}
	if !equality.Semantic.DeepEqual(access.reviews[0].Spec, want) {
		t.Errorf("asked was %+v", access.reviews[0].Spec)
	}
}

func TestHowOftenTheAPIServerIsAsked(t *testing.T) {
	both := func(b *v1alpha1.Build) {
		b.Spec.Source.Git.SecretName, b.Spec.Image.SecretName = "git", "regcred"
		b.Spec.Builder = &v1alpha1.Builder{ServiceAccountName: "builder", Secrets: []v1alpha1.BuildSecret{{ID: "a", SecretName: "git"}}}
	}
	for name, c := range map[string]struct {
		build        func(*v1alpha1.Build)
		rights, want []string
	}{
		"never when nothing is named":          {build: image("registry.example.com/shop")},
		"once for all Secrets":                 {build: func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }, rights: []string{"get secrets"}, want: []string{"get secrets"}},
		"once for each kind":                   {build: both, rights: []string{"get secrets", "impersonate serviceaccounts"}, want: []string{"get secrets", "impersonate serviceaccounts"}},
		"once for each name, however often":    {build: both, rights: []string{"get secrets git"}, want: []string{"get secrets", "get secrets git", "get secrets regcred", "impersonate serviceaccounts", "impersonate serviceaccounts builder"}},
		"not about the default ServiceAccount": {build: template(`{hostNetwork: true}`)},
	} {
		t.Run(name, func(t *testing.T) {
			access := may(c.rights...)
			if _, err := webhook(access).Validate(t.Context(), request(t, aBuild(c.build), nil)); err != nil || !slices.Equal(access.asked(), c.want) {
				t.Errorf("asked was %q: %v", access.asked(), err)
			}
		})
	}
}

// A template has room for thousands of Secrets, and the API server is not to be kept busy with a request that is refused anyway.
func TestAFewMissingNamesAreEnough(t *testing.T) {
	var volumes []string
	allowed := []string{}
	for i := range 1000 {
		volumes = append(volumes, fmt.Sprintf("{name: v%[1]d, secret: {secretName: s%03[1]d}}", i))
		if i < 5 {
			allowed = append(allowed, fmt.Sprintf("get secrets s%03d", i))
		}
	}
	access := may(allowed...)
	got, err := webhook(access).Validate(t.Context(), request(t, aBuild(template("{volumes: ["+strings.Join(volumes, ",")+"]}")), nil))
	if err != nil || got.Allowed || strings.Count(got.Result.Message, "names the Secret") != maxMissing || len(access.reviews) != 1+5+maxMissing {
		t.Errorf("after %d questions the answer is %+v, %v", len(access.reviews), got, err)
	}
}

func TestAnAPIServerThatDoesNotAnswerIsNoRefusal(t *testing.T) {
	for name, failing := range map[string]string{"about all": "get secrets", "about one": "get secrets regcred", "about ServiceAccounts": "impersonate serviceaccounts"} {
		access := may()
		access.Fake.PrependReactor("create", "localsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
			of := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.LocalSubjectAccessReview).Spec.ResourceAttributes
			if strings.TrimSpace(of.Verb+" "+of.Resource+" "+of.Name) == failing {
				return true, nil, errors.New("out of order")
			}
			return false, nil, nil
		})
		build := aBuild(builder(v1alpha1.Builder{ServiceAccountName: "builder"}), func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" })
		got, err := webhook(access).Validate(t.Context(), request(t, build, nil))
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), "asking whether jane may ") || !strings.HasSuffix(err.Error(), ": out of order") {
			t.Errorf("%s: the answer is %+v, %v", name, got, err)
		}
	}
}

func TestARequestWithoutABuildIsAnError(t *testing.T) {
	good := request(t, aBuild(), aBuild())
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"no object":              func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil },
		"no old object":          func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = nil },
		"an object of a list":    func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`[]`) },
		"an old one of a string": func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = []byte(`"x"`) },
		"a quantity that takes hours to be read": func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"spec": {"builder": {"resources": {"limits": {"cpu": "1e-10000000\u0030"}}}}}`)
		},
		"one that is no string": func(r *admissionv1.AdmissionRequest) {
			r.OldObject.Raw = []byte(`{"spec": {"builder": {"resources": {"LIMITS": {"cpu": 1E-100000000}}}}}`)
		},
		"one in a template": func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"spec": {"deployment": {"template": {"spec": {"overhead": {"cpu": "-.1e-100000000"}}}}}}`)
		},
		"a spec of a number": func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"spec": 1}`) },
	} {
		r := good.DeepCopy()
		change(r)
		w := webhook(may())
		if _, err := w.Validate(t.Context(), r); !errors.Is(err, errMalformed) {
			t.Errorf("%s: validating it is %v", name, err)
		}
		if _, err := w.Default(t.Context(), r); !errors.Is(err, errMalformed) {
			t.Errorf("%s: completing it is %v", name, err)
		}
	}
}

func TestEveryPlaceThatNamesASecretOrAServiceAccountIsReviewed(t *testing.T) {
	ref := corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}
	env := []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &ref}}}
	for name, c := range map[string]struct {
		build func(*v1alpha1.Build)
		want  string // of a ServiceAccount; empty: it is a Secret
	}{
		"spec.source.git.secretName":                   {build: func(b *v1alpha1.Build) { b.Spec.Source.Git.SecretName = "s" }},
		"spec.image.secretName":                        {build: func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "s" }},
		"spec.builder.env":                             {build: builder(v1alpha1.Builder{Env: env})},
		"spec.builder.secrets":                         {build: builder(v1alpha1.Builder{Secrets: []v1alpha1.BuildSecret{{ID: "a", SecretName: "s", Key: "k"}}})},
		"spec.builder.imagePullSecrets":                {build: builder(v1alpha1.Builder{ImagePullSecrets: []v1alpha1.SecretReference{{Name: "s"}}})},
		"spec.builder.volumes":                         {build: builder(v1alpha1.Builder{Volumes: []v1alpha1.Volume{{Name: "a", MountPath: "/a", Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}})},
		"spec.deployment.env":                          {build: deployment(v1alpha1.Deployment{Env: env})},
		"spec.deployment.ingress.tlsSecretName":        {build: deployment(v1alpha1.Deployment{Ingress: &v1alpha1.Ingress{TLSSecretName: "s"}})},
		"a volume of the template":                     {build: template(`{volumes: [{name: a, secret: {secretName: s}}]}`)},
		"a projected volume of the template":           {build: template(`{volumes: [{name: a, projected: {sources: [{configMap: {name: c}}, {secret: {name: s}}]}}]}`)},
		"a volume of a driver of the template":         {build: template(`{volumes: [{name: a, csi: {driver: d, nodePublishSecretRef: {name: s}}}]}`)},
		"imagePullSecrets of the template":             {build: template(`{imagePullSecrets: [{name: s}]}`)},
		"env of the application's container":           {build: template(`{containers: [{name: app, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}`)},
		"envFrom of another container":                 {build: template(`{containers: [{name: proxy, image: proxy, envFrom: [{configMapRef: {name: c}}, {secretRef: {name: s}}]}]}`)},
		"env of an init container":                     {build: template(`{initContainers: [{name: init, image: init, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}`)},
		"an optional volume of the template":           {build: template(`{volumes: [{name: a, secret: {secretName: s, optional: true}}]}`)},
		"spec.builder.serviceAccountName":              {build: builder(v1alpha1.Builder{ServiceAccountName: "s"}), want: "s"},
		"serviceAccountName of the template":           {build: template(`{serviceAccountName: s}`), want: "s"},
		"serviceAccount of the template, its old name": {build: template(`{serviceAccount: s}`), want: "s"},
		"both names of it":                             {build: template(`{serviceAccountName: s, serviceAccount: s}`), want: "s"},
	} {
		access := may()
		got, err := webhook(access).Validate(t.Context(), request(t, aBuild(c.build), nil))
		want := []string{"get secrets", "get secrets s"}
		if c.want != "" {
			want = []string{"impersonate serviceaccounts", "impersonate serviceaccounts s"}
		}
		if err != nil || got.Allowed || !slices.Equal(access.asked(), want) {
			t.Errorf("%s: asked was %q, the answer is %+v, %v", name, access.asked(), got, err)
		}
	}
	// What looks like one.
	access := may()
	build := aBuild(func(b *v1alpha1.Build) {
		template(`{volumes: [{name: a, configMap: {name: c}}], containers: [{name: app, envFrom: [{configMapRef: {name: c}}]}]}`)(b)
		b.Spec.Source.Git.CAConfigMapName, b.Spec.Image.CAConfigMapName = "c", "c"
		b.Spec.Builder = &v1alpha1.Builder{PriorityClassName: "c", RuntimeClassName: "c", Volumes: []v1alpha1.Volume{
			{Name: "secret", MountPath: "/secret", PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	})
	if got, err := webhook(access).Validate(t.Context(), request(t, build, nil)); err != nil || !got.Allowed || len(access.reviews) > 0 {
		t.Errorf("asked was %q, the answer is %+v, %v", access.asked(), got, err)
	}
}
