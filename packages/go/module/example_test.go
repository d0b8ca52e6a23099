//go:build cgo && linux

package oneflush_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"

	"github.com/oneflush/oneflush-go"
)

func Example() {
	if err := oneflush.Register("sqlite3_oneflush", oneflush.Plain); err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite3_oneflush", filepath.Join(folder(), "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE item(word TEXT)"); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO item VALUES ('kept')"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(oneflush.Strategy(context.Background(), db))
	// Output: plain <nil>
}

func ExampleRegister() {
	err := oneflush.Register("sqlite3_eager", oneflush.Eager,
		oneflush.Durability("full"), oneflush.LogSize(16<<20))
	if err != nil {
		log.Fatal(err)
	}
	dsn := filepath.Join(folder(), "app.db") + "?_busy_timeout=10000&_txlock=immediate"
	db, err := sql.Open("sqlite3_eager", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fmt.Println(oneflush.Strategy(context.Background(), db))
	// Output: eager <nil>
}

func ExampleRegister_unknown() {
	fmt.Println(oneflush.Register("sqlite3_fast", "fast"))
	// Output:
	// oneflush: strategy "fast" is not known; allowed: auto, stock, plain, eager, waldio, maw
}

func ExampleBase() {
	base := sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		return conn.RegisterFunc("half", func(n int64) int64 { return n / 2 }, true)
	}}
	if err := oneflush.Register("sqlite3_half", oneflush.Plain, oneflush.Base(base)); err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite3_half", filepath.Join(folder(), "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var half int
	fmt.Println(db.QueryRow("SELECT half(84)").Scan(&half), half)
	// Output: <nil> 42
}

func ExampleLoad() {
	sql.Register("sqlite3_own", &sqlite3.SQLiteDriver{ConnectHook: oneflush.Load})
	first, err := sql.Open("sqlite3_own", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Ping(); err != nil { // loads, for all that is opened from here on
		log.Fatal(err)
	}
	file := filepath.Join(folder(), "app.db")
	db, err := sql.Open("sqlite3_own", "file:"+file+"?vfs=oneflush&_journal_mode=WAL&_sync=FULL")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fmt.Println(oneflush.Strategy(context.Background(), db))
	// Output: plain <nil>
}

func ExampleStats() {
	if err := oneflush.Register("sqlite3_stats", oneflush.Eager); err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite3_stats", filepath.Join(folder(), "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE item(word TEXT)"); err != nil {
		log.Fatal(err)
	}
	stats, err := oneflush.Stats(context.Background(), db)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Strategy, stats.Active, stats.Commits.Count > 0)
	done, err := oneflush.Checkpoint(context.Background(), db)
	fmt.Println(done.HeldUp, err)
	// Output:
	// eager true true
	// false <nil>
}

// folder is of this example, and stays until the system removes temporary files.
func folder() string {
	made, err := os.MkdirTemp("", "oneflush-example-")
	if err != nil {
		log.Fatal(err)
	}
	return made
}
