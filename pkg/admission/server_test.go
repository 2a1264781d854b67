package admission

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/policy"
)

func ignore(string, bool, time.Duration) {}

func reviewOf(t testing.TB, r *admissionv1.AdmissionRequest) []byte {
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func post(ctx context.Context, handler http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(recorder, r)
	return recorder
}

func TestAReviewIsAnswered(t *testing.T) {
	type observation struct {
		webhook string
		allowed bool
	}
	refused := aBuild(func(b *v1alpha1.Build) { b.Spec.Image.SecretName, b.Spec.Image.Insecure = "regcred", true })
	for name, c := range map[string]struct {
		path            string
		build           *v1alpha1.Build
		allowed, patch  bool
		warnings, codes int
	}{
		"what is allowed":   {path: ValidatePath, build: aBuild(), allowed: true},
		"what is refused":   {path: ValidatePath, build: refused, warnings: 1, codes: http.StatusForbidden},
		"what is completed": {path: DefaultPath, build: refused, allowed: true, patch: true},
		"a name beyond the ASCII": {path: ValidatePath, build: aBuild(func(b *v1alpha1.Build) {
			b.Name, b.Spec.Source.Git.Revision, b.Spec.Source.ContextDir = "läden-\u202e", "\U0001f600", "\u0000\ufffd"
		}), allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []observation
			handler := webhook(may()).Handler(func(webhook string, allowed bool, took time.Duration) {
				if took < 0 {
					t.Errorf("it took %s", took)
				}
				seen = append(seen, observation{webhook, allowed})
			})
			got := post(t.Context(), handler, c.path, reviewOf(t, request(t, c.build, nil)))
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal(got.Body.Bytes(), &review); err != nil || got.Code != http.StatusOK || got.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("the answer is %d %s: %v", got.Code, got.Body, err)
			}
			response := review.Response
			if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Request != nil || response == nil || response.UID != "uid-of-the-review" {
				t.Fatalf("the answer is %s", got.Body)
			}
			if response.Allowed != c.allowed || (response.Patch != nil) != c.patch || len(response.Warnings) != c.warnings || c.codes != 0 && response.Result.Code != int32(c.codes) {
				t.Errorf("the answer is %s", got.Body)
			}
			if len(seen) != 1 || seen[0] != (observation{c.path, c.allowed}) {
				t.Errorf("observed was %v", seen)
			}
		})
	}
}

