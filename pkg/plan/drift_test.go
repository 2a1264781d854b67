package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/applyconfigurations"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// aDeployment asks for something of every kind of field.
func aDeployment() *v1alpha1.Build {
	return deployed(func(b *v1alpha1.Build) {
		b.Spec.Image.SecretName = "regcred"
		b.Spec.Deployment.Replicas = ptr.To[int32](2)
		b.Spec.Deployment.Ports = []v1alpha1.Port{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}}
		b.Spec.Deployment.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
		b.Spec.Deployment.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Mi")}}
		b.Spec.Deployment.Service = &v1alpha1.Service{Type: corev1.ServiceTypeClusterIP}
	})
}

// theDeployment is what a new one of the Build should be.
func theDeployment(t *testing.T, build *v1alpha1.Build, image string) *appsv1ac.DeploymentApplyConfiguration {
	t.Helper()
	deployment, err := Deployment(build, image, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deployment
}

func TestADeploymentIsAppliedAgainWhenItDiffers(t *testing.T) {
	app := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	for name, c := range map[string]struct {
		live func(*appsv1.Deployment) // what became of it since it was applied
		want func(*v1alpha1.Build)    // what is asked for since then
		is   bool
	}{
		"nothing happened": {},

		"an owned field was changed":                  {live: func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](5) }, is: true},
		"an owned field was taken away":               {live: func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, is: true},
		"the image was changed":                       {live: func(d *appsv1.Deployment) { app(d).Image = "evil" }, is: true},
		"an owned label was changed":                  {live: func(d *appsv1.Deployment) { d.Labels[v1alpha1.ManagedByLabel] = "x" }, is: true},
		"all labels were taken away":                  {live: func(d *appsv1.Deployment) { d.Labels = nil }, is: true},
		"the owner was taken away":                    {live: func(d *appsv1.Deployment) { d.OwnerReferences = nil }, is: true},
		"an env of ours was changed":                  {live: func(d *appsv1.Deployment) { app(d).Env[1].Value = "3" }, is: true},
		"an env of ours was taken away":               {live: func(d *appsv1.Deployment) { app(d).Env = app(d).Env[:1] }, is: true},
		"an env of ours got its value from elsewhere": {live: func(d *appsv1.Deployment) { app(d).Env[0].Value = "" }, is: true},
		"a port of ours was changed":                  {live: func(d *appsv1.Deployment) { app(d).Ports[0].ContainerPort = 81 }, is: true},
		"a limit was raised":                          {live: func(d *appsv1.Deployment) { app(d).Resources.Limits["cpu"] = resource.MustParse("2") }, is: true},
		"the probe was taken away":                    {live: func(d *appsv1.Deployment) { app(d).ReadinessProbe = nil }, is: true},
		"the pull Secret was taken away":              {live: func(d *appsv1.Deployment) { d.Spec.Template.Spec.ImagePullSecrets = nil }, is: true},
		"our container was renamed":                   {live: func(d *appsv1.Deployment) { app(d).Name = "x" }, is: true},
		"the mark of what was applied was lost":       {live: func(d *appsv1.Deployment) { d.Annotations = nil }, is: true},
		"the mark of what was applied was changed":    {live: func(d *appsv1.Deployment) { d.Annotations[v1alpha1.AppliedAnnotation] = "x" }, is: true},

		"less is asked for than before": {want: func(b *v1alpha1.Build) { b.Spec.Deployment.Env = b.Spec.Deployment.Env[:1] }, is: true},
		"replicas are no longer ours":   {want: func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = nil }, is: true},
		"more is asked for than before": {want: func(b *v1alpha1.Build) {
			b.Spec.Deployment.Env = append(b.Spec.Deployment.Env, corev1.EnvVar{Name: "C"})
		}, is: true},

		"others added labels and annotations": {live: func(d *appsv1.Deployment) {
			d.Labels["team"], d.Annotations["deployment.kubernetes.io/revision"] = "x", "7"
		}},
		"others added a sidecar before ours": {live: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "p"}}, d.Spec.Template.Spec.Containers...)
		}},
		"others added an env and a volume": {live: func(d *appsv1.Deployment) {
			app(d).Env = append([]corev1.EnvVar{{Name: "Z", Value: "z"}}, app(d).Env...)
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v"}}
		}},
		"others added an owner and a finalizer": {live: func(d *appsv1.Deployment) {
			d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{Name: "x"})
			d.Finalizers = []string{"x/y"}
		}},
		"others added a limit of another kind": {live: func(d *appsv1.Deployment) {
			app(d).Resources.Limits["ephemeral-storage"] = resource.MustParse("1Gi")
		}},
		"the server filled defaults in": {live: func(d *appsv1.Deployment) {
			d.UID, d.ResourceVersion, d.Generation, d.CreationTimestamp = "uid", "12", 3, metav1.Unix(1_800_000_000, 0)
			d.Spec.RevisionHistoryLimit = ptr.To[int32](10)
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromString("25%"))}}
			pod := &d.Spec.Template.Spec
			pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName, pod.SecurityContext = "Always", "ClusterFirst", "default-scheduler", &corev1.PodSecurityContext{}
			app(d).ImagePullPolicy, app(d).TerminationMessagePath = corev1.PullIfNotPresent, "/dev/termination-log"
			app(d).ReadinessProbe.TimeoutSeconds, app(d).ReadinessProbe.SuccessThreshold, app(d).ReadinessProbe.FailureThreshold = 1, 1, 3
		}},
		"the rollout went on": {live: func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 1} }},
		"quantities come back in another form": {live: func(d *appsv1.Deployment) {
			app(d).Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			live := applied[appsv1.Deployment](t, theDeployment(t, aDeployment(), pushed))
			if c.live != nil {
				c.live(live)
			}
			build := aDeployment()
			if c.want != nil {
				c.want(build)
			}
			if got := Differs(theDeployment(t, build, pushed), live); got != c.is {
				t.Errorf("differs is %v, want %v", got, c.is)
			}
		})
	}
}

