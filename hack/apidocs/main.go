// Command apidocs prints the reference of the Build API in Markdown, from the
// CustomResourceDefinition on standard input.
package main

import (
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is the part of an OpenAPI v3 schema that the reference shows.
type schema struct {
	Description string            `json:"description"`
	Type        string            `json:"type"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Required    []string          `json:"required"`
	Enum        []string          `json:"enum"`
	Rules       []struct {
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

type definition struct {
	Spec struct {
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPIV3Schema schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// ofKubernetes are the fields whose types are Kubernetes' own: kubectl explain has them, and they would fill pages.
var ofKubernetes = map[string]string{
	".spec.builder.affinity":                        "Affinity",
	".spec.builder.env":                             "[]EnvVar",
	".spec.builder.hostAliases":                     "[]HostAlias",
	".spec.builder.resources":                       "ResourceRequirements",
	".spec.builder.tolerations":                     "[]Toleration",
	".spec.builder.volumes[].configMap":             "ConfigMapVolumeSource",
	".spec.builder.volumes[].emptyDir":              "EmptyDirVolumeSource",
	".spec.builder.volumes[].persistentVolumeClaim": "PersistentVolumeClaimVolumeSource",
	".spec.builder.volumes[].secret":                "SecretVolumeSource",
	".spec.deployment.env":                          "[]EnvVar",
	".spec.deployment.livenessProbe":                "Probe",
	".spec.deployment.readinessProbe":               "Probe",
	".spec.deployment.resources":                    "ResourceRequirements",
	".spec.deployment.startupProbe":                 "Probe",
	".spec.deployment.template.spec":                "PodSpec",
	".status.conditions":                            "[]Condition",
}

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var crd definition
	if err := yaml.Unmarshal(input, &crd); err != nil {
		log.Fatal(err)
	}
	for _, version := range crd.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		fmt.Printf("# Build, buildcontroller.dev/%s\n\n%s\n\n", version.Name, root.Description)
		fmt.Printf("Written by hack/update-codegen.sh from the types in pkg/apis; `kubectl explain build --recursive` has the same.\n")
		for _, rule := range root.Rules {
			fmt.Printf("\nRule: %s.\n", rule.Message)
		}
		for _, part := range []string{"spec", "status"} {
			fmt.Printf("\n## %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", part, root.Properties[part].Description)
			rows("."+part, root.Properties[part])
		}
	}
}

// rows prints a row for every field below path, depth first.
func rows(path string, parent schema) {
	for _, name := range slices.Sorted(maps.Keys(parent.Properties)) {
		field, at := parent.Properties[name], path+"."+name
		required := ""
		if slices.Contains(parent.Required, name) {
			required = " **required**"
		}
		typeName, known := ofKubernetes[at]
		if !known {
			typeName = typeOf(field)
		}
		fmt.Printf("| `%s` | %s%s | %s |\n", strings.TrimPrefix(at, "."), typeName, required, meaning(field))
		if known {
			continue
		}
		if field.Items != nil {
			rows(at+"[]", *field.Items)
		}
		rows(at, field)
	}
}

func typeOf(field schema) string {
	switch {
	case field.Items != nil:
		return "[]" + typeOf(*field.Items)
	case len(field.Enum) > 0:
		return strings.Join(field.Enum, ", ")
	case field.Type == "":
		return "any"
	}
	return field.Type
}

func meaning(field schema) string {
	sentences := []string{field.Description}
	for _, rule := range field.Rules {
		sentences = append(sentences, "Rule: "+rule.Message+".")
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(strings.Join(sentences, " ")), " "), "|", `\|`)
}
