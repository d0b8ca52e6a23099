//! Reading: the database as some version has it.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::page::overflow;
use crate::search::{self, PageRef, Probe, Source, TreeRef};
use crate::shared::Shared;
use crate::transaction::WriteTransaction;
use crate::work::{self, META_WORDS};
use crate::{PageNo, Result, TreeId, Version};

/// The database as it was when this began. It keeps its database alive.
pub struct ReadTransaction {
    shared: Arc<Shared>,
    version: Version,
}

impl ReadTransaction {
    pub(crate) fn begin(shared: &Arc<Shared>) -> ReadTransaction {
        ReadTransaction { version: shared.readers.register(), shared: Arc::clone(shared) }
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
        let mut cursor = self.cursor(id)?;
        match cursor.seek(self.source(), Probe::Integer(key))? {
            true => cursor.payload(self.source()),
            false => Ok(None),
        }
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
}

impl Source for ReadTransaction {
    fn page(&self, no: PageNo) -> Result<PageRef<'_>> {
        let store = &self.shared.store;
        let mut image = store.page(no)?;
        if !image.serves(self.version) {
            // Perhaps a writer was in the middle of it: the old directory was gone, and the new one
            // was not there.
            image = store.page_at_rest(no)?;
        }
        Ok(PageRef::At(image, self.version))
    }

    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        let store = &self.shared.store;
        store.whole(|| {
            let bytes = store.read_raw(no)?;
            let page = overflow::decode(&bytes, no, store.uuid)?;
            Ok((page.payload.to_vec(), page.next))
        })
    }

    fn pages(&self) -> Result<u64> {
        self.shared.store.pages()
    }
}
