package metrics

import (
	"net/http"
	"strings"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// Guarded lets those through whom the API server knows by their bearer token and who may get the path, as a non-resource URL. It asks
// for every request, which for a monitoring system is a few a minute, and refuses to be made to ask more than ten times a second.
func Guarded(client kubernetes.Interface, next http.Handler) http.Handler {
	limit := rate.NewLimiter(10, 20)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		if !limit.Allow() {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		who, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token},
		}, metav1.CreateOptions{})
		if err != nil {
			klog.FromContext(ctx).Error(err, "A token cannot be reviewed")
			http.Error(w, "the token cannot be reviewed", http.StatusInternalServerError)
			return
		}
		if !who.Status.Authenticated {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is not valid", http.StatusUnauthorized)
			return
		}
		user := who.Status.User
		extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for key, values := range user.Extra {
			extra[key] = authorizationv1.ExtraValue(values)
		}
		may, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: "get"},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			klog.FromContext(ctx).Error(err, "An access cannot be reviewed", "user", user.Username)
			http.Error(w, "the access cannot be reviewed", http.StatusInternalServerError)
			return
		}
		if !may.Status.Allowed {
			http.Error(w, "not allowed to get "+r.URL.Path, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
