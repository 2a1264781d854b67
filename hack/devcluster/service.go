package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A service is one long-running process of the cluster.
type service struct {
	name  string
	path  string
	args  []string
	env   []string                    // besides our own
	ready func(context.Context) error // nil once the service does its work
}

// A process is a service that this program has started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
	err  error         // how it exited, once done
}

// start starts the service, with its output in a log file.
func (s service) start(logFile string, attr *syscall.SysProcAttr) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(s.path, s.args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), s.env...)
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = attr
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// await returns once the service is ready. An error comes with the end of the
// log, where the reason is, and at once if the process exits; there is none to
// watch if an earlier run of this program has started it.
func (s service) await(ctx context.Context, logFile string, p *process) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if p != nil {
		go func() {
			select {
			case <-p.done:
				cancel(fmt.Errorf("it exited: %v", p.err))
			case <-ctx.Done():
			}
		}()
	}
	err := poll(ctx, 90*time.Second, s.ready)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s is not ready: %w\n--- the end of %s:\n%s", s.name, err, logFile, tail(logFile))
}

// stop ends a process, by force if it does not go by itself.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it is gone, which is what we want
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail returns the last few lines of a file.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	const most = 4 << 10
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// ensure starts a service that outlives this program, unless it already runs,
// and returns once it is ready.
func (c *cluster) ensure(ctx context.Context, s service) error {
	log := c.in("logs", s.name+".log")
	if c.pid(s.name) != 0 {
		return s.await(ctx, log, nil)
	}
	return step(s.name, func() error {
		p, err := s.start(log, &syscall.SysProcAttr{Setsid: true})
		if err != nil {
			return err
		}
		if err := c.writePid(s.name, p.cmd.Process.Pid); err != nil {
			// It may have exited already: that, and why, is then what to tell.
			_ = p.cmd.Process.Kill()
			return errors.Join(err, s.await(ctx, log, p))
		}
		return s.await(ctx, log, p)
	})
}

// A pid file holds what tells a process from any other that ever had its
// number: the time it was started, and the boot that time is counted from.
func identity(pid int) (string, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", err
	}
	// The command's name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state, startTime = 0, 19
	if fields[state] == "Z" || fields[state] == "X" {
		return "", fmt.Errorf("process %d has exited", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s %s\n", pid, fields[startTime], strings.TrimSpace(string(boot))), nil
}

func (c *cluster) pidFile(name string) string { return c.in("pids", name) }

func (c *cluster) writePid(name string, pid int) error {
	id, err := identity(pid)
	if err != nil {
		return err
	}
	return writeFile(c.pidFile(name), []byte(id), 0o644)
}

// pid returns the process of a service that runs, and 0 if it does not.
func (c *cluster) pid(name string) int {
	recorded, err := os.ReadFile(c.pidFile(name))
	if err != nil {
		return 0
	}
	number, _, _ := strings.Cut(string(recorded), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	if current, err := identity(pid); err != nil || current != string(recorded) {
		return 0
	}
	return pid
}

// services names every service that was started.
func (c *cluster) services() []string {
	files, _ := filepath.Glob(c.pidFile("*"))
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	slices.Sort(files)
	return files
}

// stop ends a service, by force if it does not go by itself.
func (c *cluster) stop(name string) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		pid := c.pid(name)
		if pid == 0 {
			return nil
		}
		if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("stopping %s (pid %d): %w", name, pid, err)
		}
		for deadline := time.Now().Add(10 * time.Second); c.pid(name) != 0 && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if pid := c.pid(name); pid != 0 {
		return fmt.Errorf("%s (pid %d) does not die", name, pid)
	}
	return nil
}
