package observe

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

var epoch = time.Unix(1_800_000_000, 0)

// pendingPod is a pod of the run that waits to start.
func pendingPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-1-a", UID: "pod", CreationTimestamp: metav1.NewTime(epoch)},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: gitVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "git-creds"}}},
			{Name: pushVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "regcred"}}},
		}, Containers: []corev1.Container{{Name: "kaniko"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending,
			InitContainerStatuses: []corev1.ContainerStatus{{Name: sourceContainer, State: waitsFor("PodInitializing", "")}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "kaniko", Image: "kaniko:1", State: waitsFor("PodInitializing", "")}}},
	}
}

func waitsFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// mount is a FailedMount Event on pendingPod, create a FailedCreate Event on its Job.
func mount(message string) *corev1.Event {
	return &corev1.Event{Reason: "FailedMount", Message: message, LastTimestamp: metav1.NewTime(epoch.Add(time.Second)),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "shop-1-a", UID: "pod"}}
}

func create(message string) *corev1.Event {
	return &corev1.Event{Reason: "FailedCreate", Message: message, LastTimestamp: metav1.NewTime(epoch.Add(time.Second)),
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "shop-1", UID: "job"}}
}

const (
	noGitSecret  = `MountVolume.SetUp failed for volume "git" : secret "git-creds" not found`
	noPushSecret = `MountVolume.SetUp failed for volume "push" : secret "regcred" not found`
	overQuota    = `Error creating: pods "shop-1-b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5`
)

