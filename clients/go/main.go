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
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/mattn/go-sqlite3"
)

const (
	rows        = 20
	connections = 4
	summary     = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)"
)

// Numbers of PRAGMA oneflush_stats. `files` counts what SQLite writes, wherever the strategy puts it.
const (
	wal     = "files.wal.write_bytes"
	journal = "files.rollback_journal.write_bytes"
)

type round struct {
	strategy, mode string
	grows, stays   string // numbers of PRAGMA oneflush_stats
	files          string // beside the open database
	atomic         string // the provider of maw
}

var rounds = []round{
	{"stock", "wal", wal, journal, "-shm -wal", "log"},
	{"stock", "delete", journal, wal, "-journal", "log"},
	{"eager", "wal", "eager.log.logged_bytes", journal, "-oneflush -oneflush-shm -oneflush-wal -shm", "log"},
	{"waldio", "wal", wal, journal, "-oneflush-shm -shm -waldio", "log"},
	{"maw", "delete", "maw.log.logged_bytes", "maw.ordinary", "-maw -oneflush-shm", "log"},
}

// The last one with F2FS's atomic write, where CLIENT_F2FS says that the folder is on F2FS. Two numbers stay.
var f2fsRound = round{"maw", "delete", "maw.atomic", "maw.ordinary maw.log.logged_bytes", "", "f2fs"}

type stats map[string]any

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

func (read stats) number(path string) int {
	var part any = map[string]any(read)
	for _, name := range strings.Split(path, ".") {
		part = part.(map[string]any)[name]
	}
	return int(part.(float64))
}

func beside(file string) string {
	names, err := filepath.Glob(file + "-*")
	fail("files", err)
	for at := range names {
		names[at] = strings.TrimPrefix(names[at], file)
	}
	return strings.Join(names, " ")
}

// plainSQLite is another process, which never heard of Oneflush.
func plainSQLite(file string) string {
	query := "PRAGMA oneflush_strategy; " + summary + "; PRAGMA integrity_check"
	output, err := exec.Command(os.Getenv("SQLITE3"), "-batch", file, query).CombinedOutput()
	if err != nil {
		return string(output) + err.Error()
	}
	return string(output)
}

// open is told to ask for a log also on F2FS, where maw would need none; the other strategies do not care.
func open(file, strategy, atomic string) *sql.DB {
	options := "vfs=oneflush&_busy_timeout=20000&_synchronous=FULL&atomic=" + atomic + "&strategy=" + strategy
	db, err := sql.Open("sqlite3_oneflush", "file:"+file+"?"+options)
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
	check("connections counted", read(db).number("connections"), connections+1)
	for _, conn := range pool {
		fail("close", conn.Close())
	}
}

func writeAndRead(r round, expected string) {
	fmt.Printf("%s, journal_mode=%s, atomic=%s\n", r.strategy, r.mode, r.atomic)
	file := r.strategy + "-" + r.mode + "-" + r.atomic + ".db"
	db := open(file, r.strategy, r.atomic)
	check("PRAGMA journal_mode", text(db, "PRAGMA journal_mode="+r.mode), r.mode)
	check("PRAGMA oneflush_strategy", text(db, "PRAGMA oneflush_strategy"), r.strategy)
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
	check("files beside the open database", beside(file), r.files)
	meanwhile, answer := "file is not a database", plainSQLite(file)
	if r.strategy == "stock" || r.atomic == "f2fs" {
		meanwhile = expected
	}
	check(meanwhile+" from plain SQLite meanwhile: "+answer, strings.Contains(answer, meanwhile), true)
	fail("ROLLBACK", tx.Rollback())
	after := read(db)
	check("commits counted", after.number("commits.count")-before.number("commits.count"), rows)
	for _, path := range append(strings.Fields(r.stays), r.grows) {
		check("growth of "+path, after.number(path) > before.number(path), path == r.grows)
	}
	check("rows", text(db, summary), expected)
	fail("close", db.Close())

	db = open(file, r.strategy, r.atomic)
	check("strategy after the reopen", text(db, "PRAGMA oneflush_strategy"), r.strategy)
	check("journal mode after the reopen", text(db, "PRAGMA journal_mode"), r.mode)
	check("rows after the reopen", text(db, summary), expected)
	check("PRAGMA integrity_check", text(db, "PRAGMA integrity_check"), "ok")
	fail("close", db.Close())

	check("files beside the closed database", beside(file), "")
	check("plain SQLite", plainSQLite(file), expected+"\nok\n")
}

func refuseUnknownStrategy() {
	err := open("refused.db", "nonsense", "log").Ping()
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
	if os.Getenv("CLIENT_F2FS") != "" {
		rounds = append(rounds, f2fsRound)
	}
	for _, r := range rounds {
		writeAndRead(r, fmt.Sprintf("%d:%s", rows, strings.Join(words, ",")))
	}
	refuseUnknownStrategy()

	version, _, _ := sqlite3.Version()
	driver := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok && len(build.Deps) > 0 {
		driver = strings.TrimPrefix(build.Deps[0].Version, "v")
	}
	fmt.Printf("go: ok (SQLite %s, mattn/go-sqlite3 %s)\n", version, driver)
}
