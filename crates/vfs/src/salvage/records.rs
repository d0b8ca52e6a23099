//! The records of a log that can be read, and the WAL that is made from them.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::path::Path;

use oneflush_blocklog::group::{KIND_IMAGES, page_crc};
use oneflush_blocklog::{DirectFile, Error as LogError, Log, Lsn, Uuid};

use super::{Aside, SalvageError, failed};
use crate::file_below::FileBelow;
use crate::names::image_path;
use crate::port::{Below, SyncRequest};
use crate::strategy::{LogFile, MawRecord, RebuiltPages, RecoverError, build_of, write_image};
use crate::wal_file::WalFile;

/// A WAL made from records of the log.
pub(super) struct Built {
    pub records: usize,
    /// The pages of the WAL, with the checksums of their contents.
    pub contents: HashMap<u32, u32>,
}

impl Aside {
    /// Finds the readable records of the log that the database names. The logs of `eager` and `maw`
    /// have one format.
    pub(super) fn read_log(
        &mut self,
        log_path: impl FnOnce(&str) -> String,
    ) -> Result<(), SalvageError> {
        let path = self.copied(&log_path(""));
        if !path.exists() {
            return Ok(());
        }
        let open = || Ok(LogFile(Box::new(DirectFile::open_to_read(&path)?)));
        let logs = match Log::open(open()?) {
            Ok(log) if self.uuid.is_none_or(|uuid| uuid == log.uuid()) => {
                self.uuid = Some(log.uuid());
                self.page_bytes = log.page_bytes() as usize;
                vec![log]
            }
            Err(LogError::HeaderDamaged | LogError::NotALog) => match self.uuid {
                Some(uuid) => Log::open_without_header(open, uuid, self.page_bytes as u32)?,
                None => Vec::new(),
            },
            // The log is another database's, or it is empty, or it has an unknown format.
            _ => Vec::new(),
        };
        for log in logs {
            if let Ok(found) = log.salvage()
                && found.records.len() > self.found.records.len()
            {
                self.found = found;
            }
        }
        Ok(())
    }

    /// Writes the pages of the log into a WAL for SQLite. None: the log has no usable pages.
    pub(super) fn build(&self, wal: &Path) -> Result<Option<Built>, SalvageError> {
        let whole = |record: &oneflush_blocklog::ReadRecord| {
            Some((record.kind, record.lsn, record.payload.clone()?))
        };
        let mut records: Vec<(u8, Lsn, Vec<u8>)> =
            self.found.records.iter().map_while(whole).collect();
        let main = FileBelow(Some(File::open(self.copied("")).map_err(failed(&self.copied("")))?));
        while !records.is_empty() {
            let image = self.copied(&image_path(""));
            if image.exists() {
                fs::copy(&image, wal).map_err(failed(wal))?;
            }
            let made =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(wal);
            let file = FileBelow(Some(made.map_err(failed(wal))?));
            let image = WalFile { file: &file, page_bytes: self.page_bytes };
            match build_of(&records, &main, RebuiltPages::new(image, usize::MAX)) {
                Ok(built) => {
                    let salt = Uuid::random()?.0;
                    let word = |at: usize| {
                        u32::from_ne_bytes([salt[at], salt[at + 1], salt[at + 2], salt[at + 3]])
                    };
                    let (pages, _) = match write_image(built, &main, image, [word(0), word(4)]) {
                        Ok(written) => written,
                        Err(RecoverError::Below(code)) => return Err(code.into()),
                        Err(_) => return Ok(None),
                    };
                    let mut contents = HashMap::new();
                    let mut content = Vec::new();
                    for (page_no, page) in pages {
                        image.page(page.frame, &mut content)?;
                        contents.insert(page_no, page_crc(&content));
                    }
                    file.sync(SyncRequest::ALL)?;
                    return Ok(Some(Built { records: records.len(), contents }));
                }
                Err((_, RecoverError::Below(code))) => return Err(code.into()),
                // The version that this record changes is gone. So the record is of no use either.
                Err((before, _)) => records.truncate(before),
            }
        }
        let _ = fs::remove_file(wal);
        Ok(None)
    }

    /// What a database lacks that has the first `built` records: the number of records, and the
    /// number of pages that they change. The last value is true if no checkpoint can be among them.
    pub(super) fn lost(&self, built: usize) -> (Option<u64>, u64, bool) {
        let records = &self.found.records;
        let unbuilt = records.iter().skip(built);
        let known: Vec<_> = unbuilt.chain(&self.found.behind).collect();
        let last = built.checked_sub(1).and_then(|at| records.get(at)).map(|record| record.lsn.0);
        let newest = known.iter().map(|record| record.lsn.0).max();
        let count = match (last, newest) {
            (Some(last), Some(newest)) => newest.saturating_sub(last),
            _ => known.len() as u64,
        };
        let mut pages = HashSet::new();
        for payload in known
            .iter()
            .filter_map(|record| record.payload.as_ref().map(|payload| (record.kind, payload)))
        {
            if let Ok(record) = MawRecord::decode(payload.0, payload.1) {
                pages.extend(record.own().pages().map(|entry| entry.page_no));
            }
        }
        let are_told = known.len() as u64 == count
            && self.found.behind.iter().all(|record| record.payload.is_some());
        let is_exact =
            are_told && last.is_some() && known.iter().all(|record| record.kind != KIND_IMAGES);
        ((count > 0).then_some(count), pages.len() as u64, is_exact)
    }
}
