package oneflush

import (
	"fmt"
	"os"
	"strings"
)

// The variable that names a library in place of the one that is in the program.
const libraryVariable = "ONEFLUSH_LIBRARY"

// What SQLite says where the library could be opened and its entry point refused.
const fromEntryPoint = "error during initialization"

// withLibrary calls load with the path of the library. The file is in the first of these places
// that will do:
//
//  1. where ONEFLUSH_LIBRARY says;
//  2. in the user's cache, where it stays for the next process;
//  3. in a folder for temporary files, and only until it is loaded.
func withLibrary(load func(path string) error) error {
	platform, err := platformOfProcess()
	if err != nil {
		return err
	}
	if named := os.Getenv(libraryVariable); named != "" {
		return loadNamed(named, platform, load)
	}
	library, err := embeddedLibrary(platform)
	if err != nil {
		return err
	}
	var refusals []string
	for _, place := range []func(image) (placed, error){inCache, inTemporary} {
		file, err := place(library)
		if err == nil {
			err = load(file.path)
			file.leave()
		}
		if err == nil || strings.Contains(err.Error(), fromEntryPoint) {
			return err
		}
		refusals = append(refusals, err.Error())
	}
	return fmt.Errorf("oneflush: the library has no place from which it can be loaded: %s; set "+
		"TMPDIR to a folder of this user on a file system that is not mounted noexec, or %s to an "+
		"installed liboneflush.so", strings.Join(refusals, "; "), libraryVariable)
}

func loadNamed(named, platform string, load func(path string) error) error {
	path, err := realPath(named)
	if err == nil {
		err = checkMachine(path, platform)
	}
	if err == nil {
		err = checkOnlyWeWrite(path)
	}
	if err == nil {
		err = load(path)
	}
	if err != nil {
		return fmt.Errorf("oneflush: %s=%s: %w", libraryVariable, named, err)
	}
	return nil
}

// An image is the library as it is in this program: its sum, and how to unpack it.
type image struct {
	platform string
	sha256   string
	open     func() ([]byte, error)
}
