//! The file: anchors, ring and pages on a [`Storage`], and the pages in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use oneflush_blocklog::{AlignedBuffer, Storage, Uuid, invariant, is_full};

use crate::anchor::Anchor;
use crate::cache::Cache;
use crate::error::check_process;
use crate::layout::{self, BLOCK_BYTES};
use crate::mutant::{self, Mutant};
use crate::page::image::Image;
use crate::page::overflow;
use crate::recovery::{self, Found};
use crate::ring::CommitBlock;
use crate::search::{PageRef, Source};
use crate::sync::RwLock;
use crate::voids::Voids;
use crate::{Error, PageNo, Result};

/// The file grows by a sixteenth, within these.
const GROWTH_BYTES_MIN: u64 = 64 * 1024;
const GROWTH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// To read a page that nobody has asked for costs less than one more read.
const GAP_MAX: u64 = 4;

/// One write has no more than this, and those that are in flight together have no more than that.
const RUN_BYTES: usize = 1 << 20;
const IN_FLIGHT_BYTES: usize = 4 << 20;

pub type Pages = BTreeMap<PageNo, Box<[u8]>>;

struct Run<'a> {
    at: u64,
    pages: Vec<&'a [u8]>,
}

/// What was done since the file was opened, for measurements and tests.
#[derive(Debug, Default)]
pub struct Counters {
    /// Transactions that have changed something.
    pub commits: AtomicU64,
    /// Pages whose cells went to two or more, also by transactions that were rolled back.
    pub splits: AtomicU64,
    /// Pages that the newest version does not reach any more.
    pub freed: AtomicU64,
    /// Pages written.
    pub pages: AtomicU64,
    /// Anchors and commit blocks written.
    pub blocks: AtomicU64,
    /// Flushes, and durable writes of one page.
    pub flushes: AtomicU64,
    /// Pages read from the file.
    pub reads: AtomicU64,
}

pub struct Store {
    storage: Arc<dyn Storage>,
    /// For messages.
    path: PathBuf,
    pub page_bytes: usize,
    pub uuid: Uuid,
    pub voids: RwLock<Voids>,
    /// The database gets no more pages than this.
    pages_max: AtomicU64,
    cache: Cache,
    pub counters: Counters,
    poisoned: AtomicBool,
    /// So it is by a failed write or flush, and not only by a panic.
    has_failed: AtomicBool,
    /// Writes that were begun, and how many of the first ones are durable.
    written: AtomicU64,
    flushed: AtomicU64,
    /// The file has grown since it was flushed last.
    has_grown: AtomicBool,
    /// No page is written before an anchor says what is void (I16).
    is_unjudged: AtomicBool,
    /// The process that opened the file.
    pid: u32,
}

/// Poisons the store if a panic ends it.
pub struct PoisonedByAPanic<'a> {
    store: &'a Store,
    was_panicking: bool,
}

impl Drop for PoisonedByAPanic<'_> {
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            self.store.poison_all();
        }
    }
}

/// The last committed version, as whoever has the writer's lock finds it: no page changes.
pub struct Newest<'a>(pub &'a Store);

impl Source for Newest<'_> {
    fn page(&self, no: PageNo) -> Result<PageRef<'_>> {
        Ok(PageRef::Newest(self.0.page(no)?))
    }

    /// Nobody writes.
    fn hold_root(&self, _: PageNo) -> Result<()> {
        Ok(())
    }

    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        self.0.overflow(no)
    }

    fn pages(&self) -> Result<u64> {
        self.0.pages()
    }
}

