// Command gitsync stands in for git-sync v4 where the real one can't be had: a
// one-shot sync, with the flags that a build uses and the observable behaviour
// that a build depends on. Those are the relative link to a worktree named by
// its commit, the JSON log, the wording of errors with git's own in them, and
// the exit code.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

type options struct {
	repo, ref, root, link string
	oneTime               bool
	depth                 int
	filter                string
	submodules            string
	sparseFile            string
	sshKeyFiles           []string
	sshKnownHosts         bool
	sshKnownHostsFile     string
	maxFailures           int
	period, syncTimeout   time.Duration
	groupWrite            bool
	username              string
	passwordFile          string
	gitConfig             string
}

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	flags, o := newFlags()
	if err := flags.Parse(args); err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	if err := o.check(flags.Args()); err != nil {
		fmt.Fprintln(stderr, err) // the real one's usage stands before it
		return 1
	}
	log := logger{stderr}
	log.info("starting up", "version", "v4.7.1-standin", "pid", os.Getpid(), "uid", os.Getuid(), "gid", os.Getgid(),
		"home", os.Getenv("HOME"), "flags", flagsForLog(flags))

	umask := 0o022
	if o.groupWrite {
		umask = 0o002
	}
	syscall.Umask(umask)

	s, cleanup, err := newSync(o, log)
	if err != nil {
		log.error(err, "can't set up git")
		return 1
	}
	defer cleanup()
	for failures := 1; ; failures++ {
		ctx, cancel := context.WithTimeout(context.Background(), o.syncTimeout)
		err := s.once(ctx)
		cancel()
		if err == nil {
			log.info("exiting after one sync", "status", 0)
			return 0
		}
		if o.maxFailures >= 0 && failures >= o.maxFailures {
			log.error(err, "too many failures, aborting", "failCount", failures, "maxFailures", o.maxFailures)
			return 1
		}
		log.error(err, "error syncing repo, will retry", "failCount", failures)
		time.Sleep(o.period)
	}
}

// newFlags returns the flags. Each has the default that its environment
// variable gives it, like the real ones.
func newFlags() (*pflag.FlagSet, *options) {
	o := &options{}
	f := pflag.NewFlagSet("git-sync", pflag.ContinueOnError)
	f.StringVar(&o.repo, "repo", env("REPO", ""), "the git repository to sync (required)")
	f.StringVar(&o.ref, "ref", env("REF", "HEAD"), "the git revision (branch, tag, or hash) to sync")
	f.StringVar(&o.root, "root", env("ROOT", ""), "the root directory for git-sync operations (required)")
	f.StringVar(&o.link, "link", env("LINK", ""), "the name of the link below --root (default is the leaf of --repo)")
	f.BoolVar(&o.oneTime, "one-time", env("ONE_TIME", "") == "true", "exit after the first sync (required)")
	f.IntVar(&o.depth, "depth", parsed(strconv.Atoi, env("DEPTH", "1")), "truncate the history to this many commits")
	f.StringVar(&o.filter, "filter", env("FILTER", ""), "fetch only a part at first, for example 'blob:none' or 'tree:0'")
	f.StringVar(&o.sparseFile, "sparse-checkout-file", env("SPARSE_CHECKOUT_FILE", ""), "the path to a sparse-checkout file")
	f.StringVar(&o.submodules, "submodules", env("SUBMODULES", "recursive"), "one of 'recursive', 'shallow', or 'off'")
	f.StringArrayVar(&o.sshKeyFiles, "ssh-key-file", []string{env("SSH_KEY_FILE", "/etc/git-secret/ssh")}, "the SSH key(s) to use")
	f.BoolVar(&o.sshKnownHosts, "ssh-known-hosts", env("SSH_KNOWN_HOSTS", "true") == "true", "enable SSH known_hosts verification")
	f.StringVar(&o.sshKnownHostsFile, "ssh-known-hosts-file", env("SSH_KNOWN_HOSTS_FILE", "/etc/git-secret/known_hosts"), "the known_hosts file to use")
	f.IntVar(&o.maxFailures, "max-failures", parsed(strconv.Atoi, env("MAX_FAILURES", "0")), "consecutive failures allowed before aborting, -1 for any number")
	f.DurationVar(&o.period, "period", parsed(time.ParseDuration, env("PERIOD", "10s")), "how long to wait before another attempt")
	f.DurationVar(&o.syncTimeout, "sync-timeout", parsed(time.ParseDuration, env("SYNC_TIMEOUT", "2m0s")), "the time allowed for one sync")
	f.BoolVar(&o.groupWrite, "group-write", env("GROUP_WRITE", "") == "true", "make all data writable by the group")
	f.StringVar(&o.username, "username", env("USERNAME", ""), "the username to use for git auth")
	f.StringVar(&o.passwordFile, "password-file", env("PASSWORD_FILE", ""), "the file with the password for git auth")
	f.StringVar(&o.gitConfig, "git-config", env("GIT_CONFIG", ""), "git configuration as 'section.key:value,...', either of them quoted if need be")
	return f, o
}

func env(name, fallback string) string {
	if value, ok := os.LookupEnv("GITSYNC_" + name); ok {
		return value
	}
	return fallback
}

