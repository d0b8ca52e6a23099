//! Pages into a record: what each page's delta is against.
//!
//! SQLite gives the cells of a full page to its neighbours and to a new page. So if a record is
//! longer than one block, it is encoded again with a search for what moved, between its pages too.
//! The shorter record is taken.
//!
//! A copy from a page that is not contained (invariant 3 of the log) makes its own page not
//! contained. A page that the log contains already stays contained: it gets no such copies.

use oneflush_blocklog::delta::{self, ROW_PAGES_MAX, Row};
use oneflush_blocklog::group::{Base, GroupWriter, PageEntry, page_crc};

use super::draft::Draft;
use super::log::OpenLog;
use crate::error::Code;
use crate::mutant::{self, Mutant};
use crate::strategy::board::Board;

/// A page that is no longer than this without its zeros goes into the log whole. No checkpoint then
/// has to log it again.
const WHOLE_BYTES_MAX: usize = 768;

/// Moves are searched in records whose pages have no more bytes than this. The search takes up to
/// 20 us per 4096 bytes.
const SEARCH_BYTES_MAX: usize = 256 << 10;

/// Moves are searched for a page whose delta is longer than this.
const SEARCHED_BYTES_MIN: usize = 256;

/// What the pages of a record are against, where they may have copies from each other's bases.
struct Bases {
    /// The bases, one behind another.
    row: Vec<u8>,
    /// Of each page: its base, and whether the log contains that.
    each: Vec<(Base, bool)>,
    /// The bases that the log contains, a bit each.
    contained: u64,
}

impl OpenLog {
    /// Encodes the record. Answers for each page whether the log then has all of it.
    pub fn encode(
        &self,
        board: &Board,
        writer: &mut GroupWriter,
        draft: &Draft<'_>,
    ) -> Result<Vec<bool>, Code> {
        writer.reset(draft.begin, draft.database_pages);
        let contained = self.encode_each(board, writer, draft)?;
        let bytes = self.log.record_bytes(writer.len_bytes());
        let pages = draft.last_frames.len();
        let is_searched = bytes > self.log.record_bytes(0)
            && pages <= ROW_PAGES_MAX
            && pages * self.page_bytes <= SEARCH_BYTES_MAX;
        if !is_searched {
            return Ok(contained);
        }
        let mut searched = GroupWriter::new(draft.begin, draft.database_pages);
        let contained_in_row = self.encode_in_row(board, &mut searched, draft)?;
        if self.log.record_bytes(searched.len_bytes()) >= bytes {
            return Ok(contained);
        }
        *writer = searched;
        Ok(contained_in_row)
    }

    /// Each page against one base of its own.
    fn encode_each(
        &self,
        board: &Board,
        writer: &mut GroupWriter,
        draft: &Draft<'_>,
    ) -> Result<Vec<bool>, Code> {
        let mut contained = Vec::with_capacity(draft.last_frames.len());
        let (mut page, mut base) = (Vec::new(), Vec::new());
        let (mut whole, mut changes) = (Vec::new(), Vec::new());
        for &(page_no, frame) in draft.last_frames {
            let page = draft.page(frame, &mut page)?;
            if let Some(known) = self.pages.get(&page_no) {
                let base = self.known_version(draft, page_no, known.frame, &mut base)?;
                writer.push(page_no, Base::Previous, |out| delta::encode(base, page, out));
                contained.push(self.is_contained(board, known));
                continue;
            }
            whole.clear();
            delta::encode_from_zeros(page, &mut whole);
            if self.has_database_base(draft, page_no, whole.len(), &mut base)? {
                changes.clear();
                delta::encode(&base, page, &mut changes);
                if changes.len() < whole.len() / 2 {
                    let crc = page_crc(&base);
                    writer.push(page_no, Base::Database { crc }, |out| {
                        out.extend_from_slice(&changes)
                    });
                    contained.push(false);
                    continue;
                }
            }
            writer.push(page_no, Base::Zeros, |out| out.extend_from_slice(&whole));
            contained.push(true);
        }
        Ok(contained)
    }

