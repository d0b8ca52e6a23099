// Package oneflush gives the programs that use [github.com/mattn/go-sqlite3] durable commits for
// one aligned write and one flush.
//
// Oneflush is a VFS for SQLite, built as a loadable extension. The extension is in this module and
// becomes a part of the program. [Register] makes a driver for [database/sql] whose databases all
// use Oneflush:
//
//	err := oneflush.Register("sqlite3_oneflush", oneflush.Plain)
//	db, err := sql.Open("sqlite3_oneflush", "app.db")
//
// # Strategies
//
// [Plain] is the one to begin with: the files are SQLite's own at all times. [Eager] writes the
// least, and no other SQLite can read the database while a program uses it. The project's page
// docs/choose.md compares all of them.
//
// # What the driver sets
//
// A DSN is what it is with mattn/go-sqlite3, and what a DSN says is kept. Where it says nothing:
//
//   - "synchronous" is FULL, and not NORMAL as with mattn/go-sqlite3: in WAL mode a commit with
//     NORMAL is not durable.
//   - The journal mode is WAL with [Plain], [Eager] and [Waldio]. With [MAW] a database in WAL mode
//     goes to DELETE. With [Auto] and [Stock] the journal mode stays as it is.
//   - "strategy" and the other parameters of Oneflush are those that were given to [Register].
//
// Databases in memory and temporary databases are opened by mattn/go-sqlite3 alone.
//
// # What it needs
//
// Linux on amd64 or arm64, cgo, and a program that is linked dynamically. A program on another
// system, without cgo, or with the build tag sqlite_omit_load_extension compiles. Its [Register]
// returns an error that says so. Drivers in pure Go (modernc.org/sqlite, ncruces/go-sqlite3)
// cannot load an extension.
package oneflush
