package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEveryToolIsPinned(t *testing.T) {
	want := map[string]string{
		"kubernetes": "v1.37.2",
		"etcd":       "v3.7.3",
		"containerd": "v2.4.2",
		"kaniko":     "v1.24.0",
		"buildkit":   "v0.34.2",
	}
	for _, tool := range allTools {
		version, err := requiredVersion(filepath.Join("tools", tool.name, "go.mod"), tool.module)
		if err != nil || version != want[tool.name] {
			t.Errorf("%s is %s, %v; want %s", tool.name, version, err, want[tool.name])
		}
	}
}

func TestRequiredVersion(t *testing.T) {
	gomod := filepath.Join(t.TempDir(), "go.mod")
	content := "module m\n\nrequire a.example/b v1.2.3\n\nrequire (\n\ta.example/c v0.1.0 // indirect\n)\n\nreplace a.example/d => a.example/d v9.9.9\n"
	if err := os.WriteFile(gomod, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]string{"a.example/b": "v1.2.3", "a.example/c": "v0.1.0", "a.example/d": ""} {
		got, err := requiredVersion(gomod, module)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", module, got, err, want)
		}
	}
}
