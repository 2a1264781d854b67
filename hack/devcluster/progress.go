package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// step does one thing and says how long it took; what takes very long is heard
// of meanwhile.
func step(name string, do func() error) error {
	start := time.Now()
	elapsed := func() time.Duration { return time.Since(start).Round(100 * time.Millisecond) }

	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(20 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				say("  ... %s (%s)", name, elapsed())
			}
		}
	}()
	err := do()
	close(done)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	say("  %-34s %6.1fs", name, elapsed().Seconds())
	return nil
}

// together runs steps side by side and returns what went wrong in any of them.
func together(steps ...func() error) error {
	errs := make(chan error)
	for _, do := range steps {
		go func() { errs <- do() }()
	}
	var all []error
	for range steps {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// output runs a command and returns its standard output; an error carries what
// the command said.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String() + stdout.String())
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said)
	}
	return strings.TrimSpace(stdout.String()), nil
}

func command(ctx context.Context, name string, args ...string) error {
	_, err := output(exec.CommandContext(ctx, name, args...))
	return err
}

// poll calls a check until it returns nil, and gives up with its last error.
func poll(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		// One that hangs must not use up the time of those after it.
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w after %s: %w", ctx.Err(), timeout, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
