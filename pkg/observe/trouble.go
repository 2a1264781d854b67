package observe

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Application is what the cluster shows of the application. Any part of it may be missing.
type Application struct {
	// Image that the Deployment is kept at, by digest; empty when there is none yet.
	Image      string
	Deployment *appsv1.Deployment
	Service    *corev1.Service
	Ingress    *networkingv1.Ingress
	// Trouble that the pods have, as FindTrouble found it.
	Trouble Trouble
}

// Trouble is what keeps the pods of a rollout from becoming available; the zero value is none.
type Trouble struct {
	// Failure that it is worth to be said as.
	Failure *v1alpha1.Failure
	// Certain: it does not pass by itself, and no pod of the rollout is well.
	Certain bool
	// Pod and Container whose log says more; empty when none ran. Previous: its last run's log.
	Pod, Container string
	Previous       bool
	// Recheck is when to look again although nothing may have changed by then; zero means never.
	Recheck time.Duration
}

const (
	// certainEnds: a container that has ended a third time ends a fourth time. With the kubelet's pauses it is known after
	// some 15 s.
	certainEnds = 3
	// startTime is how long a program may take to get ready before it is said that it is not.
	startTime = 20 * time.Second
)

// RolledOut says whether all pods of the Deployment are of the newest template, and available.
func RolledOut(deployment *appsv1.Deployment) bool {
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == status.Replicas && status.AvailableReplicas == status.Replicas
}

// OfRollout says whether the pod is one that the Deployment asks for now; older ones tell nothing about the rollout.
func OfRollout(pod *corev1.Pod, deployment *appsv1.Deployment) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "ReplicaSet" && strings.HasPrefix(owner.Name, deployment.Name+"-") &&
		pod.Annotations[v1alpha1.RolloutAnnotation] == rolloutOf(deployment)
}

// rolloutOf is the hash that the pods of the newest rollout carry.
func rolloutOf(deployment *appsv1.Deployment) string {
	return deployment.Spec.Template.Annotations[v1alpha1.RolloutAnnotation]
}

// MayBeInTrouble says whether it is worth to look at the pods: not while all is well, or nothing known yet.
func MayBeInTrouble(build *v1alpha1.Build, app Application) bool {
	if app.Deployment == nil {
		return false
	}
	stage := stageOf(app, build.Status)
	return stage != unseen && stage != serving
}

// FindTrouble looks for what keeps the pods of the rollout from becoming available. Events are those with the reason FailedMount.
func FindTrouble(build *v1alpha1.Build, app Application, pods []*corev1.Pod, events []*corev1.Event, now time.Time) Trouble {
	ready := func(pod *corev1.Pod) bool { return podCondition(pod, corev1.PodReady) == corev1.ConditionTrue }
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !alive(pod) })
	well := slices.ContainsFunc(pods, ready)
	pods = slices.DeleteFunc(pods, ready)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { // so that the same one is named every time
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	rules := []func(*corev1.Pod) Trouble{
		func(pod *corev1.Pod) Trouble { return crashes(build, pod) },
		func(pod *corev1.Pod) Trouble { return notStarted(build, pod, events) },
	}
	late := stageOf(app, build.Status) == unmoved
	if late || !well { // else one after the other gets ready, and takes its time
		rules = append(rules, func(pod *corev1.Pod) Trouble { return notReady(app, pod, now, late) })
	}
	for _, rule := range rules {
		for _, pod := range pods {
			trouble := rule(pod)
			if trouble.Failure != nil {
				trouble.Failure.Step = v1alpha1.StepDeploy
				trouble.Failure.Message = Squash(trouble.Failure.Message, maxMessage)
			}
			if trouble.Failure != nil || trouble.Recheck > 0 {
				trouble.Certain = trouble.Certain && !well
				return trouble
			}
		}
	}
	return Trouble{Failure: notCreated(app.Deployment)}
}

