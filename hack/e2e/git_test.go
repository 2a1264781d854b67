//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A worktree is a clone on this machine that a test commits to and pushes from,
// over ssh like everybody else.
type worktree struct {
	t   *testing.T
	dir string
	url string
}

// newWorktree returns an empty one that pushes to a repository of the cluster.
func newWorktree(t *testing.T, repository string) *worktree {
	t.Helper()
	w := &worktree{t: t, dir: t.TempDir(), url: gitSSH + repository + ".git"}
	w.git("init", "--quiet", "--initial-branch=main")
	return w
}

// checkout brings a revision of the repository here.
func (w *worktree) checkout(revision string) {
	w.t.Helper()
	w.git("fetch", "--quiet", w.url, revision)
	w.git("checkout", "--quiet", "FETCH_HEAD")
}

func (w *worktree) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *worktree) read(name string) string {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(content)
}

// commit commits all that is there.
func (w *worktree) commit(subject string) commit {
	w.t.Helper()
	w.git("add", "--all")
	w.git("commit", "--quiet", "--message", subject)
	return w.head()
}

// push makes HEAD a branch or tag, given in full as refs/heads/… or refs/tags/…,
// until the test ends.
func (w *worktree) push(ref string) {
	w.t.Helper()
	w.git("push", "--quiet", "--force", w.url, "HEAD:"+ref)
	w.t.Cleanup(func() {
		if out, err := output(w.command("push", "--quiet", w.url, ":"+ref)); err != nil {
			w.t.Logf("taking %s away: %v %s", ref, err, out)
		}
	})
}

// A commit is what a Build's status tells about one.
type commit struct{ sha, author, subject string }

func (w *worktree) head() commit {
	w.t.Helper()
	lines := strings.Split(strings.TrimSpace(w.git("log", "-1", "--format=%H%n%an%n%s")), "\n")
	return commit{lines[0], lines[1], lines[2]}
}

func (w *worktree) git(args ...string) string {
	w.t.Helper()
	out, err := output(w.command(args...))
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *worktree) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", append([]string{"-C", w.dir}, args...)...)
	in := func(name string) string { return filepath.Join(cluster.state, "git", name) }
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada Author", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Carl Committer", "GIT_COMMITTER_EMAIL=carl@example.com",
		"GIT_SSH_COMMAND=ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes"+
			" -i "+in("id_ed25519")+" -o UserKnownHostsFile="+in("known_hosts"))
	return cmd
}
