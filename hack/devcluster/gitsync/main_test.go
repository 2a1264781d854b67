package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// git runs git in a directory, as an author that is always the same.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// newRepository returns the URL of a repository with two commits, the first of
// them tagged v1, and their shas.
func newRepository(t *testing.T) (url, first, second string) {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	git(t, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	git(t, dir, "config", "uploadpack.allowFilter", "true")
	for i, content := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "add", "file")
		git(t, dir, "commit", "--quiet", "--message="+content)
		if i == 0 {
			git(t, dir, "tag", "--annotate", "--message=first", "v1")
			first = git(t, dir, "rev-parse", "HEAD")
		}
	}
	return "file://" + dir, first, git(t, dir, "rev-parse", "HEAD")
}

// syncTo runs the program and returns its exit code and log.
func syncTo(t *testing.T, root string, args ...string) (code int, log string) {
	t.Helper()
	var stderr bytes.Buffer
	code = run(append([]string{"--root=" + root, "--link=source", "--one-time"}, args...), &stderr)
	return code, stderr.String()
}

func TestARefMayBeABranchATagOrAFullSha(t *testing.T) {
	url, first, second := newRepository(t)
	for ref, want := range map[string]string{"HEAD": second, "main": second, "v1": first, first: first} {
		root := t.TempDir()
		if code, log := syncTo(t, root, "--repo="+url, "--ref="+ref); code != 0 {
			t.Errorf("ref %s: exit %d\n%s", ref, code, log)
			continue
		}
		target, err := os.Readlink(filepath.Join(root, "source"))
		if err != nil || target != ".worktrees/"+want {
			t.Errorf("ref %s: the link is %q, %v; want .worktrees/%s", ref, target, err, want)
		}
		if got := git(t, filepath.Join(root, "source"), "log", "-1", "--format=%H"); got != want {
			t.Errorf("ref %s: git log says %s, want %s", ref, got, want)
		}
	}
}

func TestTheWorktreeWorksWhenItsVolumeIsMountedElsewhere(t *testing.T) {
	url, _, second := newRepository(t)
	root := filepath.Join(t.TempDir(), "here")
	if code, log := syncTo(t, root, "--repo="+url); code != 0 {
		t.Fatalf("exit %d\n%s", code, log)
	}
	moved := filepath.Join(t.TempDir(), "there")
	if err := os.Rename(root, moved); err != nil {
		t.Fatal(err)
	}
	if got := git(t, filepath.Join(moved, "source"), "rev-parse", "HEAD"); got != second {
		t.Errorf("HEAD is %s, want %s", got, second)
	}
}

func TestSubmodulesAreCheckedOutUnlessTheyAreOff(t *testing.T) {
	sub, _, _ := newRepository(t)
	dir := t.TempDir()
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "lib")
	git(t, dir, "commit", "--quiet", "--message=with a submodule")
	for mode, want := range map[string]bool{"recursive": true, "shallow": true, "off": false} {
		root := t.TempDir()
		code, log := syncTo(t, root, "--repo=file://"+dir, "--submodules="+mode, "--git-config=protocol.file.allow:always")
		if code != 0 {
			t.Errorf("%s: exit %d\n%s", mode, code, log)
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "source", "lib", "file")); (err == nil) != want {
			t.Errorf("%s: the submodule's file: %v", mode, err)
		}
	}
}

