//! The pages that a recovery makes, in bounded memory. Those changed last are in memory. The others
//! are *spilled*: kept in the image, behind everything in it.
//!
//! Spilled pages do not go at once to the places of their frames. Until a recovery has succeeded,
//! it leaves alone what the image has. After the end of a process, that is still what was
//! committed.

use rustc_hash::FxHashMap;

use super::log::Page;
use crate::error::Code;
use crate::wal_file::{Chain, FRAME_HEADER_BYTES, FrameReader, FrameWriter, HEADER_BYTES, WalFile};

/// A page, and whether the log has all of it.
#[derive(PartialEq, Eq)]
pub struct Rebuilt {
    pub content: Vec<u8>,
    pub contained: bool,
}

pub struct RebuiltPages<'a> {
    image: WalFile<'a>,
    memory_bytes_max: usize,
    /// The first frames of the image, which the epoch stands on. The frames that are made follow
    /// them.
    standing: u32,
    /// By page number, with the frame that each page has or will have.
    pages: FxHashMap<u32, Page>,
    /// Numbers of the pages that are made, in the order of their frames.
    made: Vec<u32>,
    /// Contents that are newer than those in the image, by page number.
    in_memory: FxHashMap<u32, Vec<u8>>,
    spilled: Option<Spilled>,
}

/// Where spilled contents are: in the places of the frames behind `frames`.
#[derive(Clone, Copy)]
struct Spilled {
    size_bytes_before: u64,
    frames: u32,
}

