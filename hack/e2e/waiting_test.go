//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// mostWaitingWrites is what a run that waits may cost the API server, from the Build to
// the last thing said about the wait: the finalizer, the Job, a status for each
// of building and waiting, an Event for each, and some of these once more.
const mostWaitingWrites = 10

func TestARunThatWaitsSaysForWhatAndGoesOnByItself(t *testing.T) {
	t.Run("a Secret that is not there", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		from := auditEnd(t)
		s.apply(s.page("page", gitSecret("later")))
		s.untilWaiting("page", v1alpha1.FailureSecretNotFound)
		s.expectReason("page", v1alpha1.StepSource, v1alpha1.FailureSecretNotFound, "BuildWaiting", s.firstEvent("Pod", "FailedMount"))

		// Each try of the kubelet is a reason to look at the Build, and none to write.
		s.until(time.Minute, "the kubelet has tried some more", func() error {
			if n := s.countEvents("Pod", "FailedMount"); n < 5 {
				return fmt.Errorf("only %d tries", n)
			}
			return nil
		})
		if writes := writesOf(t, s.ns, from); len(writes) > mostWaitingWrites {
			t.Errorf("%d writes while it waited: %v", len(writes), writes)
		} else {
			t.Logf("%d writes while it waited", len(writes))
		}

		s.makeSecret("later", corev1.SecretTypeOpaque, gitKey(s))
		s.untilReady("page")
		s.expectOneRun("page")
	})
	t.Run("a quota that is used up", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		quotas := cluster.kube.CoreV1().ResourceQuotas(s.ns)
		_, err := quotas.Create(s.ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "nothing"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.until(time.Minute, "the quota is in force", func() error {
			if quota := get[corev1.ResourceQuota](s.quotas, s.ns, "nothing"); quota == nil || len(quota.Status.Used) == 0 {
				return fmt.Errorf("it is not: %+v", quota)
			}
			return nil
		})
		s.apply(s.page("page"))
		s.untilWaiting("page", v1alpha1.FailureQuotaExceeded)
		s.expectReason("page", v1alpha1.StepSchedule, v1alpha1.FailureQuotaExceeded, "BuildWaiting", s.firstEvent("Job", "FailedCreate"))

		if err := quotas.Delete(s.ctx, "nothing", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.untilReady("page")
		s.expectOneRun("page")
	})
}

// untilWaiting returns when a Build says that its run waits for this reason.
func (s *scene) untilWaiting(name string, reason v1alpha1.FailureReason) {
	s.t.Helper()
	s.until(time.Minute, "it says what it waits for", func() error {
		build := s.build(name)
		if build == nil || build.Status.Failure == nil || build.Status.Failure.Reason != reason {
			return fmt.Errorf("it does not")
		}
		return s.happened(name, "BuildWaiting")
	})
	if phase := s.build(name).Status.Phase; phase != v1alpha1.PhasePending {
		s.t.Errorf("the phase is %s", phase)
	}
}

// expectOneRun expects that a Build came through its trouble with the one run
// that it began with, and that the trouble is forgotten.
func (s *scene) expectOneRun(name string) {
	s.t.Helper()
	s.expectAnswer(name, "", "hello")
	if n := len(s.jobsOf(name)); n != 1 {
		s.t.Errorf("%d Jobs", n)
	}
	if failure := s.build(name).Status.Failure; failure != nil {
		s.t.Errorf("the status still has a failure: %+v", failure)
	}
	s.expectEvents(name, map[string]int{"BuildStarted": 1, "BuildWaiting": 1, "BuildSucceeded": 1, "Deployed": 1})
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

func (s *scene) countEvents(kind, reason string) int {
	n := 0
	for _, event := range s.eventsAbout(kind, "") {
		if event.Reason == reason {
			n += times(event)
		}
	}
	return n
}
