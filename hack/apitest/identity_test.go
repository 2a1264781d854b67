//go:build apitest

package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// identity is the ServiceAccount that the controller runs as: that of
// artifacts/install.yaml, so that a right which is missing there fails a test.
var identity types.NamespacedName

// applyIdentity applies artifacts/install.yaml without the Deployment: the
// controllers run here, where a test can kill them.
func applyIdentity() error {
	file, err := os.Open(filepath.Join(repository, "artifacts", "install.yaml"))
	if err != nil {
		return err
	}
	defer file.Close()
	var manifests bytes.Buffer
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		switch object.GetKind() {
		case "", "Deployment":
			continue
		case "ServiceAccount":
			identity = types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		}
		encoded, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		manifests.Write(encoded)
	}
	if identity.Name == "" {
		return fmt.Errorf("%s has no ServiceAccount", file.Name())
	}
	_, err = kubectl(manifests.String(), "apply", "--server-side", "-f", "-")
	return err
}