// crashes: a container has ended and was started again. That it runs for a moment in between changes nothing.
func crashes(build *v1alpha1.Build, pod *corev1.Pod) Trouble {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		end := status.State.Terminated
		if end == nil {
			end = status.LastTerminationState.Terminated
		}
		if end == nil || status.RestartCount == 0 || status.Ready {
			continue
		}
		ends, code := status.RestartCount, end.ExitCode
		if status.State.Running == nil {
			ends++
		}
		failure := &v1alpha1.Failure{Reason: v1alpha1.FailureCrashLoopBackOff, ExitCode: &code}
		of := fmt.Sprintf("The container %s of the pod %s", status.Name, pod.Name)
		switch {
		case end.Reason == "OOMKilled":
			failure.Reason = v1alpha1.FailureOutOfMemory
			failure.Message = of + " takes more memory than its limit and is killed; raise spec.deployment.resources.limits.memory."
		case end.Reason == "StartError" || end.Reason == "ContainerCannotRun":
			failure.Message = of + " cannot be started" + quoted(end.Message) + "; correct the image's ENTRYPOINT and CMD."
		case code == 0:
			failure.Message = of + " ends again and again, without an error; what a Deployment runs must not end."
		default:
			advice := "correct the program, or what spec.deployment gives it"
			if status.Name != cmp.Or(build.Spec.Deployment.ContainerName, v1alpha1.AppContainer) {
				advice = "correct spec.deployment.template, or what put it into the pod"
			}
			failure.Message = fmt.Sprintf("%s ends again and again, with exit code %d; %s. status.failure.logTail has its last lines.", of, code, advice)
		}
		return Trouble{
			Failure: failure, Certain: ends >= certainEnds,
			Pod: pod.Name, Container: status.Name, Previous: status.State.Terminated == nil,
		}
	}
	return Trouble{}
}

// rolloutGoesOn is the end of messages about what has to be mended elsewhere.
const rolloutGoesOn = " and the rollout goes on by itself."

// notThere are the words with which a registry says that it has no such image, also not for this platform.
var notThere = regexp.MustCompile(`(?i)not found|manifest unknown|no match for platform`)

// notStarted: the pod waits for a node, an image or a volume. What a build's pod waits for is found in the same way.
func notStarted(build *v1alpha1.Build, pod *corev1.Pod, events []*corev1.Event) Trouble {
	if pod.Status.Phase != corev1.PodPending {
		return Trouble{}
	}
	s := scene{Evidence: Evidence{Events: events}, pod: pod, pending: pod}
	if before := build.Status.Failure; before != nil && before.Step == v1alpha1.StepDeploy {
		s.Before = before.DeepCopy()
		s.Before.Message = strings.TrimSuffix(strings.TrimPrefix(before.Message, noProgress), rolloutGoesOn)
	}
	for _, rule := range []rule{containerNotCreated, imageNotPulled, volumeNotMounted} {
		if failure := rule(s); failure != nil {
			failure.Message = strings.TrimSuffix(failure.Message, goesOn) + rolloutGoesOn
			certain := notThere.MatchString(failure.Message) || slices.ContainsFunc(waitingContainers(pod), func(w waitingContainer) bool {
				return imagePullReasons[w.reason] && notThere.MatchString(w.message)
			})
			return Trouble{Failure: failure, Certain: certain && failure.Reason == v1alpha1.FailureImagePullFailed}
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			if failure := missingClaim(c.Message); failure != nil {
				failure.Message = strings.TrimSuffix(failure.Message, goesOn) + rolloutGoesOn
				return Trouble{Failure: failure}
			}
			return Trouble{Failure: &v1alpha1.Failure{
				Reason: v1alpha1.FailureUnschedulable,
				Message: "No node fits the pod " + pod.Name + quoted(c.Message) +
					"; ask for less in spec.deployment.resources, correct spec.deployment.template, or make room on a node" + rolloutGoesOn,
			}}
		}
	}
	return Trouble{}
}

