//! Options of a mode, which follow its strategy: `+layout=pad4k+sync=pd`.
//!
//! Those of a strategy and of LS-MVBT are URI parameters. SQLite alone has one, which is a pragma.

use std::fmt;

use oneflush_vfs::check_parameters;

use super::{Journal, Strategy};

/// Of SQLite alone, in WAL mode: the value of `PRAGMA wal_autocheckpoint`.
const CHECKPOINT_PAGES: &str = "checkpoint_pages";
/// Of LS-MVBT: what its paper compares itself with.
const LSMVBT: [&str; 3] = ["lazy_split", "metadata_embedding", "redistribution"];

/// Names and values in the order of the mode's word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// From what follows the strategy's first `+`. The error says what is wrong, without the mode.
    pub fn parse(text: &str, journal: Journal, strategy: Strategy) -> Result<Parameters, String> {
        let mut given: Vec<(String, String)> = Vec::new();
        for word in text.split('+') {
            let pair = word.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            let Some((name, value)) =
                pair.filter(|(name, value)| !name.is_empty() && is_plain(value))
            else {
                return Err(format!("\"{word}\" is no option; an option is +NAME=VALUE"));
            };
            if given.iter().any(|(other, _)| other == name) {
                return Err(format!("option {name} was given twice; leave one out"));
            }
            given.push((name.to_owned(), value.to_owned()));
        }
        match strategy {
            Strategy::Oneflush(kind) => {
                check_parameters(kind, &given).map_err(|error| error.to_string())?
            }
            Strategy::Sqlite => given.iter().try_for_each(|option| check(journal, option))?,
        }
        Ok(Parameters(given))
    }

    /// After so many pages SQLite alone begins a checkpoint. None: its default.
    pub fn checkpoint_pages(&self) -> Option<&str> {
        self.iter().find(|(name, _)| *name == CHECKPOINT_PAGES).map(|(_, value)| value)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `waldio` then acknowledges commits that a loss of power may take back.
    pub fn weaken_waldio(&self) -> bool {
        self.iter().any(|option| match option {
            ("sync", value) => value == "ns",
            ("group", value) => value != "0",
            _ => false,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// An option where none of our strategies is.
fn check(journal: Journal, (name, value): &(String, String)) -> Result<(), String> {
    match (journal, name.as_str()) {
        (Journal::Lsmvbt, name) if LSMVBT.contains(&name) => match value.as_str() {
            "on" | "off" => Ok(()),
            _ => Err(format!("{name} is on or off, not {value}")),
        },
        (Journal::Lsmvbt, _) => Err(format!("lsmvbt has the options {}", LSMVBT.join(", "))),
        (_, CHECKPOINT_PAGES) if journal.is_wal() => match value.parse::<u32>() {
            Ok(pages) if pages > 0 => Ok(()),
            _ => Err(format!("{name} is a number of pages, not {value}")),
        },
        _ => Err(format!(
            "SQLite alone has no options but {CHECKPOINT_PAGES} in WAL mode; name one of our \
                strategies"
        )),
    }
}

/// Needs no escape in a URI.
fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(name, value)| write!(f, "+{name}={value}"))
    }
}