// Without a second owner of the field the API server would set the replicas back to 1.
func TestReplicasAreHandedOverBeforeTheyAreLeftOut(t *testing.T) {
	without := func(b *v1alpha1.Build) { b.Spec.Deployment.Replicas = nil }
	for name, c := range map[string]struct {
		applied, asked func(*v1alpha1.Build) // nil: with replicas
		live           func(*appsv1.Deployment)
		is             bool
	}{
		"still asked for":                       {},
		"asked for no more":                     {asked: without, is: true},
		"never asked for":                       {applied: without, asked: without},
		"asked for now":                         {applied: without},
		"asked for no more, an autoscaler set":  {asked: without, live: func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) }, is: true},
		"asked for no more, and there are none": {asked: without, live: func(d *appsv1.Deployment) { d.Spec.Replicas = nil }},
		"asked for no more, the mark was lost":  {asked: without, live: func(d *appsv1.Deployment) { d.Annotations = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := aDeployment(), aDeployment()
			if c.applied != nil {
				c.applied(before)
			}
			if c.asked != nil {
				c.asked(after)
			}
			live := applied[appsv1.Deployment](t, theDeployment(t, before, pushed))
			live.UID = "live"
			if c.live != nil {
				c.live(live)
			}
			got := Handover(after, pushed, live)
			if (got != nil) != c.is {
				t.Fatalf("hands over %v", got)
			}
			if got != nil && (*got.Spec.Replicas != *live.Spec.Replicas || *got.UID != "live" || got.Spec.Template != nil) {
				t.Errorf("hands over %+v", got)
			}
		})
	}
}

func TestADeploymentOfAnotherImageDiffers(t *testing.T) {
	if live := applied[appsv1.Deployment](t, theDeployment(t, aDeployment(), pushed)); !Differs(theDeployment(t, aDeployment(), "other"), live) {
		t.Error("it does not")
	}
}

func TestAServiceIsAppliedAgainWhenItDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		live func(*corev1.Service)
		want func(*v1alpha1.Build)
		is   bool
	}{
		"nothing happened":            {},
		"a port was changed":          {live: func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, is: true},
		"a port was taken away":       {live: func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] }, is: true},
		"the selector was changed":    {live: func(s *corev1.Service) { s.Spec.Selector[v1alpha1.AppLabel] = "x" }, is: true},
		"the selector got a key more": {live: func(s *corev1.Service) { s.Spec.Selector["x"] = "y" }, is: true},
		"the type was changed":        {live: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }, is: true},
		"another type is asked for":   {want: func(b *v1alpha1.Build) { b.Spec.Deployment.Service.Type = corev1.ServiceTypeNodePort }, is: true},
		"a port is asked for no more": {want: func(b *v1alpha1.Build) { b.Spec.Deployment.Ports = b.Spec.Deployment.Ports[:1] }, is: true},
		"the server filled defaults in": {live: func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.SessionAffinity = "10.0.0.1", []string{"10.0.0.1"}, corev1.ServiceAffinityNone
			s.Spec.Ports[0].NodePort = 30080
		}},
	} {
		t.Run(name, func(t *testing.T) {
			live := applied[corev1.Service](t, Service(aDeployment()))
			if c.live != nil {
				c.live(live)
			}
			build := aDeployment()
			if c.want != nil {
				c.want(build)
			}
			if got := Differs(Service(build), live); got != c.is {
				t.Errorf("differs is %v, want %v", got, c.is)
			}
		})
	}
}

