//! A WAL as SQLite writes and reads it ("WAL file format").
//!
//! It is SQLite's own file, or the volatile image that `eager` keeps in its place.
//!
//! ```text
//! 0   header of 32 bytes: magic, version, page size, checkpoint number, salts, checksum
//! 32  frame 1: header of 24 bytes (page number, size of the database after a commit or 0,
//!     salts, checksum), then the page
//! …   frame 2
//! ```
//!
//! Checksums run on from the header through all frames. Their byte order is the one that the
//! magic's lowest bit names. Everything else is big-endian.

use rustc_hash::FxHashSet;

use crate::error::Code;
use crate::port::Below;

pub const HEADER_BYTES: u64 = 32;
pub const FRAME_HEADER_BYTES: usize = 24;

/// `WAL_MAGIC`. Its lowest bit is set for checksums over big-endian words.
const MAGIC: u32 = 0x377f_0682 | cfg!(target_endian = "big") as u32;
const VERSION: u32 = 3_007_000;

/// The frames that a recovery of a WAL would find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToRecover {
    pub page_bytes: u32,
    /// The count ends at the last commit whose salts are the header's.
    pub frames: u32,
    /// The first and the last of these frames that have page 1.
    page_one: Option<(u32, u32)>,
}

/// How many frames a recovery of this WAL would find. None: the WAL has no header.
///
/// The checksums are not looked at.
pub fn frames_to_recover(wal: &dyn Below) -> Option<ToRecover> {
    let mut header = [0; HEADER_BYTES as usize];
    wal.read(&mut header, 0).ok()?;
    let (page_bytes, chain) = WalFile::header(&header)?;
    let file = WalFile { file: wal, page_bytes };
    let mut committed = ToRecover { page_bytes: page_bytes as u32, frames: 0, page_one: None };
    let mut page_one = None;
    for frame in 1..=file.frames().ok()? {
        match file.header_of(frame) {
            Ok(header) if header.chain.salt == chain.salt && header.page_no > 0 => {
                if header.page_no == 1 {
                    page_one = Some((page_one.map_or(frame, |(first, _)| first), frame));
                }
                if header.database_pages > 0 {
                    committed = ToRecover { frames: frame, page_one, ..committed };
                }
            }
            _ => break,
        }
    }
    Some(committed)
}

/// The file change counters ("Database File Format", section 1.3.6) of a database file and of the
/// first and the last page 1 that a recovery of its WAL would find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCounters {
    pub file: u32,
    pub first: u32,
    pub last: u32,
}

impl ChangeCounters {
    /// `found`: in the WAL. None: the file is empty, or no commit in the WAL has page 1.
    pub fn of(database: &dyn Below, wal: &dyn Below, found: ToRecover) -> Option<ChangeCounters> {
        let frames = WalFile { file: wal, page_bytes: found.page_bytes as usize };
        let (first, last) = found.page_one?;
        let in_frame = |frame| frames.offset_of(frame) + FRAME_HEADER_BYTES as u64;
        Some(ChangeCounters {
            file: counter(database, 0)?,
            first: counter(wal, in_frame(first))?,
            last: counter(wal, in_frame(last))?,
        })
    }

    /// In WAL mode page 1 reaches the database file by a checkpoint alone, and no commit makes its
    /// counter smaller. The first commit of a WAL with page 1 has the counter of the file before
    /// it, or that plus one. So the file has a counter from the one before the WAL's first to its
    /// last.
    pub fn are_of_one_time(&self) -> bool {
        let before = self.first.wrapping_sub(1);
        self.file.wrapping_sub(before) <= self.last.wrapping_sub(before)
    }
}

/// The counter in a page 1 that begins at `offset`.
fn counter(file: &dyn Below, offset: u64) -> Option<u32> {
    let mut counter = [0; 4];
    file.read(&mut counter, offset + 24).ok()?;
    Some(u32::from_be_bytes(counter))
}

