//! Page 1 as a log has it. The log has it whole, or not at all.

use oneflush_blocklog::group::{Base, Group, PageEntry};
use oneflush_blocklog::{Error as LogError, Log, Lsn, delta};

use super::log_files::LogFile;
use super::recover_error::RecoverError;

/// Reads the group of pages of a record of this kind: [`Group::decode`], or that of another log.
pub type DecodeGroup = for<'a> fn(u8, &'a [u8]) -> Result<Group<'a>, LogError>;

/// The newest version of page 1 that the log holds.
pub fn page_one(log: &Log<LogFile>, decode: DecodeGroup) -> Result<Option<Vec<u8>>, RecoverError> {
    let mut content = None;
    log.scan(|kind, lsn, payload| {
        let group = decode(kind, payload)?;
        content = page_one_behind(content.take(), group, lsn, log.page_bytes() as usize)?;
        Ok::<(), RecoverError>(())
    })?;
    Ok(content)
}

/// [`page_one`] of an epoch's first records, which the caller has read.
pub fn page_one_of<'a>(
    records: impl Iterator<Item = (u8, Lsn, &'a [u8])>,
    page_bytes: usize,
    decode: DecodeGroup,
) -> Result<Option<Vec<u8>>, RecoverError> {
    let mut content = None;
    for (kind, lsn, payload) in records {
        content = page_one_behind(content, decode(kind, payload)?, lsn, page_bytes)?;
    }
    Ok(content)
}

fn page_one_behind(
    mut content: Option<Vec<u8>>,
    group: Group<'_>,
    lsn: Lsn,
    page_bytes: usize,
) -> Result<Option<Vec<u8>>, RecoverError> {
    for PageEntry { page_no, base, in_row, delta: changes } in group.pages() {
        if page_no != 1 {
            continue;
        }
        if in_row {
            return Err(RecoverError::Impossible(lsn.0));
        }
        let mut page = match base {
            Base::Zeros => vec![0; page_bytes],
            Base::Previous | Base::Database { .. } => {
                content.take().ok_or(RecoverError::NoBase(lsn.0, 1))?
            }
        };
        delta::apply(changes, &mut page)?;
        content = Some(page);
    }
    Ok(content)
}
