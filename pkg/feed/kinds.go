package feed

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// The indexes of the feeds below.
const (
	// ByOwner files Jobs under the UID of their controller.
	ByOwner = "owner"
	// ByBuild files pods under BuildKey of the Build that their label names.
	ByBuild = "build"
	// ByInvolved files Events under InvolvedKey of the object they speak of.
	ByInvolved = "involved"
)

// Each feed below is of one namespace, or of all if that is metav1.NamespaceAll.

// BuildKey returns the value under which ByBuild files the pods of a Build.
func BuildKey(namespace, build string) string { return namespace + "/" + build }

// InvolvedKey returns the value under which ByInvolved files the Events about an object.
func InvolvedKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// Jobs feeds the Jobs that the controller made. Of their specs only what a sync reads is kept.
func Jobs(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *batchv1.Job)) *Feed[*batchv1.Job] {
	return New(logger, Options[*batchv1.Job]{
		Name:      "jobs",
		ListWatch: listWatch(client, client.BatchV1().Jobs(namespace), managed),
		Example:   &batchv1.Job{},
		Changed:   changed,
		Strip: func(job *batchv1.Job) {
			job.ManagedFields = nil
			job.Spec = batchv1.JobSpec{ActiveDeadlineSeconds: job.Spec.ActiveDeadlineSeconds, Suspend: job.Spec.Suspend}
		},
		Indexers: cache.Indexers{ByOwner: func(obj any) ([]string, error) {
			if owner := metav1.GetControllerOfNoCopy(obj.(*batchv1.Job)); owner != nil {
				return []string{string(owner.UID)}, nil
			}
			return nil, nil
		}},
	})
}

// Pods feeds the pods of the controller's Jobs; AppPods has those of its Deployments. Of their specs only
// the volumes and the containers' names and resources are kept, which failures are explained with.
func Pods(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *corev1.Pod)) *Feed[*corev1.Pod] {
	return New(logger, Options[*corev1.Pod]{
		Name:      "pods",
		ListWatch: listWatch(client, client.CoreV1().Pods(namespace), managed),
		Example:   &corev1.Pod{},
		Changed:   changed,
		Strip: func(pod *corev1.Pod) {
			pod.ManagedFields, pod.Annotations = nil, nil // which may hold a whole Dockerfile
			pod.Spec = corev1.PodSpec{
				InitContainers: namesAndResources(pod.Spec.InitContainers),
				Containers:     namesAndResources(pod.Spec.Containers),
				Volumes:        ofSecrets(pod.Spec.Volumes),
			}
		},
		Indexers: cache.Indexers{ByBuild: func(obj any) ([]string, error) {
			pod := obj.(*corev1.Pod)
			return []string{BuildKey(pod.Namespace, pod.Labels[v1alpha1.BuildLabel])}, nil
		}},
	})
}

// AppPods feeds the pods of the Deployments. There may be many and most are well: of these only that they are ready is kept, of
// the others what explains why they are not.
func AppPods(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *corev1.Pod)) *Feed[*corev1.Pod] {
	return New(logger, Options[*corev1.Pod]{
		Name: "apppods",
		ListWatch: listWatch(client, client.CoreV1().Pods(namespace), func(options *metav1.ListOptions) {
			options.LabelSelector = v1alpha1.AppLabel
		}),
		Example: &corev1.Pod{},
		Changed: changed,
		Strip: func(pod *corev1.Pod) {
			pod.ManagedFields, pod.Spec = nil, corev1.PodSpec{}
			pod.Labels = only(pod.Labels, v1alpha1.AppLabel)
			pod.Annotations = only(pod.Annotations, v1alpha1.RolloutAnnotation)
			status := pod.Status
			pod.Status = corev1.PodStatus{Phase: status.Phase}
			if ready(status) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				return
			}
			pod.Status.Conditions = status.Conditions
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = status.InitContainerStatuses, status.ContainerStatuses
		},
		Indexers: cache.Indexers{ByBuild: func(obj any) ([]string, error) {
			pod := obj.(*corev1.Pod)
			return []string{BuildKey(pod.Namespace, pod.Labels[v1alpha1.AppLabel])}, nil
		}},
	})
}

// Deployments feeds the Deployments that the controller made. They are kept whole: drift of any owned field is noticed.
func Deployments(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *appsv1.Deployment)) *Feed[*appsv1.Deployment] {
	return New(logger, Options[*appsv1.Deployment]{
		Name:      "deployments",
		ListWatch: listWatch(client, client.AppsV1().Deployments(namespace), managed),
		Example:   &appsv1.Deployment{},
		Changed:   changed,
		Strip:     func(deployment *appsv1.Deployment) { deployment.ManagedFields = nil },
	})
}

// Services feeds the Services that the controller made.
func Services(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *corev1.Service)) *Feed[*corev1.Service] {
	return New(logger, Options[*corev1.Service]{
		Name:      "services",
		ListWatch: listWatch(client, client.CoreV1().Services(namespace), managed),
		Example:   &corev1.Service{},
		Changed:   changed,
		Strip:     func(service *corev1.Service) { service.ManagedFields = nil },
	})
}

