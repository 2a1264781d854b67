package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// DefaultProgressDeadline is how long a rollout may go without progress when the Build does not say.
const DefaultProgressDeadline = 10 * time.Minute

// AppContainer is the name of the application's container.
const AppContainer = "app"

// drainSeconds is how long a pod that is going away still serves: it takes that long at most until
// every node has learned to send it no more connections.
const drainSeconds = 5

// Deployment returns the fields of the Deployment that the Build says something about, and no others:
// whatever else is on the live object belongs to other managers. image is by digest.
func Deployment(build *v1alpha1.Build, image string) *appsv1ac.DeploymentApplyConfiguration {
	spec := build.Spec.Deployment
	container := corev1ac.Container().WithName(AppContainer).WithImage(image)
	for _, port := range spec.Ports {
		container.WithPorts(corev1ac.ContainerPort().WithName(port.Name).WithContainerPort(port.ContainerPort).WithProtocol(protocol(port)))
	}
	for _, env := range spec.Env {
		container.WithEnv(converted[corev1ac.EnvVarApplyConfiguration](env))
	}
	if spec.Resources != nil {
		container.WithResources(converted[corev1ac.ResourceRequirementsApplyConfiguration](spec.Resources))
	}
	if port, ok := readinessPort(spec.Ports); ok {
		// Without a probe a pod counts as ready before it listens, and a rollout drops requests.
		container.WithReadinessProbe(corev1ac.Probe().
			WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString(port))).
			WithPeriodSeconds(2))
		container.WithLifecycle(corev1ac.Lifecycle().
			WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(drainSeconds))))
	}

	pod := corev1ac.PodSpec().WithContainers(container)
	if build.Spec.Image.SecretName != "" {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(build.Spec.Image.SecretName))
	}
	deadline := DefaultProgressDeadline
	if spec.ProgressDeadline != nil {
		deadline = spec.ProgressDeadline.Duration
	}
	deploymentSpec := appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(appLabels(build))).
		WithProgressDeadlineSeconds(int32(seconds(deadline))).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(appLabels(build)).WithSpec(pod))
	if spec.Replicas != nil {
		deploymentSpec.WithReplicas(*spec.Replicas)
	}
	deployment := appsv1ac.Deployment(build.Name, build.Namespace).
		WithLabels(managedLabels(build)).
		WithOwnerReferences(owner(build)).
		WithSpec(deploymentSpec)
	applied := fingerprint(deployment)
	if spec.Replicas != nil {
		applied += withReplicas
	}
	return deployment.WithAnnotations(map[string]string{v1alpha1.AppliedAnnotation: applied})
}

// withReplicas at the end of AppliedAnnotation says that the replicas were among what was applied.
const withReplicas = "-replicas"

// Handover returns what a second field manager has to apply before the replicas are left out for the first time; nil when
// there is nothing to hand over. Without another owner the API server would set them back to 1.
func Handover(build *v1alpha1.Build, live *appsv1.Deployment) *appsv1ac.DeploymentApplyConfiguration {
	if build.Spec.Deployment.Replicas != nil || live.Spec.Replicas == nil || !strings.HasSuffix(live.Annotations[v1alpha1.AppliedAnnotation], withReplicas) {
		return nil
	}
	return appsv1ac.Deployment(build.Name, build.Namespace).WithUID(live.UID).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(*live.Spec.Replicas))
}

// Service returns the Service of the Build as it should be.
func Service(build *v1alpha1.Build) *corev1ac.ServiceApplyConfiguration {
	spec := build.Spec.Deployment
	serviceSpec := corev1ac.ServiceSpec().WithSelector(appLabels(build)).WithType(corev1.ServiceTypeClusterIP)
	if spec.Service.Type != "" {
		serviceSpec.WithType(spec.Service.Type)
	}
	for _, port := range spec.Ports {
		number := port.ServicePort
		if number == 0 {
			number = port.ContainerPort
		}
		serviceSpec.WithPorts(corev1ac.ServicePort().
			WithName(port.Name).
			WithPort(number).
			// By name: while a rollout changes the number, pods of both kinds are reached.
			WithTargetPort(intstr.FromString(port.Name)).
			WithProtocol(protocol(port)))
	}
	service := corev1ac.Service(build.Name, build.Namespace).
		WithLabels(managedLabels(build)).
		WithOwnerReferences(owner(build)).
		WithSpec(serviceSpec)
	return service.WithAnnotations(map[string]string{v1alpha1.AppliedAnnotation: fingerprint(service)})
}

func appLabels(build *v1alpha1.Build) map[string]string {
	return map[string]string{v1alpha1.AppLabel: build.Name}
}

func managedLabels(build *v1alpha1.Build) map[string]string {
	return map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy, "app.kubernetes.io/name": build.Name}
}

func owner(build *v1alpha1.Build) *metav1ac.OwnerReferenceApplyConfiguration {
	reference := metav1.NewControllerRef(build, v1alpha1.BuildKind)
	return converted[metav1ac.OwnerReferenceApplyConfiguration](reference)
}

func protocol(port v1alpha1.Port) corev1.Protocol {
	if port.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return port.Protocol
}

// readinessPort is the first port that a probe can connect to.
func readinessPort(ports []v1alpha1.Port) (name string, ok bool) {
	for _, port := range ports {
		if protocol(port) == corev1.ProtocolTCP {
			return port.Name, true
		}
	}
	return "", false
}

// converted turns an API type into its apply configuration: they share their JSON.
func converted[C any](from any) *C {
	to := new(C)
	encoded, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(encoded, to)
	}
	if err != nil {
		panic(fmt.Sprintf("%T and %T share their JSON: %v", from, to, err))
	}
	return to
}
