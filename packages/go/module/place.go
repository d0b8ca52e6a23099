//go:build linux

package oneflush

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Invariants of a placed library:
//
//  1. Nobody but this user and root can change the file, or put another one in its place: its
//     folder is this user's with mode 0700, and so is no folder above it that others may write to
//     without the sticky bit.
//  2. The file's bytes are those in this program: its SHA-256 is compared before each use.
//  3. Its name appears by a rename, so that a process that races with this one, or dies, leaves no
//     half of it under that name.

const (
	fileName = "liboneflush.so"
	// What a process that was killed while it wrote has left, beside the library.
	unfinishedPattern = fileName + ".*.unfinished"
	unfinishedAge     = time.Hour
	// ST_NOEXEC of statfs.
	noExec = 0x8
)

// A placed library is a file to load. leave is called when it is loaded or refused.
type placed struct {
	path  string
	leave func()
}

// inCache keeps the library as CACHE/oneflush/SHA256/liboneflush.so.
func inCache(library image) (placed, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return placed{}, err
	}
	folder := filepath.Join(cache, "oneflush", library.sha256)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return placed{}, err
	}
	folder, err = realPath(folder)
	if err == nil {
		err = checkFolder(folder)
	}
	if err != nil {
		return placed{}, err
	}
	path := filepath.Join(folder, fileName)
	if err := checkFile(path, library.sha256); err != nil {
		if err := write(library, folder, path); err != nil {
			return placed{}, err
		}
		if err := checkFile(path, library.sha256); err != nil {
			return placed{}, err
		}
	}
	return placed{path, func() {}}, nil
}

// inTemporary makes a folder with a name that nobody knows before. The library stays mapped when
// the folder is gone.
func inTemporary(library image) (placed, error) {
	folder, err := os.MkdirTemp("", "oneflush-")
	if err != nil {
		return placed{}, err
	}
	leave := func() { os.RemoveAll(folder) }
	folder, err = realPath(folder)
	path := filepath.Join(folder, fileName)
	if err == nil {
		err = checkFolder(folder)
	}
	if err == nil {
		err = write(library, folder, path)
	}
	if err == nil {
		err = checkFile(path, library.sha256)
	}
	if err != nil {
		leave()
		return placed{}, err
	}
	return placed{path, leave}, nil
}

func write(library image, folder, path string) error {
	content, err := library.open()
	if err != nil {
		return err
	}
	removeUnfinished(folder)
	file, err := os.CreateTemp(folder, unfinishedPattern)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(0o500)
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

func removeUnfinished(folder string) {
	names, _ := filepath.Glob(filepath.Join(folder, unfinishedPattern))
	for _, name := range names {
		if state, err := os.Lstat(name); err == nil && time.Since(state.ModTime()) > unfinishedAge {
			os.Remove(name)
		}
	}
}

// checkFile holds a file against invariants 1 and 2.
func checkFile(path, sum string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	state, err := file.Stat()
	if err != nil {
		return err
	}
	if err := onlyWeWrite(path, state); err != nil {
		return err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if found := sumOf(content); found != sum {
		return fmt.Errorf("%s: its SHA-256 is %s in place of %s", path, found, sum)
	}
	return nil
}

// checkFolder holds a folder of ours against invariant 1, and looks whether programs may be there.
func checkFolder(folder string) error {
	state, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if !state.IsDir() || ownerOf(state) != os.Geteuid() || state.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: it is not a folder of this user with mode 0700 (it is %v of user %d)",
			folder, state.Mode(), ownerOf(state))
	}
	var at syscall.Statfs_t
	if err := syscall.Statfs(folder, &at); err == nil && at.Flags&noExec != 0 {
		return fmt.Errorf("%s: its file system is mounted noexec", folder)
	}
	return checkAbove(folder)
}

// realPath leads to a file without links, so that nobody can turn a link after the checks.
func realPath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// checkOnlyWeWrite holds a file that the user names against invariant 1. The path is a real one.
func checkOnlyWeWrite(path string) error {
	state, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := onlyWeWrite(path, state); err != nil {
		return err
	}
	return checkAbove(path)
}

func onlyWeWrite(path string, state os.FileInfo) error {
	if !state.Mode().IsRegular() {
		return fmt.Errorf("%s: it is not a regular file", path)
	}
	if !isTrusted(ownerOf(state)) || state.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: other users could change it (it is %v of user %d); it must be this "+
			"user's or root's, with mode 0755 or less", path, state.Mode(), ownerOf(state))
	}
	return nil
}

// checkAbove looks at the folders above a real path. In a folder with the sticky bit others cannot
// rename what is not theirs.
func checkAbove(path string) error {
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		state, err := os.Lstat(folder)
		if err != nil {
			return err
		}
		isShared := state.Mode().Perm()&0o022 != 0 && state.Mode()&os.ModeSticky == 0
		if isShared || !isTrusted(ownerOf(state)) {
			return fmt.Errorf("%s: other users could replace it through %s (it is %v of user %d)",
				path, folder, state.Mode(), ownerOf(state))
		}
		if folder == filepath.Dir(folder) {
			return nil
		}
	}
}

func ownerOf(state os.FileInfo) int {
	return int(state.Sys().(*syscall.Stat_t).Uid)
}

// isTrusted says whether a user may own what is loaded, or a folder above it. In a user namespace
// whoever has no number there shows as one user; the folders of the system belong to that one.
func isTrusted(owner int) bool {
	return owner == 0 || owner == os.Geteuid() || owner == unmappedUser()
}

// unmappedUser is -1 where every user has a number, as is so outside of user namespaces.
func unmappedUser() int {
	mapped, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || strings.Join(strings.Fields(string(mapped)), " ") == "0 0 4294967295" {
		return -1
	}
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return -1
	}
	var user int
	if _, err := fmt.Sscan(string(text), &user); err != nil {
		return -1
	}
	return user
}
