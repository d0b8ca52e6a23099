//! Recovery: writes what the log has into the database file (rule 5 of `maw`).
//!
//! 1. Reads the newest epoch of the log, and checks it to its end.
//! 2. Writes the newest version of each of its pages in place, with the guard in page 1.
//! 3. Gives the file the size that the last commit left.
//!
//! Nothing is synced, for the log keeps what it has. So a crash during a recovery leaves what was
//! there before or some pages of it, and the next recovery does the same again. Pages that an epoch
//! touches are whole at their first touch: what the file has of them does not count.

use oneflush_blocklog::group::{Base, Group};
use oneflush_blocklog::{Head, Log, Lsn, delta};
use rustc_hash::{FxHashMap, FxHashSet};

use super::open_log::OpenLog;
use crate::error::Code;
use crate::port::Below;
use crate::strategy::RecoverError;
use crate::strategy::guard;
use crate::strategy::log_files::LogFile;
use crate::strategy::log_life::AttachError;

/// The pages that are made may take this much memory, before they are written.
const MEMORY_BYTES_MAX: usize = 4 << 20;

/// What a recovery has restored.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Replayed {
    pub records: u64,
    pub pages: u64,
}

/// Writes what the log has into the database file. The caller has it locked exclusively.
pub fn run(log: &mut OpenLog, main: &dyn Below) -> Result<Replayed, AttachError> {
    if let Some(lsn) = log.unsure {
        log.log.write_again(lsn)?;
        log.unsure = None;
    }
    let (mut records, mut commits) = (0, false);
    // The whole log is checked before the file is written: damage may be behind valid records.
    let head = log.log.scan(|kind, _, payload| {
        records += 1;
        commits |= Group::decode(kind, payload)?.database_pages != 0;
        Ok::<(), AttachError>(())
    })?;
    let Some(head) = head else {
        let empty = log.log.empty_head()?;
        log.found(empty, 0);
        return Ok(Replayed::default());
    };
    let replayed = if commits { write_pages(&log.log, &head, main)? } else { Replayed::default() };
    log.found(head, records);
    Ok(Replayed { records, ..replayed })
}

fn write_pages(log: &Log<LogFile>, head: &Head, main: &dyn Below) -> Result<Replayed, AttachError> {
    let page_bytes = log.page_bytes() as usize;
    let mut pages = Pages {
        log,
        main,
        page_bytes,
        made: FxHashSet::default(),
        in_memory: FxHashMap::default(),
    };
    let mut database_pages = 0;
    log.replay(head, |kind, lsn, payload| {
        let group = Group::decode(kind, payload)?;
        if group.database_pages == 0 {
            // Invariant 3 of the log.
            return Ok::<(), AttachError>(());
        }
        database_pages = group.database_pages;
        for entry in group.pages() {
            let mut page = match entry.base {
                Base::Zeros => vec![0; page_bytes],
                Base::Previous => pages.take(entry.page_no, lsn)?,
                Base::Database { .. } => return Err(impossible(lsn, entry.page_no)),
            };
            delta::apply(entry.delta, &mut page)?;
            pages.put(entry.page_no, page)?;
        }
        Ok(())
    })?;
    pages.write()?;
    let size_bytes = u64::from(database_pages) * page_bytes as u64;
    if main.size_bytes()? != size_bytes {
        main.truncate(size_bytes)?;
    }
    Ok(Replayed { records: 0, pages: pages.made.len() as u64 })
}

fn impossible(lsn: Lsn, page_no: u32) -> AttachError {
    RecoverError::NoBase(lsn.0, page_no).into()
}

struct Pages<'a> {
    log: &'a Log<LogFile>,
    main: &'a dyn Below,
    page_bytes: usize,
    /// Pages that were made, in memory or written.
    made: FxHashSet<u32>,
    in_memory: FxHashMap<u32, Vec<u8>>,
}

impl Pages<'_> {
    fn take(&mut self, page_no: u32, lsn: Lsn) -> Result<Vec<u8>, AttachError> {
        if let Some(page) = self.in_memory.remove(&page_no) {
            return Ok(page);
        }
        if !self.made.contains(&page_no) {
            return Err(impossible(lsn, page_no));
        }
        let mut page = vec![0; self.page_bytes];
        guard::read(self.main, &mut page, self.offset(page_no))?;
        Ok(page)
    }

    fn put(&mut self, page_no: u32, page: Vec<u8>) -> Result<(), AttachError> {
        if page_no == 0 {
            return Err(AttachError::Below(Code::CORRUPT));
        }
        self.made.insert(page_no);
        self.in_memory.insert(page_no, page);
        if self.in_memory.len() * self.page_bytes > MEMORY_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), AttachError> {
        let mut pages: Vec<_> = std::mem::take(&mut self.in_memory).into_iter().collect();
        pages.sort_unstable_by_key(|(page_no, _)| *page_no);
        for (page_no, mut page) in pages {
            if page_no == 1 {
                guard::set(&mut page, self.log.uuid());
            }
            self.main.write(&page, self.offset(page_no))?;
        }
        Ok(())
    }

    fn offset(&self, page_no: u32) -> u64 {
        (u64::from(page_no) - 1) * self.page_bytes as u64
    }
}

/// The newest version of page 1 that the log has, whole.
pub fn page_one(log: &Log<LogFile>) -> Result<Option<Vec<u8>>, AttachError> {
    let mut content: Option<Vec<u8>> = None;
    log.scan(|kind, lsn, payload| {
        for entry in Group::decode(kind, payload)?.pages().filter(|entry| entry.page_no == 1) {
            let mut page = match entry.base {
                Base::Zeros => vec![0; log.page_bytes() as usize],
                _ => content.take().ok_or_else(|| impossible(lsn, 1))?,
            };
            delta::apply(entry.delta, &mut page)?;
            content = Some(page);
        }
        Ok::<(), AttachError>(())
    })?;
    Ok(content)
}
