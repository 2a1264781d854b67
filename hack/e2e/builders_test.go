//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

var allBuilders = []v1alpha1.BuilderName{v1alpha1.Kaniko, v1alpha1.BuildKit, v1alpha1.Buildah}

// withEach runs a test with every builder, or with those that are given.
func withEach(t *testing.T, f func(s *scene, builder v1alpha1.BuilderName), builders ...v1alpha1.BuilderName) {
	t.Parallel()
	if builders == nil {
		builders = allBuilders
	}
	for _, builder := range builders {
		t.Run(string(builder), func(t *testing.T) {
			t.Parallel()
			f(newScene(t), builder)
		})
	}
}

func TestEveryBuilderMakesTheSameApplication(t *testing.T) {
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		build := s.example("nodejs")
		builtBy(builder)(&build.Spec)
		s.apply(build)
		s.untilReady(build.Name)
		s.expectDeployed(build.Name)
		s.expectAnswer(build.Name, "", "Hello from Node.js, version v1\n")
		s.expectNoToken(build.Name)
		s.expectEvents(build.Name, theUsualEvents)
		s.t.Logf("built in %s", s.build(build.Name).Status.Run.Duration)
	})
}

// stagesDockerfile has a stage before the one that is wanted, and one after it.
const stagesDockerfile = `ARG BASE
FROM ${BASE} AS build
ARG TEXT=default
RUN mkdir /made && printf %s "made of $TEXT" >/made/index.html

FROM ${BASE} AS release
COPY --from=build /made /www
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]

FROM release AS debug
RUN echo "for debugging" >/www/index.html
`

func TestEveryBuilderHonoursWhatAnImageIsToBe(t *testing.T) {
	const odd = `it's "odd", $(HOME) a=b`
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		s.pushPage(func(w *worktree) { w.write("Dockerfile", stagesDockerfile) })
		s.apply(s.page("page", builtBy(builder), buildArg("TEXT", odd), func(spec *v1alpha1.BuildSpec) {
			spec.Dockerfile.Target = "release"
			spec.Image.AdditionalTags = []string{"latest"}
			spec.Image.Labels = map[string]string{"com.example.odd": odd, "com.example.plain": "yes"}
			if builder != v1alpha1.Kaniko {
				spec.Image.Annotations = map[string]string{"com.example.odd": odd}
			}
			spec.Image.Reproducible = true
		}))
		s.untilReady("page")
		s.expectAnswer("page", "", "made of "+odd)

		image := s.image("page")
		digest := digestOf(s.t, image)
		if latest := digestOf(s.t, strings.TrimSuffix(image, ":v1")+":latest"); latest != digest || digest == "" {
			s.t.Errorf("latest is %s and v1 is %s", latest, digest)
		}
		pushed := pushedArtifact(s.t, image)
		config, _ := configOf(s.t, image, pushed)
		if config.Config.Labels["com.example.odd"] != odd || config.Config.Labels["com.example.plain"] != "yes" {
			s.t.Errorf("the labels are %q", config.Config.Labels)
		}
		if builder != v1alpha1.Kaniko && pushed.Annotations["com.example.odd"] != odd {
			s.t.Errorf("the annotations are %q", pushed.Annotations)
		}
		if config.Created.Year() > 1970 {
			s.t.Errorf("a reproducible image was made %s", config.Created)
		}

		// The same once more, from nothing.
		s.rebuild("page")
		if again := digestOf(s.t, image); again != digest {
			s.t.Errorf("a reproducible image has digest %s, then %s", digest, again)
		}
	})
}

// rebuild builds the same inputs again, and returns when that is done.
func (s *scene) rebuild(name string) {
	s.t.Helper()
	token := metav1.Now().Format(time.RFC3339Nano)
	s.patch(name, object{"metadata": object{"annotations": object{v1alpha1.RebuildAnnotation: token}}})
	s.until(buildLimit, "it is built again", func() error {
		if run := s.build(name).Status.Run; run == nil || run.Rebuild != token {
			return errors.New("it is not")
		}
		return s.ready(name)
	})
}