// Ingresses feeds the Ingresses that the controller made.
func Ingresses(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *networkingv1.Ingress)) *Feed[*networkingv1.Ingress] {
	return New(logger, Options[*networkingv1.Ingress]{
		Name:      "ingresses",
		ListWatch: listWatch(client, client.NetworkingV1().Ingresses(namespace), managed),
		Example:   &networkingv1.Ingress{},
		Changed:   changed,
		Strip:     func(ingress *networkingv1.Ingress) { ingress.ManagedFields = nil },
	})
}

// MountFailures feeds the Events of all pods with the reason FailedMount: a Secret that does not exist
// shows up nowhere else, and the controller may not read Secrets.
func MountFailures(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *corev1.Event)) *Feed[*corev1.Event] {
	return events(logger, client, namespace, "mountfailures", "Pod", "FailedMount", changed)
}

// CreateFailures feeds the Events of all Jobs with the reason FailedCreate: a quota or a pod security
// level that keeps a Job from making its pod shows up nowhere else.
func CreateFailures(logger klog.Logger, client kubernetes.Interface, namespace string, changed func(old, new *corev1.Event)) *Feed[*corev1.Event] {
	return events(logger, client, namespace, "createfailures", "Job", "FailedCreate", changed)
}

// Secret feeds one Secret.
func Secret(logger klog.Logger, client kubernetes.Interface, namespace, name string, changed func(old, new *corev1.Secret)) *Feed[*corev1.Secret] {
	return New(logger, Options[*corev1.Secret]{
		Name:      "secret",
		ListWatch: listWatch(client, client.CoreV1().Secrets(namespace), byName(name)),
		Example:   &corev1.Secret{},
		Changed:   changed,
	})
}

// ValidatingWebhooks feeds one ValidatingWebhookConfiguration.
func ValidatingWebhooks(logger klog.Logger, client kubernetes.Interface, name string,
	changed func(old, new *admissionregistrationv1.ValidatingWebhookConfiguration)) *Feed[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return New(logger, Options[*admissionregistrationv1.ValidatingWebhookConfiguration]{
		Name:      "validatingwebhooks",
		ListWatch: listWatch(client, client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), byName(name)),
		Example:   &admissionregistrationv1.ValidatingWebhookConfiguration{},
		Changed:   changed,
	})
}

// MutatingWebhooks feeds one MutatingWebhookConfiguration.
func MutatingWebhooks(logger klog.Logger, client kubernetes.Interface, name string,
	changed func(old, new *admissionregistrationv1.MutatingWebhookConfiguration)) *Feed[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return New(logger, Options[*admissionregistrationv1.MutatingWebhookConfiguration]{
		Name:      "mutatingwebhooks",
		ListWatch: listWatch(client, client.AdmissionregistrationV1().MutatingWebhookConfigurations(), byName(name)),
		Example:   &admissionregistrationv1.MutatingWebhookConfiguration{},
		Changed:   changed,
	})
}

// byName selects one object, which a right on that one alone is enough for.
func byName(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

func events(logger klog.Logger, client kubernetes.Interface, namespace, name, kind, reason string, changed func(old, new *corev1.Event)) *Feed[*corev1.Event] {
	selector := fields.Set{"involvedObject.kind": kind, "reason": reason}.String()
	return New(logger, Options[*corev1.Event]{
		Name: name,
		ListWatch: listWatch(client, client.CoreV1().Events(namespace), func(options *metav1.ListOptions) {
			options.FieldSelector = selector
		}),
		Example: &corev1.Event{},
		Changed: changed,
		Strip: func(event *corev1.Event) {
			event.ManagedFields = nil
			event.Message = event.Message[:min(len(event.Message), maxMessage)] // anybody may write Events of a megabyte
		},
		Indexers: cache.Indexers{ByInvolved: func(obj any) ([]string, error) {
			involved := obj.(*corev1.Event).InvolvedObject
			return []string{InvolvedKey(involved.Kind, involved.Namespace, involved.Name)}, nil
		}},
	})
}

// maxMessage bounds what is kept of an Event's message, in bytes: failures are told by how it begins.
const maxMessage = 4096

// listsAndWatches is the part of a typed client that a Reflector needs.
type listsAndWatches[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func listWatch[L runtime.Object](client kubernetes.Interface, kind listsAndWatches[L], selected func(*metav1.ListOptions)) cache.ListerWatcher {
	// The wrapper lets a fake client say that it cannot stream its lists; without it the Reflector would wait for ever.
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			selected(&options)
			return kind.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			selected(&options)
			return kind.Watch(ctx, options)
		},
	}, client)
}

func managed(options *metav1.ListOptions) {
	options.LabelSelector = labels.Set{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy}.String()
}

// only returns the one entry of a map, if it is there.
func only(all map[string]string, key string) map[string]string {
	if value, ok := all[key]; ok {
		return map[string]string{key: value}
	}
	return nil
}

func ready(status corev1.PodStatus) bool {
	for _, condition := range status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func namesAndResources(containers []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, 0, len(containers))
	for _, container := range containers {
		kept = append(kept, corev1.Container{Name: container.Name, Resources: container.Resources})
	}
	return kept
}

// ofSecrets keeps the volumes that a failure may have to name.
func ofSecrets(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, volume := range volumes {
		if volume.Secret != nil {
			kept = append(kept, corev1.Volume{Name: volume.Name, VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: volume.Secret.SecretName},
			}})
		}
	}
	return kept
}
