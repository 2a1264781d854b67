package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	builder    string // the name of the user 1000, if it needs one
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
	buildkit, err := filepath.EvalSymlinks(c.bin("buildkitd"))
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
		inputs:     []string{gitSync, strings.Join(gitSyncPackages, " "), "no ssh-keygen"},
		config: v1.Config{
			Entrypoint: []string{"/git-sync"},
			User:       "65533:65533",
			WorkingDir: "/tmp",
			Env:        []string{"PATH=" + searchPath, "HOME=/tmp"},
		},
		fill: func(ctx context.Context, r *rootfs, scratch string) (string, error) {
			// Upstream's image has no more of ssh than a client needs.
			r.leaveOut("usr/bin/ssh-keygen", "usr/bin/ssh-add", "usr/bin/ssh-agent", "usr/bin/ssh-keyscan", "usr/bin/scp", "usr/bin/sftp")
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
		// Like moby/buildkit:*-rootless.
		repository: "buildkit",
		inputs:     []string{buildkit},
		config: v1.Config{
			Entrypoint: []string{"rootlesskit", "buildkitd"},
			User:       "1000:1000",
			Env: []string{"PATH=" + searchPath, "HOME=/home/user", "USER=user",
				"XDG_RUNTIME_DIR=/run/user/1000", "TMPDIR=/home/user/.local/tmp",
				"BUILDKIT_HOST=unix:///run/user/1000/buildkit/buildkitd.sock"},
			Volumes: map[string]struct{}{"/home/user/.local/share/buildkit": {}},
		},
		builder: "user",
		fill:    c.buildkit,
		trust:   "etc/ssl/certs/ca-certificates.crt",
	}, {
		// Like quay.io/buildah/stable, but for its storage driver: fuse-overlayfs
		// needs a device that no Pod has.
		repository: "buildah",
		config: v1.Config{
			Env:     []string{"PATH=" + searchPath, "BUILDAH_ISOLATION=chroot"},
			Volumes: map[string]struct{}{"/var/lib/containers": {}, "/home/build/.local/share/containers": {}},
		},
		builder: "build",
		fill:    buildah,
		trust:   "etc/ssl/certs/ca-certificates.crt",
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

func (c *cluster) buildkit(ctx context.Context, r *rootfs, scratch string) (string, error) {
	version, err := requiredVersion(filepath.Join(c.moduleDir(buildkitTool), "go.mod"), buildkitTool.module)
	if err != nil {
		return "", err
	}
	find := exec.CommandContext(ctx, "go", "list", "-f", "{{.Module.Dir}}", buildkitTool.builds["buildctl"])
	find.Dir = c.moduleDir(buildkitTool)
	find.Env = append(os.Environ(), "GOWORK=off")
	source, err := output(find)
	if err != nil {
		return "", err
	}
	const daemonless = "buildctl-daemonless.sh"
	if err := errors.Join(
		r.program("usr/bin/"+daemonless, filepath.Join(source, "examples", "buildctl-daemonless", daemonless)),
		r.program("usr/bin/buildkitd", c.bin("buildkitd")),
		r.program("usr/bin/buildctl", c.bin("buildctl")),
		r.program("usr/bin/rootlesskit", c.bin("rootlesskit")),
		r.link("usr/bin/buildkit-runc", "../sbin/runc"),
		r.file("etc/subuid", 0o644, []byte("user:100000:65536\n")),
		r.file("etc/subgid", 0o644, []byte("user:100000:65536\n")),
		r.home("run/user/1000", "home/user", "home/user/.local", "home/user/.local/tmp",
			"home/user/.local/share", "home/user/.local/share/buildkit"),
		r.busybox(ctx, scratch),
	); err != nil {
		return "", err
	}
	_, err = r.debs(ctx, scratch, "runc", "uidmap")
	return version + "-rootless", err
}

func buildah(ctx context.Context, r *rootfs, scratch string) (string, error) {
	const ids = "build:1:999\nbuild:1001:64535\n"
	if err := errors.Join(
		r.file("etc/subuid", 0o644, []byte(ids)),
		r.file("etc/subgid", 0o644, []byte(ids)),
		r.file("etc/containers/registries.conf", 0o644, []byte(`unqualified-search-registries = ["docker.io"]`+"\n")),
		r.home("home/build", "home/build/.config", "home/build/.config/containers",
			"home/build/.local", "home/build/.local/share", "home/build/.local/share/containers"),
		r.file("home/build/.config/containers/storage.conf", 0o644, []byte("[storage]\ndriver = \"vfs\"\n")),
		r.link("usr/bin/sh", "dash"),
	); err != nil {
		return "", err
	}
	debs, err := r.debs(ctx, scratch, "buildah", "coreutils", "dash", "sed")
	version, _, _ := strings.Cut(debVersion(debs, "buildah"), "+")
	return "v" + version, err
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
