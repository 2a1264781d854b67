// Package e2e tests the controller, as the program that users run, on a real node:
// git over ssh and https, kaniko, a registry, a kubelet, applications that answer.
// Nothing in it is played; what needs no node is tested in hack/apitest.
//
//	hack/devcluster.sh up
//	go test -tags=e2e -count=1 -timeout=45m -v ./hack/e2e/
//
// The tests expect that cluster to be up, and no other controller to work on it.
// Each has a namespace of its own. They push to the cluster's git server under
// names that nobody else has, and take them away again.
//
// Tests that are independent run side by side as parts of one test. One that stops
// the shared controller or measures time is a test of its own, so that nothing
// runs beside it.
package e2e
