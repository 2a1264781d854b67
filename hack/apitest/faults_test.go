//go:build apitest

package apitest

import (
	"math/rand/v2"
	"testing"
)

// Every fifth request fails and no watch lives long, and it comes out as if
// nothing had been.
func TestConflictsErrorsAndBrokenWatchesAreSurvived(t *testing.T) {
	const many = 40
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := newScene(t, 2*usual)
	from := cluster.audit.here(t)
	proxy := startFaultProxy(t, 0.2, seed)
	startController(t, startOptions{server: proxy.URL})

	names := numbered(many)
	for _, name := range names {
		s.create(makeBuild(name))
	}
	s.untilReady(names...)
	for _, name := range names {
		s.patch(name, revision("v2"))
	}
	s.untilReady(names...)
	t.Log("faults: ", proxy.counts())

	for _, name := range names {
		if err := s.runs(name, "v2"); err != nil {
			t.Error(err)
		}
		if jobs := s.jobsOf(name); len(jobs) != 2 {
			t.Errorf("%s has %d Jobs for 2 revisions", name, len(jobs))
		}
		// A write whose answer is lost is made again, and so may be its Event.
		for reason, n := range s.eventsOf(name) {
			if n > 2*len(s.jobsOf(name)) {
				t.Errorf("%s has %d Events %s", name, n, reason)
			}
		}
	}
	s.expectOneJobPerRun(from)
}
