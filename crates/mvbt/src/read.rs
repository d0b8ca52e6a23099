//! Reading: the database as some version has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::cursor::Cursor;
use crate::history::{self, Retain};
use crate::page::image::Image;
use crate::search::{self, PageRef, Probe, Source, TreeRef};
use crate::shared::Shared;
use crate::sync::{Mutex, RwLock};
use crate::transaction::WriteTransaction;
use crate::work::{self, META_WORDS};
use crate::{Error, PageNo, Result, TreeId, Version, payload};

/// How long a reader waits for a writer to have written a page.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const REREAD: Duration = Duration::from_micros(50);
/// A writer that has ended or died writes no more. Another one may begin between two looks.
const LOOKS_WITHOUT_WRITER: u32 = 3;

/// The database as it was when this began. It keeps its database alive.
pub struct ReadTransaction {
    shared: Arc<Shared>,
    version: Version,
    /// Trees that were asked for. A version has one root for each.
    trees: Mutex<FxHashMap<TreeId, TreeRef>>,
    /// Roots, as they were when this first looked at them.
    roots: RwLock<FxHashMap<PageNo, Arc<Image>>>,
}

impl ReadTransaction {
    pub(crate) fn begin(shared: &Arc<Shared>) -> Result<ReadTransaction> {
        shared.board.check_user()?;
        let _poisoned = shared.store.poisoned_by_a_panic();
        let version = shared.readers.register();
        let reader = ReadTransaction::of(shared, version);
        shared.catch_up()?;
        Ok(reader)
    }

    fn of(shared: &Arc<Shared>, version: Version) -> ReadTransaction {
        ReadTransaction {
            shared: Arc::clone(shared),
            version,
            trees: Mutex::default(),
            roots: RwLock::default(),
        }
    }

    /// None: the version may be gone.
    pub(crate) fn begin_at(shared: &Arc<Shared>, version: Version) -> Result<Option<Self>> {
        shared.board.check_user()?;
        let _poisoned = shared.store.poisoned_by_a_panic();
        if !shared.readers.register_at(version) {
            return Ok(None);
        }
        let reader = ReadTransaction::of(shared, version);
        shared.catch_up()?;
        Ok(Some(reader))
    }

    /// The last version that this sees.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Drop for ReadTransaction {
    fn drop(&mut self) {
        self.shared.readers.unregister(self.version);
    }
}

/// What readers and writers can ask.
pub trait Read {
    #[doc(hidden)]
    fn source(&self) -> &dyn Source;

    /// `NoTree`: there is none of this number.
    fn tree(&self, id: TreeId) -> Result<TreeRef> {
        work::tree(self.source(), id)
    }

    /// A cursor that stands on no cell yet.
    fn cursor(&self, id: TreeId) -> Result<Cursor> {
        Ok(Cursor::new(self.source(), self.tree(id)?))
    }

    /// The payload at a key.
    fn get(&self, id: TreeId, key: i64) -> Result<Option<Vec<u8>>> {
        let (tree, source, mut path) = (self.tree(id)?, self.source(), Vec::new());
        if !search::descend(source, &tree, Probe::Integer(key), &mut path)? {
            return Ok(None);
        }
        let Some(step) = path.last() else { return Ok(None) };
        let page = source.page(step.no)?;
        let view = page.view()?;
        payload::read(source, view.cell(step.index).content).map(Some)
    }

    /// How many cells the leaves of a tree have. Reads all pages of the tree, but long payloads.
    fn count(&self, id: TreeId) -> Result<u64> {
        search::count(self.source(), &self.tree(id)?, self.page_count()?)
    }

    /// The meta words.
    fn meta(&self) -> Result<[u32; META_WORDS]> {
        work::meta(self.source())
    }

    /// Pages of the database, used and free, without anchors and commit blocks.
    fn page_count(&self) -> Result<u64> {
        work::page_count(self.source())
    }

    /// What the file keeps for readers of older versions.
    fn retain(&self) -> Result<Retain> {
        Ok(history::settings(self.source())?.map_or(Retain::Off, |settings| settings.retain))
    }

    /// The numbers of all trees, in order.
    fn trees(&self) -> Result<Vec<TreeId>> {
        work::trees(self.source())
    }
}

impl Read for WriteTransaction {
    fn source(&self) -> &dyn Source {
        self.work()
    }
}

impl Read for ReadTransaction {
    fn source(&self) -> &dyn Source {
        self
    }

    fn tree(&self, id: TreeId) -> Result<TreeRef> {
        if let Some(tree) = self.trees.lock().get(&id) {
            return Ok(*tree);
        }
        let tree = work::tree(self, id)?;
        self.trees.lock().insert(id, tree);
        Ok(tree)
    }
}

impl ReadTransaction {
    /// A page that is being written may have no directory for this version for a moment. It is
    /// read again until the writer has ended (P6).
    fn image(&self, no: PageNo) -> Result<Arc<Image>> {
        match self.shared.store.page(no) {
            Ok(image) if self.finds(&image) => Ok(image),
            _ => self.page_that_may_be_half_written(no),
        }
    }

    fn page_that_may_be_half_written(&self, no: PageNo) -> Result<Arc<Image>> {
        let Shared { store, board, .. } = &*self.shared;
        let (began, mut looks_without_writer) = (Instant::now(), 0);
        loop {
            // Asked before the page is read: a writer may end in between.
            let is_writing = board.is_writing();
            self.shared.catch_up()?;
            store.forget(no);
            let image = store.page(no);
            if image.as_ref().is_ok_and(|image| self.finds(image)) {
                return image;
            }
            let is_over =
                looks_without_writer == LOOKS_WITHOUT_WRITER || began.elapsed() > WRITE_PATIENCE;
            if is_over {
                let kept = image?.active().version;
                return Err(Error::SnapshotGone { page: no, asked: self.version, kept });
            }
            looks_without_writer += u32::from(!is_writing);
            std::thread::sleep(REREAD);
        }
    }

    /// True if the page has what this needs, and says nothing that may not be so.
    fn finds(&self, image: &Image) -> bool {
        image.shows(self.version) || image.serves(self.version) && self.may_use_newer(image)
    }

    /// P10: a directory above this version counts if it is published, and what is void is known, or
    /// if it leads to no page that its own transaction has made.
    fn may_use_newer(&self, image: &Image) -> bool {
        // In this order: a recovery raises the generation, and then the current version.
        let is_published = image.active().version <= self.shared.board.current();
        self.shared.knows_what_is_void() && (is_published || !image.leads_to_fresh())
    }
}

impl Source for ReadTransaction {
    fn page(&self, no: PageNo) -> Result<PageRef<'_>> {
        let held = self.roots.read().get(&no).cloned();
        Ok(PageRef::At(held.map_or_else(|| self.image(no), Ok)?, self.version))
    }

    fn hold_root(&self, root: PageNo) -> Result<()> {
        if !self.roots.read().contains_key(&root) {
            let image = self.image(root)?;
            // Another thread may have been faster.
            self.roots.write().entry(root).or_insert(image);
        }
        Ok(())
    }

    /// Whoever finds the page in a cell finds it whole (P6).
    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        self.shared.store.overflow(no)
    }

    fn pages(&self) -> Result<u64> {
        self.shared.store.pages()
    }

    fn read_ahead(&self, next: PageNo, ahead: &dyn Fn() -> Vec<PageNo>) {
        self.shared.store.read_ahead(next, ahead);
    }
}
