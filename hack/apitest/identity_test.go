//go:build apitest

package apitest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// identity is the ServiceAccount that the controller runs as: that of
// artifacts/install.yaml, so that a right which is missing there fails a test.
var identity types.NamespacedName

// installed are the manifests whose rights the controllers have.
var installed = []string{"install.yaml", "certificate.yaml", "webhook.yaml", "metrics.yaml"}

// applyIdentity applies them without the Deployment, since the controllers run here, where a test can kill them, and without the
// webhook configurations, which a test installs for itself.
func applyIdentity() error {
	objects, err := manifestsOf(installed)
	if err != nil {
		return err
	}
	identity, err = applyRights(objects)
	return err
}

func manifestsOf(names []string) (all []unstructured.Unstructured, err error) {
	for _, name := range names {
		objects, err := manifests(name)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// manifests reads a file of artifacts.
func manifests(name string, replace ...string) ([]unstructured.Unstructured, error) {
	content, err := os.ReadFile(filepath.Join(repository, "artifacts", name))
	if err != nil {
		return nil, err
	}
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.NewReplacer(replace...).Replace(string(content))), 4096)
	for {
		object := unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if object.GetKind() != "" {
			objects = append(objects, object)
		}
	}
}

// applyRights applies all but the Deployment and webhook configurations, and returns the ServiceAccount.
func applyRights(objects []unstructured.Unstructured) (account types.NamespacedName, err error) {
	var applied bytes.Buffer
	for _, object := range objects {
		switch object.GetKind() {
		case "Deployment", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			continue
		case "ServiceAccount":
			account = types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		}
		encoded, err := object.MarshalJSON()
		if err != nil {
			return account, err
		}
		applied.Write(encoded)
	}
	if account.Name == "" {
		return account, errors.New("there is no ServiceAccount")
	}
	_, err = kubectl(applied.String(), "apply", "--server-side", "-f", "-")
	return account, err
}
