//go:build apitest

package apitest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestObjectsOfOthersAreNeverTouched(t *testing.T) {
	s := newScene(t, usual)
	controller := startController(t, startOptions{})

	// Which name the Job will have we learn from a Build that comes and goes.
	s.create(makeBuild("has-job", buildOnly))
	s.untilReady("has-job")
	jobName := s.jobsOf("has-job")[0].Name
	s.delete("has-job", metav1.DeletePropagationForeground)
	s.until("the name of the Job is free again", func() error {
		return errors.Join(absent(s.job(jobName) == nil, "the Job"), absent(s.build("has-job") == nil, "the Build"))
	})

	s.foreignDeployment("has-deployment")
	s.foreignService("has-service")
	s.foreignIngress("has-ingress")
	s.foreignJob(jobName)
	before := map[string]string{
		"Deployment": s.deployment("has-deployment").ResourceVersion,
		"Service":    s.service("has-service").ResourceVersion,
		"Ingress":    s.ingress("has-ingress").ResourceVersion,
		"Job":        s.job(jobName).ResourceVersion,
	}
	s.create(makeBuild("has-deployment"))
	s.create(makeBuild("has-service"))
	s.create(makeBuild("has-ingress", withIngress))
	s.create(makeBuild("has-job", buildOnly))
	conflicts := map[string]string{ // Build: what stands in its way
		"has-deployment": `Deployment "has-deployment"`,
		"has-service":    `Service "has-service"`,
		"has-ingress":    `Ingress "has-ingress"`,
		"has-job":        fmt.Sprintf("Job %q", jobName),
	}
	for build, object := range conflicts {
		s.until("a condition and an Event name the "+object, func() error {
			return errors.Join(
				s.condition(build, v1alpha1.ConditionReady, metav1.ConditionFalse, string(v1alpha1.FailureResourceExists), object),
				s.happened(build, string(v1alpha1.FailureResourceExists)),
			)
		})
	}
	untilSeen(t)
	after := map[string]string{
		"Deployment": s.deployment("has-deployment").ResourceVersion,
		"Service":    s.service("has-service").ResourceVersion,
		"Ingress":    s.ingress("has-ingress").ResourceVersion,
		"Job":        s.job(jobName).ResourceVersion,
	}
	for kind, version := range before {
		if after[kind] != version {
			t.Errorf("the %s was changed: its version is %s, not %s", kind, after[kind], version)
		}
	}

	// Deleting what stands in the way is all that there is to do.
	err := errors.Join(
		cluster.kube.AppsV1().Deployments(s.ns).Delete(s.ctx, "has-deployment", metav1.DeleteOptions{}),
		cluster.kube.CoreV1().Services(s.ns).Delete(s.ctx, "has-service", metav1.DeleteOptions{}),
		cluster.kube.NetworkingV1().Ingresses(s.ns).Delete(s.ctx, "has-ingress", metav1.DeleteOptions{}),
		cluster.kube.BatchV1().Jobs(s.ns).Delete(s.ctx, jobName, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}),
	)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s.untilReady("has-deployment", "has-service", "has-ingress", "has-job")
	t.Logf("all Ready %.0fs after the others' objects were deleted", time.Since(start).Seconds())
	for build := range conflicts {
		if n := s.eventsOf(build)[string(v1alpha1.FailureResourceExists)]; n != 1 {
			t.Errorf("%d Events about one conflict of %s", n, build)
		}
	}
	controller.stop(t)
}

func (s *scene) foreignDeployment(name string) {
	s.t.Helper()
	labels := map[string]string{"app": name}
	_, err := cluster.kube.AppsV1().Deployments(s.ns).Create(s.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: foreignPod(corev1.RestartPolicyAlways)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.until("the Deployment has come to rest", func() error {
		if d := s.deployment(name); d == nil || d.Status.ObservedGeneration == 0 || len(d.Status.Conditions) < 2 {
			return errors.New("it has not")
		}
		return nil
	})
}

func withIngress(spec *v1alpha1.BuildSpec) {
	spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "shop.example.com"}
}

func (s *scene) foreignIngress(name string) {
	s.t.Helper()
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "other", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	_, err := cluster.kube.NetworkingV1().Ingresses(s.ns).Create(s.ctx, &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{DefaultBackend: &backend},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.until("the Ingress is there", func() error { return exists(s.ingresses, s.ns, name) })
}

func (s *scene) foreignService(name string) {
	s.t.Helper()
	_, err := cluster.kube.CoreV1().Services(s.ns).Create(s.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.until("the Service is there", func() error { return exists(s.services, s.ns, name) })
}

func (s *scene) foreignJob(name string) {
	s.t.Helper()
	_, err := cluster.kube.BatchV1().Jobs(s.ns).Create(s.ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Suspend:  ptr.To(true),
			Template: corev1.PodTemplateSpec{Spec: foreignPod(corev1.RestartPolicyNever)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.until("the Job has come to rest", func() error {
		if j := s.job(name); j == nil || len(j.Status.Conditions) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
}

func foreignPod(restart corev1.RestartPolicy) corev1.PodSpec {
	return corev1.PodSpec{
		Containers:    []corev1.Container{{Name: "other", Image: "registry.example.com/other"}},
		RestartPolicy: restart,
	}
}
