//go:build apitest

package apitest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// crashing has the second revision of shop be built, and its pods crash.
func (s *scene) crashing(t *testing.T) (image string) {
	t.Helper()
	hold := make(chan struct{})
	cluster.kubelet.script(s.ns, "shop", script{hold: hold})
	s.patch("shop", revision("v2"))
	s.until("the second run is under way", func() error { return atLeast(2, len(s.jobsOf("shop")), "Jobs") })
	image = "registry.example.com/team/shop@" + s.digest(s.jobsOf("shop")[1].Name)
	cluster.kubelet.script(s.ns, "shop", script{hold: hold, crash: image})
	close(hold)
	return image
}

// taken returns nil when the Deployment has returned from an image to another.
func (s *scene) taken(from, to string) error {
	build, deployment := s.build("shop"), s.deployment("shop")
	switch back := build.Status.Rollback; {
	case back == nil || back.From != from || back.To != to:
		return fmt.Errorf("rollback is %+v", back)
	case containerNamed(deployment, "app").Image != to:
		return fmt.Errorf("the Deployment runs %s", containerNamed(deployment, "app").Image)
	}
	return s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, "CrashLoopBackOff", "exit code 3", to+", which is available")
}

func TestAVersionThatCrashesIsTakenBackByWhicheverControllerIsThere(t *testing.T) {
	s, controller := deployed(t)
	first := s.build("shop").Status.Image
	second := s.crashing(t)
	s.until("it is seen to crash", func() error { return s.happened("shop", "RolloutFailed") })
	controller.kill(t)
	controller = startController(t, startOptions{})
	s.until("it is taken back", func() error { return s.taken(second, first) })
	if err := s.condition("shop", v1alpha1.ConditionBuilt, metav1.ConditionTrue, "Succeeded"); err != nil {
		t.Error(err)
	}

	// Nor does another controller try it again.
	controller.kill(t)
	controller = startController(t, startOptions{})
	from := cluster.audit.here(t)
	untilSeen(t)
	for _, r := range cluster.audit.since(t, from) {
		if r.by(controller.instance) && r.writes() && r.ObjectRef.Namespace == s.ns {
			t.Errorf("it wrote: %s", r)
		}
	}
	if err := s.taken(second, first); err != nil {
		t.Error(err)
	}

	// What was missing is given to it.
	cluster.kubelet.script(s.ns, "shop", script{})
	s.patch("shop", object{"spec": object{"deployment": object{"env": []object{{"name": "TILL", "value": "open"}}}}})
	s.until("the second version runs", func() error { return errors.Join(s.ready("shop"), s.runs("shop", "v2")) })
	if status := s.build("shop").Status; status.Rollback != nil || status.Failure != nil || status.DeployedImage != second {
		t.Errorf("status is %+v", status)
	}
}

