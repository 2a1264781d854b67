package admission

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/klog/v2"
)

// The paths of the webhooks, as in artifacts/webhook.yaml.
const (
	ValidatePath = "/validate"
	DefaultPath  = "/default"
)

const (
	// maxBody bounds a review, in bytes: it holds a Build twice, and the API server takes none of more than 3 MiB.
	maxBody = 7 << 20
	// maxReading and maxReviews bound how many are read and decided at the same time, and so the memory they take. Others wait.
	maxReading = 32
	maxReviews = 8
	// readTimeout bounds how long a body may take: the API server sends it at once, and who does not must not keep others waiting.
	readTimeout = 2 * time.Second
)

// decide answers a request; an error means that nobody can say.
type decide func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

// Observe is told of every review that was answered.
type Observe func(webhook string, allowed bool, took time.Duration)

// Handler serves the webhooks.
func (w *Webhook) Handler(observe Observe) http.Handler {
	reading, deciding := make(chan struct{}, maxReading), make(chan struct{}, maxReviews)
	mux := http.NewServeMux()
	for path, decide := range map[string]decide{ValidatePath: w.Validate, DefaultPath: w.Default} {
		mux.HandleFunc("POST "+path, func(writer http.ResponseWriter, r *http.Request) {
			start := time.Now()
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
				http.Error(writer, "the body of a review is application/json", http.StatusUnsupportedMediaType)
				return
			}
			if !enter(r.Context(), reading) {
				return
			}
			defer func() { <-reading }()
			_ = http.NewResponseController(writer).SetReadDeadline(time.Now().Add(readTimeout)) // which only a test's writer does not know
			body, err := io.ReadAll(http.MaxBytesReader(writer, r.Body, maxBody))
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
				http.Error(writer, "the review is too large", http.StatusRequestEntityTooLarge)
				return
			}
			if err != nil {
				http.Error(writer, "the body cannot be read", http.StatusBadRequest)
				return
			}
			if !enter(r.Context(), deciding) {
				return
			}
			defer func() { <-deciding }()
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
				http.Error(writer, "the body is no AdmissionReview with a request", http.StatusBadRequest)
				return
			}
			response, err := decide(r.Context(), review.Request)
			if errors.Is(err, errMalformed) {
				http.Error(writer, err.Error(), http.StatusBadRequest)
				return
			}
			if err != nil {
				klog.FromContext(r.Context()).Error(err, "A review cannot be answered", "webhook", path, "build", klog.KRef(review.Request.Namespace, review.Request.Name))
				http.Error(writer, err.Error(), http.StatusInternalServerError)
				return
			}
			response.UID = review.Request.UID
			observe(path, response.Allowed, time.Since(start))
			writer.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(writer).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
		})
	}
	return mux
}

// enter waits for a place, unless whoever asks has gone.
func enter(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
