//! Cutting free pages off the end of the file.
//!
//! | step | what a crash after it leaves |
//! |---|---|
//! | 1. an anchor says that all blocks are settled: the newest may list a page of the end | all as before |
//! | 2. a transaction takes the free pages at the end out of the lists, and counts less pages | a file that is longer than its pages |
//! | 3. another anchor: the transaction may have a block | the same |
//! | 4. the file is cut | |
//!
//! A transaction cannot use again what it frees, and taking pages out of their tree frees pages of
//! that tree. So steps 1 and 2 are done until they find nothing more.

use std::time::{Duration, Instant};

use crate::commons::Then;
use crate::db::Database;
use crate::mutant::{self, Mutant};
use crate::shared::Shared;
use crate::store::Newest;
use crate::transaction::WriteTransaction;
use crate::work;
use crate::writer_lock::Wait;
use crate::{Error, Result};

/// The tree of free pages may itself stand at the end, before and after it has moved.
const ROUNDS: usize = 3;

/// How long it waits for another transaction that writes. Nobody can open or close the database
/// meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a cut has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// Of the file.
    pub pages: u64,
    /// Of those, the ones that no reader needs.
    pub free: u64,
}

impl Database {
    /// Cuts the free pages at the end off the file. Those before are used lowest first from now on,
    /// so what is written next makes room for another cut. `Busy`: others use the database, or a
    /// transaction writes.
    pub fn shrink(&self) -> Result<Shrunk> {
        self.check_writable()?;
        let mut shrunk = Err(Error::Busy { what: "others use it. Close them first" });
        self.shared.board.settle(&mut |is_alone| {
            // Others have free pages at hand.
            if is_alone {
                shrunk = shrink(self);
            }
            Ok(Then::Stay)
        })?;
        shrunk
    }
}

fn wait() -> Wait {
    Wait::Until(Instant::now() + PATIENCE)
}

fn shrink(database: &Database) -> Result<Shrunk> {
    let shared = &database.shared;
    let mut shrunk = Shrunk { pages: u64::MAX, free: 0 };
    for _ in 0..ROUNDS {
        settle(database)?;
        let mut txn = WriteTransaction::begin(database.writer(wait())?, None)?;
        let (pages, free) = txn.change(|work| work.cut())?;
        txn.commit()?;
        let is_last = pages >= shrunk.pages;
        shrunk = Shrunk { pages, free };
        if is_last {
            break;
        }
    }
    settle(database)?;
    let _writer = database.writer(wait())?;
    shared.store.cut(work::page_count(&Newest(&shared.store))?)?;
    Ok(shrunk)
}

/// No block needs to be judged any more. So what the newest one lists can be used, or cut off.
fn settle(database: &Database) -> Result<()> {
    let Shared { store, board, .. } = &*database.shared;
    let mut writer = database.writer(wait())?;
    writer.catch_up(store, board)?;
    if !mutant::is(Mutant::CutUnsettled) {
        writer.settle(store, board)?;
    }
    writer.pool.hold(None);
    Ok(())
}
