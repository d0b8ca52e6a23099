package oneflush

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// An Option of [Register].
type Option func(*settings) error

// settings are what a driver of ours adds to each DSN.
type settings struct {
	strategy   StrategyName
	parameters map[string]string
	base       sqlite3.SQLiteDriver
}

// The parameters of a URI that Oneflush reads, besides strategy. SQLite ignores unknown ones, so a
// misspelt one would silently not be in force.
var parameterNames = []string{
	"atomic", "checkpoints", "durability", "group", "group_commit", "interval", "keep_wal",
	"layout", "log_size", "prealloc", "sync", "unsafe_ground",
}

// Durability is "pragma" (the default: as PRAGMA synchronous says) or "full": every commit is
// durable whatever the PRAGMA says.
func Durability(value string) Option {
	return Parameter("durability", value)
}

// GroupCommit permits or forbids that commits share a flush. It is permitted by default.
func GroupCommit(permitted bool) Option {
	if permitted {
		return Parameter("group_commit", "on")
	}
	return Parameter("group_commit", "off")
}

// LogSize bounds the log of [Eager] and [MAW].
func LogSize(bytes int64) Option {
	return Parameter("log_size", strconv.FormatInt(bytes, 10))
}

// Parameter sets any other parameter of Oneflush by its name, such as prealloc or checkpoints. The
// project's page docs/use.md has them all.
func Parameter(name, value string) Option {
	return func(chosen *settings) error {
		if !isParameter(name) {
			return fmt.Errorf("oneflush: parameter %q is not known; allowed: %s",
				name, strings.Join(parameterNames, ", "))
		}
		if value == "" {
			return fmt.Errorf("oneflush: parameter %s has no value", name)
		}
		chosen.parameters[name] = value
		return nil
	}
}

func isParameter(name string) bool {
	at := sort.SearchStrings(parameterNames, name)
	return at < len(parameterNames) && parameterNames[at] == name
}

// Base names a driver whose Extensions and ConnectHook each connection gets. The hook runs when the
// journal mode is set.
func Base(driver sqlite3.SQLiteDriver) Option {
	return func(chosen *settings) error {
		chosen.base = driver
		return nil
	}
}

func settingsOf(strategy StrategyName, options []Option) (settings, error) {
	chosen := settings{strategy: strategy, parameters: map[string]string{}}
	if err := strategy.check(); err != nil {
		return chosen, err
	}
	for _, option := range options {
		if err := option(&chosen); err != nil {
			return chosen, err
		}
	}
	return chosen, nil
}
