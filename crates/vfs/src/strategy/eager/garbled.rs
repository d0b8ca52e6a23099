//! Whether a file that begins as no database does is one whose first page a crash has garbled, or something else that was put in its
//! place beside the log: an encrypted database for instance, which must not get the log's page 1.
//!
//! A crash garbles only what was being written. A checkpoint may have been writing many pages, and a small file may be garbled in all of them. So
//! only a file is refused of which many pages can be looked at, and nearly none begins as a page of a database does. Those of an encrypted
//! file, or of one of another kind, do so by accident only: in one of 32. A smaller file is taken for the garbled one: a commit must not be lost.

use super::guard;
use crate::error::Code;
use crate::strategy::Below;

/// Of so many pages behind the first, at least and at most, is looked at the first byte.
const PAGES_MIN: u64 = 16;
const PAGES_MAX: u64 = 64;

/// True if the file is the one whose page 1 the log has. `page_one` is that page.
pub fn is_likely(main: &dyn Below, page_one: &[u8]) -> Result<bool, Code> {
    let mut found = vec![0; guard::HEADER_BYTES];
    main.read(&mut found, 0)?;
    let page_bytes = page_one.len() as u64;
    let pages = (main.size_bytes()? / page_bytes).min(PAGES_MAX);
    if guard::is_any_database(&found) || pages <= PAGES_MIN {
        return Ok(true);
    }
    let mut plausible = 0;
    for page in 1..pages {
        let mut first = [0];
        main.read(&mut first, page * page_bytes)?;
        plausible += u64::from(begins_a_page(first[0]));
    }
    Ok(plausible * 8 >= pages)
}

/// "Database File Format": the kind of a b-tree page or of an entry of a pointer map, or the highest byte of a page number.
fn begins_a_page(first: u8) -> bool {
    matches!(first, 0..=5 | 10 | 13)
}
