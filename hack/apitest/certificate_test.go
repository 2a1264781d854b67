//go:build apitest

package apitest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// A certificate of 12 s is renewed every 8 s, its authority of 48 s every 32 s.
const shortLived = "-certificate-lifetime=12s"

func TestCertificatesAndAuthoritiesAreRenewedWhileAThousandBuildsAreCreatedAndNoneFails(t *testing.T) {
	s := newScene(t, 3*usual)
	w := newWebhooked(s, shortLived)
	certificates, authorities := map[string]bool{}, map[string]bool{}
	observed := func() {
		secret := w.secret()
		certs, _ := certutil.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
		trusted, _ := certutil.ParseCertsPEM(secret.Data["ca.crt"])
		for _, c := range certs {
			certificates[c.SerialNumber.String()] = true
		}
		for _, c := range trusted {
			authorities[c.SerialNumber.String()] = true
		}
	}

	// A client that keeps no connection: every call shakes hands with what is served, trusting what the API server trusts.
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	var calls int
	var clients sync.WaitGroup
	clients.Go(func() {
		for ctx.Err() == nil {
			for _, address := range []string{w.validate, w.mutate} {
				if err := handshake(w, address); err != nil {
					t.Errorf("call %d: %v", calls, err)
				}
				calls++
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond): // not all of a core
			}
		}
	})

	const builds = 1000
	begin := time.Now()
	failed := 0
	for i := range builds {
		build := makeBuild(fmt.Sprintf("app-%04d", i), buildOnly, func(spec *v1alpha1.BuildSpec) {
			spec.Image.Name, spec.Suspend = fmt.Sprintf("registry.example.com/%s/app-%04d", s.ns, i), true
		})
		if _, err := cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Create(s.ctx, build, metav1.CreateOptions{}); err != nil {
			failed++
			t.Errorf("create %d: %v", i, err)
		}
		observed()
		// Spread over two lives of an authority, however fast the machine is.
		if ahead := time.Duration(i)*70*time.Second/builds - time.Since(begin); ahead > 0 {
			time.Sleep(ahead)
		}
	}
	stop()
	clients.Wait()
	t.Logf("%d creates and %d calls in %s met %d certificates of %d authorities", builds, calls, time.Since(begin), len(certificates), len(authorities))
	if failed > 0 || len(certificates) < 6 || len(authorities) < 3 {
		t.Errorf("%d creates failed; %d certificates, %d authorities", failed, len(certificates), len(authorities))
	}
	for _, build := range list[v1alpha1.Build](s.builds) {
		if len(build.Finalizers) == 0 {
			t.Errorf("%s was not completed", build.Name)
		}
	}
}

// handshake calls an address as a client that has just read whom to trust.
func handshake(w *webhooked, address string) error {
	config, err := cluster.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(context.WithoutCancel(w.ctx), configurationName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.Webhooks[0].ClientConfig.CABundle)
	connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots})
	if err != nil {
		return err
	}
	return connection.Close()
}

func TestControllersThatStartTogetherAgreeOnOneCertificate(t *testing.T) {
	s := newScene(t, usual)
	w := newWebhooked(s)
	for _, address := range []string{w.validate, w.mutate} {
		if err := handshake(w, address); err != nil {
			t.Error(err)
		}
	}
	if served := servedBy(t, w.validate); !served.Equal(servedBy(t, w.mutate)) {
		t.Error("they serve with two certificates")
	}
}

func servedBy(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // only to look at it
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0]
}

func TestAnEmptiedSecretIsFilledAnewAndTheWebhooksGoOn(t *testing.T) {
	s := newScene(t, usual)
	w := newWebhooked(s)
	before := w.bundle()
	// As artifacts/webhook.yaml says.
	if _, err := kubectl("", "patch", "secret", certificateSecret, "--namespace", identity.Namespace, "--type=json", "-p", `[{"op":"remove","path":"/data"}]`); err != nil {
		t.Fatal(err)
	}
	s.until("another authority is trusted", func() error {
		if bundle := w.bundle(); len(bundle) == 0 || bytes.Equal(bundle, before) {
			return errors.New("it is the same")
		}
		return nil
	})
	w.untilCalled()
}

