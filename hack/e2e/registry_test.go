//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var registryClient = &http.Client{Timeout: 10 * time.Second}

// registryGet asks a registry of the cluster about an image.
func registryGet(host, path string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+host+"/v2/"+path, nil)
	if err != nil {
		return nil, err
	}
	for _, mediaType := range []string{"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"} {
		request.Header.Add("Accept", mediaType)
	}
	if host == loginRegistry {
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
