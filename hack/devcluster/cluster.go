package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// The pod and Service networks are ranges reserved for benchmarks (RFC 2544),
// so that no address in them is ever that of a machine outside.
const (
	nodeName     = "devcluster"
	bridge       = "bcdev0"
	hostIP       = "198.18.0.1" // the bridge's own address: all our servers listen here
	podCIDR      = "198.18.0.0/24"
	serviceCIDR  = "198.19.0.0/16"
	apiClusterIP = "198.19.0.1" // the first Service address is always the API server's

	registryAddress     = hostIP + ":5000"
	authRegistryAddress = hostIP + ":5001" // wants a user and a password
	tlsRegistryAddress  = hostIP + ":5002" // wants them too, and is trusted by no image
	sshAddress          = hostIP + ":2222"
	gitHTTPSAddress     = hostIP + ":3443"
	gitPrivateAddress   = hostIP + ":3444" // the same, but trusted by no image
	goProxyAddress      = hostIP + ":3000"
	dnsAddress          = hostIP + ":53"

	// cgroupRoot holds every pod's cgroup, which makes whatever still runs in
	// one ours to kill.
	cgroupRoot = "build-controller-devcluster"
)

// A cluster knows where everything of one cluster is.
type cluster struct {
	cache  string // what outlives a cluster: binaries, images
	state  string // what makes up a cluster: gone after down
	source string // the checkout of this repository
}

func newCluster() (*cluster, error) {
	c := &cluster{
		cache:  os.Getenv("BUILD_CONTROLLER_CACHE"),
		state:  os.Getenv("DEVCLUSTER_STATE"),
		source: os.Getenv("DEVCLUSTER_SOURCE"), // set by devcluster.sh
	}
	if c.cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		c.cache = filepath.Join(home, ".cache", "build-controller")
	}
	if c.state == "" {
		c.state = "/var/lib/build-controller-devcluster"
	}
	for _, dir := range []string{c.cache, c.state, c.source} {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("%q is not an absolute path", dir)
		}
	}
	return c, os.MkdirAll(c.cache, 0o755)
}

// in returns a path below the state directory.
func (c *cluster) in(elem ...string) string {
	return filepath.Join(append([]string{c.state}, elem...)...)
}

func (c *cluster) kubeconfig() string { return c.in("kubeconfig") }

// lock waits until no other devcluster builds, starts or stops anything, and
// returns the function that lets the next one go on.
func (c *cluster) lock() (unlock func(), err error) {
	dir, err := os.Open(c.cache)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		dir.Close()
		return nil, fmt.Errorf("locking %s: %w", c.cache, err)
	}
	return func() { dir.Close() }, nil
}

// writeFile writes a file that may be half-written by nobody: whoever finds it
// finds all of it.
func writeFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	next := path + ".next"
	if err := os.WriteFile(next, content, mode); err != nil {
		return err
	}
	// WriteFile's mode is subject to the umask, and to what was there before.
	if err := os.Chmod(next, mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
