//go:build apitest

package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// deployed is a scene with one Ready Build, shop, and a controller.
func deployed(t *testing.T, changes ...func(*v1alpha1.BuildSpec)) (*scene, *process) {
	t.Helper()
	s := newScene(t, usual)
	controller := startController(t, startOptions{})
	s.create(makeBuild("shop", changes...))
	s.untilReady("shop")
	return s, controller
}

func withEnv(spec *v1alpha1.BuildSpec) {
	spec.Deployment.Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}
}

func noReplicas(spec *v1alpha1.BuildSpec) { spec.Deployment.Replicas = nil }

// withAll asks for something of every kind in each of the objects.
func withAll(spec *v1alpha1.BuildSpec) {
	withEnv(spec)
	spec.Image.SecretName = "regcred"
	spec.Deployment.Service.Type = corev1.ServiceTypeClusterIP
	spec.Deployment.Service.Annotations = map[string]string{"example.com/balancer": "internal"}
	spec.Deployment.Ingress = &v1alpha1.Ingress{
		Host: "shop.example.com", ClassName: "nginx", TLSSecretName: "shop-tls", Annotations: map[string]string{"example.com/issuer": "corp"},
	}
	spec.Deployment.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/live", Port: intstr.FromString("http")}}}
	spec.Deployment.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1000m")}}
	spec.Deployment.Template = &v1alpha1.PodTemplate{
		Metadata: &v1alpha1.PodMetadata{Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"example.com/scrape": "true"}},
		Spec: &runtime.RawExtension{Raw: []byte(`{
			"nodeSelector": {"disk": "ssd"},
			"securityContext": {"runAsUser": 1000, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
			"tolerations": [{"key": "shop", "operator": "Exists"}],
			"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"team": "shop"}}}],
			"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"team": "shop"}}}}]}},
			"initContainers": [{"name": "mesh", "image": "registry.example.com/mesh:1", "restartPolicy": "Always", "args": ["--one", "--two"], "env": [{"name": "EMPTY", "value": ""}]}],
			"containers": [
				{"name": "app", "volumeMounts": [{"name": "work", "mountPath": "/work", "readOnly": false}], "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}},
				{"name": "logs", "image": "registry.example.com/logs:1", "ports": [{"containerPort": 24224}], "envFrom": [{"configMapRef": {"name": "logs", "optional": true}}]}
			],
			"volumes": [
				{"name": "work", "emptyDir": {"sizeLimit": "1024Mi"}},
				{"name": "mix", "projected": {"sources": [{"secret": {"name": "tls", "optional": true}}, {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}
			],
			"terminationGracePeriodSeconds": 40, "hostNetwork": false, "automountServiceAccountToken": false
		}`)},
	}
}

// Every field that is the controller's by the API server's own books is changed, and where that can be, taken away.
func TestEveryOwnedFieldThatIsEditedIsUndoneOnce(t *testing.T) {
	s, controller := deployed(t, withAll)
	for _, resource := range []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "services"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	} {
		t.Run(resource.Resource, func(t *testing.T) {
			objects := cluster.dynamic.Resource(resource).Namespace(s.ns)
			original, err := objects.Get(s.ctx, "shop", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			from, accepted, kept := cluster.audit.here(t), 0, 0
			for _, path := range ownedLeaves(t, original) {
				for _, edit := range []func(map[string]any, fieldpath.Path) bool{changeLeaf, removeLeaf} {
					edited := original.DeepCopy()
					edited.SetResourceVersion("")
					if !edit(edited.Object, path) {
						continue
					}
					stored, err := objects.Update(s.ctx, edited, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
					if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
						kept++ // the API server does not let anyone
						continue
					}
					if err != nil {
						t.Fatalf("%s: %v", path, err)
					}
					if len(differences(original.Object, stored.Object, nil)) == 0 {
						continue // it got the same value by default
					}
					accepted++
					s.until(path.String()+" is as it was", func() error {
						live, err := objects.Get(s.ctx, "shop", metav1.GetOptions{})
						if err != nil {
							return err
						}
						if diff := differences(original.Object, live.Object, nil); len(diff) > 0 {
							return fmt.Errorf("it is not: %v", diff)
						}
						return nil
					})
				}
			}
			untilSeen(t)
			changes := 0
			for _, r := range cluster.audit.since(t, from) {
				if r.by(controller.instance) && r.changed() && r.ObjectRef.Namespace == s.ns && r.ObjectRef.Resource == resource.Resource {
					changes++
				}
			}
			if changes != accepted || accepted == 0 {
				t.Errorf("%d edits were undone by %d changes", accepted, changes)
			}
			t.Logf("%d edits undone by one change each; %d are not possible", accepted, kept)
		})
	}
}

