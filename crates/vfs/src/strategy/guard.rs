//! The guard keeps plain SQLite from a database file whose log may hold commits.
//!
//! | bytes | while the guard is set | without the guard |
//! |---|---|---|
//! | 18 and 19 | 3 and 3 | 2 and 2 in WAL mode, 1 and 1 in a rollback mode |
//! | 72 to 87 | the UUID of the log | zeros |
//! | 88 to 91 | the CRC32C of that UUID; its complement in a rollback mode | zeros |
//!
//! Bytes 18 and 19 are SQLite's "file format write version, read version". "If the read version is
//! greater than 2 the database file cannot be read." Bytes 72 to 91 are reserved in SQLite's format
//! and kept zero. Oneflush's VFS shows SQLite the bytes of the right column.
//!
//! All these bytes lie in the first 512 bytes, so they change together. A crash may garble what is
//! being written. So the log has page 1 whole before the guard is set or taken away.

use oneflush_blocklog::group::page_crc;
use oneflush_blocklog::{Uuid, invariant};

use crate::error::Code;
use crate::mutant::{self, Mutant};
use crate::port::Below;

/// The range of the database header that the guard changes. It is written at once.
pub const FIRST: usize = 18;
pub const END: usize = CRC_AT + 4;

const UUID_AT: usize = 72;
const CRC_AT: usize = 88;
const VERSION_GUARDED: u8 = 3;
const VERSION_WAL: u8 = 2;
const VERSION_ROLLBACK: u8 = 1;

/// How SQLite makes the commits of a database atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Wal,
    Rollback,
}

impl Mode {
    fn version(self) -> u8 {
        match self {
            Mode::Wal => VERSION_WAL,
            Mode::Rollback => VERSION_ROLLBACK,
        }
    }

    fn crc(self, uuid: &[u8; 16]) -> [u8; 4] {
        let crc = page_crc(uuid);
        match self {
            Mode::Wal => crc,
            Mode::Rollback => !crc,
        }
        .to_be_bytes()
    }
}

/// The bytes of a database header that these functions need.
pub const HEADER_BYTES: usize = 100;

/// The first bytes of a database file.
pub fn header(main: &dyn Below) -> Result<[u8; HEADER_BYTES], Code> {
    let mut header = [0; HEADER_BYTES];
    main.read(&mut header, 0)?;
    Ok(header)
}

/// The size of the pages. "The value 1 representing a page size of 65536."
pub fn page_bytes(header: &[u8]) -> u32 {
    match header.get(16..18) {
        Some(&[0, 1]) => 65_536,
        Some(&[high, low]) => u32::from(u16::from_be_bytes([high, low])),
        _ => 0,
    }
}

/// "File change counter": each commit adds one, but in exclusive locking mode.
pub fn change_counter(header: &[u8]) -> Option<u32> {
    header.get(24..28)?.try_into().ok().map(u32::from_be_bytes)
}

/// The size of the database in pages, as its header has it. `None`: the header does not say.
pub fn database_pages(header: &[u8]) -> Option<u32> {
    let pages = header.get(28..32)?.try_into().ok().map(u32::from_be_bytes)?;
    Some(pages).filter(|&pages| pages > 0)
}

fn version_guarded() -> u8 {
    if mutant::is(Mutant::GuardUnseen) { VERSION_WAL } else { VERSION_GUARDED }
}

/// The log that the guard in this header names. None: the guard is not set.
pub fn of(header: &[u8]) -> Option<Uuid> {
    guard(header).map(|(uuid, _)| uuid)
}

/// The log that the guard in this header names, and the mode that the guard hides.
fn guard(header: &[u8]) -> Option<(Uuid, Mode)> {
    named(header).filter(|_| header[FIRST..=FIRST + 1] == [version_guarded(); 2])
}

/// The mode of a database with this header, with or without guard.
pub fn mode(header: &[u8]) -> Option<Mode> {
    if let Some((_, mode)) = guard(header) {
        return Some(mode);
    }
    let versions = header.get(FIRST..=FIRST + 1)?;
    [Mode::Wal, Mode::Rollback].into_iter().find(|mode| versions == [mode.version(); 2])
}

/// The log that this header names, and the mode that goes with it.
fn named(header: &[u8]) -> Option<(Uuid, Mode)> {
    let named = header.get(UUID_AT..END)?;
    let uuid: [u8; 16] = named[..16].try_into().ok()?;
    let mode =
        [Mode::Wal, Mode::Rollback].into_iter().find(|mode| named[16..] == mode.crc(&uuid))?;
    Some((Uuid(uuid), mode))
}

/// True if the guard is off and only the name of a log is left.
///
/// A write that was to take the guard away ended half-way. The database file had everything by
/// then. SQLite alone may have changed it since.
fn is_half_cleared(header: &[u8]) -> bool {
    named(header).is_some()
        && header[FIRST..=FIRST + 1].iter().all(|version| matches!(version, 1 | 2))
}

/// True if this is the header of a database, with or without guard.
///
/// Only the bytes that the guard changes, and some beside them, are looked at. A database has
/// "SQLite format 3", versions 1 or 2, payload fractions 64, 32 and 32, and zeros in the reserved
/// bytes. Otherwise a crash has garbled the header.
pub fn is_database(header: &[u8]) -> bool {
    header.len() >= HEADER_BYTES
        && is_any_database(header)
        && (of(header).is_some()
            || is_half_cleared(header)
            || (header[FIRST..=FIRST + 1].iter().all(|version| matches!(version, 1 | 2))
                && header[UUID_AT..END].iter().all(|&byte| byte == 0)))
}

/// True if SQLite may take this for a database.
pub fn is_any_database(header: &[u8]) -> bool {
    header.starts_with(b"SQLite format 3\0") && header.get(21..24) == Some(&[64, 32, 32])
}

