//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// caller makes a new connection for every request, as many clients would.
var caller = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// call returns the answer of an application.
func call(url string) (string, error) {
	response, err := caller.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// url is where the Service of a Build is reached.
func (s *scene) url(name string) string {
	s.t.Helper()
	service := s.service(name)
	if service == nil {
		s.t.Fatalf("there is no Service %s", name)
	}
	return fmt.Sprintf("http://%s:%d/", service.Spec.ClusterIP, service.Spec.Ports[0].Port)
}

// expectAnswer expects what the Service of a Build answers. The node learns
// about a pod a moment after the API server does.
func (s *scene) expectAnswer(name, path, want string) {
	s.t.Helper()
	answer, err := firstAnswer(s.url(name)+path, 15*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	if answer != want {
		s.t.Errorf("%s answers %q, not %q", name, answer, want)
	}
}

// firstAnswer calls until there is an answer.
func firstAnswer(url string, limit time.Duration) (string, error) {
	timeout := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := call(url)
		if err == nil {
			return answer, nil
		}
		select {
		case <-tick.C:
		case <-timeout:
			return "", fmt.Errorf("no answer within %s: %w", limit, err)
		}
	}
}
