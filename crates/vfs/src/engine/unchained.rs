//! Frames without checksums, which SQLite 3.40.1 forgets after a `ROLLBACK TO` (newer versions do
//! not).
//!
//! **What SQLite does.** A transaction larger than the cache writes frames before it commits. When
//! it writes a page again it writes over the page's frame, and the checksums behind become wrong.
//! From then on SQLite writes frames with zeros in the place of salts and checksum. It remembers
//! the first frame that it wrote over (`Wal.iReCksum`). As the commit's last step it writes the
//! headers anew from that frame on (`walRewriteChecksums`).
//!
//! **The fault.** `ROLLBACK TO` takes frames back. Later frames are then written from further in
//! front, still with zeros, and old versions keep `iReCksum`. At the commit the headers in front of
//! `iReCksum` stay zeros. If `iReCksum` is behind the last frame, all headers do. The WAL index
//! says that all frames are there, so nobody notices. After a crash, or after the last process has
//! died, the chain breaks at the first such frame. This commit and every later one are lost.
//!
//! **What is done here.** `walRewriteChecksums` first reads 8 bytes: the checksum of the frame in
//! front of `iReCksum`. It goes on from that checksum, in the WAL index too. All frames of the
//! commit are written by then. At that read the forgotten frames get their headers. The answer is
//! the checksum up to the last of them. SQLite goes on as a version without the fault does: at the
//! same frame, with the same checksum.
//!
//! Invariants, cited by number:
//!
//! 1. `first` is the first header of zeros of the transaction. A header with salts at its place or
//!    in front of it takes it back. SQLite writes headers in order, so nothing behind counts then.
//! 2. A commit whose sync comes while `first` is set has a broken chain, and fails.
//!
//! What survives a crash: the headers are written before SQLite syncs the commit, as SQLite's own
//! headers are. Before that sync the commit is not acknowledged.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::connection::WalConnection;
use super::store::{Header, Store};
use crate::error::{Code, Error};
use crate::port::Below;
use crate::wal_file::{Chain, FRAME_HEADER_BYTES, FrameHeader, FrameReader, HEADER_BYTES, WalFile};

/// What `walRewriteChecksums` reads first: the checksum in the header of a frame or of the WAL.
const CHECKSUM_BYTES: usize = 8;
const CHECKSUM_IN_FRAME: u64 = 16;
const CHECKSUM_IN_WAL: u64 = 24;

/// The offset of the transaction's first header of zeros (`first`). 0: there is none.
#[derive(Default)]
pub struct Unchained(AtomicU64);

impl Unchained {
    /// Notes that SQLite writes `data` to the WAL.
    #[inline(always)]
    pub fn note(&self, data: &[u8], offset: u64) {
        if data.len() != FRAME_HEADER_BYTES && offset != 0 {
            return;
        }
        let first = self.0.load(Relaxed);
        let has_none = offset != 0 && data[8..] == [0; 16];
        // Invariant 1.
        if if has_none { first == 0 || offset < first } else { first != 0 && offset <= first } {
            self.0.store(if has_none { offset } else { 0 }, Relaxed);
        }
    }

    pub fn any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// The transaction is over, or all its frames have their checksums.
    pub fn forget(&self) {
        self.0.store(0, Relaxed);
    }

    /// SQLite reads this part of the WAL.
    ///
    /// True: SQLite is about to write headers anew, but not from the first that it owes.
    #[inline(always)]
    pub fn is_passed_over(&self, len: usize, offset: u64) -> bool {
        len == CHECKSUM_BYTES
            && offset != CHECKSUM_IN_WAL
            && (1..=offset).contains(&self.0.load(Relaxed))
    }
}

/// The headers that SQLite owes, with their offsets, and the checksum that it is to go on from.
#[derive(Debug)]
struct Owed {
    headers: Vec<Header>,
    chain: Chain,
}

