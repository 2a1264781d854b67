package observe

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// appPod is a pod of the rollout whose only container has run since the first second and is not ready, changed.
func appPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop-5d-a", UID: "pod", CreationTimestamp: at(0),
			Annotations:     map[string]string{v1alpha1.RolloutAnnotation: "newest"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "shop-5d", Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: theImage, State: runsSince(1)}}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func runsSince(second int) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(second)}}
}

func endedWith(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

// crashing: the container ended like this and was started again so many times; now it waits for the next.
func crashing(restarts, code int32, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = waitsFor("CrashLoopBackOff", "back-off 10s restarting failed container")
		p.Status.ContainerStatuses[0].LastTerminationState, p.Status.ContainerStatuses[0].RestartCount = endedWith(code, reason, message), restarts
	}
}

func pending(state corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.ContainerStatuses[0].State = corev1.PodPending, state }
}

func podIs(conditionType corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: conditionType, Status: status, Reason: reason, Message: message})
	}
}

// called is another pod, which was made so many seconds after the first.
func called(name string, second int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.CreationTimestamp = name, at(second) }
}

// rollsOut is a Deployment in the middle of a rollout.
func rollsOut(d *appsv1.Deployment) {
	d.Spec.Template.Annotations = map[string]string{v1alpha1.RolloutAnnotation: "newest"}
	d.Status.Conditions[1].Reason, d.Status.UpdatedReplicas = "ReplicaSetUpdated", 1
}

// probedBy is a Deployment that rolls out, whose container app is probed like this.
func probedBy(handler corev1.ProbeHandler) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		rollsOut(d)
		d.Spec.Template.Spec.Containers = []corev1.Container{{
			Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}, ReadinessProbe: &corev1.Probe{ProbeHandler: handler},
		}}
	}
}

func refuses(message string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: message})
	}
}

// notPulled is what containerd says of an image, as the kubelet repeats it while it backs off.
func notPulled(image, end string) string {
	return `Back-off pulling image "` + image + `": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "` + image +
		`": failed to resolve reference "` + image + `": ` + end
}

