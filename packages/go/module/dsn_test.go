//go:build cgo && linux

package oneflush

import (
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"
)

func TestADSNIsCompletedAndItsOwnWordsStay(t *testing.T) {
	chosen, err := settingsOf(Eager, []Option{Durability("full"), LogSize(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	const unsynced = "durability=full&log_size=1048576&strategy=eager&vfs=oneflush"
	const all = "_synchronous=FULL&" + unsynced
	for given, expected := range map[string]string{
		"app.db":           "file:app.db?" + all,
		"/srv/app.db":      "file:///srv/app.db?" + all,
		"//srv/app.db":     "file:////srv/app.db?" + all,
		"50%#?_fk=1":       "file:50%25%23?_fk=1&" + all,
		"file:app.db":      "file:app.db?" + all,
		"file:a%20b?_fk=1": "file:a%20b?_fk=1&" + all,
		"file:app.db?mode=ro&strategy=plain": "file:app.db?mode=ro&strategy=plain&" +
			"_synchronous=FULL&durability=full&log_size=1048576&vfs=oneflush",
		"app.db?_sync=1":          "file:app.db?_sync=1&" + unsynced,
		"app.db?_synchronous=OFF": "file:app.db?_synchronous=OFF&" + unsynced,
		// What mattn/go-sqlite3 ignores behind a plain name must not come to life.
		"app.db?mode=memory&cache=shared&_fk=1": "file:app.db?_fk=1&" + all,
		"app.db?strategy=plain": "file:app.db?strategy=plain&_synchronous=FULL&durability=full&" +
			"log_size=1048576&vfs=oneflush",
	} {
		found, err := chosen.targetOf(given)
		if err != nil {
			t.Fatalf("%s: %v", given, err)
		}
		equal(t, given, found.dsn, expected)
	}
}

func TestADatabaseWithoutAFileIsLeftToTheDriver(t *testing.T) {
	chosen, err := settingsOf(Eager, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, dsn := range []string{
		"", ":memory:", ":memory:?_fk=1", "file::memory:?cache=shared", "file:x?mode=memory",
	} {
		found, err := chosen.targetOf(dsn)
		if err != nil {
			t.Fatalf("%s: %v", dsn, err)
		}
		if !found.hasNoFile || found.dsn != dsn {
			t.Fatalf("%s: %+v", dsn, found)
		}
	}
}

func TestADSNWithAnotherVFSOrAnUnknownStrategyIsRefusedWithoutItsPassword(t *testing.T) {
	chosen, err := settingsOf(Plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	for dsn, words := range map[string][]string{
		"file:app.db?vfs=unix&_auth_pass=secret": {"file:app.db", "vfs=unix", "driver sqlite3"},
		"app.db?strategy=fast&_auth_pass=secret": {"app.db", `"fast"`, "auto, stock, plain, eager"},
		"app.db?a=%zz&_auth_pass=secret":         {"app.db", "%zz"},
	} {
		_, err := chosen.targetOf(dsn)
		says(t, err, words...)
		if strings.Contains(err.Error(), "secret") {
			t.Fatalf("the password is in the message: %v", err)
		}
	}
}

func TestAnOptionThatMeansNothingIsRefusedWithWhatThereIs(t *testing.T) {
	says(t, Register("never", "fast"), `"fast"`, "auto, stock, plain, eager, waldio, maw")
	says(t, Register("never", Eager, Parameter("log_siz", "1")), `"log_siz"`, "log_size")
	says(t, Register("never", Eager, Durability("")), "durability")
	says(t, Register("never", Eager, Parameter("strategy", "plain")), `"strategy"`)
}

// The project's table of options is the source of the names here.
func TestTheNamesOfParametersAreThoseOfTheManual(t *testing.T) {
	manual := os.Getenv("ONEFLUSH_TEST_MANUAL")
	if manual == "" {
		t.Skip("ONEFLUSH_TEST_MANUAL does not name docs/use.md of the project")
	}
	page, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\| `ONEFLUSH_").
		FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(row[1], ", ") {
			if name = strings.Trim(name, "`"); name != "strategy" {
				names = append(names, name)
			}
		}
	}
	sort.Strings(names)
	equal(t, "parameters", strings.Join(parameterNames, " "), strings.Join(names, " "))
}
