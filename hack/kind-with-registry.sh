#!/usr/bin/env bash
# Brings up a kind cluster with a registry that both the cluster and this machine
# reach as localhost:5001, for those who have Docker and kind. Run it again to
# repair what is missing; "kind-with-registry.sh down" removes both.
#
# See devcluster.sh for machines without Docker.
set -euo pipefail

cluster=${KIND_CLUSTER:-build-controller}
node_image=${KIND_NODE_IMAGE:-} # kind's own choice when empty
registry=${REGISTRY_NAME:-build-controller-registry}
registry_image=${REGISTRY_IMAGE:-registry:2}
port=${REGISTRY_PORT:-5001}

die() {
	echo "kind-with-registry: $*" >&2
	exit 1
}

have_cluster() { kind get clusters 2>/dev/null | grep --quiet --line-regexp --fixed-strings "$cluster"; }

have_registry() { docker container inspect "$registry" >/dev/null 2>&1; }

start_registry() {
	if have_registry; then
		docker start "$registry" >/dev/null
		return
	fi
	# Only this machine and the cluster are to reach it: it knows no passwords.
	docker run --detach --restart=always --name "$registry" --network bridge \
		--publish "127.0.0.1:$port:5000" "$registry_image" >/dev/null
}

start_cluster() {
	if have_cluster; then
		return
	fi
	local -a args=(--name "$cluster")
	if [[ -n $node_image ]]; then
		args+=(--image "$node_image")
	fi
	kind create cluster "${args[@]}"
}

# On a node, localhost is the node: what is asked of localhost:PORT there has to
# go to the registry's container. The node images of kind v0.27 and later look in
# this directory at every pull.
teach_nodes() {
	local node dir="/etc/containerd/certs.d/localhost:$port"
	for node in $(kind get nodes --name "$cluster"); do
		docker exec "$node" mkdir -p "$dir"
		docker exec --interactive "$node" cp /dev/stdin "$dir/hosts.toml" <<-HOSTS
			[host."http://$registry:5000"]
		HOSTS
	done
}

connect_registry() {
	local networks
	networks=$(docker container inspect --format '{{json .NetworkSettings.Networks.kind}}' "$registry")
	if [[ $networks == null ]]; then
		docker network connect kind "$registry"
	fi
}

# KEP-1755: tells tools which registry a cluster can pull from.
announce_registry() {
	kubectl --context "kind-$cluster" apply --filename - <<-CONFIGMAP
		apiVersion: v1
		kind: ConfigMap
		metadata:
		  name: local-registry-hosting
		  namespace: kube-public
		data:
		  localRegistryHosting.v1: |
		    host: "localhost:$port"
		    hostFromContainerRuntime: "$registry:5000"
		    hostFromClusterNetwork: "$registry:5000"
		    help: "https://kind.sigs.k8s.io/docs/user/local-registry/"
	CONFIGMAP
}

up() {
	start_registry
	start_cluster
	teach_nodes
	connect_registry
	announce_registry
	cat <<-HELP

		kubectl --context kind-$cluster get nodes

		Push from this machine to localhost:$port/NAME. A build in the cluster pushes to
		$registry:5000/NAME over plain http, and Pods pull that as localhost:$port/NAME.
	HELP
}

down() {
	if have_cluster; then
		kind delete cluster --name "$cluster"
	fi
	if have_registry; then
		docker rm --force "$registry" >/dev/null
	fi
}

for tool in docker kind kubectl; do
	command -v "$tool" >/dev/null || die "$tool is not installed"
done
case ${1:-up} in
up) up ;;
down) down ;;
*) die "usage: kind-with-registry.sh [up|down]" ;;
esac