func TestWhatKeepsAPodFromBecomingAvailable(t *testing.T) {
	const deploy, crash = v1alpha1.StepDeploy, v1alpha1.FailureCrashLoopBackOff
	app := func(p *corev1.Pod) *corev1.ContainerStatus { return &p.Status.ContainerStatuses[0] }
	ready := podIs(corev1.PodReady, corev1.ConditionTrue, "", "")
	exited1 := crashing(2, 1, "Error", "")
	const longName = "registry.example.com/platform/frontend/shop@" + theDigest
	for sentence, c := range map[string]struct {
		pods       []*corev1.Pod
		events     []*corev1.Event
		deployment func(*appsv1.Deployment)
		before     string // the reason of the condition Deployed, of the same spec and image; "": there was no rollout
		now        int    // 0: 60
		want       want
		certain    bool
		container  string // whose log says more
		current    bool   // the log of its run that is not over yet, or just is
		recheck    time.Duration
	}{
		"no pods yet are fine":                             {},
		"a container that ends for the first time is fine": {pods: []*corev1.Pod{appPod(func(p *corev1.Pod) { app(p).State = endedWith(1, "Error", "") })}},
		"a container that was started again may still get well": {pods: []*corev1.Pod{appPod(crashing(1, 3, "Error", ""))},
			want: want{deploy, crash, 3, []string{"container app of the pod shop-5d-a ends again and again, with exit code 3", "status.failure.logTail"}, nil}, container: "app"},
		"a container that was started twice again does not get well": {pods: []*corev1.Pod{appPod(crashing(2, 3, "Error", ""))},
			want: want{step: deploy, reason: crash, exitCode: 3}, certain: true, container: "app"},
		"a container that has just ended again has a log of now": {pods: []*corev1.Pod{appPod(exited1, func(p *corev1.Pod) { app(p).State = endedWith(1, "Error", "") })},
			want: want{step: deploy, reason: crash, exitCode: 1}, certain: true, container: "app", current: true},
		"a container that takes too much memory is told its limit": {pods: []*corev1.Pod{appPod(crashing(2, 137, "OOMKilled", ""))},
			want: want{deploy, v1alpha1.FailureOutOfMemory, 137, []string{"raise spec.deployment.resources.limits.memory"}, nil}, certain: true, container: "app"},
		"a program that is not in the image is quoted": {pods: []*corev1.Pod{appPod(crashing(2, 128, "StartError", `exec: "serve": executable file not found in $PATH`))},
			want: want{deploy, crash, 128, []string{"cannot be started", `"serve"`, "ENTRYPOINT"}, nil}, certain: true, container: "app"},
		"a program that cannot be run is quoted": {pods: []*corev1.Pod{appPod(crashing(2, 127, "ContainerCannotRun", "no such file"))},
			want: want{deploy, crash, 127, []string{"cannot be started (no such file)"}, nil}, certain: true, container: "app"},
		"a program that ends without an error must not end": {pods: []*corev1.Pod{appPod(crashing(2, 0, "Completed", ""))},
			want: want{deploy, crash, 0, []string{"without an error", "must not end"}, nil}, certain: true, container: "app"},
		"an init container crashes too": {pods: []*corev1.Pod{appPod(exited1, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.InitContainerStatuses = corev1.PodPending, p.Status.ContainerStatuses
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: waitsFor("PodInitializing", "")}}
			p.Status.InitContainerStatuses[0].Name = "migrate"
		})}, want: want{deploy, crash, 1, []string{"container migrate"}, nil}, certain: true, container: "migrate"},
		"an init container that is done after all is fine": {pods: []*corev1.Pod{appPod(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "migrate", Ready: true, RestartCount: 2, State: endedWith(0, "Completed", ""), LastTerminationState: endedWith(1, "Error", "")}}
		})}, now: 2, recheck: 19 * time.Second},
		"a sidecar crashes too": {pods: []*corev1.Pod{appPod(exited1, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Name = "proxy"
			p.Status.ContainerStatuses = append([]corev1.ContainerStatus{{Name: "app", Ready: true, State: runsSince(1)}}, p.Status.ContainerStatuses...)
		})}, want: want{deploy, crash, 1, []string{"container proxy"}, nil}, certain: true, container: "proxy"},
		"a container that is ready again is fine": {pods: []*corev1.Pod{appPod(exited1, func(p *corev1.Pod) { app(p).State, app(p).Ready = runsSince(50), true })}},

		"nothing is certain while another pod is ready": {pods: []*corev1.Pod{appPod(exited1), appPod(called("b", 1), ready)},
			want: want{step: deploy, reason: crash, exitCode: 1}, container: "app"},
		"a pod that is ready and on its way out makes nothing uncertain": {pods: []*corev1.Pod{appPod(exited1), appPod(called("b", 1), ready, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(at(1)) })},
			want: want{step: deploy, reason: crash, exitCode: 1}, certain: true, container: "app"},
		"what a ready pod went through is past": {pods: []*corev1.Pod{appPod(exited1, ready)}},
		"the oldest pod is named":               {pods: []*corev1.Pod{appPod(exited1, called("b", 2)), appPod(exited1, called("c", 1)), appPod(exited1, called("a", 3))}, want: want{deploy, crash, 1, []string{"the pod c "}, nil}, certain: true, container: "app"},
		"of two as old the first by name is":    {pods: []*corev1.Pod{appPod(exited1, called("b", 1)), appPod(exited1, called("a", 1))}, want: want{deploy, crash, 1, []string{"the pod a "}, nil}, certain: true, container: "app"},
		"a crash is told of before an older pod that waits": {pods: []*corev1.Pod{appPod(pending(waitsFor("ImagePullBackOff", "not found"))), appPod(exited1, called("b", 1))},
			want: want{deploy, crash, 1, []string{"the pod b "}, nil}, certain: true, container: "app"},
		"pods that are over or go away tell nothing": {pods: []*corev1.Pod{
			appPod(exited1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), appPod(exited1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			appPod(exited1, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(at(1)) }),
		}},

		"an image that is not there is certain": {pods: []*corev1.Pod{appPod(pending(waitsFor("ErrImagePull", theImage+": not found")))},
			want: want{deploy, v1alpha1.FailureImagePullFailed, 0, []string{theImage + " of the container app", "and the rollout goes on by itself."}, nil}, certain: true},
		"an image with a long name that is not there is certain": {pods: []*corev1.Pod{appPod(pending(waitsFor("ImagePullBackOff", notPulled(longName, longName+": not found"))))},
			want: want{deploy, v1alpha1.FailureImagePullFailed, 0, []string{"not found"}, nil}, certain: true},
		"an image whose manifest is unknown is certain": {pods: []*corev1.Pod{appPod(pending(waitsFor("ErrImagePull", "manifest unknown")))},
			want: want{step: deploy, reason: v1alpha1.FailureImagePullFailed}, certain: true},
		"an image for another platform is certain": {pods: []*corev1.Pod{appPod(pending(waitsFor("ErrImagePull", "no match for platform in manifest")))},
			want: want{step: deploy, reason: v1alpha1.FailureImagePullFailed}, certain: true},
		"an image of an init container is one of the rollout too": {pods: []*corev1.Pod{appPod(pending(waitsFor("PodInitializing", "")), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "migrate", Image: "migrate:1", State: waitsFor("ErrImagePull", "not found")}}
		})}, want: want{deploy, v1alpha1.FailureImagePullFailed, 0, []string{"migrate:1 of the container migrate"}, nil}, certain: true},
		"a registry that refuses connections may come back": {pods: []*corev1.Pod{appPod(pending(waitsFor("ErrImagePull", "dial tcp 192.0.2.1:443: connect: connection refused")))},
			want: want{deploy, v1alpha1.FailureImagePullFailed, 0, []string{"connection refused"}, nil}},
		"a registry that refuses the credentials may get others": {pods: []*corev1.Pod{appPod(pending(waitsFor("ErrImagePull", "pull access denied, repository does not exist or may require authorization")))},
			want: want{step: deploy, reason: v1alpha1.FailureImagePullFailed}},
		"a kubelet that backs off without a word says nothing for certain": {pods: []*corev1.Pod{appPod(pending(waitsFor("ImagePullBackOff", `Back-off pulling image "`+theImage+`"`)))},
			want: want{step: deploy, reason: v1alpha1.FailureImagePullFailed}},
		"a missing Secret of an environment variable is named": {pods: []*corev1.Pod{appPod(pending(waitsFor("CreateContainerConfigError", `secret "shop" not found`)))},
			want: want{deploy, v1alpha1.FailureSecretNotFound, 0, []string{`Secret "shop" does not exist in this namespace; create it and the rollout goes on by itself.`}, nil}},
		"a missing key of an environment variable is named": {pods: []*corev1.Pod{appPod(pending(waitsFor("CreateContainerConfigError", "couldn't find key token in Secret team/shop")))},
			want: want{deploy, v1alpha1.FailureSecretKeyNotFound, 0, []string{`Secret "shop" has no key token; add it and the rollout goes on by itself.`}, nil}},
		"a container that the node will not make is quoted": {pods: []*corev1.Pod{appPod(pending(waitsFor("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")))},
			want: want{deploy, v1alpha1.FailurePodRejected, 0, []string{"container app", "runAsNonRoot", "the rollout goes on by itself."}, nil}},
		"a missing Secret of a volume is named": {pods: []*corev1.Pod{appPod(pending(waitsFor("ContainerCreating", "")))}, events: []*corev1.Event{mount(`MountVolume.SetUp failed for volume "tls" : secret "shop-tls" not found`)},
			want: want{deploy, v1alpha1.FailureSecretNotFound, 0, []string{`Secret "shop-tls" does not exist in this namespace; create it and the rollout goes on by itself.`}, nil}},
		"a volume of another pod is nothing": {pods: []*corev1.Pod{appPod(pending(waitsFor("ContainerCreating", "")), func(p *corev1.Pod) { p.UID = "another" })}, events: []*corev1.Event{mount(`MountVolume.SetUp failed for volume "tls" : secret "shop-tls" not found`)}},
		"a pod that fits on no node is quoted": {pods: []*corev1.Pod{appPod(pending(corev1.ContainerState{}), podIs(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "0/3 nodes are available: 3 Insufficient cpu."))},
			want: want{deploy, v1alpha1.FailureUnschedulable, 0, []string{"the pod shop-5d-a (0/3 nodes are available: 3 Insufficient cpu)", "spec.deployment.resources"}, nil}},
		"a gated pod waits on purpose":                  {pods: []*corev1.Pod{appPod(pending(corev1.ContainerState{}), podIs(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, ""))}},
		"a pod that has just been made is fine":         {pods: []*corev1.Pod{appPod(pending(waitsFor("ContainerCreating", "")))}},
		"a pod that waits for a readiness gate is fine": {pods: []*corev1.Pod{appPod(func(p *corev1.Pod) { app(p).Ready = true }, podIs(corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady", ""))}},

		"a program that has just been started has time":   {pods: []*corev1.Pod{appPod()}, now: 1, recheck: 20 * time.Second},
		"a program that was started a while ago has less": {pods: []*corev1.Pod{appPod()}, now: 20, recheck: time.Second},
		"a program that does not listen is told its port": {pods: []*corev1.Pod{appPod()}, now: 21, deployment: probedBy(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}),
			want: want{deploy, v1alpha1.FailureNotReady, 0, []string{"nothing answers on the port http (8080)", "at all addresses"}, nil}, container: "app", current: true},
		"a program that answers its probe badly is told what is asked": {pods: []*corev1.Pod{appPod()}, now: 21, deployment: probedBy(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(9)}}),
			want: want{deploy, v1alpha1.FailureNotReady, 0, []string{"GET /ready on the port 9"}, nil}, container: "app", current: true},
		"a program whose probe fails is told so": {pods: []*corev1.Pod{appPod()}, now: 21, deployment: probedBy(corev1.ProbeHandler{Exec: &corev1.ExecAction{}}),
			want: want{deploy, v1alpha1.FailureNotReady, 0, []string{"its readiness probe fails"}, nil}, container: "app", current: true},
		"a probe that begins later is waited for": {pods: []*corev1.Pod{appPod()}, now: 21, deployment: func(d *appsv1.Deployment) {
			probedBy(corev1.ProbeHandler{})(d)
			d.Spec.Template.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 10
		}, recheck: 10 * time.Second},
		"after the deadline nothing is waited for": {pods: []*corev1.Pod{appPod()}, now: 5, deployment: func(d *appsv1.Deployment) {
			probedBy(corev1.ProbeHandler{})(d)
			d.Status.Conditions[1].Reason = progressDeadlineExceeded
		}, want: want{deploy, v1alpha1.FailureNotReady, 0, []string{"its readiness probe fails"}, nil}, container: "app", current: true},
		"a pod whose other container has just been started": {pods: []*corev1.Pod{appPod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "proxy", State: runsSince(55)})
		})}, recheck: 15 * time.Second},

		"a used up quota is quoted without the pod's name": {deployment: refuses(`pods "shop-5d-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5`),
			want: want{deploy, v1alpha1.FailureQuotaExceeded, 0, []string{"(exceeded quota: q, requested: pods=1", "goes on by itself"}, nil}},
		"a quota that wants limits is told apart": {deployment: refuses(`pods "shop-5d-x" is forbidden: failed quota: q: must specify limits.cpu for: app`),
			want: want{deploy, v1alpha1.FailureQuotaExceeded, 0, []string{"must specify limits.cpu", "set spec.deployment.resources"}, nil}},
		"pod security is told where to give in": {deployment: refuses(`pods "shop-5d-x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`),
			want: want{deploy, v1alpha1.FailurePodRejected, 0, []string{"violates PodSecurity", "spec.deployment.template"}, nil}},
		"a webhook that refuses is quoted": {deployment: refuses(`admission webhook "policy.example.com" denied the request: no`),
			want: want{deploy, v1alpha1.FailurePodRejected, 0, []string{`"policy.example.com" denied the request: no`}, nil}},
		"a quota that was only being written is fine": {deployment: refuses(`Operation cannot be fulfilled on resourcequotas "q": the object has been modified`)},
		"a refusal that is over is fine": {deployment: func(d *appsv1.Deployment) {
			refuses("exceeded quota")(d)
			d.Status.Conditions[2].Status = corev1.ConditionFalse
		}},
		"what a pod shows is told of before a refusal": {pods: []*corev1.Pod{appPod(exited1)}, deployment: refuses("exceeded quota"), want: want{step: deploy, reason: crash, exitCode: 1}, certain: true, container: "app"},

		"a Deployment that is available is fine, whatever its pods": {pods: []*corev1.Pod{appPod(exited1)}, deployment: func(d *appsv1.Deployment) {
			d.Status.Conditions[1].Reason, d.Status.UpdatedReplicas = newReplicaSetAvailable, 3
		}},
		"a Deployment that nobody has looked at yet is fine": {pods: []*corev1.Pod{appPod(exited1)}, deployment: func(d *appsv1.Deployment) { d.Generation++ }},
		"a Deployment that made no progress in time is looked into": {pods: []*corev1.Pod{appPod(exited1)}, deployment: func(d *appsv1.Deployment) { d.Status.Conditions[1].Reason = progressDeadlineExceeded },
			want: want{step: deploy, reason: crash, exitCode: 1}, certain: true, container: "app"},
		"a Deployment that was available is looked into": {pods: []*corev1.Pod{appPod(exited1)}, before: "Unavailable", deployment: func(d *appsv1.Deployment) {
			d.Status.Conditions[0].Status, d.Status.Conditions[1].Reason, d.Status.UpdatedReplicas = corev1.ConditionFalse, newReplicaSetAvailable, 3
		}, want: want{step: deploy, reason: crash, exitCode: 1}, certain: true, container: "app"},
		"a Deployment that grows is looked into": {pods: []*corev1.Pod{appPod(pending(corev1.ContainerState{}), podIs(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, ""))},
			before: "Available", deployment: func(d *appsv1.Deployment) {
				d.Status.Conditions[0].Status, d.Status.UpdatedReplicas = corev1.ConditionFalse, 3
			}, want: want{step: deploy, reason: v1alpha1.FailureUnschedulable}},
	} {
		t.Run(sentence, func(t *testing.T) {
			build := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Deployment: &v1alpha1.Deployment{}}}
			if c.before != "" {
				build.Status = statusBefore(c.before)
				build.Status.DeployedRollout = "newest"
			}
			deployment := aDeployment(rollsOut)
			if c.deployment != nil {
				c.deployment(deployment)
			}
			if c.now == 0 {
				c.now = 60
			}
			find := func() Trouble {
				app := Application{Image: theImage, Deployment: deployment}
				if !MayBeInTrouble(build, app) {
					return Trouble{}
				}
				return FindTrouble(build, app, c.pods, c.events, at(c.now).Time)
			}
			got := find()
			c.want.check(t, got.Failure)
			if got.Certain != c.certain || got.Recheck != c.recheck {
				t.Errorf("certain is %v and recheck %s, want %v and %s", got.Certain, got.Recheck, c.certain, c.recheck)
			}
			if got.Container != c.container || got.Container != "" && (got.Pod == "" || got.Previous == c.current) {
				t.Errorf("more is in the log of %s in %q, of its last run: %v", got.Container, got.Pod, got.Previous)
			}
			slices.Reverse(c.pods)
			if again := find(); got.Failure != nil && again.Failure.Message != got.Failure.Message || got.Pod != again.Pod {
				t.Errorf("with the pods in another order it is %+v", again)
			}
		})
	}
}

