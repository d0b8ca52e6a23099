package frameworks

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"
	"github.com/oneflush/oneflush-go"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

const driver = "sqlite3_oneflush"

const writers, rows = 4, 25

func TestMain(m *testing.M) {
	if err := oneflush.Register(driver, oneflush.Eager); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dsn(t *testing.T) string {
	return filepath.Join(t.TempDir(), "app.db") + "?_busy_timeout=30000&_txlock=immediate"
}

// allAtOnce calls insert from several goroutines.
func allAtOnce(t *testing.T, insert func(word string) error) {
	t.Helper()
	var all sync.WaitGroup
	failures := make(chan error, writers)
	for writer := 0; writer < writers; writer++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := 0; n < rows; n++ {
				if err := insert(fmt.Sprintf("word %d of %d", n, writer)); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	all.Wait()
	close(failures)
	for err := range failures {
		t.Fatal(err)
	}
}

// isEager looks at the pool under a framework: strategy, rows and soundness.
func isEager(t *testing.T, db *sql.DB, table string) {
	t.Helper()
	found, err := oneflush.Strategy(context.Background(), db)
	must(t, err)
	if found != "eager" {
		t.Fatalf("strategy %s", found)
	}
	var count int
	must(t, db.QueryRow("SELECT count(DISTINCT word) FROM "+table).Scan(&count))
	if count != writers*rows {
		t.Fatalf("%d rows in place of %d", count, writers*rows)
	}
	var answer string
	must(t, db.QueryRow("PRAGMA integrity_check").Scan(&answer))
	if answer != "ok" {
		t.Fatal(answer)
	}
	must(t, db.Close())
}

type Item struct {
	ID   uint
	Word string `gorm:"uniqueIndex"`
}

func TestGORM(t *testing.T) {
	db, err := gorm.Open(sqlite.New(sqlite.Config{DriverName: driver, DSN: dsn(t)}), &gorm.Config{
		Logger: logger.Default.LogMode(logger.Silent), TranslateError: true,
	})
	must(t, err)
	must(t, db.AutoMigrate(&Item{}))
	allAtOnce(t, func(word string) error {
		return db.Transaction(func(tx *gorm.DB) error {
			return tx.Create(&Item{Word: word}).Error
		})
	})
	twice := db.Create(&Item{Word: "word 0 of 0"}).Error
	if twice != gorm.ErrDuplicatedKey {
		t.Fatalf("the driver's errors are not translated: %v", twice)
	}
	pool, err := db.DB()
	must(t, err)
	isEager(t, pool, "items")
}

func TestSqlx(t *testing.T) {
	sqlx.BindDriver(driver, sqlx.QUESTION)
	db, err := sqlx.Connect(driver, dsn(t))
	must(t, err)
	db.MustExec("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT UNIQUE)")
	allAtOnce(t, func(word string) error {
		tx, err := db.Beginx()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		item := map[string]any{"word": word}
		if _, err := tx.NamedExec("INSERT INTO item(word) VALUES(:word)", item); err != nil {
			return err
		}
		return tx.Commit()
	})
	var item Item
	must(t, db.Get(&item, db.Rebind("SELECT * FROM item WHERE word=?"), "word 0 of 0"))
	isEager(t, db.DB, "item")
}

// Clients that ent generates are made with such a driver: NewClient(Driver(driver)).
func TestEnt(t *testing.T) {
	pool, err := sql.Open(driver, dsn(t))
	must(t, err)
	ent := entsql.OpenDB(dialect.SQLite, pool)
	ctx := context.Background()
	const create = "CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT UNIQUE)"
	must(t, ent.Exec(ctx, create, []any{}, nil))
	allAtOnce(t, func(word string) error {
		tx, err := ent.Tx(ctx)
		if err != nil {
			return err
		}
		query, arguments := entsql.Dialect(dialect.SQLite).
			Insert("item").Columns("word").Values(word).Query()
		if err := tx.Exec(ctx, query, arguments, nil); err != nil {
			tx.Rollback()
			return err
		}
		return tx.Commit()
	})
	isEager(t, ent.DB(), "item")
}
