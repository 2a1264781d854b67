// Command devcluster brings up a real one-node Kubernetes cluster, with the
// registries and git servers that builds need, on a bare Linux machine that can
// reach no container registry: every part is built from Go modules or comes
// from Debian's packages.
//
// It promises that "up" can be repeated at any time, repairing what has died
// and touching nothing that works, and that "down" leaves nothing behind but
// the cache: no process, mount, network interface, firewall rule, cgroup or
// file. It is started by hack/devcluster.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

const usage = `usage: devcluster.sh COMMAND

  up             start the cluster, or repair the one that is running
  down           stop it and remove every trace of it, but keep the cache
  status         show what runs, and where to reach it
  repos          put the example git repositories back to their first state
  binaries       build what the cluster is made of, print the directory of the binaries
  control-plane --dir DIR [--feature NAME=BOOL]...
                 run only etcd, kube-apiserver and kube-controller-manager, in
                 the foreground, on free loopback ports and with all files in
                 DIR; "ready" is printed when DIR/kubeconfig can be used, and
                 SIGTERM, SIGINT or the end of a piped stdin stops it

  BUILD_CONTROLLER_CACHE  where binaries and images are kept (default ~/.cache/build-controller)
  DEVCLUSTER_STATE        where a running cluster lives (default /var/lib/build-controller-devcluster)
`

func main() {
	// A child's parent-death signal is tied to the thread that started it, and
	// the main thread is the one that lasts as long as the program.
	runtime.LockOSThread()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	command, args := args[0], args[1:]
	if command == "git-command" && len(args) == 1 { // called by our ssh server, as another user
		return gitCommand(args[0])
	}
	c, err := newCluster()
	if err != nil {
		return err
	}
	if command == "control-plane" {
		return controlPlaneCommand(ctx, c, args)
	}
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments", command)
	}
	switch command {
	case "up":
		return c.up(ctx)
	case "down":
		return c.down()
	case "status":
		return c.status(ctx)
	case "repos":
		return c.resetRepositories(ctx)
	case "binaries":
		if err := c.build(ctx, allTools...); err != nil {
			return err
		}
		fmt.Println(c.binDir())
		return nil

	// What the cluster's own services call; not for people.
	case "serve":
		return c.serve(ctx)
	case "sshd":
		return c.sshd()
	}
	return fmt.Errorf("unknown command %q", command)
}

func controlPlaneCommand(ctx context.Context, c *cluster, args []string) error {
	flags := flag.NewFlagSet("control-plane", flag.ContinueOnError)
	dir := flags.String("dir", "", "the directory for everything it writes")
	var features []string
	flags.Func("feature", "a feature gate, as NAME=BOOL; may be repeated", func(gate string) error {
		if !strings.Contains(gate, "=") {
			return errors.New("want NAME=BOOL")
		}
		features = append(features, gate)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || flags.NArg() > 0 {
		return errors.New("control-plane wants --dir DIR and nothing else but --feature")
	}
	return c.controlPlaneOnly(ctx, *dir, features)
}
