package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A controlPlane is what makes up the Kubernetes API: etcd, kube-apiserver and
// kube-controller-manager.
type controlPlane struct {
	bin  func(name string) string
	dir  string // for pki, data, configuration and the audit log
	host string // where the API server listens, and says that it does

	apiPort, etcdPort, etcdPeerPort int

	// Where the controller manager says that it is well; with 0 it does not.
	controllerManagerPort int
	// Whether the API server publishes host as the endpoint of the Service
	// "kubernetes". A loopback address is refused there.
	publish  bool
	features []string
}

func (cp *controlPlane) in(elem ...string) string {
	return filepath.Join(append([]string{cp.dir}, elem...)...)
}

func (cp *controlPlane) pki() pki           { return pki(cp.in("pki")) }
func (cp *controlPlane) frontProxyPKI() pki { return pki(cp.in("pki", "front-proxy")) }
func (cp *controlPlane) server() string     { return fmt.Sprintf("https://%s:%d", cp.host, cp.apiPort) }
func (cp *controlPlane) kubeconfig() string { return cp.in("kubeconfig") }

// Every request that a test could want to count is in the audit log; left out
// is what the components themselves read and how they renew their leases.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: [/healthz*, /livez*, /readyz*, /version, /openapi/*, /metrics]
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
  userGroups: [system:nodes]
- level: None
  verbs: [get, list, watch]
  users: [system:apiserver, system:kube-controller-manager, system:kube-scheduler, system:kube-proxy]
- level: None
  verbs: [get, list, watch]
  userGroups: [system:nodes, "system:serviceaccounts:kube-system"]
