// Package feed keeps an indexed copy of the objects of one kind and tells one
// reader of every change. It is the loop that lives inside an informer, written out:
//
//	API server ──list, watch──▶ Reflector ──▶ DeltaFIFO ──Pop──▶ Indexer, then Changed(old, new)
//
// What it promises:
//
//   - Order: the changes of one object arrive in the order in which they happened. Several that
//     piled up may be handed over together; between different objects there is no order.
//   - Store first: when Changed(old, new) is called, Get and ByIndex already answer with new.
//   - One goroutine: Changed is never called by two goroutines at once.
//   - Backpressure: while Changed runs, nothing more is taken from the watch, so nothing is buffered
//     without bound.
//   - Own writes: after Wrote(obj), Get and ByIndex answer with obj until the watch has caught up,
//     so that a reader never acts twice because the watch is late.
//
// Objects that a Feed hands out are shared: they are not to be changed.
package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Object is what a Feed can hold: a pointer to an API type.
type Object interface {
	runtime.Object
	metav1.Object
}

// Options say what a Feed holds and whom it tells.
type Options[T Object] struct {
	// Name appears in logs.
	Name string
	// ListWatch is where the objects come from.
	ListWatch cache.ListerWatcher
	// Example is an empty object of the kind.
	Example T
	// Strip takes away what no reader needs before an object is stored. It must be idempotent, since an
	// object may pass it twice. nil: objects are stored whole.
	Strip func(T)
	// Indexers are the indexes that ByIndex can ask.
	Indexers cache.Indexers
	// Changed is told of every change: old is nil for an object that is new, new for one that is gone. It must be quick.
	Changed func(old, new T)
}

// Feed holds the objects of one kind. Make it with New, then call Run once.
type Feed[T Object] struct {
	options   Options[T]
	indexer   cache.Indexer
	own       Own[T]
	queue     cache.Queue
	reflector *cache.Reflector
	detector  cache.MutationDetector
}

// New returns a Feed that is not running yet.
func New[T Object](logger klog.Logger, o Options[T]) *Feed[T] {
	f := &Feed[T]{
		options:  o,
		indexer:  cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, o.Indexers),
		detector: cache.NewCacheMutationDetector(o.Name),
	}
	f.queue = cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		Name:                  o.Name,
		Logger:                &logger,
		KnownObjects:          f.indexer,
		EmitDeltaTypeReplaced: true,
		Transformer:           f.transform,
	})
	f.reflector = cache.NewReflectorWithOptions(o.ListWatch, o.Example, f.queue, cache.ReflectorOptions{Name: o.Name, Logger: &logger})
	return f
}

// Run feeds until ctx ends, and returns when the last change has been handed over.
func (f *Feed[T]) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.reflector.RunWithContext(ctx) })
	running.Go(func() { f.detector.Run(ctx.Done()) })
	defer context.AfterFunc(ctx, f.queue.Close)()

	for {
		_, err := f.queue.Pop(f.apply)
		if errors.Is(err, cache.ErrFIFOClosed) {
			return
		}
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Dropped a change", "feed", f.options.Name)
		}
	}
}

// HasSynced says whether everything that existed when Run began has been handed over.
func (f *Feed[T]) HasSynced() bool { return f.queue.HasSynced() }

// Get returns the object of that name; ok is false when there is none.
func (f *Feed[T]) Get(name cache.ObjectName) (obj T, ok bool) {
	shown, exists := f.shown(name)
	return f.own.Newest(name, shown, exists)
}

// ByIndex returns the objects that the index files under value, in no order. It panics on an index that Options do not name.
func (f *Feed[T]) ByIndex(index, value string) []T {
	found, err := f.indexer.ByIndex(index, value)
	if err != nil {
		panic(err)
	}
	objects := make([]T, 0, len(found))
	for _, obj := range found {
		shown := obj.(T)
		newest, _ := f.own.Newest(cache.MetaObjectToName(shown), shown, true)
		objects = append(objects, newest)
	}
	f.own.each(func(name cache.ObjectName, own T) {
		if _, exists := f.shown(name); exists {
			return
		}
		if values, err := f.options.Indexers[index](own); err == nil && slices.Contains(values, value) {
			objects = append(objects, own)
		}
	})
	return objects
}

// Wrote tells the Feed what the API server answered to a write.
func (f *Feed[T]) Wrote(obj T) {
	if f.options.Strip != nil {
		f.options.Strip(obj)
	}
	f.own.Wrote(obj, f.shown)
}

// shown is what the watch has shown under that name.
func (f *Feed[T]) shown(name cache.ObjectName) (obj T, ok bool) {
	found, exists, err := f.indexer.GetByKey(name.String())
	if err != nil || !exists {
		return obj, false
	}
	return found.(T), true
}

// transform is called by the DeltaFIFO for every object before it is queued.
func (f *Feed[T]) transform(obj any) (any, error) {
	if object, ok := obj.(T); ok && f.options.Strip != nil {
		f.options.Strip(object)
	}
	return obj, nil
}

// apply brings the Indexer up to date with the deltas of one object and tells of each.
func (f *Feed[T]) apply(item any, _ bool) error {
	deltas, ok := item.(cache.Deltas)
	if !ok {
		return fmt.Errorf("the queue handed over a %T", item)
	}
	for _, delta := range deltas {
		if err := f.applyOne(delta); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed[T]) applyOne(delta cache.Delta) error {
	var old, none T
	if known, exists, err := f.indexer.Get(delta.Object); err == nil && exists {
		old = known.(T)
	}
	if delta.Type == cache.Deleted {
		if err := f.indexer.Delete(delta.Object); err != nil {
			return err
		}
		if last, ok := lastState[T](delta.Object); ok {
			f.own.Gone(last)
			f.options.Changed(last, none)
		}
		return nil
	}
	object, ok := delta.Object.(T)
	if !ok {
		return fmt.Errorf("the watch sent a %T", delta.Object)
	}
	f.detector.AddObject(object)
	if err := f.indexer.Update(object); err != nil {
		return err
	}
	f.own.Saw(object)
	f.options.Changed(old, object)
	return nil
}

// lastState is the object as it was last known: the watch may have missed the deletion itself.
func lastState[T Object](obj any) (T, bool) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	object, ok := obj.(T)
	return object, ok
}
