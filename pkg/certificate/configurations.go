package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/feed"
)

type clientConfig = admissionregistrationv1.WebhookClientConfig

// configurations are the objects of one name that tell the API server which webhooks to call, and how: one for those that
// validate, one for those that mutate.
type configurations []configuration

// configuration is one of the two kinds.
type configuration interface {
	Run(context.Context)
	HasSynced() bool
	// webhooks are how its webhooks are called, by their names.
	webhooks() map[string]clientConfig
	patch(context.Context, []byte) error
}

func newConfigurations(logger klog.Logger, client kubernetes.Interface, name string, changed func()) configurations {
	validating, mutating := client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	return configurations{
		configurationOf[*admissionregistrationv1.ValidatingWebhookConfiguration]{
			Feed: feed.ValidatingWebhooks(logger, client, name, func(_, _ *admissionregistrationv1.ValidatingWebhookConfiguration) { changed() }),
			name: name, write: validating.Patch,
			read: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) map[string]clientConfig {
				all := map[string]clientConfig{}
				for _, webhook := range c.Webhooks {
					all[webhook.Name] = webhook.ClientConfig
				}
				return all
			},
		},
		configurationOf[*admissionregistrationv1.MutatingWebhookConfiguration]{
			Feed: feed.MutatingWebhooks(logger, client, name, func(_, _ *admissionregistrationv1.MutatingWebhookConfiguration) { changed() }),
			name: name, write: mutating.Patch,
			read: func(c *admissionregistrationv1.MutatingWebhookConfiguration) map[string]clientConfig {
				all := map[string]clientConfig{}
				for _, webhook := range c.Webhooks {
					all[webhook.Name] = webhook.ClientConfig
				}
				return all
			},
		},
	}
}

type configurationOf[T feed.Object] struct {
	*feed.Feed[T]
	name  string
	read  func(T) map[string]clientConfig
	write func(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

func (c configurationOf[T]) webhooks() map[string]clientConfig {
	if live, ok := c.Get(cache.ObjectName{Name: c.name}); ok {
		return c.read(live)
	}
	return nil
}

func (c configurationOf[T]) patch(ctx context.Context, data []byte) error {
	written, err := c.write(ctx, c.name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: v1alpha1.ManagedBy})
	if err == nil {
		c.Wrote(written)
	}
	return err
}

func (c configurations) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, each := range c {
		all.Go(func() { each.Run(ctx) })
	}
	all.Wait()
}

func (c configurations) hasSynced() bool {
	for _, each := range c {
		if !each.HasSynced() {
			return false
		}
	}
	return true
}

func (c configurations) clients() iter.Seq[clientConfig] {
	return func(yield func(clientConfig) bool) {
		for _, each := range c {
			for _, client := range each.webhooks() {
				if !yield(client) {
					return
				}
			}
		}
	}
}

// trust says whether all webhooks are called with these authorities.
func (c configurations) trust(authorities []byte) bool {
	for client := range c.clients() {
		if !bytes.Equal(client.CABundle, authorities) {
			return false
		}
	}
	return true
}

// publish has all webhooks called with these authorities.
func (c configurations) publish(ctx context.Context, authorities []byte) error {
	type object = map[string]any
	for _, each := range c {
		var stale []object
		for name, client := range each.webhooks() {
			if !bytes.Equal(client.CABundle, authorities) {
				stale = append(stale, object{"name": name, "clientConfig": object{"caBundle": authorities}})
			}
		}
		if stale == nil {
			continue
		}
		data, err := json.Marshal(object{"webhooks": stale})
		if err == nil {
			err = each.patch(ctx, data)
		}
		if err != nil {
			return fmt.Errorf("writing the authority into the webhook configuration: %w", err)
		}
	}
	return nil
}
