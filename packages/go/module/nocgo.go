//go:build !cgo

package oneflush

import (
	"errors"

	"github.com/mattn/go-sqlite3"
)

var errNoCgo = errors.New("oneflush: this program was built with CGO_ENABLED=0, and an extension " +
	"needs mattn/go-sqlite3, which needs cgo; build it with CGO_ENABLED=1 and a C compiler")

// Load returns an error: without cgo there is no SQLite to load an extension into.
func Load(*sqlite3.SQLiteConn) error { return errNoCgo }

func load() error { return errNoCgo }

func setJournalMode(*sqlite3.SQLiteConn, StrategyName) error { return errNoCgo }

func isRefusedOpen(error) bool { return false }
