#!/usr/bin/env bash
# Writes everything that is generated from pkg/apis: deepcopy functions, OpenAPI
# models, apply configurations, clientset, listers, informers, the CRD, docs/api.md and docs/failures.md.
# OUT=DIR writes to a copy of the repository elsewhere (hack/verify-codegen.sh does).
set -euo pipefail
cd "${OUT:-$(dirname "${BASH_SOURCE[0]}")/..}"

module=github.com/buildcontroller/build-controller
codegen=$(cd hack/tools && go mod download && go list -m -f '{{.Dir}}' k8s.io/code-generator)
boilerplate=hack/boilerplate.go.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export GOBIN=$work/bin
# shellcheck source=/dev/null
source "$codegen/kube_codegen.sh"
# Its models are needed too, but nothing is to be written into the module cache.
KUBE_CODEGEN_READONLY_PKGS+=(k8s.io/api/core/v1)

echo "deepcopy"
kube::codegen::gen_helpers --boilerplate "$boilerplate" pkg/apis

echo "OpenAPI models"
kube::codegen::gen_openapi --boilerplate "$boilerplate" \
    --output-dir pkg/generated/openapi --output-pkg "$module/pkg/generated/openapi" \
    --output-model-name-file zz_generated.model_name.go \
    --extra-pkgs k8s.io/api/core/v1 --extra-pkgs k8s.io/apimachinery/pkg/util/intstr \
    --report-filename "$work/report" --update-report \
    pkg/apis

echo "clientset, listers, informers, apply configurations"
go run ./hack/models-schema >"$work/schema.json"
kube::codegen::gen_client --boilerplate "$boilerplate" \
    --output-dir pkg/generated --output-pkg "$module/pkg/generated" \
    --with-watch --with-applyconfig --applyconfig-openapi-schema "$work/schema.json" \
    pkg/apis

echo "CustomResourceDefinition"
(cd hack/tools && go build -o "$work/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen)
"$work/controller-gen" crd:generateEmbeddedObjectMeta=false paths=./pkg/apis/... output:crd:stdout >"$work/crd.yaml"
# The generator's pattern of a quantity lets exponents pass that resource.ParseQuantity does not. One such object would
# keep every client from decoding the list of all Builds.
sed -i 's/\[eE\](\\+|-)?((\[0-9\]+(\\\.\[0-9\]\*)?)|(\\\.\[0-9\]+))/[eE](\\+|-)?[0-9]{1,2}/' "$work/crd.yaml"
if grep -q 'eE.*\\\.\[0-9\]+))))' "$work/crd.yaml"; then
	echo "The pattern of quantities has changed; mend it in hack/update-codegen.sh" >&2
	exit 1
fi
cp "$work/crd.yaml" artifacts/crd.yaml

echo "API reference"
go run ./hack/apidocs <artifacts/crd.yaml >"$work/api.md"
cp "$work/api.md" docs/api.md

echo "failure matrix"
go run ./hack/failuredocs >"$work/failures.md"
cp "$work/failures.md" docs/failures.md
