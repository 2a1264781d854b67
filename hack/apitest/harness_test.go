//go:build apitest

package apitest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned"
)

// agent is how the tests and the fake kubelet name themselves to the API server.
const agent = "apitest"

// cluster is the control plane that all tests share.
var cluster struct {
	dir        string // everything it writes
	kubeconfig string // the administrator's
	kubectl    string
	controller string // the program that is tested

	config  *rest.Config
	kube    kubernetes.Interface
	builds  versioned.Interface
	dynamic dynamic.Interface
	kubelet *kubelet
	audit   *auditLog
}

// repository is the root of the checkout; tests run in their package's directory.
var repository = filepath.Join("..", "..")

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "apitest:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "build-controller-apitest-")
	if err != nil {
		return 0, err
	}
	defer func() {
		if code != 0 || err != nil {
			fmt.Fprintln(os.Stderr, "apitest: the logs are left in", dir)
			return
		}
		os.RemoveAll(dir)
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// What client-go says of watches that end with their test, or with the CRD.
	log, err := os.Create(filepath.Join(dir, "apitest.log"))
	if err != nil {
		return 0, err
	}
	klog.LogToStderr(false)
	klog.SetOutput(log)

	stop, err := startControlPlane(dir)
	if err != nil {
		return 0, fmt.Errorf("starting the control plane: %w", err)
	}
	defer stop()
	cluster.controller = filepath.Join(dir, "build-controller")
	if err := tool(repository, "go", "build", "-o", cluster.controller, "."); err != nil {
		return 0, err
	}
	if err := applyCRD(); err != nil {
		return 0, err
	}
	if err := applyIdentity(); err != nil {
		return 0, err
	}
	if cluster.kubelet, err = startKubelet(ctx, cluster.kube); err != nil {
		return 0, err
	}
	code = m.Run()
	if all := flag.Lookup("test.run").Value.String() == ""; code == 0 && all {
		err = checkRights()
	}
	return code, err
}

// startControlPlane returns when the API can be used. The control plane ends
// with this process even when that is killed: it reads our end of a pipe.
func startControlPlane(dir string) (stop func(), err error) {
	cluster.dir = dir
	cmd := exec.Command(filepath.Join(repository, "hack", "devcluster.sh"), "control-plane", "--dir", dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		stdin.Close()
		cmd.Wait()
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
	}
	if lines.Text() != "ready" {
		stop()
		return nil, errors.New("it ended before it was ready")
	}
	go io.Copy(io.Discard, stdout)

	cache := os.Getenv("BUILD_CONTROLLER_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return stop, err
		}
		cache = filepath.Join(home, ".cache", "build-controller")
	}
	cluster.kubectl = filepath.Join(cache, "bin", "kubectl")
	cluster.kubeconfig = filepath.Join(dir, "kubeconfig")
	cluster.config, err = clientcmd.BuildConfigFromFlags("", cluster.kubeconfig)
	if err != nil {
		return stop, err
	}
	cluster.config.QPS = -1 // the tests make more objects than a user ever would at once
	cluster.config.UserAgent = agent
	cluster.kube = kubernetes.NewForConfigOrDie(cluster.config)
	cluster.builds = versioned.NewForConfigOrDie(cluster.config)
	cluster.dynamic = dynamic.NewForConfigOrDie(cluster.config)
	cluster.audit = &auditLog{path: filepath.Join(dir, "audit.log")}
	return stop, nil
}

// applyCRD returns when the API serves Builds.
func applyCRD() error {
	if _, err := kubectl("", "apply", "--server-side", "-f", filepath.Join(repository, "artifacts", "crd.yaml")); err != nil {
		return err
	}
	_, err := kubectl("", "wait", "--for=condition=Established", "--timeout=30s", "crd/builds.buildcontroller.dev")
	return err
}

// kubectl runs kubectl as a user would, with the given standard input.
func kubectl(stdin string, args ...string) (string, error) {
	return output(kubectlCommand(stdin, args))
}

// kubectlSays is kubectl, for what it says on its standard error.
func kubectlSays(stdin string, args ...string) (string, error) {
	cmd := kubectlCommand(stdin, args)
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	return said.String(), err
}

func kubectlCommand(stdin string, args []string) *exec.Cmd {
	cmd := exec.Command(cluster.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.kubeconfig, "KUBECACHEDIR="+filepath.Join(cluster.dir, "kubectl"))
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// tool runs a program in a directory.
func tool(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	_, err := output(cmd)
	return err
}

// output runs a command and returns its standard output; an error carries all
// it said.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// So that it does not outlive us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// usual is how long a test may take: far longer than it does, because a busy
// machine is no reason to fail.
const usual = 3 * time.Minute

// testContext ends with the test, or when it has taken too long.
func testContext(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
