// modzip FOLDER VERSION OUT: makes OUT/MODULE/@v/ of a module in FOLDER: the files that a proxy of
// Go modules serves for a version (https://go.dev/ref/mod#goproxy-protocol). OUT is then a proxy:
// GOPROXY=file://OUT. The same files give the same bytes.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// The zip has no times. The protocol wants one for the version: SOURCE_DATE_EPOCH, or this one.
const epoch = 315532800 // 1980-01-01

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: modzip FOLDER VERSION OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "modzip:", err)
		os.Exit(1)
	}
}

func run(folder, version, out string) error {
	source, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	file, err := modfile.Parse("go.mod", source, nil)
	if err != nil {
		return err
	}
	if file.Module == nil || len(file.Replace) > 0 {
		return fmt.Errorf("%s: go.mod needs a module line, and must have no replace", folder)
	}
	made := module.Version{Path: file.Module.Mod.Path, Version: version}
	var archive bytes.Buffer
	if err := zip.CreateFromDir(&archive, made, folder); err != nil {
		return err
	}
	seconds := int64(epoch)
	if given := os.Getenv("SOURCE_DATE_EPOCH"); given != "" {
		if seconds, err = strconv.ParseInt(given, 10, 64); err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Unix(seconds, 0).UTC()})
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(made.Path)
	if err != nil {
		return err
	}
	place := filepath.Join(out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(place, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": append(info, '\n'),
		version + ".mod":  source,
		version + ".zip":  archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(place, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
