package feed

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// The step label tells the states of a Job apart.
const (
	stepLabel   = "step"
	byNamespace = "namespace"
)

// job has a spec that is to be stripped.
func job(name, step string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), Labels: map[string]string{stepLabel: step}},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "much of this"}}},
	}
}

func named(name string) cache.ObjectName { return cache.NewObjectName("team", name) }

// options are those of a Feed of the source's Jobs.
func options(from *source, changed func(old, new *batchv1.Job)) Options[*batchv1.Job] {
	return Options[*batchv1.Job]{
		Name: "jobs", ListWatch: from, Example: &batchv1.Job{}, Changed: changed,
		Strip:    func(job *batchv1.Job) { job.Spec = batchv1.JobSpec{} },
		Indexers: cache.Indexers{byNamespace: cache.MetaNamespaceIndexFunc},
	}
}

// fed is a Feed under test: its source, and what it told.
type fed struct {
	*Feed[*batchv1.Job]
	t       *testing.T
	from    *source
	changes map[string][]string // by name: every change as "old>new"
	ahead   bool                // what was written outweighs what is told
}

// inBubble runs the test with a Feed that has synced with what there was, in a bubble of its own time.
func inBubble(t *testing.T, there []*batchv1.Job, test func(f *fed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fed{t: t, from: newSource(), changes: map[string][]string{}}
		for _, job := range there {
			f.from.store(job)
		}
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0)))
		f.Feed = New(logger, options(f.from, func(old, new *batchv1.Job) {
			name := either(old, new).Name
			f.changes[name] = append(f.changes[name], step(old)+">"+step(new))
			if !f.ahead {
				f.wantStored(name, new)
			}
		}))
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Run(ctx)
		}()
		synctest.Wait()
		if !f.HasSynced() {
			t.Error("not synced")
		}
		test(f)
		cancel()
		<-ended
	})
}

// wantStored checks, while a change is told, that it is stored already.
func (f *fed) wantStored(name string, want *batchv1.Job) {
	if got, ok := f.indexed(name); got != want || ok != (want != nil) {
		f.t.Errorf("told of %s at %q, but ByIndex answers with %q", name, step(want), step(got))
	}
	if got, ok := f.Get(named(name)); got != want || ok != (want != nil) {
		f.t.Errorf("told of %s at %q, but Get answers with %q", name, step(want), step(got))
	}
}

// wantStep checks that Get and ByIndex answer with that state, however often they are asked; "" for none.
func (f *fed) wantStep(name, want string) {
	f.t.Helper()
	for range 2 {
		if got, _ := f.Get(named(name)); step(got) != want {
			f.t.Errorf("Get answers with %s at %q, want %q", name, step(got), want)
		}
		if got, _ := f.indexed(name); step(got) != want {
			f.t.Errorf("ByIndex answers with %s at %q, want %q", name, step(got), want)
		}
	}
}

// indexed finds the object by its index.
func (f *fed) indexed(name string) (found *batchv1.Job, ok bool) {
	for _, job := range f.ByIndex(byNamespace, "team") {
		if job.Name == name {
			if ok {
				f.t.Errorf("ByIndex answers with %s twice", name)
			}
			found, ok = job, true
		}
	}
	return found, ok
}

func (f *fed) wantChanges(want map[string][]string) {
	f.t.Helper()
	synctest.Wait()
	if !maps.EqualFunc(f.changes, want, slices.Equal[[]string]) {
		f.t.Errorf("told %v, want %v", f.changes, want)
	}
}

func step(job *batchv1.Job) string {
	if job == nil {
		return ""
	}
	return job.Labels[stepLabel]
}

func either(old, new *batchv1.Job) *batchv1.Job {
	if new != nil {
		return new
	}
	return old
}

func TestTheChangesOfOneObjectAreToldInTheirOrder(t *testing.T) {
	inBubble(t, []*batchv1.Job{job("a", "1")}, func(f *fed) {
		f.from.add(job("b", "1"))
		f.from.update(job("a", "2"))
		f.from.update(job("b", "2"))
		f.from.update(job("a", "3"))
		f.from.remove("b")
		f.from.remove("a")
		f.from.add(job("b", "3"))
		f.wantChanges(map[string][]string{"a": {">1", "1>2", "2>3", "3>"}, "b": {">1", "1>2", "2>", ">3"}})
	})
}

