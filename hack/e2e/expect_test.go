//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// expectBuilt expects that the status tells of this commit and of the image that
// the registry has.
func (s *scene) expectBuilt(name string, want commit) {
	s.t.Helper()
	build := s.build(name)
	run := build.Status.Run
	if run == nil {
		s.t.Fatalf("%s has no run", name)
	}
	if got := (commit{run.Commit, run.Author, run.Subject}); got != want {
		s.t.Errorf("the status of %s has commit %+v, not %+v", name, got, want)
	}
	if run.ShortCommit == "" || !strings.HasPrefix(want.sha, run.ShortCommit) {
		s.t.Errorf("the short commit is %q", run.ShortCommit)
	}
	repository, _, _ := cutTag(build.Spec.Image.Name)
	if want := repository + "@" + digestOf(s.t, build.Spec.Image.Name); build.Status.Image != want || run.Image != want {
		s.t.Errorf("the status of %s has image %s, its run %s; the registry has %s", name, build.Status.Image, run.Image, want)
	}
}

// cutTag cuts an image's name before its tag. The registries' names here have a
// port, so every colon but the last belongs to these.
func cutTag(image string) (repository, tag string, ok bool) {
	i := strings.LastIndexByte(image, ':')
	if i < strings.LastIndexByte(image, '/') {
		return image, "", false
	}
	return image[:i], image[i+1:], true
}

// expectDeployed expects that the Deployment runs the image of the status.
func (s *scene) expectDeployed(name string) {
	s.t.Helper()
	build, deployment := s.build(name), s.deployment(name)
	if deployment == nil {
		s.t.Fatalf("there is no Deployment %s", name)
	}
	if got := deployment.Spec.Template.Spec.Containers[0].Image; got != build.Status.Image {
		s.t.Errorf("the Deployment %s runs %s, not %s", name, got, build.Status.Image)
	}
	if deployment.Status.AvailableReplicas < 1 {
		s.t.Errorf("no pod of %s is available", name)
	}
}

// expectEvents expects these Events about a Build, that often, and no others.
// They are recorded after the status is written.
func (s *scene) expectEvents(name string, want map[string]int) {
	s.t.Helper()
	_ = s.eventually(10*time.Second, func() error {
		return s.happened(name, slices.Collect(maps.Keys(want))...)
	})
	if got := s.eventCount(name); !maps.Equal(got, want) {
		s.t.Errorf("Events about %s: %v, not %v", name, got, want)
	}
}

// happened returns nil when there are Events of these reasons about a Build.
func (s *scene) happened(build string, reasons ...string) error {
	counts := s.eventCount(build)
	for _, reason := range reasons {
		if counts[reason] == 0 {
			return fmt.Errorf("there is no Event %s, only %v", reason, counts)
		}
	}
	return nil
}

// expectNoToken expects that the pods which build have no way to the API.
func (s *scene) expectNoToken(build string) {
	s.t.Helper()
	pods := s.podsOf(build)
	if len(pods) == 0 {
		s.t.Fatalf("no pod of %s is left to look at", build)
	}
	for _, pod := range pods {
		for _, volume := range pod.Spec.Volumes {
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				if source.ServiceAccountToken != nil {
					s.t.Errorf("pod %s has a token in its volume %s", pod.Name, volume.Name)
				}
			}
		}
	}
}

// theUsualEvents are those of a Build that went well.
var theUsualEvents = map[string]int{"BuildStarted": 1, "BuildSucceeded": 1, "Deployed": 1}