/// Salts and checksum at the end of a frame: the state of the chain up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    pub salt: [u32; 2],
    pub checksum: [u32; 2],
}

impl Chain {
    /// The chain up to a frame behind this one. `frame` includes its header.
    pub fn behind(self, frame: &[u8]) -> Chain {
        let checksum = checksum(checksum(self.checksum, &frame[..8]), &frame[FRAME_HEADER_BYTES..]);
        Chain { salt: self.salt, checksum }
    }

    /// The chain as it stands in a frame's header, behind its first 8 bytes.
    pub fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.salts());
        bytes[8..12].copy_from_slice(&self.checksum[0].to_be_bytes());
        bytes[12..].copy_from_slice(&self.checksum[1].to_be_bytes());
        bytes
    }

    /// The salts as they stand in the file.
    pub fn salts(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.salt[0].to_be_bytes());
        bytes[4..].copy_from_slice(&self.salt[1].to_be_bytes());
        bytes
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub page_no: u32,
    /// The size of the database in pages after the commit that this frame ends. 0: it ends none.
    pub database_pages: u32,
    pub chain: Chain,
}

impl FrameHeader {
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> FrameHeader {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        FrameHeader {
            page_no: word(0),
            database_pages: word(4),
            chain: Chain { salt: [word(8), word(12)], checksum: [word(16), word(20)] },
        }
    }
}

/// The frames of a WAL that SQLite would recover.
#[derive(Debug, Default)]
pub struct Committed {
    /// The last frame of the last commit.
    pub frames: u32,
    /// The page of each of these frames.
    page_numbers: Vec<u32>,
}

impl Committed {
    /// The newest frame of a page.
    pub fn last_frame_of(&self, page_no: u32) -> Option<u32> {
        self.page_numbers.iter().rposition(|&of| of == page_no).map(|at| at as u32 + 1)
    }

    /// The pages that these frames have.
    pub fn pages(&self) -> FxHashSet<u32> {
        self.page_numbers.iter().copied().collect()
    }
}

/// Access to a WAL by frames, which count from 1.
#[derive(Clone, Copy)]
pub struct WalFile<'a> {
    pub file: &'a dyn Below,
    pub page_bytes: usize,
}

