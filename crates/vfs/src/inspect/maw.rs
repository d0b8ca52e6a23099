//! The log of `maw`, read to its end, as a recovery would.

use std::collections::HashSet;
use std::path::Path;

use oneflush_blocklog::group::{Base, Group};
use oneflush_blocklog::{Log, Storage, delta};

use super::{InspectError, LogContents, is_the_wanted, open_to_read};
use crate::config::StrategyKind;
use crate::strategy::{RecoverError, guard};
use oneflush_blocklog::Uuid;

/// Records that hold no commit are not counted: they are there for a torn header.
pub(super) fn contents(
    database: &Path,
    log: &Path,
    wanted: Option<Uuid>,
    header: &[u8],
) -> Result<LogContents, InspectError> {
    let of_log = |source| InspectError::Log { log: log.to_owned(), source };
    let opened = open_to_read(log).and_then(Log::open).map_err(of_log)?;
    is_the_wanted(log, wanted, opened.uuid())?;
    let (in_log, in_database) = (opened.page_bytes(), guard::page_bytes(header));
    if wanted.is_some() && in_log != in_database {
        return Err(InspectError::PageSize { log: log.to_owned(), in_log, in_database });
    }
    let (mut records, mut pages) = (0, HashSet::new());
    let mut page = vec![0; in_log as usize];
    let read = opened.scan(|kind, lsn, payload| {
        let group = Group::decode(kind, payload)?;
        if group.database_pages == 0 {
            return Ok(());
        }
        records += 1;
        for entry in group.pages() {
            let has_base = match entry.base {
                Base::Zeros => true,
                Base::Previous => pages.contains(&entry.page_no),
                Base::Database { .. } => false,
            };
            if !has_base {
                return Err(RecoverError::NoBase(lsn.0, entry.page_no));
            }
            // Whether it can be applied does not depend on what the page has.
            delta::apply(entry.delta, &mut page)?;
            pages.insert(entry.page_no);
        }
        Ok(())
    });
    read.map_err(|error| match error {
        RecoverError::Log(source) => of_log(source),
        source => InspectError::Recover { database: database.to_owned(), source },
    })?;
    Ok(LogContents {
        strategy: StrategyKind::Maw,
        uuid: opened.uuid().to_string(),
        records: Some(records),
        frames: None,
        frames_behind: None,
        slots: None,
        layout: None,
        pages: pages.len() as u64,
        log_bytes: opened.storage().size_bytes().unwrap_or_default(),
        image_frames: None,
    })
}
