//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// A controller is the program that is tested, on this machine as on a
// developer's laptop. It can be stopped and started again.
type controller struct {
	program, log string

	cmd    *exec.Cmd
	exited chan struct{} // closed when it has
}

func buildController() (*controller, error) {
	c := &controller{
		program: filepath.Join(cluster.dir, "build-controller"),
		log:     filepath.Join(cluster.dir, "build-controller.log"),
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", c.program, ".")
	cmd.Dir = checkoutDir
	_, err := output(cmd)
	return c, err
}

func (c *controller) start() error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c.cmd = exec.Command(c.program, slices.Concat([]string{"-kubeconfig", cluster.kubeconfig, "-leader-elect=false", "-v=2"}, imageFlags)...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // the exit code is in ProcessState
		close(exited)
	}(c.cmd, c.exited)
	return nil
}

// stop ends the controller as Kubernetes does, and expects it to go in order.
func (c *controller) stop() error {
	select {
	case <-c.exited:
		return fmt.Errorf("the controller had ended by itself: %s", c.cmd.ProcessState)
	default:
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.exited:
		if code := c.cmd.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("the controller ended with code %d after SIGTERM", code)
		}
		return nil
	case <-time.After(20 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.exited
		return errors.New("the controller was still there 20 s after SIGTERM")
	}
}

// about returns the last lines of the log that speak of a namespace, or of trouble.
func (c *controller) about(namespace string, n int) []byte {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return []byte(err.Error())
	}
	var lines [][]byte
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(namespace)) || line[0] == 'E' || line[0] == 'W' {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines[max(0, len(lines)-n):], nil)
}
