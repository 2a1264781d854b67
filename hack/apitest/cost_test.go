//go:build apitest

package apitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestABuildCostsTheAPIServerAtMostTenWritesAndNoReads(t *testing.T) {
	const most = 10
	s := newScene(t, usual)
	controller := startController(t, startOptions{})
	untilSeen(t) // with this it has done all that it does at its start

	from := cluster.audit.here(t)
	s.create(makeBuild("shop"))
	s.untilReady("shop")
	s.until("its Events are there", func() error { return s.happened("shop", "BuildStarted", "BuildSucceeded", "Deployed") })
	untilSeen(t)

	counts, writes := map[string]int{}, 0
	for _, r := range cluster.audit.since(t, from) {
		if !r.by(controller.instance) || r.lease() {
			continue
		}
		switch namespace := r.ObjectRef.Namespace; {
		case r.writes() && namespace == s.ns:
			writes++
			counts[kindOf(r)]++
		case r.Verb == "get" || r.Verb == "list":
			t.Errorf("it read: %s", r)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%2d %s", counts[kind], kind)
	}
	t.Logf("%2d writes in all", writes)
	if writes > most {
		t.Errorf("%d writes, more than %d", writes, most)
	}
}

func TestNothingIsWrittenWhenNothingHasChanged(t *testing.T) {
	s := newScene(t, usual)
	controller := startController(t, startOptions{})
	s.create(makeBuild("shop", withAll))
	s.untilReady("shop")
	s.until("its Events are there", func() error { return s.happened("shop", "Deployed") })
	untilSeen(t)

	// Each of these is a reason to look at the Build, and none to do anything.
	from := cluster.audit.here(t)
	job := s.build("shop").Status.Run.Job
	pod := s.podsOf("shop")[0].Name
	for i := range 10 {
		touch, err := json.Marshal(object{"metadata": object{"annotations": object{"example.com/touched": fmt.Sprint(i)}}})
		if err != nil {
			t.Fatal(err)
		}
		options := metav1.PatchOptions{FieldManager: "someone"}
		_, err1 := cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Patch(s.ctx, "shop", types.MergePatchType, touch, options)
		_, err2 := cluster.kube.BatchV1().Jobs(s.ns).Patch(s.ctx, job, types.MergePatchType, touch, options)
		_, err3 := cluster.kube.CoreV1().Pods(s.ns).Patch(s.ctx, pod, types.MergePatchType, touch, options)
		_, err4 := cluster.kube.AppsV1().Deployments(s.ns).Patch(s.ctx, "shop", types.MergePatchType, touch, options)
		_, err6 := cluster.kube.NetworkingV1().Ingresses(s.ns).Patch(s.ctx, "shop", types.MergePatchType, touch, options)
		_, err5 := cluster.kube.CoreV1().Services(s.ns).Patch(s.ctx, "shop", types.MergePatchType, touch, options)
		for _, err := range []error{err1, err2, err3, err4, err5, err6} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	untilSeen(t)
	for _, r := range cluster.audit.since(t, from) {
		if r.by(controller.instance) && r.writes() && r.ObjectRef.Namespace == s.ns {
			t.Errorf("it wrote: %s", r)
		}
	}
}

// untilSeen returns when the controller has surely seen and acted on all that
// was there before: when another Build, in another namespace, has gone its whole
// way. Its Job, pods and Deployment come by the same watches and its name
// through the same queue, after all that was before.
func untilSeen(t *testing.T) {
	t.Helper()
	s := newScene(t, usual)
	cluster.kubelet.script(s.ns, "witness", script{step: 10 * time.Millisecond})
	s.create(makeBuild("witness"))
	s.untilReady("witness")
	s.until("its Events are there", func() error { return s.happened("witness", "Deployed") })
}

// happened expects Events of these reasons about a Build.
func (s *scene) happened(build string, reasons ...string) error {
	events := s.eventsOf(build)
	for _, reason := range reasons {
		if events[reason] == 0 {
			return fmt.Errorf("there is no Event %s, only %v", reason, events)
		}
	}
	return nil
}

func kindOf(r request) string {
	kind := r.Verb + " " + r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		kind += "/" + r.ObjectRef.Subresource
	}
	return kind
}
