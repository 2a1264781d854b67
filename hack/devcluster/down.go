package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// down undoes all that up did, however far that got. What can't be undone does
// not keep it from undoing the rest, only from forgetting that there is more.
func (c *cluster) down() error {
	// An interrupted down would leave less to find the rest by.
	ctx := context.Background()
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if !exists(c.in(marker)) {
		say("the cluster is not up")
		return nil
	}
	// From the outside in: the kubelet would start again what is stopped below
	// it, and the API server waits for etcd when it stops.
	order := []string{"kubelet", "kube-proxy", "kube-scheduler", "kube-controller-manager", "kube-apiserver"}
	for _, name := range c.services() {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	var errs []error
	for _, name := range order {
		errs = append(errs, c.stop(name))
	}
	errs = append(errs,
		c.killPods(),
		c.unmount(),
		c.removeNetwork(ctx),
		removeCgroups(),
		c.removeLogLinks(),
	)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nnot all could be undone: try again", err)
	}
	ours, err := c.ownDirs()
	if err != nil {
		return err
	}
	for _, dir := range ours { // the state, which knows of the others, last
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	say("the cluster is gone; what it was made from stays in %s", c.cache)
	return nil
}

// killPods ends what runs in the cgroups of pods, and the shims that
// containerd leaves to watch over them.
func (c *cluster) killPods() error {
	return poll(context.Background(), 20*time.Second, func(context.Context) error {
		pids, err := podProcesses()
		if err != nil {
			return err
		}
		shims, err := c.shims()
		if err != nil {
			return err
		}
		pids = append(pids, shims...)
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				return err
			}
		}
		if len(pids) > 0 {
			return fmt.Errorf("still running: %v", pids)
		}
		return nil
	})
}

func podProcesses() ([]int, error) {
	var pids []int
	err := walkCgroups(func(dir string) error {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return nil // it is just going away, or is a threaded one
		}
		for _, field := range strings.Fields(string(content)) {
			// 0 stands for a process of another pid namespace.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
}

// shims returns the processes that are a shim of our containerd: they say so
// themselves, naming its socket.
func (c *cluster) shims() ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(bytes.TrimRight(content, "\x00")), "\x00")
		address := slices.Index(args, "-address")
		if filepath.Base(args[0]) != "containerd-shim-runc-v2" || address < 0 || address+1 >= len(args) {
			continue
		}
		if strings.HasPrefix(args[address+1], c.containerdSocket()) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// walkCgroups calls a function for each cgroup of ours, the innermost first.
func walkCgroups(visit func(dir string) error) error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(hierarchy, cgroupRoot), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // cgroups come and go while we look
		})
		slices.Reverse(dirs)
		for _, dir := range dirs {
			if err := visit(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeCgroups() error {
	return poll(context.Background(), 10*time.Second, func(context.Context) error {
		return walkCgroups(func(dir string) error {
			// One is busy for a moment after its last process has been killed.
			if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
				return fmt.Errorf("removing cgroup %s: %w", dir, err)
			}
			return nil
		})
	})
}

type mountPoint struct{ path, fstype string }

func mountPoints() ([]mountPoint, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var mounts []mountPoint
	for line := range strings.Lines(string(content)) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 {
			continue
		}
		path := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		mounts = append(mounts, mountPoint{path, strings.Fields(after)[0]})
	}
	return mounts, nil
}

// unmount takes away everything that is mounted on something of ours: the
// volumes and file systems of pods, the shims' and their network namespaces.
func (c *cluster) unmount() error {
	ours, err := c.ownDirs()
	if err != nil {
		return err
	}
	return poll(context.Background(), 10*time.Second, func(context.Context) error {
		mounts, err := mountPoints()
		if err != nil {
			return err
		}
		slices.Reverse(mounts) // what was mounted last goes first
		for _, m := range mounts {
			for _, dir := range ours {
				if m.path != dir && !strings.HasPrefix(m.path, dir+"/") {
					continue
				}
				if err := syscall.Unmount(m.path, syscall.MNT_DETACH); err != nil {
					return fmt.Errorf("unmounting %s: %w", m.path, err)
				}
			}
		}
		return nil
	})
}

// ownDirs are the directories that down removes.
func (c *cluster) ownDirs() ([]string, error) {
	claimed, err := os.ReadFile(c.in(marker))
	if err != nil {
		return nil, err
	}
	return append(strings.Fields(string(claimed)), c.state), nil
}

// removeLogLinks removes the kubelet's links to the logs of our containers,
// from where others' may be as well.
func (c *cluster) removeLogLinks() error {
	links, err := filepath.Glob("/var/log/containers/*")
	if err != nil {
		return err
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, c.state+"/") {
			if err := os.Remove(link); err != nil {
				return err
			}
		}
	}
	return nil
}
