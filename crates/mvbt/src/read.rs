//! Reading: the database as some version has it.

use crate::cursor::Cursor;
use crate::db::Database;
use crate::history::{self, Retain};
use crate::page::overflow;
use crate::search::{PageRef, Probe, Source, TreeRef};
use crate::transaction::WriteTransaction;
use crate::work::{self, META_WORDS};
use crate::{PageNo, Result, TreeId, Version};

/// The database as it was when this began.
pub struct ReadTransaction<'db> {
    database: &'db Database,
    version: Version,
}

impl<'db> ReadTransaction<'db> {
    pub(crate) fn begin(database: &'db Database) -> ReadTransaction<'db> {
        ReadTransaction { database, version: database.readers.register() }
    }

    /// None: the version may be gone.
    pub(crate) fn begin_at(database: &'db Database, version: Version) -> Option<Self> {
        let is_there = database.readers.register_at(version);
        is_there.then_some(ReadTransaction { database, version })
    }

    pub fn version(&self) -> Version {
        self.version
    }
}

impl Drop for ReadTransaction<'_> {
    fn drop(&mut self) {
        self.database.readers.unregister(self.version);
    }
}

/// What readers and writers can ask.
pub trait Read {
    #[doc(hidden)]
    fn source(&self) -> &dyn Source;

    fn tree(&self, id: TreeId) -> Result<TreeRef> {
        work::tree(self.source(), id)
    }

    fn cursor(&self, id: TreeId) -> Result<Cursor> {
        self.tree(id).map(Cursor::new)
    }

    /// The payload at a key.
    fn get(&self, id: TreeId, key: i64) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.cursor(id)?;
        match cursor.seek(self.source(), Probe::Integer(key))? {
            true => cursor.payload(self.source()),
            false => Ok(None),
        }
    }

    fn meta(&self) -> Result<[u32; META_WORDS]> {
        work::meta(self.source())
    }

    fn page_count(&self) -> Result<u64> {
        work::page_count(self.source())
    }

    /// What the file keeps for readers of older versions.
    fn retain(&self) -> Result<Retain> {
        Ok(history::settings(self.source())?.map_or(Retain::Off, |settings| settings.retain))
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        work::trees(self.source())
    }
}

impl Read for WriteTransaction<'_> {
    fn source(&self) -> &dyn Source {
        self.work()
    }
}

impl Read for ReadTransaction<'_> {
    fn source(&self) -> &dyn Source {
        self
    }
}

impl Source for ReadTransaction<'_> {
    fn page(&self, no: PageNo) -> Result<PageRef<'_>> {
        Ok(PageRef::At(self.database.store.page(no)?, self.version))
    }

    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        let store = &self.database.store;
        let bytes = store.read_raw(no)?;
        let page = overflow::decode(&bytes, no, store.uuid)?;
        Ok((page.payload.to_vec(), page.next))
    }
}
