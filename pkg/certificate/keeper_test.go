package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/ptr"
)

const host = "build-controller-webhook.build-controller.svc"

var options = Options{
	Namespace: "build-controller", Secret: "certificate", Hosts: []string{"build-controller-metrics.build-controller.svc"},
	Configuration: "build-controller", Lifetime: life,
}

// world is an API server with the objects of artifacts/webhook.yaml, in a bubble of its own time.
type world struct {
	t      *testing.T
	client *fake.Clientset
}

func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "build-controller", Name: "build-controller-webhook"}}
		byURL := admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://10.0.0.1:9443/default")}
		test(&world{t, fake.NewClientset(
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Secret}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: options.Configuration},
				Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "validate", ClientConfig: service}}},
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: options.Configuration},
				Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "default", ClientConfig: byURL}}},
		)})
	})
}

// run runs a Keeper until the test ends, and returns when it has done all it can.
func (w *world) run(options Options) *Keeper {
	ctx, cancel := context.WithCancel(klog.NewContext(w.t.Context(), ktesting.NewLogger(w.t, ktesting.NewConfig(ktesting.Verbosity(0)))))
	k := New(klog.FromContext(ctx), w.client, options)
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	w.pass(time.Second)
	return k
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

func (w *world) secret() *corev1.Secret {
	secret, err := w.client.CoreV1().Secrets(options.Namespace).Get(w.t.Context(), options.Secret, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// bundles are what the API server trusts, by the two configurations.
func (w *world) bundles() [2][]byte {
	validating, err := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(w.t.Context(), options.Configuration, metav1.GetOptions{})
	mutating, err2 := w.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(w.t.Context(), options.Configuration, metav1.GetOptions{})
	if err := errors.Join(err, err2); err != nil {
		w.t.Fatal(err)
	}
	return [2][]byte{validating.Webhooks[0].ClientConfig.CABundle, mutating.Webhooks[0].ClientConfig.CABundle}
}

// call shakes hands with a server as the API server does.
func (w *world) call(k *Keeper) error {
	for i, name := range []string{host, "10.0.0.1"} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(w.bundles()[i])
		ours, theirs := net.Pipe()
		go func() { _ = tls.Server(theirs, &tls.Config{GetCertificate: k.GetCertificate}).Handshake() }()
		if err := tls.Client(ours, &tls.Config{RootCAs: roots, ServerName: name}).Handshake(); err != nil {
			return err
		}
		_, _ = ours.Close(), theirs.Close()
	}
	return nil
}

// writes counts the writes since the last call.
func (w *world) writes() (n int) {
	for _, action := range w.client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			n++
		}
	}
	w.client.ClearActions()
	return n
}

func TestTheKeeperFillsTheSecretAndTellsTheAPIServerWhomToTrust(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.run(options)
		if err := w.call(k); err != nil {
			t.Fatal(err)
		}
		if err := k.Ready(); err != nil {
			t.Error(err)
		}
		// One of each object; the fake API server counts no versions, so that one may be made twice until the watch has shown it.
		if n := w.writes(); n < 3 || n > 4 {
			t.Errorf("it took %d writes, not one of each object", n)
		}
		w.pass(30 * 24 * time.Hour)
		if n := w.writes(); n != 0 {
			t.Errorf("in a month there were %d writes more", n)
		}
	})
}

func TestInThreeYearsEveryCallSucceedsAndNothingIsRestarted(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second := w.run(options), w.run(options)
		certificates := map[string]bool{}
		for day := range 3 * 365 {
			for _, k := range []*Keeper{first, second} {
				if err := w.call(k); err != nil {
					t.Fatalf("on day %d: %v", day, err)
				}
				served, _ := k.GetCertificate(nil)
				certificates[served.Leaf.SerialNumber.String()] = true
			}
			w.pass(24 * time.Hour)
		}
		// One in 60 days; the moment at which one replica serves another's is not seen here.
		if n := len(certificates); n < 18 || n > 24 {
			t.Errorf("there were %d certificates", n)
		}
	})
}

func TestANewAuthoritySignsOnlyWhenItHasBeenTrustedForAWhile(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.run(options)
		trusted := func() int { return bytes.Count(w.bundles()[0], []byte("BEGIN CERTIFICATE")) }
		for trusted() == 1 {
			w.pass(maxSettle / 10)
			if trusted() == 1 {
				w.pass(time.Hour - maxSettle/10)
			}
		}
		newest, err := certutil.ParseCertsPEM(w.bundles()[0])
		if err != nil {
			t.Fatal(err)
		}
		signed := func() bool {
			served, _ := k.GetCertificate(nil)
			return served.Leaf.CheckSignatureFrom(newest[0]) == nil
		}
		published := time.Now()
		for !signed() {
			w.pass(time.Second)
			if time.Since(published) > time.Hour {
				t.Fatal("it never signs")
			}
		}
		if after := time.Since(published); after < maxSettle*8/10 || after > 2*maxSettle {
			t.Errorf("it signs %s after it was published", after)
		}
		if err := w.call(k); err != nil {
			t.Error(err)
		}
	})
}

