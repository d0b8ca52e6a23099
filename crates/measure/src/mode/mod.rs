//! A mode is one way to commit, and what a run compares:
//! `journal[:sync][:strategy][:mounted][+option…]`, as in `wal`, `delete:normal`,
//! `wal:full:sqlite`, `wal:plain+prealloc=65536` or `delete:mounted`.
//!
//! `lsmvbt` has no other words but the last: the other B-tree has no journal, no strategy, and each
//! commit is durable. `files` has none either: it is for workloads without SQLite.
//!
//! `mounted` says where the files lie: in a mount of `oneflush mount`.
//!
//! The parts that are left out are the safe and the measuring ones: `full`, and our VFS with the
//! strategy that changes nothing. Either may be left out without a placeholder, since the words of
//! the three lists differ. Only `off` is in two: it is a journal where it comes first, and a
//! synchronous setting behind one.

mod parameters;
mod strategy;

use std::fmt;
use std::str::FromStr;

use oneflush_vfs::StrategyKind;
pub use parameters::Parameters;
use serde::{Deserialize, Serialize};
pub use strategy::Strategy;

/// SQLite's journal modes, WAL twice: what it costs depends on whether its file still grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Journal {
    Delete,
    Truncate,
    Persist,
    /// The steady state: the file has its full length and is reused, checkpoints are measured.
    Wal,
    /// A new database's first transactions: the file grows until its first automatic checkpoint.
    WalGrowing,
    Memory,
    Off,
    /// None: the database is one of the other B-tree.
    Lsmvbt,
    /// None: the program writes its files itself.
    Files,
}

impl Journal {
    pub const ALL: [(Journal, &str); 9] = [
        (Journal::Delete, "delete"),
        (Journal::Truncate, "truncate"),
        (Journal::Persist, "persist"),
        (Journal::Wal, "wal"),
        (Journal::WalGrowing, "wal-growing"),
        (Journal::Memory, "memory"),
        (Journal::Off, "off"),
        (Journal::Lsmvbt, "lsmvbt"),
        (Journal::Files, "files"),
    ];

    /// The value of `PRAGMA journal_mode`, as SQLite answers it.
    pub fn pragma(self) -> &'static str {
        match self {
            Journal::Wal | Journal::WalGrowing => "wal",
            other => name_in(&Self::ALL, other),
        }
    }

    pub fn is_wal(self) -> bool {
        matches!(self, Journal::Wal | Journal::WalGrowing)
    }

    /// Neither a synchronous setting nor a strategy may follow.
    fn stands_alone(self) -> bool {
        matches!(self, Journal::Lsmvbt | Journal::Files)
    }
}

/// The last word of a mode whose files lie in a mount.
const MOUNTED: &str = "mounted";

/// SQLite's `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Synchronous {
    Off,
    Normal,
    Full,
    Extra,
}

impl Synchronous {
    pub const ALL: [(Synchronous, &str); 4] = [
        (Synchronous::Off, "off"),
        (Synchronous::Normal, "normal"),
        (Synchronous::Full, "full"),
        (Synchronous::Extra, "extra"),
    ];

    /// The value of the PRAGMA.
    pub fn pragma(self) -> &'static str {
        name_in(&Self::ALL, self)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Mode {
    pub journal: Journal,
    pub synchronous: Synchronous,
    pub strategy: Strategy,
    /// The strategy's.
    pub parameters: Parameters,
    /// The files lie in a mount of `oneflush mount`.
    pub is_mounted: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModeError {
    #[error("unknown word \"{word}\" in mode \"{mode}\"; {place} one of: {allowed}")]
    UnknownWord { word: String, mode: String, place: &'static str, allowed: String },
    #[error("mode \"{mode}\": {reason}")]
    Parameters { mode: String, reason: String },
    #[error(
        "mode \"{mode}\": maw commits without a rollback journal, and WAL mode has none; name \
            delete:maw, truncate:maw or persist:maw"
    )]
    NoJournal { mode: String },
    #[error(
        "mode \"{mode}\": lsmvbt stands alone; it has no strategy, and each commit is durable at \
            every PRAGMA synchronous"
    )]
    Alone { mode: String },
    #[error(
        "mode \"{mode}\": files stands alone; there is no SQLite in it. It is files or \
            files:mounted"
    )]
    AloneWithoutSqlite { mode: String },
    #[error("no mode given; name at least one, for example wal or delete:normal")]
    Empty,
}

