package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A script is gitsync.sh in a directory that stands for the root of its container, with a git-sync that tells
// what it was called with.
type script struct {
	t     *testing.T
	root  string
	shell []string
}

// shells are those that may be /bin/sh in an image: upstream's has bash.
var shells = [][]string{{"/bin/sh"}, {"bash"}, {"dash"}, {"busybox", "sh"}}

func newScript(t *testing.T) script {
	t.Helper()
	s := script{t, t.TempDir(), shells[0]}
	for _, dir := range []string{"run/git", "etc/git-secret", "etc/git-ca", "etc/registry-secret", "etc/ssl/certs", "dev", "bin", "workspace/source/services"} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("etc/ssl/certs/ca-certificates.crt", "public\n")
	s.write("bin/git", "#!/bin/sh\necho a commit\n")
	s.write("git-sync", `#!/bin/sh
echo "args: $*"; echo "user: $GITSYNC_USERNAME"; echo "ca: $GIT_SSL_CAINFO"; echo "umask: $(umask)"
`)
	return s
}

func (s script) write(file, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.root, file), []byte(content), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s script) read(file string) string {
	content, _ := os.ReadFile(filepath.Join(s.root, file))
	return string(content)
}

// run returns what the script printed, with the root taken out of it.
func (s script) run(env ...string) (out string, ok bool) {
	s.t.Helper()
	text := gitSyncScript
	for _, path := range []string{"/etc/", "/run/git", "/dev/termination-log", "/git-sync \"$@\"", "/workspace/"} {
		text = strings.ReplaceAll(text, path, s.root+path)
	}
	cmd := exec.Command(s.shell[0], append(s.shell[1:len(s.shell):len(s.shell)], "-ec", text, "git-sync", "--repo=url")...)
	cmd.Env = append([]string{"PATH=" + filepath.Join(s.root, "bin") + ":" + os.Getenv("PATH"), "GIT_SECRET=creds", "REGISTRY_SECRET="}, env...)
	printed, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(printed), s.root, ""), err == nil
}

