//go:build apitest

package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

const (
	certificateSecret = "build-controller-certificate"
	configurationName = "build-controller"
)

// webhooked is a scene whose API server calls the webhooks of artifacts/webhook.yaml: of two controllers, one for those that validate
// and one for those that mutate.
type webhooked struct {
	*scene
	controllers      []*process
	validate, mutate string // addresses
	secrets, hooks   cache.Store
	certificate      types.NamespacedName
}

// newWebhooked installs the webhooks, as a user does but for the Service: the controllers are no pods here, so they are called by URL.
func newWebhooked(s *scene, flags ...string) *webhooked {
	s.t.Helper()
	w := &webhooked{scene: s, validate: freeAddress(s.t), mutate: freeAddress(s.t),
		certificate: types.NamespacedName{Namespace: identity.Namespace, Name: certificateSecret}}
	w.follow()
	// Before the controllers are killed, or the next test's Builds would be refused.
	s.t.Cleanup(w.uninstall)
	w.start(flags...)
	w.install()
	return w
}

func (w *webhooked) follow() {
	secrets := informers.NewSharedInformerFactoryWithOptions(cluster.kube, 0, informers.WithNamespace(w.certificate.Namespace))
	hooks := informers.NewSharedInformerFactory(cluster.kube, 0)
	w.secrets = w.scene.follow(secrets.Core().V1().Secrets().Informer())
	w.hooks = w.scene.follow(hooks.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer())
	for _, factory := range []informers.SharedInformerFactory{secrets, hooks} {
		factory.Start(w.ctx.Done())
		factory.WaitForCacheSync(w.ctx.Done())
	}
}

// start starts the two controllers.
func (w *webhooked) start(flags ...string) {
	for _, address := range []string{w.validate, w.mutate} {
		w.controllers = append(w.controllers, startController(w.t, startOptions{flags: slices.Concat([]string{
			"-enable-webhooks", "-webhook-address=" + address, "-leader-elect-namespace=" + identity.Namespace,
		}, flags)}))
	}
}

// install applies the webhook configurations, and returns when the API server trusts the controllers.
func (w *webhooked) install() {
	w.t.Helper()
	objects, err := manifests("webhook.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			continue
		}
		address := w.validate
		if strings.HasPrefix(object.GetKind(), "Mutating") {
			address = w.mutate
		}
		encoded, err := json.Marshal(byURL(object, address))
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := kubectl(string(encoded), "apply", "-f", "-"); err != nil {
			w.t.Fatal(err)
		}
	}
	w.untilCalled()
}

// byURL has webhooks called at an address instead of through their Service.
func byURL(configuration unstructured.Unstructured, address string) map[string]any {
	object := configuration.DeepCopy().Object
	for _, webhook := range object["webhooks"].([]any) {
		client := webhook.(map[string]any)["clientConfig"].(map[string]any)
		path := client["service"].(map[string]any)["path"].(string)
		delete(client, "service")
		client["url"] = "https://" + address + path
	}
	return object
}

// untilCalled returns when a Build that the webhook alone refuses is refused by it, and one that it completes is completed.
func (w *webhooked) untilCalled() {
	w.t.Helper()
	allowed := func(spec *v1alpha1.BuildSpec) { // whatever the flags are
		spec.Source.Git.URL, spec.Image.Name = "https://git.example.com/acme/probe", "registry.example.com/"+w.ns+"/probe"
	}
	probe := makeBuild("probe", allowed, func(spec *v1alpha1.BuildSpec) {
		spec.Deployment.Template = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"app","image":"not-to-be-set"}]}`)}}
	})
	builds := cluster.builds.BuildcontrollerV1alpha1().Builds(w.ns)
	w.until("the webhooks are called", func() error {
		_, err := builds.Create(w.ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "denied the request") {
			time.AfterFunc(100*time.Millisecond, w.notify) // nothing in the namespace tells when they are
			return fmt.Errorf("it is not refused: %w", err)
		}
		good, err := builds.Create(w.ctx, makeBuild("probe", allowed), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || len(good.Finalizers) == 0 {
			time.AfterFunc(100*time.Millisecond, w.notify)
			return fmt.Errorf("it is not completed: %w", err)
		}
		return nil
	})
}

// uninstall leaves nothing that the next test would meet.
func (w *webhooked) uninstall() {
	ctx := context.WithoutCancel(w.ctx) // which has ended with the test
	admission := cluster.kube.AdmissionregistrationV1()
	for _, err := range []error{
		admission.ValidatingWebhookConfigurations().Delete(ctx, configurationName, metav1.DeleteOptions{}),
		admission.MutatingWebhookConfigurations().Delete(ctx, configurationName, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Error(err)
		}
	}
	if _, err := kubectl("", "patch", "secret", w.certificate.Name, "--namespace", w.certificate.Namespace, "--type=merge", "-p", `{"data":null}`); err != nil {
		w.t.Error(err)
	}
}

// secret is the certificate's, as the watch shows it.
func (w *webhooked) secret() *corev1.Secret {
	return get[corev1.Secret](w.secrets, w.certificate.Namespace, w.certificate.Name)
}

// bundle is what the API server trusts.
func (w *webhooked) bundle() []byte {
	object, ok, _ := w.hooks.GetByKey(configurationName)
	if !ok {
		return nil
	}
	return object.(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks[0].ClientConfig.CABundle
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
