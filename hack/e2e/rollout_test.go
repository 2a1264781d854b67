//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestANewRevisionRollsOutWithNoFailedRequest(t *testing.T) {
	s := newScene(t)
	w := newWorktree(t, "go")
	w.checkout("v1")
	build := s.example("go")
	s.apply(build)
	s.untilReady(build.Name)
	const before, after = "Hello from Go, version v1\n", "Hello again from Go, version v1\n"
	s.expectAnswer(build.Name, "", before)

	w.write("main.go", strings.Replace(w.read("main.go"), "Hello from Go", "Hello again from Go", 1))
	second := w.commit("Say it again")
	tag := "v2-" + s.ns
	w.push("refs/tags/" + tag)

	calls := callAllTheTime(t, s.url(build.Name))
	s.patch(build.Name, toRevision(tag))
	s.until(buildLimit, "the second version is deployed", func() error {
		if n := s.eventCount(build.Name)["Deployed"]; n < 2 {
			return fmt.Errorf("Deployed %d times", n)
		}
		return s.ready(build.Name)
	})
	answers := calls.stopAfter(5 * time.Second)

	s.expectBuilt(build.Name, second)
	s.expectDeployed(build.Name)
	firstNew := slices.IndexFunc(answers, func(a answer) bool { return a.body == after })
	lastOld := -1
	for i, a := range answers {
		switch {
		case a.err != nil:
			t.Errorf("request %d failed after %s: %v", i, a.took, a.err)
		case a.body == before:
			lastOld = i
		case a.body != after:
			t.Errorf("request %d was answered %q", i, a.body)
		}
	}
	if answers[0].body != before || answers[len(answers)-1].body != after {
		t.Errorf("the answers do not go from the first version to the second: %+v … %+v", answers[0], answers[len(answers)-1])
	}
	t.Logf("%d requests; the first answer of the second version to number %d, the last of the first to number %d", len(answers), firstNew, lastOld)
	s.expectEvents(build.Name, map[string]int{"BuildStarted": 2, "BuildSucceeded": 2, "Deployed": 2})
}

type answer struct {
	body string
	err  error
	took time.Duration
}

// calls are requests that are made one after the other, at most a hundred a second.
type calls struct {
	stop    context.CancelFunc
	answers chan []answer
}

func callAllTheTime(t *testing.T, url string) *calls {
	ctx, stop := context.WithCancel(t.Context())
	c := &calls{stop: stop, answers: make(chan []answer, 1)}
	go func() {
		var all []answer
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				start := time.Now()
				body, err := call(url)
				all = append(all, answer{body, err, time.Since(start)})
			case <-ctx.Done():
				c.answers <- all
				return
			}
		}
	}()
	return c
}

// stopAfter goes on for a while, and returns all answers.
func (c *calls) stopAfter(d time.Duration) []answer {
	<-time.After(d) // nothing is waited for: that nothing happens any more is the point
	c.stop()
	return <-c.answers
}