impl Store {
    pub fn new(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        page_bytes: usize,
        uuid: Uuid,
        cache_bytes: usize,
    ) -> Store {
        Store {
            storage,
            path,
            page_bytes,
            uuid,
            voids: RwLock::default(),
            pages_max: AtomicU64::new(u64::MAX),
            cache: Cache::new(cache_bytes / page_bytes),
            counters: Counters::default(),
            poisoned: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            has_grown: AtomicBool::new(false),
            is_unjudged: AtomicBool::new(false),
            pid: std::process::id(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = self.path.clone();
        move |source| Error::Io { path, doing, source }
    }

    /// After a failure nothing more is written (I17).
    fn poison<T>(&self, result: io::Result<T>, doing: &'static str) -> Result<T> {
        if result.is_err() {
            self.has_failed.store(true, Relaxed);
            self.poison_all();
        }
        result.map_err(self.failed(doing))
    }

    pub fn poison_all(&self) {
        self.poisoned.store(true, Relaxed);
    }

    /// To be held where a broken invariant or another fault may panic: nothing more is written
    /// after that.
    pub fn poisoned_by_a_panic(&self) -> PoisonedByAPanic<'_> {
        PoisonedByAPanic { store: self, was_panicking: std::thread::panicking() }
    }

    pub fn check_usable(&self) -> Result<()> {
        check_process(self.pid)?;
        let is_poisoned = self.poisoned.load(Relaxed) && !mutant::is(Mutant::FailureForgotten);
        if is_poisoned { Err(Error::Poisoned) } else { Ok(()) }
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// For each write and flush.
    fn writable(&self) -> &dyn Storage {
        invariant!(
            "I17",
            "after a failed write or flush nothing more is written",
            !self.has_failed(),
        );
        &*self.storage
    }

    fn flush_all(&self) -> io::Result<()> {
        let written = self.written.load(Relaxed);
        self.writable().flush()?;
        self.flushed.store(written, Relaxed);
        self.has_grown.store(false, Relaxed);
        Ok(())
    }

    /// All that was ever written is durable. So it is where no transaction is open.
    pub fn is_flushed(&self) -> bool {
        self.flushed.load(Relaxed) == self.written.load(Relaxed)
    }

    pub fn has_unflushed_growth(&self) -> bool {
        self.has_grown.load(Relaxed)
    }

    /// A crash was found. False: an anchor says what it has made void.
    pub fn note_unjudged(&self, is_unjudged: bool) {
        self.is_unjudged.store(is_unjudged, Relaxed);
    }

    fn begin_pages(&self) {
        invariant!(
            "I16",
            "after a crash no page is written before an anchor says which versions are void",
            !self.is_unjudged.load(Relaxed),
        );
        self.written.fetch_add(1, Relaxed);
    }

    pub fn size_bytes(&self) -> Result<u64> {
        self.storage.size_bytes().map_err(self.failed("ask for its size"))
    }

    pub fn pages_max(&self) -> u64 {
        self.pages_max.load(Relaxed)
    }

    pub fn set_pages_max(&self, pages: u64) {
        self.pages_max.store(pages, Relaxed);
    }

    /// Memory for pages that were read.
    pub fn set_cache_bytes(&self, bytes: usize) {
        self.cache.set_pages_max(bytes / self.page_bytes);
    }

    /// How many pages the file has room for.
    pub fn pages(&self) -> Result<u64> {
        Ok(layout::pages_in(self.size_bytes()?, self.page_bytes))
    }

    // ---- blocks ----

    pub fn read_block(&self, at: u64) -> Result<AlignedBuffer> {
        let mut block = AlignedBuffer::zeroed(BLOCK_BYTES);
        self.storage.read_at(&mut block, at).map_err(self.failed("read a block"))?;
        Ok(block)
    }

    pub fn write_anchor(&self, anchor: &Anchor) -> Result<()> {
        self.check_usable()?;
        let mut block = AlignedBuffer::zeroed(BLOCK_BYTES);
        anchor.encode(&mut block);
        self.counters.blocks.fetch_add(1, Relaxed);
        self.written.fetch_add(1, Relaxed);
        let written = self
            .writable()
            .write(&block, layout::anchor_at(anchor.place()))
            .and_then(|()| self.flush_all());
        self.counters.flushes.fetch_add(1, Relaxed);
        self.poison(written, "write an anchor")
    }

    pub fn read_commit_block(&self, place: u64) -> Result<Option<CommitBlock>> {
        Ok(CommitBlock::decode(&self.read_block(layout::ring_at(place))?, self.uuid))
    }

    pub fn newest_anchor(&self) -> Result<Found> {
        recovery::newest_anchor(&*self.storage, &self.path)
    }

    /// Room for anchors, ring and the first pages.
    pub fn prepare(&self) -> Result<()> {
        let at = self.place(PageNo(3))?.next_multiple_of(BLOCK_BYTES as u64);
        self.poison(self.writable().extend(at + GROWTH_BYTES_MIN), "make it longer")
    }

    pub fn flush(&self) -> Result<()> {
        self.check_usable()?;
        self.counters.flushes.fetch_add(1, Relaxed);
        self.poison(self.flush_all(), "flush")
    }

    // ---- pages ----

    fn place(&self, no: PageNo) -> Result<u64> {
        layout::page_at(no, self.page_bytes)
            .ok_or(Error::Damaged { page: no, what: "no file has a page of this number" })
    }

    /// The bytes of a page, as they are in the file.
    pub fn read_raw(&self, no: PageNo) -> Result<Box<[u8]>> {
        // In a child of a fork nobody keeps the page for a transaction of its parent.
        check_process(self.pid)?;
        let at = self.place(no)?;
        let unit = self.storage.alignment_bytes().max(self.page_bytes) as u64;
        let from = at - at % self.alignment();
        let mut buffer = AlignedBuffer::zeroed(unit as usize);
        self.counters.reads.fetch_add(1, Relaxed);
        match self.storage.read_at(&mut buffer, from) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Error::Damaged { page: no, what: "the file ends before it" })
            }
            read => {
                read.map_err(self.failed("read a page"))?;
                let skip = (at - from) as usize;
                Ok(buffer[skip..skip + self.page_bytes].into())
            }
        }
    }

    fn alignment(&self) -> u64 {
        self.storage.alignment_bytes() as u64
    }

    /// A page as it is after the last commit, checked.
    pub fn page(&self, no: PageNo) -> Result<Arc<Image>> {
        if let Some(image) = self.cache.get(no) {
            return Ok(image);
        }
        let _poisoned = self.poisoned_by_a_panic();
        let changes = self.cache.changes(no);
        let image = Arc::new(self.read_page(no)?);
        self.cache.put_read(Arc::clone(&image), changes);
        Ok(image)
    }

    /// Reads pages together, if the first is not in memory: `next`, and then what `ahead` answers.
    /// Who asks for one that could not be read hears why.
    pub fn read_ahead(&self, next: PageNo, ahead: &dyn Fn() -> Vec<PageNo>) {
        if self.page_bytes < self.storage.alignment_bytes() || self.cache.has(next) {
            return;
        }
        let others = ahead().into_iter().filter(|&no| !self.cache.has(no));
        let mut pages: Vec<PageNo> = std::iter::once(next).chain(others).collect();
        pages.truncate(self.cache.room());
        if pages.len() > 1 && check_process(self.pid).is_ok() {
            pages.sort_unstable();
            pages.dedup();
            self.read_together(&pages);
        }
    }

    /// Reads pages that are in the order of the file. Those that stand close together are one read,
    /// with what is between them.
    fn read_together(&self, pages: &[PageNo]) {
        let _poisoned = self.poisoned_by_a_panic();
        let changes: Vec<u64> = pages.iter().map(|&no| self.cache.changes(no)).collect();
        // As in `read_page`.
        let voids = self.voids.read().clone();
        let is_close = |one: &PageNo, other: &PageNo| other.0 - one.0 <= GAP_MAX;
        let runs: Vec<&[PageNo]> = pages.chunk_by(is_close).collect();
        let count = |run: &[PageNo]| (run[run.len() - 1].0 - run[0].0 + 1) as usize;
        let read = |run: &&[PageNo]| {
            Some((AlignedBuffer::zeroed(count(run) * self.page_bytes), self.place(run[0]).ok()?))
        };
        let Some(reads) = runs.iter().map(read).collect() else { return };
        let Ok(buffers) = self.storage.read_many(reads) else { return };
        let mut changes = changes.into_iter();
        for (run, buffer) in runs.into_iter().zip(buffers) {
            self.counters.reads.fetch_add(count(run) as u64, Relaxed);
            for (&no, changes) in run.iter().zip(&mut changes) {
                let from = (no.0 - run[0].0) as usize * self.page_bytes;
                let bytes = &buffer[from..from + self.page_bytes];
                if let Ok(image) = Image::read(bytes.into(), no, self.uuid, &voids) {
                    self.cache.put_read(Arc::new(image), changes);
                }
            }
        }
    }

    /// Pages that were read along with the anchors, while nobody writes. What is void is known.
    pub fn keep_first(&self, found: &Found) {
        let voids = self.voids.read().clone();
        for (no, bytes) in found.first_pages() {
            // Whoever asks for a page that is not sound reads it again, and hears why.
            if let Ok(image) = Image::read(bytes.into(), no, self.uuid, &voids) {
                self.cache.put_read(Arc::new(image), self.cache.changes(no));
            }
        }
    }

    fn read_page(&self, no: PageNo) -> Result<Image> {
        // First the intervals: a scrub takes directories out of the file, and then an interval.
        let voids = self.voids.read().clone();
        Image::read(self.read_raw(no)?, no, self.uuid, &voids)
    }

    /// The payload of an overflow page, and the next page. They are not kept in memory.
    pub fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        let bytes = self.read_raw(no)?;
        let page = overflow::decode(&bytes, no, self.uuid)?;
        Ok((page.payload.to_vec(), page.next))
    }

    /// A page that was committed a moment ago.
    pub fn keep(&self, image: Image) {
        self.cache.put(Arc::new(image));
    }

    pub fn forget(&self, no: PageNo) {
        self.cache.remove(no);
    }

    pub fn forget_all(&self) {
        self.cache.clear();
    }

    /// Writes one page, durable when this returns.
    pub fn write_page_durable(&self, no: PageNo, bytes: &[u8]) -> Result<()> {
        self.check_usable()?;
        self.counters.pages.fetch_add(1, Relaxed);
        self.counters.flushes.fetch_add(1, Relaxed);
        let at = self.place(no)?;
        let (buffer, at) = self.with_neighbours(at, bytes)?;
        let was_flushed = self.is_flushed();
        self.begin_pages();
        self.poison(self.writable().write_durable(&buffer, at), "write a page")?;
        if was_flushed {
            self.flushed.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Writes pages, which may be lost until a flush.
    pub fn write_pages(&self, pages: &Pages) -> Result<()> {
        self.write_all([pages], None)
    }

    /// The same with a commit block. All of it may be in flight together.
    pub fn write_all<'a>(
        &self,
        pages: impl IntoIterator<Item = &'a Pages>,
        block: Option<(&CommitBlock, u64)>,
    ) -> Result<()> {
        self.check_usable()?;
        let mut writes = Vec::new();
        let mut bytes = 0;
        for pages in pages {
            self.counters.pages.fetch_add(pages.len() as u64, Relaxed);
            for run in self.runs(pages)? {
                bytes += run.pages.len() * self.page_bytes;
                if self.page_bytes < self.storage.alignment_bytes() {
                    // Two runs may be in one block.
                    self.write_run_beside_others(&run)?;
                    continue;
                }
                let mut buffer = AlignedBuffer::zeroed(run.pages.len() * self.page_bytes);
                let places = buffer.chunks_exact_mut(self.page_bytes);
                places.zip(&run.pages).for_each(|(place, page)| place.copy_from_slice(page));
                writes.push((buffer, run.at));
                if bytes > IN_FLIGHT_BYTES {
                    self.write_many(std::mem::take(&mut writes))?;
                    bytes = 0;
                }
            }
        }
        if let Some((commit, place)) = block {
            let mut block = AlignedBuffer::zeroed(BLOCK_BYTES);
            commit.encode(&mut block, self.uuid);
            self.counters.blocks.fetch_add(1, Relaxed);
            writes.push((block, layout::ring_at(place)));
        }
        match writes.is_empty() {
            true => Ok(()),
            false => self.write_many(writes),
        }
    }

    fn write_many(&self, writes: Vec<(AlignedBuffer, u64)>) -> Result<()> {
        self.begin_pages();
        self.poison(self.writable().write_many(writes), "write pages")
    }

    /// Pages that stand one behind the other.
    fn runs<'a>(&self, pages: &'a Pages) -> Result<Vec<Run<'a>>> {
        let mut runs: Vec<Run<'a>> = Vec::new();
        for (&no, page) in pages {
            let at = self.place(no)?;
            match runs.last_mut() {
                Some(run)
                    if run.at + (run.pages.len() * self.page_bytes) as u64 == at
                        && run.pages.len() * self.page_bytes < RUN_BYTES =>
                {
                    run.pages.push(page);
                }
                _ => runs.push(Run { at, pages: vec![page] }),
            }
        }
        Ok(runs)
    }

    fn write_run_beside_others(&self, run: &Run<'_>) -> Result<()> {
        let (buffer, at) = self.with_neighbours(run.at, &run.pages.concat())?;
        self.begin_pages();
        self.poison(self.writable().write(&buffer, at), "write pages")
    }

    /// Bytes with what stands beside them in the same blocks, where pages are smaller than those.
    fn with_neighbours(&self, at: u64, bytes: &[u8]) -> Result<(AlignedBuffer, u64)> {
        let alignment = self.alignment();
        let from = at - at % alignment;
        let to = (at + bytes.len() as u64).next_multiple_of(alignment);
        let mut buffer = AlignedBuffer::zeroed((to - from) as usize);
        let skip = (at - from) as usize;
        if buffer.len() > bytes.len() {
            // Pages before these may have been written.
            self.poison(self.storage.read_at(&mut buffer, from), "read a page")?;
        }
        buffer[skip..skip + bytes.len()].copy_from_slice(bytes);
        Ok((buffer, from))
    }

    /// Cuts the file off behind so many pages.
    pub fn cut(&self, pages: u64) -> Result<()> {
        self.check_usable()?;
        let end = self.place(PageNo(pages + 1))?.next_multiple_of(self.alignment());
        if end >= self.size_bytes()? {
            return Ok(());
        }
        self.poison(self.writable().cut(end), "make it shorter")
    }

    /// Makes the file long enough for so many pages, and for some more. Durable when
    /// this returns.
    pub fn grow(&self, pages: u64) -> Result<()> {
        self.check_usable()?;
        let least = self.place(PageNo(pages + 1))?;
        let size = self.size_bytes()?;
        if size >= least {
            return Ok(());
        }
        let more = (size / 16).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let from = size.next_multiple_of(self.alignment());
        let to = |bytes: u64| bytes.next_multiple_of(self.alignment());
        let is_full = |made: &io::Result<()>| made.as_ref().is_err_and(is_full);
        let mut made = self.writable().zero(from..to(least.max(size + more)));
        if is_full(&made) {
            made = self.writable().zero(from..to(least));
        }
        // The file has its old size then, and nothing else has failed.
        if is_full(&made) {
            return made.map_err(self.failed("make it longer"));
        }
        self.poison(made, "make it longer")?;
        self.has_grown.store(true, Relaxed);
        if mutant::is(Mutant::GrowthUnflushed) {
            return Ok(());
        }
        // A whole transaction may count pages that it has not written.
        self.flush()
    }
}
