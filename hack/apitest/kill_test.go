//go:build apitest

package apitest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/buildcontroller/build-controller/pkg/observe"
)

// The controller dies again and again, with no warning, while Builds come and
// change. Each of its lives sees some more of them.
func TestTheControllerIsKilledAtAnyMomentAndLosesAndRepeatsNothing(t *testing.T) {
	const (
		lives = 50
		many  = 200
		// workers is the controller's default.
		workers = 10
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newScene(t, 3*usual)
	from := cluster.audit.here(t)

	// All Builds are created, then some get more replicas, which is no reason to
	// build, and at last all a new revision.
	names := numbered(many)
	replicas := map[string]int32{}
	var creates, scales, revisions []func()
	for i, name := range names {
		cluster.kubelet.script(s.ns, name, script{step: 2 * time.Second})
		creates = append(creates, func() { s.create(makeBuild(name)) })
		revisions = append(revisions, func() { s.patch(name, revision("v2")) })
		replicas[name] = 1
		if i%4 == 3 {
			replicas[name] = 2
			scales = append(scales, func() {
				s.patch(name, object{"spec": object{"deployment": object{"replicas": 2}}})
			})
		}
	}
	edits := slices.Concat(creates, scales, revisions)

	for life := range lives {
		controller := startController(t, startOptions{})
		due := len(edits) / (lives - life)
		var users sync.WaitGroup
		for _, edit := range edits[:due] {
			users.Go(edit)
		}
		edits = edits[due:]
		if life%5 != 0 {
			// However busy the machine is, most lives are to see some work.
			untilLog(t, s.ctx, controller, `"Working"`, 1)
		}
		select {
		case <-time.After(time.Duration(random.Int64N(int64(time.Second)))):
		case <-s.ctx.Done():
			t.Fatalf("out of time in life %d", life)
		}
		controller.kill(t)
		users.Wait()
	}
	startController(t, startOptions{})
	s.untilReady(names...)

	total, doubled := 0, 0
	for _, name := range names {
		if err := s.runs(name, "v2"); err != nil {
			t.Error(err)
		}
		if got := *s.deployment(name).Spec.Replicas; got != replicas[name] {
			t.Errorf("%s has %d replicas, not %d", name, got, replicas[name])
		}
		// The first revision may be skipped: Latest builds only the newest.
		runs := len(s.jobsOf(name))
		if runs < 1 || runs > 2 {
			t.Errorf("%s has %d Jobs for 2 revisions", name, runs)
		}
		// An Event follows the write that makes it true. A kill between the two
		// loses it. A kill while the answer to that write is on its way may
		// double it, if the next life comes to see the old state; so there is at
		// most one more than transitions.
		transitions := map[string]int{
			observe.EventBuildStarted:   runs,
			observe.EventBuildSucceeded: runs,
			observe.EventDeployed:       runs + int(replicas[name]) - 1,
		}
		for reason, n := range s.eventsOf(name) {
			if n > transitions[reason]+1 {
				t.Errorf("%s has %d Events %s in %d runs", name, n, reason, runs)
			}
			doubled += max(0, n-transitions[reason])
			total += n
		}
	}
	// Each kill interrupts as many Builds as were being worked on.
	if most := lives * workers; doubled > most {
		t.Errorf("%d Events more than transitions", doubled)
	}
	s.expectOneJobPerRun(from)
	t.Logf("%d Builds in %d lives of the controller: %d Jobs, %d Events, %d of them doubled",
		many, lives, len(list[batchv1.Job](s.jobs)), total, doubled)
}