impl WalFile<'_> {
    /// The page size and the chain of a header. None: SQLite rejects the header, at least on this
    /// machine.
    pub fn header(header: &[u8; HEADER_BYTES as usize]) -> Option<(usize, Chain)> {
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let chain = Chain { salt: [word(16), word(20)], checksum: checksum([0; 2], &header[..24]) };
        let page_bytes = word(8);
        let is_page = page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes);
        (word(0) == MAGIC && is_page && [word(24), word(28)] == chain.checksum)
            .then_some((page_bytes as usize, chain))
    }

    /// Finds the frames up to the last commit whose checksums run on from the header.
    pub fn committed(file: &dyn Below) -> Result<Committed, Code> {
        let mut header = [0; HEADER_BYTES as usize];
        if found(file.read(&mut header, 0))?.is_none() {
            return Ok(Committed::default());
        }
        let Some((page_bytes, mut chain)) = WalFile::header(&header) else {
            return Ok(Committed::default());
        };
        let of = WalFile { file, page_bytes };
        let mut committed = Committed::default();
        let last = of.frames()?;
        let mut frames = FrameReader::new(of, last);
        for frame in 1..=last {
            let Some(bytes) = found(frames.frame(frame))? else { break };
            chain = chain.behind(bytes);
            let Some(header) = bytes.first_chunk().map(FrameHeader::decode) else { break };
            if header.chain != chain || header.page_no == 0 {
                break;
            }
            committed.page_numbers.push(header.page_no);
            if header.database_pages != 0 {
                committed.frames = frame;
            }
        }
        committed.page_numbers.truncate(committed.frames as usize);
        Ok(committed)
    }

    pub fn offset_of(&self, frame: u32) -> u64 {
        HEADER_BYTES + u64::from(frame - 1) * self.frame_bytes()
    }

    pub fn frame_bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES + self.page_bytes) as u64
    }

    /// How many whole frames the file has room for.
    pub fn frames(&self) -> Result<u32, Code> {
        Ok((self.file.size_bytes()?.saturating_sub(HEADER_BYTES) / self.frame_bytes()) as u32)
    }

    pub fn header_of(&self, frame: u32) -> Result<FrameHeader, Code> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.file.read(&mut header, self.offset_of(frame))?;
        Ok(FrameHeader::decode(&header))
    }

    pub fn page(&self, frame: u32, page: &mut Vec<u8>) -> Result<(), Code> {
        page.resize(self.page_bytes, 0);
        self.file.read(page, self.offset_of(frame) + FRAME_HEADER_BYTES as u64)
    }

    /// Writes pages where the frames from `frame` on would have them. The headers are zeros, so
    /// these are no frames.
    pub fn write_pages<'p>(
        &self,
        frame: u32,
        pages: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<(), Code> {
        let mut pieces = PieceWriter::new(self.file, self.offset_of(frame));
        for page in pages {
            pieces.push(&[0; FRAME_HEADER_BYTES])?;
            pieces.push(page)?;
        }
        pieces.finish()
    }

    /// Leaves nothing in the WAL that counts.
    ///
    /// The file is not cut to 0 bytes. ext4 takes a file that was cut so, even an empty one, for
    /// one that is being replaced. It writes out all of such a file at its next close.
    pub fn empty(&self) -> Result<(), Code> {
        let size_bytes = self.file.size_bytes()?;
        if size_bytes > HEADER_BYTES {
            self.file.truncate(HEADER_BYTES)?;
        }
        if size_bytes > 0 {
            self.file.write(&[0; HEADER_BYTES as usize], 0)?;
        }
        Ok(())
    }

    /// Writes the header of a new image and answers its chain.
    pub fn write_header(&self, salt: [u32; 2]) -> Result<Chain, Code> {
        let mut header = [0; HEADER_BYTES as usize];
        for (at, word) in
            [MAGIC, VERSION, self.page_bytes as u32, 0, salt[0], salt[1]].into_iter().enumerate()
        {
            header[at * 4..at * 4 + 4].copy_from_slice(&word.to_be_bytes());
        }
        let checksum = checksum([0; 2], &header[..24]);
        header[24..28].copy_from_slice(&checksum[0].to_be_bytes());
        header[28..].copy_from_slice(&checksum[1].to_be_bytes());
        self.file.write(&header, 0)?;
        Ok(Chain { salt, checksum })
    }

    /// Writes a frame behind `chain`. Answers the chain up to it.
    #[cfg(test)]
    pub fn write_frame(
        &self,
        frame: u32,
        chain: Chain,
        page_no: u32,
        database_pages: u32,
        page: &[u8],
    ) -> Result<Chain, Code> {
        let mut frames = FrameWriter::new(*self, frame, chain);
        frames.push(page_no, database_pages, page)?;
        frames.finish()
    }

    /// True if the frames behind `from` up to `to` continue the chain.
    ///
    /// That is what SQLite itself takes for a commit when it recovers.
    pub fn continues(&self, from: u32, to: u32) -> Result<bool, Code> {
        if to <= from {
            return Ok(true);
        }
        let mut chain = match from {
            0 => {
                let mut header = [0; HEADER_BYTES as usize];
                if found(self.file.read(&mut header, 0))?.is_none() {
                    return Ok(false);
                }
                let word = |at: usize| {
                    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
                };
                Chain { salt: [word(16), word(20)], checksum: [word(24), word(28)] }
            }
            from => self.header_of(from)?.chain,
        };
        let mut frames = FrameReader::new(*self, to);
        for frame in from + 1..=to {
            let Some(bytes) = found(frames.frame(frame))? else { return Ok(false) };
            chain = chain.behind(bytes);
            if bytes[8..FRAME_HEADER_BYTES] != chain.encode() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks the first `frames` frames against the chain at the end of the last, and calls `visit`
    /// with each.
    ///
    /// False: the image is not what it should be.
    pub fn verify(
        &self,
        frames: u32,
        expected: Chain,
        mut visit: impl FnMut(u32, &FrameHeader),
    ) -> Result<bool, Code> {
        let mut header = [0; HEADER_BYTES as usize];
        if found(self.file.read(&mut header, 0))?.is_none() {
            return Ok(false);
        }
        let begin = Self::header(&header).filter(|(page_bytes, chain)| {
            *page_bytes == self.page_bytes && chain.salt == expected.salt
        });
        let Some((_, mut chain)) = begin else { return Ok(false) };
        let mut reader = FrameReader::new(*self, frames);
        for frame in 1..=frames {
            let Some(bytes) = found(reader.frame(frame))? else { return Ok(false) };
            let mut frame_header = [0; FRAME_HEADER_BYTES];
            frame_header.copy_from_slice(&bytes[..FRAME_HEADER_BYTES]);
            let header = FrameHeader::decode(&frame_header);
            chain = chain.behind(bytes);
            if header.chain != chain {
                return Ok(false);
            }
            visit(frame, &header);
        }
        Ok(chain.checksum == expected.checksum)
    }
}

/// Reads frames, as many at a time as fit into [`PIECE_BYTES`].
pub struct FrameReader<'a> {
    wal: WalFile<'a>,
    last: u32,
    /// The first frame in `bytes`.
    first: u32,
    bytes: Vec<u8>,
}

