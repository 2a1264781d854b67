package observe

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// The volumes of a run's Secrets.
const (
	gitVolume     = "git"
	pushVolume    = "push"
	secretsVolume = "secrets"
)

var (
	secretNotFound    = regexp.MustCompile(`secrets? "([^"]+)" not found`)
	claimNotFound     = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)
	configMapNotFound = regexp.MustCompile(`configmap "([^"]+)" not found`)
	secretKeyNotFound = regexp.MustCompile(`references non-existent secret key: (\S+)|couldn't find key (\S+) in Secret (?:[^/\s]+/)?(\S+)`)
	volumeName        = regexp.MustCompile(`for volume "([^"]+)"|unmounted volumes=\[([^\]\s]+)`)
	// A kubelet that has not caught up says this of objects that are there.
	passingMount = regexp.MustCompile(`failed to sync (secret|configmap) cache|object "[^"]*"/"[^"]*" not registered`)
	backingOff   = regexp.MustCompile(`^Back-off pulling image "[^"]*"(?:: ErrImagePull: )?`)
	// Each try has a pod name of its own, which would make each try news.
	creating = regexp.MustCompile(`^Error creating: (?:pods "[^"]*" is forbidden: )?`)
	// The quota's own counter was written by someone else at the same time; the Job controller tries again.
	passingCreate = regexp.MustCompile(`Operation cannot be fulfilled on resourcequotas`)
)

// containerNotCreated: the kubelet can't make a container, for a key that is missing for example.
func containerNotCreated(s scene) *v1alpha1.Failure {
	for _, w := range waitingContainers(s.pending) {
		switch w.reason {
		case "CreateContainerConfigError", "CreateContainerError":
		default:
			continue
		}
		if m := secretNotFound.FindStringSubmatch(w.message); m != nil {
			return missingSecret(s.names.stepOfSecret(m[1], w.step), m[1], "")
		}
		if m := secretKeyNotFound.FindStringSubmatch(w.message); m != nil {
			return missingKey(s.names.stepOfSecret(m[3], w.step), m[3], m[1]+m[2])
		}
		if strings.Contains(w.message, "subPath") {
			return &v1alpha1.Failure{
				Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureVolumeMountFailed,
				Message: "A volume of the container " + w.name + " cannot be mounted" + quoted(w.message) + "; see to it" + goesOn,
			}
		}
		return &v1alpha1.Failure{
			Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailurePodRejected,
			Message: "The node cannot make the container " + w.name + quoted(w.message) + "; see to it" + goesOn,
		}
	}
	return nil
}

// imagePullReasons are what the kubelet calls the ways in which an image can't be had.
var imagePullReasons = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true,
	"ImageInspectError": true, "RegistryUnavailable": true, "SignatureValidationFailed": true,
}

// imageNotPulled: the node can't get the image of a step, which is the controller's setting and not the user's.
func imageNotPulled(s scene) *v1alpha1.Failure {
	for _, w := range waitingContainers(s.pending) {
		if !imagePullReasons[w.reason] {
			continue
		}
		// While the kubelet backs off an older one does not say why: do not forget what it said when it tried.
		text := backingOff.ReplaceAllString(w.message, "")
		if text == "" && s.Before != nil && s.Before.Reason == v1alpha1.FailureImagePullFailed {
			return s.Before.DeepCopy()
		}
		return &v1alpha1.Failure{
			Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureImagePullFailed,
			Message: "The node cannot pull the image " + Squash(w.image, 200) + " of the container " + w.name + quoted(text) +
				"; see that this image exists and that the nodes reach its registry" + goesOn,
		}
	}
	return nil
}

