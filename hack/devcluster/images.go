package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
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
		inputs:     []string{goVersion, "with the standard library compiled"},
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
			if err := r.tree("usr/local/go", goRoot, "api", "doc", "misc", "test"); err != nil {
				return "", err
			}
			// Compiled once here, or every build would spend a minute on it.
			compiled := filepath.Join(scratch, "go-build")
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "std")
			cmd.Env = append(os.Environ(), "GOCACHE="+compiled, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
			if _, err := output(cmd); err != nil {
				return "", err
			}
			return majorMinor(strings.TrimPrefix(goVersion, "go")), r.tree("root/.cache/go-build", compiled)
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

// companion returns a program of this module that devcluster.sh has built
// beside this one.
func (c *cluster) companion(name string) string {
	return filepath.Join(c.cache, "devcluster", name)
}

// pushImages makes the images that are missing from the cache, and pushes those
// that are missing from the registry.
func (c *cluster) pushImages(ctx context.Context) error {
	images, err := c.images(ctx)
	if err != nil {
		return err
	}
	for _, i := range images {
		if err := c.pushImage(ctx, i); err != nil {
			return fmt.Errorf("image %s: %w", i.repository, err)
		}
	}
	return nil
}

func (c *cluster) pushImage(ctx context.Context, i image) error {
	made, tag, err := c.makeImage(ctx, i)
	if err != nil {
		return err
	}
	if i.trust != "" {
		if made, err = c.withTrust(made, i.trust); err != nil {
			return err
		}
	}
	digest, err := made.Digest()
	if err != nil {
		return err
	}
	reference, err := name.ParseReference(registryAddress+"/"+i.repository+":"+tag, name.Insecure)
	if err != nil {
		return err
	}
	if there, err := remote.Head(reference, remote.WithContext(ctx)); err == nil && there.Digest == digest {
		return nil
	}
	return step("push "+i.repository+":"+tag, func() error {
		return remote.Write(reference, made, remote.WithContext(ctx))
	})
}

// makeImage returns an image from the cache, made first if need be.
func (c *cluster) makeImage(ctx context.Context, i image) (made v1.Image, tag string, err error) {
	const generation = 1 // to be counted up when images are to be made differently
	key := sha256.Sum256(fmt.Appendf(nil, "%d %q %v %s", generation, i.inputs, i.config, runtime.GOARCH))
	dir := filepath.Join(c.cache, "images", strings.ReplaceAll(i.repository, "/", "-")+"-"+hex.EncodeToString(key[:6]))
	if !exists(dir) {
		err := step("make image "+i.repository, func() error { return makeLayout(ctx, i, dir) })
		if err != nil {
			return nil, "", err
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, "", err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, "", err
	}
	made, err = index.Image(manifest.Manifests[0].Digest)
	return made, manifest.Manifests[0].Annotations[tagAnnotation], err
}

const tagAnnotation = "org.opencontainers.image.ref.name"

// makeLayout writes an image with a single layer to a directory.
func makeLayout(ctx context.Context, i image, dir string) error {
	partial := dir + ".partial"
	scratch := filepath.Join(partial, "scratch")
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return err
	}
	archive := filepath.Join(scratch, "layer.tar.gz")
	tag, err := writeLayer(ctx, i, archive, scratch)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(archive)
	if err != nil {
		return err
	}
	made, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       i.config,
	})
	if err != nil {
		return err
	}
	if made, err = mutate.AppendLayers(made, layer); err != nil {
		return err
	}
	path, err := layout.Write(partial, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(made, layout.WithAnnotations(map[string]string{tagAnnotation: tag})); err != nil {
		return err
	}
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

func writeLayer(ctx context.Context, i image, archive, scratch string) (tag string, err error) {
	file, err := os.Create(archive)
	if err != nil {
		return "", err
	}
	defer file.Close()
	// These are pushed and pulled on one machine only.
	compressed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	r, err := newRootfs(compressed)
	if err != nil {
		return "", err
	}
	if tag, err = i.fill(ctx, r, scratch); err != nil {
		return "", err
	}
	if err := r.tar.Close(); err != nil {
		return "", err
	}
	if err := compressed.Close(); err != nil {
		return "", err
	}
	return tag, file.Close()
}

// withTrust adds the authority of our https git server to an image.
func (c *cluster) withTrust(made v1.Image, path string) (v1.Image, error) {
	authority, err := os.ReadFile(c.in("git", "ca.crt"))
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	r := &rootfs{tar.NewWriter(&content), map[string]bool{}}
	if err := errors.Join(r.file(path, 0o644, authority), r.tar.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(made, layer)
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
