// Package v1alpha1 holds the Build API: one object that names a git
// repository, the image to make of it and the Deployment that runs the image.
//
// The comments of the types become the descriptions of the CustomResourceDefinition
// in artifacts/crd.yaml and so the text of `kubectl explain build`.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.buildcontroller.build-controller.pkg.apis.build.v1alpha1
// +groupName=buildcontroller.dev
package v1alpha1