func TestADeadWebhookStopsNewSpecsAndNothingElse(t *testing.T) {
	s := newScene(t, usual)
	w := newWebhooked(s)
	s.create(makeBuild("shop", func(spec *v1alpha1.BuildSpec) { spec.Image.Name = "registry.example.com/" + s.ns + "/shop" }))
	s.untilReady("shop")
	for _, controller := range w.controllers {
		controller.kill(t)
	}
	_, err := kubectl(encode(t, s.minimal("new")), "create", "--namespace="+s.ns, "-f", "-")
	if err == nil || !strings.Contains(err.Error(), `failed calling webhook "validate.buildcontroller.dev"`) {
		t.Errorf("a new Build: %v", err)
	}
	// One without webhooks, so that it is dead still: what is there is looked after.
	startController(t, startOptions{})
	from := cluster.audit.here(t)
	if _, err := kubectl("", "annotate", "build", "shop", "--namespace="+s.ns, v1alpha1.RebuildAnnotation+"=once"); err != nil {
		t.Error(err)
	}
	s.until("it is built once more", func() error {
		if run := s.build("shop").Status.Run; run == nil || run.Rebuild != "once" || run.Result != v1alpha1.ResultSucceeded {
			return errors.New("it is not")
		}
		return nil
	})
	if _, err := kubectl("", "scale", "build", "shop", "--namespace="+s.ns, "--replicas=2"); err != nil {
		t.Error(err)
	}
	for _, object := range []string{"configmap", "secret"} {
		args := []string{"create", object, "anything", "--namespace=" + s.ns}
		if object == "secret" {
			args = []string{"create", object, "generic", "anything", "--namespace=" + s.ns}
		}
		if _, err := kubectl("", args...); err != nil {
			t.Errorf("another object: %v", err)
		}
	}
	if _, err := kubectl("", "delete", "build", "shop", "--namespace="+s.ns, "--timeout=60s"); err != nil {
		t.Error(err)
	}
	for _, r := range cluster.audit.since(t, from) {
		if r.byController() && r.writes() && r.ResponseStatus.Code >= 500 {
			t.Errorf("the controller's own write failed: %s", r)
		}
	}
}

// What cert-manager and its ca-injector do, done by hand: the controllers have no more rights than artifacts/webhook-cert-manager.yaml gives.
func TestACertificateOfSomebodyElsesIsServedAndRenewedWithoutARestart(t *testing.T) {
	s := newScene(t, usual)
	objects, err := manifests("webhook-cert-manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	install, err := manifests("install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rights []unstructured.Unstructured
	for _, object := range append(install, objects...) {
		switch object.GetAPIVersion() {
		case "cert-manager.io/v1": // is not installed here
		default:
			rights = append(rights, inNamespace(object, s.ns))
		}
	}
	account, err := applyRights(rights)
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	secrets := cluster.kube.CoreV1().Secrets(s.ns)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: certificateSecret}, Type: corev1.SecretTypeTLS}
	authority, signer := newAuthority(t)
	secret.Data = issue(t, authority, signer)
	if secret, err = secrets.Create(s.ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controller := startController(t, startOptions{as: account, flags: []string{"-enable-webhooks", "-webhook-address=" + address, "-namespace=" + s.ns, "-leader-elect-namespace=" + s.ns}})
	trusted := func() error {
		roots := x509.NewCertPool()
		roots.AddCert(authority)
		connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots})
		if err != nil {
			time.AfterFunc(100*time.Millisecond, s.notify) // nothing in the namespace tells when it is served
			return err
		}
		defer connection.Close()
		if served := connection.ConnectionState().PeerCertificates[0]; !strings.Contains(string(secret.Data[corev1.TLSCertKey]), pemOf(t, served)) {
			time.AfterFunc(100*time.Millisecond, s.notify)
			return errors.New("it is another one")
		}
		return nil
	}
	s.until("the certificate is served", trusted)
	secret.Data = issue(t, authority, signer)
	if secret, err = secrets.Update(s.ctx, secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("the renewed certificate is served", trusted)
	if log := string(controller.read(t)); strings.Contains(log, "forbidden") {
		t.Errorf("the controller asked for what it may not: %s", log)
	}
}

