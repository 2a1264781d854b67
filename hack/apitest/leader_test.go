//go:build apitest

package apitest

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// leaseName is of the Lease that leaders hold.
const leaseName = "build-controller"

// electing are two controllers that want the same Lease, in the namespace where
// they may have one.
type electing struct {
	*scene
	leases cache.Store
	flags  []string
}

func newElection(t *testing.T, flags ...string) *electing {
	t.Helper()
	s := newScene(t, usual)
	err := cluster.kube.CoordinationV1().Leases(identity.Namespace).Delete(s.ctx, leaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(cluster.kube, 0, informers.WithNamespace(identity.Namespace))
	leases := s.follow(factory.Coordination().V1().Leases().Informer())
	factory.Start(s.ctx.Done())
	factory.WaitForCacheSync(s.ctx.Done())
	return &electing{s, leases, append([]string{"-leader-elect=true", "-leader-elect-namespace=" + identity.Namespace}, flags...)}
}

// holder names who has the Lease, and nobody when it is free.
func (e *electing) holder() string {
	lease := get[coordinationv1.Lease](e.leases, identity.Namespace, leaseName)
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// start starts a controller; the one that is to lead is started first. One that
// loses its Lease ends, which is for the kubelet to mend.
func (e *electing) start() *process {
	e.t.Helper()
	return startController(e.t, startOptions{flags: e.flags, restart: true})
}

func (e *electing) untilHeldByOtherThan(before string) (after time.Duration, holder string) {
	e.t.Helper()
	start := time.Now()
	e.until("the Lease has a new holder", func() error {
		if holder = e.holder(); holder == "" || holder == before {
			return fmt.Errorf("%q has it", holder)
		}
		return nil
	})
	return time.Since(start), holder
}

// writers counts the writes of each controller, but those of the Lease.
func (e *electing) writers(from position, controllers ...*process) map[*process]int {
	writes := map[*process]int{}
	for _, r := range cluster.audit.since(e.t, from) {
		for _, c := range controllers {
			if r.by(c.instance) && r.writes() && !r.lease() {
				writes[c]++
			}
		}
	}
	return writes
}

func TestOfTwoControllersOnlyTheLeaderActsAndTheOtherTakesOverFromADeadOne(t *testing.T) {
	const lease, retry = 6 * time.Second, time.Second
	e := newElection(t, "-leader-elect-lease-duration=6s", "-leader-elect-renew-deadline=4s", "-leader-elect-retry-period=1s")
	from := cluster.audit.here(t)
	first := e.start()
	_, leader := e.untilHeldByOtherThan("")
	second := e.start()
	e.create(makeBuild("before"))
	e.untilReady("before")
	if w := e.writers(from, first, second); w[first] == 0 || w[second] > 0 {
		t.Errorf("the leader wrote %d times and the other %d times", w[first], w[second])
	}

	cluster.kubelet.script(e.ns, "across", script{step: time.Second})
	e.create(makeBuild("across"))
	e.until("a run is under way", func() error { return atLeast(1, len(e.jobsOf("across")), "Jobs") })
	from = cluster.audit.here(t)
	first.kill(t)
	after, _ := e.untilHeldByOtherThan(leader)
	t.Logf("taken over %.1fs after a kill, with a Lease of %s", after.Seconds(), lease)
	// client-go adds up to 1.2 times to the retry period; the rest is for a busy machine.
	if most := lease + 3*retry + 2*time.Second; after > most {
		t.Errorf("the other took over after %s, later than %s", after, most)
	}
	e.create(makeBuild("after"))
	e.untilReady("before", "across", "after")
	if w := e.writers(from, first, second); w[first] > 0 || w[second] == 0 {
		t.Errorf("after its death the first wrote %d times, the second %d times", w[first], w[second])
	}
	for _, name := range []string{"before", "across", "after"} {
		if jobs := e.jobsOf(name); len(jobs) != 1 {
			t.Errorf("%s has %d Jobs", name, len(jobs))
		}
	}
}

func TestALeaderThatIsStoppedHandsOverAtOnce(t *testing.T) {
	e := newElection(t) // a Lease of 15 s, as by default
	first := e.start()
	_, leader := e.untilHeldByOtherThan("")
	second := e.start()
	untilLog(t, e.ctx, second, "acquire leader lease", 1)
	start := time.Now()
	first.stop(t)
	e.untilHeldByOtherThan(leader)
	after := time.Since(start)
	t.Logf("taken over %.1fs after SIGTERM", after.Seconds())
	// The retry period of 2 s with up to 1.2 times added, and some for a busy machine.
	if most := 10 * time.Second; after > most {
		t.Errorf("the other took over after %s, later than %s", after, most)
	}
	from := cluster.audit.here(t)
	e.create(makeBuild("after"))
	e.untilReady("after")
	if w := e.writers(from, first, second); w[second] == 0 {
		t.Error("the new leader wrote nothing")
	}
}

// It should not happen, but two may act for a moment: a leader that hangs, or an
// election that is off for all. What makes a run exactly one is the name of its
// Job, not the election.
func TestTwoControllersThatBothActStillMakeOneJobEach(t *testing.T) {
	s := newScene(t, usual)
	from := cluster.audit.here(t)
	startController(t, startOptions{})
	startController(t, startOptions{})
	names := numbered(30)
	for _, name := range names {
		s.create(makeBuild(name))
	}
	s.untilReady(names...)
	for _, name := range names {
		s.patch(name, revision("v2"))
	}
	s.untilReady(names...)
	for _, name := range names {
		if err := s.runs(name, "v2"); err != nil {
			t.Error(err)
		}
	}
	s.expectOneJobPerRun(from)
}
