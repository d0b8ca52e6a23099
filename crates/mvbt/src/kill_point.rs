//! Places where a process can be made to die, for the test that kills processes at each of them
//! (feature `kill-points`). Without the feature nothing of it is compiled.

oneflush_blocklog::kill_points! {
    /// The first user has made the shared memory, and nothing is in it.
    Made = "made",
    /// The first user has recovered the file, and nobody knows.
    Recovered = "recovered",
    /// A user has come in and said so.
    Joined = "joined",
    /// The writer's lock is taken.
    Locked = "locked",
    /// The version to be written is said.
    Begun = "begun",
    /// An anchor is durable, and nobody knows.
    Anchored = "anchored",
    /// Some pages of the transaction are written.
    Written = "written",
    /// All pages are written, and a commit block if there is one.
    Listed = "listed",
    /// The transaction is durable, and nobody knows.
    Durable = "durable",
    /// Some of the changed pages are entered.
    HalfEntered = "half-entered",
    /// All are, and readers do not know of the version.
    Entered = "entered",
    /// Readers know the version, and the writer still says that it writes.
    Published = "published",
    /// The writer's lock is about to be released.
    Unlocking = "unlocking",
    /// Another process has died, and its doings are about to be judged.
    Repairing = "repairing",
    /// A version is void, and readers do not know which one is current.
    Regenerated = "regenerated",
    /// A user goes, and has put its free pages back.
    Deposited = "deposited",
    /// The last user has closed the file.
    Closed = "closed",
    /// The shared memory is deleted.
    Deleted = "deleted",
}

impl KillPoint {
    #[cfg(feature = "kill-points")]
    pub fn reached(self) {
        oneflush_blocklog::kill_point::reached(self.name());
    }

    #[cfg(not(feature = "kill-points"))]
    #[inline(always)]
    pub fn reached(self) {}
}
