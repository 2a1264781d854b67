// Command models-schema prints the generated OpenAPI models as one OpenAPI v2
// document: what applyconfiguration-gen needs so that the fake clientset can do
// server-side apply.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/buildcontroller/build-controller/pkg/generated/openapi"
)

func main() {
	definitions := spec.Definitions{}
	for name, definition := range openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name)
	}) {
		schema := definition.Schema
		if v2, ok := schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			schema = v2
		}
		definitions[name] = schema
	}
	err := json.NewEncoder(os.Stdout).Encode(&spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "build-controller", Version: "v1alpha1"}},
		Paths:       &spec.Paths{},
		Definitions: definitions,
	}})
	if err != nil {
		log.Fatal(err)
	}
}