impl<'a> RebuiltPages<'a> {
    /// Pages beyond `memory_bytes_max` are spilled to the image.
    pub fn new(image: WalFile<'a>, memory_bytes_max: usize) -> RebuiltPages<'a> {
        RebuiltPages {
            image,
            memory_bytes_max,
            standing: 0,
            pages: FxHashMap::default(),
            made: Vec::new(),
            in_memory: FxHashMap::default(),
            spilled: None,
        }
    }

    pub fn page_bytes(&self) -> usize {
        self.image.page_bytes
    }

    /// How many pages were made.
    pub fn count(&self) -> usize {
        self.made.len()
    }

    /// The epoch stands on the first frames of the image. To be called before any page is made.
    /// False: those frames are not there.
    pub fn stand_on(&mut self, frames: u32, chain: Chain) -> Result<bool, Code> {
        if frames == 0 || self.standing != 0 || !self.made.is_empty() {
            return Ok(false);
        }
        self.standing = frames;
        let pages = &mut self.pages;
        self.image.verify(frames, chain, |frame, header| {
            pages.insert(header.page_no, Page { frame, contained: true });
        })
    }

    /// Takes out a page to change it. The page was made, or the image has it.
    pub fn take(&mut self, page_no: u32) -> Result<Option<Rebuilt>, Code> {
        let Some(&page) = self.pages.get(&page_no) else { return Ok(None) };
        let content = match self.in_memory.remove(&page_no) {
            Some(content) => content,
            None => self.read(page.frame)?,
        };
        Ok(Some(Rebuilt { content, contained: page.contained }))
    }

    pub fn put(
        &mut self,
        page_no: u32,
        Rebuilt { content, contained }: Rebuilt,
    ) -> Result<(), Code> {
        let page = self.pages.entry(page_no).or_insert(Page { frame: 0, contained });
        page.contained = contained;
        if page.frame <= self.standing {
            self.made.push(page_no);
            page.frame = self.standing + self.made.len() as u32;
        }
        self.in_memory.insert(page_no, content);
        if self.in_memory.len() * self.image.page_bytes > self.memory_bytes_max {
            self.spill()?;
        }
        Ok(())
    }

    /// Writes the frames of all pages that were made, as one transaction that leaves
    /// `database_pages`. Answers every page with its frame.
    pub fn write(
        mut self,
        chain: Chain,
        database_pages: u32,
    ) -> Result<FxHashMap<u32, Page>, Code> {
        let made = std::mem::take(&mut self.made);
        let mut frames = FrameWriter::new(self.image, self.standing + 1, chain);
        let mut spilled = FrameReader::new(self.image, self.image.frames()?);
        for (&page_no, frame) in made.iter().zip(self.standing + 1..) {
            let ends = if Some(&page_no) == made.last() { database_pages } else { 0 };
            match self.in_memory.remove(&page_no) {
                Some(content) => frames.push(page_no, ends, &content)?,
                // A spilled page is as far behind its frame as every other. So no frame that is
                // written reaches a place that is still to be read.
                None => frames.push(
                    page_no,
                    ends,
                    &spilled.frame(self.place(frame))?[FRAME_HEADER_BYTES..],
                )?,
            }
        }
        frames.finish()?;
        self.spilled = None;
        Ok(std::mem::take(&mut self.pages))
    }

    /// What the image has of a page with this frame.
    fn read(&self, frame: u32) -> Result<Vec<u8>, Code> {
        let mut content = Vec::new();
        self.image.page(self.place(frame), &mut content)?;
        Ok(content)
    }

    fn place(&self, frame: u32) -> u32 {
        match self.spilled {
            Some(Spilled { frames, .. }) if frame > self.standing => {
                frames + (frame - self.standing)
            }
            _ => frame,
        }
    }

    fn spill(&mut self) -> Result<(), Code> {
        if self.spilled.is_none() {
            let size_bytes_before = self.image.file.size_bytes()?;
            let frames = size_bytes_before
                .saturating_sub(HEADER_BYTES)
                .div_ceil(self.image.frame_bytes()) as u32;
            self.spilled = Some(Spilled { size_bytes_before, frames: frames.max(self.standing) });
        }
        let contents = std::mem::take(&mut self.in_memory);
        let mut contents: Vec<(u32, Vec<u8>)> = contents
            .into_iter()
            .map(|(page_no, content)| (self.place(self.pages[&page_no].frame), content))
            .collect();
        contents.sort_unstable_by_key(|(place, _)| *place);
        for run in contents.chunk_by(|(place, _), (next, _)| place + 1 == *next) {
            self.image.write_pages(run[0].0, run.iter().map(|(_, content)| &content[..]))?;
        }
        Ok(())
    }
}

impl Drop for RebuiltPages<'_> {
    /// Without [`RebuiltPages::write`] the image gets its old size back.
    fn drop(&mut self) {
        if let Some(Spilled { size_bytes_before, .. }) = self.spilled {
            let _ = self.image.file.truncate(size_bytes_before);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::test_wal::Wal;

    const PAGE: usize = 512;

    fn rebuilt(byte: u8) -> Rebuilt {
        Rebuilt { content: vec![byte; PAGE], contained: byte.is_multiple_of(2) }
    }

    /// An image with one frame each for pages 1, 2, ….
    fn image(pages: &[u8]) -> (Wal, Chain) {
        let wal = Wal::default();
        let file = WalFile { file: &wal, page_bytes: PAGE };
        let mut chain = file.write_header([1, 2]).unwrap();
        for (frame, &byte) in (1..).zip(pages) {
            chain = file.write_frame(frame, chain, frame, frame, &[byte; PAGE]).unwrap();
        }
        (wal, chain)
    }

    /// What a reader of the image finds. For each frame: the page, the byte that fills it, the size
    /// of the database.
    fn frames(wal: &Wal, count: u32, expected: Chain) -> Vec<(u32, u8, u32)> {
        let file = WalFile { file: wal, page_bytes: PAGE };
        let (mut found, mut content) = (Vec::new(), Vec::new());
        let verified = file.verify(count, expected, |_, header| {
            found.push((header.page_no, 0, header.database_pages))
        });
        assert!(verified.unwrap());
        for (frame, (_, byte, _)) in (1..).zip(&mut found) {
            file.page(frame, &mut content).unwrap();
            assert!(content.iter().all(|of| *of == content[0]));
            *byte = content[0];
        }
        found
    }

    #[test]
    fn the_frames_are_the_same_however_little_fits_into_memory() {
        for memory_bytes_max in [0, PAGE, 3 * PAGE, usize::MAX] {
            // The epoch stands on three of five frames.
            let (wal, _) = image(&[11, 12, 13]);
            let file = WalFile { file: &wal, page_bytes: PAGE };
            let standing = file.header_of(3).unwrap().chain;
            let behind = file.write_frame(4, standing, 9, 9, &[14; PAGE]).unwrap();
            file.write_frame(5, behind, 9, 9, &[15; PAGE]).unwrap();

            let mut pages = RebuiltPages::new(file, memory_bytes_max);
            assert!(pages.stand_on(3, standing).unwrap());
            assert!(
                pages.take(9).unwrap().is_none(),
                "of a frame that the epoch does not stand on"
            );
            for (page_no, byte) in [(2, 40), (7, 51), (1, 60), (7, 52), (8, 70), (2, 41), (4, 80)] {
                let had =
                    pages.take(page_no).unwrap().map(|page| (page.content[0], page.contained));
                let expected = match (page_no, byte) {
                    (2, 40) => Some((12, true)),
                    (1, 60) => Some((11, true)),
                    (7, 52) => Some((51, false)),
                    (2, 41) => Some((40, true)),
                    _ => None,
                };
                assert_eq!(had, expected, "{page_no}");
                pages.put(page_no, rebuilt(byte)).unwrap();
            }
            assert_eq!(pages.count(), 5);
            let written = pages.write(standing, 8).unwrap();
            let mut of: Vec<_> = written
                .iter()
                .map(|(&page_no, page)| (page_no, page.frame, page.contained))
                .collect();
            of.sort_unstable();
            assert_eq!(
                of,
                [
                    (1, 6, true),
                    (2, 4, false),
                    (3, 3, true),
                    (4, 8, true),
                    (7, 5, true),
                    (8, 7, true)
                ]
            );
            let found = frames(&wal, 8, file.header_of(8).unwrap().chain);
            assert_eq!(found[3..], [(2, 41, 0), (7, 52, 0), (1, 60, 0), (8, 70, 0), (4, 80, 8)]);
        }
    }

    #[test]
    fn what_is_spilled_is_written_and_read_in_pieces() {
        const PAGES: u32 = 1000;
        let (wal, standing) = image(&[11]);
        let file = WalFile { file: &wal, page_bytes: PAGE };
        let mut pages = RebuiltPages::new(file, 200 * PAGE);
        assert!(pages.stand_on(1, standing).unwrap());
        let writes_before = wal.writes().len();
        // In an order that is not that of the pages. Every third page is changed again much later.
        let order = (0..PAGES).map(|at| 2 + at * 37 % PAGES);
        for (page_no, byte) in order
            .clone()
            .map(|page_no| (page_no, page_no as u8))
            .chain(order.step_by(3).map(|page_no| (page_no, !page_no as u8)))
        {
            pages.take(page_no).unwrap();
            pages.put(page_no, rebuilt(byte)).unwrap();
        }
        // Four times 200 pages in a row. Then 334 of which no two follow each other.
        let spills = wal.writes().len() - writes_before;
        assert!((4..=4 * 4 + 334).contains(&spills), "{spills}");
        assert!(wal.writes()[writes_before..].iter().any(|(_, len)| *len > 50 * PAGE));

        let written = pages.write(standing, 2000).unwrap();
        let found = frames(&wal, PAGES + 1, file.header_of(PAGES + 1).unwrap().chain);
        for (at, (frame, (page_no, byte, _))) in (2..).zip(&found[1..]).enumerate() {
            assert_eq!(written[page_no].frame, frame);
            assert_eq!(
                *byte,
                if at % 3 == 0 { !*page_no as u8 } else { *page_no as u8 },
                "{page_no}"
            );
        }
    }

    #[test]
    fn an_image_that_is_not_there_whole_or_comes_late_is_not_stood_on() {
        let (wal, chain) = image(&[1, 2]);
        let file = WalFile { file: &wal, page_bytes: PAGE };
        let new = || RebuiltPages::new(file, 0);
        assert!(new().stand_on(2, chain).unwrap());
        assert!(
            !new().stand_on(0, chain).unwrap()
                && !new().stand_on(1, chain).unwrap()
                && !new().stand_on(3, chain).unwrap()
        );
        let mut late = new();
        late.put(1, rebuilt(1)).unwrap();
        assert!(!late.stand_on(2, chain).unwrap());
        let mut twice = new();
        assert!(twice.stand_on(2, chain).unwrap() && !twice.stand_on(2, chain).unwrap());
    }
}
