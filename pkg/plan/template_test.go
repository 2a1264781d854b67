package plan

import (
	"encoding/json"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// withSpec gives the Build a template whose spec is this text.
func withSpec(text string) func(*v1alpha1.Build) {
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	return func(b *v1alpha1.Build) {
		b.Spec.Deployment.Template = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: encoded}}
	}
}

func withMetadata(metadata v1alpha1.PodMetadata) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) { b.Spec.Deployment.Template = &v1alpha1.PodTemplate{Metadata: &metadata} }
}

// made is the live Deployment that comes of the Build, or what is wrong with its template. In no case must a Build panic: all
// others would go down with it.
func made(t *testing.T, build *v1alpha1.Build) (live *appsv1.Deployment, failure *v1alpha1.Failure) {
	t.Helper()
	defer func() {
		if reason := recover(); reason != nil {
			t.Fatalf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	desired, failure := Deployment(build, pushed, nil)
	if failure != nil {
		return nil, failure
	}
	live = applied[appsv1.Deployment](t, desired)
	if Differs(desired, live) {
		t.Errorf("it would be applied again and again:\n%v\n%v", tree(desired), tree(live))
	}
	return live, nil
}

func appOf(pod *corev1.PodTemplateSpec) *corev1.Container {
	return &pod.Spec.Containers[slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == v1alpha1.AppContainer })]
}

