//go:build e2e

package e2e

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One image, and pods that are asked for in ways in which they cannot become available.
func TestWhatIsInTheWayOfARolloutIsSaid(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pushPage()
	s.apply(s.page("shop"))
	s.untilReady("shop")
	app := func(fields object) object {
		fields["name"] = "app"
		return object{"template": object{"spec": object{"containers": []object{fields}}}}
	}
	for _, c := range []struct {
		what           string
		asked          object // of spec.deployment
		status, reason string
		says           []string
	}{
		{
			"a Secret that is not there", object{"env": []object{{"name": "TILL", "valueFrom": object{"secretKeyRef": object{"name": "till", "key": "code"}}}}},
			"Unknown", "SecretNotFound", []string{`Secret "till"`},
		},
		{"no node that is large enough", object{"resources": object{"requests": object{"cpu": "1000"}}}, "Unknown", "Unschedulable", []string{"spec.deployment.resources"}},
		{
			"a probe that is answered badly", object{"readinessProbe": object{"httpGet": object{"path": "/nope", "port": "http"}}},
			"Unknown", "NotReady", []string{"GET /nope on the port http (8080)"},
		},
		{"a command that is not there", app(object{"command": []string{"/nope"}}), "False", "CrashLoopBackOff", []string{"cannot be started", "/nope"}},
		{
			"too little memory", app(object{"command": []string{"sh", "-c", "x=$(head -c 100000000 /dev/zero | tr '\\0' x)"}, "resources": object{"limits": object{"memory": "16Mi"}}}),
			"False", "OutOfMemory", []string{"takes more memory than its limit"},
		},
		{
			"a sidecar whose image is not there",
			object{"template": object{"spec": object{"containers": []object{{"name": "proxy", "image": registry + "/nobody/nothing:1"}}}}},
			"False", "ImagePullFailed", []string{registry + "/nobody/nothing:1"},
		},
	} {
		start := time.Now()
		s.patch("shop", object{"spec": object{"deployment": c.asked}})
		s.until(2*time.Minute, c.what+" is said", func() error { return says(s.build("shop"), "Deployed", c.status, c.reason, c.says...) })
		t.Logf("%s/%s after %.0fs: %s", c.status, c.reason, time.Since(start).Seconds(), s.build("shop").Status.Failure.Message)
		if n := s.deployment("shop").Status.AvailableReplicas; n != 1 {
			t.Errorf("%s: %d pods of before are available", c.what, n)
		}
		if c.reason == "SecretNotFound" { // it goes on by itself
			_, err := cluster.kube.CoreV1().Secrets(s.ns).Create(s.ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "till"}, StringData: map[string]string{"code": "1234"},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.until(time.Minute, "it is deployed", func() error { return s.ready("shop") })
		}
		back := object{}
		for field := range c.asked {
			back[field] = nil
		}
		s.patch("shop", object{"spec": object{"deployment": back}})
		s.until(time.Minute, "all is well again", func() error {
			if s.build("shop").Status.Failure != nil {
				return errors.New("it is not")
			}
			return s.ready("shop")
		})
	}
	if n := len(s.jobsOf("shop")); n != 1 {
		t.Errorf("%d Jobs", n)
	}
}
