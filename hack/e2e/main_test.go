//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned"
)

// cluster is the node that all tests share, and the controller that works on it.
var cluster struct {
	dir        string // everything we write
	state      string // the cluster's directory: its keys, passwords and audit log
	kubeconfig string // the administrator's
	kubectl    string

	kube       kubernetes.Interface
	builds     versioned.Interface
	controller *controller
}

// Where the cluster's servers are.
const (
	hostIP        = "198.18.0.1"
	registry      = hostIP + ":5000"
	loginRegistry = hostIP + ":5001" // wants a user and a password
	tlsRegistry   = hostIP + ":5002" // wants them too, over TLS with an authority of its own
	gitSSH        = "ssh://git@" + hostIP + ":2222/"
	gitHTTPS      = "https://" + hostIP + ":3443/"
	gitPrivateCA  = "https://" + hostIP + ":3444/" // signed by an authority that nobody trusts
	goProxy       = "http://" + hostIP + ":3000"
)

// imageFlags name the cluster's own images of the steps.
var imageFlags = []string{
	"-git-sync-image=" + registry + "/git-sync:v4.7.1-standin",
	"-kaniko-image=" + registry + "/kaniko-executor:v1.24.0",
	"-buildkit-image=" + registry + "/buildkit:v0.34.2-rootless",
	"-buildah-image=" + registry + "/buildah:v1.28.2",
}

// checkoutDir is the root of the checkout; tests run in their package's directory.
var checkoutDir = filepath.Join("..", "..")

// atOnce is how many tests run side by side: more builds than that get in each
// other's way on a small machine.
const atOnce = "3"

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		return 0, err
	}
	cluster.dir, err = os.MkdirTemp("", "build-controller-e2e-")
	if err != nil {
		return 0, err
	}
	defer func() {
		if code != 0 || err != nil {
			fmt.Fprintln(os.Stderr, "e2e: the controller's log is left in", cluster.dir)
			return
		}
		_ = os.RemoveAll(cluster.dir)
	}()
	if err := connect(); err != nil {
		return 0, fmt.Errorf("%w (is the cluster up? hack/devcluster.sh up)", err)
	}
	if err := applyCRD(); err != nil {
		return 0, err
	}
	if err := expectNoOtherController(); err != nil {
		return 0, err
	}
	cluster.controller, err = buildController()
	if err != nil {
		return 0, err
	}
	if err := cluster.controller.start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.controller.stop()) }()
	return m.Run(), nil
}

func connect() error {
	cluster.state = cmp.Or(os.Getenv("DEVCLUSTER_STATE"), "/var/lib/build-controller-devcluster")
	cluster.kubeconfig = filepath.Join(cluster.state, "kubeconfig")
	cache := os.Getenv("BUILD_CONTROLLER_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		cache = filepath.Join(home, ".cache", "build-controller")
	}
	cluster.kubectl = filepath.Join(cache, "bin", "kubectl")

	config, err := clientcmd.BuildConfigFromFlags("", cluster.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // the server's own limits are enough
	config.UserAgent = "e2e"
	if cluster.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if cluster.builds, err = versioned.NewForConfig(config); err != nil {
		return err
	}
	_, err = cluster.kube.Discovery().ServerVersion()
	return err
}

// applyCRD returns when the API serves Builds.
func applyCRD() error {
	if _, err := kubectl("", "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(checkoutDir, "artifacts", "crd.yaml")); err != nil {
		return err
	}
	_, err := kubectl("", "wait", "--for=condition=Established", "--timeout=30s", "crd/builds.buildcontroller.dev")
	return err
}

// expectNoOtherController makes sure that nobody else works on the cluster: two
// controllers would do and say everything twice. One that is there puts its
// finalizer on any Build within milliseconds.
func expectNoOtherController() error {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	namespace, err := cluster.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-probe-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = cluster.kube.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}) }()
	builds := cluster.builds.BuildcontrollerV1alpha1().Builds(namespace.Name)
	probe, err := builds.Create(ctx, &v1alpha1.Build{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec: v1alpha1.BuildSpec{
			Source:  v1alpha1.Source{Git: v1alpha1.GitSource{URL: gitHTTPS + "public/none.git"}},
			Image:   v1alpha1.Image{Name: registry + "/e2e/none:1"},
			Suspend: true,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	changes, err := builds.Watch(ctx, metav1.ListOptions{ResourceVersion: probe.ResourceVersion})
	if err != nil {
		return err
	}
	defer changes.Stop()
	select {
	case change := <-changes.ResultChan():
		// Deleted first: the other controller has to let it go.
		_ = builds.Delete(ctx, probe.Name, metav1.DeleteOptions{})
		if change.Type == watch.Modified {
			return errors.New("another controller works on this cluster; stop it first")
		}
		return fmt.Errorf("watching Builds: %s", change.Type)
	case <-time.After(patience):
		return builds.Delete(ctx, probe.Name, metav1.DeleteOptions{})
	}
}