func TestTheTemplateIsMergedOverTheGeneratedPod(t *testing.T) {
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}
	get := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}
	run := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	drain := &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drainSeconds}}
	for name, c := range map[string]struct {
		template func(*v1alpha1.Build)
		build    func(*v1alpha1.Build)
		want     func(*corev1.PodTemplateSpec) // what becomes of the pods that there would be without it
	}{
		"an empty template changes nothing": {template: withSpec(`{}`)},
		"a sidecar and a volume are added, after the application": {
			template: withSpec(`{containers: [{name: proxy, image: proxy:1}], volumes: [{name: tmp, emptyDir: {}}]}`),
			want: func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
				p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			},
		},
		"a sidecar that starts first and runs on is added": {
			template: withSpec(`{initContainers: [{name: mesh, image: mesh:1, restartPolicy: Always}]}`),
			want: func(p *corev1.PodTemplateSpec) {
				p.Spec.InitContainers = []corev1.Container{{Name: "mesh", Image: "mesh:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
			},
		},
		"the application's container gets a mount and an env": {
			template: withSpec(`{containers: [{name: app, volumeMounts: [{name: tmp, mountPath: /tmp}], env: [{name: C, value: "3"}]}]}`),
			want: func(p *corev1.PodTemplateSpec) {
				appOf(p).VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
				appOf(p).Env = append([]corev1.EnvVar{{Name: "C", Value: "3"}}, appOf(p).Env...)
			},
		},
		"an env of ours gets another value": {
			template: withSpec(`{containers: [{name: app, env: [{name: B, value: "3"}]}]}`),
			want:     func(p *corev1.PodTemplateSpec) { appOf(p).Env[1].Value = "3" },
		},
		"a container with another name is the application's": {
			template: withSpec(`{containers: [{name: web, tty: true}]}`),
			build:    func(b *v1alpha1.Build) { b.Spec.Deployment.ContainerName = "web" },
			want:     func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].TTY = true },
		},
		"app is a sidecar like any other when the application's container is named otherwise": {
			template: withSpec(`{containers: [{name: web}, {name: app, image: other:1}]}`),
			build:    func(b *v1alpha1.Build) { b.Spec.Deployment.ContainerName = "web" },
			want: func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "app", Image: "other:1"})
			},
		},

		"a probe takes the place of the generated one": {
			template: withSpec(`{containers: [{name: app, readinessProbe: {httpGet: {path: /ready, port: http}}}]}`),
			want:     func(p *corev1.PodTemplateSpec) { appOf(p).ReadinessProbe = &corev1.Probe{ProbeHandler: get} },
		},
		"a probe takes the place of the one in its own field": {
			template: withSpec(`{containers: [{name: app, readinessProbe: {httpGet: {path: /ready, port: http}}}]}`),
			build: func(b *v1alpha1.Build) {
				b.Spec.Deployment.ReadinessProbe = &corev1.Probe{ProbeHandler: tcp, PeriodSeconds: 9}
			},
			want: func(p *corev1.PodTemplateSpec) { appOf(p).ReadinessProbe = &corev1.Probe{ProbeHandler: get} },
		},
		"a probe of another kind leaves the generated one": {
			template: withSpec(`{containers: [{name: app, livenessProbe: {httpGet: {path: /ready, port: http}}}]}`),
			want:     func(p *corev1.PodTemplateSpec) { appOf(p).LivenessProbe = &corev1.Probe{ProbeHandler: get} },
		},
		"null takes the generated probe away": {
			template: withSpec(`{containers: [{name: app, readinessProbe: null}]}`),
			want:     func(p *corev1.PodTemplateSpec) { appOf(p).ReadinessProbe = nil },
		},
		"a preStop hook takes the place of the generated one": {
			template: withSpec(`{containers: [{name: app, lifecycle: {preStop: {exec: {command: ["true"]}}}}]}`),
			want:     func(p *corev1.PodTemplateSpec) { appOf(p).Lifecycle = &corev1.Lifecycle{PreStop: run} },
		},
		"a postStart hook stands beside the generated preStop": {
			template: withSpec(`{containers: [{name: app, lifecycle: {postStart: {exec: {command: ["true"]}}}}]}`),
			want: func(p *corev1.PodTemplateSpec) {
				appOf(p).Lifecycle = &corev1.Lifecycle{PostStart: run, PreStop: drain}
			},
		},
		"null takes all hooks away": {
			template: withSpec(`{containers: [{name: app, lifecycle: null}]}`),
			want:     func(p *corev1.PodTemplateSpec) { appOf(p).Lifecycle = nil },
		},
		"null takes the generated preStop away": {
			template: withSpec(`{containers: [{name: app, lifecycle: {preStop: null}}]}`),
			want:     func(p *corev1.PodTemplateSpec) { appOf(p).Lifecycle = &corev1.Lifecycle{} },
		},

		"labels and annotations are added": {
			template: withMetadata(v1alpha1.PodMetadata{Labels: map[string]string{"team": "x"}, Annotations: map[string]string{"scrape": "true"}}),
			want: func(p *corev1.PodTemplateSpec) {
				p.Labels["team"], p.Annotations = "x", map[string]string{"scrape": "true"}
			},
		},
		"null takes the Secret for pulls away": {
			template: withSpec(`{imagePullSecrets: null}`),
			want:     func(p *corev1.PodTemplateSpec) { p.Spec.ImagePullSecrets = nil },
		},
		"another Secret for pulls stands beside the generated one": {
			template: withSpec(`{imagePullSecrets: [{name: other}]}`),
			want: func(p *corev1.PodTemplateSpec) {
				p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "other"}, {Name: "regcred"}}
			},
		},

		"everything that has no field of its own": {
			template: withSpec(`
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]}}
tolerations: [{key: gpu, operator: Exists}]
nodeSelector: {disk: ssd}
securityContext: {runAsNonRoot: true, runAsUser: 1000}
serviceAccountName: shop
priorityClassName: high
hostAliases: [{ip: 192.0.2.1, hostnames: [db]}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
terminationGracePeriodSeconds: 60
containers: [{name: app, securityContext: {readOnlyRootFilesystem: true}, args: [--verbose], resources: {requests: {cpu: 0.5}}}]
`),
			want: func(p *corev1.PodTemplateSpec) {
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
				}}}
				p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
				p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
				p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000)}
				p.Spec.ServiceAccountName, p.Spec.PriorityClassName = "shop", "high"
				p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"db"}}}
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}
				p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
				appOf(p).SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
				appOf(p).Args = []string{"--verbose"}
				appOf(p).Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("500m")}
			},
		},
		// made says whether the API server would store them otherwise.
		"values that are the same as none are left out": {
			template: withSpec(`
hostNetwork: false
priorityClassName: ""
nodeSelector: {}
tolerations: []
initContainers: [{name: init, image: i, resources: {}, tty: false}]
containers:
- {name: app, stdin: false, workingDir: "", command: [], env: [{name: A, value: ""}], readinessProbe: {tcpSocket: {port: http}, initialDelaySeconds: 0}}
`),
			want: func(p *corev1.PodTemplateSpec) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
				appOf(p).Env[0].Value, appOf(p).ReadinessProbe = "", &corev1.Probe{ProbeHandler: tcp}
			},
		},
		"values that are not the same as none stay": {
			template: withSpec(`
automountServiceAccountToken: false
terminationGracePeriodSeconds: 0
securityContext: {}
containers: [{name: app, securityContext: {privileged: false, runAsUser: 0}}]
volumes: [{name: tmp, emptyDir: {sizeLimit: "0"}}]
`),
			want: func(p *corev1.PodTemplateSpec) {
				p.Spec.AutomountServiceAccountToken, p.Spec.TerminationGracePeriodSeconds = ptr.To(false), ptr.To[int64](0)
				p.Spec.SecurityContext = &corev1.PodSecurityContext{}
				appOf(p).SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(false), RunAsUser: ptr.To[int64](0)}
				p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("0"))}}}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pods := func(change ...func(*v1alpha1.Build)) *corev1.PodTemplateSpec {
				build := aDeployment()
				for _, f := range append(change, c.build) {
					if f != nil {
						f(build)
					}
				}
				live, failure := made(t, build)
				if failure != nil {
					t.Fatal(failure.Message)
				}
				pod := live.Spec.Template.DeepCopy()
				delete(pod.Annotations, v1alpha1.RolloutAnnotation)
				return pod
			}
			want, got := pods(), pods(c.template)
			if c.want != nil {
				c.want(want)
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got\n%s\nwant\n%s", asYAML(t, got), asYAML(t, want))
			}
		})
	}
}

