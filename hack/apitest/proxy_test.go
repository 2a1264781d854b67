//go:build apitest

package apitest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A faultProxy stands between a controller and the API server and fails some of
// what goes through it, in every way that an API server and a network can.
type faultProxy struct {
	*httptest.Server
	target    *neturl.URL
	transport http.RoundTripper
	forward   *httputil.ReverseProxy

	mu     sync.Mutex
	random *rand.Rand
	share  float64        // of the requests that fail
	did    map[string]int // how often each kind of fault
}

func startFaultProxy(t *testing.T, share float64, seed uint64) *faultProxy {
	t.Helper()
	target, err := neturl.Parse(cluster.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// With the administrator's certificate, who may impersonate: the controller's
	// own headers then say who it is.
	transport, err := rest.TransportFor(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{
		target: target, transport: transport,
		random: rand.New(rand.NewPCG(seed, 1)), share: share, did: map[string]int{},
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { reset(w) },
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.CloseClientConnections() // or Close would wait for watches to end
		p.Close()
	})
	return p
}

// fault says whether a request fails now, and how: in one of these ways.
func (p *faultProxy) fault(likelihood float64, ways ...string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.random.Float64() >= likelihood {
		return ""
	}
	way := ways[p.random.IntN(len(ways))]
	p.did[way]++
	return way
}

// counts says what was done so far.
func (p *faultProxy) counts() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var counts []string
	for _, way := range slices.Sorted(maps.Keys(p.did)) {
		counts = append(counts, fmt.Sprintf("%s %d", way, p.did[way]))
	}
	return strings.Join(counts, ", ")
}

func (p *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var fault string
	watch := r.URL.Query().Get("watch") != ""
	switch {
	case watch:
		fault = p.fault(p.share, "watch: 410", "watch: 429", "watch: 500", "watch: reset")
	case r.Method == http.MethodGet:
		fault = p.fault(p.share, "read: 429", "read: 500", "read: reset")
	case r.Method == http.MethodPost:
		// A conflict is no answer to a create, and AlreadyExists would be a lie.
		fault = p.fault(p.share, "write: 429", "write: 500", "write: reset", "write: done, answer lost")
	default:
		fault = p.fault(p.share, "write: 409", "write: 429", "write: 500", "write: reset", "write: done, answer lost")
	}
	_, kind, _ := strings.Cut(fault, ": ")
	switch kind {
	case "":
		if watch {
			p.watch(w, r)
		} else {
			p.forward.ServeHTTP(w, r)
		}
	case "409":
		answer(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	case "410":
		answer(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	case "429":
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "the server has received too many requests")
	case "500":
		answer(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: request timed out")
	case "reset":
		reset(w)
	case "done, answer lost":
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		reset(w)
	}
}

// watch forwards a watch for some time, event by event, and ends it as watches
// end: because it is too far behind, or with its connection.
func (p *faultProxy) watch(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	life := time.Second + time.Duration(p.random.Int64N(int64(9*time.Second)))
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), life)
	defer cancel()
	out := r.Clone(ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host, out.Host = p.target.Scheme, p.target.Host, p.target.Host
	out.Header.Set("Accept", "application/json") // one event a line
	out.Header.Del("Accept-Encoding")
	response, err := p.transport.RoundTrip(out)
	if err != nil {
		reset(w)
	}
	defer response.Body.Close()
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	events := bufio.NewReader(response.Body)
	for {
		http.NewResponseController(w).Flush()
		event, err := events.ReadBytes('\n')
		if err != nil {
			break
		}
		w.Write(event)
	}
	switch p.fault(1, "watch: expired", "watch: dropped") {
	case "watch: expired":
		encoded, err := json.Marshal(failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version: 1 (2)"))
		if err == nil {
			fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", encoded)
		}
	case "watch: dropped":
		reset(w)
	}
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

func answer(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(failure(code, reason, message))
}

// reset ends the connection with no answer, as hard as a network can. It does
// not return.
func reset(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = connection.Close()
	}
	panic(http.ErrAbortHandler)
}
