// app DATABASE STRATEGY ROWS: a user's program. It commits ROWS rows, each by itself, and prints
// "committed N" when row N is acknowledged. Then it prints what is there.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"

	"github.com/oneflush/oneflush-go"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: app DATABASE STRATEGY ROWS")
		os.Exit(2)
	}
	if err := run(os.Args[1], oneflush.StrategyName(os.Args[2]), os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file string, strategy oneflush.StrategyName, rows string) error {
	count, err := strconv.Atoi(rows)
	if err != nil {
		return err
	}
	if err := oneflush.Register("sqlite3_oneflush", strategy); err != nil {
		return err
	}
	db, err := sql.Open("sqlite3_oneflush", file)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS item(n INTEGER PRIMARY KEY)"); err != nil {
		return err
	}
	for n := 0; n < count; n++ {
		done, err := db.Exec("INSERT INTO item DEFAULT VALUES")
		if err != nil {
			return err
		}
		id, err := done.LastInsertId()
		if err != nil {
			return err
		}
		fmt.Println("committed", id)
	}
	answered, err := oneflush.Strategy(context.Background(), db)
	if err != nil {
		return err
	}
	var found int
	var integrity string
	if err := db.QueryRow("SELECT count(*) FROM item").Scan(&found); err != nil {
		return err
	}
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&integrity); err != nil {
		return err
	}
	fmt.Printf("strategy %s\nrows %d\nintegrity %s\n", answered, found, integrity)
	return db.Close()
}