// Under load the changes of one object pile up and are handed over together. They must still all be told.
func TestChangesThatPiledUpAreToldOneByOne(t *testing.T) {
	inBubble(t, nil, func(f *fed) {
		for _, delta := range []struct {
			put func(any) error
			job *batchv1.Job
		}{
			{f.queue.Add, job("a", "1")}, {f.queue.Update, job("a", "2")}, {f.queue.Delete, job("a", "2")}, {f.queue.Add, job("a", "3")},
		} {
			if err := delta.put(delta.job); err != nil {
				f.t.Fatal(err)
			}
		}
		f.wantChanges(map[string][]string{"a": {">1", "1>2", "2>", ">3"}})
	})
}

func TestADeletionThatTheWatchMissedIsToldWithTheLastState(t *testing.T) {
	inBubble(t, []*batchv1.Job{job("a", "1"), job("b", "1")}, func(f *fed) {
		f.from.update(job("a", "2"))
		f.from.forget("a")
		f.from.expire()
		time.Sleep(time.Minute)
		f.wantStep("a", "")
		f.wantChanges(map[string][]string{"a": {">1", "1>2", "2>"}, "b": {">1", "1>1"}})
	})
}

func TestAnObjectThatCameWhileTheWatchWasBrokenIsTold(t *testing.T) {
	inBubble(t, nil, func(f *fed) {
		f.from.store(job("a", "1"))
		f.from.expire()
		time.Sleep(time.Minute)
		f.wantChanges(map[string][]string{"a": {">1"}})
	})
}

func TestAnOwnWriteIsSeenUntilTheWatchHasCaughtUp(t *testing.T) {
	inBubble(t, []*batchv1.Job{job("a", "1")}, func(f *fed) {
		late := f.from.store(job("a", "1"))
		f.Wrote(f.from.store(job("a", "2")))
		f.wantStep("a", "2")
		f.ahead = true
		f.from.send(watch.Modified, late) // older than the write
		synctest.Wait()
		f.wantStep("a", "2")
		f.ahead = false
		f.from.update(job("a", "3"))
		synctest.Wait()
		f.wantStep("a", "3")
	})
}

func TestAnObjectThatWasJustMadeIsSeenBeforeTheWatchShowsIt(t *testing.T) {
	inBubble(t, nil, func(f *fed) {
		made := f.from.store(job("a", "1"))
		f.Wrote(made.DeepCopy())
		f.wantStep("a", "1")
		f.wantChanges(map[string][]string{})
		f.from.send(watch.Added, made)
		synctest.Wait()
		f.wantStep("a", "1")
		f.wantChanges(map[string][]string{"a": {">1"}})
	})
}

func TestAnObjectThatWasOutOfSightForAMomentIsNotTakenForDeleted(t *testing.T) {
	inBubble(t, []*batchv1.Job{job("a", "1")}, func(f *fed) {
		// It loses the label that the watch selects by, and gets it back.
		f.from.send(watch.Deleted, f.from.store(job("a", "2")))
		f.from.send(watch.Added, f.from.store(job("a", "3")))
		synctest.Wait()
		f.Wrote(f.from.store(job("a", "4")))
		f.wantStep("a", "4")
	})
}

func TestAnObjectThatWasDeletedAtOnceIsNotSeenForEver(t *testing.T) {
	for name, happens := range map[string]func(f *fed, made *batchv1.Job){
		"the watch shows both": func(f *fed, made *batchv1.Job) {
			f.Wrote(made.DeepCopy())
			f.from.send(watch.Added, made)
			f.from.remove("a")
		},
		"the watch was faster than the answer to the write": func(f *fed, made *batchv1.Job) {
			f.from.send(watch.Added, made)
			f.from.remove("a")
			synctest.Wait()
			f.Wrote(made.DeepCopy())
		},
		"the watch shows neither": func(f *fed, made *batchv1.Job) {
			f.Wrote(made.DeepCopy())
			f.from.forget("a")
			f.from.expire()
			time.Sleep(wroteTTL + time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(f *fed) {
				happens(f, f.from.store(job("a", "1")))
				synctest.Wait()
				f.wantStep("a", "")
			})
		})
	}
}

func TestObjectsAreStrippedBeforeTheyAreStored(t *testing.T) {
	inBubble(t, []*batchv1.Job{job("listed", "1")}, func(f *fed) {
		f.from.add(job("watched", "1"))
		f.Wrote(f.from.store(job("written", "1")))
		synctest.Wait()
		for _, name := range []string{"listed", "watched", "written"} {
			if job, ok := f.Get(named(name)); !ok || job.Spec.Template.Spec.NodeName != "" {
				t.Errorf("%s is %v", name, job)
			}
		}
	})
}

