package plan

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// The golden files show whole objects, so that a change of the code shows up in a review as what it does to the cluster.

func TestJobs(t *testing.T) {
	golden(t, "jobs", map[string]func(*v1alpha1.Build){
		"public https": func(*v1alpha1.Build) {},
		"https with username and password": func(b *v1alpha1.Build) {
			b.Spec.Source.Git.SecretName = "git-creds"
		},
		"ssh with a Secret": func(b *v1alpha1.Build) {
			b.Spec.Source.Git = v1alpha1.GitSource{URL: "git@git.example.com:shop.git", Revision: "main", SecretName: "git-creds"}
		},
		"a Dockerfile elsewhere, a target and build args": func(b *v1alpha1.Build) {
			b.Spec.Source.ContextDir = "services/shop"
			b.Spec.Dockerfile = &v1alpha1.Dockerfile{
				Path:   "docker/Dockerfile.release",
				Target: "release",
				BuildArgs: []v1alpha1.BuildArg{
					{Name: "QUOTES", Value: `it's "quoted" \`},
					{Name: "LINES", Value: "first\nsecond\n"},
					{Name: "REFERENCE", Value: "$(HOME) $HOME ${HOME} $$"},
					{Name: "DASHES", Value: "--insecure"},
					{Name: "EQUALS", Value: "a=b"},
					{Name: "EMPTY"},
				},
			}
		},
		"an insecure registry with a Secret": func(b *v1alpha1.Build) {
			b.Spec.Image.Insecure = true
			b.Spec.Image.SecretName = "regcred"
		},
		"resources": func(b *v1alpha1.Build) {
			b.Spec.Builder = &v1alpha1.Builder{Resources: someResources()}
		},
		"a private authority, full history and no submodules": func(b *v1alpha1.Build) {
			b.Spec.Source.Git.CAConfigMapName = "corp-ca"
			b.Spec.Source.Git.Depth = ptr.To[int32](0)
			b.Spec.Source.Git.Submodules = v1alpha1.SubmodulesOff
			b.Spec.Image.CAConfigMapName = "corp-ca"
		},
		"a directory of a large repository": func(b *v1alpha1.Build) {
			b.Spec.Source.Git.Sparse = true
			b.Spec.Source.ContextDir = "./services/[shop]*"
		},
		"a Dockerfile in the Build": func(b *v1alpha1.Build) {
			b.Spec.Dockerfile = &v1alpha1.Dockerfile{Inline: "FROM node:18\nCOPY $(handler).js /\n"}
		},
		"Kaniko with all it can":   withAll(v1alpha1.Kaniko),
		"BuildKit with all it can": withAll(v1alpha1.BuildKit),
		"Buildah with all it can":  withAll(v1alpha1.Buildah),
		"the pod where and as the team wants it": func(b *v1alpha1.Build) {
			b.Spec.Builder = &v1alpha1.Builder{
				Name: v1alpha1.Buildah, Image: "registry.example.com/buildah:2", Args: []string{"--squash", "--build-context=a=$(b)"},
				Env:               []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy.example.com:3128"}},
				NodeSelector:      map[string]string{"disk": "ssd"},
				Tolerations:       []corev1.Toleration{{Key: "builds", Operator: corev1.TolerationOpExists}},
				Affinity:          &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
				PriorityClassName: "low", RuntimeClassName: "kata", ServiceAccountName: "builder",
				ImagePullSecrets: []v1alpha1.SecretReference{{Name: "pull"}},
				HostAliases:      []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"git.example.com"}}},
				Volumes: []v1alpha1.Volume{
					{Name: "layers", MountPath: "/home/build/.local/share/containers", PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "layers"}},
					{Name: "git", MountPath: "/cache", SubPath: "shop", ReadOnly: true, EmptyDir: &corev1.EmptyDirVolumeSource{}},
				},
			}
		},
		"a timeout of a second and a half": func(b *v1alpha1.Build) {
			b.Spec.Timeout = &metav1.Duration{Duration: 1500 * time.Millisecond}
		},
		"a rebuild": func(b *v1alpha1.Build) {
			b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: "2026-01-02"}
		},
	}, func(change func(*v1alpha1.Build)) []any {
		build := aBuild(change)
		job := Job(build, Hash(build), 1, testSteps)
		job.Spec.Template.Spec.InitContainers[0].Command[2] = "(gitsync.sh)"
		return []any{job}
	})
}

var testSteps = Steps{GitSync: "git-sync:test", Kaniko: "kaniko:test", BuildKit: "buildkit:test", Buildah: "buildah:test"}

// withAll asks a builder for all that it can do.
func withAll(name v1alpha1.BuilderName) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) {
		b.Spec.Builder = &v1alpha1.Builder{Name: name}
		for _, c := range Capabilities {
			if _, can := c.By[name]; can {
				ask[c.Field](b)
			}
		}
		b.Spec.Image.SecretName = "regcred"
	}
}

func TestDeployments(t *testing.T) {
	http := v1alpha1.Port{Name: "http", ContainerPort: 8080}
	golden(t, "deployments", map[string]func(*v1alpha1.Build){
		"nothing asked for but to run": func(*v1alpha1.Build) {},
		"ports and a Service of type NodePort": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{
				{Name: "dns", ContainerPort: 5353, Protocol: corev1.ProtocolUDP, ServicePort: 53},
				{Name: "http", ContainerPort: 8080, ServicePort: 80},
				{Name: "metrics", ContainerPort: 9090},
			}
			b.Spec.Deployment.Service = &v1alpha1.Service{Type: corev1.ServiceTypeNodePort}
		},
		"a Service of the default type": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{http}
			b.Spec.Deployment.Service = &v1alpha1.Service{}
		},
		"a port that no probe can connect to": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
		},
		"env of a Secret": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Env = []corev1.EnvVar{
				{Name: "MODE", Value: "production"},
				{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "shop"}, Key: "token",
				}}},
			}
		},
		"resources": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Resources = someResources()
		},
		"an image that is pulled with a Secret": func(b *v1alpha1.Build) {
			b.Spec.Image.SecretName = "regcred"
		},
		"no replicas at all": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Replicas = ptr.To[int32](0)
		},
		"replicas and a progress deadline": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Replicas = ptr.To[int32](2)
			b.Spec.Deployment.ProgressDeadline = &metav1.Duration{Duration: time.Minute}
		},
		"probes": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{http}
			get := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}
			b.Spec.Deployment.ReadinessProbe = &corev1.Probe{ProbeHandler: get, PeriodSeconds: 5}
			b.Spec.Deployment.LivenessProbe = &corev1.Probe{ProbeHandler: get, FailureThreshold: 10}
			b.Spec.Deployment.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/started"}}}}
		},
		"a Service with annotations": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{http}
			b.Spec.Deployment.Service = &v1alpha1.Service{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"lb.example.com/scheme": "internal"}}
		},
		"an Ingress": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}, http}
			b.Spec.Deployment.Service = &v1alpha1.Service{}
			b.Spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "shop.example.com"}
		},
		"an Ingress with TLS, a class and annotations": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{http}
			b.Spec.Deployment.Service = &v1alpha1.Service{}
			b.Spec.Deployment.Ingress = &v1alpha1.Ingress{
				Host: "shop.example.com", ClassName: "nginx", TLSSecretName: "shop-tls",
				Annotations: map[string]string{"cert-manager.io/cluster-issuer": "letsencrypt"},
			}
		},
		"an application that outlives its Build": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{http}
			b.Spec.Deployment.Service = &v1alpha1.Service{}
			b.Spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "shop.example.com"}
			b.Spec.Deployment.DeletionPolicy = v1alpha1.DeletionPolicyRetain
		},
		"a template with a sidecar": func(b *v1alpha1.Build) {
			b.Spec.Deployment.Ports = []v1alpha1.Port{http}
			b.Spec.Deployment.ContainerName = "web"
			withSpec(`
containers:
- {name: web, volumeMounts: [{name: logs, mountPath: /var/log}]}
- {name: shipper, image: "shipper:1", volumeMounts: [{name: logs, mountPath: /var/log, readOnly: true}]}
volumes: [{name: logs, emptyDir: {}}]
`)(b)
			b.Spec.Deployment.Template.Metadata = &v1alpha1.PodMetadata{Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"scrape": "true"}}
		},
		"a redeployment": func(b *v1alpha1.Build) {
			b.Annotations = map[string]string{v1alpha1.RedeployAnnotation: "2026-01-02"}
		},
	}, func(change func(*v1alpha1.Build)) []any {
		build := deployed(change)
		objects := []any{theDeployment(t, build, pushed)}
		if build.Spec.Deployment.Service != nil {
			objects = append(objects, Service(build))
		}
		if build.Spec.Deployment.Ingress != nil {
			objects = append(objects, Ingress(build))
		}
		return objects
	})
}

// golden compares what made makes of each case with testdata/<dir>/<case>.yaml.
func golden(t *testing.T, dir string, cases map[string]func(*v1alpha1.Build), made func(func(*v1alpha1.Build)) []any) {
	t.Helper()
	dir = filepath.Join("testdata", dir)
	files := map[string]bool{}
	for name, change := range cases {
		file := filepath.Join(dir, strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-")+".yaml")
		files[file] = true
		t.Run(name, func(t *testing.T) { compare(t, file, made(change)) })
	}
	there, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		if !files[file] {
			t.Errorf("%s belongs to no case", file)
		}
	}
}

func compare(t *testing.T, file string, objects []any) {
	t.Helper()
	var documents []string
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(document))
	}
	got := strings.Join(documents, "---\n")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run the test with -update and read what it writes", err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d:\n got %s\nwant %s\nIf that is meant, run the test with -update.", file, i+1, gotLines[i], wantLines[i])
		}
	}
	t.Fatalf("%s has %d lines, got %d", file, len(wantLines), len(gotLines))
}