func parsed[T any](parse func(string) (T, error), value string) T {
	result, err := parse(value)
	if err != nil {
		fmt.Fprintf(os.Stderr, "FATAL: invalid env value: %v\n", err)
		os.Exit(1)
	}
	return result
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected arguments: %q", rest)
	case o.repo == "":
		return fmt.Errorf("required flag: --repo must be specified")
	case o.root == "":
		return fmt.Errorf("required flag: --root must be specified")
	case !o.oneTime:
		return fmt.Errorf("this stand-in only syncs once: --one-time must be specified")
	case o.depth < 0:
		return fmt.Errorf("invalid flag: --depth must be greater than or equal to 0")
	case o.submodules != "recursive" && o.submodules != "shallow" && o.submodules != "off":
		return fmt.Errorf("invalid flag: --submodules must be one of %q, %q, or %q", "recursive", "shallow", "off")
	case o.username == "" && o.passwordFile != "":
		return fmt.Errorf("invalid flag: --password-file may only be specified when --username is specified")
	case o.username != "" && o.passwordFile == "" && env("PASSWORD", "") == "":
		return fmt.Errorf("required flag: $GITSYNC_PASSWORD or --password-file must be specified when --username is specified")
	}
	return nil
}

// A sync is one repository being brought to one place.
type sync struct {
	*options
	log logger
	env []string
}

// newSync prepares git's configuration, in a file of its own.
func newSync(o *options, log logger) (s *sync, cleanup func(), err error) {
	if err := os.MkdirAll(o.root, 0o775); err != nil {
		return nil, nil, err
	}
	// The real path, so that git finds itself by the same.
	if o.root, err = filepath.EvalSymlinks(o.root); err != nil {
		return nil, nil, err
	}
	config, err := os.CreateTemp("", "git-sync.gitconfig.*")
	if err != nil {
		return nil, nil, err
	}
	config.Close()
	s = &sync{o, log, append(os.Environ(),
		"GIT_CONFIG_GLOBAL="+config.Name(), "GIT_CONFIG_NOSYSTEM=true", "GIT_SSH_COMMAND="+o.sshCommand())}
	cleanup = func() { os.Remove(config.Name()) }

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	version, err := s.git(ctx, "", "version")
	if err != nil {
		return nil, cleanup, err
	}
	log.info("git version", "version", version)
	settings := [][2]string{
		{"gc.autoDetach", "false"},
		{"credential.helper", "cache --timeout 3600"},
		{"core.askPass", "true"}, // never ask for a password
		// The root of a volume belongs to root, even with an fsGroup.
		{"safe.directory", "*"},
	}
	extra, err := parseGitConfig(o.gitConfig)
	if err != nil {
		return nil, cleanup, fmt.Errorf("can't parse --git-config flag: %w", err)
	}
	for _, setting := range append(settings, extra...) {
		if _, err := s.git(ctx, "", "config", "--global", setting[0], setting[1]); err != nil {
			return nil, cleanup, err
		}
	}
	return s, cleanup, nil
}

func (o *options) sshCommand() string {
	command := "ssh"
	for _, file := range o.sshKeyFiles {
		command += " -i " + file
	}
	if o.sshKnownHosts {
		return command + " -o StrictHostKeyChecking=yes -o UserKnownHostsFile=" + o.sshKnownHostsFile
	}
	return command + " -o StrictHostKeyChecking=no"
}

// once fetches the commit, checks it out beside the repository and points the
// link at it.
func (s *sync) once(ctx context.Context) error {
	if err := s.storeCredentials(ctx); err != nil {
		return fmt.Errorf("credential refresh failed: %w", err)
	}
	if err := s.initRepo(ctx); err != nil {
		return err
	}
	fetch := []string{"fetch", s.repo, s.ref, "--verbose", "--no-progress", "--prune", "--no-auto-gc"}
	if s.depth > 0 {
		fetch = append(fetch, "--depth", strconv.Itoa(s.depth))
	}
	// git itself notes that the rest is to be had from the same URL.
	if s.filter != "" {
		fetch = append(fetch, "--filter", s.filter)
	}
	if _, err := s.git(ctx, s.root, fetch...); err != nil {
		return err
	}
	// ^{} turns an annotated tag into the commit it is for.
	hash, err := s.git(ctx, s.root, "rev-parse", "FETCH_HEAD^{}")
	if err != nil {
		return err
	}
	s.log.info("update required", "ref", s.ref, "local", "", "remote", hash, "syncCount", 0)
	worktree := filepath.Join(s.root, ".worktrees", hash)
	if err := s.checkOut(ctx, worktree, hash); err != nil {
		return err
	}
	if err := s.publish(worktree); err != nil {
		return err
	}
	s.log.info("updated successfully", "ref", s.ref, "remote", hash, "syncCount", 1)
	return nil
}

