package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestQuantitiesAreReadFromAFlagAndWrittenBack(t *testing.T) {
	for value, want := range map[string]string{
		"":                      "",
		"cpu=100m,memory=128Mi": "cpu=100m,memory=128Mi",
		" memory=1Gi cpu=2 ":    "cpu=2,memory=1Gi",
		"example.com/fuse=1":    "example.com/fuse=1",
	} {
		var q Quantities
		if err := q.Set(value); err != nil || q.String() != want {
			t.Errorf("%q becomes %q (%v)", value, q, err)
		}
	}
	for _, value := range []string{"cpu", "cpu=", "=1", "memory=lots", "cpu=1e-100000000", "memroy=1Gi"} {
		var q Quantities
		if err := q.Set(value); err == nil || !strings.Contains(err.Error(), "resource") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestResourcesAreTheBuildsOwnOrTheDefaults(t *testing.T) {
	steps := Steps{Requests: Quantities{"cpu": resource.MustParse("1")}, Limits: Quantities{"memory": resource.MustParse("1Gi")}}
	own := corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}}
	build := &v1alpha1.Build{}
	for name, resources := range map[string]*corev1.ResourceRequirements{"of the Build": &own, "by default": nil} {
		build.Spec.Builder = &v1alpha1.Builder{Resources: resources}
		pod := Job(build, Hash(build), 1, steps).Spec.Template.Spec
		for _, container := range []corev1.Container{pod.InitContainers[0], pod.Containers[0]} {
			cpu := container.Resources.Requests.Cpu().String()
			if want := map[bool]string{true: "1", false: "3"}[resources == nil]; cpu != want {
				t.Errorf("%s: %s requests %s cpu", name, container.Name, cpu)
			}
		}
	}
}
