//! What a record is made of.

use oneflush_blocklog::group::Begin;

use super::recent::Frames;
use crate::error::Code;
use crate::port::Below;
use crate::wal_file::WalFile;

/// The pages of a record, and where each of them is.
pub struct Draft<'a> {
    pub begin: Option<Begin>,
    pub database_pages: u32,
    pub main: &'a dyn Below,
    pub image: &'a WalFile<'a>,
    pub recent: &'a Frames,
    /// (page, its last frame), ordered by page.
    pub last_frames: &'a [(u32, u32)],
}

impl Draft<'_> {
    pub fn page<'p>(&'p self, frame: u32, buffer: &'p mut Vec<u8>) -> Result<&'p [u8], Code> {
        if let Some((_, page)) = self.recent.get(frame, self.image.page_bytes) {
            return Ok(page);
        }
        self.image.page(frame, buffer)?;
        Ok(buffer)
    }
}
