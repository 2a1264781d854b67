package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// registry is the only one: client-go takes the first provider of workqueues' metrics, and no other after it.
var registry = NewRegistry()

func ask(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder
}

func TestMetricsAreServed(t *testing.T) {
	expires := time.Time{}
	registry.CertificateExpires(func() time.Time { return expires })
	later := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour)
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(later, workqueue.TypedRateLimitingQueueConfig[string]{Name: "Builds"})
	defer queue.ShutDown()
	queue.Add("first")
	queue.Add("second")
	item, _ := queue.Get()
	queue.Done(item)
	queue.AddRateLimited("third")
	registry.Reviewed("/validate", true, 3*time.Millisecond)
	registry.Reviewed("/validate", false, 5*time.Second)

	page := func() string {
		got := ask(registry.Handler(), http.MethodGet, "/metrics")
		if got.Code != http.StatusOK {
			t.Fatalf("the answer is %d %s", got.Code, got.Body)
		}
		return "\n" + got.Body.String()
	}
	text := page()
	for _, want := range []string{
		"go_goroutines ",
		`workqueue_depth{name="Builds"} 1`,
		`workqueue_adds_total{name="Builds"} 2`,
		`workqueue_retries_total{name="Builds"} 1`,
		`workqueue_queue_duration_seconds_count{name="Builds"} 1`,
		`workqueue_work_duration_seconds_count{name="Builds"} 1`,
		`workqueue_unfinished_work_seconds{name="Builds"} `,
		`workqueue_longest_running_processor_seconds{name="Builds"} `,
		`build_controller_admission_review_duration_seconds_bucket{allowed="true",webhook="/validate",le="0.002"} 0`,
		`build_controller_admission_review_duration_seconds_bucket{allowed="true",webhook="/validate",le="0.004"} 1`,
		`build_controller_admission_review_duration_seconds_sum{allowed="false",webhook="/validate"} 5`,
		"build_controller_certificate_expiration_timestamp_seconds 0\n",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("there is no %q in %s", want, text)
		}
	}
	// It is asked for at every request, since a certificate is renewed.
	expires = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if want := "\nbuild_controller_certificate_expiration_timestamp_seconds 1.893456e+09\n"; !strings.Contains(page(), want) {
		t.Errorf("there is no %q", want)
	}
}

func TestWhatElseIsServed(t *testing.T) {
	handler := registry.Handler()
	for name, c := range map[string]struct {
		method, path string
		want         int
		contains     string
	}{
		"the index of the profiler": {http.MethodGet, "/debug/pprof/", http.StatusOK, "goroutine"},
		"a profile of it":           {http.MethodGet, "/debug/pprof/goroutine?debug=1", http.StatusOK, "goroutine profile"},
		"a trace":                   {http.MethodGet, "/debug/pprof/trace?seconds=0.01", http.StatusOK, ""},
		"no profile that is none":   {http.MethodGet, "/debug/pprof/nothing", http.StatusNotFound, ""},
		"not the command line":      {http.MethodGet, "/debug/pprof/cmdline", http.StatusNotFound, ""},
		"nothing else":              {http.MethodGet, "/", http.StatusNotFound, ""},
		"no metrics that are sent":  {http.MethodPost, "/metrics", http.StatusMethodNotAllowed, ""},
		"no profile that is sent":   {http.MethodPost, "/debug/pprof/", http.StatusMethodNotAllowed, ""},
		"no profile of a POST":      {http.MethodPost, "/debug/pprof/profile", http.StatusMethodNotAllowed, ""},
		"nothing that is deleted":   {http.MethodDelete, "/debug/pprof/trace", http.StatusMethodNotAllowed, ""},
	} {
		if got := ask(handler, c.method, c.path); got.Code != c.want || !strings.Contains(got.Body.String(), c.contains) {
			t.Errorf("%s: the answer is %d %.200s", name, got.Code, got.Body)
		}
	}
}
