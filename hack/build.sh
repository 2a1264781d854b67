#!/usr/bin/env bash
# Builds the controller as the Dockerfile does: the same bytes from the same source, wherever it lies.
#
#   hack/build.sh OUTPUT [SOURCE]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=$(realpath -m "$1")
command=$(sed -n 's/^RUN \(CGO_ENABLED=0 go build .*\) -o .*/\1/p' "$root/Dockerfile")
cd "${2:-$root}"
eval "$command -o '$output' ."
