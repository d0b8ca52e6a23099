//! Reads the newest epoch's records and makes the pages that they change.
//!
//! A *page image* is a page that a checkpoint logged whole. What comes before the last page image
//! of a page is not built: its deltas are against the database file, which the checkpoint may have
//! changed in part.
//!
//! A page may be copied from such a page. Then the log did not contain the copy either, so the same
//! checkpoint logged both whole. One case is left: a crash came between the two page images. Then
//! the checkpoint has not begun to write. Both pages are made from the page images before, or from
//! the start.
//!
//! A page may have several page images. After the death of a process the next one does not know
//! which pages the log contains, and logs them again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use oneflush_blocklog::delta::{self, ROW_PAGES_MAX};
use oneflush_blocklog::group::{Base, Begin, Group, KIND_IMAGES, PageEntry, page_crc};
use oneflush_blocklog::{Head, Log, Lsn};

use super::rebuilt::{Rebuilt, RebuiltPages};
use crate::error::Code;
use crate::port::Below;
use crate::strategy::log_files::LogFile;
use crate::strategy::recover_error::RecoverError;
use crate::wal_file::Chain;

/// A page that is copied from another one in a record.
struct Copied {
    lsn: Lsn,
    to: u32,
    from: u32,
}

pub struct Building<'a> {
    pub pages: RebuiltPages<'a>,
    pub database_pages: u32,
    /// The frames of the image that the epoch stands on.
    pub on_image: Option<(u32, Chain)>,
    pub records: u64,
    /// The page images of each page, in the order of the log. What comes before one of them need
    /// not be built.
    images: HashMap<u32, Vec<Lsn>>,
    /// Pages that are needed in spite of a later page image, because others are copied from them.
    /// The record is the first such copy: page images behind it replace nothing before it.
    kept: HashMap<u32, Lsn>,
}

/// Makes all pages of the newest epoch, in `pages`. `None`: there is no epoch. `will_read` is told
/// which pages of the database will be read, in their order. The records are read twice, since they
/// may be more than the memory that a recovery should take.
pub fn build<'a>(
    log: &Log<LogFile>,
    main: &dyn Below,
    pages: RebuiltPages<'a>,
    will_read: &dyn Fn(&[u32]),
) -> Result<Option<(Head, Building<'a>)>, RecoverError> {
    let mut built = Building::new(pages);
    let mut plan = Plan::default();
    let head = log.scan(|kind, lsn, payload| built.note(&mut plan, kind, lsn, payload))?;
    let Some(head) = head else { return Ok(None) };
    built.keep(&plan.copied);
    plan.read.retain(|&page_no, &mut lsn| !built.is_replaced(page_no, lsn));
    will_read(&plan.read.into_keys().collect::<Vec<u32>>());
    log.replay(&head, |kind, lsn, payload| built.record(main, kind, lsn, payload))?;
    Ok(Some((head, built)))
}

/// Makes all pages of an epoch's first records, which the caller has read. An error says how many
/// records before it there are.
pub fn build_of<'a>(
    records: &[(u8, Lsn, Vec<u8>)],
    main: &dyn Below,
    pages: RebuiltPages<'a>,
) -> Result<Building<'a>, (usize, RecoverError)> {
    let mut built = Building::new(pages);
    let mut plan = Plan::default();
    for (before, (kind, lsn, payload)) in records.iter().enumerate() {
        built.note(&mut plan, *kind, *lsn, payload).map_err(|error| (before, error))?;
    }
    built.keep(&plan.copied);
    for (before, (kind, lsn, payload)) in records.iter().enumerate() {
        built.record(main, *kind, *lsn, payload).map_err(|error| (before, error))?;
    }
    Ok(built)
}

/// What is found out before anything is built.
#[derive(Default)]
struct Plan {
    /// Pages of the database file that deltas are against, each with its last record of that kind.
    read: BTreeMap<u32, Lsn>,
    copied: Vec<Copied>,
}

fn note_copied(
    group: &Group<'_>,
    page_bytes: usize,
    lsn: Lsn,
    copied: &mut Vec<Copied>,
) -> Result<(), RecoverError> {
    if !group.pages().any(|entry| entry.in_row) {
        return Ok(());
    }
    let entries: Vec<PageEntry<'_>> = group.pages().take(ROW_PAGES_MAX + 1).collect();
    for (own, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.in_row) {
        let sources = delta::sources(entry.delta, page_bytes, own, entries.len())?;
        let others =
            entries.iter().enumerate().filter(|(at, _)| *at != own && sources & 1 << at != 0);
        copied.extend(others.map(|(_, from)| Copied {
            lsn,
            to: entry.page_no,
            from: from.page_no,
        }));
    }
    Ok(())
}

