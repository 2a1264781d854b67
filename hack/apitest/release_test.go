//go:build apitest

package apitest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestADeletedBuildStaysUntilNothingOfItCanPush(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			s := newScene(t, usual)
			controller := startController(t, startOptions{})
			s.create(makeBuild("shop"))
			s.untilReady("shop")

			// The second run builds, and its container will take its time to stop.
			hold, linger := make(chan struct{}), make(chan struct{})
			cluster.kubelet.script(s.ns, "shop", script{hold: hold, linger: linger})
			s.patch("shop", revision("v2"))
			s.until("the second run builds", func() error { return s.building("shop") })

			pod := s.runningPod("shop").Name
			from := cluster.audit.here(t)
			s.delete("shop", policy)
			s.until("its pod is told to stop", func() error {
				for _, pod := range s.podsOf("shop") {
					if pod.DeletionTimestamp != nil && pod.Status.Phase == corev1.PodRunning {
						return nil
					}
				}
				return errors.New("it is not")
			})
			untilSeen(t)
			if s.build("shop") == nil {
				t.Error("the Build is gone while its pod still runs")
			}
			if n := len(s.jobsOf("shop")); n > 2 {
				t.Errorf("a Job was made for a Build that is being deleted: %d", n)
			}

			close(linger)
			s.until("the Build is gone", func() error { return absent(s.build("shop") == nil, "the Build") })
			close(hold)
			s.until("all that it owned is gone", func() error {
				return errors.Join(
					absent(s.deployment("shop") == nil, "the Deployment"),
					absent(s.service("shop") == nil, "the Service"),
					absent(len(list[batchv1.Job](s.jobs)) == 0, "a Job"),
					absent(len(list[corev1.Pod](s.pods)) == 0, "a pod"),
				)
			})
			if pushes := cluster.kubelet.pushes(s.ns, "shop"); pushes != 1 {
				t.Errorf("%d images were pushed, not only the first", pushes)
			}
			s.expectReleasedAfterPod(from, controller, pod)
		})
	}
}

// expectReleasedAfterPod looks at the order in which the two were asked for.
func (s *scene) expectReleasedAfterPod(from position, controller *process, pod string) {
	s.t.Helper()
	var stopped, released time.Time
	for _, r := range cluster.audit.since(s.t, from) {
		switch {
		case r.ObjectRef.Namespace != s.ns || !r.changed():
		case r.ObjectRef.Resource == "pods" && r.Verb == "delete" && r.ObjectRef.Name == pod && r.UserAgent == agent:
			stopped = r.Answered.Time
		case r.ObjectRef.Resource == "builds" && r.ObjectRef.Subresource == "" && r.by(controller.instance):
			released = r.Answered.Time
		}
	}
	if stopped.IsZero() || released.IsZero() || released.Before(stopped) {
		s.t.Errorf("the pod was gone at %s, the Build released at %s", stopped, released)
	}
}

func TestABuildDeletedWhileNoControllerRunsIsReleasedByTheNextOne(t *testing.T) {
	s := newScene(t, usual)
	first := startController(t, startOptions{})
	hold := make(chan struct{})
	cluster.kubelet.script(s.ns, "shop", script{hold: hold})
	s.create(makeBuild("shop"))
	s.until("it builds", func() error { return s.building("shop") })
	first.kill(t)
	s.delete("shop", metav1.DeletePropagationBackground)
	startController(t, startOptions{})
	s.until("the Build is gone", func() error { return absent(s.build("shop") == nil, "the Build") })
	close(hold)
	if pushes := cluster.kubelet.pushes(s.ns, "shop"); pushes != 0 {
		t.Errorf("%d images were pushed", pushes)
	}
}

func (s *scene) delete(build string, policy metav1.DeletionPropagation) {
	s.t.Helper()
	err := cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Delete(s.ctx, build, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err != nil {
		s.t.Errorf("deleting %s: %v", build, err)
	}
}

// runningPod returns the pod whose builder runs, and nil if there is none.
func (s *scene) runningPod(build string) *corev1.Pod {
	for _, pod := range s.podsOf(build) {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

func (s *scene) building(build string) error {
	if s.runningPod(build) == nil {
		return fmt.Errorf("no pod that builds %s runs", build)
	}
	return nil
}

func absent(is bool, what string) error {
	if !is {
		return fmt.Errorf("%s is still there", what)
	}
	return nil
}

// A Build can be deleted between any two steps: before its Job is made, before
// the Job has a pod, while the pod starts.
func TestBuildsDeletedAtAnyMomentAreReleasedAfterTheirPods(t *testing.T) {
	const many = 60
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	s := newScene(t, usual)
	controller := startController(t, startOptions{})
	from := cluster.audit.here(t)

	var users sync.WaitGroup
	for _, name := range numbered(many) {
		cluster.kubelet.script(s.ns, name, script{step: time.Second})
		patience := time.Duration(random.Int64N(int64(2 * time.Second)))
		users.Go(func() {
			s.create(makeBuild(name, buildOnly)) // so that all pods build
			select {
			case <-time.After(patience):
				s.delete(name, metav1.DeletePropagationBackground)
			case <-s.ctx.Done():
			}
		})
	}
	users.Wait()
	s.until("all are gone", func() error {
		return errors.Join(
			absent(len(s.builds.List()) == 0, "a Build"),
			absent(len(s.jobs.List()) == 0, "a Job"),
			absent(len(s.pods.List()) == 0, "a pod"),
		)
	})

	var held, deleted, released = map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	requests := cluster.audit.since(t, from)
	for _, r := range requests {
		if r.ObjectRef.Namespace != s.ns || r.ObjectRef.Resource != "builds" || r.ObjectRef.Subresource != "" || !r.changed() {
			continue
		}
		build := r.ObjectRef.Name
		switch {
		case r.Verb == "delete":
			deleted[build] = r.Received.Time
		case r.by(controller.instance) && held[build].IsZero():
			held[build] = r.Answered.Time // with the finalizer
		case r.by(controller.instance):
			released[build] = r.Answered.Time
		}
	}
	for build := range held {
		// One that is asked for while the finalizer is on its way may still go at
		// once: the API server deletes what it has seen without, a moment ago when it is busy.
		if released[build].IsZero() && deleted[build].After(held[build].Add(time.Second)) {
			t.Errorf("%s was held, and is gone although nobody released it", build)
		}
	}
	known := map[string]bool{} // pods that were there, and bound to the node, when their Build was released
	for _, r := range requests {
		// What the kubelet writes about a pod, but its removal.
		if r.ObjectRef.Namespace != s.ns || r.ObjectRef.Resource != "pods" || r.UserAgent != agent || !r.changed() || r.Verb == "delete" {
			continue
		}
		build := r.ObjectRef.Name[:len("app-000")]
		at, ok := released[build]
		if r.ObjectRef.Subresource == "binding" {
			// The Job controller may make a pod while its Job is being deleted. It goes by garbage collection before it
			// does anything, and nobody can wait for what is not there yet.
			known[r.ObjectRef.Name] = !ok || !r.Answered.After(at)
		}
		if ok && known[r.ObjectRef.Name] && r.Answered.After(at) {
			t.Errorf("%s was released at %s, but its pod lived on: %s at %s", build, at, r, r.Answered)
		}
	}
	t.Logf("%d of %d were held when they were deleted", len(released), many)
}
