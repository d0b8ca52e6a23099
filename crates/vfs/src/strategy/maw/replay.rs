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
use oneflush_blocklog::{Error as LogError, Head, Log, Lsn, Uuid, delta};
use rustc_hash::{FxHashMap, FxHashSet};

use super::open_log::OpenLog;
use super::record::{Link, Record, own_group};
use crate::error::Code;
use crate::port::Below;
use crate::strategy::guard;
use crate::strategy::log_files::{LogFile, settle};
use crate::strategy::log_life::AttachError;
use crate::strategy::page_one::page_one;
use crate::strategy::recover_error::RecoverError;

/// The pages that are made may take this much memory, before they are written.
const MEMORY_BYTES_MAX: usize = 4 << 20;

/// What a recovery has restored.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Replayed {
    pub records: u64,
    pub pages: u64,
}

/// Runs its argument with the log that a link names, while nobody appends there.
pub type WithLinked<'a> = &'a dyn Fn(
    &Link,
    &mut dyn FnMut(&Log<LogFile>) -> Result<Replayed, AttachError>,
) -> Result<Replayed, AttachError>;

/// Writes what the log has into the database file. The caller has it locked exclusively. Answers
/// the link too, if the last commits are in another log.
pub fn run(
    log: &mut OpenLog,
    main: &dyn Below,
    with_linked: WithLinked<'_>,
) -> Result<(Replayed, Option<Link>), AttachError> {
    settle(&log.log, &mut log.unsure)?;
    let (mut records, mut commits, mut link) = (0, false, None);
    let mut first = FirstCommit::of(log.log.page_bytes());
    // The whole log is checked before the file is written: damage may be behind valid records.
    let head = log.log.scan(|kind, lsn, payload| {
        records += 1;
        let record = Record::decode(kind, payload)?;
        let own = record.own();
        commits |= own.database_pages != 0;
        first.see(lsn, &own)?;
        if let Record::Link { link: found, .. } = record {
            link = Some(found);
        }
        Ok::<(), AttachError>(())
    })?;
    let Some(head) = head else {
        let empty = log.log.empty_head()?;
        log.found(empty, 0);
        return Ok((Replayed::default(), None));
    };
    let uuid = log.log.uuid();
    let replayed = match &link {
        Some(link) => with_linked(link, &mut |linked| {
            let head = linked.scan(|kind, _, payload| {
                Record::decode(kind, payload)?.of(uuid)?;
                Ok::<(), AttachError>(())
            })?;
            let of = Of::Linked { uuid, behind: link.behind };
            head.map_or(Ok(Replayed::default()), |head| {
                write_pages(linked, &head, main, of, log.log.page_bytes())
            })
        })?,
        None if commits => {
            let header = guard::header(main)?;
            if let Some(found) = page_one(&log.log, own_group)?
                && is_behind(&found, &header)
            {
                return Err(RecoverError::Behind.into());
            }
            first.check(&header)?;
            write_pages(&log.log, &head, main, Of::Own(uuid), log.log.page_bytes())?
        }
        None => Replayed::default(),
    };
    log.found(head, records);
    Ok((Replayed { records: replayed.records.max(records), ..replayed }, link))
}

/// The part of a log that is a database's. The UUID is that of its own log, which the guard names.
#[derive(Clone, Copy)]
enum Of {
    Own(Uuid),
    /// In another log, behind a record.
    Linked {
        uuid: Uuid,
        behind: Lsn,
    },
}

impl Of {
    fn guard(self) -> Uuid {
        match self {
            Of::Own(uuid) | Of::Linked { uuid, .. } => uuid,
        }
    }

    fn pages<'a>(self, record: &Record<'a>, lsn: Lsn) -> Result<Option<Group<'a>>, LogError> {
        match self {
            Of::Own(_) => Ok(Some(record.own())),
            Of::Linked { behind, .. } if lsn <= behind => Ok(None),
            Of::Linked { uuid, .. } => record.of(uuid),
        }
    }
}

fn write_pages(
    log: &Log<LogFile>,
    head: &Head,
    main: &dyn Below,
    of: Of,
    page_bytes: u32,
) -> Result<Replayed, AttachError> {
    let page_bytes = page_bytes as usize;
    let (made, in_memory) = (FxHashSet::default(), FxHashMap::default());
    let mut pages = Pages { uuid: of.guard(), main, page_bytes, made, in_memory };
    let (mut records, mut database_pages) = (0, 0);
    log.replay(head, |kind, lsn, payload| {
        let record = Record::decode(kind, payload)?;
        // Invariant 3 of the log.
        let group = of.pages(&record, lsn)?.filter(|group| group.database_pages != 0);
        let Some(group) = group else { return Ok::<(), AttachError>(()) };
        records += 1;
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
    if records > 0 && main.size_bytes()? != size_bytes {
        main.truncate(size_bytes)?;
    }
    Ok(Replayed { records, pages: pages.made.len() as u64 })
}

/// The first page 1 of a commit in an epoch.
///
/// An epoch begins when the database file has all commits before, durably. So a file whose change
/// counter is smaller than before that commit is an older one. Pages that the epoch does not have
/// would stay as they were then.
pub struct FirstCommit {
    page_bytes: usize,
    /// The record, and the change counter.
    found: Option<(Lsn, u32)>,
}

impl FirstCommit {
    pub fn of(page_bytes: u32) -> FirstCommit {
        FirstCommit { page_bytes: page_bytes as usize, found: None }
    }

    pub fn see(&mut self, lsn: Lsn, group: &Group<'_>) -> Result<(), LogError> {
        if self.found.is_some() || group.database_pages == 0 {
            return Ok(());
        }
        let page_one = group.pages().find(|entry| entry.page_no == 1);
        if let Some(entry) = page_one.filter(|entry| matches!(entry.base, Base::Zeros)) {
            let mut page = vec![0; self.page_bytes];
            delta::apply(entry.delta, &mut page)?;
            self.found = Some((lsn, counter(&page)));
        }
        Ok(())
    }

    /// `header` is the database file's.
    pub fn check(&self, header: &[u8]) -> Result<(), RecoverError> {
        match self.found {
            Some((lsn, first))
                if guard::is_database(header)
                    && is_later(first.wrapping_sub(1), counter(header)) =>
            {
                Err(RecoverError::OtherBase(lsn.0, 1))
            }
            _ => Ok(()),
        }
    }
}

/// True if the database file with this header has a later commit than the log, whose newest page 1
/// is this one.
///
/// The file gets a commit only when the log has it. So the log has lost its last record to damage.
/// With the other pages of that commit as they were before, half of it would be there.
pub fn is_behind(page_one: &[u8], header: &[u8]) -> bool {
    guard::is_database(header) && is_later(counter(header), counter(page_one))
}

fn counter(page_one: &[u8]) -> u32 {
    guard::change_counter(page_one).unwrap_or_default()
}

/// Change counters begin anew behind the largest one.
fn is_later(counter: u32, than: u32) -> bool {
    (1..=u32::MAX / 2).contains(&counter.wrapping_sub(than))
}

fn impossible(lsn: Lsn, page_no: u32) -> AttachError {
    RecoverError::NoBase(lsn.0, page_no).into()
}

struct Pages<'a> {
    /// What the guard names.
    uuid: Uuid,
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
                guard::set(&mut page, self.uuid);
            }
            self.main.write(&page, self.offset(page_no))?;
        }
        Ok(())
    }

    fn offset(&self, page_no: u32) -> u64 {
        (u64::from(page_no) - 1) * self.page_bytes as u64
    }
}