/// True if the guard can be set here: a database in this mode whose reserved bytes are zero or
/// Oneflush's.
pub fn is_possible(header: &[u8], mode: Mode) -> bool {
    is_database(header) && header[FIRST..=FIRST + 1] == [mode.version(); 2]
}

/// True if SQLite may have a WAL for a database with this header.
///
/// False for a database in a rollback mode, an empty file, and what is no database, whatever lies
/// beside it.
pub fn has_wal(header: &[u8]) -> bool {
    match guard(header) {
        Some((_, mode)) => mode == Mode::Wal,
        None => is_any_database(header) && header[FIRST + 1] >= VERSION_WAL,
    }
}

/// Takes the guard out of the first page, or out of a part of it that begins at 0.
pub fn hide(page: &mut [u8]) {
    if let Some((_, mode)) = guard(page) {
        page[FIRST..=FIRST + 1].fill(mode.version());
        page[UUID_AT..END].fill(0);
    } else if is_half_cleared(page) {
        page[UUID_AT..END].fill(0);
    }
}

/// Reads from the database file, and takes the guard out of what was read.
pub fn read(main: &dyn Below, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
    let result = main.read(buffer, offset);
    if offset == 0 && matches!(result, Ok(()) | Err(Code::SHORT_READ)) {
        hide(buffer);
    }
    result
}

/// Page 1 as a checkpoint writes it to a guarded database file. `None`: the page is written as it
/// is. `log` is asked for page 1 only.
pub fn guarded(page: &[u8], offset: u64, log: impl FnOnce() -> Option<Uuid>) -> Option<Vec<u8>> {
    if offset != 0 || page.len() < END {
        return None;
    }
    let log = log()?;
    let mut page = page.to_vec();
    if !mutant::is(Mutant::GuardClearedEarly) {
        set(&mut page, log);
    }
    invariant!("G1", "page 1 names the log while the log is in use", of(&page) == Some(log));
    Some(page)
}

/// Puts the guard into the first page. It keeps the mode of the page.
pub fn set(page: &mut [u8], log: Uuid) {
    let mode = mode(page).unwrap_or(Mode::Wal);
    page[FIRST..=FIRST + 1].fill(version_guarded());
    page[UUID_AT..CRC_AT].copy_from_slice(&log.0);
    page[CRC_AT..END].copy_from_slice(&mode.crc(&log.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Uuid = Uuid([7; 16]);

    fn header() -> Vec<u8> {
        let mut header: Vec<u8> = (0..HEADER_BYTES as u8).collect();
        header[..16].copy_from_slice(b"SQLite format 3\0");
        header[21..24].copy_from_slice(&[64, 32, 32]);
        header[FIRST..=FIRST + 1].fill(VERSION_WAL);
        header[UUID_AT..END].fill(0);
        header
    }

    #[test]
    fn what_is_hidden_is_what_was_before_the_guard() {
        let plain = header();
        assert!(is_possible(&plain, Mode::Wal));
        let mut guarded = plain.clone();
        set(&mut guarded, LOG);
        assert_eq!(of(&guarded), Some(LOG));
        assert!(!is_possible(&guarded, Mode::Wal));
        hide(&mut guarded);
        assert_eq!(guarded, plain);
        hide(&mut guarded);
        assert_eq!(guarded, plain);
    }

    #[test]
    fn a_guard_keeps_the_mode_that_it_hides() {
        for mode in [Mode::Wal, Mode::Rollback] {
            let mut plain = header();
            plain[FIRST..=FIRST + 1].fill(mode.version());
            let mut guarded = plain.clone();
            set(&mut guarded, LOG);
            assert_eq!((of(&guarded), super::mode(&guarded)), (Some(LOG), Some(mode)));
            assert_eq!(has_wal(&guarded), mode == Mode::Wal);
            let once = guarded.clone();
            set(&mut guarded, LOG);
            assert_eq!(guarded, once);
            hide(&mut guarded);
            assert_eq!(guarded, plain);
        }
    }

    #[test]
    fn a_header_that_was_garbled_where_the_guard_is_written_is_no_database() {
        let mut guarded = header();
        set(&mut guarded, LOG);
        assert!(is_database(&guarded) && is_database(&header()));
        for at in [FIRST, FIRST + 1, 21, 22, 23, UUID_AT, UUID_AT + 15, CRC_AT, END - 1] {
            for good in [&guarded, &header()] {
                let mut garbled = good.clone();
                garbled[at] ^= 0x54;
                assert!(!is_database(&garbled) && !is_possible(&garbled, Mode::Wal), "byte {at}");
            }
        }
    }

    #[test]
    fn a_guard_that_was_taken_away_by_half_is_none() {
        let mut half = header();
        set(&mut half, LOG);
        half[FIRST..=FIRST + 1].fill(VERSION_WAL);
        assert!(of(&half).is_none() && is_database(&half) && is_possible(&half, Mode::Wal));
        hide(&mut half);
        assert_eq!(half, header());
    }

    #[test]
    fn only_a_database_in_wal_mode_has_a_wal_with_and_without_guard() {
        let mut header = header();
        assert!(has_wal(&header));
        let mut guarded = header.clone();
        set(&mut guarded, LOG);
        assert!(has_wal(&guarded));
        header[FIRST..=FIRST + 1].fill(1);
        assert!(!has_wal(&header) && !has_wal(&[]) && !has_wal(&[0x5a; HEADER_BYTES]));
    }

    #[test]
    fn a_header_without_guard_or_too_short_for_one_stays_as_it_is() {
        assert_eq!(of(&header()), None);
        for len in 0..END {
            let mut short = vec![3; len];
            hide(&mut short);
            assert_eq!(short, vec![3; len]);
        }
    }
}
