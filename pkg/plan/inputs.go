// Package plan decides, and does nothing: from a Build and what was observed of
// it, it computes the hash of the inputs, what to do next about the runs, and
// the Job, Deployment and Service as they should be. Every function is pure.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// hashLength is how many hex digits of the inputs' hash stand in the name of a Job.
const hashLength = 10

// inputs are what decides which image comes out. The hash is taken of their JSON
// with everything empty left out, so that a field added to the API later leaves the
// hash of every Build that does not use it as it is. Removing or renaming one would rebuild the world.
type inputs struct {
	Source     v1alpha1.Source      `json:"source"`
	Dockerfile *v1alpha1.Dockerfile `json:"dockerfile"`
	Builder    *v1alpha1.Builder    `json:"builder"`
	Image      v1alpha1.Image       `json:"image"`
	Rebuild    string               `json:"rebuild"`
}

// Hash returns the hash of the inputs of a build, in hex.
func Hash(build *v1alpha1.Build) string {
	spec := build.Spec
	encoded, err := json.Marshal(inputs{spec.Source, spec.Dockerfile, spec.Builder, spec.Image, Rebuild(build)})
	if err != nil {
		panic(fmt.Sprintf("inputs of a Build are always JSON: %v", err))
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		panic(fmt.Sprintf("JSON that was just written is always read: %v", err))
	}
	canonical, _ := json.Marshal(withoutEmpty(tree)) // maps are written with sorted keys
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// maxToken bounds what may be anything up to 256 KiB, in bytes: the status has it for every run that it remembers.
const maxToken = 200

// Rebuild returns the value that asks for a new run of the same inputs: the annotation, or
// when that was taken away the one the newest run was made for, since taking it away asks for nothing. One that is long or
// not fit to be shown is replaced by its hash.
func Rebuild(build *v1alpha1.Build) string {
	if token, ok := build.Annotations[v1alpha1.RebuildAnnotation]; ok {
		if len(token) > maxToken || token != strings.TrimSpace(token) || strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsPrint(r) }) {
			sum := sha256.Sum256([]byte(token))
			return hex.EncodeToString(sum[:])
		}
		return token
	}
	if build.Status.Run != nil {
		return build.Status.Run.Rebuild
	}
	return ""
}

// JobName returns the name of the Job that is that attempt, from 1, at the inputs with that hash.
func JobName(build *v1alpha1.Build, hash string, attempt int32) string {
	if attempt > 1 { // a number at the end would not fit behind the longest name
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", hash, attempt))
		hash = hex.EncodeToString(sum[:])
	}
	return build.Name + "-" + hash[:hashLength]
}

// withoutEmpty takes null, false, "", {} and [] out of decoded JSON, at every depth. A 0 stays: a number that is optional is
// a pointer in the API, so a 0 that is there was written there.
func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if child = withoutEmpty(child); child == nil {
				delete(value, key)
			} else {
				value[key] = child
			}
		}
		if len(value) == 0 {
			return nil
		}
	case []any:
		for i, child := range value {
			value[i] = withoutEmpty(child)
		}
		if len(value) == 0 {
			return nil
		}
	case string:
		if value == "" {
			return nil
		}
	case bool:
		if !value {
			return nil
		}
	}
	return value
}
