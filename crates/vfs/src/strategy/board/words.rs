//! The words of a board and their layout, and what a process reads in them that does not use the
//! database.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use oneflush_blocklog::Uuid;
use serde::Serialize;

use super::Board;
use crate::config::StrategyKind;

/// The size of the board's memory.
pub const WORDS: usize = FIRST_PAGE + PAGES_WORDS;
pub(super) const FIRST_BITS: usize = 64;
/// For so many words of frames, a bit a frame, the board knows whether the log has the whole page.
/// Of other frames it is assumed that the log has not.
pub(super) const BITS_WORDS: usize = 1024;
pub(super) const FIRST_PAGE: usize = FIRST_BITS + BITS_WORDS;
/// Of this many frames, those logged last, the board knows the page. Of other frames the image
/// knows it.
pub(super) const PAGES_WORDS: usize = 1024;

/// The version of the board's layout, and of what the processes share behind it. It grows by one
/// whenever either changes. The words before [`Word::Layout`] keep their places.
pub(super) const LAYOUT: u64 = 8;

#[derive(Clone, Copy)]
pub(super) enum Word {
    UuidHigh,
    UuidLow,
    Busy,
    Failed,
    /// 0, or the LSN of a record whose append failed: the log may have it or not. With `waldio`: a
    /// frame.
    Unsure,
    /// Counts how often committed or logged frames may have got other contents.
    Generation,
    Epoch,
    Position,
    Lsn,
    Previous,
    LaneBytes,
    Begun,
    OnImage,
    RecordsInEpoch,
    /// How many pages the log has changes of in this epoch.
    Pages,
    Logged,
    /// The log has the whole page of each frame up to this.
    Contained,
    PageBytes,
    /// The last frame of the last commit. It need not be durable.
    Committed,
    /// The last frame of a commit that was written and not synced. It may be published, or may have
    /// failed.
    Written,
    /// The image's file has at least this many bytes.
    ImageBytes,
    /// When the image's generation began, by the monotonic clock.
    SinceNs,
    /// The database file was written since its last sync.
    DatabaseUnsynced,
    /// The guard was written and could not be synced. The cache may have what the device lacks.
    GuardUnsure,
    /// [`Common::identity`](super::Common::identity), taken when the image was whole.
    Identity,
    /// The generation of the frames whose pages the board knows.
    PagesGeneration,
    /// [`LAYOUT`].
    Layout,
    /// Counts how often the image's file was made shorter.
    ImageCuts,
    /// Board and image are whole (invariant 7).
    Open,
    /// With `waldio`: grows before and after each write to the log.
    Writes,
    /// With `waldio`: the count of writes when the last flush that succeeded began.
    Flushed,
    /// With `waldio`: so many processes wait for frames that another one holds.
    FramesWanted,
    /// With `waldio`: grows before and after frames are written over that were written before.
    Rewinds,
    /// With `maw`: the LSN up to which the database file has everything, durably.
    SyncedLsn,
    /// With `maw`: 0, or one more than the LSN behind which the commits are in another log.
    Linked,
    /// With `maw`: the last epoch with commits of other databases.
    TogetherEpoch,
    /// With `maw`: 0, or one more than the change counter that the last commit has left.
    Counter,
}

/// What a board says to a process that does not use the database. What the strategy does not note
/// is `None`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Look {
    /// Of `eager` and `maw`.
    pub epoch: Option<u64>,
    /// Of `eager` and `maw`: records of this epoch.
    pub records: Option<u64>,
    /// Of `eager` and `maw`: how many pages the log has changes of in this epoch.
    pub pages: Option<u64>,
    /// The WAL's last frame that is known to be durable in the log.
    pub logged_frames: u64,
    /// Of `eager`: the last frame of the last commit. It need not be durable yet.
    pub committed_frames: Option<u64>,
    /// Of `waldio`: the last frame that was written.
    pub written_frames: Option<u64>,
    /// A write or sync has failed. Nothing is acknowledged until all processes have closed the
    /// database.
    pub failed: bool,
}

/// Reads the words of a board's file without mapping it. `None`: the file is being made.
pub fn read_words(board: &File) -> Option<Vec<u64>> {
    let mut bytes = vec![0; WORDS * size_of::<u64>()];
    board.read_exact_at(&mut bytes, 0).ok()?;
    let words = bytes.chunks_exact(size_of::<u64>()).filter_map(|word| word.try_into().ok());
    Some(words.map(u64::from_ne_bytes).collect())
}

/// What these words say. `None`: they are of another version.
pub fn look(words: &[u64], kind: StrategyKind) -> Option<Look> {
    let word = |word: Word| words.get(word as usize).copied();
    let of = |strategy: StrategyKind, at: Word| word(at).filter(|_| kind == strategy);
    let of_records = |at: Word| word(at).filter(|_| kind != StrategyKind::Waldio);
    (word(Word::Layout)? == LAYOUT).then_some(Look {
        epoch: of_records(Word::Epoch),
        records: of_records(Word::RecordsInEpoch),
        pages: of_records(Word::Pages),
        logged_frames: word(Word::Logged)?,
        committed_frames: of(StrategyKind::Eager, Word::Committed),
        written_frames: of(StrategyKind::Waldio, Word::Written),
        failed: word(Word::Failed)? != 0,
    })
}

/// These words say that board and image are whole. With `uuid` they must also be of that log.
pub fn is_open(words: &[u64], uuid: Option<Uuid>) -> bool {
    let word = |word: Word| words.get(word as usize).copied().unwrap_or_default();
    let is_of = |uuid: Uuid| {
        u128::from_be_bytes(uuid.0)
            == u128::from(word(Word::UuidHigh)) << 64 | u128::from(word(Word::UuidLow))
    };
    word(Word::Layout) == LAYOUT && word(Word::Open) != 0 && uuid.is_none_or(is_of)
}

/// True if these words say that a process changes the log, or the file in place, or died there.
pub fn is_busy(words: &[u64]) -> bool {
    words.get(Word::Busy as usize).is_none_or(|&busy| busy != 0)
}

impl Board {
    pub(super) fn word(&self, word: Word) -> &AtomicU64 {
        &self.0.words()[word as usize]
    }

    pub(super) fn get(&self, word: Word) -> u64 {
        self.word(word).load(SeqCst)
    }

    pub(super) fn set(&self, word: Word, value: u64) {
        self.word(word).store(value, SeqCst);
    }

    pub(super) fn frame(&self, word: Word) -> u32 {
        // These words hold frame numbers only.
        self.get(word) as u32
    }
}
