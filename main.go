// build-controller turns Builds into running applications: see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	clientset "github.com/buildcontroller/build-controller/pkg/generated/clientset/versioned"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

type options struct {
	kubeconfig    string
	namespace     string
	qps           float64
	workers       int
	healthAddress string
	images        plan.Images
	leaderElect   bool
	lease         leaderelection.LeaderElectionConfig
	leaseSpace    string
}

func (o *options) addFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without it $KUBECONFIG, ~/.kube/config and at last the cluster the controller runs in")
	flags.StringVar(&o.namespace, "namespace", "", "namespace whose Builds are worked on; empty for all")
	flags.Float64Var(&o.qps, "kube-api-qps", -1, "most requests a second to the API server; negative leaves it to the server's priority and fairness")
	flags.IntVar(&o.workers, "workers", 10, "number of Builds worked on at the same time")
	flags.StringVar(&o.healthAddress, "health-address", "", "address that answers /healthz, for example :8081; empty for none")
	flags.StringVar(&o.images.GitSync, "git-sync-image", "registry.k8s.io/git-sync/git-sync:v4.7.1", "image of the step that clones the repository")
	flags.StringVar(&o.images.Kaniko, "kaniko-image", "ghcr.io/osscontainertools/kaniko:v1.28.3", "image of the step that builds and pushes with kaniko")
	flags.StringVar(&o.images.BuildKit, "buildkit-image", "docker.io/moby/buildkit:v0.32.2-rootless", "image of the step that builds and pushes with BuildKit, rootless")
	flags.StringVar(&o.images.Buildah, "buildah-image", "quay.io/buildah/stable:v1.44.0", "image of the step that builds and pushes with Buildah")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "work only while holding a Lease, so that several controllers can stand by; off is fine for a single one on a laptop")
	flags.StringVar(&o.leaseSpace, "leader-elect-namespace", "", "namespace of the Lease; empty for the one of the kubeconfig or of the controller's pod")
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

	// The adaptor finds a leader unhealthy that no longer renews its Lease; without election it is always content.
	leading := leaderelection.NewLeaderHealthzAdaptor(o.lease.LeaseDuration)
	if err := serveHealth(ctx, o.healthAddress, leading.Check); err != nil {
		return err
	}
	work := func(ctx context.Context) {
		NewController(ctx, kube, client, o.namespace, o.images, clock.RealClock{}).Run(ctx, o.workers)
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

// serveHealth answers /healthz until ctx ends; an address that cannot be had is an error at once.
func serveHealth(ctx context.Context, address string, check func(*http.Request) error) error {
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("-health-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "The health server ended")
		}
	}()
	return nil
}
