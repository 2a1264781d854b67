//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestTheClusterFollowsEveryChange(t *testing.T) {
	t.Run("the rebuild annotation makes one new run", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		s.apply(s.page("page"))
		first := s.untilReady("page").Status.Run.Job
		s.patch("page", object{"metadata": object{"annotations": object{v1alpha1.RebuildAnnotation: "today"}}})
		s.until(buildLimit, "the new run is deployed", func() error {
			build := s.build("page")
			if build.Status.Run.Job == first || build.Status.Run.Result == "" {
				return fmt.Errorf("run %+v", build.Status.Run)
			}
			return s.ready("page")
		})
		if run := s.build("page").Status.Run; run.Rebuild != "today" || run.Result != v1alpha1.ResultSucceeded {
			t.Errorf("the newest run is %+v", run)
		}
		s.expectDeployed("page")
		s.expectAnswer("page", "", "hello")
		if n := len(s.jobsOf("page")); n != 2 {
			t.Errorf("%d Jobs", n)
		}
	})
	t.Run("replicas are applied without a build, and a deleted Deployment comes back", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage()
		s.apply(s.page("page"))
		s.untilReady("page")
		s.patch("page", object{"spec": object{"deployment": object{"replicas": 3}}})
		s.until(time.Minute, "there are three pods", func() error {
			if n := s.deployment("page").Status.AvailableReplicas; n != 3 {
				return fmt.Errorf("%d are available", n)
			}
			return s.ready("page")
		})

		gone := s.deployment("page").UID
		err := cluster.kube.AppsV1().Deployments(s.ns).Delete(s.ctx, "page", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		if err != nil {
			t.Fatal(err)
		}
		s.until(time.Minute, "there is a new Deployment", func() error {
			if deployment := s.deployment("page"); deployment == nil || deployment.UID == gone || deployment.Status.AvailableReplicas != 3 {
				return errors.New("there is none that is available")
			}
			return s.ready("page")
		})
		s.expectDeployed("page")
		s.expectAnswer("page", "", "hello")
		if n := len(s.jobsOf("page")); n != 1 {
			t.Errorf("%d Jobs", n)
		}
	})
	t.Run("a running Job that somebody deletes is run again", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pushPage(slowPage)
		s.apply(s.page("page"))
		s.until(buildLimit, "kaniko runs", func() error { return s.containerRuns("page", "kaniko") })
		gone := s.jobsOf("page")[0]
		err := cluster.kube.BatchV1().Jobs(s.ns).Delete(s.ctx, gone.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		if err != nil {
			t.Fatal(err)
		}
		s.until(buildLimit, "the Job is there again", func() error {
			if job := s.job(gone.Name); job == nil || job.UID == gone.UID {
				return errors.New("it is not")
			}
			return nil
		})
		again := s.job(gone.Name).UID
		s.untilReady("page")
		s.expectAnswer("page", "", "hello")
		if jobs := s.jobsOf("page"); len(jobs) != 1 || jobs[0].UID != again {
			t.Errorf("%d Jobs, not only the second", len(jobs))
		}
		if result := s.build("page").Status.Run.Result; result != v1alpha1.ResultSucceeded {
			t.Errorf("the result is %s", result)
		}
	})
}

// slowPage is one that takes long enough to build to do something meanwhile.
func slowPage(w *worktree) {
	w.write("Dockerfile", pageDockerfile+"RUN sleep 15\n")
}

func TestADeletedBuildLeavesNothingThatCouldPush(t *testing.T) {
	s := newScene(t)
	w, _ := s.pushPage()
	s.apply(s.page("page"))
	s.untilReady("page")
	w.write("Dockerfile", pageDockerfile+"RUN sleep 30\n")
	w.commit("Slow")
	w.push("refs/heads/" + s.ns + "-slow")
	never := registry + "/e2e/" + s.ns + "-page:never"
	s.patch("page", object{"spec": object{"image": object{"name": never}, "source": object{"git": object{"revision": s.ns + "-slow"}}}})
	s.until(buildLimit, "kaniko runs", func() error {
		if n := len(s.jobsOf("page")); n != 2 {
			return fmt.Errorf("%d Jobs", n)
		}
		return s.containerRuns("page", "kaniko")
	})

	pod := s.runningPod("page")
	background := metav1.DeletePropagationBackground
	if err := cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Delete(s.ctx, "page", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	s.until(time.Minute, "the Build is gone", func() error {
		if s.build("page") != nil {
			return errors.New("it is there")
		}
		return nil
	})
	// Asked for and not watched: two watches have no order.
	left, err := cluster.kube.CoreV1().Pods(s.ns).Get(s.ctx, pod, metav1.GetOptions{})
	if err == nil && left.Status.Phase != corev1.PodFailed && left.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the Build is gone, its pod is still %s", left.Status.Phase)
	} else if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if digest := digestOf(t, never); digest != "" {
		t.Errorf("it was pushed: %s", digest)
	}
	s.until(time.Minute, "all that it owned is gone", func() error {
		for what, left := range map[string]int{
			"Jobs": len(s.jobs.List()), "Deployments": len(s.deployments.List()), "Services": len(s.services.List()), "pods": len(s.pods.List()),
		} {
			if left > 0 {
				return fmt.Errorf("%d %s", left, what)
			}
		}
		return nil
	})
	if digest := digestOf(t, never); digest != "" {
		t.Errorf("it was pushed after the Build was gone: %s", digest)
	}
}

// runningPod returns the name of the pod that builds a Build.
func (s *scene) runningPod(build string) string {
	s.t.Helper()
	for _, pod := range s.podsOf(build) {
		if pod.Status.Phase == corev1.PodRunning {
			return pod.Name
		}
	}
	s.t.Fatalf("no pod builds %s", build)
	return ""
}
