//go:build apitest

package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

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

func TestHandEditsOfOwnedFieldsAreUndoneOnce(t *testing.T) {
	s, controller := deployed(t, withEnv)
	for what, edit := range map[string]struct {
		resource string
		patch    object
	}{
		"the image":                    {"deployments", onContainer(object{"image": "registry.example.com/evil:1"})},
		"the value of env":             {"deployments", onContainer(object{"env": []object{{"name": "GREETING", "value": "bye"}}})},
		"env taken away":               {"deployments", onContainer(object{"env": []object{{"name": "GREETING", "$patch": "delete"}}})},
		"replicas":                     {"deployments", object{"spec": object{"replicas": 3}}},
		"the label we watch by":        {"deployments", object{"metadata": object{"labels": object{v1alpha1.ManagedByLabel: nil}}}},
		"the mark of what was applied": {"deployments", object{"metadata": object{"annotations": object{v1alpha1.AppliedAnnotation: "0"}}}},
		"the Service's type":           {"services", object{"spec": object{"type": "NodePort"}}},
		"the Service's target":         {"services", object{"spec": object{"selector": object{v1alpha1.AppLabel: "other"}}}},
	} {
		t.Run(what, func(t *testing.T) {
			want := s.owned(edit.resource)
			from := cluster.audit.here(t)
			s.edit(edit.resource, "shop", edit.patch)
			s.until("it is as it was", func() error {
				if have := s.owned(edit.resource); have != want {
					return fmt.Errorf("it is %s, not %s", have, want)
				}
				return nil
			})
			s.untilReady("shop")
			untilSeen(t)
			changes := 0
			for _, r := range cluster.audit.since(t, from) {
				if r.by(controller.instance) && r.changed() && r.ObjectRef.Namespace == s.ns && r.ObjectRef.Resource == edit.resource {
					changes++
				}
			}
			if changes != 1 {
				t.Errorf("it took %d changes", changes)
			}
		})
	}
}

// owned shows what of an object the controller says something about.
func (s *scene) owned(resource string) string {
	var fields any
	if resource == "services" {
		service := s.service("shop")
		fields = []any{service.Labels, service.Spec.Type, service.Spec.Selector, service.Spec.Ports[0].Port}
	} else {
		d := s.deployment("shop")
		app := d.Spec.Template.Spec.Containers[0]
		fields = []any{d.Labels, d.Annotations[v1alpha1.AppliedAnnotation], d.Spec.Replicas, app.Image, app.Env}
	}
	shown, _ := json.Marshal(fields)
	return string(shown)
}

func onContainer(fields object) object {
	fields["name"] = "app"
	return object{"spec": object{"template": object{"spec": object{"containers": []object{fields}}}}}
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
	s, _ := deployed(t)
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
