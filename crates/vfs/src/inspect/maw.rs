//! The log of `maw`, read to its end, as a recovery would.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use oneflush_blocklog::group::{Base, Group};
use oneflush_blocklog::{Log, Lsn, Storage, Uuid, delta};

use super::{InspectError, LogContents, is_the_wanted, open_to_read};
use crate::config::StrategyKind;
use crate::error::Code;
use crate::strategy::{
    FirstCommit, Follower, LogFile, Look, MawRecord as Record, RecoverError, find_linked, guard,
    is_log_behind, own_group, page_one_of_log,
};

/// What records have of one database.
struct Read<'a> {
    records: &'a mut u64,
    pages: &'a mut HashSet<u32>,
    page: Vec<u8>,
}

impl Read<'_> {
    fn add(&mut self, lsn: Lsn, group: Group<'_>) -> Result<(), RecoverError> {
        if group.database_pages == 0 {
            return Ok(());
        }
        *self.records += 1;
        for entry in group.pages() {
            let has_base = match entry.base {
                Base::Zeros => true,
                Base::Previous => self.pages.contains(&entry.page_no),
                Base::Database { .. } => false,
            };
            if !has_base {
                return Err(RecoverError::NoBase(lsn.0, entry.page_no));
            }
            // Whether it can be applied does not depend on what the page has.
            delta::apply(entry.delta, &mut self.page)?;
            self.pages.insert(entry.page_no);
        }
        Ok(())
    }
}

/// The files as they are, without a connection.
pub(super) struct OnDisk;

impl Look for OnDisk {
    fn is_there(&self, path: &str) -> Result<bool, Code> {
        Ok(Path::new(path).exists())
    }

    fn open(&self, log: &str) -> Result<Option<LogFile>, Code> {
        Ok(open_to_read(Path::new(log)).ok())
    }

    fn header(&self, database: &str) -> Result<Option<[u8; guard::HEADER_BYTES]>, Code> {
        let mut header = [0; guard::HEADER_BYTES];
        let read = File::open(database).and_then(|mut file| file.read_exact(&mut header));
        Ok(read.is_ok().then_some(header))
    }
}

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
    let (mut records, mut pages, mut link) = (0, HashSet::new(), None);
    let mut read =
        Read { records: &mut records, pages: &mut pages, page: vec![0; in_log as usize] };
    let mut first = FirstCommit::of(in_log);
    let scanned = opened.scan(|kind, lsn, payload| {
        let record = Record::decode(kind, payload)?;
        let own = record.own();
        first.see(lsn, &own)?;
        read.add(lsn, own)?;
        if let Record::Link { link: found, .. } = record {
            link = Some(found);
        }
        Ok(())
    });
    let failed = |error| match error {
        RecoverError::Log(source) => of_log(source),
        source => InspectError::Recover { database: database.to_owned(), source },
    };
    scanned.map_err(failed)?;
    let page_one = page_one_of_log(&opened, own_group).map_err(failed)?;
    let is_behind = page_one.is_some_and(|page_one| is_log_behind(&page_one, header));
    if *read.records > 0 && link.is_none() {
        if is_behind {
            return Err(failed(RecoverError::Behind));
        }
        first.check(header).map_err(failed)?;
    }
    if let Some(link) = link {
        let name = database.to_string_lossy();
        let follower = Follower { database: &name, uuid: opened.uuid() };
        let linked = find_linked(&link, &follower, &OnDisk)
            .map_err(|source| InspectError::LinkedLog { database: database.to_owned(), source })?;
        let scanned = linked.log.scan(|kind, lsn, payload| {
            match Record::decode(kind, payload)?.of(opened.uuid())? {
                Some(group) if lsn > link.behind => read.add(lsn, group),
                _ => Ok(()),
            }
        });
        scanned.map_err(failed)?;
    }
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
