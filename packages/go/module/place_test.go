//go:build cgo && linux

package oneflush

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const stranger = 54321 // a user of nobody's

// where starts a process that loads, and returns the file of its library.
func where(t *testing.T, environment ...string) (string, error) {
	t.Helper()
	return output(child(t, "load", environment...))
}

func output(made *exec.Cmd) (string, error) {
	var messages bytes.Buffer
	made.Stderr = &messages
	found, err := made.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, messages.String())
	}
	return strings.TrimSpace(string(found)), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func library(t *testing.T) image {
	t.Helper()
	platform, err := platformOfProcess()
	must(t, err)
	found, err := embeddedLibrary(platform)
	must(t, err)
	return found
}

// cached is where the cache must have the library.
func cached(t *testing.T, cache string) string {
	return filepath.Join(cache, "oneflush", library(t).sha256, fileName)
}

func privateFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.Chmod(folder, 0o700))
	return folder
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func isEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	must(t, err)
	if len(left) > 0 {
		t.Fatalf("%s holds %v", folder, left)
	}
}

func TestTheEmbeddedLibrariesAreWhatTheirSumsSay(t *testing.T) {
	for _, libc := range []libc{gnu, musl} {
		platform := machines[runtime.GOARCH].name + "-linux-" + string(libc)
		found, err := embeddedLibrary(platform)
		if err != nil {
			t.Logf("%s is not in this build", platform)
			continue
		}
		content, err := found.open()
		must(t, err)
		file := filepath.Join(t.TempDir(), fileName)
		must(t, os.WriteFile(file, content, 0o500))
		must(t, checkMachine(file, platform))
	}
	_, err := embeddedLibrary("sparc-linux-gnu")
	says(t, err, "sparc-linux-gnu", libraryVariable)
}

func TestTheLibraryStaysInThePrivateCacheAndIsFoundThere(t *testing.T) {
	cache := privateFolder(t)
	for n := 0; n < 2; n++ {
		found, err := where(t, "XDG_CACHE_HOME="+cache)
		must(t, err)
		equal(t, "the library", found, cached(t, cache))
	}
	state, err := os.Lstat(cached(t, cache))
	must(t, err)
	equal(t, "its mode", state.Mode(), os.FileMode(0o500))
	state, err = os.Lstat(filepath.Dir(cached(t, cache)))
	must(t, err)
	equal(t, "its folder's mode", state.Mode().Perm(), os.FileMode(0o700))
}

func TestALibraryInTheCacheThatIsNotOursIsReplacedBeforeItIsLoaded(t *testing.T) {
	cache := privateFolder(t)
	_, err := where(t, "XDG_CACHE_HOME="+cache)
	must(t, err)
	file := cached(t, cache)
	content, err := os.ReadFile(file)
	must(t, err)
	evil := append([]byte{}, content...)
	evil[len(evil)/2] ^= 1
	for name, spoil := range map[string]func() error{
		"changed": func() error { return os.WriteFile(file, evil, 0o500) },
		"cut":     func() error { return os.WriteFile(file, content[:1000], 0o500) },
		"empty":   func() error { return os.WriteFile(file, nil, 0o500) },
		"writable": func() error {
			return errorsOf(os.WriteFile(file, content, 0o500), os.Chmod(file, 0o722))
		},
		"a link":    func() error { return os.Symlink("/etc/hostname", file) },
		"a pipe":    func() error { return syscall.Mkfifo(file, 0o600) },
		"not there": func() error { return nil },
	} {
		must(t, os.RemoveAll(file))
		must(t, spoil())
		found, err := where(t, "XDG_CACHE_HOME="+cache)
		if err != nil || found != file {
			t.Fatalf("%s: %s, %v", name, found, err)
		}
		must(t, checkFile(file, library(t).sha256))
	}
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestWhatAKilledProcessLeftIsRemovedWhenItIsOld(t *testing.T) {
	cache := privateFolder(t)
	folder := filepath.Dir(cached(t, cache))
	must(t, os.MkdirAll(folder, 0o700))
	old, young := fileName+".1.unfinished", fileName+".2.unfinished"
	for _, name := range []string{old, young} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte("half"), 0o600))
	}
	long := time.Now().Add(-2 * unfinishedAge)
	must(t, os.Chtimes(filepath.Join(folder, old), long, long))
	_, err := where(t, "XDG_CACHE_HOME="+cache)
	must(t, err)
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	must(t, err)
	expected := filepath.Join(folder, fileName) + " " + filepath.Join(folder, young)
	equal(t, "files", strings.Join(names, " "), expected)
}