func (s *sync) storeCredentials(ctx context.Context) error {
	if s.username == "" {
		return nil
	}
	password := env("PASSWORD", "")
	if s.passwordFile != "" {
		content, err := os.ReadFile(s.passwordFile)
		if err != nil {
			return fmt.Errorf("can't read password file %q: %w", s.passwordFile, err)
		}
		password = string(content)
	}
	_, err := s.gitWithInput(ctx, "", fmt.Sprintf("url=%s\nusername=%s\npassword=%s\n", s.repo, s.username, password), "credential", "approve")
	return err
}

func (s *sync) initRepo(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.root, ".git")); err == nil {
		return nil // a second attempt
	}
	s.log.info("repo directory was empty or failed checks", "path", s.root)
	left, err := os.ReadDir(s.root)
	if err != nil {
		return err
	}
	for _, entry := range left {
		if err := os.RemoveAll(filepath.Join(s.root, entry.Name())); err != nil {
			return fmt.Errorf("can't wipe unusable root directory: %w", err)
		}
	}
	s.log.info("initializing repo directory", "path", s.root)
	if _, err := s.git(ctx, s.root, "init", "-b", "git-sync"); err != nil {
		return err
	}
	// Relative paths of submodules are relative to this.
	_, err = s.git(ctx, s.root, "remote", "add", "origin", s.repo)
	return err
}

func (s *sync) checkOut(ctx context.Context, worktree, hash string) error {
	if err := os.RemoveAll(worktree); err != nil {
		return err
	}
	if _, err := s.git(ctx, s.root, "worktree", "prune"); err != nil {
		return err
	}
	if _, err := s.git(ctx, s.root, "worktree", "add", "--force", "--detach", worktree, hash, "--no-checkout"); err != nil {
		return err
	}
	// Relative, for whoever mounts the volume at another path.
	gitDir := "gitdir: " + filepath.Join("..", "..", ".git", "worktrees", hash) + "\n"
	if err := os.WriteFile(filepath.Join(worktree, ".git"), []byte(gitDir), 0o644); err != nil {
		return err
	}
	if s.sparseFile != "" {
		if err := s.chooseFiles(ctx, worktree, hash); err != nil {
			return err
		}
	}
	if _, err := s.git(ctx, worktree, "reset", "--hard", hash, "--"); err != nil {
		return err
	}
	if s.submodules == "off" {
		return nil
	}
	update := []string{"submodule", "update", "--init"}
	if s.submodules == "recursive" {
		update = append(update, "--recursive")
	}
	if s.depth > 0 {
		update = append(update, "--depth", strconv.Itoa(s.depth))
	}
	_, err := s.git(ctx, worktree, update...)
	return err
}

// chooseFiles leaves out of a worktree what the sparse-checkout file does not
// name.
func (s *sync) chooseFiles(ctx context.Context, worktree, hash string) error {
	patterns, err := os.ReadFile(s.sparseFile)
	if err != nil {
		return err
	}
	info := filepath.Join(s.root, ".git", "worktrees", hash, "info")
	if err := os.MkdirAll(info, 0o775); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(info, "sparse-checkout"), patterns, 0o666); err != nil {
		return err
	}
	_, err = s.git(ctx, worktree, "sparse-checkout", "init")
	return err
}

// publish replaces the link in one go, so that no reader finds none.
func (s *sync) publish(worktree string) error {
	link := s.link
	if link == "" {
		link = strings.TrimSuffix(filepath.Base(s.repo), ".git")
	}
	if !filepath.IsAbs(link) {
		link = filepath.Join(s.root, link)
	}
	dir := filepath.Dir(link)
	if err := os.MkdirAll(dir, 0o775); err != nil {
		return fmt.Errorf("error making symlink dir: %w", err)
	}
	target, err := filepath.Rel(dir, worktree)
	if err != nil {
		return fmt.Errorf("error converting to relative path: %w", err)
	}
	next := filepath.Join(dir, "tmp-link")
	if err := os.Symlink(target, next); err != nil {
		return fmt.Errorf("error creating symlink: %w", err)
	}
	if err := os.Rename(next, link); err != nil {
		return fmt.Errorf("error replacing symlink: %w", err)
	}
	return nil
}

func (s *sync) git(ctx context.Context, dir string, args ...string) (string, error) {
	return s.gitWithInput(ctx, dir, "", args...)
}

func (s *sync) gitWithInput(ctx context.Context, dir, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = s.env
	cmd.Stdin = strings.NewReader(input)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	stdout, stderr := strings.TrimSpace(out.String()), strings.TrimSpace(errOut.String())
	if err != nil {
		return stdout, fmt.Errorf("Run(git %s): %w: { stdout: %q, stderr: %q }", commandForLog(args), err, stdout, stderr)
	}
	return stdout, nil
}

func commandForLog(args []string) string {
	var quoted []string
	for _, arg := range args {
		if strings.ContainsAny(arg, " \t\n") {
			arg = strconv.Quote(arg)
		}
		quoted = append(quoted, arg)
	}
	return strings.Join(quoted, " ")
}

// flagsForLog returns the flags that were given, without passwords.
func flagsForLog(flags *pflag.FlagSet) []string {
	given := []string{}
	flags.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if array, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(array.GetSlice(), ",")
		}
		if f.Name == "repo" {
			value = redactURL(value)
		}
		given = append(given, "--"+f.Name+"="+value)
	})
	return given
}