// volumeNotMounted: only an Event says that a Secret is missing. It stays for an
// hour, so it counts only while no volume of this very pod can have been mounted.
func volumeNotMounted(s scene) *v1alpha1.Failure {
	if s.pending == nil || anyBegun(s.pending) || podCondition(s.pending, corev1.PodReadyToStartContainers) == corev1.ConditionTrue {
		return nil
	}
	var noSecret, noKey, other *v1alpha1.Failure
	for _, e := range newestFirst(s.Events) {
		if e.Reason != "FailedMount" || !about(e, "Pod", s.pending.Name, string(s.pending.UID)) || passingMount.MatchString(e.Message) {
			continue
		}
		volume := ""
		if m := volumeName.FindStringSubmatch(e.Message); m != nil {
			volume = m[1] + m[2]
		}
		step, secret := s.names.ofVolume(s.pending, volume)
		if m := secretNotFound.FindStringSubmatch(e.Message); m != nil {
			// Of two that are missing the first that the run needs, whichever Event is newer: the status shall not flicker.
			if noSecret == nil || step == v1alpha1.StepSource {
				noSecret = missingSecret(step, m[1], s.names.keysOf(volume))
			}
		} else if m := secretKeyNotFound.FindStringSubmatch(e.Message); m != nil {
			if noKey == nil || step == v1alpha1.StepSource {
				noKey = missingKey(step, cmp.Or(secret, s.names.buildSecrets[m[1]]), m[1]+m[2])
			}
		} else if m := configMapNotFound.FindStringSubmatch(e.Message); m != nil {
			other = &v1alpha1.Failure{
				Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureVolumeMountFailed,
				Message: "ConfigMap " + cut(m[1], 253) + " does not exist in this namespace; create it" + goesOn,
			}
		} else if other == nil {
			other = &v1alpha1.Failure{
				Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureVolumeMountFailed,
				Message: "The volume " + cut(volume, 100) + " of the pod cannot be mounted" + quoted(e.Message) + "; see to it" + goesOn,
			}
		}
	}
	for _, f := range []*v1alpha1.Failure{noSecret, noKey, other} {
		if f != nil {
			return f
		}
	}
	return nil
}

// unschedulable: no node fits. A pod that is gated waits for someone on purpose.
func unschedulable(s scene) *v1alpha1.Failure {
	if s.pending == nil {
		return nil
	}
	for _, c := range s.pending.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			if failure := missingClaim(c.Message); failure != nil {
				return failure
			}
			return &v1alpha1.Failure{
				Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureUnschedulable,
				Message: "No node fits the pod" + quoted(c.Message) +
					"; ask for less in spec.builder.resources or correct its nodeSelector, tolerations or affinity, which starts a new run, or make room on a node" + goesOn,
			}
		}
	}
	return nil
}

// podNotCreated: only an Event says so. It counts while the Job has no pod, and when it is newer than the pods it had.
func podNotCreated(s scene) *v1alpha1.Failure {
	if s.Job == nil || s.Job.Status.Active > 0 || s.Job.Status.Failed > 0 || s.Job.Status.Succeeded > 0 {
		return nil
	}
	var last *corev1.Event
	for _, e := range newestFirst(s.Events) {
		if e.Reason == "FailedCreate" && about(e, "Job", s.Job.Name, string(s.Job.UID)) && !passingCreate.MatchString(e.Message) {
			last = e
			break
		}
	}
	if last == nil || s.pod != nil && (alive(s.pod) || seen(last).Before(s.pod.CreationTimestamp.Time)) {
		return nil
	}
	f := &v1alpha1.Failure{Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailurePodRejected}
	what := quoted(creating.ReplaceAllString(last.Message, ""))
	switch {
	case strings.Contains(last.Message, "exceeded quota"):
		f.Reason = v1alpha1.FailureQuotaExceeded
		f.Message = "A ResourceQuota of the namespace has no room for the pod" + what + "; raise the quota or free some of it" + goesOn
	case strings.Contains(last.Message, "failed quota"):
		f.Reason = v1alpha1.FailureQuotaExceeded
		f.Message = "A ResourceQuota of the namespace wants resources named that the pod does not name" + what +
			"; give the namespace a LimitRange with defaults" + goesOn
	case strings.Contains(last.Message, "violates PodSecurity"):
		f.Message = "The pod security level of the namespace does not allow the pod" + what +
			"; " + s.names.builder + " needs the namespace's label pod-security.kubernetes.io/enforce to be " + s.names.podSecurity + goesOn
	default:
		f.Message = "The API server refused the pod" + what + "; see to it" + goesOn
	}
	return f
}