// HasSynced is asked from another goroutine again and again; the first time it agrees, everything must have been told.
func TestItHasSyncedOnlyWhenAllThatWasThereHasBeenTold(t *testing.T) {
	const there = 100
	from := newSource()
	for i := range there {
		from.store(job(fmt.Sprint("job-", i), "1"))
	}
	var told atomic.Int32
	f := New(klog.Background(), options(from, func(_, _ *batchv1.Job) {
		for range 100 { // gives the other goroutine its chance to be too early
			runtime.Gosched()
		}
		told.Add(1)
	}))
	stop := start(t, f)
	for !f.HasSynced() {
		runtime.Gosched()
	}
	if n := told.Load(); n != there {
		t.Errorf("synced after %d of %d", n, there)
	}
	stop()
}

func TestAFeedOfNothingHasSynced(t *testing.T) {
	inBubble(t, nil, func(f *fed) { f.wantChanges(map[string][]string{}) })
}

func TestRunReturnsWhenTheLastChangeHasBeenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newSource()
		for _, name := range []string{"a", "b", "c"} {
			from.store(job(name, "1"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		f := New(klog.Background(), options(from, func(_, _ *batchv1.Job) {
			cancel()
			told++
		}))
		f.Run(ctx)
		if told != 3 {
			t.Errorf("told of %d", told)
		}
		synctest.Wait() // and nothing goes on: the bubble would not end
	})
}

func TestRunReturnsWhenTheSourceNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f, ended := Jobs(klog.Background(), unreachable(), metav1.NamespaceAll, nobody[batchv1.Job]), make(chan struct{})
		go func() {
			defer close(ended)
			f.Run(ctx)
		}()
		time.Sleep(time.Hour)
		if f.HasSynced() {
			t.Error("synced with nothing")
		}
		cancel()
		<-ended
	})
}

// A handler that stalls stops the watch, so that nothing grows.
func TestASlowReaderPushesBackOnTheWatch(t *testing.T) {
	from := newSource()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	f := New(klog.Background(), options(from, func(_, new *batchv1.Job) {
		if new != nil && new.Name == "slow" {
			entered <- struct{}{}
			<-release
		}
	}))
	stop := start(t, f)
	for !f.HasSynced() || !from.watched() {
		runtime.Gosched()
	}
	from.add(job("slow", "1"))
	<-entered
	var taken atomic.Int32
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range 1000 {
			from.add(job(fmt.Sprint("job-", i), "1"))
			taken.Add(1)
		}
	}()
	for range 100_000 {
		runtime.Gosched()
	}
	if n := taken.Load(); n > 2 { // one in the Reflector's hand
		t.Errorf("%d changes were taken", n)
	}
	close(release)
	<-sent
	for len(f.ByIndex(byNamespace, "team")) != 1001 { // nothing is lost: this ends
		runtime.Gosched()
	}
	stop()
}

func TestAskingForAnIndexThatIsNotThereIsAMistake(t *testing.T) {
	inBubble(t, nil, func(f *fed) {
		defer func() {
			if recover() == nil {
				f.t.Error("no panic")
			}
		}()
		f.ByIndex("none", "x")
	})
}

// The mutation detector of client-go panics, and only in a process that was started with its variable set. So the
// test runs itself once more.
func TestAReaderThatChangesAnObjectIsCaught(t *testing.T) {
	const variable = "KUBE_CACHE_MUTATION_DETECTOR"
	const child = "FEED_TEST_CHANGES_AN_OBJECT"
	if os.Getenv(child) != "" {
		inBubble(t, []*batchv1.Job{job("a", "1")}, func(f *fed) {
			shared, _ := f.Get(named("a"))
			shared.Labels[stepLabel] = "changed by a reader"
			time.Sleep(time.Minute)
		})
		return
	}
	self := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	self.Env = append(os.Environ(), child+"=yes", variable+"=true")
	out, err := self.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "changed by a reader") || !strings.Contains(string(out), "panic") {
		t.Errorf("it was not: %v\n%s", err, out)
	}
}

// start runs the Feed outside of a bubble; what it returns stops it and waits for its end.
func start(t *testing.T, f *Feed[*batchv1.Job]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	t.Cleanup(cancel)
	return func() {
		cancel()
		<-ended
	}
}
