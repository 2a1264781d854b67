//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// kubectl runs kubectl as a user would, with the given standard input.
func kubectl(stdin string, args ...string) (string, error) {
	cmd := exec.Command(cluster.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.kubeconfig, "KUBECACHEDIR="+filepath.Join(cluster.dir, "kubectl"))
	cmd.Stdin = strings.NewReader(stdin)
	return output(cmd)
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