// notReady: the program runs and has had its time, at the latest when the rollout's is over, but its probe fails.
func notReady(app Application, pod *corev1.Pod, now time.Time, late bool) Trouble {
	if pod.Status.Phase != corev1.PodRunning {
		return Trouble{}
	}
	since, container := metav1.Time{}, ""
	for _, status := range pod.Status.ContainerStatuses {
		starting := status.Started != nil && !*status.Started && !late // its startup probe still has time
		if running := status.State.Running; running != nil && !status.Ready && !starting && since.Before(&running.StartedAt) {
			since, container = running.StartedAt, status.Name
		}
	}
	if container == "" {
		return Trouble{}
	}
	left, advice := startTime-now.Sub(since.Time), "its readiness probe fails; correct the program or the probe."
	for _, c := range app.Deployment.Spec.Template.Spec.Containers {
		if c.Name != container || c.ReadinessProbe == nil {
			continue
		}
		left += time.Duration(c.ReadinessProbe.InitialDelaySeconds) * time.Second
		switch probe := c.ReadinessProbe; {
		case probe.TCPSocket != nil:
			advice = fmt.Sprintf("nothing answers on the port %s; have the program listen there, at all addresses, or correct the port or the readiness probe.", numbered(c, probe.TCPSocket.Port))
		case probe.HTTPGet != nil:
			advice = fmt.Sprintf("its readiness probe fails, GET %s on the port %s; correct the program or the probe.", cmp.Or(probe.HTTPGet.Path, "/"), numbered(c, probe.HTTPGet.Port))
		}
	}
	if left > 0 && !late {
		return Trouble{Recheck: left}
	}
	return Trouble{
		Failure: &v1alpha1.Failure{
			Reason:  v1alpha1.FailureNotReady,
			Message: fmt.Sprintf("The container %s of the pod %s runs but does not get ready: %s", container, pod.Name, advice),
		},
		Pod: pod.Name, Container: container,
	}
}

// numbered is a port by its name and number, if it has both.
func numbered(container corev1.Container, port intstr.IntOrString) string {
	for _, known := range container.Ports {
		if port.Type == intstr.String && known.Name == port.StrVal {
			return fmt.Sprintf("%s (%d)", known.Name, known.ContainerPort)
		}
	}
	return port.String()
}

// notCreated: the API server refuses the pods; the Deployment says so while it lasts.
func notCreated(deployment *appsv1.Deployment) *v1alpha1.Failure {
	c := condition(deployment, appsv1.DeploymentReplicaFailure)
	if c.Status != corev1.ConditionTrue || passingCreate.MatchString(c.Message) {
		return nil
	}
	failure := &v1alpha1.Failure{Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailurePodRejected}
	what := quoted(refusedPod.ReplaceAllString(c.Message, ""))
	switch {
	case strings.Contains(c.Message, "exceeded quota"):
		failure.Reason = v1alpha1.FailureQuotaExceeded
		failure.Message = "A ResourceQuota of the namespace has no room for a pod" + what + "; raise the quota or free some of it" + rolloutGoesOn
	case strings.Contains(c.Message, "failed quota"):
		failure.Reason = v1alpha1.FailureQuotaExceeded
		failure.Message = "A ResourceQuota of the namespace wants resources named that the pod does not name" + what + "; set spec.deployment.resources."
	case strings.Contains(c.Message, "violates PodSecurity"):
		failure.Message = "The pod security level of the namespace does not allow the pod" + what + "; set what it asks for in spec.deployment.template."
	default:
		failure.Message = "The API server refuses the pod" + what + "; see to it" + rolloutGoesOn
	}
	return failure
}

// Each try has a pod name of its own, which would make each try news.
var refusedPod = regexp.MustCompile(`^(?:pods "[^"]*" is forbidden: )?`)

// Known says whether the log of the container in trouble need not be read: it was when the same was said before, which then
// has it. When the trouble counts for good it is read once more.
func (t Trouble) Known(build *v1alpha1.Build) bool {
	before, said := build.Status.Failure, deployedCondition(build.Status)
	switch {
	case said.Reason == v1alpha1.ReasonScaling:
		return true // it is not shown
	case t.Certain && said.Status != metav1.ConditionFalse:
		return false
	case before != nil && before.Step != v1alpha1.StepDeploy, build.Status.Rollback != nil && said.Status == metav1.ConditionFalse:
		return true // nor is it beside the failure of a run, or of the rollout that was taken back
	case before == nil || !strings.Contains(before.Message, t.Failure.Message):
		return false
	}
	t.Failure.LogTail = before.LogTail
	return true
}

// Read takes the end of the container's log into the failure.
func (t Trouble) Read(log string) {
	t.Failure.LogTail = output{text: clean(end(log, window))}.tail()
}
