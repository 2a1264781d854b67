//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// explain shows all that helps to understand a test that failed.
func (s *scene) explain() {
	if !s.t.Failed() {
		return
	}
	var out strings.Builder
	for _, build := range list[v1alpha1.Build](s.builds) {
		status, _ := yaml.Marshal(build.Status) // plain data
		fmt.Fprintf(&out, "\nBuild %s\n%s", build.Name, status)
	}
	fmt.Fprintln(&out, "\nEvents")
	events := list[corev1.Event](s.events)
	slices.SortFunc(events, func(a, b *corev1.Event) int { return firstSeen(a).Compare(firstSeen(b)) })
	for _, event := range events {
		fmt.Fprintf(&out, "%s %d x %s/%s %s: %s\n", firstSeen(event).Format(time.TimeOnly), times(event),
			event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
	}
	fmt.Fprintln(&out, "\nPods")
	for _, pod := range list[corev1.Pod](s.pods) {
		fmt.Fprintf(&out, "%s %s\n", pod.Name, pod.Status.Phase)
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			state, _ := yaml.Marshal(status.State)
			fmt.Fprintf(&out, "  %s: %s\n", status.Name, strings.ReplaceAll(strings.TrimSpace(string(state)), "\n", "\n    "))
		}
	}
	fmt.Fprintf(&out, "\nThe controller's log\n%s", cluster.controller.about(s.ns, 40))
	s.t.Log(out.String())
}
