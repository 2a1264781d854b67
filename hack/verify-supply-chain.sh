#!/usr/bin/env bash
# Sees to what docs/security.md promises of the image: its binary is the same wherever it is built, and the list of what is in it is complete.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/elsewhere"
cp -r go.mod go.sum main.go controller.go pkg "$work/elsewhere"
hack/build.sh "$work/here.bin"
hack/build.sh "$work/elsewhere.bin" "$work/elsewhere"
cmp "$work/here.bin" "$work/elsewhere.bin" || { echo "The binary depends on where it is built" >&2; exit 1; }

hack/sbom.sh "$work/here.bin" >"$work/sbom.json"
go version -m "$work/here.bin" | awk '$1 == "dep" { print $2 "@" $3 }' | while read -r module; do
	grep -qF "\"pkg:golang/$module" "$work/sbom.json" || { echo "The SBOM lacks $module" >&2; exit 1; }
done
echo "$(go version -m "$work/here.bin" | grep -c '^\s*dep') modules, $(stat -c %s "$work/here.bin") bytes"