func TestWaitingRuns(t *testing.T) {
	wantsSecrets := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Builder: &v1alpha1.Builder{
		Secrets: []v1alpha1.BuildSecret{{ID: "a", SecretName: "other", Key: "password"}, {ID: "b", SecretName: "npm", Key: "token"}},
	}}}
	const source, push, schedule = v1alpha1.StepSource, v1alpha1.StepPush, v1alpha1.StepSchedule
	earlier := &v1alpha1.Failure{Step: schedule, Reason: v1alpha1.FailureImagePullFailed, Message: "as it was"}
	for sentence, c := range map[string]struct {
		pod    func(*corev1.Pod) // nil: there is no pod
		job    func(*batchv1.Job)
		events []*corev1.Event
		before *v1alpha1.Failure
		want   want
	}{
		"a pod that has just been made is fine":             {pod: func(*corev1.Pod) {}},
		"a pod that is away and a Job that is new are fine": {before: nil},
		"a missing registry Secret is one of the push": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{mount(noPushSecret)},
			want: want{step: push, reason: v1alpha1.FailureSecretNotFound, message: []string{`Secret "regcred"`, "kubernetes.io/dockerconfigjson"}}},
		"of two missing Secrets the git Secret is told": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{mount(noGitSecret), mount(noPushSecret)},
			want: want{step: source, reason: v1alpha1.FailureSecretNotFound, message: []string{`"git-creds"`}}},
		"of two missing Secrets the git Secret is told in any order": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{mount(noPushSecret), mount(noGitSecret)},
			want: want{step: source, reason: v1alpha1.FailureSecretNotFound, message: []string{`"git-creds"`}}},
		"a missing Secret goes before what it causes": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{
			mount(`Unable to attach or mount volumes: unmounted volumes=[push], unattached volumes=[workspace push]: timed out waiting for the condition`), mount(noPushSecret)},
			want: want{step: push, reason: v1alpha1.FailureSecretNotFound}},
		"a missing Secret for RUN instructions is one of the build": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{mount(`MountVolume.SetUp failed for volume "secrets" : secret "npm" not found`)},
			want: want{step: v1alpha1.StepBuild, reason: v1alpha1.FailureSecretNotFound, message: []string{`Secret "npm" does not exist in this namespace; create it and the build`}}},
		"a missing key of a Secret for RUN instructions is named with it": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{mount(`MountVolume.SetUp failed for volume "secrets" : references non-existent secret key: token`)},
			want: want{step: v1alpha1.StepBuild, reason: v1alpha1.FailureSecretKeyNotFound, message: []string{`Secret "npm" has no key token; add it`}}},
		"a missing ConfigMap is named": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{mount(`MountVolume.SetUp failed for volume "git-ca" : configmap "corp-ca" not found`)},
			want: want{step: schedule, reason: v1alpha1.FailureVolumeMountFailed, message: []string{"ConfigMap corp-ca does not exist"}}},
		"a volume that cannot be mounted is named": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{mount(`MountVolume.SetUp failed for volume "cache" : mount failed: exit status 32`)},
			want: want{step: schedule, reason: v1alpha1.FailureVolumeMountFailed, message: []string{"volume cache", "exit status 32"}}},
		"a kubelet that is behind is fine": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{
			mount(`MountVolume.SetUp failed for volume "git" : failed to sync secret cache: timed out waiting for the condition`),
			mount(`MountVolume.SetUp failed for volume "git" : object "ns"/"git-creds" not registered`)}},
		"a stale mount Event is nothing once a container started": {pod: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, events: []*corev1.Event{mount(noGitSecret)}},
		"a stale mount Event is nothing once the sandbox is there": {pod: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
		}, events: []*corev1.Event{mount(noGitSecret)}},
		"a mount Event of another pod is nothing": {pod: func(p *corev1.Pod) { p.UID = "another" }, events: []*corev1.Event{mount(noGitSecret)}},
		"a mount Event without a UID goes by the name": {pod: func(p *corev1.Pod) { p.UID = "" }, events: []*corev1.Event{mount(noGitSecret)},
			want: want{step: source, reason: v1alpha1.FailureSecretNotFound}},
		"an Event of another reason is nothing": {pod: func(*corev1.Pod) {}, events: []*corev1.Event{{Reason: "Failed", Message: noGitSecret,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: "pod"}}}},
		"a pod that is being deleted is still told": {pod: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }, events: []*corev1.Event{mount(noGitSecret)},
			want: want{step: source, reason: v1alpha1.FailureSecretNotFound}},
		"a missing key of an environment variable is named": {pod: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = waitsFor("CreateContainerConfigError", "couldn't find key username in Secret ns/git-creds")
		}, want: want{step: source, reason: v1alpha1.FailureSecretKeyNotFound, message: []string{`Secret "git-creds" has no key username`}}},
		"a missing Secret of an environment variable is named": {pod: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = waitsFor("CreateContainerConfigError", `secret "git-creds" not found`)
		}, want: want{step: source, reason: v1alpha1.FailureSecretNotFound, message: []string{`Secret "git-creds"`}}},
		"a Secret that spec.builder.env wants is none of git's": {pod: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = waitsFor("CreateContainerConfigError", `secret "proxy" not found`)
		}, want: want{step: source, reason: v1alpha1.FailureSecretNotFound, message: []string{`Secret "proxy" does not exist in this namespace; create it and the build goes on by itself.`}}},
		"a source that left no directory is a mount that failed": {pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = waitsFor("CreateContainerConfigError", `failed to prepare subPath for volumeMount "workspace" of container "kaniko"`)
		}, want: want{step: schedule, reason: v1alpha1.FailureVolumeMountFailed, message: []string{"subPath"}}},
		"a container that the node will not make is refused": {pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = waitsFor("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")
		}, want: want{step: schedule, reason: v1alpha1.FailurePodRejected, message: []string{"kaniko", "runAsNonRoot"}}},
		"an image name that is none cannot be pulled": {pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = waitsFor("InvalidImageName", "couldn't parse image")
		}, want: want{step: schedule, reason: v1alpha1.FailureImagePullFailed, message: []string{"kaniko:1", "couldn't parse image"}}},
		"a kubelet that backs off without a word leaves what was known": {pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = waitsFor("ImagePullBackOff", `Back-off pulling image "kaniko:1"`)
		}, before: earlier, want: want{step: schedule, reason: v1alpha1.FailureImagePullFailed, message: []string{"as it was"}}},
		"a claim that does not exist is named": {pod: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: `0/1 nodes are available: persistentvolumeclaim "cache" not found. not found`}}
		}, want: want{step: schedule, reason: v1alpha1.FailureVolumeMountFailed, message: []string{"PersistentVolumeClaim cache does not exist in this namespace; create it"}}},
		"a gated pod waits on purpose": {pod: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		}},
		"a pod that has gone leaves what was known":        {before: earlier, want: want{step: schedule, reason: v1alpha1.FailureImagePullFailed, message: []string{"as it was"}}},
		"a pod that is only there contradicts nothing yet": {pod: func(*corev1.Pod) {}, before: earlier, want: want{step: schedule, reason: v1alpha1.FailureImagePullFailed, message: []string{"as it was"}}},
		"a source step that runs says nothing of the builder's image": {pod: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, before: earlier, want: want{step: schedule, reason: v1alpha1.FailureImagePullFailed, message: []string{"as it was"}}},
		"a builder that runs ends what was known of its image": {pod: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, before: earlier},
		"a source step that runs ends what was known of the node": {pod: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, before: &v1alpha1.Failure{Step: schedule, Reason: v1alpha1.FailureUnschedulable, Message: "as it was"}},
		"a suspended Job waits on purpose": {job: func(j *batchv1.Job) { j.Spec.Suspend = new(bool); *j.Spec.Suspend = true }, before: earlier},
		"a quota that is used up is quoted without the pod's name": {events: []*corev1.Event{create(overQuota)},
			want: want{step: schedule, reason: v1alpha1.FailureQuotaExceeded, message: []string{"(exceeded quota: q, requested: pods=1", "goes on by itself"}}},
		"a quota that wants limits is told apart": {events: []*corev1.Event{create(`Error creating: pods "x" is forbidden: failed quota: q: must specify limits.cpu for: kaniko`)},
			want: want{step: schedule, reason: v1alpha1.FailureQuotaExceeded, message: []string{"must specify limits.cpu", "LimitRange"}}},
		"pod security is told with the level that works": {events: []*corev1.Event{create(`Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`)},
			want: want{step: schedule, reason: v1alpha1.FailurePodRejected, message: []string{"violates PodSecurity", "baseline"}}},
		"a webhook that refuses is quoted": {events: []*corev1.Event{create(`Error creating: admission webhook "policy.example.com" denied the request: no`)},
			want: want{step: schedule, reason: v1alpha1.FailurePodRejected, message: []string{`"policy.example.com" denied the request: no`}}},
		"the newest of several refusals is told": {events: []*corev1.Event{
			{Reason: "FailedCreate", Message: "Error creating: old", InvolvedObject: create("").InvolvedObject, LastTimestamp: metav1.NewTime(epoch)},
			create("Error creating: new"),
			{Reason: "FailedCreate", Message: "Error creating: older", InvolvedObject: create("").InvolvedObject, EventTime: metav1.NewMicroTime(epoch.Add(-time.Hour))}},
			want: want{step: schedule, reason: v1alpha1.FailurePodRejected, message: []string{"(new)"}}},
		"a quota that was only being written is fine":               {events: []*corev1.Event{create(`Error creating: Operation cannot be fulfilled on resourcequotas "q": the object has been modified`)}},
		"a stale quota Event is nothing once there is a pod":        {pod: func(*corev1.Pod) {}, events: []*corev1.Event{create(overQuota)}},
		"a stale quota Event is nothing while the Job counts a pod": {job: func(j *batchv1.Job) { j.Status.Active = 1 }, events: []*corev1.Event{create(overQuota)}},
		"a quota Event of another Job is nothing":                   {job: func(j *batchv1.Job) { j.UID = "another" }, events: []*corev1.Event{create(overQuota)}},
		"a quota that keeps an evicted pod from being replaced is told": {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, events: []*corev1.Event{create(overQuota)},
			want: want{step: schedule, reason: v1alpha1.FailureQuotaExceeded}},
		"a quota Event older than an evicted pod is nothing": {pod: func(p *corev1.Pod) {
			p.Status.Phase, p.CreationTimestamp = corev1.PodFailed, metav1.NewTime(epoch.Add(time.Hour))
		}, events: []*corev1.Event{create(overQuota)}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := Evidence{Events: c.events, Before: c.before, Build: wantsSecrets, Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "shop-1", UID: types.UID("job")}}}
			if c.job != nil {
				c.job(e.Job)
			}
			if c.pod != nil {
				pod := pendingPod()
				c.pod(pod)
				e.Pods = []*corev1.Pod{pod}
			}
			c.want.check(t, Failure(e))
		})
	}
}