impl<'a> FrameReader<'a> {
    /// A reader that reads nothing behind the frame `last`.
    pub fn new(wal: WalFile<'a>, last: u32) -> FrameReader<'a> {
        FrameReader { wal, last, first: 0, bytes: Vec::new() }
    }

    /// The bytes of a frame, with its header.
    pub fn frame(&mut self, frame: u32) -> Result<&[u8], Code> {
        let frame_bytes = self.wal.frame_bytes() as usize;
        let mut at = frame.wrapping_sub(self.first) as usize;
        if at >= self.bytes.len() / frame_bytes {
            let frames =
                (PIECE_BYTES / frame_bytes).clamp(1, self.last.saturating_sub(frame) as usize + 1);
            self.bytes.resize(frames * frame_bytes, 0);
            (self.first, at) = (frame, 0);
            if let Err(code) = self.wal.file.read(&mut self.bytes, self.wal.offset_of(frame)) {
                self.bytes.clear();
                return Err(code);
            }
        }
        Ok(&self.bytes[at * frame_bytes..][..frame_bytes])
    }
}

/// Writes of many frames end at multiples of this.
///
/// It is a multiple of the page size of any page cache. It is below the 128 KiB that SQLite's
/// "unix" VFS takes at once.
const PIECE_BYTES: usize = 64 << 10;

/// Writes bytes that follow each other in whole pieces of the file.
///
/// A frame is no multiple of a page of the page cache. If such a page is not in memory, the kernel
/// first reads from the device what the write leaves of it, one read after the other.
struct PieceWriter<'a> {
    file: &'a dyn Below,
    /// The offset of `bytes` in the file.
    offset: u64,
    bytes: Vec<u8>,
}