impl<'a> Building<'a> {
    fn new(pages: RebuiltPages<'a>) -> Building<'a> {
        Building {
            pages,
            database_pages: 0,
            on_image: None,
            records: 0,
            images: HashMap::new(),
            kept: HashMap::new(),
        }
    }

    fn note(
        &mut self,
        plan: &mut Plan,
        kind: u8,
        lsn: Lsn,
        payload: &[u8],
    ) -> Result<(), RecoverError> {
        let group = Group::decode(kind, payload)?;
        for entry in group.pages() {
            if kind == KIND_IMAGES {
                let images = self.images.entry(entry.page_no).or_default();
                if images.last() != Some(&lsn) {
                    images.push(lsn);
                }
            } else if matches!(entry.base, Base::Database { .. }) {
                plan.read.insert(entry.page_no, lsn);
            }
        }
        note_copied(&group, self.pages.page_bytes(), lsn, &mut plan.copied)
    }

    /// Nobody needs what this record makes of the page: a page image comes behind it.
    fn is_replaced(&self, page_no: u32, lsn: Lsn) -> bool {
        let Some(images) = self.images.get(&page_no) else { return false };
        let next = images.get(images.partition_point(|&at| at <= lsn));
        next.is_some_and(|at| self.kept.get(&page_no).is_none_or(|needed| at < needed))
    }

    /// Finds the pages that must be built in spite of a page image, because a page that is needed
    /// is copied from them.
    fn keep(&mut self, copied: &[Copied]) {
        loop {
            let mut found = false;
            // The source of a copy was itself copied in an earlier record. So the way back finds
            // most in one pass.
            for copy in copied.iter().rev() {
                if !self.is_replaced(copy.to, copy.lsn) && self.is_replaced(copy.from, copy.lsn) {
                    // The record is never later than the one there: a source of that one is not
                    // replaced here.
                    self.kept.insert(copy.from, copy.lsn);
                    found = true;
                }
            }
            if !found {
                return;
            }
        }
    }

    fn record(
        &mut self,
        main: &dyn Below,
        kind: u8,
        lsn: Lsn,
        payload: &[u8],
    ) -> Result<(), RecoverError> {
        let group = Group::decode(kind, payload)?;
        self.records += 1;
        if let Some(Begin::Image { frames, salt, checksum }) = group.begin {
            let chain = Chain { salt, checksum };
            if !self.pages.stand_on(frames, chain)? {
                return Err(RecoverError::Image(frames));
            }
            self.on_image = Some((frames, chain));
        }
        if group.database_pages != 0 {
            self.database_pages = group.database_pages;
        }
        if group.pages().any(|entry| entry.in_row) {
            return self.row(main, kind, lsn, &group);
        }
        for entry in group.pages() {
            if self.is_replaced(entry.page_no, lsn) {
                continue;
            }
            let mut rebuilt = self.take_base(main, lsn, &entry)?;
            delta::apply(entry.delta, &mut rebuilt.content)?;
            self.pages.put(entry.page_no, rebuilt)?;
        }
        Ok(())
    }

    /// Builds a record with copies between its pages. All bases are read first.
    fn row(
        &mut self,
        main: &dyn Below,
        kind: u8,
        lsn: Lsn,
        group: &Group<'_>,
    ) -> Result<(), RecoverError> {
        let entries: Vec<PageEntry<'_>> = group.pages().take(ROW_PAGES_MAX + 1).collect();
        let page_nos: BTreeSet<u32> = entries.iter().map(|entry| entry.page_no).collect();
        if kind == KIND_IMAGES || entries.len() > ROW_PAGES_MAX || page_nos.len() != entries.len() {
            return Err(RecoverError::Impossible(lsn.0));
        }
        let page_bytes = self.pages.page_bytes();
        let mut row = vec![0; entries.len() * page_bytes];
        // One bit a page.
        let (mut contained, mut missing) = (0u64, 0u64);
        for (own, entry) in entries.iter().enumerate() {
            if self.is_replaced(entry.page_no, lsn) {
                missing |= 1 << own;
                continue;
            }
            let base = self.take_base(main, lsn, entry)?;
            row[own * page_bytes..][..page_bytes].copy_from_slice(&base.content);
            contained |= u64::from(base.contained) << own;
        }
        for (own, entry) in entries.iter().enumerate().filter(|(own, _)| missing & 1 << own == 0) {
            let mut content = row[own * page_bytes..][..page_bytes].to_vec();
            let mut sources = 1 << own;
            if entry.in_row {
                sources |= delta::sources(entry.delta, page_bytes, own, entries.len())?;
                if sources & missing != 0 {
                    return Err(RecoverError::NoBase(lsn.0, entry.page_no));
                }
                delta::apply_in_row(entry.delta, &row, own, &mut content)?;
            } else {
                delta::apply(entry.delta, &mut content)?;
            }
            self.pages
                .put(entry.page_no, Rebuilt { content, contained: sources & !contained == 0 })?;
        }
        Ok(())
    }

    /// The base of a page's delta.
    fn take_base(
        &mut self,
        main: &dyn Below,
        lsn: Lsn,
        entry: &PageEntry<'_>,
    ) -> Result<Rebuilt, RecoverError> {
        let &PageEntry { page_no, base, .. } = entry;
        let page_bytes = self.pages.page_bytes();
        match base {
            Base::Zeros => Ok(Rebuilt { content: vec![0; page_bytes], contained: true }),
            Base::Previous => self.pages.take(page_no)?.ok_or(RecoverError::NoBase(lsn.0, page_no)),
            Base::Database { crc } => {
                let mut content = vec![0; page_bytes];
                match main.read(&mut content, u64::from(page_no - 1) * page_bytes as u64) {
                    Ok(()) | Err(Code::SHORT_READ) => {}
                    Err(code) => return Err(code.into()),
                }
                if page_crc(&content) != crc {
                    return Err(RecoverError::OtherBase(lsn.0, page_no));
                }
                Ok(Rebuilt { content, contained: false })
            }
        }
    }
}
