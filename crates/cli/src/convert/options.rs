//! The options of `oneflush convert`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::engine::Engine;

const EXAMPLES: &str = "Examples:
  oneflush convert app.db --reserve 24 --dry-run
                                      how many bytes are reserved now, and
                                      what the conversion would need
  oneflush convert app.db --reserve 24
  oneflush convert app.db --reserve 0 --force
                                      takes all reserved bytes back
  oneflush convert app.db app.mvbt.db --engine lsmvbt
                                      a copy in the format of LS-MVBT
  oneflush convert app.mvbt.db back.db --engine sqlite

--engine makes a new file, and leaves the database as it is. Programs may use
the database meanwhile: the copy is of one moment. It is checked by PRAGMA
integrity_check, and compared with the database value by value, rowids too.
The new file appears when it is complete and durable. Ctrl-C leaves none.

--reserve: SQLite leaves reserved bytes alone; extensions keep something there.
Nobody may have the database open. First a copy is made beside the database, by VACUUM
INTO, and checked: PRAGMA integrity_check, the schema, each table's number of
rows. Then one transaction writes the pages of the copy into the database file.
It stays the same file, with its owner, mode, links and journal mode.

Room is needed for the copy and a journal: twice the database, or up to five
times where two rows just fill a page, and then only one does.
Ctrl-C leaves the database as it was. So does a crash: the next open rolls back.

As by VACUUM, the rowids of a table without INTEGER PRIMARY KEY may change.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "oneflush convert [OPTIONS] --reserve <N> <DATABASE>
       oneflush convert [OPTIONS] --engine <NAME> <DATABASE> <COPY>")]
#[command(group = ArgGroup::new("what").args(["reserve", "engine"]).required(true))]
pub struct Options {
    /// The database file
    pub(super) database: PathBuf,
    /// The new file of --engine, which must not be there
    #[arg(value_name = "COPY", requires = "engine", conflicts_with = "reserve")]
    pub(super) copy: Option<PathBuf>,
    /// Bytes to reserve at the end of each page, 0 to 255
    #[arg(long, value_name = "N")]
    pub(super) reserve: Option<u8>,
    /// Copy the database into a new file of this engine
    #[arg(long, value_name = "NAME", requires = "copy")]
    pub(super) engine: Option<Engine>,
    /// Only say what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Where bytes are reserved already, change their number; what an extension
    /// keeps there is lost. Also for 8, the number of cksumvfs
    #[arg(long, conflicts_with = "engine")]
    pub(super) force: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}
