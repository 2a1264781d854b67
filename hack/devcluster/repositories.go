package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The user that the git repositories belong to, and git logins become. It is in
// no user database but that of our ssh server.
const gitUID = 64222

// ownRepository is this repository's own name among those served.
const ownRepository = "build-controller"

func (c *cluster) repositoriesDir() string { return c.in("git", "repos") }

func (c *cluster) repository(name string) string {
	return filepath.Join(c.repositoriesDir(), name+".git")
}

// git returns a git command that nobody's configuration changes and that does
// not mind whose repository it works on.
func (c *cluster) git(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), gitEnvironment...)
	return cmd
}

var gitEnvironment = []string{
	"GIT_CONFIG_GLOBAL=/dev/null",
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_CONFIG_COUNT=2",
	"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	"GIT_CONFIG_KEY_1=uploadpack.allowFilter", "GIT_CONFIG_VALUE_1=true", // a build may fetch only a part
}

// repositories makes the example repositories that are missing, and brings that
// of this repository up to its newest commit.
func (c *cluster) repositories(ctx context.Context) error {
	examples, err := filepath.Glob(filepath.Join(c.source, "artifacts", "examples", "*", "src"))
	if err != nil {
		return err
	}
	for _, source := range examples {
		repository := c.repository(filepath.Base(filepath.Dir(source)))
		if exists(repository) {
			continue // tests may have pushed to it
		}
		if err := c.createRepository(ctx, repository, source); err != nil {
			return err
		}
	}
	return c.mirrorSource(ctx)
}

// resetRepositories makes all of them anew.
func (c *cluster) resetRepositories(ctx context.Context) error {
	if !exists(c.repositoriesDir()) {
		return errors.New("the cluster is not up")
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	repositories, err := filepath.Glob(c.repository("*"))
	if err != nil {
		return err
	}
	for _, repository := range repositories {
		if err := os.RemoveAll(repository); err != nil {
			return err
		}
	}
	return c.repositories(ctx)
}

// createRepository makes a repository with the files of a directory as its only
// commit, on branch main and with tag v1. The same files always make the same
// commit.
func (c *cluster) createRepository(ctx context.Context, repository, source string) error {
	next := repository + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	git := func(args ...string) (string, error) {
		cmd := c.git(ctx, args...)
		const who, mail, when = "Example", "example@example.com", "2026-01-01T00:00:00Z"
		cmd.Env = append(cmd.Env,
			"GIT_DIR="+next, "GIT_WORK_TREE="+source, "GIT_INDEX_FILE="+filepath.Join(next, "first-index"),
			"GIT_AUTHOR_NAME="+who, "GIT_AUTHOR_EMAIL="+mail, "GIT_AUTHOR_DATE="+when,
			"GIT_COMMITTER_NAME="+who, "GIT_COMMITTER_EMAIL="+mail, "GIT_COMMITTER_DATE="+when)
		return output(cmd)
	}
	if err := c.initRepository(ctx, next); err != nil {
		return err
	}
	if _, err := git("add", "--all"); err != nil {
		return err
	}
	tree, err := git("write-tree")
	if err != nil {
		return err
	}
	commit, err := git("commit-tree", "-m", "First version", tree)
	if err != nil {
		return err
	}
	for _, ref := range []string{"refs/heads/main", "refs/tags/v1"} {
		if _, err := git("update-ref", ref, commit); err != nil {
			return err
		}
	}
	return c.publish(next, repository)
}

// mirrorSource brings the branch main of build-controller.git to the checkout's
// HEAD.
func (c *cluster) mirrorSource(ctx context.Context) error {
	head, err := output(c.git(ctx, "-C", c.source, "rev-parse", "--verify", "--quiet", "HEAD"))
	if err != nil {
		say("  %s.git is left out: the checkout has no commit", ownRepository)
		return nil
	}
	repository := c.repository(ownRepository)
	if current, err := output(c.git(ctx, "-C", repository, "rev-parse", "--verify", "--quiet", "main")); err == nil && current == head {
		return nil
	}
	next := repository + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := c.initRepository(ctx, next); err != nil {
		return err
	}
	// The checkout itself may be a shallow clone.
	fetch := c.git(ctx, "-C", next, "fetch", "--quiet", "--update-shallow", c.source, "HEAD:refs/heads/main")
	if _, err := output(fetch); err != nil {
		return err
	}
	return c.publish(next, repository)
}

func (c *cluster) initRepository(ctx context.Context, dir string) error {
	if _, err := output(c.git(ctx, "init", "--quiet", "--bare", "--initial-branch=main", dir)); err != nil {
		return err
	}
	// A build may name any commit by its sha, not only the tip of a branch.
	_, err := output(c.git(ctx, "-C", dir, "config", "uploadpack.allowAnySHA1InWant", "true"))
	return err
}

// publish gives a finished repository to the git user and moves it into place.
func (c *cluster) publish(next, repository string) error {
	err := filepath.WalkDir(next, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, gitUID, gitUID)
	})
	if err != nil {
		return err
	}
	if err := os.RemoveAll(repository); err != nil {
		return err
	}
	return os.Rename(next, repository)
}

// repositoryNames lists what is served, without the .git.
func (c *cluster) repositoryNames() []string {
	repositories, _ := filepath.Glob(c.repository("*"))
	for i, repository := range repositories {
		repositories[i] = strings.TrimSuffix(filepath.Base(repository), ".git")
	}
	return repositories
}

func (c *cluster) gitPassword() (string, error) { return password(c.in("git", "password")) }

// gitCredentials makes what git clients need: a key that may log in, the
// servers' identities, and a password.
func (c *cluster) gitCredentials(ctx context.Context) error {
	for _, key := range []string{"id_ed25519", "ssh_host_ed25519_key"} {
		path := c.in("git", key)
		if exists(path + ".pub") {
			continue
		}
		if err := os.MkdirAll(c.repositoriesDir(), 0o755); err != nil {
			return err
		}
		if err := os.RemoveAll(path); err != nil { // ssh-keygen would ask
			return err
		}
		if err := command(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "devcluster", "-f", path); err != nil {
			return err
		}
	}
	host, err := os.ReadFile(c.in("git", "ssh_host_ed25519_key.pub"))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(host))
	knownHost := fmt.Sprintf("[%s]:2222 %s %s\n", hostIP, fields[0], fields[1])
	if err := writeFile(c.in("git", "known_hosts"), []byte(knownHost), 0o644); err != nil {
		return err
	}
	if _, err := c.gitPassword(); err != nil {
		return err
	}
	return errors.Join(
		pki(c.in("git", "pki")).issueServer(c.in("git", "ca.crt")),
		pki(c.in("git", "private-pki")).issueServer(c.in("git", "private-ca.crt")),
	)
}
