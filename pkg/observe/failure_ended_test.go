package observe

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func failedJob(reason string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "shop-1", UID: "job"}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: reason},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: "Job has failed"}}}}
}

// buildingPod is a pod whose builder ended with that code.
func buildingPod(code int32, reason string) *corev1.Pod {
	p := pendingPod()
	p.Status.Phase = corev1.PodFailed
	p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
	return p
}

func TestEndedRuns(t *testing.T) {
	const source, build, push, schedule = v1alpha1.StepSource, v1alpha1.StepBuild, v1alpha1.StepPush, v1alpha1.StepSchedule
	const exceeded, backoff = batchv1.JobReasonDeadlineExceeded, batchv1.JobReasonBackoffLimitExceeded
	const log = "INFO[0000] Running: [/bin/sh -c make]\nerror building image: error building stage: failed to execute command: waiting for process to exit: exit status 2\n"
	with := func(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		change(pod)
		return pod
	}
	disruption := func(reason string) *corev1.Pod {
		return with(buildingPod(137, "Error"), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "because"}}
		})
	}
	for sentence, c := range map[string]struct {
		reason string
		pods   []*corev1.Pod
		log    string
		before *v1alpha1.Failure
		want   want
	}{
		"a key that the registry's Secret lacks is a matter of the push": {backoff, []*corev1.Pod{with(buildingPod(0, ""), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
		})}, "build-controller: Secret \"regcred\" lacks the key .dockerconfigjson or config.json\n", nil,
			want{push, v1alpha1.FailureSecretKeyNotFound, 1, []string{`Secret "regcred" lacks the key .dockerconfigjson or config.json; add it and the build goes on by itself.`}, nil}},
		"out of memory goes before the log": {backoff, []*corev1.Pod{buildingPod(137, "OOMKilled")}, log, nil,
			want{build, v1alpha1.FailureOutOfMemory, 137, []string{"kaniko", "memory"}, []string{"exit status 2"}}},
		"out of memory goes before an eviction": {backoff, []*corev1.Pod{with(disruption("TerminationByKubelet"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
		})}, log, nil, want{build, v1alpha1.FailureOutOfMemory, 137, nil, []string{"exit status 2"}}},
		"a clone that runs out of memory is told its limit": {backoff, []*corev1.Pod{with(buildingPod(0, ""), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
			p.Spec.InitContainers = []corev1.Container{{Name: sourceContainer, Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}}}
		})}, "", nil, want{source, v1alpha1.FailureOutOfMemory, 137, []string{"git-sync", "64Mi", "LimitRange"}, nil}},
		"an eviction goes before the log": {backoff, []*corev1.Pod{disruption("EvictionByEvictionAPI")}, log, nil,
			want{schedule, v1alpha1.FailureEvicted, 137, []string{"evicted (because)", annotation}, []string{"exit status 2"}}},
		"a preemption is an eviction": {backoff, []*corev1.Pod{disruption("PreemptionByScheduler")}, log, nil,
			want{schedule, v1alpha1.FailureEvicted, 137, nil, []string{"exit status 2"}}},
		"a pod that outlived its node lost it": {backoff, []*corev1.Pod{disruption("DeletionByPodGC")}, log, nil,
			want{schedule, v1alpha1.FailureNodeLost, 137, []string{"node", "because"}, []string{"exit status 2"}}},
		"a node that shuts down is lost": {backoff, []*corev1.Pod{with(disruption("TerminationByKubelet"), func(p *corev1.Pod) {
			p.Status.Reason, p.Status.Message = "Terminated", "Pod was terminated in response to imminent node shutdown."
		})}, "", nil, want{schedule, v1alpha1.FailureNodeLost, 137, []string{"imminent node shutdown"}, nil}},
		"a node under pressure evicts": {backoff, []*corev1.Pod{with(pendingPod(), func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: ephemeral-storage."
		})}, "", nil, want{schedule, v1alpha1.FailureEvicted, 0, []string{"ephemeral-storage"}, nil}},
		"a node that refuses the pod is quoted": {backoff, []*corev1.Pod{with(pendingPod(), func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu"
		})}, "", nil, want{schedule, v1alpha1.FailurePodRejected, 0, []string{"OutOfcpu: Node didn't have enough resource"}, nil}},
		"a sidecar that fails is not blamed on the build": {backoff, []*corev1.Pod{with(buildingPod(0, "Completed"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, buildingPod(1, "Error").Status.ContainerStatuses[0])
			p.Status.ContainerStatuses[1].Name = "mesh"
		})}, "no route", nil, want{schedule, v1alpha1.FailureJobFailed, 1, []string{"mesh, which is not part of the build", "no route"}, []string{"no route"}}},
		"a container that was killed without a word is told so": {backoff, []*corev1.Pod{buildingPod(137, "Error")}, "", nil,
			want{build, v1alpha1.FailureBuildFailed, 137, []string{"killed"}, nil}},
		"pods that are gone leave what was found": {backoff, nil, "", &v1alpha1.Failure{Step: build, Reason: v1alpha1.FailureBuildCommandFailed, Message: "m", LogTail: "l"},
			want{build, v1alpha1.FailureBuildCommandFailed, 0, []string{"m"}, []string{"l"}}},
		"pods that are gone without a trace leave the Job's words": {backoff, nil, "", &v1alpha1.Failure{Step: schedule, Reason: v1alpha1.FailureUnschedulable, Message: "m"},
			want{build, v1alpha1.FailureJobFailed, 0, []string{"(Job has failed)", annotation}, nil}},
		"the deadline goes before what the stopped builder printed": {exceeded, []*corev1.Pod{buildingPod(143, "Error")}, log, nil,
			want{build, v1alpha1.FailureDeadlineExceeded, 0, []string{"while the image was being built"}, nil}},
		"the deadline of a clone is one of the source": {exceeded, []*corev1.Pod{with(pendingPod(), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}
		})}, "", nil, want{source, v1alpha1.FailureDeadlineExceeded, 0, []string{"while the repository was being cloned"}, nil}},
		"the deadline of a pod that did not start is one of the schedule": {exceeded, []*corev1.Pod{pendingPod()}, "", nil,
			want{schedule, v1alpha1.FailureDeadlineExceeded, 0, []string{"while its pod was starting"}, nil}},
		"a builder that came to run did not wait until the deadline": {exceeded, []*corev1.Pod{buildingPod(143, "Error")}, "",
			&v1alpha1.Failure{Step: schedule, Reason: v1alpha1.FailureUnschedulable, Message: "m"},
			want{build, v1alpha1.FailureDeadlineExceeded, 0, nil, nil}},
		"what was no waiting before is nothing at the deadline": {exceeded, nil, "", &v1alpha1.Failure{Step: build, Reason: v1alpha1.FailureEvicted, Message: "m"},
			want{build, v1alpha1.FailureDeadlineExceeded, 0, nil, nil}},
	} {
		t.Run(sentence, func(t *testing.T) {
			c.want.check(t, Failure(Evidence{Job: failedJob(c.reason), Pods: c.pods, Log: c.log, Before: c.before}))
		})
	}
}