- level: Metadata
`

// prepare writes the certificates and configuration. The administrator's
// kubeconfig is not among them: it appears when it can be used.
func (cp *controlPlane) prepare() error {
	if err := cp.pki().issue(
		certRequest{name: "apiserver", user: "kube-apiserver", hosts: []string{
			cp.host, "127.0.0.1", apiClusterIP, "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		certRequest{name: "admin", user: "devcluster-admin", groups: []string{"system:masters"}},
		certRequest{name: "apiserver-kubelet-client", user: "kube-apiserver", groups: []string{"system:masters"}},
		certRequest{name: "controller-manager", user: "system:kube-controller-manager"},
	); err != nil {
		return err
	}
	// An authority of its own: whoever has a certificate signed by this one may
	// speak for any user.
	if err := cp.frontProxyPKI().issue(certRequest{name: "client", user: "front-proxy-client"}); err != nil {
		return err
	}
	if !exists(cp.pki().key("service-account")) {
		if _, err := cp.pki().newKey("service-account"); err != nil {
			return err
		}
	}
	if err := writeFile(cp.in("audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return err
	}
	return cp.pki().writeKubeconfig(cp.in("controller-manager.kubeconfig"), cp.server(), "controller-manager")
}

func (cp *controlPlane) etcd() service {
	client := fmt.Sprintf("http://127.0.0.1:%d", cp.etcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", cp.etcdPeerPort)
	return service{
		name: "etcd",
		path: cp.bin("etcd"),
		args: []string{
			"--name=devcluster",
			"--data-dir=" + cp.in("etcd"),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=devcluster=" + peer,
			// What it would protect from is a loss of power, not a kill -9.
			"--unsafe-no-fsync",
			"--log-level=warn",
		},
		ready: httpOK(client + "/health"),
	}
}

func (cp *controlPlane) apiserver() service {
	p, proxy := cp.pki(), cp.frontProxyPKI()
	args := []string{
		"--bind-address=" + cp.host,
		"--advertise-address=" + cp.host,
		fmt.Sprintf("--secure-port=%d", cp.apiPort),
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", cp.etcdPort),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--client-ca-file=" + p.cert(ca),
		"--tls-cert-file=" + p.cert("apiserver"), "--tls-private-key-file=" + p.key("apiserver"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + p.key("service-account"),
		"--service-account-key-file=" + p.key("service-account"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
		"--kubelet-certificate-authority=" + p.cert(ca),
		"--kubelet-client-certificate=" + p.cert("apiserver-kubelet-client"),
		"--kubelet-client-key=" + p.key("apiserver-kubelet-client"),
		// The node's name resolves nowhere.
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + proxy.cert(ca),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + proxy.cert("client"),
		"--proxy-client-key-file=" + proxy.key("client"),
		"--audit-policy-file=" + cp.in("audit-policy.yaml"),
		"--audit-log-path=" + cp.in("audit.log"),
	}
	if !cp.publish {
		args = append(args, "--endpoint-reconciler-type=none")
	}
	return service{
		name: "kube-apiserver",
		path: cp.bin("kube-apiserver"),
		args: append(args, cp.featureGates()...),
		ready: func(ctx context.Context) error {
			api, err := newAPI(cp.server(), cp.pki())
			if err != nil {
				return err
			}
			return api.get(ctx, "/readyz", nil)
		},
	}
}

func (cp *controlPlane) controllerManager() service {
	p, kubeconfig := cp.pki(), cp.in("controller-manager.kubeconfig")
	return service{
		name: "kube-controller-manager",
		path: cp.bin("kube-controller-manager"),
		args: append([]string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", cp.controllerManagerPort),
			"--leader-elect=false",
			"--use-service-account-credentials",
			"--service-account-private-key-file=" + p.key("service-account"),
			"--root-ca-file=" + p.cert(ca),
			"--cluster-signing-cert-file=" + p.cert(ca),
			"--cluster-signing-key-file=" + p.key(ca),
			"--flex-volume-plugin-dir=" + cp.in("volume-plugins"), // it makes the directory, below /usr by default
			// At the default of 20 its Job controller, not what is tested, is
			// what a test with thousands of objects would measure.
			"--kube-api-qps=200", "--kube-api-burst=400",
		}, cp.featureGates()...),
		// No Pod can be made before these two are: they show that it works, not
		// only that it runs.
		ready: func(ctx context.Context) error {
			api, err := newAPI(cp.server(), cp.pki())
			if err != nil {
				return err
			}
			return errors.Join(
				api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil),
				api.get(ctx, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", nil),
			)
		},
	}
}

func (cp *controlPlane) featureGates() []string {
	if len(cp.features) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(cp.features, ",")}
}

// controlPlaneOnly runs a control plane in the foreground until it is told to
// stop. Its parts die with this program, however that ends.
func (c *cluster) controlPlaneOnly(ctx context.Context, dir string, features []string) error {
	if err := c.build(ctx, kubernetesTool, etcdTool); err != nil {
		return err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	cp := &controlPlane{
		bin: c.bin, dir: dir, host: "127.0.0.1",
		apiPort: ports[0], etcdPort: ports[1], etcdPeerPort: ports[2],
		features: features,
	}
	if err := cp.prepare(); err != nil {
		return err
	}
	// One left by an earlier run would be taken for ours.
	if err := os.RemoveAll(cp.kubeconfig()); err != nil {
		return err
	}

	told, stop := context.WithCancel(ctx) // to stop
	defer stop()
	whenStdinEnds(stop)
	ctx, fail := context.WithCancelCause(told)
	defer fail(nil)

	var running []*process
	defer func() {
		// The API server must not outlive etcd, or it waits for it in vain.
		for _, p := range slices.Backward(running) {
			p.stop()
		}
	}()
	for _, s := range []service{cp.etcd(), cp.apiserver(), cp.controllerManager()} {
		log := cp.in("logs", s.name+".log")
		p, err := s.start(log, &syscall.SysProcAttr{
			Setpgid:   true, // a ^C is for us to pass on, in the right order
			Pdeathsig: syscall.SIGKILL,
		})
		if err != nil {
			return err
		}
		running = append(running, p)
		if err := s.await(ctx, log, p); err != nil {
			if told.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			<-p.done
			fail(fmt.Errorf("%s exited: %v\n--- the end of %s:\n%s", s.name, p.err, log, tail(log)))
		}()
	}
	if err := cp.pki().writeKubeconfig(cp.kubeconfig(), cp.server(), "admin"); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	if told.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// whenStdinEnds calls stop at the end of standard input, if that is a pipe:
// then its other end was held by whoever started us, and is gone with them.
func whenStdinEnds(stop func()) {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
}

// freePorts returns loopback ports that nobody listened on just now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // only at the end, or the next one may be the same
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
