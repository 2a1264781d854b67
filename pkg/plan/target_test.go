package plan

import (
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestTheImageThatTheDeploymentIsKeptAt(t *testing.T) {
	image := func(digit string) string { return "registry.example.com/shop@sha256:" + strings.Repeat(digit, 64) }
	pinnedTo := func(digest string) func(*v1alpha1.Build) {
		return func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = digest }
	}
	for name, c := range map[string]struct {
		taken    bool // the rollout of the newest image, 2, failed and was taken back to 1
		build    func(*v1alpha1.Build)
		status   func(*v1alpha1.BuildStatus)
		image    string // the digit of its digest
		remember bool
		failure  v1alpha1.FailureReason
	}{
		"the newest":                           {image: "2"},
		"none before the first":                {status: func(s *v1alpha1.BuildStatus) { *s = v1alpha1.BuildStatus{} }},
		"the newest, before any was available": {status: func(s *v1alpha1.BuildStatus) { s.DeployedImage = "" }, image: "2"},

		"the one of before, once the newest failed": {taken: true, image: "1", remember: true},
		"the one of before, whatever the replicas": {taken: true, build: func(b *v1alpha1.Build) {
			b.Spec.Deployment.Replicas = ptr.To[int32](9)
			b.Spec.Deployment.ProgressDeadline = &metav1.Duration{}
			b.Spec.Deployment.Service = nil
		}, image: "1", remember: true},
		"the newest again, once there is another": {taken: true, status: func(s *v1alpha1.BuildStatus) { s.Image = image("3") }, image: "3"},
		"the newest again with another env":       {taken: true, build: func(b *v1alpha1.Build) { b.Spec.Deployment.Env[0].Value = "x" }, image: "2"},
		"the newest again with another template":  {taken: true, build: withSpec(`{hostNetwork: true}`), image: "2"},
		"the newest again with a redeployment": {taken: true, build: func(b *v1alpha1.Build) {
			b.Annotations = map[string]string{v1alpha1.RedeployAnnotation: "1"}
		}, image: "2"},
		"the newest again when it is to be kept": {taken: true, build: func(b *v1alpha1.Build) { b.Spec.Deployment.OnFailure = v1alpha1.OnFailureKeep }, image: "2"},
		"the one of before when that is said":    {taken: true, build: func(b *v1alpha1.Build) { b.Spec.Deployment.OnFailure = v1alpha1.OnFailureRollback }, image: "1", remember: true},

		"the pinned one, by its full digest":                    {build: pinnedTo("sha256:" + strings.Repeat("0", 64)), image: "0"},
		"the pinned one, by the start of its digest":            {build: pinnedTo("sha256:" + strings.Repeat("0", 12)), image: "0"},
		"the pinned one, which is the newest":                   {build: pinnedTo("sha256:" + strings.Repeat("2", 12)), image: "2"},
		"the pinned one, which runs and is forgotten":           {build: pinnedTo("sha256:" + strings.Repeat("1", 12)), status: func(s *v1alpha1.BuildStatus) { s.History = nil }, image: "1"},
		"the pinned one, when the newest failed":                {taken: true, build: pinnedTo("sha256:" + strings.Repeat("0", 12)), image: "0", remember: true},
		"the pinned newest, which failed":                       {taken: true, build: pinnedTo("sha256:" + strings.Repeat("2", 12)), image: "2", remember: true},
		"none when no image has the digest":                     {build: pinnedTo("sha256:" + strings.Repeat("9", 12)), failure: v1alpha1.FailureRollbackNotFound},
		"none when no image starts with the digest":             {build: pinnedTo("sha256:" + strings.Repeat("0", 12) + "9"), failure: v1alpha1.FailureRollbackNotFound},
		"none when a run without an image is all":               {build: pinnedTo("sha256:" + strings.Repeat("0", 12)), status: func(s *v1alpha1.BuildStatus) { s.History = []v1alpha1.Run{{Job: "failed"}} }, failure: v1alpha1.FailureRollbackNotFound},
		"none when nothing is there, and that is not forgotten": {taken: true, build: pinnedTo("sha256:" + strings.Repeat("9", 12)), remember: true, failure: v1alpha1.FailureRollbackNotFound},

		"none when nobody knows whether other pods are asked for": {taken: true, build: withSpec(`{x: 1}`), remember: true, failure: v1alpha1.FailureInvalidTemplate},
	} {
		t.Run(name, func(t *testing.T) {
			build := aDeployment()
			status := v1alpha1.BuildStatus{
				Image: image("2"), DeployedImage: image("1"),
				History: []v1alpha1.Run{{Image: image("2")}, {Job: "failed"}, {Image: image("1")}, {Image: image("0")}},
			}
			if c.taken {
				status.Rollback = &v1alpha1.Rollback{From: image("2"), To: image("1"), Rollout: rollout(t, build, image("2"))}
			}
			if c.build != nil {
				c.build(build)
			}
			if c.status != nil {
				c.status(&status)
			}
			want := ""
			if c.image != "" {
				want = image(c.image)
			}
			got, remembered, failure := Target(build, status)
			if got != want {
				t.Errorf("image is %q, want %q", got, want)
			}
			if (remembered != nil) != c.remember {
				t.Errorf("remembered is %+v", remembered)
			}
			if reason := ptr.Deref(failure, v1alpha1.Failure{}).Reason; reason != c.failure {
				t.Fatalf("failure is %+v, want %q", failure, c.failure)
			}
			if failure != nil && (failure.Step != v1alpha1.StepDeploy || failure.Reason == v1alpha1.FailureRollbackNotFound && !strings.Contains(failure.Message, build.Spec.Deployment.Rollback)) {
				t.Errorf("failure is %+v", failure)
			}
		})
	}
}

func TestADeploymentIsAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		live     func(*appsv1.Deployment)
		build    func(*v1alpha1.Build)
		selector bool     // it is among what is applied
		refused  []string // what the message names; nil: it is not refused
	}{
		"its selector is left out, since it cannot be changed": {},
		"its selector is applied when it is ours": {live: func(d *appsv1.Deployment) {
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.AppLabel: "shop"}}
		}, selector: true},
		"its selector is left out when it has ours and more": {live: func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels[v1alpha1.AppLabel] = "shop" }},
		"not without a container for the image": {
			live:    func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "web" },
			refused: []string{`"shop"`, "no container app", "spec.deployment.containerName", "web, proxy"},
		},
		"not without the container that is named": {
			build:   func(b *v1alpha1.Build) { b.Spec.Deployment.ContainerName = "web" },
			refused: []string{"no container web", "app, proxy"},
		},
		"with another container that is named": {build: func(b *v1alpha1.Build) { b.Spec.Deployment.ContainerName = "proxy" }},
		"it is ours once it has our owner reference, whatever its containers": {live: func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(aDeployment(), v1alpha1.BuildKind)}
			d.Spec.Template.Spec.Containers = nil
		}},
		"it is ours once it has our annotation": {live: func(d *appsv1.Deployment) {
			d.Annotations = map[string]string{v1alpha1.OwnerAnnotation: "uid-of-shop"}
			d.Spec.Template.Spec.Containers = nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}}
			live.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
			live.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app"}, {Name: "proxy"}}
			build := aDeployment()
			build.Spec.Deployment.Adopt = true
			if c.live != nil {
				c.live(live)
			}
			if c.build != nil {
				c.build(build)
			}
			got, failure := Deployment(build, pushed, live)
			if c.refused != nil {
				if got != nil || failure == nil || failure.Step != v1alpha1.StepDeploy || failure.Reason != v1alpha1.FailureResourceExists {
					t.Fatalf("got %v and %+v", got, failure)
				}
				for _, part := range c.refused {
					if !strings.Contains(failure.Message, part) {
						t.Errorf("%q does not say %q", failure.Message, part)
					}
				}
				return
			}
			if failure != nil {
				t.Fatal(failure.Message)
			}
			if (got.Spec.Selector != nil) != c.selector {
				t.Errorf("the selector that is applied is %v", got.Spec.Selector)
			}
			if got.Spec.Template.Labels[v1alpha1.AppLabel] != "shop" || len(got.OwnerReferences) != 1 {
				t.Errorf("labels %v and owners %v are applied", got.Spec.Template.Labels, got.OwnerReferences)
			}
		})
	}
}

