package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// sshServer is Debian's OpenSSH server, for nothing but git.
func (c *cluster) sshServer() (service, error) {
	// The git user exists for this server only: in place of the machine's user
	// database it sees these (see sshd below). "sshd" is the one it confines
	// itself to before a login.
	files := map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0::/root:/bin/sh\n"+
			"sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"+
			"git:*:%[1]d:%[1]d::%[2]s:/bin/sh\n", gitUID, c.in("git")),
		"group": fmt.Sprintf("root:x:0:\nnogroup:x:65534:\ngit:x:%d:\n", gitUID),
		"sshd_config": fmt.Sprintf(`ListenAddress %s
HostKey %s
AuthorizedKeysFile %s
AuthenticationMethods publickey
AllowUsers git
ForceCommand %s git-command %s
DisableForwarding yes
PermitTTY no
PermitUserRC no
PidFile none
UsePAM no
UseDNS no
# A test may clone many repositories at once.
MaxStartups 100
`, sshAddress, c.in("git", "ssh_host_ed25519_key"), c.in("git", "id_ed25519.pub"), c.program(), c.repositoriesDir()),
	}
	for name, content := range files {
		if err := writeFile(c.in("git", name), []byte(content), 0o644); err != nil {
			return service{}, err
		}
	}
	return service{
		name: "sshd",
		path: c.program(),
		args: []string{"sshd"},
		ready: func(ctx context.Context) error {
			var dialer net.Dialer
			connection, err := dialer.DialContext(ctx, "tcp", sshAddress)
			if err != nil {
				return err
			}
			defer connection.Close()
			greeting, err := bufio.NewReader(connection).ReadString('\n')
			if err == nil && !strings.HasPrefix(greeting, "SSH-2.0-") {
				err = fmt.Errorf("it said %q", greeting)
			}
			return err
		},
	}, nil
}

// sshd becomes the OpenSSH server, in a mount namespace of its own where the
// user database is ours: no user is added to the machine for it.
func (c *cluster) sshd() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("a mount namespace: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	for _, name := range []string{"passwd", "group"} {
		if err := syscall.Mount(c.in("git", name), "/etc/"+name, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", name, err)
		}
	}
	const sshd = "/usr/sbin/sshd" // it insists on an absolute path
	return syscall.Exec(sshd, []string{sshd, "-D", "-e", "-f", c.in("git", "sshd_config")}, os.Environ())
}

// What a git client asks an ssh server to run.
var gitRequest = regexp.MustCompile(`^git[- ](upload-pack|receive-pack|upload-archive) '/?([^']*)'$`)

// gitCommand is all that a login to the ssh server can do: serve one of the
// repositories in a directory to git.
func gitCommand(repositories string) error {
	request := gitRequest.FindStringSubmatch(os.Getenv("SSH_ORIGINAL_COMMAND"))
	if request == nil {
		return errors.New("only git may log in here")
	}
	action, repository := request[1], request[2]
	if !filepath.IsLocal(repository) {
		return fmt.Errorf("%q is not the name of a repository", repository)
	}
	if strings.HasPrefix(repository, "~") {
		repository = "./" + repository // a directory of ours, and nobody's home
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	// So that a name that is not there is reported as it was asked for.
	if err := os.Chdir(repositories); err != nil {
		return err
	}
	return syscall.Exec(git, []string{"git", action, repository}, append(os.Environ(), gitEnvironment...))
}
