package oneflush

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"

	"github.com/mattn/go-sqlite3"
)

// Register makes a driver for [sql.Open] whose databases use Oneflush with a strategy.
//
// Register loads the extension, once in a process, and returns the reason where that fails. A
// driver whose extension could not be loaded is registered all the same. Each of its connections
// tries again, and fails for the same reason: none is silently SQLite alone.
func Register(name string, strategy StrategyName, options ...Option) error {
	chosen, err := settingsOf(strategy, options)
	if err != nil {
		return err
	}
	for _, taken := range sql.Drivers() {
		if taken == name {
			return fmt.Errorf("oneflush: a driver of the name %q is registered already", name)
		}
	}
	sql.Register(name, &connector{chosen})
	return load()
}

// A connector opens connections of mattn/go-sqlite3 with the VFS.
type connector struct{ settings settings }

// Open returns a *sqlite3.SQLiteConn.
func (of *connector) Open(dsn string) (driver.Conn, error) {
	to, err := of.settings.targetOf(dsn)
	if err != nil {
		return nil, err
	}
	base := of.settings.base
	if to.hasNoFile {
		return base.Open(dsn)
	}
	if err := load(); err != nil {
		return nil, err
	}
	hook := base.ConnectHook
	base.ConnectHook = func(conn *sqlite3.SQLiteConn) error {
		if !to.namesJournalMode {
			if err := setJournalMode(conn, to.strategy); err != nil {
				return err
			}
		}
		if hook != nil {
			return hook(conn)
		}
		return nil
	}
	conn, err := base.Open(to.dsn)
	if err != nil {
		return nil, explained(to.name, err)
	}
	return conn, nil
}

// explained says where the reason is. SQLite's words for an open that the VFS refuses are always
// the same.
func explained(name string, err error) error {
	if !isRefusedOpen(err) {
		return fmt.Errorf("oneflush: %s: %w", name, err)
	}
	where := "run the program with ONEFLUSH_LOG=stderr to see the reason"
	if log := os.Getenv("ONEFLUSH_LOG"); log != "" && log != "off" {
		where = "the reason is in the messages, for which ONEFLUSH_LOG says " + log
	}
	return fmt.Errorf("oneflush: %s: %w; %s (docs/errors.md has them all)", name, err, where)
}
