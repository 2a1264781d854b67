//go:build apitest

package apitest

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestAFailedRunIsNotRepeatedUntilTheInputsChange(t *testing.T) {
	s := newScene(t, usual)
	controller := startController(t, startOptions{})
	cluster.kubelet.script(s.ns, "shop", script{fail: &corev1.ContainerStateTerminated{
		ExitCode: 3, Reason: "Error", Message: "error building image: error building stage: failed to execute command: waiting for process to exit: exit status 3",
	}})
	s.create(makeBuild("shop"))
	failed := func() error {
		return errors.Join(
			s.condition("shop", v1alpha1.ConditionBuilt, metav1.ConditionFalse, string(v1alpha1.FailureBuildCommandFailed)),
			s.condition("shop", v1alpha1.ConditionReady, metav1.ConditionFalse, string(v1alpha1.FailureBuildCommandFailed)),
			s.happened("shop", "BuildFailed"),
		)
	}
	s.until("it has failed", failed)
	controller.kill(t)
	startController(t, startOptions{})
	untilSeen(t)
	if err := failed(); err != nil {
		t.Error(err)
	}
	if jobs := s.jobsOf("shop"); len(jobs) != 1 {
		t.Errorf("%d Jobs", len(jobs))
	}
	if n := s.eventsOf("shop")["BuildFailed"]; n != 1 {
		t.Errorf("%d Events about one failure", n)
	}
	if s.deployment("shop") != nil {
		t.Error("there is a Deployment of no image")
	}

	cluster.kubelet.script(s.ns, "shop", script{})
	s.patch("shop", revision("v2"))
	s.until("the next revision runs", func() error { return errors.Join(s.ready("shop"), s.runs("shop", "v2")) })
	if failure := s.build("shop").Status.Failure; failure != nil {
		t.Errorf("the status still has a failure: %+v", failure)
	}
}

func TestARolloutThatMakesNoProgressIsSaidAndCanBeMended(t *testing.T) {
	s := newScene(t, usual)
	startController(t, startOptions{})
	cluster.kubelet.script(s.ns, "shop", script{unready: true})
	s.create(makeBuild("shop", func(spec *v1alpha1.BuildSpec) {
		spec.Deployment.ProgressDeadline = &metav1.Duration{Duration: 3 * time.Second}
	}))
	s.until("the rollout has failed", func() error {
		return errors.Join(
			s.condition("shop", v1alpha1.ConditionDeployed, metav1.ConditionFalse, string(v1alpha1.FailureNotReady), "no progress within its deadline"),
			s.condition("shop", v1alpha1.ConditionReady, metav1.ConditionFalse, string(v1alpha1.FailureNotReady)),
			s.condition("shop", v1alpha1.ConditionBuilt, metav1.ConditionTrue, v1alpha1.ReasonSucceeded),
			s.happened("shop", "RolloutFailed"),
		)
	})
	cluster.kubelet.script(s.ns, "shop", script{})
	s.patch("shop", object{"spec": object{"deployment": object{"env": []object{{"name": "FIXED", "value": "yes"}}}}})
	s.until("it runs", func() error { return errors.Join(s.ready("shop"), s.runs("shop", "v1")) })
	if jobs := s.jobsOf("shop"); len(jobs) != 1 {
		t.Errorf("%d Jobs", len(jobs))
	}
}
