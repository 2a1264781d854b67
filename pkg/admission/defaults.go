package admission

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// operation of a JSON patch, RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// defaults returns the JSON patch that completes a Build, or nil: the finalizer, which saves the controller a write, and a label with
// the builder's name to select by. The spec is not touched: what enters the hash of the inputs is what the user wrote.
func defaults(build *v1alpha1.Build) ([]byte, error) {
	var patch []operation
	if !slices.Contains(build.Finalizers, v1alpha1.Finalizer) {
		if build.Finalizers == nil {
			patch = append(patch, operation{"add", "/metadata/finalizers", []string{}})
		}
		patch = append(patch, operation{"add", "/metadata/finalizers/-", v1alpha1.Finalizer})
	}
	if name := strings.ToLower(string(plan.BuilderName(build))); build.Labels[v1alpha1.BuilderLabel] != name {
		if build.Labels == nil {
			patch = append(patch, operation{"add", "/metadata/labels", map[string]string{}})
		}
		patch = append(patch, operation{"add", "/metadata/labels/" + escapedPointer(v1alpha1.BuilderLabel), name})
	}
	if patch == nil {
		return nil, nil
	}
	return json.Marshal(patch)
}

// escapedPointer is a key as a JSON pointer has it, RFC 6901.
func escapedPointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