impl Mode {
    pub fn new(journal: Journal) -> Mode {
        Mode {
            journal,
            synchronous: Synchronous::Full,
            strategy: if journal.stands_alone() { Strategy::Sqlite } else { Strategy::STOCK },
            parameters: Parameters::default(),
            is_mounted: false,
        }
    }

    /// A comma-separated list. The same mode may stand there twice: the difference between the
    /// two is then the noise of the run.
    pub fn parse_list(list: &str) -> Result<Vec<Mode>, ModeError> {
        list.split(',').map(str::parse).collect()
    }

    /// The other B-tree makes the commits.
    pub fn is_lsmvbt(&self) -> bool {
        self.journal == Journal::Lsmvbt
    }

    /// Without SQLite.
    pub fn is_files(&self) -> bool {
        self.journal == Journal::Files
    }

    /// The text that is read back as the same mode, with a strategy wherever there is one.
    pub fn in_full(&self) -> String {
        self.text(!self.journal.stands_alone())
    }

    fn text(&self, names_strategy: bool) -> String {
        let mut text = name_in(&Journal::ALL, self.journal).to_owned();
        if self.synchronous != Synchronous::Full {
            text = format!("{text}:{}", self.synchronous.pragma());
        }
        if names_strategy {
            text = format!("{text}:{}", self.strategy);
        }
        if self.is_mounted {
            text = format!("{text}:{MOUNTED}");
        }
        format!("{text}{}", self.parameters)
    }

    /// Whether a commit that was acknowledged survives a power cut, as far as SQLite and the
    /// strategy promise it.
    pub fn is_durable(&self) -> bool {
        let is_waldio = self.strategy == Strategy::Oneflush(StrategyKind::Waldio);
        if is_waldio && self.journal.is_wal() && self.parameters.weaken_waldio() {
            return false;
        }
        !matches!(self.journal, Journal::Memory | Journal::Off)
            && matches!(self.synchronous, Synchronous::Full | Synchronous::Extra)
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Mode, ModeError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ModeError::Empty);
        }
        let unknown = |word: &str, place, allowed: Vec<&str>| ModeError::UnknownWord {
            word: word.to_owned(),
            mode: text.to_owned(),
            place,
            allowed: allowed.join(", "),
        };
        let journals = || names(&Journal::ALL);
        let strategies = Strategy::names;

        let lower = text.to_ascii_lowercase();
        let (words, parameters) = match lower.split_once('+') {
            Some((words, parameters)) => (words, Some(parameters)),
            None => (lower.as_str(), None),
        };
        let mut all: Vec<&str> = words.split(':').map(str::trim).collect();
        let is_mounted = all.len() > 1 && all.pop_if(|word| *word == MOUNTED).is_some();
        let mut words = all.into_iter().peekable();
        let first = words.next().unwrap_or_default();
        let journal = find(&Journal::ALL, first)
            .ok_or_else(|| unknown(first, "the journal is", journals()))?;
        let mut mode = Mode { is_mounted, ..Mode::new(journal) };
        if words.peek().is_some() {
            let mode = text.to_owned();
            match journal {
                Journal::Lsmvbt => return Err(ModeError::Alone { mode }),
                Journal::Files => return Err(ModeError::AloneWithoutSqlite { mode }),
                _ => {}
            }
        }

        if let Some(synchronous) = words.peek().and_then(|word| find(&Synchronous::ALL, word)) {
            mode.synchronous = synchronous;
            words.next();
        } else if let Some(word) = words.peek()
            && Strategy::find(word).is_none()
        {
            let allowed = [names(&Synchronous::ALL), strategies()].concat();
            return Err(unknown(word, "after the journal comes", allowed));
        }
        let strategy = words.next();
        if let Some(word) = &strategy {
            mode.strategy = Strategy::find(word)
                .ok_or_else(|| unknown(word, "the strategy is", strategies()))?;
        }
        if let Some(word) = words.next() {
            let place = "only mounted follows the strategy, which is";
            return Err(unknown(word, place, strategies()));
        }
        if mode.strategy == Strategy::Oneflush(StrategyKind::Maw) && mode.journal.is_wal() {
            return Err(ModeError::NoJournal { mode: text.to_owned() });
        }
        if let Some(parameters) = parameters {
            let wrong = |reason| ModeError::Parameters { mode: text.to_owned(), reason };
            if mode.is_files() {
                return Err(ModeError::AloneWithoutSqlite { mode: text.to_owned() });
            }
            if strategy.is_none() && !mode.is_lsmvbt() {
                return Err(wrong(
                    "options follow a strategy, as in wal:plain+prealloc=65536".to_owned(),
                ));
            }
            mode.parameters =
                Parameters::parse(parameters, journal, mode.strategy).map_err(wrong)?;
        }
        Ok(mode)
    }
}

