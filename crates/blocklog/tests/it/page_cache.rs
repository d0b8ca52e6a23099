//! The page cache of a real file.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use oneflush_blocklog::page_cache::{cached_pages, write_out};

#[test]
fn what_is_written_out_is_neither_dirty_nor_on_its_way() {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = file.as_file();
    file.write_all_at(&[7; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[8; 64 << 10], 128 << 10).unwrap();
    let pages = || {
        cached_pages(file.as_fd(), 128 << 10, 64 << 10)
            .map(|pages| (pages.dirty, pages.in_writeback))
    };
    // A kernel that cannot say, or a file system without dirty pages.
    if pages().is_none_or(|pages| pages == (0, 0)) {
        return;
    }
    write_out(file.as_fd(), 128 << 10, 64 << 10);
    assert_eq!(pages(), Some((0, 0)));
}
