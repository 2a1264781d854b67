//go:build apitest

package apitest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
)

// A process is one running controller.
type process struct {
	// instance tells its requests from those of others in the audit log.
	instance string
	log      string
	exited   chan struct{} // closed when it has, for good

	mu      sync.Mutex
	cmd     *exec.Cmd
	stopped bool // by the test
}

// instanceKey is where a request says from which process it comes. The API
// server takes over such facts about a user from whoever may impersonate them.
const instanceKey = "apitest.example.com/instance"

var instances atomic.Int64

// startOptions are what a test may want to have different.
type startOptions struct {
	server string               // instead of the API server itself
	flags  []string             // besides the usual ones
	as     types.NamespacedName // ServiceAccount, instead of the identity
	// restart starts it again when it ends by itself, as the kubelet does.
	restart bool
}

// startController starts a controller, with the rights that artifacts/install.yaml
// gives it, and ends it with the test.
func startController(t *testing.T, options startOptions) *process {
	t.Helper()
	p := &process{instance: fmt.Sprintf("controller-%d", instances.Add(1)), exited: make(chan struct{})}
	p.log = filepath.Join(cluster.dir, p.instance+".log")
	kubeconfig := filepath.Join(cluster.dir, p.instance+".kubeconfig")
	if err := writeKubeconfig(kubeconfig, p.instance, options); err != nil {
		t.Fatal(err)
	}
	// What a test sets comes last and wins.
	flags := append([]string{"-kubeconfig", kubeconfig, "-leader-elect=false", "-v=2"}, options.flags...)
	if err := p.start(flags); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		for {
			_ = p.cmd.Wait()
			if !options.restart || p.start(flags) != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		select {
		case <-p.exited:
		default:
			p.stop(t)
		}
		if t.Failed() && p.cmd.ProcessState.ExitCode() >= 0 { // it was not killed
			t.Logf("the end of the log of %s:\n%s", p.instance, lastLines(p.read(t), 40))
		}
	})
	return p
}

// start starts the program, unless the test has ended it.
func (p *process) start(flags []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errors.New("it was stopped")
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(cluster.controller, flags...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.cmd.Start()
}

// signal ends the process, for good.
func (p *process) signal(s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	return p.cmd.Process.Signal(s)
}

// kill ends the controller as a lost node does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
		t.Fatalf("%s had ended by itself: %s", p.instance, lastLines(p.read(t), 20))
	default:
	}
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-p.exited
}

// stop ends the controller as Kubernetes does, and expects it to go in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.exited:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with code %d after SIGTERM", p.instance, code)
		}
	case <-time.After(time.Minute):
		t.Errorf("%s is still there a minute after SIGTERM", p.instance)
		_ = p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

func (p *process) read(t *testing.T) []byte {
	t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func lastLines(log []byte, n int) []byte {
	lines := bytes.SplitAfter(log, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n-1):], nil)
}

// writeKubeconfig writes one that acts as the controller's ServiceAccount.
func writeKubeconfig(path, instance string, options startOptions) error {
	as := cmp.Or(options.as, identity)
	config, err := clientcmd.LoadFromFile(cluster.kubeconfig)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + as.Namespace + ":" + as.Name
		user.ImpersonateUserExtra = map[string][]string{instanceKey: {instance}}
	}
	if options.server != "" {
		for _, c := range config.Clusters {
			c.Server, c.CertificateAuthorityData, c.CertificateAuthority = options.server, nil, ""
		}
	}
	return clientcmd.WriteToFile(*config, path)
}
