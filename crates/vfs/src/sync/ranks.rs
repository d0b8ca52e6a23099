//! The order of this crate's locks. A thread that holds one takes only locks further down in this
//! list.
//!
//! Each lock has its rank in its type. Builds with debug assertions panic at a breach, and so do
//! all tests. A mutex without a rank is a [`LEAF`].
//!
//! What may be shared with other processes is no mutex. A thread may wait for SQLite's locks and
//! for the board's while it holds locks of this list. Those waits have limits
//! (`strategy/eager/waiting.rs`).
//!
//! **Several at once.** A transaction over several databases takes those of all of them
//! (`strategy/maw/several.rs`). SQLite has them all locked exclusively, so nobody else waits for
//! one of them with another one in hand.
//!
//! **Another connection.** A log is left by another connection that is opened and closed meanwhile
//! ([`apart`](super::apart)). It has locks of another database, and begins with this list anew. It
//! waits for nobody who waits for the first one: a log names the databases that are linked to it,
//! and who is linked names nobody in its own.
//!
//! **A wait for ever.** A commit waits for its flush, or for another's, with [`WAL`] held. Only the
//! connection itself takes that mutex, and SQLite lets one thread at a time call it. The thread
//! that flushes has locks of its own connection, and those further down.

macro_rules! in_order {
    ($($(#[$about:meta])* $rank:ident,)*) => {
        #[expect(clippy::upper_case_acronyms, non_camel_case_types)]
        enum Order {
            $($(#[$about])* $rank,)*
        }

        $($(#[$about])* pub const $rank: u8 = Order::$rank as u8;)*
    };
}

in_order! {
    /// The registered VFSs.
    SHIMS,
    /// An absorbed super-journal, while its databases commit.
    SUPER_JOURNAL,
    /// The transaction of a connection with `maw`, which wraps another strategy. Several.
    ABSORBED,
    /// The log of a database with `maw`. Several.
    MAW_LOG,
    /// The number of locks that a connection has asked for.
    ASKED,
    /// The WAL of a connection.
    WAL,
    /// Frames held back.
    HELD,
    /// How far a last close has come.
    CLOSING,
    /// The database file of a connection, with `eager` over a flush.
    MAIN,
    /// Frames of a transaction with `waldio`.
    TRANSACTION,
    /// The log of a database with `eager` or `waldio`.
    LOG,
    /// Frames of a connection with `eager`.
    FRAMES,
    /// Frames that wait for the log of `eager`.
    UNLOGGED,
    /// The log of a database that is only read.
    LOOKS_ON,
    /// The mend of a database's header.
    MENDING,
    /// The databases of this process.
    DATABASES,
    /// What was measured of a database.
    MEASURED,
    /// Files that a fork has to look after.
    OPENED,
    /// The writer of the groups of `waldio`.
    GROUP_WRITING,
    /// The groups of `waldio`.
    GROUP,
    /// The slots of `waldio`, while they are written.
    SLOTS,
    /// Frames that `waldio` has read ahead.
    AHEAD,
    /// The indexes whose locks are kept.
    BELTS,
    /// The canary, while it is put back.
    PASSES,
    /// The seat of a connection at an index.
    SEAT,
    /// A file of our own.
    FILES,
    /// Nothing is taken while it is held.
    LEAF,
    /// What stands for the kernel in tests and in the model. Several.
    #[cfg(any(test, feature = "shuttle"))]
    STUB,
}

/// Several locks of this rank may be held.
#[cfg(debug_assertions)]
pub(super) const fn may_be_several(rank: u8) -> bool {
    matches!(rank, ABSORBED | MAW_LOG) || rank > LEAF
}
