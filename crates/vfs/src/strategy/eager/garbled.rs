//! Whether a file that begins as no database does is one whose first page a crash has garbled, or something else that was put in its
//! place beside the log: an encrypted database for instance, which must not get the log's page 1.
//!
//! A crash garbles only what was being written. The guard's own write leaves the first bytes, and all behind the guard. A write of the
//! whole page by a checkpoint may leave no sector of it; but the other pages of the file begin as pages of a database do. Those of an
//! encrypted file, or of one of another kind, do so by accident only: in one of 32.

use super::guard;
use crate::error::Code;
use crate::strategy::Below;

/// What a device writes at once.
const SECTOR_BYTES: usize = 512;

/// Of so many pages behind the first at most is looked at the first byte.
const PAGES_MAX: u64 = 64;

/// True if the file is the one whose page 1 the log has. `page_one` is that page.
pub fn is_likely(main: &dyn Below, page_one: &[u8]) -> Result<bool, Code> {
    let mut found = vec![0; page_one.len()];
    let size_bytes = main.size_bytes()?;
    let all = match main.read(&mut found, 0) {
        Err(Code::SHORT_READ) => 0,
        read => read.map(|()| size_bytes / page_one.len() as u64)?,
    };
    // A file of one page has no table, so there is nothing in it that could be lost.
    if guard::is_any_database(&found) || size_bytes == page_one.len() as u64 {
        return Ok(true);
    }
    // Most of a small database's first page is zeros, as of much else.
    let is_kept = |(found, logged): (&[u8], &[u8])| found == logged && found.iter().any(|&byte| byte != 0);
    if found.chunks(SECTOR_BYTES).zip(page_one.chunks(SECTOR_BYTES)).any(is_kept) {
        return Ok(true);
    }
    let (mut looked_at, mut plausible) = (0, 0);
    for page in 1..all.min(PAGES_MAX) {
        let mut first = [0];
        main.read(&mut first, page * page_one.len() as u64)?;
        looked_at += 1;
        plausible += u32::from(begins_a_page(first[0]));
    }
    Ok(looked_at > 0 && plausible * 4 >= looked_at * 3)
}

/// "Database File Format": the kind of a b-tree page or of an entry of a pointer map, or the highest byte of a page number.
fn begins_a_page(first: u8) -> bool {
    matches!(first, 0..=5 | 10 | 13)
}