// A condition that changed each time the container starts and ends would be news each time.
func TestACrashIsToldOfInTheSameWordsWhileTheContainerRunsInBetween(t *testing.T) {
	build := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Deployment: &v1alpha1.Deployment{}}}
	of := func(restarts int32, state corev1.ContainerState) Trouble {
		pod := appPod(crashing(restarts, 1, "Error", ""), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = state })
		return FindTrouble(build, Application{Image: theImage, Deployment: aDeployment(rollsOut)}, []*corev1.Pod{pod}, nil, at(60).Time)
	}
	want := of(2, waitsFor("CrashLoopBackOff", ""))
	for name, got := range map[string]Trouble{"runs": of(3, runsSince(59)), "has ended": of(3, endedWith(1, "Error", ""))} {
		if got.Failure == nil || got.Failure.Message != want.Failure.Message || !got.Certain {
			t.Errorf("when it %s: got %+v and %v", name, got.Failure, got.Certain)
		}
		if got.Previous == (name == "has ended") {
			t.Errorf("when it %s: the log is that of its last run: %v", name, got.Previous)
		}
	}
	if third := of(2, runsSince(59)); third.Certain {
		t.Error("it is certain while the third run goes on, which may be the good one")
	}
}

func TestTheLogOfTheContainerInTroubleIsReadOnceAndOnceMoreAtTheEnd(t *testing.T) {
	const said = "The container app ends."
	about := func(is metav1.ConditionStatus, step v1alpha1.Step, message string) v1alpha1.BuildStatus {
		return v1alpha1.BuildStatus{
			Failure:    &v1alpha1.Failure{Step: step, Reason: v1alpha1.FailureCrashLoopBackOff, Message: message, LogTail: "panic"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionDeployed, Status: is, Reason: "CrashLoopBackOff"}},
		}
	}
	const deploy = v1alpha1.StepDeploy
	for name, c := range map[string]struct {
		before  v1alpha1.BuildStatus
		certain bool
		known   bool
		tail    string
	}{
		"nothing was said before":                                                      {before: v1alpha1.BuildStatus{}},
		"something else was said before":                                               {before: about("Unknown", deploy, "The pod waits.")},
		"the same was said before":                                                     {before: about("Unknown", deploy, said), known: true, tail: "panic"},
		"the same was said before, after the deadline":                                 {before: about("False", deploy, "It made no progress. "+said), known: true, tail: "panic"},
		"the same was said before, and is certain by now":                              {before: about("Unknown", deploy, said), certain: true},
		"the same was said before, and was certain then":                               {before: about("False", deploy, said), certain: true, known: true, tail: "panic"},
		"the failure of a build is what is shown":                                      {before: about("Unknown", v1alpha1.StepBuild, "It does not compile."), known: true},
		"the failure of a build is what is shown, but the rollback is to have the log": {before: about("Unknown", v1alpha1.StepBuild, "It does not compile."), certain: true},
		"a Deployment that grows shows none":                                           {before: v1alpha1.BuildStatus{Conditions: []metav1.Condition{conditionBefore("Scaling")}}, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			trouble := Trouble{Failure: &v1alpha1.Failure{Step: deploy, Message: said}, Certain: c.certain}
			if got := trouble.Known(&v1alpha1.Build{Status: c.before}); got != c.known || trouble.Failure.LogTail != c.tail {
				t.Errorf("known is %v with the tail %q", got, trouble.Failure.LogTail)
			}
		})
	}
	trouble := Trouble{Failure: &v1alpha1.Failure{Step: deploy, Reason: v1alpha1.FailureCrashLoopBackOff, Message: said}}
	trouble.Read("start\n\x1b[31mpanic: no database\x1b[0m\n" + strings.Repeat(" ", 10))
	want{deploy, v1alpha1.FailureCrashLoopBackOff, 0, nil, []string{"start\npanic: no database"}}.check(t, trouble.Failure)
}

