package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const token = "c2VjcmV0"

// reviewer is an API server that knows one token, and lets its user get /metrics. failing is the resource that it cannot review.
func reviewer(t *testing.T, failing string) *fake.Clientset {
	user := authenticationv1.UserInfo{
		Username: "prometheus", UID: "7", Groups: []string{"monitoring"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"a", "b"}},
	}
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if review.Spec.Token == token {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: user}
		}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		path := review.Spec.NonResourceAttributes.Path
		want := authorizationv1.SubjectAccessReviewSpec{
			User: "prometheus", UID: "7", Groups: []string{"monitoring"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"a", "b"}},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}
		if !equality.Semantic.DeepEqual(review.Spec, want) {
			t.Errorf("asked is %+v", review.Spec)
		}
		review.Status.Allowed = path == "/metrics"
		return true, review, nil
	})
	client.PrependReactor("create", failing, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("out of order: " + token)
	})
	return client
}

func get(handler http.Handler, path, authorization string) *httptest.ResponseRecorder {
	recorder, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	handler.ServeHTTP(recorder, r)
	return recorder
}

func TestWhoIsLetThrough(t *testing.T) {
	for name, c := range map[string]struct {
		authorization string
		path          string // empty: /metrics
		failing       string
		want          int
		asked         []string // of the API server
	}{
		"who has the right":                     {authorization: "Bearer " + token, want: http.StatusOK, asked: []string{"tokenreviews", "subjectaccessreviews"}},
		"not who has the right to another path": {authorization: "Bearer " + token, path: "/debug/pprof/", want: http.StatusForbidden, asked: []string{"tokenreviews", "subjectaccessreviews"}},
		"nobody without a token":                {want: http.StatusUnauthorized},
		"nobody with an empty token":            {authorization: "Bearer ", want: http.StatusUnauthorized},
		"nobody with a password":                {authorization: "Basic " + token, want: http.StatusUnauthorized},
		"nobody with a token that is none":      {authorization: "Bearer x" + token, want: http.StatusUnauthorized, asked: []string{"tokenreviews"}},
		"nobody while tokens are unknown":       {authorization: "Bearer " + token, failing: "tokenreviews", want: http.StatusInternalServerError, asked: []string{"tokenreviews"}},
		"nobody while rights are unknown":       {authorization: "Bearer " + token, failing: "subjectaccessreviews", want: http.StatusInternalServerError, asked: []string{"tokenreviews", "subjectaccessreviews"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, through := reviewer(t, c.failing), false
			handler := Guarded(client, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { through = true }))
			if c.path == "" {
				c.path = "/metrics"
			}
			got := get(handler, c.path, c.authorization)
			if got.Code != c.want || through != (c.want == http.StatusOK) {
				t.Errorf("let through is %v, the answer %d %s", through, got.Code, got.Body)
			}
			if through == (got.Body.Len() > 0) || strings.Contains(got.Body.String(), token) {
				t.Errorf("the answer is %q", got.Body)
			}
			if (got.Header().Get("WWW-Authenticate") != "") != (c.want == http.StatusUnauthorized) {
				t.Errorf("the header is %q", got.Header())
			}
			var asked []string
			for _, action := range client.Actions() {
				asked = append(asked, action.GetResource().Resource)
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked was about %q", asked)
			}
		})
	}
}

func TestTheAPIServerIsNotAskedTooOften(t *testing.T) {
	client := reviewer(t, "")
	handler := Guarded(client, http.NotFoundHandler())
	codes := map[int]int{}
	for range 60 {
		codes[get(handler, "/metrics", "Bearer x").Code]++
	}
	// Some may come back while this runs, 10 a second.
	if asked := len(client.Actions()); asked < 20 || asked > 30 || codes[http.StatusUnauthorized] != asked || codes[http.StatusTooManyRequests] != 60-asked {
		t.Errorf("it was asked %d times; the answers are %v", asked, codes)
	}
	before := len(client.Actions())
	if got := get(handler, "/metrics", ""); got.Code != http.StatusUnauthorized || len(client.Actions()) != before {
		t.Errorf("without a token the answer is %d", got.Code)
	}
}
