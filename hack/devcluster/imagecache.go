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
	key := sha256.Sum256(fmt.Appendf(nil, "%d %q %v %s%s", generation, i.inputs, i.config, runtime.GOARCH, i.builder))
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
	r, err := newRootfs(compressed, i.builder)
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
