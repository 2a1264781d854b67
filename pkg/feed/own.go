package feed

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// wroteTTL is how long an own write outweighs a watch that does not show it. It only matters for an
// object that was deleted again before the watch ever showed it.
const wroteTTL = time.Minute

// Own remembers what the API server answered to our own writes, until the watch shows it: a
// reader that trusts the watch alone would act twice while that is behind. The zero value is ready.
//
// client-go's MutationCache is for the same, but forgets an object that is not in the store when it is asked for it.
type Own[T Object] struct {
	mu     sync.Mutex
	writes map[cache.ObjectName]ownWrite[T]
	// gone are the objects that were deleted lately, with the time at which that may be forgotten: a deletion
	// can be shown before the answer to our write has arrived.
	gone  map[types.UID]time.Time
	swept time.Time
}

type ownWrite[T Object] struct {
	object  T
	expires time.Time
}

// Wrote remembers obj. shown is what the watch shows under its name, if it shows anything.
func (o *Own[T]) Wrote(obj T, shown func(cache.ObjectName) (T, bool)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, deleted := o.gone[obj.GetUID()]; deleted {
		return
	}
	name := cache.MetaObjectToName(obj)
	// Asked under the lock: what the watch shows later is told to Saw, which waits for it.
	if known, ok := shown(name); ok && !older(known, obj) {
		return
	}
	if o.writes == nil {
		o.writes = map[cache.ObjectName]ownWrite[T]{}
	}
	o.writes[name] = ownWrite[T]{obj, time.Now().Add(wroteTTL)}
}

// Saw takes note of what the watch shows, and Gone of the last state of what it shows no more.
func (o *Own[T]) Saw(obj T) {
	o.mu.Lock()
	delete(o.gone, obj.GetUID()) // it had only lost the label that the watch selects by
	o.mu.Unlock()
	o.forget(obj, func(own T) bool { return !older(obj, own) })
}

// Gone takes note of the last state of an object that is deleted.
func (o *Own[T]) Gone(obj T) {
	o.bury(obj.GetUID(), time.Now())
	o.forget(obj, func(own T) bool { return own.GetUID() == obj.GetUID() || !older(obj, own) })
}

func (o *Own[T]) bury(uid types.UID, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.swept) > wroteTTL {
		maps.DeleteFunc(o.gone, func(_ types.UID, until time.Time) bool { return now.After(until) })
		o.swept = now
	}
	if o.gone == nil {
		o.gone = map[types.UID]time.Time{}
	}
	o.gone[uid] = now.Add(wroteTTL)
}

func (o *Own[T]) forget(obj T, outdated func(own T) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := cache.MetaObjectToName(obj)
	if own, ok := o.writes[name]; ok && outdated(own.object) {
		delete(o.writes, name)
	}
}

// Newest returns shown, or our own write if that is newer or nothing is shown.
func (o *Own[T]) Newest(name cache.ObjectName, shown T, exists bool) (T, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own, ok := o.current(name)
	if ok && (!exists || older(shown, own)) {
		return own, true
	}
	return shown, exists
}

// each calls f for every object that was written and is not shown yet in that or a newer version.
func (o *Own[T]) each(f func(cache.ObjectName, T)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.writes {
		if own, ok := o.current(name); ok {
			f(name, own)
		}
	}
}

func (o *Own[T]) current(name cache.ObjectName) (own T, ok bool) {
	write, ok := o.writes[name]
	if ok && time.Now().After(write.expires) {
		delete(o.writes, name)
		return own, false
	}
	return write.object, ok
}

// older says whether a was written before b. Versions that cannot be compared, as those of fake clientsets, are never older.
func older[T Object](a, b T) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
