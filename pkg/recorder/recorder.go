// Package recorder records Events through client-go's broadcaster and can wait
// until those recorded so far have reached the API server, which the
// broadcaster itself cannot: a controller that ends would lose its last Events.
package recorder

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// Recorder is an EventRecorder that can be flushed.
type Recorder struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster
	flushed     chan struct{}
}

// flushReason marks the Event that only runs through the queue behind all the others. It never reaches the API server.
const flushReason = "Flush"

// New returns a Recorder of Events about objects of the scheme. component names their source.
func New(ctx context.Context, client kubernetes.Interface, scheme *runtime.Scheme, component string) *Recorder {
	broadcaster := record.NewBroadcaster(record.WithContext(klog.NewContext(context.Background(), klog.FromContext(ctx))))
	r := &Recorder{
		EventRecorder: broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}),
		broadcaster:   broadcaster,
		flushed:       make(chan struct{}),
	}
	broadcaster.StartRecordingToSink(sink{&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, r.flushed})
	return r
}

// Flush waits until every Event recorded so far has been written or given up, or ctx ends. It may be called
// once, and nothing may be recorded afterwards. about is any object of the scheme.
func (r *Recorder) Flush(ctx context.Context, about runtime.Object) {
	r.Event(about, corev1.EventTypeNormal, flushReason, "")
	select {
	case <-r.flushed:
	case <-ctx.Done():
	}
	r.broadcaster.Shutdown()
}

// sink writes Events in the order in which they were recorded, one after the other.
type sink struct {
	record.EventSink
	flushed chan<- struct{}
}

func (s sink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == flushReason {
		close(s.flushed)
		return event, nil
	}
	return s.EventSink.Create(event)
}
