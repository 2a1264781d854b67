#!/usr/bin/env bash
# Runs the tests: all of them, or the layers that are named.
#
#   lint   gofmt, vet, staticcheck, supply chain, generated files
#   unit   pure functions, and the controller on fake clientsets
#   api    a real etcd, kube-apiserver and kube-controller-manager with a fake kubelet
#   e2e    a real node: git over ssh, kaniko, a registry, running applications (root)
#
# What a layer needs it starts itself. The dev cluster of e2e is left running, so that the next
# time is quick; hack/devcluster.sh down takes it away.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

step() { printf '\n== %s (%ds)\n' "$*" "$SECONDS"; }

lint() {
	step "gofmt"
	unformatted=$(git ls-files '*.go' | xargs gofmt -l)
	if [[ -n $unformatted ]]; then
		printf 'Not formatted; run gofmt -w on:\n%s\n' "$unformatted" >&2
		exit 1
	fi
	step "go vet"
	go vet -tags=apitest,e2e ./...
	(cd hack/devcluster && go vet ./...)
	step "staticcheck"
	go list -tags=apitest,e2e ./... | grep -v /pkg/generated/ |
		xargs go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags=apitest,e2e
	(cd hack/devcluster && go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...)
	step "supply chain"
	hack/verify-supply-chain.sh
	step "generated files"
	hack/verify-codegen.sh
}

unit() {
	step "unit tests"
	go test -race ./...
	(cd hack/devcluster && go test ./...)
}

api() {
	step "binaries of the control plane"
	hack/devcluster.sh binaries
	step "tests on a real API server"
	go test -tags=apitest -count=1 -timeout=30m -v ./hack/apitest/
}

e2e() {
	step "dev cluster"
	hack/devcluster.sh up
	step "tests on a real node"
	go test -tags=e2e -count=1 -timeout=45m -v ./hack/e2e/
}

for layer in "${@:-all}"; do
	case $layer in
	lint | unit | api | e2e) "$layer" ;;
	all) lint; unit; api; e2e ;;
	*)
		echo "usage: hack/test.sh [lint|unit|api|e2e|all]..." >&2
		exit 2
		;;
	esac
done
step "done"
