//go:build tools

// Package tools pins the versions of the code generators, apart from what the controller itself depends on.
package tools

import (
	_ "k8s.io/code-generator"
	_ "sigs.k8s.io/controller-tools/cmd/controller-gen"
)