func TestWhatIsNoReviewIsRefusedPolitely(t *testing.T) {
	object := func(raw string) string {
		return `{"request": {"uid": "u", "operation": "CREATE", "namespace": "team", "name": "shop", "object": ` + raw + `}}`
	}
	for name, c := range map[string]struct {
		method, path, kind string // POST, that of validation and application/json when empty
		body               string
		want               int
	}{
		"another method":                     {method: http.MethodGet, want: http.StatusMethodNotAllowed},
		"a change of it":                     {method: http.MethodPut, body: object(`{}`), want: http.StatusMethodNotAllowed},
		"another path":                       {path: "/validate/x", body: object(`{}`), want: http.StatusNotFound},
		"no path":                            {path: "/", body: object(`{}`), want: http.StatusNotFound},
		"another content type":               {kind: "text/plain", body: object(`{}`), want: http.StatusUnsupportedMediaType},
		"no content type":                    {kind: " ", body: object(`{}`), want: http.StatusUnsupportedMediaType},
		"a content type that only starts":    {kind: "application/json-patch+json", body: object(`{}`), want: http.StatusUnsupportedMediaType},
		"a content type with a parameter":    {kind: "application/json; charset=utf-8", body: object(`{}`), want: http.StatusOK},
		"an empty body":                      {want: http.StatusBadRequest},
		"no JSON":                            {body: "uid: u", want: http.StatusBadRequest},
		"half of it":                         {body: object(`{}`)[:60], want: http.StatusBadRequest},
		"more than one":                      {body: object(`{}`) + object(`{}`), want: http.StatusBadRequest},
		"JSON that is nested without an end": {body: strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), want: http.StatusBadRequest},
		"an object that is nested too deep":  {body: object(strings.Repeat(`{"spec":`, 100_000) + "1" + strings.Repeat("}", 100_000)), want: http.StatusBadRequest},
		"a list":                             {body: "[]", want: http.StatusBadRequest},
		"null":                               {body: "null", want: http.StatusBadRequest},
		"no request":                         {body: `{"kind": "AdmissionReview"}`, want: http.StatusBadRequest},
		"a request of null":                  {body: `{"request": null}`, want: http.StatusBadRequest},
		"a request of a string":              {body: `{"request": "u"}`, want: http.StatusBadRequest},
		"a uid of a number":                  {body: `{"request": {"uid": 1}}`, want: http.StatusBadRequest},
		"no object":                          {body: `{"request": {"uid": "u", "operation": "CREATE"}}`, want: http.StatusBadRequest},
		"no old object":                      {body: strings.Replace(object(`{}`), "CREATE", "UPDATE", 1), want: http.StatusBadRequest},
		"an object of null":                  {body: object(`null`), want: http.StatusBadRequest},
		"an object of a list":                {body: object(`[]`), want: http.StatusBadRequest},
		"an object of a string":              {body: object(`"x"`), want: http.StatusBadRequest},
		"a Build of other types":             {body: object(`{"metadata": {"labels": []}, "spec": {"image": 7}}`), want: http.StatusBadRequest},
		"a Build of nothing":                 {body: object(`{}`), want: http.StatusOK},
		"a Build of nulls":                   {body: object(`{"metadata": null, "spec": {"source": null, "builder": {"volumes": [null], "env": [null], "secrets": [null]}, "deployment": {"ports": [null], "template": {"spec": null}}}}`), want: http.StatusOK},
		"a template of a list":               {body: object(`{"spec": {"deployment": {"template": {"spec": []}}}}`), want: http.StatusOK},
		"a body that is too large":           {body: object(`{"x": "` + strings.Repeat("x", maxBody) + `"}`), want: http.StatusRequestEntityTooLarge},
		"a body that just is not":            {body: object(`{}`) + strings.Repeat(" ", maxBody-len(object(`{}`))), want: http.StatusOK},
		"an operation that nobody knows":     {body: strings.Replace(object(`{}`), "CREATE", "EXPLODE", 1), want: http.StatusOK},
		"no operation":                       {body: `{"request": {"uid": "u"}}`, want: http.StatusOK},
		"characters that are none":           {body: object("{\"metadata\": {\"annotations\": {\"\xff\xfe\": \"\\ud800\"}}, \"spec\": {\"image\": {\"name\": \"\xc3\x28\"}}}"), want: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{ValidatePath, DefaultPath} {
				if c.path != "" {
					path = c.path
				}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(c.body))
				if r.Header.Set("Content-Type", "application/json"); c.kind != "" {
					r.Header.Set("Content-Type", c.kind)
				}
				if c.method != "" {
					r.Method = c.method
				}
				got := httptest.NewRecorder()
				webhook(may()).Handler(ignore).ServeHTTP(got, r)
				if got.Code != c.want {
					t.Fatalf("%s answers %d %s", path, got.Code, got.Body)
				}
				var review admissionv1.AdmissionReview
				if c.want == http.StatusOK && (json.Unmarshal(got.Body.Bytes(), &review) != nil || review.Response == nil || review.Response.UID != "u") {
					t.Errorf("%s answers %s", path, got.Body)
				}
				if c.want != http.StatusOK && (got.Body.Len() == 0 || got.Body.Len() > 500) {
					t.Errorf("%s answers %q", path, got.Body)
				}
			}
		})
	}
}

func TestAnAPIServerThatDoesNotAnswerIsAnErrorOfTheServer(t *testing.T) {
	access := may()
	access.Fake.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("out of order") })
	build := aBuild(func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" })
	handler := webhook(access).Handler(func(string, bool, time.Duration) { t.Error("it was observed as answered") })
	if got := post(t.Context(), handler, ValidatePath, reviewOf(t, request(t, build, nil))); got.Code != http.StatusInternalServerError || !strings.Contains(got.Body.String(), "out of order") {
		t.Errorf("the answer is %d %s", got.Code, got.Body)
	}
}

// slow answers every review when it is told to.
type slow struct {
	authorizationclient.LocalSubjectAccessReviewInterface
	goOn    chan struct{}
	running atomic.Int32
}

func (s *slow) LocalSubjectAccessReviews(string) authorizationclient.LocalSubjectAccessReviewInterface {
	return s
}

func (s *slow) Create(_ context.Context, review *authorizationv1.LocalSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.LocalSubjectAccessReview, error) {
	s.running.Add(1)
	defer s.running.Add(-1)
	<-s.goOn
	review.Status.Allowed = true
	return review, nil
}

func TestSoManyReviewsAreDecidedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := &slow{goOn: make(chan struct{})}
		w := webhook(may())
		w.Access = access
		handler := w.Handler(ignore)
		body := reviewOf(t, request(t, aBuild(func(b *v1alpha1.Build) { b.Spec.Image.SecretName = "regcred" }), nil))
		var answered, gone atomic.Int32
		ask := func(ctx context.Context) {
			go func() {
				if got := post(ctx, handler, ValidatePath, body); strings.Contains(got.Body.String(), `"allowed":true`) {
					answered.Add(1)
				} else {
					gone.Add(1)
				}
			}()
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range maxReviews {
			ask(t.Context())
		}
		synctest.Wait()
		for range 3 { // these wait, and are given up
			ask(ctx)
		}
		for range maxReviews + 2 {
			ask(t.Context())
		}
		expect := func(what string, running, ended, left int) {
			synctest.Wait()
			if int(access.running.Load()) != running || int(answered.Load()) != ended || int(gone.Load()) != left {
				t.Errorf("%s %d are decided, %d answered and %d given up", what, access.running.Load(), answered.Load(), gone.Load())
			}
		}
		expect("at first", maxReviews, 0, 0)
		cancel()
		expect("after three are gone", maxReviews, 0, 3)
		access.goOn <- struct{}{}
		expect("after one answer", maxReviews, 1, 3)
		close(access.goOn)
		expect("at last", 0, 2*maxReviews+2, 3)
	})
}

func TestWhoSendsSlowlyKeepsNobodyWaitingAndIsSentAway(t *testing.T) {
	server := httptest.NewServer(webhook(may()).Handler(ignore))
	defer server.Close()
	var slow net.Conn
	for range 2 * maxReviews {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", ValidatePath); err != nil {
			t.Fatal(err)
		}
		slow = connection
	}
	ctx, cancel := context.WithTimeout(t.Context(), readTimeout) // in which nobody is sent away yet
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+ValidatePath, bytes.NewReader(reviewOf(t, request(t, aBuild(), nil))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a review gets %s", answer.Status)
	}
	answer, err = http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a body that does not come gets %s", answer.Status)
	}
}

func TestNothingIsDecidedBeforeAllBuildsAreKnown(t *testing.T) {
	w := webhook(may())
	w.Synced = func() bool { return false }
	if got := post(t.Context(), w.Handler(ignore), ValidatePath, reviewOf(t, request(t, aBuild(), nil))); got.Code != http.StatusInternalServerError {
		t.Errorf("it is answered with %d: %s", got.Code, got.Body)
	}
}

// Whatever is sent, by whomever, gets an answer.
func FuzzReview(f *testing.F) {
	build := aBuild(func(b *v1alpha1.Build) {
		template(`{serviceAccountName: a, volumes: [{name: a, secret: {secretName: s}}], containers: [{name: app, resources: {limits: {cpu: 1}}}]}`)(b)
		b.Spec.Builder = &v1alpha1.Builder{Name: v1alpha1.BuildKit, Mirrors: []string{"mirror.example.com"}, Secrets: []v1alpha1.BuildSecret{{ID: "a", SecretName: "b", Key: "c"}}}
	})
	f.Add(reviewOf(f, request(f, aBuild(), nil)))
	f.Add(reviewOf(f, request(f, build, aBuild())))
	f.Add([]byte(`{"request": {"uid": "u", "operation": "CREATE", "object": {"spec": {"deployment": {"template": {"spec": {"containers": [{"name": "app", "image": null}]}}}}}}}`))
	f.Add([]byte(`{"request": {"uid": "u", "operation": "UPDATE", "object": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "oldObject": null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := webhook(may("get secrets b"), another("team/other", "registry.example.com/shop:1.0"))
		w.Policy = policy.Policy{Registries: policy.Places{"registry.example.com/{namespace}"}, GitHosts: policy.Places{"git.example.com"}, Builders: policy.Builders{v1alpha1.Kaniko}}
		handler := w.Handler(ignore)
		for _, path := range []string{ValidatePath, DefaultPath} {
			got := post(t.Context(), handler, path, body)
			if got.Code != http.StatusOK {
				if got.Code != http.StatusBadRequest {
					t.Errorf("%s answers %d %s", path, got.Code, got.Body)
				}
				continue
			}
			var asked struct{ Request struct{ UID types.UID } }
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal(got.Body.Bytes(), &review); err != nil || review.Response == nil || json.Unmarshal(body, &asked) != nil || review.Response.UID != asked.Request.UID {
				t.Fatalf("%s answers %s: %v", path, got.Body, err)
			}
			if response := review.Response; !response.Allowed && (response.Result == nil || response.Result.Message == "") || response.Patch != nil && !json.Valid(response.Patch) || len(response.Warnings) > maxWarnings {
				t.Errorf("%s answers %s", path, got.Body)
			}
		}
	})
}
