package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func testCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{cache: t.TempDir(), state: t.TempDir(), source: "/"}
}

func sleeper() service {
	return service{
		name:  "sleeper",
		path:  "/bin/sleep",
		args:  []string{"60"},
		ready: func(context.Context) error { return nil },
	}
}

func TestAServiceIsStartedOnceAndStartedAgainWhenItDied(t *testing.T) {
	c := testCluster(t)
	ensure := func() int {
		t.Helper()
		if err := c.ensure(t.Context(), sleeper()); err != nil {
			t.Fatal(err)
		}
		return c.pid("sleeper")
	}
	first := ensure()
	if again := ensure(); again != first {
		t.Errorf("a running service, pid %d, was started again as %d", first, again)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for c.pid("sleeper") != 0 {
		time.Sleep(time.Millisecond)
	}
	second := ensure()
	if second == 0 || second == first {
		t.Errorf("after a kill the pid is %d, was %d", second, first)
	}
	if err := c.stop("sleeper"); err != nil {
		t.Error(err)
	}
	if pid := c.pid("sleeper"); pid != 0 {
		t.Errorf("pid %d still runs", pid)
	}
}

func TestAPidFileFromBeforeARebootOrOfAnEarlierProcessKillsNobody(t *testing.T) {
	c := testCluster(t)
	bystander := exec.Command("/bin/sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer bystander.Process.Kill()
	if err := c.writePid("x", bystander.Process.Pid); err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(c.pidFile("x"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(recorded)) // pid, start time, boot
	for _, stale := range [][]string{
		{fields[0], "1", fields[2]},
		{fields[0], fields[1], "00000000-0000-0000-0000-000000000000"},
		{fields[0]},
		{},
	} {
		if err := os.WriteFile(c.pidFile("x"), []byte(strings.Join(stale, " ")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.stop("x"); err != nil {
			t.Error(err)
		}
		if _, err := identity(bystander.Process.Pid); err != nil {
			t.Fatalf("a pid file with %q killed it: %v", stale, err)
		}
	}
}

func TestAServiceThatExitsIsReportedAtOnceWithTheEndOfItsLog(t *testing.T) {
	c := testCluster(t)
	start := time.Now()
	err := c.ensure(t.Context(), service{
		name:  "failing",
		path:  "/bin/sh",
		args:  []string{"-c", "echo no such thing >&2; exit 3"},
		ready: func(context.Context) error { return errors.New("not yet") },
	})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("the error is %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestDownRefusesADirectoryThatUpDidNotMake(t *testing.T) {
	c := testCluster(t)
	precious := filepath.Join(c.state, "precious")
	if err := os.WriteFile(precious, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.down(); err != nil {
		t.Error(err)
	}
	if !exists(precious) {
		t.Error("down removed a file that was none of ours")
	}
	if err := c.claimState(); err == nil {
		t.Error("up claimed a directory with something else in it")
	}
}
