package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestARootfsIsTheSameWheneverItIsMade(t *testing.T) {
	source := t.TempDir()
	for _, name := range []string{"a", "keep/b", "skip/c"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	make := func() []byte {
		var archive bytes.Buffer
		r, err := newRootfs(&archive, "builder")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.tree("usr/local/x", source, func(file string) bool { return file == "skip" }); err != nil {
			t.Fatal(err)
		}
		if err := r.tar.Close(); err != nil {
			t.Fatal(err)
		}
		return archive.Bytes()
	}
	first := make()
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(source, "a"), later, later); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, make()) {
		t.Error("the same files made another archive")
	}

	parents := map[string]bool{}
	found := map[string]bool{}
	archive := tar.NewReader(bytes.NewReader(first))
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Clean(header.Name)
		if found[name] {
			t.Errorf("%s is there twice", name)
		}
		found[name] = true
		if parent := filepath.Dir(name); parent != "." && !parents[parent] {
			t.Errorf("%s comes before its directory", name)
		}
		if header.Typeflag == tar.TypeDir {
			parents[name] = true
		}
	}
	for name, want := range map[string]bool{
		"bin": true, "etc/passwd": true, "usr/local/x/a": true, "usr/local/x/keep/b": true, "usr/local/x/skip": false,
	} {
		if found[name] != want {
			t.Errorf("%s: %t, want %t", name, found[name], want)
		}
	}
}

func TestABuilderHasANameAHomeAndMayMapIDs(t *testing.T) {
	var content bytes.Buffer
	r, err := newRootfs(&content, "user")
	if err != nil {
		t.Fatal(err)
	}
	setuid := &tar.Header{Typeflag: tar.TypeReg, Name: "usr/bin/newuidmap", Mode: 0o4755}
	if err := errors.Join(r.home("home/user"), r.add(setuid, strings.NewReader("")), r.tar.Close()); err != nil {
		t.Fatal(err)
	}
	found := map[string]*tar.Header{}
	archive := tar.NewReader(&content)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Clean(header.Name)] = header
		if header.Name == "etc/passwd" {
			passwd, err := io.ReadAll(archive)
			if err != nil || !strings.Contains(string(passwd), "\nuser:x:1000:1000::/home/user:/bin/sh\n") {
				t.Errorf("%v, /etc/passwd:\n%s", err, passwd)
			}
		}
	}
	if home := found["home/user"]; home.Uid != 1000 || home.Gid != 1000 || found["home"].Uid != 0 {
		t.Errorf("the home belongs to %d:%d, its directory to %d", home.Uid, home.Gid, found["home"].Uid)
	}
	// As "setcap cap_setuid=ep" writes it.
	const want = "\x01\x00\x00\x02\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	newuidmap := found["usr/bin/newuidmap"]
	if got := newuidmap.PAXRecords["SCHILY.xattr.security.capability"]; got != want || newuidmap.Mode != 0o755 {
		t.Errorf("newuidmap has mode %o and capability %x", newuidmap.Mode, got)
	}
}

func TestPackagesForTheOldPlacesGoToTheNewOnes(t *testing.T) {
	for name, want := range map[string]string{
		"./bin/busybox":     "usr/bin/busybox",
		"./lib64/ld.so":     "usr/lib64/ld.so",
		"./usr/bin/git":     "usr/bin/git",
		"./etc/ssl/":        "etc/ssl",
		"./library/of/mine": "library/of/mine",
	} {
		if got := merged(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestAnImageTagComesFromThePackageThatIsInIt(t *testing.T) {
	debs := []string{"/x/libc6_2.36-9_amd64.deb", "/x/nodejs-doc_1.0_all.deb", "/x/nodejs_18.20.4+dfsg-1_amd64.deb"}
	if got := debVersion(debs, "nodejs"); got != "18.20.4+dfsg-1" {
		t.Errorf("got %q", got)
	}
	if got := majorMinor("1.26.8"); got != "1.26" {
		t.Errorf("got %q", got)
	}
}
