//go:build cgo

package oneflush

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"
)

// SQLite derives the entry point's name from the file's. A file that ONEFLUSH_LIBRARY names may
// have any name.
const entryPoint = "sqlite3_oneflush_init"

var errOmitted = errors.New("oneflush: this program was built with the tag " +
	"sqlite_omit_load_extension, so its SQLite cannot load an extension; build it without the tag")

var loaded struct {
	sync.Mutex
	done bool
}

// Load loads the extension into SQLite by an open connection of mattn/go-sqlite3, for programs with
// a driver of their own. The extension then serves the databases that are opened afterwards, on any
// connection, by a DSN such as "file:app.db?vfs=oneflush&strategy=eager". This connection itself
// stays on the VFS that it has. The first call of a process loads; later ones do nothing.
func Load(conn *sqlite3.SQLiteConn) error {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.done {
		return nil
	}
	if isOmitted {
		return errOmitted
	}
	err := withLibrary(func(path string) error {
		// SQLite tries the name as it is, and then with ".so". Its message is of the last attempt.
		return conn.LoadExtension(strings.TrimSuffix(path, ".so"), entryPoint)
	})
	loaded.done = err == nil
	return err
}

// load does the same by a connection of its own.
func load() error {
	opened, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return fmt.Errorf("oneflush: a connection to load the extension: %w", err)
	}
	defer opened.Close()
	return Load(opened.(*sqlite3.SQLiteConn))
}
