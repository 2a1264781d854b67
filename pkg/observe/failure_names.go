package observe

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// The ends of messages: what has to happen for the next run. A change in the
// inputs of the spec starts one, a cure anywhere else has to be announced, and
// what still waits goes on when its cause is gone.
const (
	maxMessage  = 1000
	again       = "a new value of the annotation " + v1alpha1.RebuildAnnotation + " starts a new run."
	thenAgain   = ", then " + again
	whichStarts = ", which starts a new run."
	goesOn      = " and the build goes on by itself."
)

// names are what messages call things by.
type names struct {
	url, host, port       string
	revision              string
	dockerfile, target    string // the Dockerfile's path inside the repository
	inline                bool   // the Dockerfile is in the spec
	contextDir            string
	image, registry       string
	insecure              bool   // plain http is meant
	pushField             string // the one that names the image
	cache                 string // the repository for layers
	gitSecret, pushSecret string
	buildSecrets          map[string]string // of RUN instructions, by the key that is wanted of them
	timeout               string
	builder, podSecurity  string // and the level that the namespace has to allow for it
}

// namesOf takes the names from the Build; without one the messages use general words.
func namesOf(b *v1alpha1.Build, job *batchv1.Job) names {
	n := names{dockerfile: "Dockerfile", pushField: "spec.image.name", builder: string(v1alpha1.Kaniko), podSecurity: "baseline"}
	if b != nil {
		if settings := b.Spec.Builder; settings != nil {
			if settings.Name != "" && settings.Name != v1alpha1.Kaniko {
				n.builder, n.podSecurity = string(settings.Name), "privileged"
			}
			if settings.Cache != nil {
				n.cache = settings.Cache.Repository
			}
			n.buildSecrets = map[string]string{}
			for _, secret := range settings.Secrets {
				n.buildSecrets[secret.Key] = secret.SecretName
			}
		}
		git := b.Spec.Source.Git
		n.url, n.revision, n.gitSecret = git.URL, git.Revision, git.SecretName
		n.host, n.port = gitHost(git.URL)
		n.image, n.pushSecret = b.Spec.Image.Name, b.Spec.Image.SecretName
		n.registry, n.insecure = registryOf(n.image), b.Spec.Image.Insecure
		n.contextDir = strings.Trim(strings.TrimPrefix(b.Spec.Source.ContextDir, "./"), "/")
		if d := b.Spec.Dockerfile; d != nil {
			n.target = d.Target
			if d.Path != "" {
				n.dockerfile = d.Path
			}
		}
		if n.contextDir != "" && n.contextDir != "." {
			n.dockerfile = n.contextDir + "/" + n.dockerfile
		}
		if d := b.Spec.Dockerfile; d != nil && d.Inline != "" {
			n.dockerfile, n.inline = "spec.dockerfile.inline", true
		}
		if b.Spec.Timeout != nil {
			n.timeout = shortDuration(b.Spec.Timeout.Duration)
		}
	}
	// What the run was made with, if the spec was changed since.
	if job != nil && job.Spec.ActiveDeadlineSeconds != nil {
		n.timeout = shortDuration(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second)
	}
	for _, s := range []*string{&n.url, &n.host, &n.revision, &n.dockerfile, &n.contextDir, &n.image, &n.cache} {
		*s = Squash(*s, 120)
	}
	return n
}

// gitHost splits the host from the three forms of url: ssh://user@host:port/path, https://host/path, user@host:path.
func gitHost(address string) (host, port string) {
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil {
			return "", ""
		}
		return u.Hostname(), u.Port()
	}
	_, rest, ok := strings.Cut(address, "@")
	if !ok {
		return "", ""
	}
	if after, bracketed := strings.CutPrefix(rest, "["); bracketed {
		host, _, _ = strings.Cut(after, "]")
		return host, ""
	}
	host, _, _ = strings.Cut(rest, ":")
	return host, ""
}

// registryOf is the part of an image's name before the first slash when it looks like a host, else Docker Hub.
func registryOf(image string) string {
	if first, _, ok := strings.Cut(image, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first
	}
	if image == "" {
		return ""
	}
	return "docker.io"
}

