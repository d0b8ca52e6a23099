//! What a commit does while no other process changes the log.

use std::time::Duration;

use crate::error::Code;
use crate::strategy::board::Board;

/// How long a commit waits for another process that has the board's lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `act` while no other process changes the log, or takes its last record for what it is.
pub fn under_lock<T, E: From<Code>>(
    board: &Board,
    act: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if !board.common().lock_unless(0, PATIENCE, &|| false)? {
        return Err(Code::BUSY.into());
    }
    let _locked = board.locked(true);
    act()
}

/// An error if the log has failed, or if the file may have half a commit of the log.
pub fn must_be_whole(board: &Board) -> Result<(), Code> {
    match board.failure() {
        Some(code) => Err(code),
        None if board.is_busy() => Err(Code::IOERR_WRITE),
        None => Ok(()),
    }
}
