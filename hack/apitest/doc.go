// Package apitest tests the controller, as the program that users run, against a
// real Kubernetes API: etcd, kube-apiserver and kube-controller-manager. What
// happens there and on no fake clientset is what these tests are about: the
// rules of the CRD, optimistic locking, server-side apply among several field
// managers, garbage collection, finalizers, watches that break, kill -9.
//
// Only the nodes are not real: a fake kubelet in the test's own process plays
// every pod. So nothing is cloned, built or pushed here; hack/test.sh e2e does
// that.
//
//	go test -tags=apitest -timeout=30m ./hack/apitest
//
// The control plane's programs are built first if they are not in the cache,
// which takes many minutes once: hence the timeout. The tests share one control
// plane and run one after the other, each in a namespace of its own with a
// controller of its own, because a controller acts on the whole cluster.
package apitest
