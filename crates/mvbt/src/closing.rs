//! Closing a database: what becomes of the free pages that a user has at hand.

use crate::Result;
use crate::anchor;
use crate::commons::Then;
use crate::db::Database;
use crate::kill_point::KillPoint;
use crate::transaction::WriteTransaction;
use crate::work::Deposit;
use crate::writer_lock::Wait;

/// A close tries so often to leave no page to nobody: a deposit may itself free some.
const DEPOSITS: usize = 3;

pub fn close(database: &Database) -> Result<()> {
    if database.shared.options.read_only {
        return database.shared.board.settle(&mut |_| Ok(Then::Leave));
    }
    let mut has_left = false;
    while !has_left {
        hand_over(database)?;
        KillPoint::Deposited.reached();
        database.shared.board.settle(&mut |is_alone| {
            if is_alone {
                end(database)?;
            } else if database.shared.writer.has_pages() {
                // Somebody has come since.
                return Ok(Then::Stay);
            }
            has_left = true;
            Ok(Then::Leave)
        })?;
    }
    Ok(())
}

/// Leaves the free pages of this user to the others, if there are any. Those that readers may still
/// reach go into the tree of free pages, with the version from which on they are free.
fn hand_over(database: &Database) -> Result<()> {
    let mut is_alone = false;
    database.shared.board.settle(&mut |alone| {
        is_alone = alone;
        Ok(Then::Stay)
    })?;
    if is_alone || !database.shared.writer.has_pages() {
        return Ok(());
    }
    deposit(database, Deposit::AllFreed, 0)?;
    let mut writer = database.writer(Wait::ForEver)?;
    database.shared.board.leave(&writer.pool.take_fresh());
    Ok(())
}

/// Puts free pages into their tree, until no more than so many are left that somebody may reach.
fn deposit(database: &Database, which: Deposit, freed_max: usize) -> Result<()> {
    for _ in 0..DEPOSITS {
        let mut txn = WriteTransaction::begin(database.writer(Wait::ForEver)?, None)?;
        txn.change(|work| work.deposit(which))?;
        txn.commit()?;
        if database.writer(Wait::ForEver)?.pool.freed_count() <= freed_max {
            break;
        }
    }
    Ok(())
}

/// Nobody else uses the database.
fn end(database: &Database) -> Result<()> {
    let shared = &database.shared;
    if database.writer(Wait::ForEver)?.is_closed(&shared.board) {
        return Ok(());
    }
    deposit(database, Deposit::AllButAnchored, anchor::KEPT_MAX)?;
    database.writer(Wait::ForEver)?.close(&shared.store, &shared.board)
}
