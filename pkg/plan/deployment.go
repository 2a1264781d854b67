package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/observe"
)

// DefaultProgressDeadline is how long a rollout may go without progress when the Build does not say.
const DefaultProgressDeadline = 10 * time.Minute

// drainSeconds is how long a pod that is going away still serves: it takes that long at most until
// every node has learned to send it no more connections.
const drainSeconds = 5

// unprobedSeconds is how long a pod with a container that has no readiness probe has to be ready to count as available. Such a container is
// ready as soon as it runs, and one that ends after a moment would pass for a good one.
const unprobedSeconds = 10

// Deployment returns the fields of the Deployment that the Build says something about, and no others:
// whatever else is on the live object belongs to other managers. image is by digest; live is the Deployment as it is, nil if there is
// none. The Failure says why there can be none such.
func Deployment(build *v1alpha1.Build, image string, live *appsv1.Deployment) (*appsv1ac.DeploymentApplyConfiguration, *v1alpha1.Failure) {
	spec := build.Spec.Deployment
	template, err := podTemplate(build, image)
	if err != nil {
		return nil, invalidTemplate(err)
	}
	if live != nil && !Owns(build, live) {
		if failure := adoptable(build, live); failure != nil {
			return nil, failure
		}
	}
	deadline := DefaultProgressDeadline
	if spec.ProgressDeadline != nil {
		deadline = spec.ProgressDeadline.Duration
	}
	deploymentSpec := appsv1ac.DeploymentSpec().
		WithProgressDeadlineSeconds(int32(seconds(deadline))).
		WithTemplate(template)
	if live == nil || selectsByLabel(live, build) {
		deploymentSpec.WithSelector(metav1ac.LabelSelector().WithMatchLabels(appLabels(build)))
	} // else it was adopted, and a selector cannot be changed
	if spec.Replicas != nil {
		deploymentSpec.WithReplicas(*spec.Replicas)
	}
	if !probed(template) {
		deploymentSpec.WithMinReadySeconds(unprobedSeconds)
	}
	deployment := owned(build, appsv1ac.Deployment(build.Name, build.Namespace)).WithSpec(deploymentSpec)
	applied := fingerprint(deployment)
	if spec.Replicas != nil {
		applied += withReplicas
	}
	return deployment.WithAnnotations(map[string]string{v1alpha1.AppliedAnnotation: applied}), nil
}

// podTemplate returns the pods of the application. It carries its own hash, so that pods tell which rollout they are of.
func podTemplate(build *v1alpha1.Build, image string) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	spec := build.Spec.Deployment
	container := corev1ac.Container().WithName(appContainer(build)).WithImage(image)
	for _, port := range spec.Ports {
		container.WithPorts(corev1ac.ContainerPort().WithName(port.Name).WithContainerPort(port.ContainerPort).WithProtocol(protocol(port)))
	}
	for _, env := range spec.Env {
		container.WithEnv(converted[corev1ac.EnvVarApplyConfiguration](env))
	}
	if spec.Resources != nil {
		container.WithResources(converted[corev1ac.ResourceRequirementsApplyConfiguration](spec.Resources))
	}
	if port, ok := spec.FirstTCPPort(); ok {
		// Without a probe a pod counts as ready before it listens, and a rollout drops requests.
		container.WithReadinessProbe(corev1ac.Probe().
			WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString(port.Name))).
			WithPeriodSeconds(2))
		container.WithLifecycle(corev1ac.Lifecycle().
			WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(drainSeconds))))
	}
	for _, probe := range []struct {
		asked *corev1.Probe
		to    **corev1ac.ProbeApplyConfiguration
	}{
		{spec.ReadinessProbe, &container.ReadinessProbe}, {spec.LivenessProbe, &container.LivenessProbe}, {spec.StartupProbe, &container.StartupProbe},
	} {
		if probe.asked != nil {
			*probe.to = converted[corev1ac.ProbeApplyConfiguration](probe.asked)
		}
	}

	pod := corev1ac.PodSpec().WithContainers(container)
	if build.Spec.Image.SecretName != "" {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(build.Spec.Image.SecretName))
	}
	template, err := overridden(build, corev1ac.PodTemplateSpec().WithLabels(appLabels(build)).WithSpec(pod))
	if err != nil {
		return nil, err
	}
	if redeploy := build.Annotations[v1alpha1.RedeployAnnotation]; redeploy != "" {
		template.WithAnnotations(map[string]string{v1alpha1.RedeployAnnotation: redeploy})
	}
	return template.WithAnnotations(map[string]string{v1alpha1.RolloutAnnotation: fingerprint(template)}), nil
}

