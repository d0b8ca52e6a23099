//! What of a commit goes to the database file itself, where the log has it too.

use super::open_log::OpenLog;
use super::overlay::Batch;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::Below;
use crate::strategy::board::Board;
use crate::strategy::guard::{self, Mode};

/// The header of the database file. `None` for what a log of these pages cannot take: a new
/// database, whose header could not take the guard, and a change of the journal mode or of the page
/// size.
pub fn header_for_the_log(
    main: &dyn Below,
    batch: &Batch<'_>,
) -> Result<Option<[u8; guard::HEADER_BYTES]>, Code> {
    if batch.size_bytes_before < batch.unit_bytes {
        return Ok(None);
    }
    let is_fit = |header: &[u8]| {
        guard::mode(header) == Some(Mode::Rollback)
            && u64::from(guard::page_bytes(header)) == batch.unit_bytes
    };
    let header = guard::header(main)?;
    Ok((is_fit(&header) && batch.page(1).is_none_or(is_fit)).then_some(header))
}

/// Writes the pages behind the end of the file. `SQLITE_FULL` leaves the file as it was.
pub fn grow_file(main: &dyn Below, batch: &Batch<'_>) -> Result<(), Error> {
    for (offset, unit) in batch.writes().filter(|(offset, _)| *offset >= batch.size_bytes_before) {
        if let Err(code) = main.write(unit, offset) {
            let _ = main.truncate(batch.size_bytes_before);
            return Err(code.into());
        }
    }
    Ok(())
}

/// Writes a batch in place that the log has. After an error `Busy` stays: until a replay has
/// cleared it, nobody reads the file, and nobody commits.
pub fn write_in_place(
    log: &OpenLog,
    board: &Board,
    main: &dyn Below,
    batch: &Batch<'_>,
) -> Result<(), Code> {
    let mut page_one = Vec::new();
    let written = batch.writes().enumerate().try_for_each(|(at, (offset, unit))| {
        main.write(guarded(unit, offset, log, &mut page_one), offset)?;
        if at == 0 {
            KillPoint::HalfInPlace.reached();
        }
        Ok::<(), Code>(())
    });
    let is_long_enough = batch.size_bytes == batch.size_bytes_before.max(batch.end_bytes());
    written?;
    if let Some(page) = batch.page(1) {
        board.note_change_counter(guard::change_counter(page));
    }
    if is_long_enough { Ok(()) } else { main.truncate(batch.size_bytes) }
}

/// The unit as it is written to the file: page 1 gets the guard.
fn guarded<'a>(unit: &'a [u8], offset: u64, log: &OpenLog, page_one: &'a mut Vec<u8>) -> &'a [u8] {
    if offset != 0 {
        return unit;
    }
    page_one.clear();
    page_one.extend_from_slice(unit);
    guard::set(page_one, log.log.uuid());
    page_one
}