func TestOnlyWhatIsAskedForIsFetchedAndCheckedOut(t *testing.T) {
	url, _, _ := newRepository(t)
	dir := strings.TrimPrefix(url, "file://")
	for _, name := range []string{"shop/wanted", "media/unwanted"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message=three")
	sparse := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(sparse, []byte("/shop/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags         []string
		files, absent int // files in the worktree, objects that were not fetched
	}{
		"all":    {nil, 3, 0},
		"sparse": {[]string{"--sparse-checkout-file=" + sparse}, 2, 0}, // git adds the files at the top
		"filter": {[]string{"--filter=blob:none"}, 3, 0},               // fetched by the checkout
		"both":   {[]string{"--filter=blob:none", "--sparse-checkout-file=" + sparse}, 2, 1},
		"trees":  {[]string{"--filter=tree:0", "--sparse-checkout-file=" + sparse, "--depth=0"}, 2, 1},
	} {
		root := t.TempDir()
		if code, log := syncTo(t, root, append(c.flags, "--repo="+url)...); code != 0 {
			t.Errorf("%s: exit %d\n%s", name, code, log)
			continue
		}
		var files int
		for _, file := range []string{"file", "shop/wanted", "media/unwanted"} {
			if _, err := os.Stat(filepath.Join(root, "source", file)); err == nil {
				files++
			}
		}
		absent := strings.Count(git(t, root, "rev-list", "--objects", "--all", "--missing=print", "FETCH_HEAD", "--max-count=1"), "?")
		if files != c.files || absent != c.absent {
			t.Errorf("%s: %d files, %d objects absent; want %d, %d", name, files, absent, c.files, c.absent)
		}
	}
	missing := filepath.Join(t.TempDir(), "none")
	if code, log := syncTo(t, t.TempDir(), "--repo="+url, "--sparse-checkout-file="+missing); code != 1 || !strings.Contains(log, "open "+missing+": no such file or directory") {
		t.Errorf("a missing file: exit %d\n%s", code, log)
	}
}

func TestDepthLimitsTheHistoryAndZeroDoesNot(t *testing.T) {
	url, _, _ := newRepository(t)
	for depth, want := range map[string]string{"1": "1", "0": "2"} {
		root := t.TempDir()
		if code, log := syncTo(t, root, "--repo="+url, "--depth="+depth); code != 0 {
			t.Fatalf("exit %d\n%s", code, log)
		}
		if got := git(t, filepath.Join(root, "source"), "rev-list", "--count", "HEAD"); got != want {
			t.Errorf("depth %s: %s commits, want %s", depth, got, want)
		}
	}
}

func TestGroupWriteLeavesFilesThatTheGroupMayWrite(t *testing.T) {
	url, _, _ := newRepository(t)
	for flag, want := range map[string]os.FileMode{"--group-write": 0o664, "--group-write=false": 0o644} {
		root := t.TempDir()
		if code, log := syncTo(t, root, "--repo="+url, flag); code != 0 {
			t.Fatalf("exit %d\n%s", code, log)
		}
		info, err := os.Stat(filepath.Join(root, "source", "file"))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", flag, info.Mode().Perm(), err, want)
		}
	}
}

// The last line of the log must be what a classifier of failures finds in that
// of the real git-sync.
func TestAFailureEndsWithALineThatHoldsGitsOwnError(t *testing.T) {
	url, first, _ := newRepository(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close() // now nobody answers there
	for name, c := range map[string]struct{ repo, ref, want string }{
		"no such branch":     {url, "nosuchbranch", `fatal: couldn't find remote ref nosuchbranch`},
		"a short sha":        {url, first[:7], `fatal: couldn't find remote ref ` + first[:7]},
		"no such repository": {url + "-none", "main", `does not appear to be a git repository`},
		"nobody there":       {"http://" + listener.Addr().String() + "/app.git", "main", `Failed to connect`},
	} {
		code, log := syncTo(t, t.TempDir(), "--repo="+c.repo, "--ref="+c.ref)
		if code != 1 {
			t.Errorf("%s: exit %d, want 1", name, code)
		}
		lines := strings.Split(strings.TrimSpace(log), "\n")
		var last struct {
			Msg, Error             string
			Level                  *int
			FailCount, MaxFailures int
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			t.Fatalf("%s: %v: %s", name, err, lines[len(lines)-1])
		}
		if last.Msg != "too many failures, aborting" || last.Level != nil || last.FailCount != 1 {
			t.Errorf("%s: %+v", name, last)
		}
		prefix := "Run(git fetch " + c.repo + " " + c.ref + " --verbose --no-progress --prune --no-auto-gc --depth 1): exit status 128: { stdout: "
		if !strings.HasPrefix(last.Error, prefix) || !strings.Contains(last.Error, c.want) {
			t.Errorf("%s: %s", name, last.Error)
		}
	}
}

func TestLogLinesLookLikeThoseOfTheRealOne(t *testing.T) {
	url, _, second := newRepository(t)
	_, log := syncTo(t, t.TempDir(), "--repo="+url)
	head := `^{"logger":"","ts":"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}","caller":{"file":"main\.go","line":\d+},"level":0,"msg":`
	want := []string{
		`"starting up",.*"flags":\["--link=source","--one-time=true","--repo=` + url + `","--root=.*"\]}$`,
		`"git version","version":"git version .*"}$`,
		`"repo directory was empty or failed checks","path":".*"}$`,
		`"initializing repo directory","path":".*"}$`,
		`"update required","ref":"HEAD","local":"","remote":"` + second + `","syncCount":0}$`,
		`"updated successfully","ref":"HEAD","remote":"` + second + `","syncCount":1}$`,
		`"exiting after one sync","status":0}$`,
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log)
	}
	for i, line := range lines {
		if !regexp.MustCompile(head + want[i]).MatchString(line) {
			t.Errorf("line %d is %s\nwant %s", i+1, line, want[i])
		}
	}
}

func TestAMisspeltFlagIsFatal(t *testing.T) {
	if code, log := syncTo(t, t.TempDir(), "--repoo=x"); code != 2 || !strings.Contains(log, "unknown flag: --repoo") {
		t.Errorf("exit %d: %s", code, log)
	}
}

func TestFlagsTakeTheirDefaultsFromTheEnvironment(t *testing.T) {
	t.Setenv("GITSYNC_REF", "v1")
	t.Setenv("GITSYNC_DEPTH", "0")
	_, o := newFlags()
	if o.ref != "v1" || o.depth != 0 || o.submodules != "recursive" || o.sshKnownHostsFile != "/etc/git-secret/known_hosts" {
		t.Errorf("%+v", o)
	}
}

func TestParseGitConfig(t *testing.T) {
	for text, want := range map[string][][2]string{
		"":                            nil,
		"a.b:c":                       {{"a.b", "c"}},
		`a.b:c:d,"e.f,g.h":"i,j"`:     {{"a.b", "c:d"}, {"e.f,g.h", "i,j"}},
		`http.extraHeader:"A: \"b\""`: {{"http.extraHeader", `A: "b"`}},
	} {
		got, err := parseGitConfig(text)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	}
	for _, text := range []string{"a.b", `"a.b:c`, `"a"b:c`} {
		if got, err := parseGitConfig(text); err == nil {
			t.Errorf("%s: %q, want an error", text, got)
		}
	}
}

func TestPasswordsInURLsAreNotLogged(t *testing.T) {
	for text, want := range map[string]string{
		"https://u:secret@example.com/a": "https://u:REDACTED@example.com/a",
		"git@example.com:a/b.git":        "git@example.com:a/b.git",
		"ssh://git@example.com/a":        "ssh://git@example.com/a",
	} {
		if got := redactURL(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