// Nothing of a namespaced install sees or touches another namespace, and the controller has a Role only.
func TestANamespacedInstallHasWebhooksOfItsOwn(t *testing.T) {
	s, other := newScene(t, usual), newScene(t, usual)
	s.people()
	var rights, hooks []unstructured.Unstructured
	for _, file := range []string{"namespaced.yaml", "namespaced-webhook.yaml"} {
		objects, err := manifests(file, "my-team", s.ns)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			switch kind := object.GetKind(); {
			case strings.HasSuffix(kind, "WebhookConfiguration"):
				hooks = append(hooks, object)
			case strings.HasPrefix(kind, "ClusterRole"):
				t.Errorf("%s has a %s", file, kind)
			case object.GetAPIVersion() != "cert-manager.io/v1": // which is not installed here
				rights = append(rights, object)
			}
		}
	}
	account, err := applyRights(rights)
	if err != nil {
		t.Fatal(err)
	}
	authority, signer := newAuthority(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: certificateSecret}, Type: corev1.SecretTypeTLS, Data: issue(t, authority, signer)}
	if _, err := cluster.kube.CoreV1().Secrets(s.ns).Create(s.ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	for _, hook := range hooks {
		hook.Object = byURL(hook, address)
		webhook := hook.Object["webhooks"].([]any)[0].(map[string]any)
		webhook["clientConfig"].(map[string]any)["caBundle"] = []byte(pemOf(t, authority)) // as the ca-injector does
		encoded, err := json.Marshal(hook.Object)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := kubectl(string(encoded), "delete", "--ignore-not-found", "-f", "-"); err != nil {
				t.Error(err)
			}
		})
		if _, err := kubectl(string(encoded), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	controller := startController(t, startOptions{as: account, flags: []string{
		"-enable-webhooks", "-webhook-address=" + address, "-namespace=" + s.ns, "-leader-elect-namespace=" + s.ns,
	}})
	s.until("a Secret of somebody else's is refused", func() error {
		_, err := s.as(bob, s.minimal("shop", set(gitSecret, "vault")), "create", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), `names the Secret "vault", which bob may not use`) {
			time.AfterFunc(100*time.Millisecond, s.notify)
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	if _, err := s.as(bob, s.minimal("shop"), "create"); err != nil {
		t.Error(err)
	}
	s.untilReady("shop")
	if _, err := kubectl(encode(t, other.minimal("shop", set(gitSecret, "vault"))), "create", "--namespace="+other.ns, "-f", "-"); err != nil {
		t.Errorf("another namespace is met: %v", err)
	}
	if log := string(controller.read(t)); strings.Contains(log, "forbidden") {
		t.Errorf("the controller asked for what it may not: %s", log)
	}
}

// inNamespace moves what artifacts have in the namespace build-controller into another, and gives cluster-wide rights a name of their own.
func inNamespace(object unstructured.Unstructured, namespace string) unstructured.Unstructured {
	encoded, _ := object.MarshalJSON()
	moved := strings.ReplaceAll(string(encoded), `"namespace":"build-controller"`, `"namespace":"`+namespace+`"`)
	if strings.HasPrefix(object.GetKind(), "ClusterRole") {
		moved = strings.ReplaceAll(moved, `"name":"`+object.GetName()+`"`, `"name":"`+object.GetName()+"-"+namespace+`"`)
		moved = strings.ReplaceAll(moved, `"name":"build-controller-`+namespace+`","namespace"`, `"name":"build-controller","namespace"`)
	}
	var result unstructured.Unstructured
	if err := result.UnmarshalJSON([]byte(moved)); err != nil {
		panic(err) // it was one
	}
	if object.GetKind() == "Namespace" {
		result.SetName(namespace)
	}
	return result
}

func newAuthority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "somebody else"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return authority, key
}

// issue returns the content of a Secret as cert-manager writes it.
func issue(t *testing.T, authority *x509.Certificate, signer *ecdsa.PrivateKey) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, authority, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	created, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"ca.crt": []byte(pemOf(t, authority)), corev1.TLSCertKey: []byte(pemOf(t, created)), corev1.TLSPrivateKeyKey: encoded}
}

