// Package certificate keeps the certificate that the controller's own servers serve with.
//
// It lives in a Secret of the controller's namespace, which every replica watches: so all serve the same one, and a new one
// without a restart. If the Secret is empty, the controllers make an authority and a certificate and renew both before they
// expire; whichever writes first wins, and the others take what it wrote. They also write the authority into the webhook
// configurations that are to trust it. If somebody else fills the Secret, cert-manager for example, it is only read.
package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/feed"
)

const (
	// retry is how long to wait after an error.
	retry = 5 * time.Second
	// maxSettle is how long clients that are told of an authority get until it is used; less for certificates that live for minutes.
	maxSettle = 30 * time.Second
)

// Options say which certificate is kept.
type Options struct {
	// Namespace of the Secret, and Secret its name.
	Namespace, Secret string
	// Hosts that the certificate is always good for, beside those that the webhook configurations name.
	Hosts []string
	// Configuration is the name of the webhook configurations that are to trust the certificate; empty for none.
	Configuration string
	// Lifetime of a certificate; it is renewed when a third is left. Its authority lives four times as long.
	Lifetime time.Duration
}

// Keeper keeps a certificate. Make it with New, then call Run once.
type Keeper struct {
	client  kubernetes.Interface
	options Options

	secret         *feed.Feed[*corev1.Secret]
	configurations configurations
	changed        chan struct{} // one token: something is to be looked at

	serving atomic.Pointer[tls.Certificate]

	// trusted is the bundle of authorities that all configurations have, and since when; Run's own.
	trusted      []byte
	trustedSince time.Time
}

// New returns a Keeper that is not running yet.
func New(logger klog.Logger, client kubernetes.Interface, options Options) *Keeper {
	k := &Keeper{client: client, options: options, changed: make(chan struct{}, 1)}
	k.secret = feed.Secret(logger, client, options.Namespace, options.Secret, func(_, _ *corev1.Secret) { k.notify() })
	if options.Configuration != "" {
		k.configurations = newConfigurations(logger, client, options.Configuration, k.notify)
	}
	return k
}

func (k *Keeper) notify() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// GetCertificate is for a tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := k.serving.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// NotAfter is when the certificate that is served expires; the zero time if there is none.
func (k *Keeper) NotAfter() time.Time {
	if served := k.serving.Load(); served != nil {
		return served.Leaf.NotAfter
	}
	return time.Time{}
}

// Ready says why clients cannot be served, and nil when they can.
func (k *Keeper) Ready() error {
	if !time.Now().Before(k.NotAfter()) {
		return errors.New("there is no certificate that is valid")
	}
	return nil
}

// Run keeps the certificate until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var feeds sync.WaitGroup
	defer feeds.Wait()
	feeds.Go(func() { k.secret.Run(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), k.secret.HasSynced) {
		return
	}
	// Only who fills the Secret needs to see, and so to have a right on, the configurations.
	watch := sync.OnceFunc(func() { feeds.Go(func() { k.configurations.run(ctx) }) })
	for ctx.Err() == nil {
		again, err := k.sync(ctx, watch)
		if apierrors.IsConflict(err) {
			err = nil // another replica was faster; its write is about to be shown
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "The certificate cannot be kept, trying again", "in", retry)
			again = retry
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-k.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// sync serves what is in the Secret, and brings Secret and configurations to what they should be. It returns when to look again.
func (k *Keeper) sync(ctx context.Context, watch func()) (time.Duration, error) {
	secret, ok := k.secret.Get(cache.ObjectName{Namespace: k.options.Namespace, Name: k.options.Secret})
	if !ok {
		return 0, fmt.Errorf("there is no Secret %s/%s; apply artifacts/certificate.yaml, which has it", k.options.Namespace, k.options.Secret)
	}
	have := materialOf(secret)
	unusable := k.serve(ctx, have)
	if foreign(secret) {
		if unusable != nil {
			return 0, fmt.Errorf("the certificate in the Secret %s cannot be used: %w", k.options.Secret, unusable)
		}
		return time.Hour, nil // its owner renews it, and the watch shows that
	}
	watch()
	if !k.configurations.hasSynced() {
		return time.Second, nil // their feeds say why, if it is for long
	}
	now := time.Now()
	settled, wait := k.settled(have, now)
	want, again, err := have.next(k.hosts(), k.options.Lifetime, settled, now)
	if err != nil {
		return 0, err
	}
	if !want.equal(have) {
		secret = secret.DeepCopy()
		secret.Data = want.data()
		secret, err = k.client.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{FieldManager: v1alpha1.ManagedBy})
		if err != nil {
			return time.Second, fmt.Errorf("writing the Secret %s: %w", k.options.Secret, err)
		}
		k.secret.Wrote(secret)
		if err := k.serve(ctx, want); err != nil {
			return 0, err
		}
	}
	if err := k.configurations.publish(ctx, want.authorities); err != nil {
		return 0, err
	}
	if wait > 0 {
		return min(wait, again.Sub(now)), nil
	}
	return max(again.Sub(now), time.Second), nil
}

// foreign is of a Secret that somebody else fills: cert-manager says so, others give no key to sign with.
func foreign(secret *corev1.Secret) bool {
	m := materialOf(secret)
	return secret.Annotations["cert-manager.io/certificate-name"] != "" || len(m.cert) > 0 && len(m.authorityKey) == 0
}

// serve serves with a certificate from now on.
func (k *Keeper) serve(ctx context.Context, m material) error {
	pair, err := m.serving()
	if err != nil {
		return err
	}
	if before := k.serving.Swap(pair); before == nil || !before.Leaf.Equal(pair.Leaf) {
		klog.FromContext(ctx).Info("Serving with a certificate", "names", pair.Leaf.DNSNames, "addresses", pair.Leaf.IPAddresses, "until", pair.Leaf.NotAfter)
	}
	return nil
}

// settled says whether all clients trust the authorities, and have had the time to notice; if they still need some, how much.
func (k *Keeper) settled(m material, now time.Time) (bool, time.Duration) {
	if !k.configurations.trust(m.authorities) {
		k.trusted = nil
		return false, 0
	}
	if k.trusted == nil || !bytes.Equal(k.trusted, m.authorities) {
		k.trusted, k.trustedSince = m.authorities, now
	}
	wait := min(maxSettle, k.options.Lifetime/20) - now.Sub(k.trustedSince)
	return wait <= 0, max(wait, 0)
}

// hosts are all names by which the certificate's server is called.
func (k *Keeper) hosts() []string {
	all := map[string]bool{}
	for _, host := range k.options.Hosts {
		all[host] = true
	}
	for client := range k.configurations.clients() {
		switch {
		case client.Service != nil:
			all[client.Service.Name+"."+client.Service.Namespace+".svc"] = true
		case client.URL != nil:
			if parsed, err := url.Parse(*client.URL); err == nil && parsed.Hostname() != "" {
				all[parsed.Hostname()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}
