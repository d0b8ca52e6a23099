//! What other programs do to files in use, and what everybody is told of it, once.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::port::Below;

/// What became of a file in use.
pub(crate) enum Harm {
    /// The name leads to another file, or to none.
    NameLost(String),
    /// So it is with the name of the log.
    LogLost,
    /// So it is with the name of the database, outside WAL mode. SQLite itself writes nothing then.
    Moved,
    /// "it", the database file ([`contents`](super::contents)), or "its WAL".
    WrittenOver(&'static str),
}

/// What was saved, and everybody told, in this process.
#[derive(Default)]
pub(crate) struct Saved {
    from_harm: AtomicBool,
    from_move: AtomicBool,
}

impl Saved {
    /// Calls `save` where this process has not yet, with true if no other process does. A
    /// connection that may not write leaves that to those who may.
    pub fn once(&self, harm: &Harm, main: &dyn Below, save: impl FnOnce(bool)) {
        let Some(is_first) = main.is_first_to_save() else { return };
        let saved = match harm {
            Harm::Moved => &self.from_move,
            _ => &self.from_harm,
        };
        if !saved.swap(true, Relaxed) {
            save(is_first);
        }
        if is_first && matches!(harm, Harm::Moved) {
            main.may_save_again();
        }
    }

    /// The database file has its name, or has it again, and commits go on.
    #[inline]
    pub fn forget_move(&self) {
        if self.from_move.load(Relaxed) {
            self.from_move.store(false, Relaxed);
        }
    }
}

impl Harm {
    /// What everybody is told. `saved`: where what was acknowledged is. `None`: another connection
    /// saves it.
    pub(crate) fn told(&self, database: &str, saved: Option<io::Result<PathBuf>>) -> String {
        let what = match self {
            Harm::NameLost(name) => format!("{name}: removed or replaced while it is in use"),
            Harm::Moved => format!("{database}: removed or replaced while it is in use"),
            Harm::LogLost => format!("{database}: its log was removed or replaced"),
            Harm::WrittenOver(it) => format!("{database}: another program has written over {it}"),
        };
        let who = match self {
            Harm::Moved => "SQLite refuses to write until the file has its name again",
            _ => {
                "This process acknowledges no commit until it has closed all connections to the \
                    database"
            }
        };
        let saved = match saved {
            None => "Another connection saves what was acknowledged".to_owned(),
            Some(Ok(saved)) => format!("What was acknowledged is in {}", saved.display()),
            Some(Err(error)) => format!("What was acknowledged could not be saved: {error}"),
        };
        format!("oneflush: {what}. {who}. {saved} [OF-242]")
    }
}
