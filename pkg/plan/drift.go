package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Differs says whether the desired apply configuration has to be applied to the live object. Two
// things make it so: what is desired is not what was applied last, which also covers fields that
// are desired no more; or a field that was applied has another value now, because someone edited
// it. What others added beside our fields is no difference.
func Differs(desired, live any) bool {
	want, have := tree(desired), tree(live)
	// The server does not send kind and apiVersion with the objects of a list.
	delete(want, "kind")
	delete(want, "apiVersion")
	return !contains("", have, want)
}

// Answer identifies what the API server made of what was desired, status aside: as long as the live object is the same, applying the
// same again would get the same answer. It may differ from what was desired for good, where admission has the last word.
func Answer(desired, live any) string {
	wish, object := tree(desired), tree(live)
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
			delete(metadata, field)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "deployment.kubernetes.io/revision")
		}
	}
	metadata, _ := wish["metadata"].(map[string]any)
	return fingerprint(map[string]any{"wish": metadata["annotations"], "answer": object})
}

// fingerprint is the hash of an apply configuration. It is stored with what is applied, see AppliedAnnotation.
func fingerprint(desired any) string {
	encoded, err := json.Marshal(tree(desired)) // as a map: keys sorted
	if err != nil {
		panic(fmt.Sprintf("decoded JSON is always JSON: %v", err))
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

func tree(object any) map[string]any {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("an API object is always JSON: %v", err))
	}
	decoded := map[string]any{}
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		panic(fmt.Sprintf("an API object is a JSON object: %v", err))
	}
	return decoded
}

// What server-side apply merges, and what it takes as a whole, of all that we write (the markers listType and mapType in k8s.io/api).
var (
	// mergedLists are lists whose entries have names of their own, in these fields: others may add theirs.
	mergedLists = map[string][]string{
		"containers": {"name"}, "initContainers": {"name"}, "ephemeralContainers": {"name"}, "env": {"name"},
		"ports": {"containerPort", "port", "protocol"}, "volumeMounts": {"mountPath"}, "volumeDevices": {"devicePath"},
		"volumes": {"name"}, "imagePullSecrets": {"name"}, "hostAliases": {"ip"},
		"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"}, "resourceClaims": {"name"}, "claims": {"name"},
		"schedulingGates": {"name"}, "evictionResponders": {"name"}, "ownerReferences": {"uid"},
	}
	// wholeMaps say something together: one key more says something else.
	wholeMaps = map[string]bool{
		"selector": true, "labelSelector": true, "namespaceSelector": true, "nodeSelector": true, "secretKeyRef": true, "configMapKeyRef": true,
	}
)

// contains says whether have has everything that want has, both found under key.
func contains(key string, have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok || wholeMaps[key] && !reflect.DeepEqual(have, want) {
			return false
		}
		for inner, value := range want {
			if !contains(inner, have[inner], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		if mergedLists[key] != nil {
			return !slices.ContainsFunc(want, func(entry any) bool { return !containsEntry(have, entry) })
		}
		return slices.EqualFunc(have, want, func(have, want any) bool { return contains("", have, want) })
	default:
		return reflect.DeepEqual(have, want)
	}
}

// named refuses a list that two entries of one name are in, or one without. The API server takes the first in, but not by
// server-side apply, and a merge would lose one of them.
func named(path, key string, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(value)) {
			if err := named(strings.TrimPrefix(path+"."+field, "."), field, value[field]); err != nil {
				return err
			}
		}
	case []any:
		seen := map[string]bool{}
		for i, entry := range value {
			below := fmt.Sprintf("%s[%d]", path, i)
			if fields, ok := entry.(map[string]any); ok && mergedLists[key] != nil {
				name := ""
				for _, field := range mergedLists[key] {
					part := fields[field]
					if field == "protocol" && part == nil {
						part = "TCP" // by default
					}
					if field == "name" && part == nil {
						return fmt.Errorf("%s has no name", below)
					}
					name += fmt.Sprint(part) + "/"
				}
				if seen[name] {
					return fmt.Errorf("%s has the name of another entry of its list", below)
				}
				seen[name] = true
			}
			if err := named(below, key, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

func containsEntry(list []any, want any) bool {
	return slices.ContainsFunc(list, func(have any) bool { return contains("", have, want) })
}