func TestProcessesThatUnpackAtOnceAllLoadTheWholeLibrary(t *testing.T) {
	const processes = 12
	for round := 0; round < 3; round++ {
		cache := privateFolder(t)
		results := make(chan error, processes)
		for n := 0; n < processes; n++ {
			made := child(t, "load", "XDG_CACHE_HOME="+cache)
			go func() {
				_, err := output(made)
				results <- err
			}()
		}
		for n := 0; n < processes; n++ {
			must(t, <-results)
		}
		left, err := os.ReadDir(filepath.Dir(cached(t, cache)))
		must(t, err)
		equal(t, "files", len(left), 1)
	}
}

func TestWithoutACacheTheLibraryIsInATemporaryFolderUntilItIsLoaded(t *testing.T) {
	for name, environment := range map[string][]string{
		"none":        {"XDG_CACHE_HOME=", "HOME="},
		"no folder":   {"XDG_CACHE_HOME=/dev/null/cache"},
		"no abs path": {"XDG_CACHE_HOME=cache"},
	} {
		temporary := privateFolder(t)
		found, err := where(t, append(environment, "TMPDIR="+temporary)...)
		must(t, err)
		if !strings.HasPrefix(found, temporary+"/oneflush-") ||
			!strings.HasSuffix(found, "(deleted)") {
			t.Fatalf("%s: %s", name, found)
		}
		isEmpty(t, temporary)
	}
}

func TestACacheThatOthersCanWriteToIsNotUsed(t *testing.T) {
	spoiled := map[string]func(cache, folder string) error{
		"the folder's mode": func(_, folder string) error { return os.Chmod(folder, 0o770) },
		"a folder above":    func(cache, _ string) error { return os.Chmod(cache, 0o777) },
	}
	if os.Geteuid() == 0 {
		spoiled["the folder's owner"] = func(_, folder string) error {
			return os.Chown(folder, stranger, stranger)
		}
		spoiled["the owner of a folder above"] = func(cache, _ string) error {
			return os.Chown(cache, stranger, stranger)
		}
		spoiled["a link to another's folder"] = func(_, folder string) error {
			theirs := filepath.Join(filepath.Dir(folder), "theirs")
			return errorsOf(os.Rename(folder, theirs), os.Chown(theirs, stranger, stranger),
				os.Symlink(theirs, folder))
		}
	}
	for name, spoil := range spoiled {
		cache, temporary := privateFolder(t), privateFolder(t)
		folder := filepath.Dir(cached(t, cache))
		must(t, os.MkdirAll(folder, 0o700))
		must(t, spoil(cache, folder))
		found, err := where(t, "XDG_CACHE_HOME="+cache, "TMPDIR="+temporary)
		must(t, err)
		if !strings.HasPrefix(found, temporary) {
			t.Fatalf("%s: loaded from %s", name, found)
		}
		// The sticky bit is enough for a folder above.
		if name == "a folder above" {
			must(t, os.Chmod(cache, 0o777|os.ModeSticky))
			found, err = where(t, "XDG_CACHE_HOME="+cache, "TMPDIR="+temporary)
			must(t, err)
			equal(t, "with the sticky bit", found, cached(t, cache))
		}
	}
}

func TestWhereNoPlaceWillDoTheMessageNamesBothAndTheWayOut(t *testing.T) {
	needRoot(t)
	noexec := mounted(t, "noexec")
	temporary := privateFolder(t)
	found, err := where(t, "XDG_CACHE_HOME="+noexec, "TMPDIR="+temporary)
	must(t, err)
	if !strings.HasPrefix(found, temporary) {
		t.Fatalf("loaded from %s", found)
	}
	_, err = where(t, "XDG_CACHE_HOME="+noexec, "TMPDIR="+noexec)
	says(t, err, noexec+"/oneflush/", noexec+"/oneflush-", "mounted noexec", "TMPDIR", libraryVariable)

	full := mounted(t, "size=64k")
	_, err = where(t, "XDG_CACHE_HOME="+full, "TMPDIR="+full)
	says(t, err, "no space left on device", "TMPDIR")
	if left, _ := filepath.Glob(full + "/oneflush-*"); len(left) > 0 {
		t.Fatalf("%v is left", left)
	}

	readOnly := mounted(t, "ro")
	_, err = where(t, "XDG_CACHE_HOME="+readOnly, "TMPDIR="+readOnly)
	says(t, err, "read-only file system", "TMPDIR")
}

func mounted(t *testing.T, options string) string {
	t.Helper()
	folder := privateFolder(t)
	made := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,"+options, "oneflush-test", folder)
	if output, err := made.CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, output)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", folder).Run() })
	return folder
}

// publicFolder can be reached by other users, unlike those of t.TempDir.
func publicFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "oneflush-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	must(t, os.Chmod(folder, mode))
	return folder
}

// ofStranger is a process of a user without a home, with an empty folder for temporary files.
func ofStranger(t *testing.T, task string) (made *exec.Cmd, temporary string) {
	t.Helper()
	temporary = publicFolder(t, 0o777|os.ModeSticky)
	made = child(t, task, "XDG_CACHE_HOME=", "HOME=/nonexistent", "TMPDIR="+temporary)
	made.Path = publicProgram(t)
	made.Dir = "/"
	made.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: stranger, Gid: stranger},
	}
	return made, temporary
}

