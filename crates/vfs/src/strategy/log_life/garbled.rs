//! A file does not begin as a database does, and a log is beside it. Has a crash garbled its page
//! 1, or is it another file in the same place? An encrypted database, for instance, must not get
//! the log's page 1.
//!
//! A crash garbles only what was being written. A checkpoint writes only pages that the log has
//! (invariant 3 of [`log`](crate::strategy::eager::log)), and may have been writing any of them.
//! So the other pages tell. In a database of ours all of them begin as pages do. In an encrypted
//! file, or one of another kind, one in 32 does so by accident.
//!
//! Where there are too few other pages, the file is taken for the garbled one: no commit may be
//! lost. With `maw` a file grows before its commit. Its pages behind the end that the newest page 1
//! names may have anything, and do not count. (`waldio` keeps an older page 1.)

use rustc_hash::FxHashSet;

use crate::error::Code;
use crate::port::Below;
use crate::strategy::guard;

/// The first byte of so many pages is looked at: at least, and at most.
const PAGES_MIN: u32 = 8;
const PAGES_MAX: usize = 64;

/// True if the file may be the one whose page 1 the log has. `logged`: the pages that the log has.
/// `None`: the log may have had any page.
/// `grows_before_commit`: [`KeptLog::GROWS_BEFORE_COMMIT`](super::KeptLog::GROWS_BEFORE_COMMIT).
pub fn is_likely(
    main: &dyn Below,
    page_one: &[u8],
    logged: Option<&FxHashSet<u32>>,
    grows_before_commit: bool,
) -> Result<bool, Code> {
    let mut header = [0; guard::HEADER_BYTES];
    main.read(&mut header, 0)?;
    let Some(logged) = logged.filter(|_| !guard::is_any_database(&header)) else { return Ok(true) };
    let page_bytes = page_one.len() as u64;
    let pages = u32::try_from(main.size_bytes()? / page_bytes).unwrap_or(u32::MAX);
    let end = guard::database_pages(page_one).filter(|_| grows_before_commit);
    let pages = pages.min(end.unwrap_or(u32::MAX));
    let (mut looked_at, mut plausible) = (0, 0);
    for page_no in (2..=pages).filter(|page_no| !logged.contains(page_no)).take(PAGES_MAX) {
        let mut first = [0];
        main.read(&mut first, u64::from(page_no - 1) * page_bytes)?;
        looked_at += 1;
        plausible += u32::from(begins_a_page(first[0]));
    }
    Ok(looked_at < PAGES_MIN || plausible * 2 >= looked_at)
}

/// The kinds of a b-tree page and of an entry of a pointer map, and likely highest bytes of a page
/// number ("Database File Format").
fn begins_a_page(first: u8) -> bool {
    matches!(first, 0..=5 | 10 | 13)
}
