//! A copy of a snapshot in a new file, compact, made in steps while writers go on.
//!
//! The copy is logical: each tree is read in key order, and loaded into fresh pages (`load.rs`). It
//! has the numbers of the trees and the meta words. It has a UUID and versions of its own, and no
//! history. It stands under a temporary name beside its own until it is durable and closed cleanly.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneflush_blocklog::{DirectFile, Uuid};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::cursor::Cursor;
use crate::db::Database;
use crate::load::{Loader, Target};
use crate::options::Options;
use crate::read::{Read, ReadTransaction};
use crate::search::{Source, TreeRef};
use crate::store::Store;
use crate::work::{self, META_WORDS};
use crate::{Error, Result, TreeId, opening};

/// No copy has more pages: so many times those of its snapshot, and these.
const PAGES_FACTOR: u64 = 4;
const PAGES_MIN: u64 = 64;

/// Dropped before it is done, it leaves no file.
pub struct Backup {
    reader: ReadTransaction,
    /// None: all is copied, or a step has failed.
    target: Option<Target>,
    path: PathBuf,
    /// None: it has its own name.
    temporary: Option<PathBuf>,
    /// The last one is next.
    left: Vec<TreeId>,
    loading: Option<(Cursor, Loader)>,
    loaded: Vec<TreeRef>,
    page_count: u64,
    remaining: u64,
}

/// What a copy has beside its trees.
pub struct Rest {
    pub meta: [u32; META_WORDS],
    pub next_tree: TreeId,
    pub trees: Vec<TreeRef>,
}

impl Backup {
    pub(crate) fn begin(reader: ReadTransaction, page_bytes: usize, path: &Path) -> Result<Backup> {
        let failed = |doing| move |source| Error::Io { path: path.to_owned(), doing, source };
        if path.try_exists().map_err(failed("look for it"))? {
            return Err(failed("create it")(io::ErrorKind::AlreadyExists.into()));
        }
        let (page_count, mut left) = (reader.page_count()?, reader.trees()?);
        left.reverse();
        let other = |error| io::Error::other::<oneflush_blocklog::Error>(error);
        let uuid = Uuid::random().map_err(other).map_err(failed("draw a UUID"))?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{:016x}", u64::from_le_bytes(*uuid.0.first_chunk().expect("16"))));
        let temporary = PathBuf::from(name);
        let file =
            DirectFile::open(&temporary, true).map_err(other).map_err(failed("create it"))?;
        let mut backup = Backup {
            reader,
            target: None,
            path: path.to_owned(),
            temporary: Some(temporary),
            left,
            loading: None,
            loaded: Vec::new(),
            page_count,
            remaining: page_count,
        };
        let store = Store::new(Arc::new(file), path.to_owned(), page_bytes, uuid, 0);
        store.prepare()?;
        backup.target = Some(Target::new(store));
        Ok(backup)
    }

    /// Pages of the snapshot. The copy may have less.
    pub fn page_count(&self) -> u64 {
        self.page_count
    }

    /// About how many pages are to be copied. 0: the copy is done.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Copies about so many pages: a long payload is copied at once. True: the copy is there under
    /// its name, durable. After an error there is none, and it has to be begun anew.
    pub fn step(&mut self, pages: u64) -> Result<bool> {
        if self.remaining == 0 {
            return Ok(true);
        }
        let mut target = self
            .target
            .take()
            .ok_or(Error::Misuse { what: "a step of this copy has failed; begin another" })?;
        let until = target.pages().saturating_add(pages);
        while target.pages() < until {
            if !self.copy(&mut target)? {
                self.end(target)?;
                self.remaining = 0;
                return Ok(true);
            }
        }
        self.remaining = self.page_count.saturating_sub(target.pages()).max(1);
        self.target = Some(target);
        Ok(false)
    }

    /// All steps.
    pub fn run(mut self) -> Result<()> {
        self.step(u64::MAX).map(drop)
    }

    /// One cell, or the end of a tree. False: nothing is left.
    fn copy(&mut self, target: &mut Target) -> Result<bool> {
        let source: &dyn Source = &self.reader;
        let (mut cursor, mut loader) = match self.loading.take() {
            Some(loading) => loading,
            None => {
                let Some(id) = self.left.pop() else { return Ok(false) };
                let mut cursor = self.reader.cursor(id)?;
                cursor.first(source)?;
                let loader = Loader::new(cursor.tree());
                (cursor, loader)
            }
        };
        let Some(step) = cursor.step(source)? else {
            let root = loader.end(target)?;
            self.loaded.push(TreeRef { root, ..*cursor.tree() });
            return Ok(true);
        };
        let page = source.page(step.no)?;
        loader.add(target, source, &page.view()?.cell(step.index))?;
        // A damaged tree may lead to its pages by many ways.
        if target.pages() > PAGES_MIN.saturating_add(self.page_count.saturating_mul(PAGES_FACTOR)) {
            return Err(Error::ReachedTwice { page: step.no });
        }
        cursor.next(source)?;
        self.loading = Some((cursor, loader));
        Ok(true)
    }

    fn end(&mut self, target: Target) -> Result<()> {
        let pages = target.pages();
        let rest = Rest {
            meta: self.reader.meta()?,
            next_tree: work::next_tree(&self.reader)?,
            trees: std::mem::take(&mut self.loaded),
        };
        opening::begin_file(&target.end()?, pages)?;
        let options = Options { cache_bytes: 0, ..Options::default() };
        let database = Database::open(self.temporary.as_ref().unwrap_or(&self.path), options)?;
        let mut txn = database.begin_write()?;
        txn.change(|work| work.adopt(&rest))?;
        txn.commit()?;
        database.close()?;
        let path = &self.path;
        let failed = |doing| move |source| Error::Io { path: path.clone(), doing, source };
        if let Some(temporary) = &self.temporary {
            rename_to_new(temporary, path).map_err(failed("give it its name"))?;
        }
        self.temporary = None;
        oneflush_blocklog::sync_directory(path)
            .map_err(|error| failed("sync its directory")(io::Error::other(error)))
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // There is nobody to tell. Its name says that it is none.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Gives a file a name that nobody else has.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot ask and rename in one.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match to.try_exists()? {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => std::fs::rename(from, to),
        },
        renamed => Ok(renamed?),
    }
}
