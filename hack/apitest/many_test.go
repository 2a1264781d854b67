//go:build apitest

package apitest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestManyBuildsAtOnceGiveOneJobEach(t *testing.T) {
	const many = 200
	s := newScene(t, 2*usual)
	startController(t, startOptions{})
	from := cluster.audit.here(t)

	names := numbered(many)
	start := time.Now()
	var users sync.WaitGroup
	for batch := range slices.Chunk(names, many/10) {
		users.Go(func() {
			for _, name := range batch {
				s.create(makeBuild(name))
			}
		})
	}
	users.Wait()
	created := time.Since(start)
	s.until("every Build has a Job", func() error { return atLeast(many, len(list[batchv1.Job](s.jobs)), "Jobs") })
	jobs := time.Since(start)
	s.untilReady(names...)
	ready := time.Since(start)
	t.Logf("%d Builds at once: created after %.1fs, the last Job after %.1fs, the last one Ready after %.1fs",
		many, created.Seconds(), jobs.Seconds(), ready.Seconds())

	for _, name := range names {
		if jobs := s.jobsOf(name); len(jobs) != 1 {
			t.Errorf("%s has %d Jobs", name, len(jobs))
		}
		if err := s.runs(name, "v1"); err != nil {
			t.Error(err)
		}
		for reason, n := range s.eventsOf(name) {
			if n != 1 {
				t.Errorf("%s has %d Events %s", name, n, reason)
			}
		}
	}
	s.expectOneJobPerRun(from)
}

// expectOneJobPerRun looks at all that was since then: every Job of the namespace
// was made once, one for each set of inputs, and none was deleted by a controller.
func (s *scene) expectOneJobPerRun(from position) {
	s.t.Helper()
	for _, r := range cluster.audit.since(s.t, from) {
		if r.byController() && r.changed() && r.ObjectRef.Resource == "jobs" && r.Verb != "create" && r.ObjectRef.Namespace == s.ns {
			s.t.Errorf("a controller did %s", r)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for job, uids := range s.made {
		if len(uids) != 1 {
			s.t.Errorf("the Job %s was made %d times", job, len(uids))
		}
	}
	hashes := map[string]string{} // the Job of each set of inputs
	for _, job := range list[batchv1.Job](s.jobs) {
		inputs := job.Labels[v1alpha1.BuildLabel] + " " + job.Annotations[v1alpha1.InputsAnnotation]
		if other, ok := hashes[inputs]; ok {
			s.t.Errorf("%s and %s are of the same inputs", job.Name, other)
		}
		hashes[inputs] = job.Name
	}
	if len(hashes) != len(s.made) {
		s.t.Errorf("of %d Jobs that were made %d are there", len(s.made), len(hashes))
	}
}

func atLeast(want, have int, what string) error {
	if have < want {
		return fmt.Errorf("%d of %d %s", have, want, what)
	}
	return nil
}