func TestAPartOfTheTemplateIsAppliedAgainWhenItDiffers(t *testing.T) {
	build := func() *v1alpha1.Build {
		build := aDeployment()
		withSpec(`
tolerations: [{key: a, operator: Exists}]
nodeSelector: {disk: ssd}
hostAliases: [{ip: 192.0.2.1, hostnames: [db]}]
affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaceSelector: {matchLabels: {a: b}}}]}}
topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]
securityContext: {runAsUser: 1000}
containers: [{name: app, args: [one, two], env: [{name: KEY, valueFrom: {secretKeyRef: {name: shop, key: key}}}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]
`)(build)
		return build
	}
	for name, c := range map[string]struct {
		live func(*corev1.PodSpec)
		is   bool
	}{
		"nothing happened":                     {live: func(*corev1.PodSpec) {}},
		"the args were put into another order": {live: func(p *corev1.PodSpec) { p.Containers[0].Args = []string{"two", "one"} }, is: true},
		"an arg was added":                     {live: func(p *corev1.PodSpec) { p.Containers[0].Args = append(p.Containers[0].Args, "three") }, is: true},
		"a toleration was added":               {live: func(p *corev1.PodSpec) { p.Tolerations = append(p.Tolerations, corev1.Toleration{Key: "b"}) }, is: true},
		"a toleration of ours got a value":     {live: func(p *corev1.PodSpec) { p.Tolerations[0].Operator = corev1.TolerationOpEqual }, is: true},
		"the node selector got a key more":     {live: func(p *corev1.PodSpec) { p.NodeSelector["x"] = "y" }, is: true},
		"a label selector got a key more":      {live: func(p *corev1.PodSpec) { p.TopologySpreadConstraints[0].LabelSelector.MatchLabels["x"] = "y" }, is: true},
		"a namespace selector got a key more": {live: func(p *corev1.PodSpec) {
			p.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector.MatchLabels["x"] = "y"
		}, is: true},
		"a key of a Secret was made optional":  {live: func(p *corev1.PodSpec) { p.Containers[0].Env[0].ValueFrom.SecretKeyRef.Optional = ptr.To(true) }, is: true},
		"a hostname was added to an alias":     {live: func(p *corev1.PodSpec) { p.HostAliases[0].Hostnames = append(p.HostAliases[0].Hostnames, "x") }, is: true},
		"the server filled a default in":       {live: func(p *corev1.PodSpec) { p.Containers[0].Env[1].ValueFrom.FieldRef.APIVersion = "v1" }},
		"others added an alias":                {live: func(p *corev1.PodSpec) { p.HostAliases = append(p.HostAliases, corev1.HostAlias{IP: "192.0.2.2"}) }},
		"others added to the security context": {live: func(p *corev1.PodSpec) { p.SecurityContext.FSGroup = ptr.To[int64](1) }},
		"others added a constraint of topology": {live: func(p *corev1.PodSpec) {
			p.TopologySpreadConstraints = append(p.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: "node"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			desired := theDeployment(t, build(), pushed)
			live := applied[appsv1.Deployment](t, desired)
			c.live(&live.Spec.Template.Spec)
			if got := Differs(desired, live); got != c.is {
				t.Errorf("differs is %v, want %v", got, c.is)
			}
		})
	}
}

func TestAnIngressIsAppliedAgainWhenItDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		live func(*networkingv1.Ingress)
		want func(*v1alpha1.Ingress)
		is   bool
	}{
		"nothing happened":     {},
		"the host was changed": {live: func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "x.example.com" }, is: true},
		"a rule was added": {live: func(i *networkingv1.Ingress) {
			i.Spec.Rules = append(i.Spec.Rules, networkingv1.IngressRule{Host: "x"})
		}, is: true},
		"the Service was changed":        {live: func(i *networkingv1.Ingress) { i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = "x" }, is: true},
		"TLS was taken away":             {live: func(i *networkingv1.Ingress) { i.Spec.TLS = nil }, is: true},
		"a host with TLS was added":      {live: func(i *networkingv1.Ingress) { i.Spec.TLS[0].Hosts = append(i.Spec.TLS[0].Hosts, "x") }, is: true},
		"the class was taken away":       {live: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = nil }, is: true},
		"an annotation was taken away":   {live: func(i *networkingv1.Ingress) { delete(i.Annotations, "a") }, is: true},
		"an annotation was changed":      {live: func(i *networkingv1.Ingress) { i.Annotations["a"] = "x" }, is: true},
		"the owner was taken away":       {live: func(i *networkingv1.Ingress) { i.OwnerReferences = nil }, is: true},
		"another host is asked for":      {want: func(i *v1alpha1.Ingress) { i.Host = "x.example.com" }, is: true},
		"no TLS is asked for":            {want: func(i *v1alpha1.Ingress) { i.TLSSecretName = "" }, is: true},
		"no annotation is asked for":     {want: func(i *v1alpha1.Ingress) { i.Annotations = nil }, is: true},
		"no class is asked for any more": {want: func(i *v1alpha1.Ingress) { i.ClassName = "" }, is: true},
		"others added labels and annotations": {live: func(i *networkingv1.Ingress) {
			i.Labels["team"], i.Annotations["cert-manager.io/issued"] = "x", "y"
		}},
		"its controller gave it an address": {live: func(i *networkingv1.Ingress) {
			i.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := aDeployment(), aDeployment()
			for _, b := range []*v1alpha1.Build{before, after} {
				b.Spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "shop.example.com", ClassName: "nginx", TLSSecretName: "shop-tls", Annotations: map[string]string{"a": "b"}}
			}
			live := applied[networkingv1.Ingress](t, Ingress(before))
			if c.live != nil {
				c.live(live)
			}
			if c.want != nil {
				c.want(after.Spec.Deployment.Ingress)
			}
			if got := Differs(Ingress(after), live); got != c.is {
				t.Errorf("differs is %v, want %v", got, c.is)
			}
		})
	}
}

