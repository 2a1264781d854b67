package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

const (
	pushed = "registry.example.com/shop@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	// maxName is the longest name that the CRD lets a Build have.
	maxName = "a234567890b234567890c234567890d234567890e234567890f2"
)

// aBuild is the smallest Build there can be, changed.
func aBuild(change ...func(*v1alpha1.Build)) *v1alpha1.Build {
	build := &v1alpha1.Build{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", UID: "uid-of-shop"},
		Spec: v1alpha1.BuildSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{URL: "https://git.example.com/shop.git"}},
			Image:  v1alpha1.Image{Name: "registry.example.com/shop:1.0"},
		},
	}
	for _, f := range change {
		f(build)
	}
	return build
}

// deployed is one with an empty deployment section.
func deployed(change ...func(*v1alpha1.Build)) *v1alpha1.Build {
	build := aBuild(func(b *v1alpha1.Build) { b.Spec.Deployment = &v1alpha1.Deployment{} })
	for _, f := range change {
		f(build)
	}
	return build
}

func someResources() *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")},
		Limits:   corev1.ResourceList{"memory": resource.MustParse("4096Mi")},
	}
}