func TestGitSyncScript(t *testing.T) {
	t.Run("a public repository needs nothing", func(t *testing.T) {
		s := newScript(t)
		out, ok := s.run("TRANSPORT=https", "GIT_SECRET=")
		if !ok || !strings.Contains(out, "args: --repo=url\n") || !strings.Contains(out, "umask: 0022") {
			t.Error(ok, out)
		}
		if got := s.read("dev/termination-log"); got != "a commit\n" {
			t.Errorf("the termination message is %q", got)
		}
	})
	for name, keys := range map[string]map[string]string{
		"a username and a password":                 {"username": "jane", "password": "s3cret"},
		"with newlines at their ends, as echo does": {"username": "jane\n", "password": "s3cret\r\n"},
		"a token alone":                             {"token": "s3cret"},
		"a password alone":                          {"password": "s3cret"},
	} {
		t.Run("https with "+name, func(t *testing.T) {
			s := newScript(t)
			for key, value := range keys {
				s.write("etc/git-secret/"+key, value)
			}
			user := "git"
			if keys["username"] != "" {
				user = "jane"
			}
			out, ok := s.run("TRANSPORT=https")
			if !ok || !strings.Contains(out, "--password-file=/run/git/password\nuser: "+user+"\n") || s.read("run/git/password") != "s3cret" {
				t.Errorf("%v %s, password %q", ok, out, s.read("run/git/password"))
			}
		})
	}
	for _, shell := range shells {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		t.Run("in the shell "+shell[0], func(t *testing.T) {
			s := newScript(t)
			s.shell = shell
			s.write("etc/git-secret/password", "s3cret\n")
			s.write("etc/git-secret/ca.crt", "of the Secret")
			if out, ok := s.run("TRANSPORT=https"); !ok || !strings.Contains(out, "--password-file=/run/git/password\nuser: git\nca: /run/git/ca.crt\numask: 0022") {
				t.Error(ok, out)
			}
		})
	}
	t.Run("a directory that is not there is told, after the commit", func(t *testing.T) {
		s := newScript(t)
		if out, ok := s.run("TRANSPORT=https", "GIT_SECRET=", "CONTEXT_DIR=services"); !ok {
			t.Error(out)
		}
		out, ok := s.run("TRANSPORT=https", "GIT_SECRET=", "CONTEXT_DIR=services/no such")
		if ok || !strings.HasSuffix(out, "build-controller: the repository has no directory \"services/no such\"\n") || s.read("dev/termination-log") != "a commit\n" {
			t.Error(ok, out)
		}
	})
	t.Run("a link that leads out of the repository is no directory of it", func(t *testing.T) {
		s := newScript(t)
		for name, to := range map[string]string{"up": "..", "root": "/", "beside": "../source-of-another", "within": "services"} {
			if err := os.Symlink(to, filepath.Join(s.root, "workspace/source", name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(s.root, "workspace/source-of-another"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"up", "root", "beside", "up/source/..", "within", "./within/", ""} {
			out, ok := s.run("TRANSPORT=https", "GIT_SECRET=", "CONTEXT_DIR="+dir)
			if inside := dir == "" || strings.Contains(dir, "within"); ok != inside {
				t.Errorf("%q: %s", dir, out)
			}
		}
	})
	t.Run("an ssh key for the submodules of a repository over https", func(t *testing.T) {
		s := newScript(t)
		s.write("etc/git-secret/ssh", "any\n")
		if out, ok := s.run("TRANSPORT=https"); !ok || strings.Contains(out, "--ssh") {
			t.Error("without known_hosts:", ok, out)
		}
		s.write("etc/git-secret/known_hosts", "host ssh-ed25519 AAAA\n")
		if out, ok := s.run("TRANSPORT=https"); !ok || !strings.Contains(out, "--ssh-key-file=/run/git/key") {
			t.Error("with known_hosts:", ok, out)
		}
	})
	t.Run("private authorities are trusted beside the public ones", func(t *testing.T) {
		s := newScript(t)
		s.write("etc/git-secret/ca.crt", "of the Secret") // a newline is quickly lost
		s.write("etc/git-ca/ca.crt", "of the ConfigMap\n")
		out, ok := s.run("TRANSPORT=https")
		if got := s.read("run/git/ca.crt"); !ok || !strings.Contains(out, "ca: /run/git/ca.crt") || got != "public\nof the Secret\nof the ConfigMap\n\n" {
			t.Errorf("%v %s, authorities %q", ok, out, got)
		}
	})
	for name, c := range map[string]struct {
		transport, file, want string
	}{
		"an empty Secret for ssh":         {"ssh", "", `Secret "creds" lacks the key ssh or ssh-privatekey`},
		"an empty Secret for https":       {"https", "", `Secret "creds" lacks the key password or token`},
		"a registry's Secret without it":  {"https", "", `Secret "regcred" lacks the key .dockerconfigjson or config.json`},
		"a public key instead of the key": {"ssh", "ssh-ed25519 AAAA jane@example.com\n", "the key ssh holds a public key"},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			s := newScript(t)
			var env []string
			if strings.Contains(c.want, "regcred") {
				env = []string{"REGISTRY_SECRET=regcred"}
			}
			if c.file != "" {
				s.write("etc/git-secret/ssh", c.file)
			}
			if out, ok := s.run(append(env, "TRANSPORT="+c.transport)...); ok || out != "build-controller: "+c.want+"\n" {
				t.Errorf("%v %q", ok, out)
			}
		})
	}
}

func TestGitSyncScriptMendsAndNamesSSHKeys(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("there is no ssh-keygen on this machine to make keys with; the end-to-end tests try the same")
	}
	generate := func(t *testing.T, args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "key")
		if out, err := exec.Command("ssh-keygen", append([]string{"-q", "-C", "", "-f", file}, args...)...).CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
		key, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(key)
	}
	key := generate(t, "-t", "ed25519", "-N", "")
	pem := generate(t, "-t", "rsa", "-m", "PEM", "-N", "")
	for name, c := range map[string]struct{ file, key, want string }{
		"as it is":                        {"ssh", key, key},
		"under the name of kubernetes.io": {"ssh-privatekey", key, key},
		"in the old format":               {"ssh", pem, pem},
		"without its last newline":        {"ssh", strings.TrimSpace(key), key},
		"with CRLF":                       {"ssh", strings.ReplaceAll(key, "\n", "\r\n"), key},
		"indented, with blank lines":      {"ssh", "  " + strings.ReplaceAll(key, "\n", "\n  ") + "\n\n", key},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.write("etc/git-secret/"+c.file, c.key)
			s.write("etc/git-secret/known_hosts", "host ssh-ed25519 AAAA\r\n")
			out, ok := s.run("TRANSPORT=ssh")
			if !ok || !strings.Contains(out, "--ssh-key-file=/run/git/key --ssh-known-hosts=true --ssh-known-hosts-file=/run/git/known_hosts") {
				t.Fatal(ok, out)
			}
			if got := s.read("run/git/key"); got != c.want {
				t.Errorf("the key is now %q", got)
			}
			if got := s.read("run/git/known_hosts"); got != "host ssh-ed25519 AAAA\n" {
				t.Errorf("known_hosts is now %q", got)
			}
		})
	}
	for name, args := range map[string][]string{
		"ed25519":                        {"-t", "ed25519"},
		"ecdsa":                          {"-t", "ecdsa"},
		"rsa in the old format":          {"-t", "rsa", "-m", "PEM"},
		"rsa in the format of PKCS 8":    {"-t", "rsa", "-m", "PKCS8"},
		"ed25519 and another cipher":     {"-t", "ed25519", "-Z", "chacha20-poly1305@openssh.com"},
		"rsa in the format of OpenSSH":   {"-t", "rsa"},
		"ecdsa in the format of PKCS 8":  {"-t", "ecdsa", "-m", "PKCS8"},
		"ed25519, with many more rounds": {"-t", "ed25519", "-a", "20"},
	} {
		t.Run("a passphrase is named: "+name, func(t *testing.T) {
			s := newScript(t)
			s.write("etc/git-secret/ssh", generate(t, append(args, "-N", "secret words")...))
			if out, ok := s.run("TRANSPORT=ssh"); ok || out != "build-controller: the key ssh is protected by a passphrase\n" {
				t.Error(ok, out)
			}
		})
		t.Run("no passphrase: "+name, func(t *testing.T) {
			s := newScript(t)
			s.write("etc/git-secret/ssh", generate(t, append(args, "-N", "")...))
			if out, ok := s.run("TRANSPORT=ssh"); !ok {
				t.Error(out)
			}
		})
	}
}