func TestThePodsOfARolloutAreThoseOfItsNewestTemplate(t *testing.T) {
	deployment := aDeployment(rollsOut)
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a pod of the newest template": {func(*corev1.Pod) {}, true},
		"a pod of an older template":   {func(p *corev1.Pod) { p.Annotations[v1alpha1.RolloutAnnotation] = "older" }, false},
		"a pod of no template of ours": {func(p *corev1.Pod) { p.Annotations = nil }, false},
		"a pod without an owner":       {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"a pod of a Job":               {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, false},
		"a pod of another Deployment":  {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "cart-5d" }, false},
		"a pod that is only held":      {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
	} {
		if got := OfRollout(appPod(c.change), deployment); got != c.want {
			t.Errorf("%s is of the rollout: %v", name, got)
		}
	}
}

func TestARolloutIsDoneWhenAllPodsAreNewAndAvailable(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"all are new and available": {func(*appsv1.Deployment) {}, true},
		"there are to be none":      {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2} }, true},
		"an old one is left":        {func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.AvailableReplicas = 4, 4 }, false},
		"one is not available":      {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 }, false},
		"a change is not seen yet":  {func(d *appsv1.Deployment) { d.Generation = 3 }, false},
		"nothing is seen yet":       {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }, false},
	} {
		if got := RolledOut(aDeployment(c.change)); got != c.want {
			t.Errorf("%s: done is %v", name, got)
		}
	}
}
