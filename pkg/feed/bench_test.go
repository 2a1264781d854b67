package feed

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The benchmarks compare a Feed with the informer that client-go offers for the same work: the same source, transform
// and index, and one handler.

// A loop runs until ctx ends and calls handler for every change.
type loop func(ctx context.Context, from *source, handler func())

var loops = map[string]loop{
	"feed": func(ctx context.Context, from *source, handler func()) {
		o := options(from, func(_, _ *batchv1.Job) { handler() })
		o.Strip, o.Indexers = stripJob, cache.Indexers{ByOwner: byOwner}
		New(klog.Background(), o).Run(ctx)
	},
	"informer": func(ctx context.Context, from *source, handler func()) {
		informer := cache.NewSharedIndexInformer(from, &batchv1.Job{}, 0, cache.Indexers{ByOwner: byOwner})
		_ = informer.SetTransform(func(obj any) (any, error) {
			if job, ok := obj.(*batchv1.Job); ok {
				stripJob(job)
			}
			return obj, nil
		})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { handler() },
			UpdateFunc: func(any, any) { handler() },
			DeleteFunc: func(any) { handler() },
		})
		informer.RunWithContext(ctx)
	},
}

func stripJob(job *batchv1.Job) {
	job.ManagedFields = nil
	job.Spec = batchv1.JobSpec{}
}

func byOwner(obj any) ([]string, error) {
	if owner := metav1.GetControllerOfNoCopy(obj.(*batchv1.Job)); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// wholeJob is a Job of the size that an API server sends.
func wholeJob(i, version int) *batchv1.Job {
	yes := true
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprint("shop-", i), UID: types.UID(fmt.Sprint("job-", i)), ResourceVersion: strconv.Itoa(version),
			Labels:          map[string]string{"app.kubernetes.io/managed-by": "build-controller", "buildcontroller.dev/build": "shop"},
			Annotations:     map[string]string{"buildcontroller.dev/inputs": strings.Repeat("a", 64)},
			OwnerReferences: []metav1.OwnerReference{{UID: types.UID(fmt.Sprint("build-", i/5)), Controller: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "build-controller", FieldsV1: metav1.NewFieldsV1(string(make([]byte, 2000)))}},
		},
		Status: batchv1.JobStatus{Succeeded: 1},
	}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "kaniko", Args: []string{"--context=dir:///kaniko/source", "--destination=registry.example.com/shop:1.0"}}}
	return job
}

// BenchmarkEvent is the way of one update from the watch to the handler.
func BenchmarkEvent(b *testing.B) {
	const jobs = 1000
	for name, run := range loops {
		b.Run(name, func(b *testing.B) {
			from := newSource()
			var events [2][jobs]watch.Event // sent in turns: making them is not what is measured
			for version := range events {
				for i := range jobs {
					events[version][i] = watch.Event{Type: watch.Modified, Object: wholeJob(i, 1000+version)}
				}
			}
			handled, all := 0, make(chan struct{})
			defer running(run, from, func() {
				if handled++; handled == jobs+b.N {
					close(all)
				}
			})()
			for i := range jobs {
				from.send(watch.Added, wholeJob(i, i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				from.open.events <- events[i/jobs%2][i%jobs]
			}
			<-all
			b.StopTimer()
		})
	}
}

// BenchmarkStalledHandler sends 50,000 updates to a handler that does not return, and tells how many were taken
// into memory and how much the heap grew. Run it with -benchtime=1x.
func BenchmarkStalledHandler(b *testing.B) {
	const jobs, updates = 1000, 50_000
	for name, run := range loops {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				from, release := newSource(), make(chan struct{})
				var stalled atomic.Bool
				stop := running(run, from, func() {
					if stalled.Load() {
						<-release
					}
				})
				for i := range jobs {
					from.send(watch.Added, wholeJob(i, i))
				}
				before := heap()
				stalled.Store(true)
				var taken atomic.Int64
				var sender sync.WaitGroup
				sender.Go(func() {
					for i := range updates {
						from.send(watch.Modified, wholeJob(i%jobs, jobs+i))
						taken.Add(1)
					}
				})
				settled(&taken, updates)
				b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-grown")
				b.ReportMetric(float64(taken.Load()), "updates-taken")
				close(release)
				sender.Wait()
				stop()
			}
		})
	}
}

// settled waits until the counter has reached all, or has stood still for a while.
func settled(counter *atomic.Int64, all int64) {
	for last := int64(-1); counter.Load() != last && counter.Load() < all; {
		last = counter.Load()
		<-time.After(500 * time.Millisecond)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers held
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// running starts the loop and waits for its watch; what it returns stops it.
func running(run loop, from *source, handler func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { run(ctx, from, handler) })
	for !from.watched() {
		runtime.Gosched()
	}
	return func() {
		cancel()
		ended.Wait()
	}
}