/// The shortest text that is read back as the same mode.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_named = !self.parameters.is_empty() && !self.journal.stands_alone();
        let differs = self.strategy != Mode::new(self.journal).strategy;
        f.pad(&self.text(is_named || differs))
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> String {
        mode.to_string()
    }
}

impl TryFrom<String> for Mode {
    type Error = ModeError;

    fn try_from(text: String) -> Result<Mode, ModeError> {
        text.parse()
    }
}

fn find<T: Copy>(all: &[(T, &'static str)], word: &str) -> Option<T> {
    all.iter().find(|(_, name)| *name == word).map(|(value, _)| *value)
}

fn names<T>(all: &[(T, &'static str)]) -> Vec<&'static str> {
    all.iter().map(|(_, name)| *name).collect()
}

fn name_in<T: PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(candidate, _)| *candidate == value).map_or("?", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_journal_is_full_and_stock() {
        let mode: Mode = "delete".parse().unwrap();
        assert_eq!(mode, Mode::new(Journal::Delete));
        assert_eq!(mode.synchronous, Synchronous::Full);
        assert_eq!(mode.strategy, Strategy::STOCK);
    }

    #[test]
    fn either_optional_part_may_be_left_out() {
        let both: Mode = "wal:normal:sqlite".parse().unwrap();
        assert_eq!(both.synchronous, Synchronous::Normal);
        assert_eq!(both.strategy, Strategy::Sqlite);
        let strategy_only: Mode = "wal:sqlite".parse().unwrap();
        assert_eq!(strategy_only.synchronous, Synchronous::Full);
        assert_eq!(strategy_only.strategy, Strategy::Sqlite);
        let sync_only: Mode = "wal:extra".parse().unwrap();
        assert_eq!(sync_only.strategy, Strategy::STOCK);
    }

    #[test]
    fn off_is_a_journal_in_front_and_a_synchronous_behind() {
        let mode: Mode = "off:off".parse().unwrap();
        assert_eq!((mode.journal, mode.synchronous), (Journal::Off, Synchronous::Off));
        assert!(!mode.is_durable());
    }

    #[test]
    fn every_mode_reads_back_from_its_text() {
        for (journal, _) in Journal::ALL {
            for (synchronous, _) in Synchronous::ALL {
                for name in Strategy::names() {
                    let strategy = Strategy::find(name).unwrap();
                    if name == "maw" && journal.is_wal() || journal.stands_alone() {
                        continue;
                    }
                    for is_mounted in [false, true] {
                        let mode = Mode { synchronous, strategy, is_mounted, ..Mode::new(journal) };
                        assert_eq!(mode.to_string().parse(), Ok(mode.clone()), "{mode}");
                        assert_eq!(mode.in_full().parse(), Ok(mode.clone()), "{mode}");
                    }
                }
            }
        }
    }

    #[test]
    fn options_of_the_strategy_read_back_and_tell_modes_apart() {
        let text = "wal:normal:plain+prealloc=65536+keep_wal=off";
        let mode: Mode = text.parse().unwrap();
        assert_eq!(mode.to_string(), text);
        let given: Vec<_> = mode.parameters.iter().collect();
        assert_eq!(given, [("prealloc", "65536"), ("keep_wal", "off")]);
        assert_ne!(mode, "wal:normal:plain".parse().unwrap());
        let json = serde_json::to_string(&mode).unwrap();
        assert_eq!(serde_json::from_str::<Mode>(&json).unwrap(), mode);
        let stock: Mode = "wal:stock+unsafe_ground=allow".parse().unwrap();
        assert_eq!(stock.to_string().parse(), Ok(stock));
    }

    #[test]
    fn waldio_without_its_flush_promises_no_durable_commits() {
        let is_durable = |text: &str| text.parse::<Mode>().unwrap().is_durable();
        assert!(is_durable("wal:waldio") && is_durable("wal:waldio+sync=pd"));
        assert!(!is_durable("wal:waldio+sync=ns") && !is_durable("wal:normal:waldio"));
        assert!(is_durable("wal:plain+sync=ns"), "plain has no use for it");
    }

    #[test]
    fn maw_is_for_the_rollback_modes_and_says_so() {
        for text in ["delete:maw", "truncate:full:maw+atomic=log", "persist:maw+atomic=xfs"] {
            assert!(text.parse::<Mode>().unwrap().is_durable(), "{text}");
        }
        for text in ["wal:maw", "wal-growing:full:maw", "wal:maw+atomic=log"] {
            let message = text.parse::<Mode>().unwrap_err().to_string();
            assert!(message.contains(text) && message.contains("persist:maw"), "{message}");
        }
        let message = "persist:maw+atomic=zfs".parse::<Mode>().unwrap_err().to_string();
        assert!(message.contains("auto, f2fs, xfs, log"), "{message}");
    }

    #[test]
    fn lsmvbt_stands_alone_and_says_so() {
        let mode: Mode = "LSMVBT".parse().unwrap();
        assert!(mode.is_durable() && mode.is_lsmvbt());
        assert_eq!((mode.to_string().as_str(), mode.strategy), ("lsmvbt", Strategy::Sqlite));
        let plain = "lsmvbt+lazy_split=off+metadata_embedding=off";
        assert_eq!(plain.parse::<Mode>().unwrap().to_string(), plain);
        for text in ["lsmvbt+prealloc=0", "lsmvbt+lazy_split=maybe"] {
            let message = text.parse::<Mode>().unwrap_err().to_string();
            assert!(message.contains(text) && message.contains("lazy_split"), "{message}");
        }
        for text in ["lsmvbt:normal", "lsmvbt:stock", "lsmvbt:full:sqlite"] {
            let message = text.parse::<Mode>().unwrap_err().to_string();
            assert!(message.contains(text) && message.contains("stands alone"), "{message}");
        }
    }

    #[test]
    fn mounted_is_the_last_word_and_reads_back() {
        for (text, journal, strategy) in [
            ("delete:mounted", Journal::Delete, Strategy::STOCK),
            ("wal:sqlite:mounted", Journal::Wal, Strategy::Sqlite),
            ("wal:normal:mounted", Journal::Wal, Strategy::STOCK),
            ("lsmvbt:mounted", Journal::Lsmvbt, Strategy::Sqlite),
            ("files:mounted", Journal::Files, Strategy::Sqlite),
        ] {
            let mode: Mode = text.parse().unwrap();
            assert!(mode.is_mounted, "{text}");
            assert_eq!((mode.journal, mode.strategy), (journal, strategy), "{text}");
            assert_eq!(mode.to_string(), text);
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(serde_json::from_str::<Mode>(&json).unwrap(), mode, "{json}");
        }
        let full: Mode = "delete:full:stock:mounted".parse().unwrap();
        assert_eq!((full.to_string().as_str(), full.is_durable()), ("delete:mounted", true));
        assert_eq!(full.in_full(), "delete:stock:mounted");
        assert_ne!(full, "delete".parse().unwrap());
        let options = "wal:sqlite:mounted+checkpoint_pages=63";
        assert_eq!(options.parse::<Mode>().unwrap().to_string(), options);
    }

    #[test]
    fn mounted_anywhere_else_and_more_words_for_files_are_refused() {
        for (text, words) in [
            ("mounted", "the journal is"),
            ("wal:mounted:sqlite", "\"mounted\""),
            ("wal:mounted:mounted", "\"mounted\""),
            ("wal:sqlite:more", "only mounted follows the strategy"),
            ("files:normal", "files or files:mounted"),
            ("files:sqlite:mounted", "files or files:mounted"),
            ("files+prealloc=0", "files or files:mounted"),
            ("lsmvbt:normal:mounted", "lsmvbt stands alone"),
        ] {
            let message = text.parse::<Mode>().unwrap_err().to_string();
            assert!(message.contains(words) && message.contains(text), "{message}");
        }
    }

    #[test]
    fn sqlite_alone_has_the_length_of_its_wal() {
        let text = "wal-growing:sqlite+checkpoint_pages=63";
        let mode: Mode = text.parse().unwrap();
        assert_eq!(
            (mode.to_string().as_str(), mode.parameters.checkpoint_pages()),
            (text, Some("63"))
        );
        for text in ["delete:sqlite+checkpoint_pages=63", "wal:sqlite+checkpoint_pages=many"] {
            let message = text.parse::<Mode>().unwrap_err().to_string();
            assert!(message.contains("checkpoint_pages"), "{message}");
        }
    }

    #[test]
    fn an_option_that_means_nothing_is_refused_with_the_way_out() {
        for (text, words) in [
            ("wal:plain+preallok=0", "URI parameter preallok is not known"),
            ("wal:plain+preallok=0", "did you mean prealloc?"),
            ("wal:plain+prealloc=64K", "from 0 (none) to 1073741824"),
            ("wal:plain+strategy=eager", "with plain it knows"),
            ("wal:plain+prealloc", "an option is +NAME=VALUE"),
            ("wal:plain+prealloc=a&b=c", "an option is +NAME=VALUE"),
            ("wal:plain+", "an option is +NAME=VALUE"),
            ("wal:plain+prealloc=0+prealloc=1", "given twice"),
            ("wal+prealloc=0", "wal:plain+prealloc=65536"),
            ("wal:sqlite+prealloc=0", "SQLite alone has no options but checkpoint_pages"),
            ("wal:stock+durability=full", "changes nothing"),
        ] {
            let message = text.parse::<Mode>().unwrap_err().to_string();
            assert!(message.contains(words) && message.contains(text), "{message}");
        }
    }

    #[test]
    fn lists_keep_order_and_duplicates_and_ignore_case_and_blanks() {
        let modes = Mode::parse_list("WAL, delete:OFF ,wal").unwrap();
        let texts: Vec<String> = modes.iter().map(Mode::to_string).collect();
        assert_eq!(texts, ["wal", "delete:off", "wal"]);
    }

    #[test]
    fn an_unknown_word_is_named_with_what_is_allowed() {
        for (text, word, allowed) in [
            ("wall", "wall", "wal-growing"),
            ("wal:fulll", "fulll", "normal"),
            ("wal:full:stok", "stok", "stock"),
            ("wal:full:stock:more", "more", "stock"),
            ("full", "full", "truncate"),
        ] {
            let message = text.parse::<Mode>().unwrap_err().to_string();
            assert!(message.contains(&format!("\"{word}\"")), "{message}");
            assert!(message.contains(allowed), "{message}");
        }
        assert_eq!(Mode::parse_list("wal,,delete"), Err(ModeError::Empty));
    }
}
