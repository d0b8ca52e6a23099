//! The WAL image, as a source of a database.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::Path;

use oneflush_blocklog::group::page_crc;

use super::records::Built;
use super::{Aside, SalvageError};
use crate::file_below::FileBelow;
use crate::names::image_path;
use crate::port::Below;
use crate::wal_file::{FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, WalFile};

impl Aside {
    /// True if the image has, for each page of the log, the version that the log has.
    pub(super) fn image_has_what_the_log_has(&self) -> Result<bool, SalvageError> {
        let Some(versions) = image_pages(&self.copied(&image_path("")), self.page_bytes)? else {
            return Ok(false);
        };
        let scratch = self.folder.join("log-wal");
        let built = self.build(&scratch)?;
        let _ = fs::remove_file(&scratch);
        let Some(Built { contents, .. }) = built else { return Ok(true) };
        Ok(contents
            .iter()
            .all(|(page_no, content)| versions.get(page_no).is_some_and(|of| of.contains(content))))
    }
}

/// The pages of all commits in an image, with the checksums of all their versions. None: the file
/// is no image of pages of this size.
pub(super) fn image_pages(
    path: &Path,
    page_bytes: usize,
) -> Result<Option<HashMap<u32, HashSet<u32>>>, SalvageError> {
    let image = FileBelow(File::open(path).ok());
    let mut header = [0; HEADER_BYTES as usize];
    if image.read(&mut header, 0).is_err() {
        return Ok(None);
    }
    let Some((_, mut chain)) = WalFile::header(&header).filter(|(found, _)| *found == page_bytes)
    else {
        return Ok(None);
    };
    let wal = WalFile { file: &image, page_bytes };
    let (mut pages, mut open) = (HashMap::<u32, HashSet<u32>>::new(), Vec::new());
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    for number in 1..=wal.frames()? {
        image.read(&mut frame, wal.offset_of(number))?;
        let Some(found) = frame.first_chunk().map(FrameHeader::decode) else { break };
        chain = chain.behind(&frame);
        if found.chain != chain || found.page_no == 0 {
            break;
        }
        open.push((found.page_no, page_crc(&frame[FRAME_HEADER_BYTES..])));
        if found.database_pages != 0 {
            for (page_no, content) in open.drain(..) {
                pages.entry(page_no).or_default().insert(content);
            }
        }
    }
    Ok(Some(pages))
}