// shortDuration writes 30m for what Go writes as 30m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (n names) ofTimeout() string {
	if n.timeout == "" {
		return ""
	}
	return " of " + n.timeout
}

func (n names) ssh() bool { return !strings.HasPrefix(n.url, "https://") }

// server is the git server with its port, as known_hosts has it.
func (n names) server() string {
	switch {
	case n.host == "":
		return "the git server"
	case n.port != "":
		return "the git server [" + n.host + "]:" + n.port
	}
	return "the git server " + n.host
}

// keyscan is the command that prints the host's key.
func (n names) keyscan() string {
	if n.port != "" {
		return "ssh-keyscan -p " + n.port + " " + n.host
	}
	return strings.TrimSpace("ssh-keyscan " + n.host)
}

func (n names) repository() string {
	if n.url == "" {
		return "the repository"
	}
	return "the repository " + n.url
}

func (n names) gitKeys() string {
	if n.ssh() {
		return "with the keys ssh (or ssh-privatekey) and known_hosts"
	}
	return "with the keys username and password, or a token alone under token"
}

// credentials are what git shows to the server.
func (n names) credentials() string {
	if n.ssh() {
		return "the private key of " + secretNamed(n.gitSecret, v1alpha1.StepSource)
	}
	return "the username and password of " + secretNamed(n.gitSecret, v1alpha1.StepSource)
}

// pushing are the names for a push that failed: it may have been of another tag, or of the cache.
func (n names) pushing(f fault) names {
	if f.cache {
		n.pushField = "spec.builder.cache.repository"
		f.to = cmp.Or(f.to, n.cache)
	}
	if f.to != "" {
		n.image, n.registry = Squash(f.to, 120), registryOf(f.to)
	}
	return n
}

// pushTo is the registry of the image, and pull may be from another.
func (n names) pushTo() string {
	if n.registry == "" {
		return "the registry"
	}
	return "the registry " + n.registry
}

// stepOfSecret knows the step by the Secret's name, else takes that of the container which wants it: spec.builder.env may
// name any.
func (n names) stepOfSecret(secret string, container v1alpha1.Step) v1alpha1.Step {
	switch {
	case secret != "" && secret == n.gitSecret && secret != n.pushSecret:
		return v1alpha1.StepSource
	case secret != "" && secret == n.pushSecret && secret != n.gitSecret:
		return v1alpha1.StepPush
	}
	return container
}

// ofVolume gives the step that needs a volume, and the Secret in it.
func (n names) ofVolume(pod *corev1.Pod, volume string) (v1alpha1.Step, string) {
	step, secret := v1alpha1.StepSchedule, ""
	switch volume {
	case gitVolume:
		step, secret = v1alpha1.StepSource, n.gitSecret
	case pushVolume:
		step, secret = v1alpha1.StepPush, n.pushSecret
	case secretsVolume:
		step = v1alpha1.StepBuild
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == volume && v.Secret != nil {
			secret = v.Secret.SecretName
		}
	}
	return step, secret
}

// keysOf says what the Secret in a volume has to have.
func (n names) keysOf(volume string) string {
	switch volume {
	case gitVolume:
		return " " + n.gitKeys()
	case pushVolume:
		return " as type kubernetes.io/dockerconfigjson"
	}
	return ""
}

func secretNamed(secret string, step v1alpha1.Step) string {
	switch {
	case secret != "":
		return `Secret "` + cut(secret, 253) + `"`
	case step == v1alpha1.StepSource:
		return "the git Secret"
	case step == v1alpha1.StepPush:
		return "the registry Secret"
	}
	return "a Secret"
}

// quoted puts another's words in brackets, short enough that ours still fit.
func quoted(text string) string {
	text = strings.TrimRight(cutMiddle(Squash(text, maxMessage), 400), ". :") // a cause is at the end
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// sentence starts with a capital, unless a name is its first word.
func sentence(text string) string {
	if after, ok := strings.CutPrefix(text, "the "); ok {
		return "The " + after
	}
	return text
}
