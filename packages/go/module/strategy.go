package oneflush

import (
	"fmt"
	"strings"
)

// A StrategyName is the name of a strategy: how commits are made durable.
type StrategyName string

// The strategies. The project's page docs/choose.md says which program takes which.
const (
	// Auto is Plain in WAL mode, and changes nothing in the rollback modes (on F2FS it is MAW
	// there). It leaves the journal mode as it is.
	Auto StrategyName = "auto"
	// Stock changes nothing and accounts for everything.
	Stock StrategyName = "stock"
	// Plain keeps SQLite's own files, in WAL mode, and writes them with less.
	Plain StrategyName = "plain"
	// Eager makes a commit one block of a log beside the database. Other SQLites cannot read the
	// database meanwhile.
	Eager StrategyName = "eager"
	// Waldio is a paper's WAL in preallocated slots.
	Waldio StrategyName = "waldio"
	// MAW is for the rollback modes: the journal stays in memory.
	MAW StrategyName = "maw"
)

var strategies = []StrategyName{Auto, Stock, Plain, Eager, Waldio, MAW}

// journalMode is the mode in which the strategy acts: "wal", "delete" for any rollback mode, or ""
// where every mode will do.
func (name StrategyName) journalMode() string {
	switch name {
	case Plain, Eager, Waldio:
		return "wal"
	case MAW:
		return "delete"
	default:
		return ""
	}
}

func (name StrategyName) check() error {
	allowed := make([]string, len(strategies))
	for at, known := range strategies {
		if name == known {
			return nil
		}
		allowed[at] = string(known)
	}
	return fmt.Errorf("oneflush: strategy %q is not known; allowed: %s",
		string(name), strings.Join(allowed, ", "))
}
