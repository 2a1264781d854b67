//go:build apitest

package apitest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This is the first test: nothing has to be cleared away yet.
func TestWithoutTheCRDTheControllerSaysSoAndStartsWhenItComes(t *testing.T) {
	ctx := testContext(t, usual)
	removeCRD(t, ctx)
	t.Cleanup(func() {
		if err := applyCRD(); err != nil {
			t.Error(err) // the tests that follow need it
		}
	})

	const says = "CustomResourceDefinition is not installed"
	from := cluster.audit.here(t)
	controller := startController(t, startOptions{})
	untilLog(t, ctx, controller, says, 3)
	complaints := 0
	for line := range bytes.Lines(controller.read(t)) {
		switch {
		case bytes.Contains(line, []byte(says)):
			complaints++
		case line[0] != 'I':
			t.Errorf("besides it says: %s", line)
		}
	}
	tries := 0
	for _, r := range cluster.audit.since(t, from) {
		if r.by(controller.instance) && r.ObjectRef.Resource == "builds" {
			tries++
		}
	}
	if complaints > tries {
		t.Errorf("%d lines for %d tries", complaints, tries)
	}

	if err := applyCRD(); err != nil {
		t.Fatal(err)
	}
	s := newScene(t, usual)
	s.create(makeBuild("late"))
	s.untilReady("late")
	controller.stop(t) // which fails if it had ended by itself
}

// removeCRD takes the CRD away, with all Builds that earlier tests have left.
func removeCRD(t *testing.T, ctx context.Context) {
	t.Helper()
	builds := cluster.builds.BuildcontrollerV1alpha1()
	all, err := builds.Builds(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var removing sync.WaitGroup
	for batch := range slices.Chunk(all.Items, len(all.Items)/10+1) {
		removing.Go(func() {
			for _, build := range batch {
				_, err := builds.Builds(build.Namespace).Patch(ctx, build.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	removing.Wait()
	if _, err := kubectl("", "delete", "crd/builds.buildcontroller.dev", "--timeout=60s"); err != nil {
		t.Fatal(err)
	}
}

// untilLog returns when the controller has said something so many times.
func untilLog(t *testing.T, ctx context.Context, p *process, words string, times int) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond) // a file can't be watched with the standard library
	defer tick.Stop()
	for bytes.Count(p.read(t), []byte(words)) < times {
		select {
		case <-tick.C:
		case <-p.exited:
			t.Fatalf("%s ended before it said %q %d times", p.instance, words, times)
		case <-ctx.Done():
			t.Fatalf("%s did not say %q %d times", p.instance, words, times)
		}
	}
}
