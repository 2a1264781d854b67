package main

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A rootfs writes the root file system of an image, as a tar. The same content
// always makes the same bytes.
type rootfs struct {
	tar  *tar.Writer
	seen map[string]bool
}

// newRootfs starts a file system with what programs take for granted. A builder
// is the name of the user 1000, if there is one.
func newRootfs(w io.Writer, builder string) (*rootfs, error) {
	r := &rootfs{tar.NewWriter(w), map[string]bool{}}
	// As on every Debian of today: packages bring files for both places.
	for _, dir := range usrMerged {
		if err := errors.Join(r.dir("usr/"+dir, 0o755), r.link(dir, "usr/"+dir)); err != nil {
			return nil, err
		}
	}
	passwd, group := "root:x:0:0:root:/root:/bin/sh\n", "root:x:0:\n"
	if builder != "" {
		passwd += builder + ":x:1000:1000::/home/" + builder + ":/bin/sh\n"
		group += builder + ":x:1000:\n"
	}
	return r, errors.Join(
		r.dir("etc", 0o755),
		r.dir("root", 0o700),
		r.dir("run", 0o755),
		r.dir("tmp", fs.ModeSticky|0o777),
		r.dir("var/tmp", fs.ModeSticky|0o777),
		r.file("etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n")),
		r.file("etc/passwd", 0o644, []byte(passwd+
			"git-sync:x:65533:65533::/tmp:/usr/sbin/nologin\n"+ // ssh refuses a user without a name
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")),
		r.file("etc/group", 0o644, []byte(group+"git-sync:x:65533:\nnogroup:x:65534:\n")),
	)
}

var usrMerged = []string{"bin", "lib", "lib64", "sbin"}

func (r *rootfs) add(header *tar.Header, content io.Reader) error {
	header.Name = path.Clean(strings.TrimPrefix(header.Name, "/"))
	if r.seen[header.Name] {
		return nil
	}
	if parent := path.Dir(header.Name); !r.seen[parent] && parent != "." {
		if err := r.dir(parent, 0o755); err != nil {
			return err
		}
	}
	r.seen[header.Name] = true
	if header.Typeflag == tar.TypeDir {
		header.Name += "/"
	}
	if capability, ok := fileCapabilities[header.Name]; ok {
		header.Mode = 0o755
		header.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capability}
	}
	header.ModTime = time.Unix(0, 0)
	header.AccessTime, header.ChangeTime = time.Time{}, time.Time{}
	header.Format = tar.FormatUnknown
	if err := r.tar.WriteHeader(header); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeReg {
		_, err := io.Copy(r.tar, content)
		return err
	}
	return nil
}

// Debian has these run as root. In a container without CAP_SYS_ADMIN that is of
// no use: what they need there is a capability of their own.
var fileCapabilities = map[string]string{
	"usr/bin/newgidmap": fileCapability(6), // CAP_SETGID
	"usr/bin/newuidmap": fileCapability(7), // CAP_SETUID
}

// fileCapability is the extended attribute that permits a program a capability
// and makes it effective: struct vfs_cap_data, revision 2.
func fileCapability(number int) string {
	data := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	data = binary.LittleEndian.AppendUint32(data, 1<<number)
	return string(append(data, make([]byte, 12)...))
}

// leaveOut keeps files of packages that come later out.
func (r *rootfs) leaveOut(names ...string) {
	for _, name := range names {
		r.seen[name] = true
	}
}

func (r *rootfs) dir(name string, mode fs.FileMode) error {
	bits := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return r.add(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: bits}, nil)
}

// home adds directories that belong to the user 1000.
func (r *rootfs) home(names ...string) error {
	for _, name := range names {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, Uid: 1000, Gid: 1000}
		if err := r.add(header, nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *rootfs) file(name string, mode fs.FileMode, content []byte) error {
	return r.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: int64(len(content))},
		strings.NewReader(string(content)))
}