impl Owed {
    /// The headers owed from offset `first` on, in front of the frame that SQLite begins with.
    ///
    /// SQLite reads at `read_at`.
    fn find(wal: &dyn Below, first: u64, read_at: u64) -> Result<Owed, Code> {
        let mut header = [0; HEADER_BYTES as usize];
        wal.read(&mut header, 0)?;
        let (page_bytes, chain_of_wal) = WalFile::header(&header).ok_or(Code::IOERR_READ)?;
        let of = WalFile { file: wal, page_bytes };
        let frame_at = |offset: u64| {
            let frames = (offset - HEADER_BYTES) / of.frame_bytes();
            u32::try_from(frames + 1)
                .ok()
                .filter(|&frame| of.offset_of(frame) == offset)
                .ok_or(Code::IOERR_READ)
        };
        let (first, last) = (frame_at(first)?, frame_at(read_at - CHECKSUM_IN_FRAME)?);
        // What was taken back may not be in the file. The commit's frames are.
        let there = wal.size_bytes()?.saturating_sub(HEADER_BYTES) / of.frame_bytes();
        let last = last.min(u32::try_from(there).unwrap_or(last));
        let mut chain = if first == 1 { chain_of_wal } else { of.header_of(first - 1)?.chain };
        if chain.salt != chain_of_wal.salt {
            return Err(Code::IOERR_READ);
        }
        let mut headers = Vec::new();
        let mut frames = FrameReader::new(of, last);
        for frame in first..=last {
            let bytes = frames.frame(frame)?;
            chain = chain.behind(bytes);
            let mut header = [0; FRAME_HEADER_BYTES];
            header[..8].copy_from_slice(&bytes[..8]);
            header[8..].copy_from_slice(&chain.encode());
            headers.push((of.offset_of(frame), header));
            if FrameHeader::decode(&header).database_pages != 0 {
                // Frames behind the commit's last frame were taken back.
                break;
            }
        }
        Ok(Owed { headers, chain })
    }
}

impl<S: Store> WalConnection<S> {
    /// Writes the headers that SQLite has passed over, and answers the checksum that SQLite goes on
    /// from.
    #[cold]
    pub(super) fn mend_chain(
        &self,
        wal: &dyn Below,
        answer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        let first = self.unchained.0.load(Relaxed);
        let owed = Owed::find(wal, first, offset)?;
        debug_assert_eq!(
            owed.headers.first().map(|(offset, _)| *offset),
            Some(first),
            "invariant 1: the first header owed is written"
        );
        self.store().write_headers(self, wal, &owed.headers)?;
        self.unchained.forget();
        answer.copy_from_slice(&owed.chain.encode()[CHECKSUM_BYTES..]);
        Ok(())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::test_wal::Wal;

    const PAGE_BYTES: usize = 512;
    const SALT: [u32; 2] = [1, 2];

    /// A transaction behind two frames of others.
    struct Transaction {
        wal: Wal,
        unchained: Unchained,
        first: u32,
    }

    impl Transaction {
        fn new() -> Transaction {
            let wal = Wal::default();
            let of = WalFile { file: &wal, page_bytes: PAGE_BYTES };
            let mut chain = of.write_header(SALT).unwrap();
            for frame in 1..3 {
                chain = of.write_frame(frame, chain, frame, 9, &[7; PAGE_BYTES]).unwrap();
            }
            Transaction { wal, unchained: Unchained::default(), first: 3 }
        }

        fn of(&self) -> WalFile<'_> {
            WalFile { file: &self.wal, page_bytes: PAGE_BYTES }
        }

        fn write(&self, data: &[u8], offset: u64) {
            self.unchained.note(data, offset);
            self.wal.write(data, offset).unwrap();
        }

        /// Writes a frame as SQLite does while its `iReCksum` is set.
        fn write_without(&self, frame: u32, database_pages: u32) {
            let mut header = [0; FRAME_HEADER_BYTES];
            header[..4].copy_from_slice(&frame.to_be_bytes());
            header[4..8].copy_from_slice(&database_pages.to_be_bytes());
            self.write(&header, self.of().offset_of(frame));
            self.write(
                &[frame as u8; PAGE_BYTES],
                self.of().offset_of(frame) + FRAME_HEADER_BYTES as u64,
            );
        }

        /// Does what SQLite's `walRewriteChecksums` does, with what `mend_chain` does at its read.
        fn end(&self, first_written_over: u32, last: u32) -> Chain {
            let read_at = self.of().offset_of(first_written_over - 1) + CHECKSUM_IN_FRAME;
            let mut chain = self.of().header_of(first_written_over - 1).unwrap().chain;
            if self.unchained.is_passed_over(CHECKSUM_BYTES, read_at) {
                let owed = Owed::find(&self.wal, self.unchained.0.load(Relaxed), read_at).unwrap();
                owed.headers
                    .iter()
                    .for_each(|(offset, header)| self.wal.write(header, *offset).unwrap());
                self.unchained.forget();
                chain = owed.chain;
            }
            chain.salt = SALT;
            for frame in first_written_over..=last {
                let mut bytes = vec![0; FRAME_HEADER_BYTES + PAGE_BYTES];
                self.wal.read(&mut bytes, self.of().offset_of(frame)).unwrap();
                chain = chain.behind(&bytes);
                bytes[8..FRAME_HEADER_BYTES].copy_from_slice(&chain.encode());
                self.write(&bytes[..FRAME_HEADER_BYTES], self.of().offset_of(frame));
            }
            chain
        }
    }

