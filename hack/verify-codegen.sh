#!/usr/bin/env bash
# Fails if what is generated from pkg/apis is not what is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -c --exclude=.git go.mod go.sum pkg hack/tools hack/models-schema hack/boilerplate.go.txt hack/apidocs hack/failuredocs artifacts docs | tar -x -C "$copy"
OUT=$copy hack/update-codegen.sh

if ! diff -Naupr pkg "$copy/pkg" || ! diff -Naupr artifacts "$copy/artifacts" || ! diff -Naupr docs "$copy/docs"; then
	echo "Generated files are out of date: run hack/update-codegen.sh and commit what it changes." >&2
	exit 1
fi
echo "Generated files are up to date."
