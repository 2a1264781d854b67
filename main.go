// build-controller turns Builds into running applications: see README.md.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/buildcontroller/build-controller/pkg/admission"
	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/certificate"
	clientset "github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned"
	"github.com/buildcontroller/build-controller/pkg/metrics"
	"github.com/buildcontroller/build-controller/pkg/plan"
	"github.com/buildcontroller/build-controller/pkg/policy"
)

type options struct {
	kubeconfig    string
	namespace     string
	qps           float64
	workers       int
	healthAddress string
	steps         plan.Steps
	policy        policy.Policy

	webhooks       bool
	webhookAddress string
	metricsAddress string
	certificate    certificate.Options

	leaderElect bool
	lease       leaderelection.LeaderElectionConfig
	leaseSpace  string
}

// enableWebhooks is the environment variable that does what -enable-webhooks does.
const enableWebhooks = "ENABLE_WEBHOOKS"

func (o *options) addFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without it $KUBECONFIG, ~/.kube/config and at last the cluster the controller runs in")
	flags.StringVar(&o.namespace, "namespace", "", "namespace whose Builds are worked on; empty for all")
	flags.Float64Var(&o.qps, "kube-api-qps", -1, "most requests a second to the API server; negative leaves it to the server's priority and fairness")
	flags.IntVar(&o.workers, "workers", 10, "number of Builds worked on at the same time")
	flags.StringVar(&o.healthAddress, "health-address", "", "address that answers /healthz and /readyz, for example :8081; empty for none")
	flags.StringVar(&o.steps.GitSync, "git-sync-image", "registry.k8s.io/git-sync/git-sync:v4.7.1", "image of the step that clones the repository")
	flags.StringVar(&o.steps.Kaniko, "kaniko-image", "ghcr.io/osscontainertools/kaniko:v1.28.3", "image of the step that builds and pushes with kaniko")
	flags.StringVar(&o.steps.BuildKit, "buildkit-image", "docker.io/moby/buildkit:v0.32.2-rootless", "image of the step that builds and pushes with BuildKit, rootless")
	flags.StringVar(&o.steps.Buildah, "buildah-image", "quay.io/buildah/stable:v1.44.0", "image of the step that builds and pushes with Buildah")
	o.steps.Requests = plan.Quantities{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}
	flags.Var(&o.steps.Requests, "default-requests", "resources that the containers of a run request whose Build has no spec.builder.resources, name=quantity, separated by commas")
	flags.Var(&o.steps.Limits, "default-limits", "resources that the containers of a run may not exceed whose Build has no spec.builder.resources, name=quantity, separated by commas; empty for no limit")
	flags.Var(&o.policy.Registries, "allowed-registries", "registries that Builds may name, host[:port][/path], separated by commas; {namespace} in a path stands for that of the Build; empty for all")
	flags.Var(&o.policy.GitHosts, "allowed-git-hosts", "git servers that Builds may name, host[:port][/path], separated by commas; {namespace} in a path stands for that of the Build; empty for all")
	flags.Var(&o.policy.Builders, "allowed-builders", "builders that Builds may name, separated by commas; empty for all")
	enabled, _ := strconv.ParseBool(os.Getenv(enableWebhooks)) // nonsense is an error of run
	flags.BoolVar(&o.webhooks, "enable-webhooks", enabled, "serve the admission webhooks of artifacts/webhook.yaml; the environment variable ENABLE_WEBHOOKS=true does the same")
	flags.StringVar(&o.webhookAddress, "webhook-address", ":9443", "address of the webhooks")
	flags.StringVar(&o.certificate.Configuration, "webhook-configuration", v1alpha1.ManagedBy, "name of the webhook configurations whose certificate authority the controller keeps")
	flags.DurationVar(&o.certificate.Lifetime, "certificate-lifetime", 90*24*time.Hour, "lifetime of a certificate that the controller makes; it is renewed when a third is left, and its authority lives four times as long")
	flags.StringVar(&o.metricsAddress, "metrics-address", "", "address that answers /metrics and /debug/pprof/, in plain http if it is a loopback address like 127.0.0.1:8080, and else with TLS to whom the API server allows it; empty for none")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "work only while holding a Lease, so that several controllers can stand by; off is fine for a single one on a laptop")
	flags.StringVar(&o.leaseSpace, "leader-elect-namespace", "", "namespace of the Lease and of the certificate's Secret; empty for the one of the kubeconfig or of the controller's pod")
	flags.DurationVar(&o.lease.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a silent leader keeps the Lease")
	flags.DurationVar(&o.lease.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew the Lease before it gives up")
	flags.DurationVar(&o.lease.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "time between two tries to get or renew the Lease")
}

func main() {
	var o options
	o.addFlags(flag.CommandLine)
	klog.InitFlags(nil)
	flag.Parse()
	defer klog.Flush()

	// The second signal ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, o); err != nil {
		klog.FromContext(ctx).Error(err, "build-controller ends")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// run works until ctx ends or the Lease is lost, which is an error.
func run(ctx context.Context, o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; build-controller takes flags only", flag.Arg(0))
	}
	if o.qps == 0 {
		return errors.New("-kube-api-qps must not be 0; a negative number means no limit")
	}
	if o.workers < 1 {
		return fmt.Errorf("-workers must be at least 1, not %d", o.workers)
	}
	if value := os.Getenv(enableWebhooks); value != "" {
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("$%s must be true or false, not %q", enableWebhooks, value)
		}
	}
	for name, request := range o.steps.Requests {
		if limit, limited := o.steps.Limits[name]; limited && limit.Cmp(request) < 0 {
			return fmt.Errorf("-default-limits: the limit of %s, %s, is below the request of %s in -default-requests", name, &limit, &request)
		}
	}
	if o.certificate.Lifetime < 10*time.Second {
		return fmt.Errorf("-certificate-lifetime must be at least 10s, not %s", o.certificate.Lifetime)
	}
	config, namespace, err := load(o.kubeconfig)
	if err != nil {
		return err
	}
	if o.leaseSpace != "" {
		namespace = o.leaseSpace
	}
	config.QPS = float32(o.qps)
	config.Burst = int(2 * o.qps)
	rest.AddUserAgent(config, v1alpha1.ManagedBy)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of Builds: %w", err)
	}

	ctx, end := context.WithCancel(ctx) // whatever the reason
	var standby sync.WaitGroup          // what a controller does that waits for the Lease as well
	defer standby.Wait()
	defer end()
	builds := NewBuildInformer(client, o.namespace)
	standby.Go(func() { builds.RunWithContext(ctx) })

	// The adaptor finds a leader unhealthy that no longer renews its Lease; without election it is always content.
	leading := leaderelection.NewLeaderHealthzAdaptor(o.lease.LeaseDuration)
	if err := o.serve(ctx, &standby, kube, namespace, builds, leading.Check); err != nil {
		return err
	}
	work := func(ctx context.Context) {
		settings := Settings{Namespace: o.namespace, Steps: o.steps, Policy: o.policy}
		NewController(ctx, kube, client, builds, settings, clock.RealClock{}).Run(ctx, o.workers)
	}
	if !o.leaderElect {
		work(ctx)
		return nil
	}
	o.lease.Lock, err = resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, v1alpha1.ManagedBy,
		resourcelock.ResourceLockConfig{Identity: identity()}, config, o.lease.RenewDeadline)
	if err != nil {
		return fmt.Errorf("making the Lease client: %w", err)
	}
	o.lease.WatchDog = leading
	return lead(ctx, o.lease, work)
}

