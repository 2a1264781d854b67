//go:build apitest

package apitest

import (
	"strings"
	"testing"
)

func TestKubectlShowsABuildAsATable(t *testing.T) {
	s, _ := deployed(t)
	table, err := kubectl("", "get", "bld", "--namespace", s.ns)
	if err != nil {
		t.Fatal(err)
	}
	head, row, _ := strings.Cut(table, "\n")
	if got, want := strings.Join(strings.Fields(head), " "), "NAME PHASE COMMIT IMAGE-DIGEST DURATION URL AGE"; got != want {
		t.Errorf("the columns are %s", got)
	}
	status := s.build("shop").Status
	for _, value := range []string{"shop", "Ready", status.Run.ShortCommit, status.ShortDigest, status.Run.Duration, "http://shop." + s.ns + ".svc"} {
		if value == "" || !strings.Contains(row, value) {
			t.Errorf("the row does not show %q: %s", value, row)
		}
	}
	wide, err := kubectl("", "get", "builds", "--namespace", s.ns, "--output", "wide")
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"JOB", "REASON", status.Run.Job} {
		if !strings.Contains(wide, value) {
			t.Errorf("the wide table does not show %q: %s", value, wide)
		}
	}
	all, err := kubectl("", "get", "all", "--namespace", s.ns)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(all, "build.buildcontroller.dev/shop") {
		t.Errorf("kubectl get all leaves the Build out: %s", all)
	}
	t.Log("\n" + table)
}

func TestKubectlExplainsEveryField(t *testing.T) {
	explained, err := kubectl("", "explain", "build", "--recursive")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"contextDir", "secretName", "buildArgs", "progressDeadline", "runPolicy", "suspend", "history"} {
		if !strings.Contains(explained, field) {
			t.Errorf("kubectl explain leaves out %s", field)
		}
	}
	url, err := kubectl("", "explain", "build.spec.source.git.url")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(url, "Credentials belong into the Secret") {
		t.Errorf("kubectl does not explain the url: %s", url)
	}
}
