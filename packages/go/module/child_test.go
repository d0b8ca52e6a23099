//go:build cgo && linux

package oneflush

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// What happens once in a process, or ends one, is done by a child: this program again, with a task
// in its environment.
const taskVariable = "ONEFLUSH_TEST_CHILD"

const testDriver = "sqlite3_oneflush_test"

var tasks = map[string]func(arguments []string) error{
	"load":   func([]string) error { return loadAndTell() },
	"commit": func(a []string) error { return commit(a[0], StrategyName(a[1]), a[2]) },
}

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(taskVariable))
	if len(words) == 0 {
		os.Exit(m.Run())
	}
	if err := tasks[words[0]](words[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// loadAndTell prints the file from which the library is mapped.
func loadAndTell() error {
	if err := load(); err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(maps), "\n") {
		if fields := strings.Fields(line); len(fields) > 5 && strings.HasPrefix(
			filepath.Base(fields[5]), "liboneflush") {
			fmt.Println(strings.Join(fields[5:], " "))
			return nil
		}
	}
	return fmt.Errorf("the library is not mapped")
}

// commit commits rows, and prints the number of each when it is acknowledged. It goes on for ever
// with "0" rows.
func commit(file string, strategy StrategyName, rows string) error {
	if err := Register(testDriver, strategy); err != nil {
		return err
	}
	db, err := sql.Open(testDriver, file+"?_busy_timeout=30000")
	if err != nil {
		return err
	}
	defer db.Close()
	const create = "CREATE TABLE IF NOT EXISTS item(id INTEGER PRIMARY KEY, word TEXT)"
	if _, err := db.Exec(create); err != nil {
		return err
	}
	last, err := strconv.Atoi(rows)
	if err != nil {
		return err
	}
	for n := 1; last == 0 || n <= last; n++ {
		done, err := db.Exec("INSERT INTO item(word) VALUES(?)", fmt.Sprintf("word %d", n))
		if err != nil {
			return err
		}
		id, err := done.LastInsertId()
		if err != nil {
			return err
		}
		fmt.Println(id)
	}
	return db.Close()
}

// child is this program with a task. It has a cache of its own, and no variable of Oneflush.
func child(t *testing.T, task string, environment ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	made := exec.Command(program)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ONEFLUSH_") {
			made.Env = append(made.Env, variable)
		}
	}
	made.Env = append(made.Env, taskVariable+"="+task)
	made.Env = append(made.Env, environment...)
	return made
}

var drivers atomic.Int64

// driverName registers a driver for a test.
func driverName(t *testing.T, strategy StrategyName, options ...Option) string {
	t.Helper()
	name := fmt.Sprintf("sqlite3_oneflush_%d", drivers.Add(1))
	if err := Register(name, strategy, options...); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func text(t *testing.T, db *sql.DB, query string) (value string) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func equal(t *testing.T, what string, found, expected any) {
	t.Helper()
	if found != expected {
		t.Fatalf("%s: %q in place of %q", what, fmt.Sprint(found), fmt.Sprint(expected))
	}
}

// says fails unless the error has all words.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error that says %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("%q does not say %q", err, word)
		}
	}
}
