package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Where the runtime listens.
func (c *cluster) containerdSocket() string { return c.in("containerd", "containerd.sock") }

const (
	cniPlugins   = "/usr/lib/cni" // where Debian puts them
	sandboxImage = registryAddress + "/pause:1"
)

// What the node's services are told in files. The values are filled in by
// prepareNode.
var nodeFiles = map[string]string{
	// The oom score: where the runtime has no CAP_SYS_RESOURCE, as in some
	// virtual machines, it can't set one lower than its own, and no container
	// would start.
	"containerd/config.toml": `version = 3
root = "{{.Containerd}}/root"
state = "{{.Containerd}}/state"

[grpc]
address = "{{.Socket}}"

[plugins."io.containerd.internal.v1.opt"]
path = "{{.Containerd}}/opt"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{{.SandboxImage}}"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "{{.Containerd}}/certs.d"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{{.CNIPlugins}}"]
conf_dir = "{{.CNI}}"
`,
	"containerd/certs.d/" + registryAddress + "/hosts.toml": `server = "http://` + registryAddress + `"
`,
	"containerd/certs.d/" + authRegistryAddress + "/hosts.toml": `server = "http://` + authRegistryAddress + `"
`,
	"containerd/certs.d/" + tlsRegistryAddress + "/hosts.toml": `server = "https://` + tlsRegistryAddress + `"
ca = "{{.RegistryCA}}"
`,
	"cni/10-devcluster.conflist": `{
  "cniVersion": "1.0.0",
  "name": "devcluster",
  "plugins": [{
    "type": "bridge",
    "bridge": "{{.Bridge}}",
    "isGateway": true,
    "hairpinMode": true,
    "ipam": {
      "type": "host-local",
      "dataDir": "{{.CNI}}/addresses",
      "ranges": [[{"subnet": "{{.PodCIDR}}", "gateway": "{{.HostIP}}"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
`,
	"kubelet/resolv.conf": "nameserver {{.HostIP}}\n",
	// The kubelet would keep the iptables rules that older components relied on.
	"kubelet/config.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.HostIP}}
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: {{.PKI}}/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: {{.PKI}}/kubelet.crt
tlsPrivateKeyFile: {{.PKI}}/kubelet.key
containerRuntimeEndpoint: unix://{{.Socket}}
cgroupDriver: cgroupfs
cgroupRoot: /{{.CgroupRoot}}
enforceNodeAllocatable: [pods]
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
clusterDomain: cluster.local
clusterDNS: [{{.HostIP}}]
resolvConf: {{.Kubelet}}/resolv.conf
podLogsDir: {{.Logs}}/pods
volumePluginDir: {{.Kubelet}}/volume-plugins
serializeImagePulls: false
evictionHard:
  memory.available: 100Mi
  nodefs.available: 3%
  imagefs.available: 3%
systemReserved: {cpu: 200m, memory: 1Gi}
`,
	"kube-proxy/config.yaml": `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
bindAddress: {{.HostIP}}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
hostnameOverride: {{.NodeName}}
clusterCIDR: {{.PodCIDR}}
detectLocalMode: BridgeInterface
detectLocal: {bridgeInterface: {{.Bridge}}}
clientConnection: {kubeconfig: {{.KubeProxy}}/kubeconfig}
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`,
}

// prepareNode writes the node's configuration and makes the cgroup that its
// pods live in.
func (c *cluster) prepareNode(cp *controlPlane) error {
	values := map[string]string{
		"Bridge":       bridge,
		"CNI":          c.in("cni"),
		"CNIPlugins":   cniPlugins,
		"CgroupRoot":   cgroupRoot,
		"Containerd":   c.in("containerd"),
		"HostIP":       hostIP,
		"KubeProxy":    c.in("kube-proxy"),
		"Kubelet":      c.in("kubelet"),
		"Logs":         c.in("logs"),
		"NodeName":     nodeName,
		"PKI":          string(cp.pki()),
		"PodCIDR":      podCIDR,
		"RegistryCA":   c.registryAuthority(),
		"SandboxImage": sandboxImage,
		"Socket":       c.containerdSocket(),
	}
	for name, text := range nodeFiles {
		tmpl, err := template.New(name).Option("missingkey=error").Parse(text)
		if err != nil {
			return err
		}
		var content bytes.Buffer
		if err := tmpl.Execute(&content, values); err != nil {
			return err
		}
		if err := writeFile(c.in(name), content.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if err := cp.pki().issue(
		certRequest{name: "kubelet", user: "system:node:" + nodeName, groups: []string{"system:nodes"}, hosts: []string{nodeName, hostIP}},
		certRequest{name: "kube-proxy", user: "system:kube-proxy"},
		certRequest{name: "scheduler", user: "system:kube-scheduler"},
	); err != nil {
		return err
	}
	for _, name := range []string{"kubelet", "kube-proxy", "scheduler"} {
		if err := cp.pki().writeKubeconfig(c.in(name, "kubeconfig"), cp.server(), name); err != nil {
			return err
		}
	}
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if err := os.MkdirAll(filepath.Join(hierarchy, cgroupRoot), 0o755); err != nil {
			return err
		}
		// All pods together otherwise count as much as one busy process of the machine. Hierarchies without that file do not schedule.
		for file, weight := range map[string]string{"cpu.shares": "65536", "cpu.weight": "10000"} {
			if name := filepath.Join(hierarchy, cgroupRoot, file); exists(name) {
				if err := os.WriteFile(name, []byte(weight), 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *cluster) scheduler() service {
	kubeconfig := c.in("scheduler", "kubeconfig")
	return service{
		name: "kube-scheduler",
		path: c.bin("kube-scheduler"),
		args: []string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
		},
		ready: httpOK("https://127.0.0.1:10259/healthz"),
	}
}

func (c *cluster) containerd() service {
	return service{
		name:  "containerd",
		path:  c.bin("containerd"),
		args:  []string{"--config=" + c.in("containerd", "config.toml")},
		env:   []string{"PATH=" + c.binDir() + ":" + os.Getenv("PATH")}, // where it finds its shim
		ready: accepts("unix", c.containerdSocket()),
	}
}

func (c *cluster) kubelet(cp *controlPlane) service {
	return service{
		name: "kubelet",
		path: c.bin("kubelet"),
		args: []string{
			"--config=" + c.in("kubelet", "config.yaml"),
			"--kubeconfig=" + c.in("kubelet", "kubeconfig"),
			"--root-dir=" + c.in("kubelet"),
			"--cert-dir=" + c.in("kubelet", "pki"),
			"--hostname-override=" + nodeName,
			"--node-ip=" + hostIP,
		},
		ready: func(ctx context.Context) error { return nodeReady(ctx, cp) },
	}
}

func (c *cluster) kubeProxy() service {
	return service{
		name:  "kube-proxy",
		path:  c.bin("kube-proxy"),
		args:  []string{"--config=" + c.in("kube-proxy", "config.yaml")},
		ready: httpOK("http://127.0.0.1:10256/healthz"),
	}
}

// nodeReady checks that Pods can be scheduled: the kubelet is well and the
// controller manager has believed it.
func nodeReady(ctx context.Context, cp *controlPlane) error {
	if err := httpOK("http://127.0.0.1:10248/healthz")(ctx); err != nil {
		return err
	}
	api, err := newAPI(cp.server(), cp.pki())
	if err != nil {
		return err
	}
	var node struct {
		Spec struct {
			Taints []struct{ Key string }
		}
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := api.get(ctx, "/api/v1/nodes/"+nodeName, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status != "True" {
			return errors.New("the node is not ready: " + condition.Message)
		}
	}
	if taints := node.Spec.Taints; len(taints) > 0 {
		return fmt.Errorf("the node has taint %s", taints[0].Key)
	}
	return nil
}

// cgroupHierarchies returns where cgroups are mounted: once with version 2,
// once a controller with version 1.
func cgroupHierarchies() ([]string, error) {
	mounts, err := mountPoints()
	if err != nil {
		return nil, err
	}
	var hierarchies []string
	for _, m := range mounts {
		if strings.HasPrefix(m.fstype, "cgroup") {
			hierarchies = append(hierarchies, m.path)
		}
	}
	return hierarchies, nil
}
