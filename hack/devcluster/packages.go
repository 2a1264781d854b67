package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// What the cluster runs on the machine itself, from Debian.
var hostPackages = []string{
	"containernetworking-plugins",
	"docker-registry",
	"git",
	"iproute2",
	"nftables",
	"openssh-client",
	"openssh-server",
	"runc",
}

// installPackages installs what is missing.
func installPackages(ctx context.Context) error {
	var missing []string
	for _, name := range hostPackages {
		status, _ := output(exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat=${Status}", name))
		if status != "install ok installed" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return step("install "+strings.Join(missing, " "), func() error {
		undo, err := forbidServiceStarts()
		if err != nil {
			return err
		}
		defer undo()
		if err := aptGet(ctx, "update"); err != nil {
			return err
		}
		return aptGet(ctx, append([]string{"install", "--yes", "--no-install-recommends"}, missing...)...)
	})
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"--quiet=2"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	_, err := output(cmd)
	return err
}

// forbidServiceStarts keeps Debian from starting the registry and the ssh
// server that it installs. A policy that is there already stays in force.
func forbidServiceStarts() (undo func(), err error) {
	const policy = "/usr/sbin/policy-rc.d"
	if exists(policy) {
		return func() {}, nil
	}
	if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101 # action not allowed\n"), 0o755); err != nil {
		return nil, fmt.Errorf("keeping packages from starting services: %w", err)
	}
	return func() { os.Remove(policy) }, nil
}