func (r *rootfs) link(name, target string) error {
	return r.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

// program copies an executable.
func (r *rootfs) program(name, source string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return r.file(name, 0o755, content)
}

// tree copies a directory, without the files and directories in it that skip
// says yes to.
func (r *rootfs) tree(name, source string, skip func(relative string) bool) error {
	return filepath.WalkDir(source, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		if skip != nil && skip(relative) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		inside := path.Join(name, relative)
		switch {
		case entry.IsDir():
			return r.dir(inside, info.Mode())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			return r.link(inside, target)
		case info.Mode().IsRegular():
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return r.file(inside, info.Mode().Perm(), content)
		}
		return nil
	})
}

// busybox adds a shell and the usual tools, as one file and links to it.
func (r *rootfs) busybox(ctx context.Context, scratch string) error {
	debs, err := downloadDebs(ctx, filepath.Join(scratch, "busybox"), "busybox-static")
	if err != nil {
		return err
	}
	unpacked := filepath.Join(scratch, "busybox-unpacked")
	for _, deb := range debs {
		if err := command(ctx, "dpkg-deb", "--extract", deb, unpacked); err != nil {
			return err
		}
	}
	binary := filepath.Join(unpacked, "bin", "busybox")
	if err := r.program("usr/bin/busybox", binary); err != nil {
		return err
	}
	tools, err := output(exec.CommandContext(ctx, binary, "--list"))
	if err != nil {
		return err
	}
	for _, tool := range strings.Fields(tools) {
		if err := r.link("usr/bin/"+tool, "busybox"); err != nil {
			return err
		}
	}
	return nil
}

// debs adds the files of Debian packages and of all that they depend on.
// Nothing of a package is run: what it would do when it is installed is left to
// the caller. It returns the names of the package files.
func (r *rootfs) debs(ctx context.Context, scratch string, packages ...string) ([]string, error) {
	debs, err := downloadDebs(ctx, filepath.Join(scratch, "debs"), packages...)
	if err != nil {
		return nil, err
	}
	for _, deb := range debs {
		if err := r.deb(ctx, deb); err != nil {
			return nil, err
		}
	}
	return debs, nil
}

func (r *rootfs) deb(ctx context.Context, deb string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	archive := tar.NewReader(stream)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return cmd.Wait()
		}
		if err == nil {
			header.Name = merged(header.Name)
			if header.Typeflag == tar.TypeLink {
				header.Linkname = merged(header.Linkname)
			}
			if isDocumentation(header.Name) {
				continue
			}
			err = r.add(header, archive)
		}
		if err != nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
}

// merged returns where a package's file is on a system where /bin is /usr/bin.
func merged(name string) string {
	name = path.Clean(strings.TrimPrefix(name, "./"))
	if first, _, _ := strings.Cut(name, "/"); slices.Contains(usrMerged, first) {
		return "usr/" + name
	}
	return name
}

func isDocumentation(name string) bool {
	for _, dir := range []string{"doc", "info", "lintian", "locale", "man"} {
		if strings.HasPrefix(name, "usr/share/"+dir+"/") {
			return true
		}
	}
	return false
}

// downloadDebs fetches packages with everything they depend on, whatever of it
// this machine has installed.
func downloadDebs(ctx context.Context, dir string, packages ...string) ([]string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return nil, err
	}
	args := []string{"install", "--download-only", "--yes", "--no-install-recommends",
		"-o", "Dir::State::status=/dev/null", // as if nothing were installed
		"-o", "Dir::Cache::archives=" + dir,
		"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=", // the machine's own are not like that
		"-o", "APT::Sandbox::User=root", // another one could not write to dir
	}
	if err := aptGet(ctx, append(args, packages...)...); err != nil {
		// The list of packages may be missing, or older than what is offered.
		if err := aptGet(ctx, "update"); err != nil {
			return nil, err
		}
		if err := aptGet(ctx, append(args, packages...)...); err != nil {
			return nil, err
		}
	}
	return filepath.Glob(filepath.Join(dir, "*.deb"))
}