// ownedLeaves are the fields that the controller owns and that have no others below them, but for the owner, which is who may undo
// anything, and the keys of lists: an entry with another key is another entry, and not ours.
func ownedLeaves(t *testing.T, object *unstructured.Unstructured) []fieldpath.Path {
	t.Helper()
	var paths []fieldpath.Path
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != v1alpha1.ManagedBy || entry.Operation != metav1.ManagedFieldsOperationApply {
			continue
		}
		fields, err := entry.FieldsV1.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(fields)); err != nil {
			t.Fatal(err)
		}
		set.Leaves().Iterate(func(path fieldpath.Path) {
			if strings.HasPrefix(path.String(), ".metadata.ownerReferences") {
				return
			}
			last := path[len(path)-1]
			if before := path[len(path)-2]; last.FieldName != nil && before.Key != nil {
				for _, key := range *before.Key {
					if key.Name == *last.FieldName {
						return
					}
				}
			}
			paths = append(paths, path.Copy())
		})
	}
	if len(paths) == 0 {
		t.Fatal("the controller owns nothing")
	}
	return paths
}

// holder returns the map that has the last field of the path.
func holder(object map[string]any, path fieldpath.Path) (map[string]any, string) {
	var at any = object
	for _, element := range path[:len(path)-1] {
		switch {
		case element.FieldName != nil:
			at = at.(map[string]any)[*element.FieldName]
		case element.Key != nil:
			entries := at.([]any)
			at = nil
			for _, entry := range entries {
				if matches(entry.(map[string]any), *element.Key) {
					at = entry
				}
			}
		}
	}
	of, ok := at.(map[string]any)
	if last := path[len(path)-1]; ok && last.FieldName != nil {
		return of, *last.FieldName
	}
	return nil, ""
}

func matches(entry map[string]any, keys value.FieldList) bool {
	for _, key := range keys {
		if fmt.Sprint(entry[key.Name]) != fmt.Sprint(key.Value.Unstructured()) {
			return false
		}
	}
	return true
}

func changeLeaf(object map[string]any, path fieldpath.Path) bool {
	of, field := holder(object, path)
	if of == nil {
		return false
	}
	changed, ok := other(of[field])
	of[field] = changed
	return ok
}

// other returns another value of the same kind.
func other(value any) (any, bool) {
	switch value := value.(type) {
	case string:
		// Where only some words are allowed, another of them.
		for _, words := range [][]string{{"ClusterIP", "NodePort"}, {"TCP", "UDP"}, {"Exists", "Equal"}, {"RuntimeDefault", "Unconfined"}, {"ScheduleAnyway", "DoNotSchedule"}, {"Prefix", "Exact"}} {
			if i := slices.Index(words, value); i >= 0 {
				return words[1-i], true
			}
		}
		return value + "x", true
	case int64:
		return value + 1, true
	case bool:
		return !value, true
	case []any:
		if len(value) == 0 {
			return nil, false
		}
		first, ok := other(value[0])
		return append([]any{first}, value[1:]...), ok
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if inner, ok := other(value[key]); ok {
				value[key] = inner
				return value, true
			}
		}
	}
	return value, false
}

func removeLeaf(object map[string]any, path fieldpath.Path) bool {
	of, field := holder(object, path)
	if of == nil {
		return false
	}
	delete(of, field)
	return true
}

// differences are the fields of want that have other values in live. What others have added is none.
func differences(want, live any, at []string) []string {
	switch want := want.(type) {
	case map[string]any:
		live, _ := live.(map[string]any)
		var found []string
		for field, value := range want {
			below := append(slices.Clone(at), field)
			switch strings.Join(below, ".") {
			case "status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation":
				continue
			}
			if strings.HasPrefix(field, "deployment.kubernetes.io/") {
				continue
			}
			found = append(found, differences(value, live[field], below)...)
		}
		return found
	case []any:
		live, _ := live.([]any)
		if len(live) != len(want) {
			return []string{strings.Join(at, ".")}
		}
		var found []string
		for i := range want {
			found = append(found, differences(want[i], live[i], append(slices.Clone(at), fmt.Sprint(i)))...)
		}
		return found
	}
	if !reflect.DeepEqual(want, live) {
		return []string{fmt.Sprintf("%s is %v, not %v", strings.Join(at, "."), live, want)}
	}
	return nil
}

