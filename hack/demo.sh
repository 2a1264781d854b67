#!/usr/bin/env bash
# The main job, for real: a cluster on this machine, the controller, the Go example as a Build,
# and at the end the answer of the application it became. Root and Go are all it needs; run it
# again and it is quick. hack/devcluster.sh down takes the cluster away.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

state=${DEVCLUSTER_STATE:-/var/lib/build-controller-devcluster}
export KUBECONFIG=$state/kubeconfig
PATH=${BUILD_CONTROLLER_CACHE:-$HOME/.cache/build-controller}/bin:$PATH
host=198.18.0.1 # of the dev cluster: registry, git server
namespace=demo
log=$(mktemp -t build-controller.XXXXXX.log)
children=()
trap '[[ ${#children[@]} -eq 0 ]] || kill "${children[@]}" 2>/dev/null || true' EXIT

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

step "A cluster on this machine"
hack/devcluster.sh up

step "The controller"
kubectl apply --server-side -f artifacts/crd.yaml
kubectl wait --for=condition=Established crd/builds.buildcontroller.dev
go build -o build-controller .
./build-controller -kubeconfig "$KUBECONFIG" -leader-elect=false \
	-git-sync-image=$host:5000/git-sync:v4.7.1-standin -kaniko-image=$host:5000/kaniko-executor:v1.24.0 \
	-buildkit-image=$host:5000/buildkit:v0.34.2-rootless -buildah-image=$host:5000/buildah:v1.28.2 2>"$log" &
children+=($!)
echo "./build-controller runs; its log is $log"

step "A Build: git repository in, running application out"
kubectl create namespace $namespace --dry-run=client -o yaml | kubectl apply -f -
kubectl -n $namespace create secret generic git-creds --dry-run=client -o yaml \
	--from-file=ssh="$state/git/id_ed25519" --from-file=known_hosts="$state/git/known_hosts" | kubectl apply -f -
run=$(date +%s)
# The example, pointed at this cluster's git server, registry and copy of the base image. Every run of
# the demo asks for a new build of it.
kubectl patch --local -f artifacts/examples/go/build.yaml --type=merge -o yaml -p "
metadata: {annotations: {buildcontroller.dev/rebuild: \"$run\"}}
spec:
  source: {git: {url: ssh://git@$host:2222/go.git}}
  dockerfile: {buildArgs: [{name: VERSION, value: v1}, {name: BASE, value: $host:5000/library/golang:1.26}]}
  image: {name: $host:5000/demo/hello-go:v1, insecure: true}
" | tee /dev/stderr | kubectl -n $namespace apply -f -

step "What happens"
kubectl -n $namespace get events --watch-only -o custom-columns=TIME:.lastTimestamp,OBJECT:.involvedObject.kind,REASON:.reason,MESSAGE:.message &
children+=($!)
deadline=$((SECONDS + 600))
until [[ $(kubectl -n $namespace get build hello-go -o jsonpath='{.status.run.rebuild} {.status.phase}') == "$run Ready" ]]; do
	if [[ $SECONDS -gt $deadline ]] || kubectl -n $namespace get build hello-go -o jsonpath='{.status.run.rebuild} {.status.phase}' | grep -qx "$run Failed"; then
		kubectl -n $namespace get build hello-go -o yaml
		exit 1
	fi
	sleep 0.5
done

step "kubectl get builds"
kubectl -n $namespace get builds
kubectl -n $namespace get builds,jobs,deployments,services,pods -o wide

step "The application answers"
address=$(kubectl -n $namespace get service hello-go -o jsonpath='http://{.spec.clusterIP}:{.spec.ports[0].port}/')
echo "\$ curl $address"
curl --silent --show-error --fail --max-time 10 "$address"
