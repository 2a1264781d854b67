package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// controlPlane is that of the cluster.
func (c *cluster) controlPlane() *controlPlane {
	return &controlPlane{
		bin: c.bin, dir: c.state, host: hostIP,
		apiPort: 6443, etcdPort: 2379, etcdPeerPort: 2380, controllerManagerPort: 10257,
		publish: true,
	}
}

// marker tells a state directory from any other that DEVCLUSTER_STATE may name
// by mistake, before it is removed.
const marker = ".build-controller-devcluster"

// program is a copy of this program for what outlives it: the one in the cache
// changes with the checkout, and the git user may not read it there.
func (c *cluster) program() string { return c.in("bin", "devcluster") }

// up starts whatever does not run. Everything it does can be done again, and a
// half-finished up is finished by the next.
func (c *cluster) up(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster can only be started by root")
	}
	if err := installPackages(ctx); err != nil {
		return err
	}
	if err := c.build(ctx, allTools...); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()

	if err := c.claimState(); err != nil {
		return err
	}
	if err := c.network(ctx); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := c.gitCredentials(ctx); err != nil {
		return fmt.Errorf("git credentials: %w", err)
	}
	if err := c.dockerConfig(); err != nil {
		return err
	}
	cp := c.controlPlane()
	if err := cp.prepare(); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	if err := c.prepareNode(cp); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if err := together(
		func() error { return c.startKubernetes(ctx, cp) },
		func() error { return c.startRegistries(ctx) },
		func() error { return c.startGit(ctx) },
	); err != nil {
		return err
	}
	if err := cp.pki().writeKubeconfig(c.kubeconfig(), cp.server(), "admin"); err != nil {
		return err
	}
	c.printAccess()
	return nil
}

func (c *cluster) startKubernetes(ctx context.Context, cp *controlPlane) error {
	for _, s := range []service{
		cp.etcd(), cp.apiserver(), cp.controllerManager(), c.scheduler(),
		c.containerd(), c.kubelet(cp), c.kubeProxy(),
	} {
		if err := c.ensure(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) startRegistries(ctx context.Context) error {
	for _, define := range []func() (service, error){c.registry, c.authRegistry, c.tlsRegistry} {
		s, err := define()
		if err != nil {
			return err
		}
		if err := c.ensure(ctx, s); err != nil {
			return err
		}
	}
	return c.pushImages(ctx)
}

func (c *cluster) startGit(ctx context.Context) error {
	if err := c.repositories(ctx); err != nil {
		return fmt.Errorf("git repositories: %w", err)
	}
	for _, define := range []func() (service, error){c.sshServer, c.servers} {
		s, err := define()
		if err != nil {
			return err
		}
		if err := c.ensure(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Directories that some part of the cluster insists on, wherever its own are
// configured to be.
var foreignDirs = []string{
	"/run/containerd",     // the shims' sockets
	"/run/sshd",           // where sshd locks itself in
	"/var/lib/cni",        // what the CNI library remembers
	"/var/lib/kubelet",    // the sockets of device plugins
	"/var/log/containers", // the kubelet's links to logs
}

// claimState makes the state directory, and notes which of the foreign
// directories were not there before us: these are ours to remove.
func (c *cluster) claimState() error {
	if err := os.MkdirAll(c.state, 0o755); err != nil {
		return err
	}
	if !exists(c.in(marker)) {
		if others, err := os.ReadDir(c.state); err != nil || len(others) > 0 {
			return errors.Join(err, fmt.Errorf("%s holds something else", c.state))
		}
		ours := slices.DeleteFunc(slices.Clone(foreignDirs), exists)
		if err := writeFile(c.in(marker), []byte(strings.Join(ours, "\n")), 0o644); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		return err
	}
	return c.installProgram()
}

// installProgram copies this program, unless the copy is the same: it may be
// running.
func (c *cluster) installProgram() error {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(c.program()); err == nil && string(there) == string(self) {
		return nil
	}
	if err := writeFile(c.program(), self, 0o755); err != nil {
		return err
	}
	return c.stop("servers") // which is the old one
}

// printAccess says how to reach everything.
func (c *cluster) printAccess() {
	for _, line := range [][2]string{
		{"kubeconfig", c.kubeconfig()},
		{"kubectl", c.bin("kubectl")},
		{"registry", registryAddress + ", plain http, open to all"},
		{"", authRegistryAddress + ", plain http, user " + registryUser + ", password in " + c.in("registry", "password")},
		{"", tlsRegistryAddress + ", https signed by " + c.registryAuthority() + ", the same user and password"},
		{"git over ssh", "ssh://git@" + sshAddress + "/NAME.git"},
		{"", "key " + c.in("git", "id_ed25519") + ", host key in " + c.in("git", "known_hosts")},
		{"git over https", "https://" + gitHTTPSAddress + "/public/NAME.git, for all to read"},
		{"", "https://" + gitHTTPSAddress + "/private/NAME.git, user " + gitUser + ", password in " + c.in("git", "password")},
		{"", "signed by " + c.in("git", "ca.crt")},
		{"", "https://" + gitPrivateAddress + ", the same signed by " + c.in("git", "private-ca.crt") + ", which no image trusts"},
		{"repositories", strings.Join(c.repositoryNames(), " ")},
		{"Go modules", "GOPROXY=http://" + goProxyAddress + " in Pods"},
		{"audit log", c.controlPlane().in("audit.log")},
	} {
		fmt.Printf("%-15s %s\n", line[0], line[1])
	}
}

// status shows which services run, and how to reach them.
func (c *cluster) status(ctx context.Context) error {
	names := c.services()
	if len(names) == 0 {
		fmt.Println("the cluster is not up")
		return nil
	}
	dead := 0
	for _, name := range names {
		state := "dead, see " + filepath.Join(c.in("logs"), name+".log")
		if pid := c.pid(name); pid != 0 {
			state = fmt.Sprintf("pid %d", pid)
		} else {
			dead++
		}
		fmt.Printf("%-24s %s\n", name, state)
	}
	node := "ready"
	if err := nodeReady(ctx, c.controlPlane()); err != nil {
		node = err.Error()
		dead++
	}
	fmt.Printf("%-24s %s\n", "node "+nodeName, node)
	c.printAccess()
	if dead > 0 {
		return errors.New("not all is well; \"up\" repairs it")
	}
	return nil
}
