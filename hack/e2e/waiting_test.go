//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// mostWaitingWrites is what a run that cannot start may cost the API server, from the Build to the end of
// its Job: the finalizer, the Job twice, a status for each of building and waiting, an Event for each, and some of
// these once more.
const mostWaitingWrites = 10

// Each cause is seen, told, and the Job ended with it; the reason stays, and when the cause is gone the Build goes
// on without being asked.
func TestWhatKeepsARunFromStartingEndsItsJobAndIsWaitedFor(t *testing.T) {
	t.Parallel()
	type cause struct {
		build  func(*v1alpha1.BuildSpec)
		make   func(*scene)
		mend   func(*scene)
		step   v1alpha1.Step
		reason v1alpha1.FailureReason
		seen   func(*scene) time.Time // when the cause was first to be seen; nil when nothing dates it
	}
	event := func(kind, reason string) func(*scene) time.Time {
		return func(s *scene) time.Time { return s.firstEvent(kind, reason) }
	}
	for what, c := range map[string]cause{
		"a Secret that is not there": {
			build: gitSecret("later"),
			mend:  func(s *scene) { s.makeSecret("later", corev1.SecretTypeOpaque, gitKey(s)) },
			step:  v1alpha1.StepSource, reason: v1alpha1.FailureSecretNotFound, seen: event("Pod", "FailedMount"),
		},
		"a Secret without the key": {
			build: gitSecret("empty"),
			make:  func(s *scene) { s.makeSecret("empty", corev1.SecretTypeOpaque, map[string]string{"id_rsa": "x"}) },
			mend:  func(s *scene) { s.replaceSecret("empty", gitKey(s)) },
			step:  v1alpha1.StepSource, reason: v1alpha1.FailureSecretKeyNotFound,
		},
		"a registry's Secret without the key": {
			build: func(spec *v1alpha1.BuildSpec) { spec.Image.SecretName = "empty" },
			make:  func(s *scene) { s.makeSecret("empty", corev1.SecretTypeOpaque, map[string]string{"password": "x"}) },
			mend:  func(s *scene) { s.replaceSecret("empty", map[string]string{"config.json": "{}"}) },
			step:  v1alpha1.StepPush, reason: v1alpha1.FailureSecretKeyNotFound,
		},
		"a builder's image that is not there": {
			build: func(spec *v1alpha1.BuildSpec) {
				spec.Builder = &v1alpha1.Builder{Image: registry + "/e2e/no-such-builder:1"}
			},
			step: v1alpha1.StepSchedule, reason: v1alpha1.FailureImagePullFailed, seen: event("Pod", "Failed"),
		},
		"a node that does not exist": {
			build: func(spec *v1alpha1.BuildSpec) {
				spec.Builder = &v1alpha1.Builder{NodeSelector: map[string]string{"e2e.example.com/builds": "yes"}}
			},
			mend: func(s *scene) { s.labelNode("e2e.example.com/builds", "yes") },
			step: v1alpha1.StepSchedule, reason: v1alpha1.FailureUnschedulable, seen: event("Pod", "FailedScheduling"),
		},
		"a quota that is used up": {
			make: func(s *scene) { s.allowNoPods() },
			mend: func(s *scene) {
				if err := cluster.kube.CoreV1().ResourceQuotas(s.ns).Delete(s.ctx, "nothing", metav1.DeleteOptions{}); err != nil {
					s.t.Fatal(err)
				}
			},
			step: v1alpha1.StepSchedule, reason: v1alpha1.FailureQuotaExceeded, seen: event("Job", "FailedCreate"),
		},
		"a pod security level that is too high": {
			make: func(s *scene) { s.labelNamespace("pod-security.kubernetes.io/enforce", "restricted") },
			mend: func(s *scene) { s.labelNamespace("pod-security.kubernetes.io/enforce", "baseline") },
			step: v1alpha1.StepSchedule, reason: v1alpha1.FailurePodRejected, seen: event("Job", "FailedCreate"),
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.pushPage()
			if c.make != nil {
				c.make(s)
			}
			from := auditEnd(t)
			changes := []func(*v1alpha1.BuildSpec){buildOnly}
			if c.build != nil {
				changes = append(changes, c.build)
			}
			s.apply(s.page("page", changes...))
			s.untilWaiting("page", c.reason)
			seen := time.Now()
			if c.seen != nil {
				seen = c.seen(s)
				s.expectReason("page", c.step, c.reason, "BuildWaiting", seen)
			}

			s.until(time.Minute, "the Job and its pods are gone", func() error {
				if jobs, pods := len(s.jobsOf("page")), len(s.podsOf("page")); jobs+pods > 0 {
					return fmt.Errorf("%d Jobs and %d pods", jobs, pods)
				}
				return nil
			})
			if took := time.Since(seen); took > mostLag+5*time.Second { // the pod has its grace period
				t.Errorf("the Job was ended %s after the cause was seen", took)
			}
			if writes := writesOf(t, s.ns, from); len(writes) > mostWaitingWrites {
				t.Errorf("%d writes until then: %v", len(writes), writes)
			}
			status := s.build("page").Status
			if status.Failure == nil || status.Failure.Reason != c.reason || status.Phase != v1alpha1.PhasePending {
				t.Errorf("without the Job the phase is %s and the failure %+v", status.Phase, status.Failure)
			}

			if c.mend == nil {
				return
			}
			c.mend(s)
			s.untilReady("page")
			if failure := s.build("page").Status.Failure; failure != nil {
				t.Errorf("the status still has a failure: %+v", failure)
			}
			if run := s.build("page").Status.Run; run.Attempt != 1 {
				t.Errorf("waiting was counted: attempt %d", run.Attempt)
			}
			s.expectEvents("page", map[string]int{"BuildStarted": 1, "BuildWaiting": 1, "BuildSucceeded": 1})
		})
	}
}

