//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var figures = flag.Bool("figures", false, "measure five rounds after a warm-up, for docs/performance.md; without it one round shows that the way by hand works")

// From kubectl apply to the first good answer of the Go example: with a Build, and
// beside it the same Job, Deployment and Service by hand. Nothing is judged: what
// counts is the ratio, and only on a machine that does nothing else.
func TestFigures(t *testing.T) {
	s := newScene(t)
	rounds := 1
	if *figures {
		rounds = 5
		s.measure("warm-up")
	}
	var controlled, byHand []timing
	for i := range rounds {
		c, h := s.measure(fmt.Sprint("round-", i+1))
		controlled, byHand = append(controlled, c), append(byHand, h)
	}

	table := fmt.Sprintf("%-34s %10s %10s\n", "step (median of "+fmt.Sprint(rounds)+")", "Build", "by hand")
	for i, step := range steps {
		a, b := median(controlled, func(t timing) time.Duration { return t.step(i) }), median(byHand, func(t timing) time.Duration { return t.step(i) })
		table += fmt.Sprintf("%-34s %10s %10s\n", step, seconds(a), seconds(b))
	}
	a, b := median(controlled, timing.total), median(byHand, timing.total)
	table += fmt.Sprintf("%-34s %10s %10s   ratio %.3f\n", "all", seconds(a), seconds(b), float64(a)/float64(b))
	table += fmt.Sprintf("%-34s %10s %10s\n", "all, each round", "", "")
	for i := range controlled {
		table += fmt.Sprintf("%-34s %10s %10s\n", "", seconds(controlled[i].total()), seconds(byHand[i].total()))
	}
	t.Log("\n" + table)
}

// steps of the way, each named by what it ends with.
var steps = []string{
	"apply -> Job created",
	"-> pod scheduled",
	"-> clone done",
	"-> image pushed",
	"-> Deployment applied",
	"-> Deployment available",
	"-> first good answer",
}

// A timing has the moments at which a watcher saw the steps end, after the start.
// The times in the objects have whole seconds only, and a watcher is what the
// controller and kubectl are too.
type timing []time.Time

func (t timing) step(i int) time.Duration { return t[i+1].Sub(t[i]) }

// total is up to the first good answer. It can come before the Deployment is
// known to be available.
func (t timing) total() time.Duration { return t[len(t)-1].Sub(t[0]) }

