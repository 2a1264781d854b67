package recorder

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// The Events are about pods here; any kind of the scheme will do.
func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
}

// inBubble runs the test with a Recorder whose API server answers to every write with answer.
func inBubble(t *testing.T, answer func() error, test func(r *Recorder, written func() []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var mu sync.Mutex
		var reasons []string
		kube.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			err := answer()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				reasons = append(reasons, action.(clienttesting.CreateAction).GetObject().(*corev1.Event).Reason)
			}
			return err != nil, nil, err
		})
		test(New(t.Context(), kube, scheme.Scheme, "test"), func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(reasons)
		})
	})
}

func slow(d time.Duration) func() error {
	return func() error {
		time.Sleep(d)
		return nil
	}
}

func TestFlushWaitsForWhatWasRecorded(t *testing.T) {
	inBubble(t, slow(time.Second), func(r *Recorder, written func() []string) {
		var want []string
		for i := range 10 {
			reason := fmt.Sprint("Reason", i)
			r.Event(pod(reason), corev1.EventTypeNormal, reason, "")
			want = append(want, reason)
		}
		began := time.Now()
		r.Flush(context.Background(), &corev1.Pod{})
		if took := time.Since(began); took < 10*time.Second {
			t.Errorf("it took only %s", took)
		}
		if got := written(); !slices.Equal(got, want) {
			t.Errorf("written %q, want %q", got, want)
		}
	})
}

func TestFlushOfNothingReturnsAtOnceAndWritesNothing(t *testing.T) {
	inBubble(t, slow(time.Second), func(r *Recorder, written func() []string) {
		began := time.Now()
		r.Flush(context.Background(), &corev1.Pod{})
		if took, got := time.Since(began), written(); took != 0 || len(got) != 0 {
			t.Errorf("it took %s and wrote %q", took, got)
		}
	})
}

func TestFlushGivesUpWhenItsContextEnds(t *testing.T) {
	inBubble(t, slow(time.Hour), func(r *Recorder, written func() []string) {
		r.Event(pod("a"), corev1.EventTypeNormal, "Late", "")
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		r.Flush(ctx, &corev1.Pod{})
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if got := written(); len(got) != 0 {
			t.Errorf("written %q", got)
		}
		time.Sleep(2 * time.Hour) // the write under way ends, and with it the last goroutine
	})
}

func TestAnEventThatTheServerRefusesHoldsNothingUp(t *testing.T) {
	refused := false
	refuseTheFirst := func() error {
		if refused {
			return nil
		}
		refused = true
		return apierrors.NewForbidden(corev1.Resource("events"), "a", nil)
	}
	inBubble(t, refuseTheFirst, func(r *Recorder, written func() []string) {
		r.Event(pod("a"), corev1.EventTypeNormal, "Refused", "")
		r.Event(pod("b"), corev1.EventTypeNormal, "Taken", "")
		r.Flush(context.Background(), &corev1.Pod{})
		if got := written(); !slices.Equal(got, []string{"Taken"}) {
			t.Errorf("written %q", got)
		}
	})
}

// A controller ends by the end of its context, and records its last Events after that.
func TestEventsAreWrittenAfterTheContextOfNewHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		ctx, cancel := context.WithCancel(t.Context())
		r := New(ctx, kube, scheme.Scheme, "test")
		cancel()
		r.Event(pod("a"), corev1.EventTypeWarning, "Last", "words")
		r.Flush(context.Background(), &corev1.Pod{})
		list, err := kube.CoreV1().Events("team").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("written %v, %v", list, err)
		}
		if e := list.Items[0]; e.Reason != "Last" || e.Message != "words" || e.Type != corev1.EventTypeWarning || e.Source.Component != "test" || e.InvolvedObject.Name != "a" {
			t.Errorf("written %+v", e)
		}
	})
}