func TestABuildSecretIsUsedAndLeavesNoTrace(t *testing.T) {
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		const secret = "s3cret-that-nobody-may-find"
		s.makeSecret("npm", corev1.SecretTypeOpaque, map[string]string{"token": secret})
		s.pushPage(func(w *worktree) {
			w.write("Dockerfile", `ARG BASE
FROM ${BASE}
RUN --mount=type=secret,id=registry-token mkdir /www && sha256sum </run/secrets/registry-token | cut -c1-64 | tr -d '\n' >/www/index.html
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
`)
		})
		s.apply(s.page("page", builtBy(builder), func(spec *v1alpha1.BuildSpec) {
			spec.Builder.Secrets = []v1alpha1.BuildSecret{{ID: "registry-token", SecretName: "npm", Key: "token"}}
		}))
		s.untilReady("page")
		s.expectAnswer("page", "", fmt.Sprintf("%x", sha256.Sum256([]byte(secret))))

		image := s.image("page")
		pushed := pushedArtifact(s.t, image)
		if _, config := configOf(s.t, image, pushed); strings.Contains(config, secret) {
			s.t.Errorf("the secret is in the configuration or history: %s", config)
		}
		if bytes.Contains(layers(s.t, image, pushed), []byte(secret)) {
			s.t.Error("the secret is in a layer")
		}
		for _, pod := range s.podsOf("page") {
			if strings.Contains(manifest(pod), secret) {
				s.t.Error("the secret is in the pod")
			}
		}
	}, v1alpha1.BuildKit, v1alpha1.Buildah)
}

// What a cached layer was made of shows in the image: a number that is another with every run of the command.
func TestACacheSparesTheSecondBuildItsWork(t *testing.T) {
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		s.pushPage(func(w *worktree) {
			w.write("Dockerfile", `ARG BASE
FROM ${BASE}
RUN mkdir /www && sleep 15 && cat /proc/sys/kernel/random/uuid >/www/index.html
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
`)
		})
		s.apply(s.page("page", builtBy(builder), func(spec *v1alpha1.BuildSpec) {
			repository, _, _ := cutTag(spec.Image.Name)
			spec.Builder.Cache = &v1alpha1.Cache{Repository: repository + "-cache"}
		}))
		s.untilReady("page")
		first, err := firstAnswer(s.url("page"), 15*time.Second)
		if err != nil {
			s.t.Fatal(err)
		}
		took := func() time.Duration {
			run := s.build("page").Status.Run
			return run.CompletionTime.Sub(run.StartTime.Time)
		}
		cold := took()
		s.rebuild("page")
		s.expectAnswer("page", "", first)
		s.t.Logf("%s: %s without, %s with the cache, ratio %.2f", builder, cold, took(), took().Seconds()/cold.Seconds())
	})
}

func TestSeveralPlatformsInOneBuild(t *testing.T) {
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		s.pushPage(func(w *worktree) {
			w.write("Dockerfile", "FROM scratch\nCOPY name.txt /\n")
			w.write("name.txt", "any")
		})
		s.apply(s.page("page", buildOnly, builtBy(builder), func(spec *v1alpha1.BuildSpec) {
			spec.Dockerfile.BuildArgs = nil
			spec.Builder.Platforms = []string{"linux/amd64", "linux/arm64"}
			spec.Image.AdditionalTags = []string{"latest"}
		}))
		s.untilReady("page")
		index := pushedArtifact(s.t, s.image("page"))
		found := map[string]bool{}
		for _, m := range index.Manifests {
			found[m.Platform.OS+"/"+m.Platform.Architecture] = true
		}
		if !found["linux/amd64"] || !found["linux/arm64"] {
			s.t.Errorf("the index has %v", index.Manifests)
		}
		if _, digest, _ := strings.Cut(s.build("page").Status.Image, "@"); digest != digestOf(s.t, s.image("page")) {
			s.t.Errorf("the status has %s, which is not the index", digest)
		}
	}, v1alpha1.BuildKit, v1alpha1.Buildah)
}

func TestProvenanceIsAttached(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pushPage()
	s.apply(s.page("page", buildOnly, builtBy(v1alpha1.BuildKit), func(spec *v1alpha1.BuildSpec) { spec.Image.Provenance = true }))
	s.untilReady("page")
	image := s.image("page")
	var statements []byte
	for _, m := range pushedArtifact(t, image).Manifests {
		statements = append(statements, layers(t, image, artifactOf(t, image, m.Digest))...)
	}
	if !bytes.Contains(statements, []byte("slsa.dev/provenance")) {
		t.Error("no statement of the index is a provenance")
	}
}

