//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// A registry that is out of order while the first attempt pushes, and well again before the second one.
func TestARegistryThatComesBackIsPushedToByTheNextAttempt(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", hostIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	broken := make(chan struct{})
	well := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-broken:
			well.ServeHTTP(w, r)
		default:
			http.Error(w, "out of order", http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	s := newScene(t)
	s.pushPage()
	image := listener.Addr().String() + "/e2e/" + s.ns + ":v1"
	s.apply(s.page("page", buildOnly, func(spec *v1alpha1.BuildSpec) { spec.Image.Name = image }))
	s.until(buildLimit, "it says that it tries again", func() error {
		build := s.build("page")
		built := meta.FindStatusCondition(build.Status.Conditions, v1alpha1.ConditionBuilt)
		if built == nil || built.Reason != v1alpha1.ReasonRetrying {
			return fmt.Errorf("it does not: %+v", built)
		}
		if built.Status != metav1.ConditionUnknown || build.Status.Failure == nil || build.Status.Failure.Reason != v1alpha1.FailureRegistryUnreachable ||
			!strings.Contains(built.Message, "Attempt 2 of 3 starts at ") {
			t.Errorf("the condition is %+v, the failure %+v", built, build.Status.Failure)
		}
		return nil
	})
	close(broken)
	s.untilReady("page")
	if run := s.build("page").Status.Run; run.Attempt != 2 {
		t.Errorf("attempt %d", run.Attempt)
	}
	if n := len(s.jobsOf("page")); n != 2 {
		t.Errorf("%d Jobs", n)
	}
	s.expectEvents("page", map[string]int{"BuildStarted": 2, "BuildFailed": 1, "BuildSucceeded": 1})
}

func TestAttemptsAreCountedAndEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.apply(s.page("page", buildOnly, fromURL("ssh://git@"+hostIP+":2223/none.git", gitKeySecret), func(spec *v1alpha1.BuildSpec) {
		spec.Retries = ptr.To[int32](1)
	}))
	s.until(buildLimit, "it has failed for good", func() error {
		if phase := s.build("page").Status.Phase; phase != v1alpha1.PhaseFailed {
			return errors.New("the phase is " + string(phase))
		}
		if n := s.eventCount("page")["BuildFailed"]; n < 2 {
			return fmt.Errorf("BuildFailed %d times", n)
		}
		return nil
	})
	if run := s.build("page").Status.Run; run.Attempt != 2 {
		t.Errorf("attempt %d", run.Attempt)
	}
	s.expectEvents("page", map[string]int{"BuildStarted": 2, "BuildFailed": 2})
}

// Kubernetes itself replaces the pod of a run that was evicted: no attempt is used up.
func TestAnEvictedPodIsReplaced(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pushPage(func(w *worktree) { w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nRUN sleep 20\n") })
	s.apply(s.page("page", buildOnly))
	s.until(buildLimit, "it builds", func() error { return s.containerRuns("page", "kaniko") })
	evicted := s.podsOf("page")[0].Name
	err := cluster.kube.PolicyV1().Evictions(s.ns).Evict(s.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: evicted, Namespace: s.ns}})
	if err != nil {
		t.Fatal(err)
	}
	s.untilReady("page")
	if run := s.build("page").Status.Run; run.Attempt != 1 {
		t.Errorf("attempt %d", run.Attempt)
	}
	pods := s.podsOf("page")
	if len(pods) != 2 && (len(pods) != 1 || pods[0].Name == evicted || pods[0].Status.Phase != corev1.PodSucceeded) {
		t.Errorf("%d pods", len(pods))
	}
	s.expectEvents("page", map[string]int{"BuildStarted": 1, "BuildSucceeded": 1})
}