func median(all []timing, of func(timing) time.Duration) time.Duration {
	var values []time.Duration
	for _, t := range all {
		values = append(values, of(t))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// measure goes the way once with a Build and once by hand, with nothing else under way.
func (s *scene) measure(name string) (controlled, byHand timing) {
	s.t.Helper()
	build := s.example("go")
	build.Name = "build-" + name
	build.Spec.Image.Name = s.image("figures")
	text := manifest(build)
	started := time.Now()
	if _, err := kubectl(text, "apply", "--namespace", s.ns, "-f", "-"); err != nil {
		s.t.Fatal(err)
	}
	controlled = s.followSteps(started, build.Name, func() *batchv1.Job {
		for _, job := range s.jobsOf(build.Name) {
			return job
		}
		return nil
	})
	s.untilReady(build.Name)
	hand := s.script("hand-"+name, build.Name)
	if _, err := kubectl("", "delete", "--namespace", s.ns, "build", build.Name); err != nil {
		s.t.Fatal(err)
	}
	s.untilEmpty()

	done := make(chan error, 1)
	started = time.Now()
	go func() { done <- hand.run(s.ns) }()
	byHand = s.followSteps(started, hand.name, func() *batchv1.Job { return s.job(hand.name) })
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
	if _, err := kubectl("", "delete", "--namespace", s.ns, "job/"+hand.name, "deployment/"+hand.name, "service/"+hand.name); err != nil {
		s.t.Fatal(err)
	}
	s.untilEmpty()
	return controlled, byHand
}

// untilEmpty returns when nothing of the last way takes the next one's time.
func (s *scene) untilEmpty() {
	s.t.Helper()
	s.until(2*time.Minute, "all pods are gone", func() error {
		if n := len(s.pods.List()); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
}

// followSteps notes when each step ends.
func (s *scene) followSteps(started time.Time, app string, job func() *batchv1.Job) timing {
	s.t.Helper()
	pod := func() *corev1.Pod {
		for _, pod := range list[corev1.Pod](s.pods) {
			if job := job(); job != nil && metav1.IsControlledBy(pod, job) {
				return pod
			}
		}
		return &corev1.Pod{}
	}
	ended := func(statuses []corev1.ContainerStatus) bool {
		return len(statuses) == 1 && statuses[0].State.Terminated != nil
	}
	marks := timing{started}
	answered := make(chan time.Time, 1)
	for i, reached := range []func() bool{
		func() bool { return job() != nil },
		func() bool { return pod().Spec.NodeName != "" },
		func() bool { return ended(pod().Status.InitContainerStatuses) },
		func() bool { return ended(pod().Status.ContainerStatuses) },
		func() bool { return s.deployment(app) != nil && s.service(app) != nil },
		func() bool { return available(s.deployment(app)) },
	} {
		s.until(buildLimit, steps[i], func() error {
			if !reached() {
				return fmt.Errorf("it is not reached")
			}
			return nil
		})
		marks = append(marks, time.Now())
		if steps[i] == "-> Deployment applied" {
			url := s.url(app)
			go func() {
				defer close(answered)
				if _, err := firstAnswer(url, buildLimit); err == nil {
					answered <- time.Now()
				}
			}()
		}
	}
	at, ok := <-answered
	if !ok {
		s.t.Fatalf("%s does not answer", app)
	}
	return append(marks, at)
}

func available(deployment *appsv1.Deployment) bool {
	status := deployment.Status
	return status.ObservedGeneration == deployment.Generation && status.UpdatedReplicas > 0 &&
		status.AvailableReplicas == *deployment.Spec.Replicas
}

// A script is what somebody without the controller would type.
type script struct {
	name            string
	job, deployment string // manifests
	service         string
	image           string // repository only
}

// script makes one that does with kubectl what was done for a Build: the very
// same Job, Deployment and Service under another name, with nothing in them by
// which the controller would find them.
func (s *scene) script(name, build string) script {
	s.t.Helper()
	label := map[string]string{"app": name}
	meta := metav1.ObjectMeta{Name: name}

	job := s.jobsOf(build)[0].DeepCopy()
	job.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	job.ObjectMeta, job.Status = meta, batchv1.JobStatus{}
	job.Spec.Selector, job.Spec.ManualSelector = nil, nil
	job.Spec.Template.Labels = label

	deployment := s.deployment(build).DeepCopy()
	deployment.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	deployment.ObjectMeta, deployment.Status = meta, appsv1.DeploymentStatus{}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: label}
	deployment.Spec.Template.Labels = label

	service := s.service(build).DeepCopy()
	service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	service.ObjectMeta, service.Status = meta, corev1.ServiceStatus{}
	service.Spec.Selector, service.Spec.ClusterIP, service.Spec.ClusterIPs = label, "", nil

	repository, _, _ := cutTag(s.build(build).Spec.Image.Name)
	old := deployment.Spec.Template.Spec.Containers[0].Image
	return script{
		name: name, job: manifest(job), service: manifest(service), image: repository,
		deployment: strings.ReplaceAll(manifest(deployment), old, "IMAGE"),
	}
}

func (c script) run(ns string) error {
	if _, err := kubectl(c.job, "apply", "--namespace", ns, "-f", "-"); err != nil {
		return err
	}
	if _, err := kubectl("", "wait", "--namespace", ns, "--for=condition=complete", "--timeout="+buildLimit.String(), "job/"+c.name); err != nil {
		return err
	}
	digest, err := kubectl("", "get", "pods", "--namespace", ns, "--selector", batchv1.JobNameLabel+"="+c.name,
		"--output", "jsonpath={.items[0].status.containerStatuses[0].state.terminated.message}")
	if err != nil {
		return err
	}
	manifests := strings.ReplaceAll(c.deployment, "IMAGE", c.image+"@"+strings.TrimSpace(digest)) + "---\n" + c.service
	if _, err := kubectl(manifests, "apply", "--namespace", ns, "-f", "-"); err != nil {
		return err
	}
	_, err = kubectl("", "rollout", "status", "--namespace", ns, "--timeout="+buildLimit.String(), "deployment/"+c.name)
	return err
}