// probed says whether every container that stays has a readiness probe.
func probed(template *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	unprobed := func(container corev1ac.ContainerApplyConfiguration) bool { return container.ReadinessProbe == nil }
	return !slices.ContainsFunc(template.Spec.Containers, unprobed) &&
		!slices.ContainsFunc(template.Spec.InitContainers, func(container corev1ac.ContainerApplyConfiguration) bool {
			return container.RestartPolicy != nil && unprobed(container) // a sidecar
		})
}

// selectsByLabel says whether the Deployment has the selector that ours have.
func selectsByLabel(live *appsv1.Deployment, build *v1alpha1.Build) bool {
	return equality.Semantic.DeepEqual(live.Spec.Selector, &metav1.LabelSelector{MatchLabels: appLabels(build)})
}

// maxMessage bounds messages that have another's text in them, in characters.
const maxMessage = 1000

// adoptable says why an existing Deployment cannot become that of the Build: it would run the image in a container beside its own.
func adoptable(build *v1alpha1.Build, live *appsv1.Deployment) *v1alpha1.Failure {
	var names []string
	for _, container := range live.Spec.Template.Spec.Containers {
		if container.Name == appContainer(build) {
			return nil
		}
		names = append(names, container.Name)
	}
	return &v1alpha1.Failure{
		Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureResourceExists,
		Message: observe.Squash(fmt.Sprintf("Deployment %q is to be adopted, but has no container %s; set spec.deployment.containerName to the one that is to run the image: %s.",
			live.Name, appContainer(build), strings.Join(names, ", ")), maxMessage),
	}
}

func invalidTemplate(err error) *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureInvalidTemplate,
		Message: observe.Squash(fmt.Sprintf("spec.deployment.template cannot be merged: %v.", err), maxMessage),
	}
}

// Target returns the image that the Deployment is kept at: the one that spec.deployment.rollback names, else the one that
// it returned to when a rollout failed, else the newest. It also returns what is still to be remembered of that rollout: nothing
// once other pods would be asked for, since they may be better.
func Target(build *v1alpha1.Build, status v1alpha1.BuildStatus) (image string, remembered *v1alpha1.Rollback, failure *v1alpha1.Failure) {
	image, remembered = status.Image, status.Rollback
	if remembered != nil {
		template, err := podTemplate(build, status.Image)
		switch {
		case err != nil:
			return "", remembered, invalidTemplate(err)
		case build.Spec.Deployment.OnFailure == v1alpha1.OnFailureKeep, remembered.From != status.Image,
			remembered.Rollout != template.Annotations[v1alpha1.RolloutAnnotation]:
			remembered = nil
		default:
			image = remembered.To
		}
	}
	wanted := build.Spec.Deployment.Rollback
	if wanted == "" {
		return image, remembered, nil
	}
	if image = imageOf(status, wanted); image == "" {
		failure = &v1alpha1.Failure{
			Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureRollbackNotFound,
			Message: fmt.Sprintf("spec.deployment.rollback is %s, but no image in status.history has that digest; choose one that is there, or take the field away. The Deployment stays as it is.", wanted),
		}
	}
	return image, remembered, failure
}

// imageOf returns the image with that digest, or start of a digest, among those that the status knows; empty if there is
// none.
func imageOf(status v1alpha1.BuildStatus, digest string) string {
	known := []string{status.Image, status.DeployedImage}
	for _, run := range status.History {
		known = append(known, run.Image)
	}
	for _, image := range known {
		if _, of, ok := strings.Cut(image, "@"); ok && strings.HasPrefix(of, digest) {
			return image
		}
	}
	return ""
}

// withReplicas at the end of AppliedAnnotation says that the replicas were among what was applied.
const withReplicas = "-replicas"