func pemOf(t *testing.T, c *x509.Certificate) string {
	t.Helper()
	encoded, err := certutil.EncodeCertificates(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func TestMetricsAreForWhomTheAPIServerAllows(t *testing.T) {
	s := newScene(t, usual)
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	startController(t, startOptions{flags: []string{"-metrics-address=0.0.0.0:" + port, "-leader-elect-namespace=" + identity.Namespace}})
	for _, name := range []string{"prometheus", "stranger"} {
		if _, err := kubectl("", "create", "serviceaccount", name, "--namespace="+s.ns); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kubectl("", "create", "clusterrolebinding", s.ns, "--clusterrole=build-controller-metrics-reader", "--serviceaccount="+s.ns+":prometheus"); err != nil {
		t.Fatal(err)
	}
	token := func(account string) string {
		answer, err := cluster.kube.CoreV1().ServiceAccounts(s.ns).CreateToken(s.ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + answer.Status.Token
	}
	get := func(path, authorization string) (int, string, error) {
		secret, err := cluster.kube.CoreV1().Secrets(identity.Namespace).Get(s.ctx, certificateSecret, metav1.GetOptions{})
		if err != nil {
			return 0, "", err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, ServerName: "build-controller-metrics." + identity.Namespace + ".svc",
		}}}
		defer client.CloseIdleConnections()
		request, _ := http.NewRequestWithContext(s.ctx, http.MethodGet, "https://"+address+path, nil)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, string(body), err
	}
	s.until("metrics are served", func() error {
		code, body, err := get("/metrics", token("prometheus"))
		if err != nil || code != http.StatusOK {
			time.AfterFunc(100*time.Millisecond, s.notify)
			return fmt.Errorf("code %d: %s %w", code, body, err)
		}
		for _, metric := range []string{`workqueue_depth{name="builds"}`, "build_controller_certificate_expiration_timestamp_seconds", "process_resident_memory_bytes"} {
			if !strings.Contains(body, metric) {
				t.Errorf("there is no %s", metric)
			}
		}
		return nil
	})
	for name, c := range map[string]struct {
		path, authorization string
		want                int
	}{
		"without a token":              {"/metrics", "", http.StatusUnauthorized},
		"with a token that is none":    {"/metrics", "Bearer nonsense", http.StatusUnauthorized},
		"without the right":            {"/metrics", token("stranger"), http.StatusForbidden},
		"a profile, without the right": {"/debug/pprof/heap", token("prometheus"), http.StatusForbidden},
	} {
		if code, body, err := get(c.path, c.authorization); code != c.want || err != nil {
			t.Errorf("%s: code %d: %s %v", name, code, body, err)
		}
	}
	if answer, err := http.Get("http://" + address + "/metrics"); err == nil {
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			t.Error("it is served in plain http")
		}
	}
}

// The three ways to have the webhooks differ in their certificate and in where they are, and in nothing else.
func TestTheManifestsOfTheWebhooksAgree(t *testing.T) {
	configurations := func(name string, replace ...string) map[string]any {
		objects, err := manifests(name, replace...)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]any{}
		for _, object := range objects {
			if !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
				continue
			}
			webhooks := object.Object["webhooks"].([]any)
			for _, webhook := range webhooks {
				delete(webhook.(map[string]any), "namespaceSelector")
			}
			all[object.GetKind()+" "+object.GetName()] = webhooks
		}
		return all
	}
	want := configurations("webhook.yaml")
	if len(want) != 2 {
		t.Fatalf("webhook.yaml has %v", want)
	}
	for name, got := range map[string]map[string]any{
		"webhook-cert-manager.yaml": configurations("webhook-cert-manager.yaml"),
		"namespaced-webhook.yaml":   configurations("namespaced-webhook.yaml", "build-controller-my-team", "build-controller", ".my-team.buildcontroller.dev", ".buildcontroller.dev", "my-team", "build-controller"),
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s and webhook.yaml differ:\n%v\n%v", name, got, want)
		}
	}
}