// The schema that comes with client-go has the markers listType, mapType and structType of the API.
func TestWhatServerSideApplyMergesIsMergedHereToo(t *testing.T) {
	merged, whole := map[string]bool{}, map[string]bool{} // what the schema says, by the name of a field
	keys := map[string]map[string]bool{}
	walk := func(object runtime.Object) {
		typed, err := applyconfigurations.NewTypeConverter(scheme.Scheme).ObjectToTyped(object)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		var walk func(name string, ref schema.TypeRef)
		walk = func(name string, ref schema.TypeRef) {
			if id := fmt.Sprint(name, " ", ptr.Deref(ref.NamedType, "")); ref.NamedType != nil {
				if seen[id] {
					return
				}
				seen[id] = true
			}
			atom, ok := typed.Schema().Resolve(ref)
			if !ok {
				t.Fatalf("the schema has no %s", name)
			}
			if list := atom.List; list != nil {
				// Its entries are objects if they have keys; others are sets of words, of which we write none.
				isMerged := list.ElementRelationship == schema.Associative && len(list.Keys) > 0
				if was, again := merged[name]; again && was != isMerged {
					t.Errorf("%s is merged in one place and not in another", name)
				}
				merged[name] = isMerged
				for _, key := range list.Keys {
					if keys[name] == nil {
						keys[name] = map[string]bool{}
					}
					keys[name][key] = true
				}
				walk("", list.ElementType)
			}
			if atom.Map != nil {
				whole[name] = whole[name] || atom.Map.ElementRelationship == schema.Atomic && len(atom.Map.Fields) == 0
				for _, field := range atom.Map.Fields {
					if field.Name != "status" && field.Name != "managedFields" {
						walk(field.Name, field.Type)
					}
				}
				walk("", atom.Map.ElementType)
			}
		}
		walk("", typed.TypeRef())
	}
	walk(&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}})
	walk(&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}})
	walk(&networkingv1.Ingress{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}})

	for name, is := range merged {
		if (mergedLists[name] != nil) != is {
			t.Errorf("the list %s is merged by the API server: %v, by us: %v", name, is, mergedLists[name])
		}
	}
	for name, ours := range mergedLists {
		if want := slices.Sorted(maps.Keys(keys[name])); !slices.Equal(want, slices.Sorted(slices.Values(ours))) {
			t.Errorf("the entries of %s have their names in %q, not %q", name, want, ours)
		}
	}
	for name, is := range whole {
		if is && !wholeMaps[name] {
			t.Errorf("the map %s is taken as a whole by the API server, not by us", name)
		}
	}
}

// What a watch or a list gives has no kind and no apiVersion.
func TestObjectsOfAListDoNotDiffer(t *testing.T) {
	live := applied[appsv1.Deployment](t, theDeployment(t, aDeployment(), pushed))
	live.TypeMeta = metav1.TypeMeta{}
	if Differs(theDeployment(t, aDeployment(), pushed), live) {
		t.Error("they do")
	}
}

func TestTheFingerprintIsTheSameEveryTime(t *testing.T) {
	want := theDeployment(t, aDeployment(), pushed).Annotations[v1alpha1.AppliedAnnotation]
	for range 20 { // maps have no order
		if got := theDeployment(t, aDeployment(), pushed).Annotations[v1alpha1.AppliedAnnotation]; got != want || got == "" {
			t.Fatalf("fingerprint is %q, want %q", got, want)
		}
	}
}

// applied is the object that an API server makes of an apply configuration when there was none.
func applied[T any](t *testing.T, configuration any) *T {
	t.Helper()
	object := new(T)
	encoded, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(encoded, object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}
