package feed

import (
	"strconv"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// source is the API server of one kind, and does what a test tells it: it can send what it likes, and
// change its objects while no watch sees it. Its watches hold nothing back: who does not read stops the sender.
type source struct {
	mu      sync.Mutex
	version int
	jobs    map[string]*batchv1.Job
	open    *sourceWatch
}

func newSource() *source { return &source{version: 100, jobs: map[string]*batchv1.Job{}} }

// IsWatchListSemanticsUnSupported makes a Reflector list before it watches.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

func (s *source) List(metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, job := range s.jobs {
		list.Items = append(list.Items, *job.DeepCopy())
	}
	return list, nil
}

func (s *source) Watch(metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = &sourceWatch{events: make(chan watch.Event), stopped: make(chan struct{})}
	return s.open, nil
}

// watched says whether a watch is open.
func (s *source) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open != nil
}

// store makes the Job what the source has under its name, and returns it in its newest version. No watch sees it.
func (s *source) store(job *batchv1.Job) *batchv1.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	job = job.DeepCopy()
	job.ResourceVersion = strconv.Itoa(s.version)
	s.jobs[job.Name] = job
	return job.DeepCopy()
}

// forget takes the Job away, and returns its last state. No watch sees it.
func (s *source) forget(name string) *batchv1.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	job := s.jobs[name].DeepCopy()
	job.ResourceVersion = strconv.Itoa(s.version)
	delete(s.jobs, name)
	return job
}

// send gives the open watch one event, and waits until it has taken it.
func (s *source) send(kind watch.EventType, obj runtime.Object) {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	select {
	case open.events <- watch.Event{Type: kind, Object: obj}:
	case <-open.stopped:
	}
}

func (s *source) add(job *batchv1.Job)    { s.send(watch.Added, s.store(job)) }
func (s *source) update(job *batchv1.Job) { s.send(watch.Modified, s.store(job)) }
func (s *source) remove(name string)      { s.send(watch.Deleted, s.forget(name)) }

// expire ends the watch the way that makes a Reflector list anew.
func (s *source) expire() {
	status := apierrors.NewResourceExpired("too old resource version").Status()
	s.send(watch.Error, &status)
}

type sourceWatch struct {
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (w *sourceWatch) ResultChan() <-chan watch.Event { return w.events }
func (w *sourceWatch) Stop()                          { w.once.Do(func() { close(w.stopped) }) }
