package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A tool is built from a module of its own below tools/, which pins it and
// everything it is made of. None of that may reach this repository's own
// module: each has its own idea of the versions they share.
type tool struct {
	name    string
	module  string            // whose version the tool's is
	builds  map[string]string // binaries, and the packages they are made from
	aliases map[string]string // further names of a binary, which decide what it does
	tags    string
	version []string // the variables that tell a binary its version
}

var (
	kubernetesTool = tool{
		name:   "kubernetes",
		module: "k8s.io/kubernetes",
		builds: map[string]string{"kubernetes": "."},
		aliases: map[string]string{
			"kube-apiserver":          "kubernetes",
			"kube-controller-manager": "kubernetes",
			"kube-scheduler":          "kubernetes",
			"kube-proxy":              "kubernetes",
			"kubelet":                 "kubernetes",
			"kubectl":                 "kubernetes",
		},
		version: []string{
			"k8s.io/component-base/version.gitVersion",
			"k8s.io/client-go/pkg/version.gitVersion", // in the user agent
		},
	}
	etcdTool = tool{
		name:   "etcd",
		module: "go.etcd.io/etcd/server/v3",
		builds: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"},
	}
	containerdTool = tool{
		name:   "containerd",
		module: "github.com/containerd/containerd/v2",
		builds: map[string]string{
			"containerd":              "github.com/containerd/containerd/v2/cmd/containerd",
			"containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			"ctr":                     "github.com/containerd/containerd/v2/cmd/ctr",
		},
		tags:    "no_btrfs,no_devmapper,no_zfs",
		version: []string{"github.com/containerd/containerd/v2/version.Version"},
	}
	kanikoTool = tool{
		name:    "kaniko",
		module:  "github.com/GoogleContainerTools/kaniko",
		builds:  map[string]string{"kaniko-executor": "github.com/GoogleContainerTools/kaniko/cmd/executor"},
		version: []string{"github.com/GoogleContainerTools/kaniko/pkg/version.version"},
	}
	buildkitTool = tool{
		name:   "buildkit",
		module: "github.com/moby/buildkit",
		builds: map[string]string{
			"buildkitd":   "github.com/moby/buildkit/cmd/buildkitd",
			"buildctl":    "github.com/moby/buildkit/cmd/buildctl",
			"rootlesskit": "github.com/rootless-containers/rootlesskit/v3/cmd/rootlesskit",
		},
		version: []string{"github.com/moby/buildkit/version.Version"},
	}
	allTools = []tool{kubernetesTool, etcdTool, containerdTool, kanikoTool, buildkitTool}
)

// binDir has a link to every binary under its own name.
func (c *cluster) binDir() string         { return filepath.Join(c.cache, "bin") }
func (c *cluster) bin(name string) string { return filepath.Join(c.binDir(), name) }

// build makes sure that the tools' binaries are there. One is built once for
// each content of its module, however many checkouts share the cache.
func (c *cluster) build(ctx context.Context, tools ...tool) error {
	for _, t := range tools {
		if err := c.buildTool(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// moduleDir is the directory of the module that a tool is built from.
func (c *cluster) moduleDir(t tool) string {
	return filepath.Join(c.source, "hack", "devcluster", "tools", t.name)
}

func (c *cluster) buildTool(ctx context.Context, t tool) error {
	moduleDir := c.moduleDir(t)
	key, err := t.digest(moduleDir)
	if err != nil {
		return err
	}
	version, err := requiredVersion(filepath.Join(moduleDir, "go.mod"), t.module)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.cache, "tools", fmt.Sprintf("%s-%s-%s", t.name, version, key))
	if !exists(dir) {
		unlock, err := c.lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	if !exists(dir) { // nor has it been built while we waited for the lock
		err := step("build "+t.name+" "+version, func() error { return t.build(ctx, moduleDir, version, dir) })
		if err != nil {
			return err
		}
	}
	binaries, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, binary := range binaries {
		if err := relink(binary, c.bin(filepath.Base(binary))); err != nil {
			return err
		}
	}
	return nil
}

// build compiles a tool into a directory that is there when all of it is.
func (t tool) build(ctx context.Context, moduleDir, version, dir string) error {
	ldflags := "-s -w"
	for _, variable := range t.version {
		ldflags += " -X " + variable + "=" + version
	}
	partial := dir + ".partial"
	for binary, pkg := range t.builds {
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-tags="+t.tags,
			"-ldflags="+ldflags, "-o", filepath.Join(partial, binary), pkg)
		cmd.Dir = moduleDir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if _, err := output(cmd); err != nil {
			return err
		}
	}
	for alias, binary := range t.aliases {
		if err := relink(binary, filepath.Join(partial, alias)); err != nil {
			return err
		}
	}
	return os.Rename(partial, dir)
}

// relink makes path a symbolic link to target, whatever it was before.
func relink(target, path string) error {
	if current, err := os.Readlink(path); err == nil && current == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	next := path + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// digest returns a short digest of all that a tool's binaries depend on: how it
// is described here, and the files of its module.
func (t tool) digest(moduleDir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(moduleDir, "*"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	hash := sha256.New()
	fmt.Fprintf(hash, "%+v\n", t)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(file), len(content), content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// requiredVersion returns the version that a go.mod requires of a module.
func requiredVersion(gomod, module string) (string, error) {
	content, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s requires no version of %s", gomod, module)
}