// lead works when it holds the Lease, until ctx ends. Then the Lease is released only when the work is done, so that the next
// controller does not begin before.
func lead(ctx context.Context, config leaderelection.LeaderElectionConfig, work func(context.Context)) error {
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	config.Name = v1alpha1.ManagedBy
	config.ReleaseOnCancel = true
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			working, stop := context.WithCancel(leading)
			defer stop()
			defer context.AfterFunc(ctx, stop)()
			work(working)
			release()
		},
		OnStoppedLeading: func() {},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return fmt.Errorf("electing a leader: %w", err)
	}
	standby := context.AfterFunc(ctx, func() {
		if !elector.IsLeader() {
			release()
		}
	})
	defer standby()
	elector.Run(electing)
	if ctx.Err() == nil {
		return errors.New("the Lease was lost") // the process ends with whatever is under way: another may work already
	}
	return nil
}

// load returns the configuration and the namespace of the kubeconfig, or of the pod the controller runs in.
func load(kubeconfig string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("no cluster to work on (give one with -kubeconfig): %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	return config, namespace, nil
}

// identity tells the candidates for the Lease apart.
func identity() string {
	host, _ := os.Hostname() // empty is unique enough with the process id
	return fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())
}

// serve starts the servers that the flags ask for. An address that cannot be had is an error at once.
func (o options) serve(ctx context.Context, running *sync.WaitGroup, kube kubernetes.Interface, namespace string, builds cache.SharedIndexInformer, alive func(*http.Request) error) error {
	ready := func() error { return nil }
	registry := metrics.NewRegistry()
	local := loopback(o.metricsAddress)
	var secure *tls.Config
	if o.webhooks || !local {
		o.certificate.Namespace, o.certificate.Secret = namespace, v1alpha1.ManagedBy+"-certificate"
		for _, service := range []string{"-webhook.", "-metrics."} {
			o.certificate.Hosts = append(o.certificate.Hosts, v1alpha1.ManagedBy+service+namespace+".svc")
		}
		if !o.webhooks {
			o.certificate.Configuration = ""
		}
		keeper := certificate.New(klog.FromContext(ctx), kube, o.certificate)
		running.Go(func() { keeper.Run(ctx) })
		registry.CertificateExpires(keeper.NotAfter)
		ready = keeper.Ready
		secure = &tls.Config{GetCertificate: keeper.GetCertificate, MinVersion: tls.VersionTLS12}
	}
	if o.webhooks {
		webhook := &admission.Webhook{Policy: o.policy, Builds: builds.GetIndexer(), Synced: builds.HasSynced, Access: kube.AuthorizationV1()}
		certified := ready
		ready = func() error {
			if !builds.HasSynced() {
				return errors.New("the Builds are not all known yet")
			}
			return certified()
		}
		if err := listen(ctx, running, "webhook-address", o.webhookAddress, webhook.Handler(registry.Reviewed), secure); err != nil {
			return err
		}
	}
	if o.metricsAddress != "" {
		handler, config := metrics.Guarded(kube, registry.Handler()), secure
		if local {
			handler, config = registry.Handler(), nil
		}
		if err := listen(ctx, running, "metrics-address", o.metricsAddress, handler, config); err != nil {
			return err
		}
	}
	if o.healthAddress == "" {
		return nil
	}
	health := http.NewServeMux()
	answer := func(path string, check func(*http.Request) error) {
		health.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if err := check(r); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintln(w, "ok")
		})
	}
	answer("/healthz", alive)
	answer("/readyz", func(*http.Request) error { return ready() })
	return listen(ctx, running, "health-address", o.healthAddress, health, nil)
}

// loopback says whether an address can be reached from this machine, or this pod, only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return address == "" || err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// listen serves until ctx ends, with TLS if there is a configuration of it.
func listen(ctx context.Context, running *sync.WaitGroup, name, address string, handler http.Handler, secure *tls.Config) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("-%s: %w", name, err)
	}
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos = []string{"h2", "http/1.1"}
		listener = tls.NewListener(listener, secure)
	}
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    klog.NewStandardLogger("INFO"), // a client that does not trust us is no error of ours
	}
	running.Go(func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(ending) // what is under way is answered
	})
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "A server ended", "address", address)
		}
	}()
	return nil
}