func TestOwns(t *testing.T) {
	annotated := func(uid string) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{v1alpha1.OwnerAnnotation: uid} }
	}
	owner := func(uid string, controller bool) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) {
			reference := metav1.NewControllerRef(aBuild(), v1alpha1.BuildKind)
			reference.UID, reference.Controller = "uid-of-"+types.UID(uid), &controller
			m.OwnerReferences = append(m.OwnerReferences, *reference)
		}
	}
	named := func(m *metav1.ObjectMeta) { m.Name = "copy" }
	for name, c := range map[string]struct {
		object []func(*metav1.ObjectMeta)
		want   bool
	}{
		"an object of nobody":                         {nil, false},
		"our owner reference":                         {[]func(*metav1.ObjectMeta){owner("shop", true)}, true},
		"our owner reference beside another":          {[]func(*metav1.ObjectMeta){owner("other", false), owner("shop", true)}, true},
		"an owner reference that does not control":    {[]func(*metav1.ObjectMeta){owner("shop", false)}, false},
		"one of a Build that had our name":            {[]func(*metav1.ObjectMeta){owner("before", true)}, false},
		"our annotation":                              {[]func(*metav1.ObjectMeta){annotated("uid-of-shop")}, true},
		"our annotation, and an owner of no control":  {[]func(*metav1.ObjectMeta){annotated("uid-of-shop"), owner("other", false)}, true},
		"an annotation of a Build that had our name":  {[]func(*metav1.ObjectMeta){annotated("uid-of-before")}, false},
		"a copy of our annotation under its own name": {[]func(*metav1.ObjectMeta){annotated("uid-of-shop"), named}, false},
		"a copy of our annotation with a controller":  {[]func(*metav1.ObjectMeta){annotated("uid-of-shop"), owner("other", true)}, false},
	} {
		object := &metav1.ObjectMeta{Namespace: "team", Name: "shop"}
		for _, change := range c.object {
			change(object)
		}
		if got := Owns(aBuild(), object); got != c.want {
			t.Errorf("%s: owned is %v", name, got)
		}
	}
}

// Garbage collection asks nobody: an owner reference must not be there to begin with.
func TestWhatOutlivesItsBuildHasNoOwnerReference(t *testing.T) {
	build := aDeployment()
	build.Spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "shop.example.com"}
	objects := func() map[string]any {
		return map[string]any{"Deployment": theDeployment(t, build, pushed), "Service": Service(build), "Ingress": Ingress(build)}
	}
	before := objects()
	build.Spec.Deployment.DeletionPolicy = v1alpha1.DeletionPolicyRetain
	for kind, object := range objects() {
		was, is := applied[metav1.PartialObjectMetadata](t, before[kind]), applied[metav1.PartialObjectMetadata](t, object)
		if len(was.OwnerReferences) != 1 || was.Annotations[v1alpha1.OwnerAnnotation] != "" || !Owns(build, was) {
			t.Errorf("a %s that goes with its Build has %+v", kind, was.ObjectMeta)
		}
		if is.OwnerReferences != nil || is.Annotations[v1alpha1.OwnerAnnotation] != "uid-of-shop" || !Owns(build, is) {
			t.Errorf("a %s that outlives its Build has %+v", kind, is.ObjectMeta)
		}
		if !Differs(object, was) || !Differs(before[kind], is) {
			t.Errorf("a %s does not follow the policy", kind)
		}
		if !reflect.DeepEqual(was.Labels, is.Labels) {
			t.Errorf("the labels of a %s change", kind)
		}
	}
}
