//go:build cgo && linux

package oneflush

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestGoroutinesOfAPoolCommitAtOnceAndNothingIsMissing(t *testing.T) {
	const writers, rows = 8, 50
	for _, strategy := range []StrategyName{Plain, Eager, Waldio, MAW} {
		t.Run(string(strategy), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app.db")
			db := open(t, driverName(t, strategy), file+"?_busy_timeout=30000&_txlock=immediate")
			db.SetMaxIdleConns(writers)
			if _, err := db.Exec("CREATE TABLE item(writer, n)"); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			failures := make(chan error, writers)
			for writer := 0; writer < writers; writer++ {
				all.Add(1)
				go func(writer int) {
					defer all.Done()
					for n := 0; n < rows; n++ {
						const insert = "INSERT INTO item VALUES(?, ?)"
						if _, err := db.Exec(insert, writer, n); err != nil {
							failures <- err
							return
						}
					}
				}(writer)
			}
			all.Wait()
			close(failures)
			for err := range failures {
				t.Fatal(err)
			}
			found, err := Stats(context.Background(), db)
			if err != nil {
				t.Fatal(err)
			}
			if found.Connections < 2 || !found.Active {
				t.Fatalf("%+v", found)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			alone := open(t, "sqlite3", file)
			count := text(t, alone, "SELECT count(DISTINCT writer || '-' || n) FROM item")
			equal(t, "rows", count, strconv.Itoa(writers*rows))
			equal(t, "integrity_check", text(t, alone, "PRAGMA integrity_check"), "ok")
		})
	}
}

// All make the database, its journal mode and its table at the same time.
func TestProcessesShareADatabaseFromItsFirstMoment(t *testing.T) {
	const processes, rows = 6, 40
	for _, strategy := range []StrategyName{Plain, Eager, Waldio, MAW} {
		t.Run(string(strategy), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app.db")
			var children []*exec.Cmd
			var outputs [processes]bytes.Buffer
			for n := 0; n < processes; n++ {
				made := child(t, fmt.Sprintf("commit %s %s %d", file, strategy, rows))
				made.Stderr = &outputs[n]
				if err := made.Start(); err != nil {
					t.Fatal(err)
				}
				children = append(children, made)
			}
			for n, made := range children {
				if err := made.Wait(); err != nil {
					t.Errorf("process %d: %v: %s", n, err, outputs[n].String())
				}
			}
			alone := open(t, "sqlite3", file)
			count := text(t, alone, "SELECT count(*) FROM item")
			equal(t, "rows", count, strconv.Itoa(processes*rows))
			equal(t, "integrity_check", text(t, alone, "PRAGMA integrity_check"), "ok")
		})
	}
}

func TestAfterAKillEveryAcknowledgedCommitIsThere(t *testing.T) {
	for _, strategy := range []StrategyName{Plain, Eager, Waldio, MAW} {
		t.Run(string(strategy), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app.db")
			driver := driverName(t, strategy)
			for _, after := range []int{1, 60, 200} {
				acknowledged := killedAfter(t, file, strategy, after)
				db := open(t, driver, file)
				found := text(t, db, "SELECT max(id) FROM item")
				count := text(t, db, "SELECT count(*) FROM item")
				equal(t, "gaps", count, found)
				if last, err := strconv.Atoi(found); err != nil || last < acknowledged {
					t.Fatalf("row %d was acknowledged, row %s is the last", acknowledged, found)
				}
				equal(t, "integrity_check", text(t, db, "PRAGMA integrity_check"), "ok")
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// killedAfter kills a process that commits, and returns the last row that it had acknowledged.
func killedAfter(t *testing.T, file string, strategy StrategyName, commits int) int {
	t.Helper()
	made := child(t, fmt.Sprintf("commit %s %s 0", file, strategy))
	var messages bytes.Buffer
	made.Stderr = &messages
	output, err := made.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(2*time.Minute, func() { made.Process.Kill() })
	defer deadline.Stop()
	lines, last := bufio.NewScanner(output), 0
	for n := 1; lines.Scan(); n++ {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if n == commits {
			if err := made.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := made.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("not killed: %v, %s", err, messages.String())
	}
	return last
}
