//! Cutting free pages off the end of the file.
//!
//! 1. An anchor says that all blocks are settled: the newest may list a page of the end.
//! 2. A transaction takes the free pages at the end out of the lists, and counts less pages. A
//!    crash after it leaves a file that is longer than its pages.
//! 3. Another anchor: the transaction may have a block.
//! 4. The file is cut.
//!
//! A transaction cannot use again what it frees, and taking pages out of their tree frees pages of
//! that tree. So steps 1 and 2 are done until they find nothing more.

use std::time::{Duration, Instant};

use oneflush_blocklog::invariant;

use crate::commons::Then;
use crate::db::Database;
use crate::mutant::{self, Mutant};
use crate::shared::Shared;
use crate::store::Newest;
use crate::transaction::WriteTransaction;
use crate::work;
use crate::writer_lock::{Wait, WriterGuard};
use crate::{Error, Result, Version};

/// The tree of free pages may itself stand at the end, before and after it has moved.
const ROUNDS: usize = 3;

/// A look at all pages of a larger file takes so long that others would give up opening it.
const LOOKED_AT_BYTES_MAX: u64 = 1 << 30;

/// How long it waits in all for other transactions that write. Nobody can open or close the
/// database meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a cut has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// It has the rows of the version before.
    pub version: Version,
    /// Of the file.
    pub pages: u64,
    /// Of those, the ones that no reader needs.
    pub free: u64,
}

impl Database {
    /// Cuts the free pages at the end off the file. Those before are used lowest first from now on,
    /// so what is written next makes room for another cut. `version` is the last committed one.
    /// `looks_for_lost`: it looks for pages that belong to nobody since a crash, which reads the
    /// whole database, up to 1 GiB. `Busy`: there is a newer version, others use the database, or a
    /// transaction writes.
    pub fn shrink(&self, version: Version, looks_for_lost: bool) -> Result<Shrunk> {
        self.check_writable()?;
        let mut shrunk = Err(Error::Busy { what: "others use it. Close them first" });
        self.shared.board.settle(&mut |is_alone| {
            // Others have free pages at hand.
            if is_alone {
                shrunk = shrink(self, version, looks_for_lost);
            }
            Ok(Then::Stay)
        })?;
        shrunk
    }
}

fn shrink(database: &Database, version: Version, looks_for_lost: bool) -> Result<Shrunk> {
    let store = &database.shared.store;
    if looks_for_lost && store.size_bytes()? <= LOOKED_AT_BYTES_MAX {
        let mut writer = Shrink::new(database, version).writer()?;
        if database.find_lost(&mut writer).is_err() {
            // What cannot be read may be what only the history needs.
            store.check_usable()?;
        }
    }
    Shrink::new(database, version).run()
}

struct Shrink<'a> {
    database: &'a Database,
    until: Wait,
    /// The last one, of whoever has asked or of this.
    version: Version,
}

impl Shrink<'_> {
    fn new(database: &Database, version: Version) -> Shrink<'_> {
        Shrink { database, until: Wait::Until(Instant::now() + PATIENCE), version }
    }

    fn run(mut self) -> Result<Shrunk> {
        let store = &self.database.shared.store;
        let (mut pages, mut free) = (u64::MAX, 0);
        for _ in 0..ROUNDS {
            self.settle()?;
            let mut txn = WriteTransaction::begin(self.writer()?, None)?;
            let cut = txn.change(|work| work.cut())?;
            self.version = txn.commit()?;
            let is_last = cut.0 >= pages;
            (pages, free) = cut;
            if is_last {
                break;
            }
        }
        self.settle()?;
        let writer = self.writer()?;
        invariant!(
            "I23",
            "a file is cut after an anchor has settled all versions",
            writer.settled() >= self.database.shared.board.last(),
        );
        store.cut(work::page_count(&Newest(store))?)?;
        Ok(Shrunk { version: self.version, pages, free })
    }

    fn writer(&self) -> Result<WriterGuard> {
        let writer = self.database.writer(self.until)?;
        match self.database.data_version() == self.version {
            true => Ok(writer),
            false => Err(Error::Busy { what: "a transaction has come between" }),
        }
    }

    /// No block needs to be judged any more. So what the newest one lists can be used, or cut off.
    fn settle(&self) -> Result<()> {
        let Shared { store, board, .. } = &*self.database.shared;
        let mut writer = self.writer()?;
        writer.catch_up(store, board)?;
        if !mutant::is(Mutant::CutUnsettled) {
            writer.settle(store, board)?;
        }
        writer.pool.hold(None);
        Ok(())
    }
}
