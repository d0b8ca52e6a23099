//! Long payloads of a transaction.

use crate::bytes::varint;
use crate::mutant::{self, Mutant};
use crate::page::cell::{self, Content};
use crate::page::overflow::{self, OverflowPage};
use crate::search::{PageRef, Source, TreeRef};
use crate::work::Work;
use crate::{Error, PageNo, Result, payload};

/// A content as it goes into a cell.
pub struct Stored {
    length: u64,
    local: Vec<u8>,
    overflow: Option<PageNo>,
}

impl Stored {
    pub fn content(&self) -> Content<'_> {
        Content { length: self.length, local: &self.local, overflow: self.overflow }
    }
}

impl Work {
    /// Puts what does not fit in a cell into overflow pages.
    pub(super) fn store_content(&mut self, tree: &TreeRef, bytes: &[u8]) -> Result<Stored> {
        let length = bytes.len() as u64;
        if length > cell::PAYLOAD_BYTES_MAX {
            return Err(Error::TooLong { length, limit: cell::PAYLOAD_BYTES_MAX });
        }
        let local = cell::local_bytes(self.store.page_bytes, length, tree.is_record);
        let (local, rest) = bytes.split_at(local);
        let mut next = None;
        // From its end, so that each page can say which one follows.
        let parts = rest.chunks(overflow::payload_bytes(self.store.page_bytes));
        let numbers: Vec<PageNo> =
            (0..parts.len()).map(|_| self.take_overflow_page()).collect::<Result<_>>()?;
        for (part, no) in parts.zip(&numbers).rev() {
            let content = OverflowPage { version: self.version, next, payload: part, checksum: 0 };
            let (bytes, uuid) = (self.store.page_bytes, self.store.uuid);
            let page = overflow::encode(bytes, *no, tree.id, uuid, &content);
            self.note(*no);
            self.raw_bytes += page.0.len();
            self.raw.insert(*no, page);
            next = Some(*no);
        }
        Ok(Stored { length, local: local.to_vec(), overflow: next })
    }

    fn take_overflow_page(&mut self) -> Result<PageNo> {
        if mutant::is(Mutant::OverflowRewritten)
            && let Some(no) = self.pool.take_freed_now()
        {
            return Ok(no);
        }
        self.take_page()
    }

    /// All of the content of a cell.
    pub(super) fn content_of(&self, no: PageNo, index: usize) -> Result<Vec<u8>> {
        let page = self.page(no)?;
        let view = page.view()?;
        payload::read(self, view.cell(index).content)
    }

    /// Frees the overflow pages of a cell that is about to go.
    pub(super) fn free_content(&mut self, no: PageNo, index: usize) -> Result<()> {
        let mut pages = Vec::new();
        {
            let page: PageRef<'_> = self.page(no)?;
            let content = page.view()?.cell(index).content;
            if content.overflow.is_some() {
                payload::each(self, content, |no, _| pages.push(no))?;
            }
        }
        pages.into_iter().try_for_each(|no| self.free_page(no))
    }

    /// Frees the overflow pages of a separator that was made and is not used.
    pub(super) fn drop_key(&mut self, key: Option<Vec<u8>>, tree: &TreeRef) -> Result<()> {
        let Some(key) = key.filter(|_| tree.is_record) else { return Ok(()) };
        let Some((length, at)) = varint(&key, 0) else { return Ok(()) };
        let local = cell::local_bytes(self.store.page_bytes, length, tree.is_record);
        if (local as u64) < length {
            let overflow = PageNo(crate::bytes::get_u48(&key, at + local));
            let content = Content { length, local: &key[at..at + local], overflow: Some(overflow) };
            let mut pages = Vec::new();
            payload::each(self, content, |no, _| pages.push(no))?;
            pages.into_iter().try_for_each(|no| self.free_page(no))?;
        }
        Ok(())
    }
}
