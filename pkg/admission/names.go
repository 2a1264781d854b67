package admission

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// anyImage stands for the image that a Build has not built yet.
const anyImage = "registry.invalid/not-built-yet"

// podsOf returns the pods that would be made for a Build: the one that builds, and one of the application.
func podsOf(build *v1alpha1.Build) ([]corev1.PodSpec, *v1alpha1.Failure) {
	pods := []corev1.PodSpec{plan.Job(build, plan.Hash(build), 1, plan.Steps{}).Spec.Template.Spec}
	if build.Spec.Deployment == nil {
		return pods, nil
	}
	deployment, failure := plan.Deployment(build, anyImage, nil)
	if failure != nil {
		return nil, failure
	}
	var app corev1.PodSpec
	encoded, err := json.Marshal(deployment.Spec.Template.Spec)
	if err == nil {
		err = json.Unmarshal(encoded, &app)
	}
	if err != nil { // both are the same part of the API
		return nil, &v1alpha1.Failure{Reason: v1alpha1.FailureInvalidTemplate, Message: err.Error()}
	}
	return append(pods, app), nil
}

// names are what a Build names that somebody may not be allowed to use, sorted.
type names struct {
	secrets, serviceAccounts []string
	// What is to be adopted.
	deployments, services, ingresses []string
}

// namesOf returns what is named in the pods of a Build, or in its Ingress: wherever it stands in the Build, that is where it is used.
func namesOf(build *v1alpha1.Build, pods []corev1.PodSpec) names {
	var found names
	for _, pod := range pods {
		found.secrets = appendSecrets(found.secrets, reflect.ValueOf(pod))
		found.serviceAccounts = append(found.serviceAccounts, pod.ServiceAccountName, pod.DeprecatedServiceAccount)
	}
	if app := build.Spec.Deployment; app != nil {
		if app.Ingress != nil {
			found.secrets = append(found.secrets, app.Ingress.TLSSecretName)
		}
		if app.Adopt {
			found.deployments = []string{build.Name}
			if app.Service != nil {
				found.services = []string{build.Name}
			}
			if app.Ingress != nil {
				found.ingresses = []string{build.Name}
			}
		}
	}
	found.secrets, found.serviceAccounts = unique(found.secrets), unique(found.serviceAccounts)
	return found
}

func unique(all []string) []string {
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "" })
}

// appendSecrets adds the names of all Secrets in a part of a pod's spec. By reflection, because there are two dozen places, and
// Kubernetes adds some: what names a Secret has a type of its own, or a field whose name says so.
func appendSecrets(found []string, value reflect.Value) []string {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			return appendSecrets(found, value.Elem())
		}
	case reflect.Slice:
		for i := range value.Len() {
			found = appendSecrets(found, value.Index(i))
		}
	case reflect.Struct:
		switch object := value.Interface().(type) {
		case corev1.SecretKeySelector:
			return append(found, object.Name)
		case corev1.SecretEnvSource:
			return append(found, object.Name)
		case corev1.SecretProjection:
			return append(found, object.Name)
		}
		for i := range value.NumField() {
			field, kind := value.Field(i), value.Type().Field(i)
			switch {
			case !kind.IsExported():
			case strings.HasSuffix(kind.Name, "SecretName") && field.Kind() == reflect.String:
				found = append(found, field.String())
			case strings.Contains(kind.Name, "Secret") && namesObject(kind.Type):
				found = appendNames(found, field)
			default:
				found = appendSecrets(found, field)
			}
		}
	}
	return found
}

// namesObject is of a reference that says nothing but a name, or a list of them.
func namesObject(kind reflect.Type) bool {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	return kind == reflect.TypeFor[corev1.LocalObjectReference]()
}

func appendNames(found []string, value reflect.Value) []string {
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return found
		}
		return appendNames(found, value.Elem())
	case reflect.Slice:
		for i := range value.Len() {
			found = appendNames(found, value.Index(i))
		}
		return found
	}
	return append(found, value.FieldByName("Name").String())
}
