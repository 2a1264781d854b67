package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
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
	return !contains(have, want)
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

// contains says whether have has everything that want has. Of a list, every wanted entry must be
// contained in some entry: the lists we write are sets, and their entries carry their own names.
func contains(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range want {
			// Server-side apply takes a selector as a whole: one key more selects something else.
			if !contains(have[key], value) || key == "selector" && !reflect.DeepEqual(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		for _, entry := range want {
			if !containsEntry(have, entry) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(have, want)
	}
}

func containsEntry(list []any, want any) bool {
	for _, have := range list {
		if contains(have, want) {
			return true
		}
	}
	return false
}
