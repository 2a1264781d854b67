//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The Secrets that every scene has.
const (
	gitKeySecret   = "git-creds" // as the examples call it
	gitLoginSecret = "git-login"
	pushSecret     = "registry-creds"
)

const gitUser = "git" // of the https git server

func (s *scene) makeSecrets() {
	s.t.Helper()
	s.makeSecret(gitKeySecret, corev1.SecretTypeOpaque, gitKey(s))
	s.makeSecret(gitLoginSecret, corev1.SecretTypeBasicAuth, map[string]string{
		corev1.BasicAuthUsernameKey: gitUser,
		corev1.BasicAuthPasswordKey: strings.TrimSpace(s.stateFile("git", "password")),
	})
	s.makeSecret(pushSecret, corev1.SecretTypeDockerConfigJson, map[string]string{
		corev1.DockerConfigJsonKey: s.stateFile("registry", "config.json"),
	})
}

// gitKey is what logs in to the git server over ssh.
func gitKey(s *scene) map[string]string {
	s.t.Helper()
	return map[string]string{"ssh": s.stateFile("git", "id_ed25519"), "known_hosts": s.stateFile("git", "known_hosts")}
}

func (s *scene) makeSecret(name string, kind corev1.SecretType, values map[string]string) {
	s.t.Helper()
	_, err := cluster.kube.CoreV1().Secrets(s.ns).Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: values,
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// stateFile reads a file of the cluster.
func (s *scene) stateFile(elem ...string) string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{cluster.state}, elem...)...))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(content)
}
