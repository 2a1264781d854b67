//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// autoscale has Kubernetes' own autoscaler keep the target between two numbers of pods. It has no metrics here, so it never has a
// reason to go beyond the first.
func (s *scene) autoscale(target autoscalingv2.CrossVersionObjectReference, least, most int32) {
	s.t.Helper()
	_, err := cluster.kube.AutoscalingV2().HorizontalPodAutoscalers(s.ns).Create(s.ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: target.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: target, MinReplicas: &least, MaxReplicas: most,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAnAutoscalerAndASidecarLiveBesideTheBuild(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pushPage()
	s.apply(s.page("shop", func(spec *v1alpha1.BuildSpec) { spec.Deployment.Replicas = nil }))
	s.untilReady("shop")
	s.autoscale(autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}, 2, 3)
	sidecar := appsv1ac.Deployment("shop", s.ns).WithSpec(appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().
		WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("proxy").WithImage(base(t, "busybox")).WithCommand("sleep", "1d")))))
	if _, err := cluster.kube.AppsV1().Deployments(s.ns).Apply(s.ctx, sidecar, metav1.ApplyOptions{FieldManager: "mesh"}); err != nil {
		t.Fatal(err)
	}
	asked := func() error {
		if spec := s.deployment("shop").Spec; len(spec.Template.Spec.Containers) != 2 || *spec.Replicas != 2 {
			return fmt.Errorf("it is asked for %d replicas of %d containers", *spec.Replicas, len(spec.Template.Spec.Containers))
		}
		return nil
	}
	both := func() error {
		if n := s.deployment("shop").Status.AvailableReplicas; n != 2 {
			return fmt.Errorf("%d pods are available", n)
		}
		return errors.Join(asked(), s.ready("shop"))
	}
	s.until(2*time.Minute, "both have had their way", both)

	for i := range 10 {
		before := s.deployment("shop").Annotations[v1alpha1.AppliedAnnotation]
		s.patch("shop", object{"spec": object{"deployment": object{"progressDeadline": fmt.Sprintf("%dm", 11+i)}}})
		s.until(time.Minute, "the Deployment is applied again", func() error {
			if s.deployment("shop").Annotations[v1alpha1.AppliedAnnotation] == before {
				return errors.New("it is not")
			}
			return nil
		})
		if err := asked(); err != nil {
			t.Errorf("after %d applies: %v", i+1, err)
		}
	}
	s.patch("shop", object{"spec": object{"deployment": object{"env": []object{{"name": "LAST", "value": "1"}}}}})
	s.until(2*time.Minute, "new pods have both", func() error {
		if len(s.deployment("shop").Spec.Template.Spec.Containers[0].Env) != 1 {
			return errors.New("the change is not applied")
		}
		return both()
	})
}

func TestAnAutoscalerCanHaveTheBuildAsItsTarget(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pushPage()
	s.apply(s.page("shop"))
	s.untilReady("shop")
	s.autoscale(autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Build", Name: "shop"}, 2, 3)
	s.until(2*time.Minute, "two pods are available", func() error {
		build := s.build("shop")
		if ptr.Deref(build.Spec.Deployment.Replicas, 0) != 2 || build.Status.Replicas != 2 || s.deployment("shop").Status.AvailableReplicas != 2 {
			return fmt.Errorf("replicas are %+v", build.Status.Replicas)
		}
		return s.ready("shop")
	})
}