// Its base image is pulled, and what it makes is pushed, with credentials and over TLS.
func TestAPrivateRegistryWithAnAuthorityOfItsOwn(t *testing.T) {
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		s.makeConfigMap("corp-ca", map[string]string{"ca.crt": s.stateFile("registry", "ca.crt")})
		// The other kind of Secret that is met in the field, made of a file of Docker.
		s.makeSecret("docker-config", corev1.SecretTypeOpaque, map[string]string{"config.json": s.stateFile("registry", "config.json")})
		base := tlsRegistry + "/e2e/" + s.ns + "-base:v1"
		private := func(spec *v1alpha1.BuildSpec) {
			spec.Image.Insecure, spec.Image.CAConfigMapName = false, "corp-ca"
		}
		s.pushPage(func(w *worktree) {
			w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nCOPY name.txt /\n")
			w.write("name.txt", "private")
		})
		s.apply(s.page("base", buildOnly, builtBy(builder), private, func(spec *v1alpha1.BuildSpec) {
			spec.Builder.InsecureRegistries = []string{registry} // where its own base image is
			spec.Image.Name, spec.Image.SecretName = base, "docker-config"
		}))
		s.untilReady("base")
		s.apply(s.page("page", buildOnly, builtBy(builder), private, baseImage(base), func(spec *v1alpha1.BuildSpec) {
			spec.Image.Name, spec.Image.SecretName = tlsRegistry+"/e2e/"+s.ns+"-page:v1", pushSecret
		}))
		s.untilReady("page")
		if got := string(layers(s.t, tlsRegistry+"/e2e/"+s.ns+"-page:v1", pushedArtifact(s.t, tlsRegistry+"/e2e/"+s.ns+"-page:v1"))); !strings.Contains(got, "private") {
			s.t.Errorf("the layers have %q", got)
		}
	})
}

// The name of the base image has no registry, and Docker Hub cannot be reached from here.
func TestAMirrorOfDockerHub(t *testing.T) {
	withEach(t, func(s *scene, builder v1alpha1.BuilderName) {
		s.pushPage()
		name := strings.TrimPrefix(base(s.t, "busybox"), registry+"/library/")
		s.apply(s.page("page", builtBy(builder), baseImage(name), func(spec *v1alpha1.BuildSpec) {
			spec.Builder.Mirrors = []string{registry}
		}))
		s.untilReady("page")
		s.expectAnswer("page", "", "hello")
	})
}

func TestThePodOfABuildIsAsTheTeamWantsIt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pushPage()
	s.makeConfigMap("settings", map[string]string{"settings.txt": "of the team"})
	s.apply(s.page("page", buildOnly, func(spec *v1alpha1.BuildSpec) {
		spec.Builder = &v1alpha1.Builder{
			Args:         []string{"--label=com.example.extra=yes"},
			Env:          []corev1.EnvVar{{Name: "NO_PROXY", Value: hostIP}},
			NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
			Tolerations:  []corev1.Toleration{{Key: "builds", Operator: corev1.TolerationOpExists}},
			HostAliases:  []corev1.HostAlias{{IP: hostIP, Hostnames: []string{"git.internal"}}},
			Volumes: []v1alpha1.Volume{
				{Name: "cache", MountPath: "/cache", EmptyDir: &corev1.EmptyDirVolumeSource{}},
				{Name: "settings", MountPath: "/settings", ReadOnly: true, ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
			},
		}
		spec.Dockerfile.Inline = "ARG BASE\nFROM ${BASE}\nRUN cat /settings/settings.txt >/settings-seen && touch /cache/used\n"
	}))
	s.untilReady("page")
	image := s.image("page")
	pushed := pushedArtifact(t, image)
	if config, _ := configOf(t, image, pushed); config.Config.Labels["com.example.extra"] != "yes" {
		t.Errorf("the labels are %q", config.Config.Labels)
	}
	content := layers(t, image, pushed)
	if !bytes.Contains(content, []byte("of the team")) {
		t.Error("the mounted settings were not seen")
	}
	if bytes.Contains(content, []byte("cache/used")) {
		t.Error("what was written into a volume is in the image")
	}
}

func (s *scene) makeConfigMap(name string, data map[string]string) {
	s.t.Helper()
	_, err := cluster.kube.CoreV1().ConfigMaps(s.ns).Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