// untilWaiting returns when a Build says that its run waits for this reason.
func (s *scene) untilWaiting(name string, reason v1alpha1.FailureReason) {
	s.t.Helper()
	s.until(time.Minute, "it says what it waits for", func() error {
		build := s.build(name)
		if build == nil || build.Status.Failure == nil || build.Status.Failure.Reason != reason {
			return fmt.Errorf("it does not: %+v", build)
		}
		return s.happened(name, "BuildWaiting")
	})
	if phase := s.build(name).Status.Phase; phase != v1alpha1.PhasePending {
		s.t.Errorf("the phase is %s", phase)
	}
}

// firstEvent is when an Event of this reason about an object of this kind was first recorded.
func (s *scene) firstEvent(kind, reason string) time.Time {
	s.t.Helper()
	var first time.Time
	for _, event := range s.eventsAbout(kind, "") {
		if at := firstSeen(event); event.Reason == reason && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		s.t.Fatalf("no Event %s about a %s", reason, kind)
	}
	return first
}

// allowNoPods returns when a quota is in force that has no room for a pod.
func (s *scene) allowNoPods() {
	s.t.Helper()
	_, err := cluster.kube.CoreV1().ResourceQuotas(s.ns).Create(s.ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "nothing"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.until(time.Minute, "the quota is in force", func() error {
		if quota := get[corev1.ResourceQuota](s.quotas, s.ns, "nothing"); quota == nil || len(quota.Status.Used) == 0 {
			return fmt.Errorf("it is not: %+v", quota)
		}
		return nil
	})
}

func (s *scene) replaceSecret(name string, values map[string]string) {
	s.t.Helper()
	if err := cluster.kube.CoreV1().Secrets(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.makeSecret(name, corev1.SecretTypeOpaque, values)
}

func (s *scene) labelNamespace(label, value string) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, label, value)
	if _, err := cluster.kube.CoreV1().Namespaces().Patch(s.ctx, s.ns, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// labelNode labels the cluster's only node, until the test ends.
func (s *scene) labelNode(label, value string) {
	s.t.Helper()
	nodes, err := cluster.kube.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		s.t.Fatal(err)
	}
	patch := func(value string) {
		if out, err := kubectl("", "label", "node", nodes.Items[0].Name, "--overwrite", value); err != nil {
			s.t.Error(out, err)
		}
	}
	patch(label + "=" + value)
	s.t.Cleanup(func() { patch(label + "-") })
}
