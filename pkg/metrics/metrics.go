// Package metrics tells a monitoring system how the controller is doing.
package metrics

import (
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/util/workqueue"
)

// Registry holds the metrics of the process.
type Registry struct {
	registry *prometheus.Registry
	reviews  *prometheus.HistogramVec
}

// NewRegistry returns a Registry with what Go knows of the process, and from now on of every workqueue that is made.
func NewRegistry() *Registry {
	r := &Registry{
		registry: prometheus.NewRegistry(),
		reviews: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "build_controller_admission_review_duration_seconds",
			Help:    "How long reviews of Builds took that were answered, by webhook and whether they were allowed.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}, []string{"webhook", "allowed"}),
	}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), r.reviews)
	workqueue.SetProvider(newQueues(r.registry))
	return r
}

// Reviewed counts a review of a Build.
func (r *Registry) Reviewed(webhook string, allowed bool, took time.Duration) {
	r.reviews.WithLabelValues(webhook, strconv.FormatBool(allowed)).Observe(took.Seconds())
}

// CertificateExpires has a function told when the certificate that is served expires.
func (r *Registry) CertificateExpires(notAfter func() time.Time) {
	r.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "build_controller_certificate_expiration_timestamp_seconds",
		Help: "When the certificate expires that is served, in seconds since 1970; 0 if there is none.",
	}, func() float64 {
		if at := notAfter(); !at.IsZero() {
			return float64(at.Unix())
		}
		return 0
	}))
}

// Handler serves /metrics, and what Go's profiler asks for under /debug/pprof/.
func (r *Registry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// queues makes the metrics of workqueues, under the names that Kubernetes' own components have for them.
type queues struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, work              *prometheus.HistogramVec
}

func newQueues(registry prometheus.Registerer) queues {
	labels, buckets := []string{"name"}, prometheus.ExponentialBuckets(1e-5, 10, 8)
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_" + name, Help: help}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_" + name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "workqueue_" + name, Help: help, Buckets: buckets}, labels)
	}
	q := queues{
		depth:      gauge("depth", "How many items wait."),
		unfinished: gauge("unfinished_work_seconds", "How long the work that is under way has taken, all together."),
		longest:    gauge("longest_running_processor_seconds", "How long the longest work that is under way has taken."),
		adds:       counter("adds_total", "How many items were added."),
		retries:    counter("retries_total", "How many items were added again after a failure."),
		latency:    histogram("queue_duration_seconds", "How long items waited."),
		work:       histogram("work_duration_seconds", "How long the work on an item took."),
	}
	registry.MustRegister(q.depth, q.unfinished, q.longest, q.adds, q.retries, q.latency, q.work)
	return q
}

func (q queues) NewDepthMetric(name string) workqueue.GaugeMetric {
	return q.depth.WithLabelValues(name)
}
func (q queues) NewAddsMetric(name string) workqueue.CounterMetric {
	return q.adds.WithLabelValues(name)
}
func (q queues) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return q.latency.WithLabelValues(name)
}
func (q queues) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return q.work.WithLabelValues(name)
}
func (q queues) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.unfinished.WithLabelValues(name)
}
func (q queues) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.longest.WithLabelValues(name)
}
func (q queues) NewRetriesMetric(name string) workqueue.CounterMetric {
	return q.retries.WithLabelValues(name)
}
