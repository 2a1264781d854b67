//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"
)

func TestARepositoryBecomesARunningApplication(t *testing.T) {
	for example, want := range map[string]string{
		"go":     "Hello from Go, version v1\n",
		"nodejs": "Hello from Node.js, version v1\n",
		"java":   "Hello from Java, version v1\n",
		// Its Dockerfile is in the Build.
		"function": "Hello from a function, version v1\n",
	} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			w := newWorktree(t, example)
			w.checkout("main")

			build := s.example(example)
			s.apply(build)
			s.untilReady(build.Name)
			s.expectBuilt(build.Name, w.head())
			s.expectDeployed(build.Name)
			s.expectAnswer(build.Name, "", want)
			s.expectNoToken(build.Name)
			s.expectEvents(build.Name, theUsualEvents)
			if n := len(s.jobsOf(build.Name)); n != 1 {
				t.Errorf("%d Jobs", n)
			}
			run := s.build(build.Name).Status.Run
			t.Logf("%s: %s from %s, built in %s", build.Name, run.Image, run.ShortCommit, run.Duration)
		})
	}
}

// That of App Connect too, whose base image cannot be had here.
func TestEveryExampleIsAcceptedAsItIs(t *testing.T) {
	files, err := filepath.Glob(exampleFile("*"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, filepath.Join(checkoutDir, "artifacts", "networkpolicy.yaml")) {
		if _, err := kubectl("", "apply", "--dry-run=server", "--namespace", "default", "-f", file); err != nil {
			t.Error(err)
		}
	}
}