    /// SQLite 3.40.1 lost such a commit and all behind it. A `ROLLBACK TO` had taken back the frame
    /// that was written over first.
    #[test]
    fn frames_that_sqlite_passes_over_get_their_checksums_and_sqlite_goes_on_from_them() {
        for first_written_over in 4..20 {
            let transaction = Transaction::new();
            (9..15).for_each(|frame| transaction.write_without(frame, 0));
            // ROLLBACK TO, then fewer frames than before.
            let (first, last) = (transaction.first, 12);
            (first..last).for_each(|frame| transaction.write_without(frame, 0));
            transaction.write_without(last, 30);
            (last + 1..20).for_each(|frame| {
                transaction.of().write_pages(frame, [&[1; PAGE_BYTES][..]]).unwrap()
            });
            let chain = transaction.end(first_written_over, last);
            assert!(transaction.of().continues(0, last).unwrap(), "{first_written_over}");
            assert_eq!(
                transaction.of().header_of(last).unwrap().chain,
                chain,
                "{first_written_over}"
            );
            assert!(!transaction.unchained.any());
        }
    }

    /// A store may leave out frames behind the commit that were taken back.
    #[test]
    fn the_file_may_end_with_the_commit() {
        let transaction = Transaction::new();
        (3..12).for_each(|frame| transaction.write_without(frame, 0));
        transaction.write_without(12, 30);
        let of = transaction.of();
        let owed = Owed::find(&transaction.wal, of.offset_of(3), of.offset_of(19) + 16).unwrap();
        let offsets: Vec<u64> = owed.headers.iter().map(|(offset, _)| *offset).collect();
        assert_eq!(offsets, (3..=12).map(|frame| of.offset_of(frame)).collect::<Vec<_>>());
    }

    #[test]
    fn what_sqlite_writes_anew_by_itself_is_left_to_it() {
        let transaction = Transaction::new();
        let chain = transaction.of().header_of(2).unwrap().chain;
        let chain = transaction.of().write_frame(3, chain, 3, 0, &[1; PAGE_BYTES]).unwrap();
        transaction.of().write_frame(4, chain, 4, 0, &[1; PAGE_BYTES]).unwrap();
        transaction.write_without(5, 0);
        transaction.write_without(6, 30);
        assert!(transaction.unchained.any());
        for written_over in [3, 4, 5] {
            let read_at = transaction.of().offset_of(written_over - 1) + CHECKSUM_IN_FRAME;
            assert!(
                !transaction.unchained.is_passed_over(CHECKSUM_BYTES, read_at),
                "{written_over}"
            );
        }
        assert!(!transaction.unchained.is_passed_over(CHECKSUM_BYTES, CHECKSUM_IN_WAL));
        transaction.end(3, 6);
        assert!(!transaction.unchained.any() && transaction.of().continues(0, 6).unwrap());
    }

    #[test]
    fn a_header_with_salts_in_front_takes_back_what_is_behind_and_so_does_a_new_wal() {
        let transaction = Transaction::new();
        transaction.write_without(8, 0);
        transaction.write(&[3; FRAME_HEADER_BYTES], transaction.of().offset_of(9));
        assert!(transaction.unchained.any());
        transaction.write(&[3; FRAME_HEADER_BYTES], transaction.of().offset_of(4));
        assert!(!transaction.unchained.any());
        transaction.write_without(8, 0);
        transaction.write(&[3; HEADER_BYTES as usize], 0);
        assert!(!transaction.unchained.any());
    }
}