func TestUnderKeepAVersionThatCrashesStaysAndMayRecover(t *testing.T) {
	s, _ := deployed(t, func(spec *v1alpha1.BuildSpec) { spec.Deployment.OnFailure = v1alpha1.OnFailureKeep })
	second := s.crashing(t)
	s.until("it is seen to fail", func() error {
		return s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, "CrashLoopBackOff")
	})
	cluster.kubelet.script(s.ns, "shop", script{})
	untilSeen(t)
	if image := containerNamed(s.deployment("shop"), "app").Image; image != second {
		t.Errorf("the Deployment runs %s", image)
	}
	for _, pod := range list[corev1.Pod](s.pods) {
		if pod.Labels[v1alpha1.AppLabel] != "" && pod.Spec.Containers[0].Image == second {
			if err := cluster.kube.CoreV1().Pods(s.ns).Delete(s.ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.untilReady("shop")
}

func TestTheDeploymentGoesBackByHandToAnImageWhoseJobIsGone(t *testing.T) {
	s, _ := deployed(t)
	first := s.build("shop").Status
	s.patch("shop", revision("v2"))
	s.until("the second version runs", func() error { return errors.Join(s.ready("shop"), s.runs("shop", "v2")) })
	for _, job := range s.jobsOf("shop") {
		s.deleteJob(job.Name)
	}
	s.patch("shop", object{"spec": object{"deployment": object{"rollback": first.ShortDigest}}})
	s.until("the first version runs", func() error {
		if image := containerNamed(s.deployment("shop"), "app").Image; image != first.Image {
			return fmt.Errorf("%s does", image)
		}
		return errors.Join(s.ready("shop"), s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionTrue, "Available", "as spec.deployment.rollback asks"))
	})
	// New inputs are built all the same.
	s.patch("shop", revision("v3"))
	s.until("the third version is built", func() error {
		if run := s.build("shop").Status.Run; run.Revision != "v3" || run.Image == "" {
			return fmt.Errorf("the newest run is %+v", run)
		}
		return s.ready("shop")
	})
	if image := containerNamed(s.deployment("shop"), "app").Image; image != first.Image {
		t.Errorf("the Deployment runs %s", image)
	}
	s.patch("shop", object{"spec": object{"deployment": object{"rollback": nil}}})
	s.until("the third version runs", func() error { return errors.Join(s.ready("shop"), s.runs("shop", "v3")) })
}

func TestKubectlScalesABuild(t *testing.T) {
	s, _ := deployed(t)
	if _, err := kubectl("", "scale", "--namespace", s.ns, "--replicas=3", "build/shop"); err != nil {
		t.Fatal(err)
	}
	s.until("there are three pods", func() error {
		if d := s.deployment("shop"); *d.Spec.Replicas != 3 || d.Status.AvailableReplicas != 3 || s.build("shop").Status.Replicas != 3 {
			return fmt.Errorf("replicas are %d, available %d, status %d", *d.Spec.Replicas, d.Status.AvailableReplicas, s.build("shop").Status.Replicas)
		}
		return s.ready("shop")
	})
	scale, err := kubectl("", "get", "--namespace", s.ns, "build/shop", "--subresource=scale", "--output=jsonpath={.status.selector} {.status.replicas}")
	if err != nil || scale != v1alpha1.AppLabel+"=shop 3" {
		t.Errorf("the scale subresource says %q: %v", scale, err)
	}
	if jobs := s.jobsOf("shop"); len(jobs) != 1 {
		t.Errorf("%d Jobs", len(jobs))
	}
}

// handmade is an application that was there before its Build: a Deployment with a label, a container and a field of its own, and
// the Service that finds it.
func (s *scene) handmade(t *testing.T) {
	t.Helper()
	labels := map[string]string{"run": "shop"}
	_, err := cluster.kube.AppsV1().Deployments(s.ns).Create(s.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), RevisionHistoryLimit: ptr.To[int32](4),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					PriorityClassName: "system-cluster-critical",
					Containers: []corev1.Container{{
						Name: "web", Image: "registry.example.com/shop:old",
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}},
					}},
				},
			},
		},
	}, metav1.CreateOptions{FieldManager: "kubectl-create"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = cluster.kube.CoreV1().Services(s.ns).Create(s.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{FieldManager: "kubectl-create"})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnExistingApplicationIsAdoptedOnlyOnRequest(t *testing.T) {
	s := newScene(t, usual)
	startController(t, startOptions{})
	s.handmade(t)
	s.foreignIngress("shop")
	s.until("it runs", func() error { return atLeast(2, int(s.deployment("shop").Status.AvailableReplicas), "pods") })
	was, service := s.deployment("shop"), s.service("shop")
	s.create(makeBuild("shop", noReplicas, withIngress))
	s.until("it is told why nothing is deployed", func() error {
		return s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, "ErrResourceExists", "spec.deployment.adopt")
	})
	s.patch("shop", object{"spec": object{"deployment": object{"adopt": true}}})
	s.until("it is told which container", func() error {
		return s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, "ErrResourceExists", "spec.deployment.containerName", "web")
	})
	if d := s.deployment("shop"); d.Generation != was.Generation || s.service("shop").ResourceVersion != service.ResourceVersion {
		t.Error("it was touched")
	}
	s.patch("shop", object{"spec": object{"deployment": object{"containerName": "web"}}})
	s.until("it is told that there is a probe", func() error {
		return s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, "Rejected", "readinessProbe", "more than 1 handler")
	})
	s.patch("shop", object{"spec": object{"deployment": object{"readinessProbe": object{"httpGet": object{"path": "/", "port": "http"}}}}})
	s.untilReady("shop")

	build, d := s.build("shop"), s.deployment("shop")
	switch containers := d.Spec.Template.Spec.Containers; {
	case d.UID != was.UID || s.service("shop").UID != service.UID:
		t.Error("it was made anew")
	case len(containers) != 1 || containers[0].Image != build.Status.Image:
		t.Errorf("its containers are %+v", containers)
	case *d.Spec.Replicas != 2 || *d.Spec.RevisionHistoryLimit != 4 || d.Spec.Template.Spec.PriorityClassName == "":
		t.Error("it lost what was its own")
	case !metav1.IsControlledBy(d, build) || !metav1.IsControlledBy(s.service("shop"), build) || !metav1.IsControlledBy(s.ingress("shop"), build):
		t.Error("it has no owner")
	case build.Status.URL != "http://shop.example.com" || s.ingress("shop").Spec.Rules[0].Host != "shop.example.com":
		t.Errorf("its Ingress is %+v, its URL %s", s.ingress("shop").Spec, build.Status.URL)
	case s.service("shop").Spec.Type != corev1.ServiceTypeNodePort || s.service("shop").Spec.Selector[v1alpha1.AppLabel] != "shop" || s.service("shop").Spec.Ports[0].Port != 80:
		t.Errorf("its Service is %+v", s.service("shop").Spec)
	case build.Status.Selector != "run=shop":
		t.Errorf("the selector in status is %s", build.Status.Selector)
	}
	_, err := kubectl("", "patch", "build/shop", "--namespace="+s.ns, "--type=merge", "-p", `{"spec":{"deployment":{"containerName":null}}}`)
	if err == nil || !strings.Contains(err.Error(), "spec.deployment.containerName cannot change once the application runs") {
		t.Errorf("the container gets another name: %v", err)
	}
}

