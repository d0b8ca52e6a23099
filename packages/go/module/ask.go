package oneflush

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotOneflush says that a database is open without Oneflush, in memory, or temporary.
var ErrNotOneflush = errors.New("oneflush: this database is not open with Oneflush")

// A Querier is a *[sql.DB], *[sql.Conn] or *[sql.Tx].
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Strategy says which strategy a database has: its name, and the reason where it is inactive, as in
// "eager (inactive: journal_mode=delete)". The error is [ErrNotOneflush] for SQLite alone.
func Strategy(ctx context.Context, db Querier) (string, error) {
	return ask(ctx, db, "oneflush_strategy")
}

// Statistics are those of a database, over all connections of the process.
type Statistics struct {
	// Version is that of the extension.
	Version  string `json:"version"`
	Database string `json:"database"`
	Strategy string `json:"strategy"`
	// Active is false where the strategy changes nothing; InactiveBecause says why.
	Active          bool   `json:"active"`
	InactiveBecause string `json:"inactive_because"`
	Durability      string `json:"durability"`
	Connections     int    `json:"connections"`
	Commits         struct {
		Count     int64   `json:"count"`
		Bytes     Total   `json:"bytes"`
		Syncs     Total   `json:"syncs"`
		LatencyNs Latency `json:"latency_ns"`
	} `json:"commits"`
	// JSON is the whole answer, with what the strategy and each kind of file did.
	JSON json.RawMessage `json:"-"`
}

// A Total is a sum over commits, and the most that one of them had.
type Total struct {
	Sum int64 `json:"sum"`
	Max int64 `json:"max"`
}

// A Latency has quantiles, in nanoseconds.
type Latency struct {
	Count int64   `json:"count"`
	Sum   int64   `json:"sum"`
	Mean  float64 `json:"mean"`
	P50   int64   `json:"p50"`
	P95   int64   `json:"p95"`
	P99   int64   `json:"p99"`
	P999  int64   `json:"p999"`
	Max   int64   `json:"max"`
}

// Stats says what SQLite asked for and what the strategy did.
func Stats(ctx context.Context, db Querier) (*Statistics, error) {
	found := &Statistics{}
	answer, err := askJSON(ctx, db, "oneflush_stats", found)
	if err != nil {
		return nil, err
	}
	found.JSON = answer
	return found, nil
}

// A CheckpointResult says what a checkpoint did. HeldUp is true where a reader or another
// checkpoint kept it from copying everything.
type CheckpointResult struct {
	HeldUp       bool  `json:"held_up"`
	WALFrames    int64 `json:"wal_frames"`
	CopiedFrames int64 `json:"copied_frames"`
}

// Checkpoint runs a checkpoint now, as Oneflush's own thread does.
func Checkpoint(ctx context.Context, db Querier) (CheckpointResult, error) {
	var found CheckpointResult
	_, err := askJSON(ctx, db, "oneflush_checkpoint", &found)
	return found, err
}

func ask(ctx context.Context, db Querier, pragma string) (string, error) {
	var answer string
	err := db.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		return "", ErrNotOneflush
	}
	if err != nil {
		return "", fmt.Errorf("oneflush: PRAGMA %s: %w", pragma, err)
	}
	return answer, nil
}

func askJSON(
	ctx context.Context, db Querier, pragma string, into any,
) (json.RawMessage, error) {
	answer, err := ask(ctx, db, pragma)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		return nil, fmt.Errorf("oneflush: the answer of PRAGMA %s: %w", pragma, err)
	}
	return json.RawMessage(answer), nil
}
