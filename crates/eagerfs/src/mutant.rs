//! Broken variants, each of which the crash simulator must catch. Without the feature `mutants`
//! there is none.

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The pending operations are not in the record of a sync.
    OperationsLeftOut,
    /// An operation is numbered before the one that came before it (T1).
    NumberedBefore,
    /// The bytes of a record stand before its operations (T2).
    BytesNumberedEarly,
    /// A sync is acknowledged, and its record is not written (T3).
    RecordNotWritten,
    /// An epoch is released before the lower is synced (T6).
    EarlyRelease,
    /// The same where the next epoch needs the lane (T6).
    EarlyReleaseWhenFull,
    /// What was logged of a file stays after a sync of the lower (T5).
    NotVoided,
    /// A file is cut before a record says so (T4).
    CutBeforeLog,
    /// Recovery gives a remade object its name before the log has its identity.
    IdentityAfterName,
    /// Recovery takes a remade object for a stranger.
    IdentityNotRead,
    /// A file replaces another before its bytes are logged (T7).
    NameBeforeContents,
    /// A sync that is the lower's does not sync the file.
    FileNotSynced,
    /// After a failed sync or write the tree goes on (T8).
    FailureForgotten,
    /// The lower is not marked (T9).
    NotMarked,
    /// The log is retired before what was replayed is durable.
    ReplayNotSynced,
    /// An unmount removes the log before the lower is durable.
    UnmountNotSynced,
}

pub const ALL: [Mutant; 16] = [
    Mutant::OperationsLeftOut,
    Mutant::NumberedBefore,
    Mutant::BytesNumberedEarly,
    Mutant::RecordNotWritten,
    Mutant::EarlyRelease,
    Mutant::EarlyReleaseWhenFull,
    Mutant::NotVoided,
    Mutant::CutBeforeLog,
    Mutant::IdentityAfterName,
    Mutant::IdentityNotRead,
    Mutant::NameBeforeContents,
    Mutant::FileNotSynced,
    Mutant::FailureForgotten,
    Mutant::NotMarked,
    Mutant::ReplayNotSynced,
    Mutant::UnmountNotSynced,
];

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::Cell;
    use std::sync::OnceLock;

    use super::Mutant;

    static EVERYWHERE: OnceLock<Mutant> = OnceLock::new();

    thread_local! {
        static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// This thread behaves so from now on.
    pub fn choose(mutant: Option<Mutant>) {
        CHOSEN.set(mutant);
    }

    /// This process behaves so to its end, where a thread has chosen nothing else.
    pub fn choose_everywhere(mutant: Mutant) {
        // The first choice counts.
        let _ = EVERYWHERE.set(mutant);
    }

    pub fn is(mutant: Mutant) -> bool {
        CHOSEN.get().or_else(|| EVERYWHERE.get().copied()) == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use chosen::{choose, choose_everywhere, is};

#[cfg(not(feature = "mutants"))]
pub const fn is(_: Mutant) -> bool {
    false
}