func asYAML(t *testing.T, object any) string {
	t.Helper()
	encoded, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func TestATemplateIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		template func(*v1alpha1.Build)
		says     string // which field is wrong
	}{
		"a field that does not exist":                  {withSpec(`{tolerationz: []}`), `"spec.tolerationz"`},
		"a field of a container that does not exist":   {withSpec(`{containers: [{name: app, imagePullPolcy: Always}]}`), `"spec.containers[0].imagePullPolcy"`},
		"text where a switch belongs":                  {withSpec(`{hostNetwork: "yes"}`), "spec.hostNetwork"},
		"a number where text belongs":                  {withSpec(`{containers: [{name: app, env: [{name: A, value: 1}]}]}`), "spec.containers.env.value"},
		"a map where a list belongs":                   {withSpec(`{containers: {name: app}}`), "spec.containers"},
		"a list where a map belongs":                   {withSpec(`{nodeSelector: [disk]}`), "spec.nodeSelector"},
		"text where an entry of a list belongs":        {withSpec(`{containers: [{name: app, env: [A]}]}`), "env"},
		"nothing where an entry of a list belongs":     {withSpec(`{containers: [null]}`), "containers"},
		"text where a quantity belongs":                {withSpec(`{containers: [{name: app, resources: {limits: {cpu: much}}}]}`), `spec.containers[0].resources.limits.cpu: "much"`},
		"a quantity that takes hours to parse":         {withSpec(`{containers: [{name: app, resources: {limits: {cpu: "1e-100000000"}}}]}`), `resources.limits.cpu: "1e-100000000"`},
		"such a quantity where few people look":        {withSpec(`{overhead: {cpu: "1e-100000000"}}`), "overhead.cpu"},
		"such a quantity as a divisor":                 {withSpec(`{containers: [{name: app, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "1e-100000000"}}}]}]}`), "divisor"},
		"thousands of levels":                          {withSpec(`{affinity: ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`), "nested deeper than 40 levels"},
		"two env of one name":                          {withSpec(`{containers: [{name: x, image: x, env: [{name: A}, {name: A}]}]}`), "spec.containers[0].env[1] has the name of another"},
		"two ports, one with its protocol":             {withSpec(`{containers: [{name: x, image: x, ports: [{containerPort: 1}, {containerPort: 1, protocol: TCP}]}]}`), "ports[1] has the name of another"},
		"a container without a name":                   {withSpec(`{containers: [{image: x}]}`), "name"},
		"containers whose names are maps":              {withSpec(`{containers: [{name: {}}, {name: {}}]}`), "name"},
		"containers whose names are lists":             {withSpec(`{containers: [{name: []}, {name: []}]}`), "name"},
		"a container twice, with empty ports":          {withSpec(`{containers: [{name: x, ports: [null]}, {name: x, ports: [null]}]}`), "ports"},
		"a spec that is a list":                        {withSpec(`[containers]`), "spec must be a part of a pod's spec"},
		"a spec that is a text":                        {withSpec(`containers`), "spec must be a part of a pod's spec"},
		"an image for the application's container":     {withSpec(`{containers: [{name: app, image: other}]}`), "the container app is the application's"},
		"no image for the application's container":     {withSpec(`{containers: [{name: app, image: null}]}`), "the container app is the application's"},
		"all containers are deleted":                   {withSpec(`{containers: null}`), "the container app is the application's"},
		"our label is changed":                         {withMetadata(v1alpha1.PodMetadata{Labels: map[string]string{v1alpha1.AppLabel: "x"}}), v1alpha1.AppLabel},
		"all labels are replaced":                      {withMetadata(v1alpha1.PodMetadata{Labels: map[string]string{"$patch": "replace"}}), "metadata.labels.$patch is not supported"},
		"another directive among the labels":           {withMetadata(v1alpha1.PodMetadata{Labels: map[string]string{"$retainKeys": "x"}}), "retainKeys"},
		"a directive":                                  {withSpec(`{containers: [{name: app, $patch: delete}]}`), "spec.containers[0].$patch is not supported"},
		"an order of elements":                         {withSpec(`{$setElementOrder/containers: [{name: app}]}`), "$setElementOrder/containers is not supported"},
		"a deletion of primitives, deep inside":        {withSpec(`{containers: [{name: app, $deleteFromPrimitiveList/args: [x]}]}`), "$deleteFromPrimitiveList/args is not supported"},
		"keys to retain, in what is not merged at all": {withSpec(`{volumes: [{name: a, $retainKeys: [name]}]}`), "$retainKeys is not supported"},
		"more wrong fields than fit into a status":     {withSpec(`{tolerations: [` + strings.Repeat("{"+strings.Repeat("x", 500)+": 1}, ", 100) + `]}`), "spec.tolerations[0].xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			_, failure := made(t, deployed(func(b *v1alpha1.Build) { b.Spec.Deployment.Env = []corev1.EnvVar{{Name: "A", Value: "a value"}} }, c.template))
			if failure == nil {
				t.Fatal("it is not")
			}
			if failure.Step != v1alpha1.StepDeploy || failure.Reason != v1alpha1.FailureInvalidTemplate || !strings.HasPrefix(failure.Message, "spec.deployment.template cannot be merged: ") {
				t.Errorf("failure is %+v", failure)
			}
			if _, says, _ := strings.Cut(failure.Message, "merged: "); !strings.Contains(says, c.says) {
				t.Errorf("%.300q does not say %q", failure.Message, c.says)
			}
			// The message of a condition holds 32768 characters: with more the status could not be written at all.
			if len(failure.Message) > 2000 || strings.Contains(failure.Message, "\n") {
				t.Errorf("the message is not one short line, but %d characters: %.300q", len(failure.Message), failure.Message)
			}
			if strings.Contains(failure.Message, "a value") {
				t.Errorf("%q shows the value of an env", failure.Message)
			}
		})
	}
}