// edit changes an object as kubectl edit does.
func (s *scene) edit(resource, name string, changes object) {
	s.t.Helper()
	patch, err := json.Marshal(changes)
	if err != nil {
		s.t.Fatal(err)
	}
	options := metav1.PatchOptions{FieldManager: "kubectl-edit"}
	if resource == "services" {
		_, err = cluster.kube.CoreV1().Services(s.ns).Patch(s.ctx, name, types.StrategicMergePatchType, patch, options)
	} else {
		_, err = cluster.kube.AppsV1().Deployments(s.ns).Patch(s.ctx, name, types.StrategicMergePatchType, patch, options)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestFieldsOfOtherManagersSurvive(t *testing.T) {
	s, _ := deployed(t, noReplicas)
	// An autoscaler, kubectl annotate, kubectl rollout restart, a sidecar injected by another tool.
	_, err := cluster.kube.AppsV1().Deployments(s.ns).Patch(s.ctx, "shop", types.MergePatchType,
		[]byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	s.edit("deployments", "shop", object{"metadata": object{"annotations": object{"example.com/note": "ours"}}})
	s.edit("deployments", "shop", object{"spec": object{"template": object{"metadata": object{"annotations": object{"kubectl.kubernetes.io/restartedAt": "now"}}}}})
	s.edit("deployments", "shop", object{"spec": object{"template": object{"spec": object{"containers": []object{{"name": "sidecar", "image": "registry.example.com/sidecar:1"}}}}}})
	s.edit("services", "shop", object{"metadata": object{"annotations": object{"example.com/note": "ours"}}})

	// This has the controller apply the Deployment and the Service again.
	s.patch("shop", object{"spec": object{
		"source":     object{"git": object{"revision": "v2"}},
		"deployment": object{"env": []object{{"name": "GREETING", "value": "hello"}}, "service": object{"type": "NodePort"}},
	}})
	s.until("the new image runs", func() error { return errors.Join(s.ready("shop"), s.runs("shop", "v2")) })
	d, service := s.deployment("shop"), s.service("shop")
	if app := containerNamed(d, "app"); app == nil || len(app.Env) != 1 {
		t.Errorf("the Build's own change did not come: %+v", app)
	}
	if service.Spec.Type != corev1.ServiceTypeNodePort {
		t.Errorf("the Service is of type %s", service.Spec.Type)
	}
	if *d.Spec.Replicas != 3 {
		t.Errorf("%d replicas, not the autoscaler's 3", *d.Spec.Replicas)
	}
	if d.Annotations["example.com/note"] == "" || service.Annotations["example.com/note"] == "" {
		t.Error("an annotation is gone")
	}
	if d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Error("the mark of kubectl rollout restart is gone")
	}
	if containerNamed(d, "sidecar") == nil {
		t.Error("the sidecar is gone")
	}
}

func containerNamed(d *appsv1.Deployment, name string) *corev1.Container {
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

func TestADeletedDeploymentAndServiceComeBack(t *testing.T) {
	s, _ := deployed(t)
	deployment, service := s.deployment("shop"), s.service("shop")
	err := errors.Join(
		cluster.kube.AppsV1().Deployments(s.ns).Delete(s.ctx, "shop", metav1.DeleteOptions{}),
		cluster.kube.CoreV1().Services(s.ns).Delete(s.ctx, "shop", metav1.DeleteOptions{}),
	)
	if err != nil {
		t.Fatal(err)
	}
	s.until("both are back", func() error {
		d, v := s.deployment("shop"), s.service("shop")
		if d == nil || d.UID == deployment.UID || v == nil || v.UID == service.UID {
			return errors.New("they are not")
		}
		return errors.Join(s.ready("shop"), s.runs("shop", "v1"))
	})
	if jobs := s.jobsOf("shop"); len(jobs) != 1 {
		t.Errorf("%d Jobs", len(jobs))
	}
}

func TestWhatTheSpecNoLongerAsksForIsTakenAway(t *testing.T) {
	s, _ := deployed(t, withIngress)
	s.until("there is an Ingress", func() error { return exists(s.ingresses, s.ns, "shop") })
	s.patch("shop", object{"spec": object{"deployment": object{"ingress": nil}}})
	s.until("the Ingress is gone", func() error { return absent(s.ingress("shop") == nil, "the Ingress") })
	s.patch("shop", object{"spec": object{"deployment": object{"service": nil}}})
	s.until("the Service is gone", func() error { return absent(s.service("shop") == nil, "the Service") })
	s.patch("shop", object{"spec": object{"deployment": nil}})
	s.until("the Deployment is gone", func() error { return absent(s.deployment("shop") == nil, "the Deployment") })
	s.untilReady("shop")
	s.patch("shop", object{"spec": object{"deployment": object{"ports": []object{http80}, "service": object{}}}})
	s.until("both are back", func() error {
		return errors.Join(exists(s.deployments, s.ns, "shop"), exists(s.services, s.ns, "shop"), s.ready("shop"))
	})
	if jobs := s.jobsOf("shop"); len(jobs) != 1 {
		t.Errorf("%d Jobs", len(jobs))
	}
}

func TestARunningJobThatIsDeletedRunsAgain(t *testing.T) {
	s := newScene(t, usual)
	startController(t, startOptions{})
	hold := make(chan struct{})
	cluster.kubelet.script(s.ns, "shop", script{hold: hold})
	s.create(makeBuild("shop"))
	s.until("it builds", func() error { return s.building("shop") })
	first := s.jobsOf("shop")[0]
	s.deleteJob(first.Name)
	s.until("there is another Job of the same name", func() error {
		if job := s.job(first.Name); job == nil || job.UID == first.UID {
			return errors.New("there is not")
		}
		return nil
	})
	close(hold)
	s.untilReady("shop")
	if err := s.runs("shop", "v1"); err != nil {
		t.Error(err)
	}
	if pushes := cluster.kubelet.pushes(s.ns, "shop"); pushes != 1 {
		t.Errorf("%d images were pushed", pushes)
	}
}

func TestAFinishedJobThatIsDeletedDoesNotRunAgain(t *testing.T) {
	s, controller := deployed(t)
	job := s.jobsOf("shop")[0].Name
	s.deleteJob(job)
	s.until("it is gone", func() error { return absent(s.job(job) == nil, "the Job") })
	untilSeen(t)
	if jobs := s.jobsOf("shop"); len(jobs) != 0 {
		t.Errorf("there is a Job again: %s", jobs[0].Name)
	}
	if err := s.ready("shop"); err != nil {
		t.Error(err)
	}
	// Nor by a controller that never saw the Job.
	controller.kill(t)
	startController(t, startOptions{})
	untilSeen(t)
	if jobs := s.jobsOf("shop"); len(jobs) != 0 {
		t.Errorf("after a restart there is a Job again: %s", jobs[0].Name)
	}
	if pushes := cluster.kubelet.pushes(s.ns, "shop"); pushes != 1 {
		t.Errorf("%d images were pushed", pushes)
	}
}

func (s *scene) deleteJob(name string) {
	s.t.Helper()
	err := cluster.kube.BatchV1().Jobs(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestTheRebuildAnnotationMakesOneNewRun(t *testing.T) {
	s, _ := deployed(t)
	rebuild := func(value any) {
		s.patch("shop", object{"metadata": object{"annotations": object{v1alpha1.RebuildAnnotation: value}}})
	}
	expect := func(runs int, after string) {
		t.Helper()
		untilSeen(t)
		s.untilReady("shop")
		if jobs := s.jobsOf("shop"); len(jobs) != runs {
			t.Errorf("after %s there are %d Jobs, not %d", after, len(jobs), runs)
		}
		if pushes := cluster.kubelet.pushes(s.ns, "shop"); pushes != runs {
			t.Errorf("after %s %d images were pushed, not %d", after, pushes, runs)
		}
	}
	rebuild("2026-01-02")
	s.until("there is another run", func() error { return atLeast(2, len(s.jobsOf("shop")), "Jobs") })
	expect(2, "a first value")
	rebuild("2026-01-02")
	expect(2, "the same value")
	rebuild("2026-01-03")
	s.until("there is another run", func() error { return atLeast(3, len(s.jobsOf("shop")), "Jobs") })
	expect(3, "a second value")
	rebuild(nil)
	expect(3, "taking it away")
	if err := s.runs("shop", "v1"); err != nil {
		t.Error(err)
	}
}

func TestChangesOfTheDeploymentMakeNoRun(t *testing.T) {
	s, _ := deployed(t)
	s.patch("shop", object{"spec": object{"deployment": object{
		"replicas": 2,
		"env":      []object{{"name": "GREETING", "value": "hello"}},
		"ports":    []object{{"name": "web", "containerPort": 9090}},
	}}})
	s.until("the Deployment is as asked", func() error {
		d := s.deployment("shop")
		app := d.Spec.Template.Spec.Containers[0]
		if *d.Spec.Replicas != 2 || len(app.Env) != 1 || len(app.Ports) != 1 || app.Ports[0].ContainerPort != 9090 {
			return fmt.Errorf("it is not: %+v", d.Spec)
		}
		if ports := s.service("shop").Spec.Ports; len(ports) != 1 || ports[0].Port != 9090 || ports[0].Name != "web" {
			return fmt.Errorf("the Service is not: %+v", ports)
		}
		return s.ready("shop")
	})
	untilSeen(t)
	if jobs := s.jobsOf("shop"); len(jobs) != 1 {
		t.Errorf("%d Jobs", len(jobs))
	}
}
