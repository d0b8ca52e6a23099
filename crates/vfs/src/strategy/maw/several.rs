//! Connections whose transactions end together, by one super-journal (rule 3 of `maw`).

use super::outcome::Outcome;
use super::together::{self, Part};
use super::{Maw, State};
use crate::error::{Code, Error};
use crate::port::SyncRequest;

/// A panic in a transaction of several databases is one for each of them. SQLite makes the call for
/// none of them.
struct Together<'a>(&'a [&'a Maw]);

impl Drop for Together<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|connection| connection.transaction_panicked());
        }
    }
}

/// Commits the transactions of several connections together (rule 3). False: it cannot be done in
/// one record, and nothing was written.
pub fn commit_together(connections: &[&Maw]) -> Result<bool, Error> {
    let _together = Together(connections);
    let mut states: Vec<_> = connections.iter().map(|one| one.state()).collect();
    let mut parts = Vec::new();
    for (connection, state) in connections.iter().zip(&mut states) {
        let State { main: Some(main), transaction, .. } = &mut **state else {
            return Err(Error::Below(Code::IOERR_WRITE));
        };
        if !transaction.is_synced(&connection.options) {
            return Ok(false);
        }
        let batch = transaction.batch(&**main)?;
        parts.push(Part {
            log: &connection.log,
            main: &**main,
            batch,
            options: &connection.options,
        });
    }
    let outcome = together::commit(&parts).map_err(|error| {
        connections.iter().zip(&parts).fold(error, |error, (one, part)| one.noted(part.main, error))
    })?;
    drop(parts);
    if outcome == Outcome::Declined {
        return Ok(false);
    }
    for (connection, state) in connections.iter().zip(&mut states) {
        state.transaction.note_committed();
        if let Outcome::InLogOnly(code) = outcome {
            state.transaction.fail_to_end(code);
            state.is_unsettled = true;
        }
        connection.log.count(|counts| counts.together += 1);
    }
    match outcome {
        Outcome::InLogOnly(code) => Err(code.into()),
        _ => Ok(true),
    }
}

/// Writes the transactions of several connections out as ordinary journaled ones, and their pages
/// in place, durably.
pub fn materialise_together(connections: &[&Maw]) -> Result<(), Error> {
    let _together = Together(connections);
    for connection in connections {
        let mut state = connection.state();
        connection.materialise(&mut state)?;
        let State { main: Some(main), transaction, .. } = &*state else { continue };
        if transaction.is_synced(&connection.options) {
            main.sync(SyncRequest::ALL)?;
        }
    }
    Ok(())
}