func TestAnEvictedPodIsNoFailureWhileItsSuccessorIsWell(t *testing.T) {
	f := readFixture(t, "pod-evicted")
	both := append(f.PendingPods, f.Pods...)
	e := Evidence{Job: f.Job, Pods: both}
	want{}.check(t, Failure(e))
	if pod, container, ok := FailedContainer(both); ok {
		t.Errorf("got %s %s, want none", pod, container)
	}
	e.Pods = f.PendingPods // the successor is not there yet
	want{}.check(t, Failure(e))

	e.Job = f.Job.DeepCopy()
	e.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	want{}.check(t, Failure(e))

	e.Job = failedJob(batchv1.JobReasonBackoffLimitExceeded)
	want{step: v1alpha1.StepSchedule, reason: v1alpha1.FailureEvicted, exitCode: 2,
		message: []string{"Eviction API: evicting"}, logTail: []string{"RUN sleep 300"}}.check(t, Failure(e))
}

func TestTheTimeoutIsTheOneOfTheRun(t *testing.T) {
	seconds := int64(5400)
	job := failedJob(batchv1.JobReasonDeadlineExceeded)
	b := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Timeout: &metav1.Duration{Duration: 2 * time.Hour}}}
	want{step: v1alpha1.StepBuild, reason: v1alpha1.FailureDeadlineExceeded, message: []string{"timeout of 2h;"}}.check(t, Failure(Evidence{Job: job, Build: b}))
	job.Spec.ActiveDeadlineSeconds = &seconds
	want{step: v1alpha1.StepBuild, reason: v1alpha1.FailureDeadlineExceeded, message: []string{"timeout of 1h30m;"}}.check(t, Failure(Evidence{Job: job, Build: b}))
}
