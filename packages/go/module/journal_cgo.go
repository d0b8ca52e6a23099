//go:build cgo

package oneflush

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"
)

// How long to wait between two attempts to change the journal mode. SQLite calls no busy handler
// for that lock, and the others that change it need a few milliseconds.
const journalModePause = 5 * time.Millisecond

// setJournalMode brings a database into the journal mode in which the strategy acts. A database
// that may only be read stays as it is.
func setJournalMode(conn *sqlite3.SQLiteConn, strategy StrategyName) error {
	wanted := strategy.journalMode()
	if wanted == "" {
		return nil
	}
	mode, err := value(conn, "PRAGMA journal_mode")
	if err != nil || mode == "memory" || (mode == "wal") == (wanted == "wal") {
		return err
	}
	timeout, err := value(conn, "PRAGMA busy_timeout")
	if err != nil {
		return err
	}
	deadline := time.Now()
	if wait, ok := timeout.(int64); ok {
		deadline = deadline.Add(time.Duration(wait) * time.Millisecond)
	}
	for {
		found, err := value(conn, "PRAGMA journal_mode="+wanted)
		code := errorCode(err)
		if code == sqlite3.ErrReadonly {
			return nil
		}
		if isBusy := code == sqlite3.ErrBusy || code == sqlite3.ErrLocked; isBusy &&
			time.Now().Before(deadline) {
			time.Sleep(journalModePause)
			continue
		}
		if err == nil && found != wanted {
			err = fmt.Errorf("SQLite leaves it at %v", found)
		}
		if err != nil {
			return fmt.Errorf("strategy %s acts in journal_mode=%s, and the database cannot be "+
				"brought there: %w; close it elsewhere, or say with _journal_mode in the DSN "+
				"which mode it keeps", strategy, strings.ToUpper(wanted), err)
		}
		return nil
	}
}

// value is the first value of the only row.
func value(conn *sqlite3.SQLiteConn, query string) (driver.Value, error) {
	rows, err := conn.Query(query, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(row); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(row) == 0 {
		return nil, nil
	}
	return row[0], nil
}

// errorCode is 0 where the error is none of SQLite's.
func errorCode(err error) sqlite3.ErrNo {
	var found sqlite3.Error
	if errors.As(err, &found) {
		return found.Code
	}
	return 0
}

func isRefusedOpen(err error) bool {
	return errorCode(err) == sqlite3.ErrCantOpen
}
