package admission

import (
	"encoding/json"
	"maps"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// patched applies a JSON patch as an API server does.
func patched(t *testing.T, build *v1alpha1.Build, raw, patch []byte) []byte {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	builds := v1alpha1.SchemeGroupVersion.WithResource("builds")
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{builds: "BuildList"}, object)
	got, err := client.Resource(builds).Namespace(build.Namespace).Patch(t.Context(), build.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	encoded, err := got.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestWhatAUserLeavesOutIsCompleted(t *testing.T) {
	for name, c := range map[string]struct {
		metadata string // beside name and namespace
		builder  string // of the spec
		label    string
		keeps    int // finalizers of others
		nothing  bool
	}{
		"all of it":                            {label: "kaniko"},
		"with null for both":                   {metadata: `"labels": null, "finalizers": null`, label: "kaniko"},
		"with nothing in both":                 {metadata: `"labels": {}, "finalizers": []`, label: "kaniko"},
		"beside those of others":               {metadata: `"labels": {"a": "b"}, "finalizers": ["example.com/x"]`, label: "kaniko", keeps: 1},
		"the label of the builder":             {builder: `"builder": {"name": "BuildKit"}, `, label: "buildkit"},
		"a label that tells of another":        {metadata: `"labels": {"buildcontroller.dev/builder": "buildah"}`, label: "kaniko"},
		"the label alone":                      {metadata: `"finalizers": ["buildcontroller.dev/stop-run"]`, label: "kaniko"},
		"the finalizer alone":                  {metadata: `"labels": {"buildcontroller.dev/builder": "kaniko"}`, label: "kaniko"},
		"nothing, when nothing is left out":    {metadata: `"labels": {"buildcontroller.dev/builder": "kaniko"}, "finalizers": ["a/b", "buildcontroller.dev/stop-run"]`, label: "kaniko", keeps: 1, nothing: true},
		"the label of a builder that is empty": {builder: `"builder": {"env": [{"name": "A", "value": ""}], "mirrors": []}, `, label: "kaniko"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.metadata != "" {
				c.metadata = ", " + c.metadata
			}
			// An object as a user may have written it: with empty fields, whose order and form are not ours to change.
			raw := []byte(`{"apiVersion": "buildcontroller.dev/v1alpha1", "kind": "Build", "metadata": {"name": "shop", "namespace": "team"` + c.metadata + `},
				"spec": {` + c.builder + `"timeout": "90m", "dockerfile": {}, "image": {"name": "registry.example.com/shop", "additionalTags": []},
				"source": {"git": {"url": "https://git.example.com/shop?<&>", "depth": 0}}, "deployment": {"template": {"spec": {"hostNetwork": null}}}}}`)
			build := aBuild()
			ask := func(raw []byte) *admissionv1.AdmissionResponse {
				r := request(t, build, nil)
				r.Object.Raw = raw
				got, err := webhook(may()).Default(t.Context(), r)
				if err != nil || !got.Allowed || got.Result != nil || (got.Patch == nil) != (got.PatchType == nil) {
					t.Fatalf("the answer is %+v, %v", got, err)
				}
				return got
			}
			got := ask(raw)
			if (got.Patch == nil) != c.nothing {
				t.Fatalf("the patch is %s", got.Patch)
			}
			if c.nothing {
				return
			}
			if *got.PatchType != admissionv1.PatchTypeJSONPatch {
				t.Errorf("it is a %s", *got.PatchType)
			}
			after := patched(t, build, raw, got.Patch)
			var is, was struct {
				metav1.ObjectMeta `json:"metadata"`
				Spec              any
			}
			var before, result v1alpha1.Build
			for into, from := range map[any][]byte{&is: after, &was: raw, &before: raw, &result: after} {
				if err := json.Unmarshal(from, into); err != nil {
					t.Fatal(err)
				}
			}
			if was.Labels == nil {
				was.Labels = map[string]string{}
			}
			if was.Labels[v1alpha1.BuilderLabel] = c.label; !maps.Equal(is.Labels, was.Labels) {
				t.Errorf("the labels are %v", is.Labels)
			}
			if len(is.Finalizers) != c.keeps+1 || is.Finalizers[c.keeps] != v1alpha1.Finalizer {
				t.Errorf("the finalizers are %q", is.Finalizers)
			}
			specIs, _ := json.Marshal(is.Spec)
			specWas, _ := json.Marshal(was.Spec)
			if string(specIs) != string(specWas) {
				t.Errorf("the spec is %s, and was %s", specIs, specWas)
			}
			if plan.Hash(&result) != plan.Hash(&before) {
				t.Error("the hash of the inputs is another")
			}
			if again := ask(after); again.Patch != nil {
				t.Errorf("a second time the patch is %s", again.Patch)
			}
		})
	}
}
