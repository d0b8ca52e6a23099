//! `oneflush probe DIR`.

use std::path::{Path, PathBuf};

use clap::Args;
use oneflush_measure::{interrupt, probe};
use oneflush_mvbt::Database;
use serde_json::json;

use crate::failure::Failure;
use crate::{layout, output};

const EXAMPLES: &str = "Examples:
  oneflush probe .
  oneflush probe /mnt/data --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// An existing, writable directory on the file system to look at
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn main(options: &Options) -> Result<(), Failure> {
    interrupt::install().map_err(Failure::failed)?;
    let probe = probe::probe(&options.dir).map_err(Failure::failed)?;
    let fails = try_lsmvbt(&options.dir).err();
    if options.json {
        let mut json = serde_json::to_value(&probe).map_err(Failure::failed)?;
        json["engines"] = json!([{ "engine": "lsmvbt", "fails": fails }]);
        let text = serde_json::to_string_pretty(&json).map_err(Failure::failed)?;
        return output::print(&format!("{text}\n"));
    }
    let mut text = probe.to_string();
    text += &of_lsmvbt(fails.as_deref());
    output::print(&text)
}

/// Makes a database there, writes to it, and finds that again.
fn try_lsmvbt(dir: &Path) -> Result<(), String> {
    let folder = tempfile::Builder::new().prefix("oneflush-probe-").tempdir_in(dir);
    let folder = folder.map_err(|error| error.to_string())?;
    let path = folder.path().join("probe.mvbt");
    let tried = || -> oneflush_mvbt::Result<()> {
        let database = Database::create(&path, oneflush_mvbt::Options::default())?;
        let mut writer = database.begin_write()?;
        let tree = writer.create_tree(false)?;
        writer.insert(tree, 1, b"probe")?;
        writer.commit()?;
        database.close()?;
        let mut options = oneflush_mvbt::Options::default();
        options.read_only = true;
        Database::open(&path, options)?.check(None).map(drop)
    };
    tried().map_err(|error| error.to_string())
}

/// What it asks of a device is true of each: that is why it can be said without a trial.
fn of_lsmvbt(fails: Option<&str>) -> String {
    let said = match fails {
        Some(reason) => format!("no: {reason}"),
        None => "works; pages may be torn, as sectors of 512 bytes are whole. A commit is one \
            flush; one that makes the file grow has two"
            .to_owned(),
    };
    let mut text = String::from("\nengines\n");
    layout::wrapped(&mut text, "  lsmvbt          ", "                  ", &said);
    text
}
