//go:build cgo && linux

package oneflush

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-sqlite3"
)

func TestEachStrategyIsInForceWithItsJournalModeAndItsCommitsAreThere(t *testing.T) {
	ctx := context.Background()
	for _, of := range []struct {
		strategy       StrategyName
		mode, answered string
	}{
		{Auto, "delete", "stock"},
		{Stock, "delete", "stock"},
		{Plain, "wal", "plain"},
		{Eager, "wal", "eager"},
		{Waldio, "wal", "waldio"},
		{MAW, "delete", "maw"},
	} {
		t.Run(string(of.strategy), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app.db")
			driver := driverName(t, of.strategy)
			db := open(t, driver, file)
			equal(t, "journal_mode", text(t, db, "PRAGMA journal_mode"), of.mode)
			equal(t, "synchronous", text(t, db, "PRAGMA synchronous"), "2")
			found, err := Strategy(ctx, db)
			if err != nil {
				t.Fatal(err)
			}
			if of.strategy != Auto {
				equal(t, "strategy", found, of.answered)
			}
			if _, err := db.Exec("CREATE TABLE item(n)"); err != nil {
				t.Fatal(err)
			}
			before, err := Stats(ctx, db)
			if err != nil {
				t.Fatal(err)
			}
			for n := 0; n < 100; n++ {
				if _, err := db.Exec("INSERT INTO item VALUES(?)", n); err != nil {
					t.Fatal(err)
				}
			}
			after, err := Stats(ctx, db)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "commits", after.Commits.Count-before.Commits.Count, int64(100))
			equal(t, "the database of the statistics", after.Database, file)
			if !strings.Contains(string(after.JSON), `"rollback_journal"`) {
				t.Fatalf("the JSON lacks the files: %s", after.JSON)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			alone := open(t, "sqlite3", file)
			equal(t, "rows for SQLite alone", text(t, alone, "SELECT count(*) FROM item"), "100")
			equal(t, "integrity_check", text(t, alone, "PRAGMA integrity_check"), "ok")
		})
	}
}

func TestWhatTheDSNSaysOfJournalModeAndSyncIsKept(t *testing.T) {
	driver := driverName(t, Eager)
	for query, expected := range map[string]string{
		"?_journal_mode=DELETE": "delete, 2, eager (inactive: journal_mode=delete)",
		"?_journal=PERSIST":     "persist, 2, eager (inactive: journal_mode=persist)",
		"?_sync=NORMAL":         "wal, 1, eager",
		"?_synchronous=EXTRA":   "wal, 3, eager",
		"?strategy=plain":       "wal, 2, plain",
		"?strategy=maw":         "delete, 2, maw",
	} {
		db := open(t, driver, filepath.Join(t.TempDir(), "app.db")+query)
		strategy, err := Strategy(context.Background(), db)
		if err != nil {
			t.Fatal(err)
		}
		found := text(t, db, "PRAGMA journal_mode") + ", " + text(t, db, "PRAGMA synchronous")
		equal(t, query, found+", "+strategy, expected)
	}
}

func TestMAWTakesADatabaseOutOfWALMode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	plain := open(t, driverName(t, Plain), file)
	equal(t, "journal_mode", text(t, plain, "PRAGMA journal_mode"), "wal")
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	maw := open(t, driverName(t, MAW), file)
	equal(t, "journal_mode", text(t, maw, "PRAGMA journal_mode"), "delete")
}

func TestAJournalModeThatOthersHoldIsAnErrorThatNamesTheWayOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	alone := open(t, "sqlite3", file)
	alone.SetMaxOpenConns(1)
	for _, statement := range []string{"CREATE TABLE item(n)", "BEGIN", "SELECT * FROM item"} {
		if _, err := alone.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := alone.Query("SELECT count(*) FROM item")
	if err != nil || !rows.Next() {
		t.Fatal("the other one does not read", err)
	}
	db := open(t, driverName(t, Plain), file+"?_busy_timeout=50")
	err = db.Ping()
	says(t, err, file, "journal_mode=WAL", "locked", "_journal_mode")
	var code sqlite3.Error
	if !errors.As(err, &code) || code.Code != sqlite3.ErrBusy {
		t.Fatalf("the error of mattn/go-sqlite3 is not in it: %#v", err)
	}
	rows.Close()
	if _, err := alone.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	equal(t, "journal_mode", text(t, db, "PRAGMA journal_mode"), "wal")
}