func TestUnderRetainTheApplicationOutlivesItsBuild(t *testing.T) {
	for _, how := range []string{"background", "foreground"} {
		t.Run(how, func(t *testing.T) {
			s, _ := deployed(t, withAll, func(spec *v1alpha1.BuildSpec) { spec.Deployment.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
			if _, err := kubectl("", "delete", "--namespace", s.ns, "--cascade="+how, "build/shop"); err != nil {
				t.Fatal(err)
			}
			s.until("the Jobs are gone", func() error { return absent(len(s.jobsOf("shop")) == 0, "a Job") })
			for kind, owners := range map[string][]metav1.OwnerReference{
				"Deployment": s.deployment("shop").OwnerReferences, "Service": s.service("shop").OwnerReferences, "Ingress": s.ingress("shop").OwnerReferences,
			} {
				if len(owners) > 0 {
					t.Errorf("the %s has owners: %v", kind, owners)
				}
			}
			if d := s.deployment("shop"); d.DeletionTimestamp != nil || d.Status.AvailableReplicas != 1 {
				t.Errorf("the Deployment is %+v", d.Status)
			}
			// The next Build of that name takes it over, if it asks for that.
			uid := s.deployment("shop").UID
			s.create(makeBuild("shop", func(spec *v1alpha1.BuildSpec) { spec.Deployment.Adopt = true }))
			s.untilReady("shop")
			if d := s.deployment("shop"); d.UID != uid || !metav1.IsControlledBy(d, s.build("shop")) {
				t.Errorf("it is %s owned by %v", d.UID, d.OwnerReferences)
			}
		})
	}
}

func TestADeletedBuildTakesItsApplicationAlong(t *testing.T) {
	s, _ := deployed(t, withAll)
	if _, err := kubectl("", "delete", "--namespace", s.ns, "build/shop"); err != nil {
		t.Fatal(err)
	}
	s.until("nothing is left", func() error {
		return errors.Join(absent(s.deployment("shop") == nil, "the Deployment"), absent(s.service("shop") == nil, "the Service"), absent(s.ingress("shop") == nil, "the Ingress"))
	})
}

func TestNeitherHalfCostsAnythingOfTheOther(t *testing.T) {
	s := newScene(t, usual)
	controller := startController(t, startOptions{})
	from := cluster.audit.here(t)
	s.create(makeBuild("shop", buildOnly))
	s.untilReady("shop")
	s.patch("shop", revision("v2"))
	s.until("it is built again", func() error { return errors.Join(atLeast(2, len(s.jobsOf("shop")), "Jobs"), s.ready("shop")) })
	untilSeen(t)
	for _, r := range cluster.audit.since(t, from) {
		switch r.ObjectRef.Resource {
		case "deployments", "services", "ingresses":
			if r.by(controller.instance) && r.ObjectRef.Namespace == s.ns {
				t.Errorf("a Build without a deployment cost: %s", r)
			}
		}
	}

	s.create(makeBuild("run"))
	s.untilReady("run")
	from = cluster.audit.here(t)
	s.patch("run", object{"spec": object{"deployment": object{"env": []object{{"name": "GREETING", "value": "hello"}}}}})
	s.until("it is deployed", func() error {
		if len(containerNamed(s.deployment("run"), "app").Env) == 0 {
			return errors.New("it is not")
		}
		return s.ready("run")
	})
	untilSeen(t)
	for _, r := range cluster.audit.since(t, from) {
		if r.by(controller.instance) && r.ObjectRef.Namespace == s.ns && (r.ObjectRef.Resource == "jobs" || r.ObjectRef.Resource == "pods") {
			t.Errorf("a change of the deployment cost: %s", r)
		}
	}
}

func TestATemplateThatCannotBeIsSaid(t *testing.T) {
	s, _ := deployed(t)
	for template, says := range map[string]string{
		`{"hostNetwerk": true}`:                                   `hostNetwerk`,
		`{"containers": [{"name": "app", "image": "other:1"}]}`:   `leave its image out`,
		`{"containers": [{"image": "registry.example.com/x:1"}]}`: `name`,
		// Taken in by the API server, but not by server-side apply.
		`{"containers": [{"name": "x", "image": "x:1", "env": [{"name": "A"}, {"name": "A"}]}]}`: `env[1] has the name of another`,
	} {
		s.patch("shop", object{"spec": object{"deployment": object{"template": object{"spec": &runtime.RawExtension{Raw: []byte(template)}}}}})
		s.until("it is said", func() error {
			return s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, "InvalidTemplate", says)
		})
		s.patch("shop", object{"spec": object{"deployment": object{"template": nil}}})
		s.untilReady("shop")
	}
	// What the API server alone can tell.
	s.patch("shop", object{"spec": object{"deployment": object{"template": object{"spec": object{"restartPolicy": "Never"}}}}})
	s.until("it is said", func() error {
		return s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, "Rejected", "restartPolicy")
	})
}
