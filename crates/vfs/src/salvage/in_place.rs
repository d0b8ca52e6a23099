//! The log of `maw` as a source, and the database file that has its commits in place.
//!
//! Every commit is written to the database file too. So the file may have everything, even what
//! stands behind the damage of the log. It may lack the last commits after a loss of power, and it
//! may have newer pages than the readable records.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use oneflush_blocklog::ReadRecord;
use oneflush_blocklog::delta;
use oneflush_blocklog::group::{Base, Group, PageEntry, page_crc};

use super::{Aside, SalvageError, copy, failed};
use crate::config::StrategyKind;
use crate::strategy::{DecodeGroup, MawRecord, guard, is_log_behind, own_group, page_one_of};

/// Page numbers and contents.
type Pages = Vec<(u32, Vec<u8>)>;

/// What readable records have made of a database file.
#[derive(Default)]
pub(super) struct Replayed {
    /// Records that could be used, and how many of them hold commits.
    pub records: usize,
    pub commits: u64,
    /// The checksums of all versions of each page, the newest last.
    pub versions: HashMap<u32, Vec<u32>>,
    database_pages: u32,
}

impl Aside {
    /// Writes the pages of the records before the damage into a copy of the database.
    pub(super) fn replay(&self, made: &Path) -> Result<Replayed, SalvageError> {
        let file = OpenOptions::new().read(true).write(true).open(made).map_err(failed(made))?;
        let mut replayed = Replayed::default();
        for record in &self.found.records {
            let Some(group) = group(record) else { break };
            if group.database_pages != 0 {
                // Whole or not at all: the record may change a page whose version is gone.
                let Some(pages) = self.pages_of(&group, &file, &replayed).map_err(failed(made))?
                else {
                    break;
                };
                for (page_no, page) in pages {
                    file.write_all_at(&page, self.offset(page_no)).map_err(failed(made))?;
                    replayed.versions.entry(page_no).or_default().push(page_crc(&page));
                }
                replayed.database_pages = group.database_pages;
                replayed.commits += 1;
            }
            replayed.records += 1;
        }
        if replayed.database_pages != 0 {
            let size_bytes = self.offset(replayed.database_pages + 1);
            file.set_len(size_bytes).map_err(failed(made))?;
        }
        file.sync_all().map_err(failed(made))?;
        Ok(replayed)
    }

    /// The pages of a record. None: their bases are not known.
    fn pages_of(
        &self,
        group: &Group<'_>,
        file: &File,
        replayed: &Replayed,
    ) -> std::io::Result<Option<Pages>> {
        let mut pages = Vec::new();
        for entry in group.pages() {
            let mut page = vec![0; self.page_bytes];
            match entry.base {
                Base::Zeros => {}
                Base::Previous if replayed.versions.contains_key(&entry.page_no) => {
                    file.read_exact_at(&mut page, self.offset(entry.page_no))?;
                }
                Base::Previous | Base::Database { .. } => return Ok(None),
            }
            if delta::apply(entry.delta, &mut page).is_err() {
                return Ok(None);
            }
            pages.push((entry.page_no, page));
        }
        Ok(Some(pages))
    }

    fn offset(&self, page_no: u32) -> u64 {
        (u64::from(page_no) - 1) * self.page_bytes as u64
    }

    /// True if the database file has what the readable records say, those behind the damage too.
    ///
    /// Of a page that no record behind the damage names, the file may have a version that a damaged
    /// record has made. It must not have an older one.
    pub(super) fn file_has_what_the_log_has(&self) -> Result<bool, SalvageError> {
        let scratch = self.folder.join("replayed");
        copy(&self.copied(""), &scratch)?;
        let replayed = self.replay(&scratch);
        let _ = fs::remove_file(&scratch);
        let replayed = replayed?;
        let behind: Vec<Group<'_>> = self.found.behind.iter().filter_map(group).collect();
        let newest: HashMap<u32, PageEntry<'_>> =
            behind.iter().flat_map(Group::pages).map(|entry| (entry.page_no, entry)).collect();
        let path = self.copied("");
        let file = File::open(&path).map_err(failed(&path))?;
        let has_all_records = !self.lacks_records;
        let named: HashSet<u32> = replayed.versions.keys().chain(newest.keys()).copied().collect();
        for page_no in named {
            let mut page = vec![0; self.page_bytes];
            if file.read_exact_at(&mut page, self.offset(page_no)).is_err() {
                return Ok(false);
            }
            if page_no == 1 {
                guard::hide(&mut page);
            }
            let is_newest = match newest.get(&page_no) {
                Some(entry) => is_result_of(entry, &page),
                None => {
                    let crc = page_crc(&page);
                    let versions = &replayed.versions[&page_no];
                    versions.last() == Some(&crc) || !(has_all_records || versions.contains(&crc))
                }
            };
            if !is_newest {
                return Ok(false);
            }
        }
        let pages = behind.iter().map(|group| group.database_pages).rfind(|&pages| pages != 0);
        let size_bytes = self.offset(pages.unwrap_or(replayed.database_pages) + 1);
        Ok(file.metadata().map_err(failed(&path))?.len() == size_bytes)
    }

    /// A link says that the last commits are in the log of another database. That one is not read
    /// here. The database file has them in place, but for a loss of power.
    pub(super) fn note_link(&mut self) {
        let last = self.found.records.last().filter(|_| self.strategy == Some(StrategyKind::Maw));
        let record =
            last.and_then(|last| MawRecord::decode(last.kind, last.payload.as_deref()?).ok());
        if matches!(record, Some(MawRecord::Link { .. })) {
            self.found.records.clear();
        }
    }

    /// How a record's pages are read.
    pub(super) fn decode_group(&self) -> DecodeGroup {
        match self.strategy {
            Some(StrategyKind::Maw) => own_group,
            _ => |kind, payload| Group::decode(kind, payload),
        }
    }

    /// True if the log is damaged, or the database file has a later commit than the log.
    pub(super) fn log_lacks_records(&self) -> Result<bool, SalvageError> {
        let records = self.found.records.iter();
        let records = records.filter_map(|one| Some((one.kind, one.lsn, one.payload.as_deref()?)));
        let Ok(Some(page_one)) = page_one_of(records, self.page_bytes, self.decode_group()) else {
            return Ok(self.found.damage.is_some());
        };
        let (path, mut header) = (self.copied(""), [0; guard::HEADER_BYTES]);
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut header, 0));
        read.map_err(failed(&path))?;
        Ok(self.found.damage.is_some() || is_log_behind(&page_one, &header))
    }

    /// Commits in the readable records.
    pub(super) fn commits_read(&self) -> u64 {
        let all = self.found.records.iter().chain(&self.found.behind).filter_map(group);
        all.filter(|group| group.database_pages != 0).count() as u64
    }
}

fn group(record: &ReadRecord) -> Option<Group<'_>> {
    Some(MawRecord::decode(record.kind, record.payload.as_deref()?).ok()?.own())
}

/// True if the page has what this change leaves.
fn is_result_of(entry: &PageEntry<'_>, page: &[u8]) -> bool {
    let mut changed = match entry.base {
        Base::Zeros => vec![0; page.len()],
        _ => page.to_vec(),
    };
    delta::apply(entry.delta, &mut changed).is_ok() && changed == page
}
