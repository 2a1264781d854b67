package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// An image is made once for each of its inputs, and kept in the cache.
type image struct {
	repository string
	inputs     []string // all that its content depends on, but for Debian's packages' versions
	config     v1.Config
	// fill writes its files, with scratch for a place to work in, and returns
	// its tag.
	fill func(ctx context.Context, r *rootfs, scratch string) (tag string, err error)
	// trust is where in the image the authority of our https git server
	// belongs, if anywhere. Nothing else can be reached, so no other is there.
	trust string
}

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// images lists what the registry is filled with.
func (c *cluster) images(ctx context.Context) ([]image, error) {
	gitSync, err := digestOfFile(c.companion("gitsync"))
	if err != nil {
		return nil, err
	}
	pause, err := digestOfFile(c.companion("pause"))
	if err != nil {
		return nil, err
	}
	kaniko, err := filepath.EvalSymlinks(c.bin("kaniko-executor")) // names the version
	if err != nil {
		return nil, err
	}
	goEnv, err := output(exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOROOT"))
	if err != nil {
		return nil, err
	}
	goVersion, goRoot, _ := strings.Cut(goEnv, "\n")

	return []image{{
		repository: "pause",
		inputs:     []string{pause},
		config:     v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
		fill: func(_ context.Context, r *rootfs, _ string) (string, error) {
			return "1", r.program("pause", c.companion("pause"))
		},
	}, {
		repository: "git-sync",
		inputs:     []string{gitSync, strings.Join(gitSyncPackages, " ")},
		config: v1.Config{
			Entrypoint: []string{"/git-sync"},
			User:       "65533:65533",
			WorkingDir: "/tmp",
			Env:        []string{"PATH=" + searchPath, "HOME=/tmp"},
		},
		fill: func(ctx context.Context, r *rootfs, scratch string) (string, error) {
			if _, err := r.debs(ctx, scratch, gitSyncPackages...); err != nil {
				return "", err
			}
			if err := r.link("usr/bin/sh", "dash"); err != nil {
				return "", err
			}
			return "v4.7.1-standin", r.program("git-sync", c.companion("gitsync"))
		},
		trust: "etc/ssl/certs/ca-certificates.crt",
	}, {
		repository: "kaniko-executor",
		inputs:     []string{kaniko},
		config: v1.Config{
			Entrypoint: []string{"/kaniko/executor"},
			WorkingDir: "/workspace",
			Env: []string{"PATH=/usr/local/bin:/kaniko", "HOME=/root", "USER=root",
				"SSL_CERT_DIR=/kaniko/ssl/certs", "DOCKER_CONFIG=/kaniko/.docker/"},
		},
		fill: func(_ context.Context, r *rootfs, _ string) (string, error) {
			if err := r.dir("kaniko/.docker", 0o755); err != nil {
				return "", err
			}
			if err := r.dir("workspace", 0o755); err != nil {
				return "", err
			}
			return "v1.24.0", r.program("kaniko/executor", c.bin("kaniko-executor"))
		},
		trust: "kaniko/ssl/certs/ca-certificates.crt",
	}, {
		repository: "library/busybox",
		config:     v1.Config{Cmd: []string{"sh"}, Env: []string{"PATH=" + searchPath}},
		fill: func(ctx context.Context, r *rootfs, scratch string) (string, error) {
			return "1", r.busybox(ctx, scratch)
		},
	}, {
		repository: "library/golang",
		inputs:     []string{goVersion, "slim", "with the standard library compiled"},
		config: v1.Config{
			WorkingDir: "/go",
			Env: []string{"PATH=/go/bin:/usr/local/go/bin:" + searchPath, "GOPATH=/go",
				"GOTOOLCHAIN=local", "CGO_ENABLED=0"},
		},
		fill: func(ctx context.Context, r *rootfs, scratch string) (string, error) {
			if err := r.busybox(ctx, scratch); err != nil {
				return "", err
			}
			if err := r.dir("go", 0o777); err != nil {
				return "", err
			}
			if err := r.tree("usr/local/go", goRoot, needlessForBuilds); err != nil {
				return "", err
			}
			// Compiled once here, or every build would spend a minute on it.
			compiled := filepath.Join(scratch, "go-build")
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "std")
			cmd.Env = append(os.Environ(), "GOCACHE="+compiled, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
			if _, err := output(cmd); err != nil {
				return "", err
			}
			return majorMinor(strings.TrimPrefix(goVersion, "go")), r.tree("root/.cache/go-build", compiled, nil)
		},
	}, {
		repository: "library/node",
		config:     v1.Config{Cmd: []string{"node"}, Env: []string{"PATH=" + searchPath}},
		fill: func(ctx context.Context, r *rootfs, scratch string) (string, error) {
			if err := r.busybox(ctx, scratch); err != nil {
				return "", err
			}
			debs, err := r.debs(ctx, scratch, "nodejs")
			if err != nil {
				return "", err
			}
			major, _, _ := strings.Cut(debVersion(debs, "nodejs"), ".")
			return major, nil
		},
	}, {
		repository: "library/openjdk",
		config: v1.Config{
			Cmd: []string{"jshell"},
			Env: []string{"PATH=" + javaHome + "/bin:" + searchPath, "JAVA_HOME=" + javaHome},
		},
		fill: func(ctx context.Context, r *rootfs, scratch string) (string, error) {
			if err := r.busybox(ctx, scratch); err != nil {
				return "", err
			}
			_, err := r.debs(ctx, scratch, "openjdk-17-jdk-headless")
			return "17", err
		},
	}}, nil
}

// What upstream's image has for git: ssh, and a shell with the usual tools.
var gitSyncPackages = []string{"coreutils", "dash", "git", "grep", "openssh-client", "sed"}

var javaHome = "/usr/lib/jvm/java-17-openjdk-" + runtime.GOARCH

// needlessForBuilds tells which files of a Go distribution only serve to test
// and to rebuild it: three of four, and a builder hashes every one.
func needlessForBuilds(file string) bool {
	switch file {
	case "api", "doc", "misc", "test", "src/cmd":
		return true
	}
	return filepath.Base(file) == "testdata" || strings.HasSuffix(file, "_test.go")
}

// companion returns a program of this module that devcluster.sh has built
// beside this one.
func (c *cluster) companion(name string) string {
	return filepath.Join(c.cache, "devcluster", name)
}

func digestOfFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:]), nil
}

// majorMinor returns 1.26 for 1.26.8.
func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// debVersion returns the version of a package among package files.
func debVersion(debs []string, pkg string) string {
	for _, deb := range debs {
		if version, ok := strings.CutPrefix(filepath.Base(deb), pkg+"_"); ok {
			version, _, _ = strings.Cut(version, "_")
			return version
		}
	}
	return ""
}