// As when cert-manager takes over a Secret that the controllers had filled, and the right on the configurations is gone.
func TestWithoutARightOnTheConfigurationsWhatIsInTheSecretIsServedAllTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, kind := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
			w.client.PrependReactor("list", kind, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("forbidden")
			})
			w.client.PrependWatchReactor(kind, func(clienttesting.Action) (bool, watch.Interface, error) {
				return true, nil, errors.New("forbidden")
			})
		}
		k := w.run(options)
		if k.Ready() == nil {
			t.Error("it is ready with nothing")
		}
		m, _, err := material{}.next([]string{host}, life, false, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secret := w.secret().DeepCopy()
		secret.Data = m.data()
		if _, err := w.client.CoreV1().Secrets(options.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		served, _ := k.GetCertificate(nil)
		if want, _ := m.serving(); served == nil || !served.Leaf.Equal(want.Leaf) {
			t.Error("it is not served")
		}
	})
}

func TestAConfigurationThatIsMadeAgainIsToldAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.run(options)
		webhooks := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		live, err := webhooks.Get(t.Context(), options.Configuration, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := webhooks.Delete(t.Context(), live.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		live.Webhooks[0].ClientConfig.CABundle = nil
		if _, err := webhooks.Create(t.Context(), live, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if err := w.call(k); err != nil {
			t.Error(err)
		}
	})
}

func TestAnEmptiedSecretGetsANewAuthorityAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		k := w.run(options)
		before := w.secret()
		emptied := before.DeepCopy()
		emptied.Data = nil
		if _, err := w.client.CoreV1().Secrets(options.Namespace).Update(t.Context(), emptied, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if after := w.secret(); bytes.Contains(after.Data[authoritiesKey], before.Data[authoritiesKey]) || len(after.Data) != 4 {
			t.Error("the old authority is still trusted")
		}
		if err := w.call(k); err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutItsSecretTheKeeperServesOnAndComesBackByItself(t *testing.T) {
	inWorld(t, func(w *world) {
		secrets, before := w.client.CoreV1().Secrets(options.Namespace), w.secret()
		if err := secrets.Delete(t.Context(), options.Secret, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		k := w.run(options)
		if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "no certificate") {
			t.Errorf("without a certificate it is ready: %v", err)
		}
		if _, err := secrets.Create(t.Context(), before, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if err := w.call(k); err != nil {
			t.Fatal(err)
		}
		if err := secrets.Delete(t.Context(), options.Secret, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		if err := w.call(k); err != nil {
			t.Error(err)
		}
	})
}

// As cert-manager does.
func TestACertificateOfSomebodyElsesIsServedAndReadOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		fill := func(days int) material {
			m, _, err := material{}.next([]string{host}, time.Duration(days)*24*time.Hour, false, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			m.authorityKey = nil
			secret := w.secret().DeepCopy()
			secret.Data = m.data()
			if _, err := w.client.CoreV1().Secrets(options.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			return m
		}
		fill(90)
		w.writes()
		k := w.run(options)
		if k.NotAfter().IsZero() {
			t.Fatal("it is not served")
		}
		w.pass(85 * 24 * time.Hour)
		if n := w.writes(); n != 0 {
			t.Errorf("%d writes", n)
		}
		for _, action := range w.client.Actions() {
			if action.GetResource().Resource != "secrets" {
				t.Errorf("it asks for %s, on which it has no right", action.GetResource().Resource)
			}
		}
		renewed := fill(90)
		w.pass(time.Second)
		served, _ := k.GetCertificate(nil)
		if want, _ := renewed.serving(); !served.Leaf.Equal(want.Leaf) {
			t.Error("the renewed one is not served")
		}
		w.pass(91 * 24 * time.Hour)
		if err := k.Ready(); err == nil {
			t.Error("it is ready with a certificate that has expired")
		}
	})
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		failures := 2
		for _, kind := range []string{"secrets", "validatingwebhookconfigurations"} {
			w.client.PrependReactor("*", kind, func(action clienttesting.Action) (bool, runtime.Object, error) {
				if verb := action.GetVerb(); failures > 0 && (verb == "update" || verb == "patch") {
					failures--
					return true, nil, errors.New("the API server is not well")
				}
				return false, nil, nil
			})
		}
		k := w.run(options)
		w.pass(3 * retry)
		if err := w.call(k); err != nil {
			t.Error(err)
		}
	})
}