// publicProgram is this program where another user may run it.
func publicProgram(t *testing.T) string {
	t.Helper()
	folder := publicFolder(t, 0o755)
	program, err := os.Executable()
	must(t, err)
	content, err := os.ReadFile(program)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "program"), content, 0o755))
	return filepath.Join(folder, "program")
}

func TestAUserWithoutAHomeLoadsFromTheTemporaryFolder(t *testing.T) {
	needRoot(t)
	made, temporary := ofStranger(t, "load")
	found, err := output(made)
	must(t, err)
	if !strings.HasPrefix(found, temporary+"/oneflush-") {
		t.Fatal(found)
	}
	isEmpty(t, temporary)
}

// In a sandbox the system's folders belong to a user without a number.
func TestAUserNamespaceWithOneUserIsNoReasonToRefuse(t *testing.T) {
	needRoot(t)
	made, temporary := ofStranger(t, "load")
	one := []syscall.SysProcIDMap{{ContainerID: 7, HostID: stranger, Size: 1}}
	made.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: one,
		GidMappings: one,
		Credential:  &syscall.Credential{Uid: 7, Gid: 7, NoSetGroups: true},
	}
	found, err := output(made)
	if err != nil && strings.Contains(err.Error(), "operation not permitted") {
		t.Skip("no user namespaces here: ", err)
	}
	must(t, err)
	if !strings.HasPrefix(found, temporary+"/oneflush-") {
		t.Fatal(found)
	}
}

func TestADirectoryThatIsNotWritableIsAnErrorThatNamesTheFile(t *testing.T) {
	needRoot(t)
	folder := publicFolder(t, 0o755)
	file := filepath.Join(folder, "app.db")
	made, _ := ofStranger(t, "commit "+file+" eager 1")
	_, err := output(made)
	says(t, err, file, "unable to open database file", "ONEFLUSH_LOG=stderr")
	isEmpty(t, folder)
}

func TestALibraryThatIsNamedIsTakenInPlaceOfTheEmbeddedOne(t *testing.T) {
	content, err := library(t).open()
	must(t, err)
	folder := privateFolder(t)
	for _, name := range []string{"liboneflush.so", "oneflush-0.1"} {
		file := filepath.Join(folder, name)
		must(t, os.WriteFile(file, content, 0o755))
		found, err := where(t, libraryVariable+"="+file)
		if name == "oneflush-0.1" {
			// loadAndTell looks for another name.
			says(t, err, "not mapped")
			continue
		}
		must(t, err)
		equal(t, "the library", found, file)
	}
}

func TestANamedLibraryThatDoesNotFitIsRefusedWithTheReason(t *testing.T) {
	content, err := library(t).open()
	must(t, err)
	folder := privateFolder(t)
	file := filepath.Join(folder, "liboneflush.so")
	changed := func(at int, value byte) []byte {
		copied := append([]byte{}, content...)
		copied[at] = value
		return copied
	}
	foreign := map[string]byte{"amd64": 183, "arm64": 62}[runtime.GOARCH]
	names := map[string]string{"amd64": "EM_AARCH64", "arm64": "EM_X86_64"}
	platform, err := platformOfProcess()
	must(t, err)
	for _, of := range []struct {
		content []byte
		mode    os.FileMode
		words   []string
	}{
		{changed(18, foreign), 0o755, []string{names[runtime.GOARCH], platform}},
		{changed(4, 1), 0o755, []string{"ELF"}},
		{[]byte("no library\n"), 0o755, []string{"no ELF library"}},
		{nil, 0o755, []string{"no ELF library"}},
		{content, 0o777, []string{"other users could change it", "0755"}},
	} {
		must(t, os.WriteFile(file, of.content, of.mode))
		must(t, os.Chmod(file, of.mode))
		_, err := where(t, libraryVariable+"="+file)
		says(t, err, append(of.words, libraryVariable+"="+file)...)
	}
	must(t, os.Chmod(file, 0o755))
	must(t, os.Chmod(folder, 0o777))
	_, err = where(t, libraryVariable+"="+file)
	says(t, err, "other users could replace it through "+folder)
	_, err = where(t, libraryVariable+"=/missing/liboneflush.so")
	says(t, err, "/missing/liboneflush.so", "no such file")
}

func TestAVariableThatTheLibraryRefusesIsSaidAsItIsAndNothingElseIsTried(t *testing.T) {
	cache := privateFolder(t)
	_, err := where(t, "XDG_CACHE_HOME="+cache, "ONEFLUSH_STRATEGY=fast")
	says(t, err, "ONEFLUSH_STRATEGY", `"fast"`, "auto, stock, plain, eager")
	if strings.Contains(err.Error(), "TMPDIR") {
		t.Fatal(err)
	}
}