impl<'a> PieceWriter<'a> {
    fn new(file: &'a dyn Below, offset: u64) -> PieceWriter<'a> {
        PieceWriter { file, offset, bytes: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Code> {
        self.bytes.extend_from_slice(bytes);
        self.write_whole()
    }

    fn finish(mut self) -> Result<(), Code> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.write(self.bytes.len())
    }

    fn write_whole(&mut self) -> Result<(), Code> {
        loop {
            let piece_bytes = PIECE_BYTES - self.offset as usize % PIECE_BYTES;
            if self.bytes.len() < piece_bytes {
                return Ok(());
            }
            self.write(piece_bytes)?;
        }
    }

    fn write(&mut self, bytes: usize) -> Result<(), Code> {
        self.file.write(&self.bytes[..bytes], self.offset)?;
        self.offset += bytes as u64;
        self.bytes.drain(..bytes);
        Ok(())
    }
}

/// Writes frames that follow each other.
pub struct FrameWriter<'a> {
    pieces: PieceWriter<'a>,
    chain: Chain,
}

impl<'a> FrameWriter<'a> {
    /// A writer from `frame` on, which is behind `chain`.
    pub fn new(wal: WalFile<'a>, frame: u32, chain: Chain) -> FrameWriter<'a> {
        FrameWriter { pieces: PieceWriter::new(wal.file, wal.offset_of(frame)), chain }
    }

    pub fn push(&mut self, page_no: u32, database_pages: u32, page: &[u8]) -> Result<(), Code> {
        let bytes = &mut self.pieces.bytes;
        let begin = bytes.len();
        bytes.extend_from_slice(&page_no.to_be_bytes());
        bytes.extend_from_slice(&database_pages.to_be_bytes());
        bytes.resize(begin + FRAME_HEADER_BYTES, 0);
        bytes.extend_from_slice(page);
        self.chain = self.chain.behind(&bytes[begin..]);
        bytes[begin + 8..begin + FRAME_HEADER_BYTES].copy_from_slice(&self.chain.encode());
        self.pieces.write_whole()
    }

    /// Writes the rest. Answers the chain up to the last frame.
    pub fn finish(self) -> Result<Chain, Code> {
        self.pieces.finish()?;
        Ok(self.chain)
    }
}

/// None for a read beyond the end of the file.
fn found<T>(result: Result<T, Code>) -> Result<Option<T>, Code> {
    match result {
        Ok(read) => Ok(Some(read)),
        Err(Code::SHORT_READ) => Ok(None),
        Err(code) => Err(code),
    }
}

/// "The checksum is computed by interpreting the input as an even number of unsigned 32-bit
/// integers x(0) … x(N): s0 += x(i) + s1; s1 += x(i+1) + s0."
///
/// The integers are in the machine's own byte order, which [`MAGIC`] states.
fn checksum(from: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let [mut s0, mut s1] = from;
    for pair in bytes.chunks_exact(8) {
        let word =
            |at: usize| u32::from_ne_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
        s0 = s0.wrapping_add(word(0)).wrapping_add(s1);
        s1 = s1.wrapping_add(word(4)).wrapping_add(s0);
    }
    [s0, s1]
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::test_wal::Wal;

    #[test]
    fn frames_are_written_in_pieces_that_end_where_those_of_the_file_do() {
        for page_bytes in [512, 4096, 65536] {
            let (together, one_by_one) = (Wal::default(), Wal::default());
            let file = WalFile { file: &one_by_one, page_bytes };
            let mut chain = file.write_header([1, 2]).unwrap();
            let mut frames = FrameWriter::new(WalFile { file: &together, page_bytes }, 3, chain);
            let pages = 3 * PIECE_BYTES / page_bytes + 2;
            for frame in 3..3 + pages as u32 {
                let page = vec![frame as u8; page_bytes];
                chain = file.write_frame(frame, chain, frame, frame % 2, &page).unwrap();
                frames.push(frame, frame % 2, &page).unwrap();
            }
            assert_eq!(frames.finish().unwrap(), chain);

            let begin = file.offset_of(3) as usize;
            assert_eq!(together.bytes()[begin..], one_by_one.bytes()[begin..], "{page_bytes}");
            let writes = together.writes();
            let ends: Vec<_> = writes.iter().map(|(offset, len)| *offset as usize + len).collect();
            assert!(writes.iter().all(|(_, len)| (1..=PIECE_BYTES).contains(len)), "{writes:?}");
            assert!(ends[..ends.len() - 1].iter().all(|end| end % PIECE_BYTES == 0), "{writes:?}");
            assert!(
                ends.iter().zip(&writes[1..]).all(|(end, (next, _))| *end as u64 == *next),
                "{writes:?}"
            );
        }
    }
}
