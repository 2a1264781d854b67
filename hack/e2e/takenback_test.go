//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// A version that answers with its name, and one that says why it cannot start.
const (
	goodVersion = `ARG BASE
FROM ${BASE}
RUN mkdir /www && printf %%s "version %s" >/www/index.html
STOPSIGNAL SIGKILL
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
`
	badVersion = `ARG BASE
FROM ${BASE}
CMD ["sh", "-c", "echo the till cannot be opened >&2; exit 3"]
`
)

func inline(dockerfile string, args ...any) object {
	return object{"spec": object{"dockerfile": object{"inline": fmt.Sprintf(dockerfile, args...)}}}
}

func TestAVersionThatCrashesIsTakenBackWithNoFailedRequest(t *testing.T) {
	s := newScene(t)
	s.pushPage()
	s.apply(s.page("shop", func(spec *v1alpha1.BuildSpec) {
		spec.Dockerfile.Inline = fmt.Sprintf(goodVersion, "1")
		spec.Deployment.Replicas = ptr.To[int32](2)
	}))
	first := s.untilReady("shop").Status.Image
	s.expectAnswer("shop", "", "version 1")
	calls := callAllTheTime(t, s.url("shop"))

	s.patch("shop", inline(badVersion))
	s.until(buildLimit, "the second version is taken back and the first is available", func() error {
		build, deployment := s.build("shop"), s.deployment("shop")
		switch back := build.Status.Rollback; {
		case back == nil:
			return fmt.Errorf("there is no rollback: %+v", build.Status.Conditions)
		case back.From != build.Status.Image || back.From == first || back.To != first || build.Status.DeployedImage != first:
			return fmt.Errorf("it goes from %s to %s", back.From, back.To)
		case deployment.Spec.Template.Spec.Containers[0].Image != first:
			return fmt.Errorf("the Deployment runs %s", deployment.Spec.Template.Spec.Containers[0].Image)
		}
		return says(build, "Deployed", "False", "CrashLoopBackOff", "with exit code 3", "has returned to "+first+", which is available")
	})
	build := s.build("shop")
	failure := build.Status.Failure
	if failure == nil || failure.Step != v1alpha1.StepDeploy || failure.LogTail != "the till cannot be opened" || ptr.Deref(failure.ExitCode, 0) != 3 {
		t.Errorf("failure is %+v", failure)
	}
	if err := says(build, "Built", "True", "Succeeded"); err != nil || build.Status.Phase != v1alpha1.PhaseFailed {
		t.Errorf("phase is %s; %v", build.Status.Phase, err)
	}
	t.Logf("taken back %s after it was built", time.Since(build.Status.Run.CompletionTime.Time).Round(time.Second))

	// It is remembered: neither a change that asks for no other pods nor a Job that is gone has the image tried again.
	for _, job := range s.jobsOf("shop") {
		err := cluster.kube.BatchV1().Jobs(s.ns).Delete(s.ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.patch("shop", object{"spec": object{"deployment": object{"progressDeadline": "5m"}}})
	s.until(time.Minute, "the change is applied and no Job is left", func() error {
		switch d, jobs := s.deployment("shop"), s.jobsOf("shop"); {
		case *d.Spec.ProgressDeadlineSeconds != 300 || d.Status.ObservedGeneration != d.Generation:
			return errors.New("it is not applied")
		case len(jobs) > 0:
			return fmt.Errorf("%d Jobs are left", len(jobs))
		}
		return says(s.build("shop"), "Deployed", "False", "CrashLoopBackOff")
	})
	if image := s.deployment("shop").Spec.Template.Spec.Containers[0].Image; image != first {
		t.Errorf("the Deployment runs %s", image)
	}

	s.patch("shop", inline(goodVersion, "3"))
	s.until(buildLimit, "the third version is deployed", func() error {
		if s.build("shop").Status.DeployedImage == first {
			return errors.New("the first still is")
		}
		return s.ready("shop")
	})
	if build := s.build("shop"); build.Status.Rollback != nil || build.Status.Failure != nil {
		t.Errorf("the status still speaks of the second version: %+v", build.Status)
	}

	// By hand, to an image whose Job is gone.
	_, digest, _ := strings.Cut(first, "@")
	s.patch("shop", object{"spec": object{"deployment": object{"rollback": digest[:len("sha256:")+12]}}})
	s.until(time.Minute, "the first version is back", func() error {
		if s.build("shop").Status.DeployedImage != first {
			return errors.New("it is not")
		}
		return s.ready("shop")
	})
	answers := calls.stopAfter(8 * time.Second)

	var bodies []string
	for i, a := range answers {
		if a.err != nil {
			t.Errorf("request %d failed after %s: %v", i, a.took, a.err)
		}
		bodies = append(bodies, a.body)
	}
	// While pods are replaced both answer.
	slices.Sort(bodies)
	if last := answers[len(answers)-1].body; last != "version 1" || !slices.Equal(slices.Compact(bodies), []string{"version 1", "version 3"}) {
		t.Errorf("the last answer is %q, among %q", last, slices.Compact(bodies))
	}
	t.Logf("%d requests", len(answers))
	s.expectEvents("shop", map[string]int{
		"BuildStarted": 3, "BuildSucceeded": 3, "Deployed": 3, "RolloutWaiting": 1, "RolloutFailed": 1, "RolledBack": 1,
	})
}

// says returns nil when a condition of the Build is like this and has these parts in its message.
func says(build *v1alpha1.Build, conditionType, status, reason string, parts ...string) error {
	for _, condition := range build.Status.Conditions {
		if condition.Type != conditionType {
			continue
		}
		if string(condition.Status) != status || condition.Reason != reason {
			return fmt.Errorf("%s is %s: %s: %s", conditionType, condition.Status, condition.Reason, condition.Message)
		}
		for _, part := range parts {
			if !strings.Contains(condition.Message, part) {
				return fmt.Errorf("%s does not say %q: %s", conditionType, part, condition.Message)
			}
		}
		return nil
	}
	return fmt.Errorf("there is no condition %s", conditionType)
}
