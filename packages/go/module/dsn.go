package oneflush

import (
	"fmt"
	"net/url"
	"strings"
)

// The name of Oneflush's VFS in SQLite.
const vfs = "oneflush"

// A target is what a DSN asks for.
type target struct {
	dsn string
	// The database's name, for messages: a query may have a password.
	name string
	// Of the driver's own connections: in memory, or temporary. Oneflush has nothing to do there.
	hasNoFile bool
	strategy  StrategyName
	// The DSN says itself which journal mode it wants.
	namesJournalMode bool
}

// targetOf completes a DSN of mattn/go-sqlite3: a plain name becomes a URI, and what the DSN does
// not say comes from the settings. The DSN's own words stay as they are.
func (chosen settings) targetOf(dsn string) (target, error) {
	name, query := split(dsn)
	given, err := url.ParseQuery(query)
	if err != nil {
		return target{}, fmt.Errorf("oneflush: %s: the DSN's parameters: %w", name, err)
	}
	if hasNoFile(name, given) {
		return target{dsn: dsn, name: name, hasNoFile: true}, nil
	}
	found := target{
		name:             name,
		strategy:         chosen.strategy,
		namesJournalMode: given.Has("_journal_mode") || given.Has("_journal"),
	}
	if other := given.Get("vfs"); other != "" && other != vfs {
		return target{}, fmt.Errorf("oneflush: %s: the DSN asks for vfs=%s, this driver has "+
			"vfs=%s; remove it, or open the database with driver sqlite3", name, other, vfs)
	}
	if own := given.Get("strategy"); own != "" {
		found.strategy = StrategyName(own)
		if err := found.strategy.check(); err != nil {
			return target{}, fmt.Errorf("%w (in the DSN of %s)", err, name)
		}
	}
	if !isURI(name) {
		given = withMeaning(given)
		query = given.Encode()
	}
	missing := url.Values{}
	add := func(name, value string) {
		if given.Get(name) == "" {
			missing.Set(name, value)
		}
	}
	add("vfs", vfs)
	add("strategy", string(found.strategy))
	for name, value := range chosen.parameters {
		add(name, value)
	}
	if given.Get("_sync") == "" {
		add("_synchronous", "FULL")
	}
	if query != "" {
		query += "&"
	}
	found.dsn = uri(name) + "?" + query + missing.Encode()
	return found, nil
}

// withMeaning drops what mattn/go-sqlite3 ignores behind a plain name. As parts of a URI such words
// would come to mean something: mode=memory, above all.
func withMeaning(given url.Values) url.Values {
	kept := url.Values{}
	for name, values := range given {
		if strings.HasPrefix(name, "_") || name == "vfs" || name == "strategy" || isParameter(name) {
			kept[name] = values
		}
	}
	return kept
}

// split is mattn/go-sqlite3's: what comes before the first '?' is the name.
func split(dsn string) (name, query string) {
	if at := strings.IndexByte(dsn, '?'); at >= 1 {
		return dsn[:at], dsn[at+1:]
	}
	return dsn, ""
}

func hasNoFile(name string, given url.Values) bool {
	switch name {
	case "", ":memory:", "file:", "file::memory:":
		return true
	}
	return isURI(name) && given.Get("mode") == "memory"
}

func isURI(name string) bool {
	return strings.HasPrefix(name, "file:")
}

// uri makes a URI of a name that is none. An absolute name gets the empty authority, because
// "file://name" would take the beginning of a name with two slashes for a host.
func uri(name string) string {
	if isURI(name) {
		return name
	}
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(name)
	if strings.HasPrefix(name, "/") {
		return "file://" + escaped
	}
	return "file:" + escaped
}
