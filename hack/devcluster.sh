#!/usr/bin/env bash
# Brings a real Kubernetes cluster up on this machine, and takes it down again.
# It needs root, Go and Debian, and neither Docker nor a container registry; see
# kind-with-registry.sh for the same with Docker. Run it without arguments for
# what it can do.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${BUILD_CONTROLLER_CACHE:-$HOME/.cache/build-controller}

command -v go >/dev/null || { echo "devcluster: go is not installed" >&2; exit 1; }
case ${1:-} in
up | down | repos)
	[[ $EUID -eq 0 ]] || { echo "devcluster: $1 must be run by root" >&2; exit 1; }
	;;
esac

# The program and the two that go into its images.
mkdir -p "$cache/devcluster"
CGO_ENABLED=0 GOWORK=off go build -C "$root/hack/devcluster" -buildvcs=false -trimpath \
	-o "$cache/devcluster/" . ./gitsync ./pause

DEVCLUSTER_SOURCE=$root exec "$cache/devcluster/devcluster" "$@"
