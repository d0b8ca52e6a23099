// mattn/go-sqlite3 under database/sql: a driver of our own with the extension in Extensions.
//
// The pool opens connections when it likes, and the driver loads the extension into each (again and again: that must
// do no harm). It loads it after the open, so the VFS is there only from the second connection of the process on:
// the first one is opened in memory. Extensions passes no entry point, so SQLite derives sqlite3_oneflush_init from
// the file's name; a library of another name needs SQLiteConn.LoadExtension(path, "sqlite3_oneflush_init") in a
// ConnectHook instead (an empty entry point is not "none" there).
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"

	"github.com/mattn/go-sqlite3"
)

const (
	rows        = 20
	connections = 4
	summary     = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)"
)

var journals = map[string]string{"wal": "wal", "delete": "rollback_journal"}

type stats struct {
	Connections int
	Commits     struct{ Count int }
	Files       map[string]struct {
		WriteBytes int `json:"write_bytes"`
	}
}

func fail(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "go: %s: %v\n", what, err)
		os.Exit(1)
	}
}

func check(what string, found, expected any) {
	if found != expected {
		fail(what, fmt.Errorf("%q instead of %q", fmt.Sprint(found), fmt.Sprint(expected)))
	}
}

func text(db *sql.DB, query string) (value string) {
	fail(query, db.QueryRow(query).Scan(&value))
	return value
}

func read(db *sql.DB) (read stats) {
	fail("the JSON of PRAGMA oneflush_stats", json.Unmarshal([]byte(text(db, "PRAGMA oneflush_stats")), &read))
	return read
}

func open(file, options string) *sql.DB {
	db, err := sql.Open("sqlite3_oneflush", "file:"+file+"?vfs=oneflush&_busy_timeout=20000&_synchronous=FULL&"+options)
	fail(file, err)
	return db
}

// insertFromPool writes the rows from several connections at once.
func insertFromPool(db *sql.DB) {
	ctx := context.Background()
	done := make(chan error)
	pool := make([]*sql.Conn, connections)
	for at := range pool {
		conn, err := db.Conn(ctx)
		fail("a connection of the pool", err)
		pool[at] = conn
	}
	for at, conn := range pool {
		at, conn := at, conn
		go func() {
			var err error
			for n := at + 1; n <= rows && err == nil; n += connections {
				_, err = conn.ExecContext(ctx, "INSERT INTO item VALUES(?, ?)", n, fmt.Sprintf("word %d", n))
			}
			done <- err
		}()
	}
	for range pool {
		fail("insert", <-done)
	}
	check("connections counted", read(db).Connections, connections+1)
	for _, conn := range pool {
		fail("close", conn.Close())
	}
}

func writeAndRead(mode, expected string) {
	file := mode + ".db"
	db := open(file, "strategy=stock")
	check("PRAGMA oneflush_strategy", text(db, "PRAGMA oneflush_strategy"), "stock")
	check("PRAGMA journal_mode", text(db, "PRAGMA journal_mode="+mode), mode)
	_, err := db.Exec("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")
	fail("CREATE TABLE", err)

	before := read(db)
	insertFromPool(db)
	tx, err := db.Begin()
	fail("BEGIN", err)
	_, err = tx.Exec("INSERT INTO item VALUES(99, 'rolled back')")
	fail("insert before the rollback", err)
	var count int
	fail("count before the rollback", tx.QueryRow("SELECT count(*) FROM item").Scan(&count))
	check("rows before the rollback", count, rows+1)
	fail("ROLLBACK", tx.Rollback())
	after := read(db)
	check("commits counted", after.Commits.Count-before.Commits.Count, rows)
	for _, role := range journals {
		written := after.Files[role].WriteBytes - before.Files[role].WriteBytes
		check(mode+": bytes counted for "+role, written > 0, role == journals[mode])
	}
	check("rows", text(db, summary), expected)
	fail("close", db.Close())

	db = open(file, "strategy=stock")
	check("strategy after the reopen", text(db, "PRAGMA oneflush_strategy"), "stock")
	check("journal mode after the reopen", text(db, "PRAGMA journal_mode"), mode)
	check("rows after the reopen", text(db, summary), expected)
	check("PRAGMA integrity_check", text(db, "PRAGMA integrity_check"), "ok")
	fail("close", db.Close())

	// Another process, which never heard of Oneflush.
	query := "PRAGMA oneflush_strategy; " + summary + "; PRAGMA integrity_check"
	plain, err := exec.Command(os.Getenv("SQLITE3"), "-batch", file, query).CombinedOutput()
	fail("plain SQLite: "+string(plain), err)
	check("plain SQLite", string(plain), expected+"\nok\n")
}

func refuseUnknownStrategy() {
	err := open("refused.db", "strategy=nonsense").Ping()
	if err == nil || !strings.Contains(err.Error(), "unable to open database file") {
		fail("an unknown strategy", fmt.Errorf("not refused as it should be: %v", err))
	}
	if _, err := os.Stat("refused.db"); err == nil {
		fail("an unknown strategy", fmt.Errorf("the refused open left a file"))
	}
}

func main() {
	sql.Register("sqlite3_oneflush", &sqlite3.SQLiteDriver{Extensions: []string{os.Getenv("ONEFLUSH_EXTENSION_PATH")}})
	loader, err := sql.Open("sqlite3_oneflush", ":memory:")
	fail(":memory:", err)
	fail("the first connection, which loads the extension", loader.Ping())
	fail("close", loader.Close())

	words := make([]string, rows)
	for at := range words {
		words[at] = fmt.Sprintf("word %d", at+1)
	}
	for mode := range journals {
		writeAndRead(mode, fmt.Sprintf("%d:%s", rows, strings.Join(words, ",")))
	}
	refuseUnknownStrategy()

	version, _, _ := sqlite3.Version()
	driver := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok && len(build.Deps) > 0 {
		driver = strings.TrimPrefix(build.Deps[0].Version, "v")
	}
	fmt.Printf("go: ok (SQLite %s, mattn/go-sqlite3 %s)\n", version, driver)
}