    /// The row of all pages' bases.
    fn bases(&self, board: &Board, draft: &Draft<'_>) -> Result<Bases, Code> {
        let (mut page, mut base, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        let pages = draft.last_frames.len();
        let mut bases = Bases {
            row: Vec::with_capacity(pages * self.page_bytes),
            each: Vec::with_capacity(pages),
            contained: 0,
        };
        for (own, &(page_no, frame)) in draft.last_frames.iter().enumerate() {
            let row = &mut bases.row;
            let (kind, contained) = if let Some(known) = self.pages.get(&page_no) {
                let version = self.known_version(draft, page_no, known.frame, &mut base)?;
                row.extend_from_slice(version);
                (Base::Previous, self.is_contained(board, known))
            } else {
                whole.clear();
                delta::encode_from_zeros(draft.page(frame, &mut page)?, &mut whole);
                if self.has_database_base(draft, page_no, whole.len(), &mut base)? {
                    row.extend_from_slice(&base);
                    (Base::Database { crc: page_crc(&base) }, false)
                } else {
                    row.resize(row.len() + self.page_bytes, 0);
                    (Base::Zeros, true)
                }
            };
            bases.each.push((kind, contained));
            bases.contained |= u64::from(contained) << own;
        }
        Ok(bases)
    }

    /// Like [`OpenLog::encode_each`], with copies between the pages of the record.
    fn encode_in_row(
        &self,
        board: &Board,
        writer: &mut GroupWriter,
        draft: &Draft<'_>,
    ) -> Result<Vec<bool>, Code> {
        let Bases { row, each: bases, contained: contained_bases } = self.bases(board, draft)?;
        let mut page = Vec::new();
        let (mut changes, mut moved) = (Vec::new(), Vec::new());
        let searched = Row::new(&row, self.page_bytes);
        let mut all_contained = Vec::with_capacity(bases.len());
        for (own, (&(page_no, frame), (base, contained))) in
            draft.last_frames.iter().zip(bases).enumerate()
        {
            let page = draft.page(frame, &mut page)?;
            changes.clear();
            delta::encode(&row[own * self.page_bytes..][..self.page_bytes], page, &mut changes);
            let itself = 1 << own;
            let mut sources = itself;
            if changes.len() > SEARCHED_BYTES_MIN {
                let allowed = match base {
                    // Recovery reads page 1 alone, before the others. And the log's first format
                    // has no copies between pages.
                    _ if page_no == 1 || !self.log.has_rows() => itself,
                    Base::Previous if contained => itself | contained_bases,
                    Base::Previous | Base::Database { .. } | Base::Zeros => u64::MAX,
                };
                moved.clear();
                let found = searched.encode(own, page, allowed, &mut moved);
                if moved.len() < changes.len() {
                    std::mem::swap(&mut moved, &mut changes);
                    sources |= found;
                }
            }
            writer.push_entry(PageEntry {
                page_no,
                base,
                in_row: sources != itself,
                delta: &changes,
            });
            let sources_contained =
                sources & !contained_bases == 0 || mutant::is(Mutant::SourcesUncounted);
            all_contained.push(contained && sources_contained);
        }
        Ok(all_contained)
    }

    /// The version of a page that the log has.
    fn known_version<'p>(
        &'p self,
        draft: &Draft<'_>,
        page_no: u32,
        frame: u32,
        buffer: &'p mut Vec<u8>,
    ) -> Result<&'p [u8], Code> {
        if let Some(page) = self.versions.get(page_no) {
            return Ok(page);
        }
        draft.image.page(frame, buffer)?;
        Ok(buffer)
    }

    /// Reads a page that the log does not have from the database file. False: it is not there, or a
    /// delta against it is not worth it. Page 1 holds the guard. So the log must be able to restore
    /// page 1 whatever a crash has made of the file.
    fn has_database_base(
        &self,
        draft: &Draft<'_>,
        page_no: u32,
        whole_bytes: usize,
        base: &mut Vec<u8>,
    ) -> Result<bool, Code> {
        Ok(page_no != 1
            && whole_bytes > WHOLE_BYTES_MAX
            && self.read_database_page(draft.main, page_no, base)?)
    }
}