func TestADatabaseThatMayOnlyBeReadStaysAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	alone := open(t, "sqlite3", file)
	if _, err := alone.Exec("CREATE TABLE item(n)"); err != nil {
		t.Fatal(err)
	}
	db := open(t, driverName(t, Plain), "file:"+file+"?mode=ro")
	equal(t, "rows", text(t, db, "SELECT count(*) FROM item"), "0")
	equal(t, "journal_mode", text(t, db, "PRAGMA journal_mode"), "delete")
}

func TestADatabaseInMemoryAndATemporaryOneHaveNoStrategy(t *testing.T) {
	driver := driverName(t, Eager)
	for _, dsn := range []string{":memory:", "", "file::memory:", "file:x?mode=memory&cache=shared"} {
		db := open(t, driver, dsn)
		if _, err := db.Exec("CREATE TABLE item(n)"); err != nil {
			t.Fatalf("%q: %v", dsn, err)
		}
		if _, err := Strategy(context.Background(), db); !errors.Is(err, ErrNotOneflush) {
			t.Fatalf("%q: %v", dsn, err)
		}
	}
}

func TestNamesAreTakenAsTheyAre(t *testing.T) {
	driver := driverName(t, Plain)
	for _, name := range []string{"50%", "a b", "a#b", "a&b", "ü.db", "a%20b"} {
		folder := t.TempDir()
		db := open(t, driver, filepath.Join(folder, name))
		if _, err := db.Exec("CREATE TABLE item(n)"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	double := "/" + filepath.Join(t.TempDir(), "app.db")
	if err := open(t, driver, double).Ping(); err != nil {
		t.Fatalf("%s: %v", double, err)
	}
}

func TestARefusedOpenNamesTheFileAndWhereTheReasonIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	t.Setenv("ONEFLUSH_LOG", "")
	driver := driverName(t, Plain)
	err := open(t, driver, file+"?durability=ful").Ping()
	says(t, err, file, "unable to open database file", "ONEFLUSH_LOG=stderr", "docs/errors.md")
	t.Setenv("ONEFLUSH_LOG", "/var/log/of.log")
	missing := filepath.Join(t.TempDir(), "missing", "app.db")
	says(t, open(t, driver, missing).Ping(), missing, "/var/log/of.log")
	if _, err := os.Stat(file); err == nil {
		t.Fatal("the refused open left a file")
	}
}

func TestTheBaseDriversHookAndFunctionsAreThere(t *testing.T) {
	hooked := 0
	base := sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		hooked++
		return conn.RegisterFunc("twice", func(n int64) int64 { return 2 * n }, true)
	}}
	db := open(t, driverName(t, Plain, Base(base)), filepath.Join(t.TempDir(), "app.db"))
	equal(t, "twice(21)", text(t, db, "SELECT twice(21)"), "42")
	equal(t, "journal_mode", text(t, db, "PRAGMA journal_mode"), "wal")
	equal(t, "hooks", hooked, 1)

	failing := sqlite3.SQLiteDriver{ConnectHook: func(*sqlite3.SQLiteConn) error {
		return fmt.Errorf("no hook today")
	}}
	db = open(t, driverName(t, Plain, Base(failing)), filepath.Join(t.TempDir(), "app.db"))
	says(t, db.Ping(), "no hook today")
}

func TestANameThatIsTakenIsAnErrorAndNoPanic(t *testing.T) {
	says(t, Register("sqlite3", Plain), `"sqlite3"`, "already")
}

func TestLoadServesDatabasesThatAreOpenedAfterwards(t *testing.T) {
	name := fmt.Sprintf("sqlite3_own_%d", drivers.Add(1))
	sql.Register(name, &sqlite3.SQLiteDriver{ConnectHook: Load})
	first := open(t, name, ":memory:")
	if err := first.Ping(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "app.db")
	db := open(t, name, "file:"+file+"?vfs=oneflush&strategy=eager&_journal_mode=WAL")
	found, err := Strategy(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "strategy", found, "eager")
}

func TestACheckpointCopiesTheWAL(t *testing.T) {
	db := open(t, driverName(t, Plain), filepath.Join(t.TempDir(), "app.db"))
	if _, err := db.Exec("CREATE TABLE item(n)"); err != nil {
		t.Fatal(err)
	}
	done, err := Checkpoint(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	if done.HeldUp || done.WALFrames == 0 || done.CopiedFrames != done.WALFrames {
		t.Fatalf("%+v", done)
	}
	_, err = Checkpoint(context.Background(), open(t, "sqlite3", ":memory:"))
	if !errors.Is(err, ErrNotOneflush) {
		t.Fatal(err)
	}
}