// Handover returns what a second field manager has to apply before the replicas are left out for the first time, by this Build or
// by the next of its name; nil when there is nothing to hand over. Without another owner the API server would set them back to 1.
func Handover(build *v1alpha1.Build, image string, live *appsv1.Deployment) *appsv1ac.DeploymentApplyConfiguration {
	if build.Spec.Deployment.Replicas != nil || live.Spec.Replicas == nil || !strings.HasSuffix(live.Annotations[v1alpha1.AppliedAnnotation], withReplicas) {
		return nil
	}
	if _, failure := Deployment(build, image, live); failure != nil {
		return nil
	}
	return appsv1ac.Deployment(build.Name, build.Namespace).WithUID(live.UID).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(*live.Spec.Replicas))
}

// Service returns the Service of the Build as it should be.
func Service(build *v1alpha1.Build) *corev1ac.ServiceApplyConfiguration {
	spec := build.Spec.Deployment
	serviceSpec := corev1ac.ServiceSpec().WithSelector(appLabels(build))
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
	service := owned(build, corev1ac.Service(build.Name, build.Namespace)).
		WithAnnotations(spec.Service.Annotations).
		WithSpec(serviceSpec)
	return service.WithAnnotations(map[string]string{v1alpha1.AppliedAnnotation: fingerprint(service)})
}

// Ingress returns the Ingress of the Build as it should be.
func Ingress(build *v1alpha1.Build) *networkingv1ac.IngressApplyConfiguration {
	spec := build.Spec.Deployment.Ingress
	port, _ := build.Spec.Deployment.FirstTCPPort()
	ingressSpec := networkingv1ac.IngressSpec().WithRules(networkingv1ac.IngressRule().WithHost(spec.Host).
		WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(networkingv1ac.HTTPIngressPath().
			WithPath("/").WithPathType(networkingv1.PathTypePrefix).
			WithBackend(networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().
				WithName(build.Name).WithPort(networkingv1ac.ServiceBackendPort().WithName(port.Name)))))))
	if spec.ClassName != "" {
		ingressSpec.WithIngressClassName(spec.ClassName)
	}
	if spec.TLSSecretName != "" {
		ingressSpec.WithTLS(networkingv1ac.IngressTLS().WithHosts(spec.Host).WithSecretName(spec.TLSSecretName))
	}
	ingress := owned(build, networkingv1ac.Ingress(build.Name, build.Namespace)).
		WithAnnotations(spec.Annotations).
		WithSpec(ingressSpec)
	return ingress.WithAnnotations(map[string]string{v1alpha1.AppliedAnnotation: fingerprint(ingress)})
}

// described is an apply configuration that can carry metadata.
type described[C any] interface {
	WithLabels(map[string]string) C
	WithAnnotations(map[string]string) C
	WithOwnerReferences(...*metav1ac.OwnerReferenceApplyConfiguration) C
}

// owned marks an object as the Build's. What is to outlive it gets no owner reference at all, rather than losing it in time:
// garbage collection asks nobody when a Build is deleted in the foreground, or with all of its kind.
func owned[C described[C]](build *v1alpha1.Build, object C) C {
	object = object.WithLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy, "app.kubernetes.io/name": build.Name})
	if Retains(build) {
		return object.WithAnnotations(map[string]string{v1alpha1.OwnerAnnotation: string(build.UID)})
	}
	reference := metav1.NewControllerRef(build, v1alpha1.BuildKind)
	return object.WithOwnerReferences(converted[metav1ac.OwnerReferenceApplyConfiguration](reference))
}

// Retains says whether the application outlives the Build.
func Retains(build *v1alpha1.Build) bool {
	return build.Spec.Deployment != nil && build.Spec.Deployment.DeletionPolicy == v1alpha1.DeletionPolicyRetain
}

// Owns says whether the object is the Build's. An owner annotation counts only without a controller, and only for the name of the Build:
// it is quickly copied.
func Owns(build *v1alpha1.Build, object metav1.Object) bool {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		return controller.UID == build.UID
	}
	return object.GetName() == build.Name && object.GetAnnotations()[v1alpha1.OwnerAnnotation] == string(build.UID)
}

func appLabels(build *v1alpha1.Build) map[string]string {
	return map[string]string{v1alpha1.AppLabel: build.Name}
}

func protocol(port v1alpha1.Port) corev1.Protocol {
	if port.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return port.Protocol
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