// rollout is the hash of what the pods of the Build are asked to be.
func rollout(t *testing.T, build *v1alpha1.Build, image string) string {
	t.Helper()
	return theDeployment(t, build, image).Spec.Template.Annotations[v1alpha1.RolloutAnnotation]
}

func TestThePodsAreReplacedWhenTheyAreToBeOthersAndOnlyThen(t *testing.T) {
	base := rollout(t, aDeployment(), pushed)
	if base == "" || rollout(t, aDeployment(), "other") == base {
		t.Errorf("another image has the hash %q too", base)
	}
	for name, c := range map[string]struct {
		change   func(*v1alpha1.Build)
		replaced bool
	}{
		"nothing":                       {func(*v1alpha1.Build) {}, false},
		"an env":                        {func(b *v1alpha1.Build) { b.Spec.Deployment.Env[0].Value = "x" }, true},
		"a limit":                       {func(b *v1alpha1.Build) { b.Spec.Deployment.Resources = someResources() }, true},
		"a container's port":            {func(b *v1alpha1.Build) { b.Spec.Deployment.Ports[0].ContainerPort = 81 }, true},
		"a probe":                       {func(b *v1alpha1.Build) { b.Spec.Deployment.LivenessProbe = &corev1.Probe{PeriodSeconds: 9} }, true},
		"the container's name":          {func(b *v1alpha1.Build) { b.Spec.Deployment.ContainerName = "web" }, true},
		"the Secret for pulls":          {func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "other" }, true},
		"the template":                  {withSpec(`{hostNetwork: true}`), true},
		"the template's labels":         {withMetadata(v1alpha1.PodMetadata{Labels: map[string]string{"a": "b"}}), true},
		"the redeploy annotation":       {func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RedeployAnnotation: "1"} }, true},
		"an empty template":             {withSpec(`{}`), false},
		"a template that says the same": {withSpec(`{containers: [{name: app, env: [{name: A, value: "1"}]}], imagePullSecrets: [{name: regcred}]}`), false},
		"an empty redeploy annotation":  {func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RedeployAnnotation: ""} }, false},
		"another annotation":            {func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: "1"} }, false},
		"replicas":                      {func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = ptr.To[int32](5) }, false},
		"the progress deadline":         {func(b *v1alpha1.Build) { b.Spec.Deployment.ProgressDeadline = &metav1.Duration{Duration: time.Hour} }, false},
		"the Service's annotations":     {func(b *v1alpha1.Build) { b.Spec.Deployment.Service.Annotations = map[string]string{"a": "b"} }, false},
		"the Service's port":            {func(b *v1alpha1.Build) { b.Spec.Deployment.Ports[0].ServicePort = 80 }, false},
		"an Ingress":                    {func(b *v1alpha1.Build) { b.Spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "shop.example.com"} }, false},
		"what happens on failure":       {func(b *v1alpha1.Build) { b.Spec.Deployment.OnFailure = v1alpha1.OnFailureKeep }, false},
		"the rollback":                  {func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = "sha256:111111111111" }, false},
		"the deletion policy":           {func(b *v1alpha1.Build) { b.Spec.Deployment.DeletionPolicy = v1alpha1.DeletionPolicyRetain }, false},
		"the adoption":                  {func(b *v1alpha1.Build) { b.Spec.Deployment.Adopt = true }, false},
	} {
		build := aDeployment()
		c.change(build)
		if got := rollout(t, build, pushed); (got != base) != c.replaced {
			t.Errorf("%s: the hash goes from %s to %s", name, base, got)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		`{spec: {containers: [{name: proxy, image: p}, {name: app, env: [{name: A, value: x}], readinessProbe: {exec: {command: [x]}}}], volumes: [{name: a, emptyDir: {}}]}}`,
		`{metadata: {labels: {a: b}, annotations: {c: d}}, spec: {affinity: {nodeAffinity: {}}, hostNetwork: false, imagePullSecrets: null}}`,
		`{spec: {initContainers: [{name: i, image: i, restartPolicy: Always, resources: {limits: {cpu: 0.5, memory: 1e9}}}]}}`,
		`{spec: {volumes: [{name: a, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {}}}}]}}`,
		`{spec: {containers: [{name: app, ports: [{containerPort: 8080, hostPort: 1}, {containerPort: 8080.5}], lifecycle: {preStop: {}}}]}}`,
		// Directives in odd places.
		`{spec: {$patch: delete}}`, `{spec: {$patch: {}}}`, `{spec: {$patch: [merge]}}`, `{spec: {$patch: null}}`,
		`{metadata: {labels: {$patch: delete}, annotations: {$patch: merge, $retainKeys: x}}}`,
		`{spec: {containers: [{name: app, $patch: merge}]}}`, `{spec: {containers: [{$patch: replace}, {$patch: delete, name: app}]}}`,
		`{spec: {containers: [{name: app, env: [{$patch: {}}], ports: [{$patch: delete}], readinessProbe: {$patch: replace}, lifecycle: {$patch: delete}}]}}`,
		`{spec: {securityContext: {$patch: replace, runAsUser: 1}, tolerations: [{$patch: delete}]}}`,
		`{spec: {containers: [{name: app, $retainKeys: [name]}], $setElementOrder/containers: [{}], $deleteFromPrimitiveList/x: [1]}}`,
		// Other types than belong there.
		`{spec: {containers: {name: app}}}`, `{spec: {containers: [[app]]}}`, `{spec: {containers: [app]}}`, `{spec: {containers: [null]}}`, `{spec: []}`, `{spec: null}`,
		`{spec: {containers: [{name: 1}, {name: 1}]}}`, `{spec: {containers: [{name: {}}, {name: {}}]}}`, `{spec: {containers: [{name: []}, {name: null}]}}`,
		`{spec: {containers: [{name: x, ports: [null]}, {name: x, ports: [null]}]}}`, `{spec: {imagePullSecrets: [null, {name: x}]}}`,
		`{spec: {containers: [{name: app, env: [{name: [A]}, {name: [A]}], ports: [{containerPort: {}}, {containerPort: {}}]}]}}`,
		`{spec: {containers: [{name: app, lifecycle: [], readinessProbe: 1, resources: {limits: [cpu]}}]}}`,
		`{spec: {containers: [{name: app, readinessProbe: {httpGet: {}}}, {name: app, readinessProbe: {exec: {}}}]}}`,
		`{spec: {terminationGracePeriodSeconds: 9223372036854775807, securityContext: {runAsUser: -1, sysctls: [null]}}}`,
		`{spec: ` + strings.Repeat(`{affinity: `, 1000) + `{}` + strings.Repeat(`}`, 1000) + `}`,
		`{spec: {containers: ` + strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000) + `}}`,
	} {
		encoded, err := yaml.YAMLToJSON([]byte(seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		build := aDeployment()
		if json.Unmarshal(raw, &build.Spec.Deployment.Template) != nil {
			return
		}
		given := build.DeepCopy()
		live, failure := made(t, build)
		if !reflect.DeepEqual(build, given) {
			t.Error("the Build was changed")
		}
		if failure != nil {
			return
		}
		template := live.Spec.Template
		if template.Labels[v1alpha1.AppLabel] != build.Name || template.Annotations[v1alpha1.RolloutAnnotation] == "" {
			t.Errorf("the pods have the labels %v and annotations %v", template.Labels, template.Annotations)
		}
		if !slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == v1alpha1.AppContainer && c.Image == pushed }) {
			t.Errorf("the image does not run: %+v", template.Spec.Containers)
		}
		if again, _ := made(t, build); !reflect.DeepEqual(live, again) {
			t.Error("it comes out otherwise the second time")
		}
	})
}
