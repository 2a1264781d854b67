#!/usr/bin/env bash
# Writes what the controller's image consists of, as CycloneDX JSON: the image is this one binary. Without an argument the binary is
# built first, as the Dockerfile builds it.
#
#   hack/sbom.sh [BINARY] >sbom.json
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What reads it is made by the CycloneDX project, the OWASP standard for such lists.
generator=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

binary=${1:-}
if [[ -z $binary ]]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	binary=$work/build-controller
	hack/build.sh "$binary"
fi
go run "$generator" bin -json -noserial -notimestamp -version "$(git describe --always 2>/dev/null || echo unknown)" "$binary"
