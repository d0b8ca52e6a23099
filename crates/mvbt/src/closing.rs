//! Closing a database: what becomes of the free pages that a user has at hand.

use crate::Result;
use crate::commons::Then;
use crate::db::Database;
use crate::kill_point::KillPoint;

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

/// Leaves the free pages of this user to the others, if there are any.
fn hand_over(database: &Database) -> Result<()> {
    let mut is_alone = false;
    database.shared.board.settle(&mut |alone| {
        is_alone = alone;
        Ok(Then::Stay)
    })?;
    if is_alone || !database.shared.writer.has_pages() {
        return Ok(());
    }
    deposit(database)?;
    let mut writer = database.guard()?;
    database.shared.board.leave(&writer.pool.take_fresh());
    Ok(())
}

/// Puts all free pages but a few into their tree.
fn deposit(database: &Database) -> Result<()> {
    let mut txn = database.begin_write()?;
    txn.change(|work| work.deposit(true))?;
    txn.commit().map(drop)
}

/// Nobody else uses the database.
fn end(database: &Database) -> Result<()> {
    let shared = &database.shared;
    if database.guard()?.is_closed(&shared.board) {
        return Ok(());
    }
    deposit(database)?;
    database.guard()?.close(&shared.store, &shared.board)
}
