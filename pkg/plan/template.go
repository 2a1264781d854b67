package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// overridden merges spec.deployment.template over the generated pod template, as kubectl patch does. What comes out has the form in which
// the API server stores it, so that it can be compared. The error says which field is wrong.
func overridden(build *v1alpha1.Build, generated *corev1ac.PodTemplateSpecApplyConfiguration) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	template := build.Spec.Deployment.Template
	if template == nil {
		return generated, nil
	}
	original, patch := tree(generated), map[string]any{}
	if template.Metadata != nil {
		patch["metadata"] = tree(template.Metadata)
	}
	if template.Spec != nil {
		spec := map[string]any{}
		if err := json.Unmarshal(template.Spec.Raw, &spec); err != nil {
			return nil, errors.New("spec must be a part of a pod's spec")
		}
		patch["spec"] = spec
	}
	if !shallow(patch, maxDepth) {
		return nil, fmt.Errorf("spec is nested deeper than %d levels, which no pod's spec is", maxDepth)
	}
	// The merge takes types for granted and gives directives a meaning, so it gets nothing but a part of a pod template.
	if err := plain("", "", patch); err != nil {
		return nil, err
	}
	if err := strictly(patch, &corev1.PodTemplateSpec{}); err != nil {
		return nil, err
	}
	if err := named("", "", patch); err != nil {
		return nil, err
	}
	giveWay(containerOf(original, appContainer(build)), containerOf(patch, appContainer(build)))

	mergedTree, err := strategicpatch.StrategicMergeMapPatch(original, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, err
	}
	var merged corev1.PodTemplateSpec
	if err := strictly(mergedTree, &merged); err != nil {
		return nil, err
	}
	// The first container is the one that kubectl logs and kubectl exec take.
	if i := slices.IndexFunc(merged.Spec.Containers, func(c corev1.Container) bool { return c.Name == appContainer(build) }); i > 0 {
		app := merged.Spec.Containers[i]
		merged.Spec.Containers = slices.Insert(slices.Delete(merged.Spec.Containers, i, i+1), 0, app)
	}
	if err := keepsOurs(build, &merged, *generated.Spec.Containers[0].Image); err != nil {
		return nil, err
	}
	configuration := converted[corev1ac.PodTemplateSpecApplyConfiguration](merged)
	for _, containers := range [][]corev1ac.ContainerApplyConfiguration{configuration.Spec.InitContainers, configuration.Spec.Containers} {
		for i := range containers {
			if resources := containers[i].Resources; resources != nil && len(tree(resources)) == 0 {
				containers[i].Resources = nil // an empty struct is always encoded; nobody asked for it
			}
		}
	}
	return configuration, nil
}

// strictly decodes what the API server would accept: every field has to be there, once, and in its own case.
func strictly(object map[string]any, into any) error {
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	unknown, err := strictjson.UnmarshalStrict(encoded, into)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	return err
}

// maxDepth is how deep a template may be nested. A pod's spec comes to a dozen levels; with thousands, paths in messages would fill the memory.
const maxDepth = 40

// shallow says whether decoded JSON has at most that many levels.
func shallow(value any, levels int) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, child := range value {
			if levels == 0 || !shallow(child, levels-1) {
				return false
			}
		}
	case []any:
		for _, child := range value {
			if levels == 0 || !shallow(child, levels-1) {
				return false
			}
		}
	}
	return true
}

// quantities are the fields of a pod's spec that are quantities or hold nothing else.
var quantities = map[string]bool{"limits": true, "requests": true, "overhead": true, "sizeLimit": true, "divisor": true}

// endless are quantities that take hours to parse, like 1e-100000000.
var endless = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

func quantity(text string) bool {
	if endless.MatchString(text) {
		return false
	}
	_, err := resource.ParseQuantity(text)
	return err == nil
}

// plain refuses what means something to a merge that it does not mean to a pod, directives and nothing as an entry of a list, and
// quantities that are none, of which a decoder does not say where they are. key is the last field of the path.
func plain(path, key string, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(value)) {
			below := strings.TrimPrefix(path+"."+field, ".")
			if strings.HasPrefix(field, "$") {
				return fmt.Errorf("the directive %s is not supported; null takes a field away", below)
			}
			if text, ok := value[field].(string); ok && (quantities[key] || quantities[field]) {
				if !quantity(text) {
					return fmt.Errorf("%s: %q is no quantity", below, text)
				}
			}
			if err := plain(below, field, value[field]); err != nil {
				return err
			}
		}
	case []any:
		for i, inner := range value {
			below := fmt.Sprintf("%s[%d]", path, i)
			if inner == nil {
				return fmt.Errorf("%s is null; leave it out", below)
			}
			if err := plain(below, key, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveWay takes probes and hooks away that the patch has too: each is one of several ways, and two at once are invalid.
func giveWay(generated, patch map[string]any) {
	for _, probe := range []string{"readinessProbe", "livenessProbe", "startupProbe"} {
		if patch[probe] != nil {
			delete(generated, probe)
		}
	}
	hooks, _ := generated["lifecycle"].(map[string]any)
	others, _ := patch["lifecycle"].(map[string]any)
	for hook := range others {
		delete(hooks, hook)
	}
}

// containerOf returns the container of that name in a pod template; nil if there is none.
func containerOf(template map[string]any, name string) map[string]any {
	spec, _ := template["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, container := range containers {
		if container, ok := container.(map[string]any); ok && container["name"] == name {
			return container
		}
	}
	return nil
}

// keepsOurs says what a template must not change: without it the Deployment would not run the image, or not be found.
func keepsOurs(build *v1alpha1.Build, merged *corev1.PodTemplateSpec, image string) error {
	for key, value := range appLabels(build) {
		if merged.Labels[key] != value {
			return fmt.Errorf("the label %s is what the Service finds the pods by; leave it out", key)
		}
	}
	name := appContainer(build)
	for _, container := range merged.Spec.Containers {
		if container.Name == name && container.Image == image {
			return nil
		}
	}
	return fmt.Errorf("the container %s is the application's, has to stay and to run the image that was built; leave its image out", name)
}

// appContainer is the name of the application's container.
func appContainer(build *v1alpha1.Build) string {
	return cmp.Or(build.Spec.Deployment.ContainerName, v1alpha1.AppContainer)
}
