package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Pods reach each other, this machine's address on the bridge and Services; a
// packet for anywhere else is refused at once, not lost: it would leave with an
// address that no answer finds back to.
const firewall = `table inet build-controller-devcluster
delete table inet build-controller-devcluster
table inet build-controller-devcluster {
	chain forward {
		type filter hook forward priority filter;
		iifname "` + bridge + `" oifname != "` + bridge + `" reject
		iifname != "` + bridge + `" oifname "` + bridge + `" drop
	}
}
`

// Tables of ours and of kube-proxy, which leaves its own behind.
var firewallTables = []string{
	"inet build-controller-devcluster",
	"ip kube-proxy",
	"ip6 kube-proxy",
}

// network makes what has to be there before any Pod: the CNI plugin would make
// the bridge too, but only for the first Pod, and our servers listen on it.
func (c *cluster) network(ctx context.Context) error {
	if !exists("/proc/sys/net/bridge") {
		// Without it, the answer of a Pod to another that called its Service
		// goes straight back over the bridge, from an address that the caller
		// has never heard of.
		if err := command(ctx, "modprobe", "br_netfilter"); err != nil {
			return err
		}
	}
	if err := c.saveSysctls(); err != nil {
		return err
	}
	for name, value := range map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/bridge/bridge-nf-call-iptables": "1",
	} {
		if err := os.WriteFile(sysctlPath(name), []byte(value), 0o644); err != nil {
			return err
		}
	}
	if !exists("/sys/class/net/" + bridge) {
		// With no address of its own the bridge takes that of some Pod's veth,
		// another one whenever Pods come and go, and breaks connections.
		if err := command(ctx, "ip", "link", "add", bridge, "address", "02:00:c6:12:00:01", "type", "bridge"); err != nil {
			return err
		}
	}
	if err := command(ctx, "ip", "address", "replace", hostIP+"/24", "dev", bridge); err != nil {
		return err
	}
	if err := command(ctx, "ip", "link", "set", bridge, "up"); err != nil {
		return err
	}
	nft := exec.CommandContext(ctx, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(firewall)
	_, err := output(nft)
	return err
}

// removeNetwork undoes network, and what kube-proxy and the CNI plugin added.
func (c *cluster) removeNetwork(ctx context.Context) error {
	var errs []error
	if tables, err := output(exec.CommandContext(ctx, "nft", "list", "tables")); err == nil {
		for _, table := range firewallTables {
			if strings.Contains(tables+"\n", "table "+table+"\n") {
				errs = append(errs, command(ctx, "nft", append([]string{"delete", "table"}, strings.Fields(table)...)...))
			}
		}
	}
	if exists("/sys/class/net/" + bridge) {
		// The veths of Pods go with the Pods' network namespaces, but not of one
		// that was being made when the runtime was killed.
		ports, _ := filepath.Glob("/sys/class/net/" + bridge + "/brif/*")
		for _, port := range ports {
			if err := command(ctx, "ip", "link", "delete", filepath.Base(port)); err != nil && exists(port) {
				errs = append(errs, err)
			}
		}
		errs = append(errs, command(ctx, "ip", "link", "delete", bridge))
	}
	return errors.Join(append(errs, c.restoreSysctls())...)
}

// What we or the kubelet set.
var sysctls = []string{
	"kernel/keys/root_maxbytes",
	"kernel/keys/root_maxkeys",
	"kernel/panic",
	"kernel/panic_on_oops",
	"net/bridge/bridge-nf-call-iptables",
	"net/ipv4/ip_forward",
	"vm/overcommit_memory",
	"vm/panic_on_oom",
}

func sysctlPath(name string) string { return "/proc/sys/" + name }

// saveSysctls notes how things were before the first up.
func (c *cluster) saveSysctls() error {
	file := c.in("sysctls")
	if exists(file) {
		return nil
	}
	var saved strings.Builder
	for _, name := range sysctls {
		if value, err := os.ReadFile(sysctlPath(name)); err == nil {
			fmt.Fprintf(&saved, "%s %s\n", name, strings.TrimSpace(string(value)))
		}
	}
	return writeFile(file, []byte(saved.String()), 0o644)
}

func (c *cluster) restoreSysctls() error {
	saved, err := os.ReadFile(c.in("sysctls"))
	if err != nil {
		return nil // we set none
	}
	var errs []error
	for line := range strings.Lines(string(saved)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		errs = append(errs, os.WriteFile(sysctlPath(name), []byte(value), 0o644))
	}
	return errors.Join(errs...)
}
