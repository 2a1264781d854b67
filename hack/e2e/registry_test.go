//go:build e2e

package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// registryClient trusts anyone: what builds trust is what is tested.
var registryClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// registryGet asks a registry of the cluster about an image.
func registryGet(host, path string) (*http.Response, error) {
	scheme := "http://"
	if host == tlsRegistry {
		scheme = "https://"
	}
	request, err := http.NewRequest(http.MethodGet, scheme+host+"/v2/"+path, nil)
	if err != nil {
		return nil, err
	}
	for _, mediaType := range []string{
		"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
		"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
	} {
		request.Header.Add("Accept", mediaType)
	}
	if host != registry {
		user, password, err := registryLogin()
		if err != nil {
			return nil, err
		}
		request.SetBasicAuth(user, password)
	}
	return registryClient.Do(request)
}

func registryLogin() (user, password string, err error) {
	content, err := os.ReadFile(filepath.Join(cluster.state, "registry", "config.json"))
	if err != nil {
		return "", "", err
	}
	var config struct {
		Auths map[string]struct{ Username, Password string }
	}
	err = json.Unmarshal(content, &config)
	login := config.Auths[loginRegistry]
	return login.Username, login.Password, err
}

// digestOf returns the digest that a tag has in its registry; empty if there is
// no such tag.
func digestOf(t *testing.T, image string) string {
	t.Helper()
	host, name, _ := strings.Cut(image, "/")
	repository, tag, _ := strings.Cut(name, ":")
	response, err := registryGet(host, repository+"/manifests/"+tag)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return response.Header.Get("Docker-Content-Digest")
	case http.StatusNotFound:
		return ""
	}
	t.Fatalf("the registry answers %s about %s", response.Status, image)
	return ""
}

// blob returns the content of a blob, or of a manifest by its digest.
func blob(t *testing.T, image, kind, digest string) []byte {
	t.Helper()
	host, name, _ := strings.Cut(image, "/")
	repository, _, _ := strings.Cut(name, ":")
	response, err := registryGet(host, repository+"/"+kind+"/"+digest)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s of %s: %s %v", digest, image, response.Status, err)
	}
	return content
}

// An artifact is what a registry has under a tag: a single image or an index of several.
type artifact struct {
	MediaType   string
	Annotations map[string]string
	Config      struct{ Digest string }
	Layers      []struct{ Digest, MediaType string }
	Manifests   []struct {
		Digest   string
		Platform struct{ Architecture, OS string }
	}
}

func pushedArtifact(t *testing.T, image string) artifact {
	t.Helper()
	digest := digestOf(t, image)
	if digest == "" {
		t.Fatalf("the registry has no %s", image)
	}
	return artifactOf(t, image, digest)
}

func artifactOf(t *testing.T, image, digest string) artifact {
	t.Helper()
	var a artifact
	if err := json.Unmarshal(blob(t, image, "manifests", digest), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// An imageConfig is what an image says of itself.
type imageConfig struct {
	Created time.Time
	Config  struct{ Labels map[string]string }
	History []struct{ Created time.Time }
}

func configOf(t *testing.T, image string, a artifact) (config imageConfig, text string) {
	t.Helper()
	content := blob(t, image, "blobs", a.Config.Digest)
	if err := json.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	return config, string(content)
}

// layers returns what is in the layers of an image, unpacked.
func layers(t *testing.T, image string, a artifact) []byte {
	t.Helper()
	var all []byte
	for _, layer := range a.Layers {
		content := blob(t, image, "blobs", layer.Digest)
		if unpacked, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
			if content, err = io.ReadAll(unpacked); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, content...)
	}
	return all
}

// base returns one of the cluster's own base images, with the tag it has there.
func base(t *testing.T, name string) string {
	t.Helper()
	repository := "library/" + name
	response, err := registryGet(registry, repository+"/tags/list")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct{ Tags []string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Tags) == 0 {
		t.Fatalf("the registry has no %s: %s %v", repository, response.Status, err)
	}
	slices.Sort(answer.Tags)
	return fmt.Sprintf("%s/%s:%s", registry, repository, answer.Tags[len(answer.Tags)-1])
}
