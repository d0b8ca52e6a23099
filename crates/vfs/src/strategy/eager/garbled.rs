//! Whether a file that begins as no database does is one whose first page a crash has garbled, or something else that was put in its
//! place beside the log: an encrypted database for instance, which must not get the log's page 1.
//!
//! A crash garbles only what was being written. A checkpoint writes no page that the log does not have (invariant 3 of [`log`](super::log)), and it
//! may have been writing all of those. So the others tell: in a database of ours all of them begin as pages do. Those of an encrypted file,
//! or of one of another kind, do so by accident only: in one of 32. Where there are too few others, the file is taken for the garbled one: a
//! commit must not be lost.

use rustc_hash::FxHashSet;

use crate::error::Code;
use crate::port::Below;
use crate::strategy::guard;

/// Of so many pages, at least and at most, is looked at the first byte.
const PAGES_MIN: u32 = 8;
const PAGES_MAX: usize = 64;

/// True if the file may be the one whose page 1 the log has. `logged`: the pages that the log has; None: it may have had any.
pub fn is_likely(main: &dyn Below, page_bytes: u64, logged: Option<&FxHashSet<u32>>) -> Result<bool, Code> {
    let mut header = [0; guard::HEADER_BYTES];
    main.read(&mut header, 0)?;
    let Some(logged) = logged.filter(|_| !guard::is_any_database(&header)) else { return Ok(true) };
    let pages = u32::try_from(main.size_bytes()? / page_bytes).unwrap_or(u32::MAX);
    let (mut looked_at, mut plausible) = (0, 0);
    for page_no in (2..=pages).filter(|page_no| !logged.contains(page_no)).take(PAGES_MAX) {
        let mut first = [0];
        main.read(&mut first, u64::from(page_no - 1) * page_bytes)?;
        looked_at += 1;
        plausible += u32::from(begins_a_page(first[0]));
    }
    Ok(looked_at < PAGES_MIN || plausible * 2 >= looked_at)
}

/// "Database File Format": the kind of a b-tree page or of an entry of a pointer map, or the highest byte of a page number.
fn begins_a_page(first: u8) -> bool {
    matches!(first, 0..=5 | 10 | 13)
}