// nothingNew: until the run gets past what kept it from starting, that is still true, be it that
// the pod is gone and its Job about to fail, or that the Job was made anew. Said and taken back with every Job it would be news each time.
func nothingNew(s scene) *v1alpha1.Failure {
	suspended := s.Job != nil && s.Job.Spec.Suspend != nil && *s.Job.Spec.Suspend
	if suspended || !waitedBefore(s) || s.pod != nil && isPast(s.pod, s.Before.Reason) {
		return nil
	}
	return s.Before.DeepCopy()
}

// isPast says whether the pod shows that it is not kept from starting by that any more.
func isPast(pod *corev1.Pod, reason v1alpha1.FailureReason) bool {
	switch reason {
	case v1alpha1.FailureImagePullFailed, v1alpha1.FailureSecretKeyNotFound:
		// The builder's image comes after the source step, and that step is what looks for keys.
		builder := builderStatus(pod)
		return builder != nil && begun(builder)
	}
	return anyBegun(pod)
}

// missingClaim is what the scheduler means when no node fits because of a volume that is not there; nil if it means something else.
func missingClaim(said string) *v1alpha1.Failure {
	m := claimNotFound.FindStringSubmatch(said)
	if m == nil {
		return nil
	}
	return &v1alpha1.Failure{
		Step: v1alpha1.StepSchedule, Reason: v1alpha1.FailureVolumeMountFailed,
		Message: "PersistentVolumeClaim " + cut(m[1], 253) + " does not exist in this namespace; create it" + goesOn,
	}
}

func missingSecret(step v1alpha1.Step, secret, how string) *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step: step, Reason: v1alpha1.FailureSecretNotFound,
		Message: secretNamed(secret, step) + " does not exist in this namespace; create it" + how + goesOn,
	}
}

func missingKey(step v1alpha1.Step, secret, key string) *v1alpha1.Failure {
	return &v1alpha1.Failure{
		Step: step, Reason: v1alpha1.FailureSecretKeyNotFound,
		Message: secretNamed(secret, step) + " has no key " + cut(key, 100) + "; add it" + goesOn,
	}
}

// about: the Event speaks of this object and not of one that had its name before.
func about(e *corev1.Event, kind, name, uid string) bool {
	o := e.InvolvedObject
	if o.UID != "" && uid != "" {
		return string(o.UID) == uid
	}
	return o.Kind == kind && o.Name == name
}

// seen is when the Event was last recorded, whichever of its fields says so.
func seen(e *corev1.Event) time.Time {
	t := e.CreationTimestamp.Time
	for _, u := range []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time} {
		if u.After(t) {
			t = u
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(t) {
		t = e.Series.LastObservedTime.Time
	}
	return t
}

// newestFirst gives a copy of the Events in an order that does not depend on the cache's.
func newestFirst(events []*corev1.Event) []*corev1.Event {
	sorted := slices.DeleteFunc(slices.Clone(events), func(e *corev1.Event) bool { return e == nil })
	slices.SortFunc(sorted, func(a, b *corev1.Event) int {
		return cmp.Or(seen(b).Compare(seen(a)), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

func alive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded && pod.DeletionTimestamp == nil
}

func podCondition(pod *corev1.Pod, t corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// waitingContainer is a container that did not start yet.
type waitingContainer struct {
	name, image, reason, message string
	step                         v1alpha1.Step
}

func waitingContainers(pod *corev1.Pod) []waitingContainer {
	if pod == nil {
		return nil
	}
	var list []waitingContainer
	add := func(c *corev1.ContainerStatus, step v1alpha1.Step) {
		if w := c.State.Waiting; w != nil {
			list = append(list, waitingContainer{name: c.Name, image: c.Image, reason: w.Reason, message: w.Message, step: step})
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		add(&pod.Status.InitContainerStatuses[i], v1alpha1.StepSource)
	}
	for i := range pod.Status.ContainerStatuses {
		add(&pod.Status.ContainerStatuses[i], v1alpha1.StepBuild)
	}
	return list
}
