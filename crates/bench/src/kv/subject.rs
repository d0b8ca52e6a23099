//! A word for a store: `mvbt`, with options as in `mvbt+lazy_split=off+page_bytes=1024`, or a mode
//! of SQLite as elsewhere in the benchmark: `wal:sqlite`.

use std::str::FromStr;

use oneflush_mvbt::Options;

use super::Crashes;
use super::mvbt::Mvbt;
use super::sqlite::Sqlite;
use oneflush_measure::mode::{Mode, ModeError};

pub enum Subject {
    Mvbt(Options),
    Sqlite(Mode),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SubjectError {
    #[error("this version of mvbt has no option {name}")]
    UnknownOption { name: String },
    #[error("option {name} of mvbt cannot be {value}")]
    Value { name: String, value: String },
    #[error(transparent)]
    Mode(#[from] ModeError),
}

impl FromStr for Subject {
    type Err = SubjectError;

    fn from_str(word: &str) -> Result<Subject, SubjectError> {
        let mut parts = word.split('+');
        if parts.next() != Some("mvbt") {
            return Ok(Subject::Sqlite(word.parse()?));
        }
        let mut options = Options::default();
        for part in parts {
            set(&mut options, part)?;
        }
        Ok(Subject::Mvbt(options))
    }
}

/// `NAME=VALUE`, a field of [`Options`].
fn set(options: &mut Options, part: &str) -> Result<(), SubjectError> {
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    let wrong = || SubjectError::Value { name: name.to_owned(), value: value.to_owned() };
    let switch = || match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(wrong()),
    };
    let number = || value.parse().map_err(|_| wrong());
    match name {
        "lazy_split" => options.lazy_split = switch()?,
        "redistribution" => options.redistribution = switch()?,
        "lazy_collection" => options.lazy_collection = switch()?,
        "metadata_embedding" => options.metadata_embedding = switch()?,
        "page_bytes" => options.page_bytes = number()?,
        "cache_bytes" => options.cache_bytes = number()?,
        _ => return Err(SubjectError::UnknownOption { name: name.to_owned() }),
    }
    Ok(())
}

impl Subject {
    /// `memory`: for pages, of each the same; none: the default of each.
    pub fn engine(self, word: &str, memory: Option<u64>) -> Box<dyn Crashes> {
        match self {
            Subject::Mvbt(mut options) => {
                if let Some(bytes) = memory {
                    options.cache_bytes = bytes as usize;
                    // Tables are filled by large transactions.
                    options.spill_bytes = bytes as usize;
                }
                Box::new(Mvbt { name: word.to_owned(), options })
            }
            Subject::Sqlite(mode) => Box::new(Sqlite { mode, cache_bytes: memory }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(word: &str) -> Options {
        match word.parse() {
            Ok(Subject::Mvbt(options)) => options,
            Ok(Subject::Sqlite(mode)) => panic!("{mode}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn options_of_a_word_are_set_and_others_stay() {
        let changed = options("mvbt+lazy_split=off+page_bytes=1024");
        assert!(!changed.lazy_split && changed.metadata_embedding);
        assert_eq!(changed.page_bytes, 1024);
        assert!(options("mvbt").lazy_split);
    }

    #[test]
    fn a_mode_of_sqlite_is_one_and_what_is_unknown_is_named() {
        assert!(matches!("wal:sqlite".parse(), Ok(Subject::Sqlite(_))));
        for (word, part) in [
            ("mvbt+colour=red", "colour"),
            ("mvbt+lazy_split=maybe", "maybe"),
            ("mvbt+page_bytes=many", "many"),
            ("wall", "wall"),
        ] {
            let error = word.parse::<Subject>().err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
