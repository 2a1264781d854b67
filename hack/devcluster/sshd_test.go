package main

import "testing"

func TestOnlyGitMayAskForSomethingOverSSH(t *testing.T) {
	for request, repository := range map[string]string{
		"git-upload-pack '/app.git'":           "app.git",
		"git upload-pack 'app'":                "app",
		"git-receive-pack '/a/b.git'":          "a/b.git",
		"git-upload-pack '/app.git'; id":       "",
		"git-upload-pack '/a'b'":               "",
		"git-upload-pack --strict '/app.git'":  "",
		"git-shell":                            "",
		"sh -c id":                             "",
		"":                                     "",
		"git-upload-pack '/app.git'\nid":       "",
		"git-upload-archive '/app.git' 'more'": "",
	} {
		got := ""
		if match := gitRequest.FindStringSubmatch(request); match != nil {
			got = match[2]
		}
		if got != repository {
			t.Errorf("%q asks for %q, want %q", request, got, repository)
		}
	}
}

func TestARepositoryOutsideTheDirectoryIsRefused(t *testing.T) {
	for _, name := range []string{"/../etc", "//etc/passwd", "/a/../../b"} {
		t.Setenv("SSH_ORIGINAL_COMMAND", "git-upload-pack '"+name+"'")
		// A name that were accepted would replace this test by git.
		if err := gitCommand(t.TempDir()); err == nil {
			t.Errorf("%s was served", name)
		}
	}
}
