//! The WAL that is kept over a close, and how the next opener takes it up again.
//!
//! After the last close the database file has everything and is synced. The WAL stays under
//! [another name](crate::kept_file). Its first frame gets a [mark](MARK) in the place of salts and
//! checksum. So no SQLite takes that frame, or one behind it, for its own. To everybody the WAL is
//! empty. It may be deleted, or left beside another database file, without harm.
//!
//! The next writer would begin the WAL anew, and SQLite syncs a new header before the first frame.
//! That is one flush more than there are commits. A short WAL can do without it. The first opener
//! of the database recovers the WAL and finds the mark. It makes the first frame what it was: the
//! salts are in the WAL's header, and the checksum follows from the content. It goes on behind the
//! last commit.
//!
//! | step | write | what survives a crash |
//! |---|---|---|
//! | 1 | the mark, at the close, without a sync | the frames say what the database file has |
//! | 2 | the file gets its name as WAL back | the same, if the frames still say that |
//! | 3 | the first frame valid again, without a sync | the same; the first flush covers it |
//!
//! **Between steps 1 and 2** others may write to the database by a WAL of their own. A crash may
//! take the mark away. Old frames would then go over new pages. So before step 2 the frames are
//! compared with the database file. A long WAL is not worth that. It gets another mark, which is
//! synced at the close.
//!
//! **At step 1** nothing may be on its way to the database file. A session that did not write would
//! need no checkpoint at its close, since the frames are copied. But meanwhile somebody may have
//! begun a checkpoint and failed, or been killed. Pages that were overwritten with what they have
//! already can then still be torn. The time of the file's last change shows that nobody did. Where
//! it does not show it, the close syncs the database file.
//!
//! Invariant: **a WAL is taken up only if that changes nothing**. The check is made while SQLite
//! recovers the WAL, with all locks that keep writers and checkpoints out. Each page in the WAL, in
//! its last version, is compared with the database file's, and so is the size. A database that
//! others have written meanwhile, or that was put in the place of the old one, is not the same. Or
//! it is the same in all that the WAL speaks of.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use super::Plain;
use crate::error::Code;
use crate::port::{Below, MainFile, Purpose, SyncRequest};
use crate::sync::lock;
use crate::wal_file::{Chain, FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, WalFile};

/// The mark, in the place of the first frame's salts and checksum.
const MARK: &[u8; 16] = b"Oneflush: closed";
const MARKED: std::ops::Range<usize> = 8..24;

/// The mark of a WAL that is not to be taken up. It is durable.
const DURABLE_MARK: &[u8; 16] = b"Oneflush: synced";

/// A WAL of more frames is begun anew: its opener would have to read them all.
const FRAMES_MAX: u32 = 32;

/// A kept WAL is not longer than this. SQLite's automatic checkpoint comes at 1,000 frames, which
/// are 4 MiB; a reader can make a WAL of any size.
const KEPT_BYTES_MAX: u64 = 8 << 20;

/// No file system's clock is coarser.
const CLOCK_TICK_MAX: Duration = Duration::from_millis(20);

/// Where the frames of a WAL begin.
///
/// The header in front of them stays: a reader that may not write the WAL index wants to see one.
const FIRST_FRAME: u64 = HEADER_BYTES;

/// A WAL that was taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenUp {
    pub salts: [u8; 8],
    /// This many frames say what the database file has.
    pub frames: u32,
    pub end_bytes: u64,
    /// When the database file was last changed. None: a later change might not show.
    changed: Option<SystemTime>,
}

impl TakenUp {
    /// True if the WAL still has these salts.
    pub fn is_of(&self, wal: &dyn Below) -> bool {
        matches!(begin(wal), Ok(Some((_, chain))) if chain.salts() == self.salts)
    }
}

impl Plain {
    /// Takes the kept WAL up, if that changes nothing.
    ///
    /// The connection recovers the WAL: it has the database's shared lock and all locks of the WAL
    /// index.
    #[cold]
    pub(super) fn take_up_kept_wal(&self, wal: &dyn Below) {
        let main = lock(&self.main);
        let Some(main) = main.as_deref() else { return };
        // A connection that cannot write to the database file does not close the WAL again.
        if self.purpose == Purpose::ReadOnly
            || self.refuse_if_failed().is_err()
            || *lock(&self.store().left)
        {
            return;
        }
        // After an error the WAL is empty, as it was.
        let known = lock(&self.own.kept).take();
        let Ok(Some(mut taken_up)) = take_up(wal, main, known) else { return };
        taken_up.changed = self
            .store()
            .database_changed()
            .filter(|at| at.elapsed().is_ok_and(|elapsed| elapsed > CLOCK_TICK_MAX));
        self.store().salts.taken_up(taken_up.salts, taken_up.end_bytes);
        *lock(&self.store().taken_up) = Some(taken_up);
    }

    /// Declares the frames that were taken up as copied, at the last close under the exclusive
    /// lock.
    pub(super) fn believe_taken_up(&self, main: &dyn MainFile) {
        let taken_up =
            lock(&self.store().taken_up).take().filter(|_| self.shares_index.load(Relaxed));
        let wal = lock(&self.wal);
        let (Some(taken_up), Some(wal)) = (taken_up, wal.as_deref()) else { return };
        let Some(published) = main.published_frames().filter(|&frames| frames >= taken_up.frames)
        else {
            return;
        };
        if !taken_up.is_of(wal) {
            return;
        }
        let is_untouched =
            taken_up.changed.is_some() && taken_up.changed == self.store().database_changed();
        // Where there are other frames to copy, SQLite syncs the database itself.
        if is_untouched
            || published > taken_up.frames
            || self.sync_main(main, SyncRequest::ALL).is_ok()
        {
            main.believe_backfill(taken_up.frames);
        }
    }
}

/// True if the WAL was closed by [`close`].
pub fn is_marked(wal: &dyn Below) -> bool {
    mark_of(wal).is_some_and(|mark| mark == *MARK || mark == *DURABLE_MARK)
}

fn mark_of(wal: &dyn Below) -> Option<[u8; MARK.len()]> {
    first_header(wal).ok()?[MARKED].try_into().ok()
}

/// What a kept WAL says before it gets its name back.
pub enum Kept {
    /// What the database file has, even if a crash takes the mark away.
    Same(Same),
    /// Nothing, durably.
    Nothing,
}

/// What the kept WAL says. None: a crash could bring back frames that the database file has not.
///
/// The caller keeps out everybody who writes to the database without a WAL.
pub fn look_at(wal: &dyn Below, database: &dyn Below) -> Option<Kept> {
    match mark_of(wal)? {
        mark if mark == *DURABLE_MARK => Some(Kept::Nothing),
        mark if mark == *MARK => same(wal, database).ok()?.map(Kept::Same),
        _ => None,
    }
}

/// Makes the WAL empty for everybody.
///
/// The database file has all that is in the WAL, and is synced. Nobody else has the WAL open.
/// `end_bytes`: where the last frame ends, if that is known.
///
/// A long WAL is not to be taken up, nor one whose header counts checkpoints. SQLite takes new
/// salts only where the header counts none. A writer that did not take such a WAL up would use the
/// same salts again. The same first frames would then make those behind them valid.
pub fn close(wal: &dyn Below, end_bytes: Option<u64>) -> Result<(), Code> {
    if !is_marked(wal) {
        mark(wal, end_bytes)?;
    }
    // Not before the mark is durable: a crash would leave the older ones of the frames. A WAL with
    // the other mark is shorter.
    if wal.size_bytes()? > KEPT_BYTES_MAX {
        wal.truncate(KEPT_BYTES_MAX)?;
    }
    Ok(())
}

fn mark(wal: &dyn Below, end_bytes: Option<u64>) -> Result<(), Code> {
    let mut header = first_header(wal)?;
    let mut mark = MARK;
    if let Some((page_bytes, chain)) = begin(wal)? {
        let file = WalFile { file: wal, page_bytes };
        let is_short =
            end_bytes.is_some_and(|end_bytes| end_bytes <= file.offset_of(FRAMES_MAX + 1));
        let counts_none = checkpoints(wal)? == [0; 4];
        if !is_short || !counts_none {
            // Without a page number nobody looks further.
            header = [0; FRAME_HEADER_BYTES];
            mark = DURABLE_MARK;
        }
        if !counts_none {
            file.write_header(chain.salt)?;
        }
    } else {
        header = [0; FRAME_HEADER_BYTES];
        mark = DURABLE_MARK;
    }
    header[MARKED].copy_from_slice(mark);
    wal.write(&header, FIRST_FRAME)?;
    if mark == DURABLE_MARK {
        wal.sync(SyncRequest { full: false, data_only: true })
    } else {
        Ok(())
    }
}

/// Makes a marked WAL valid again if that changes nothing. Otherwise the WAL stays as it is.
///
/// The caller keeps out everybody who writes to either file. `known` is what this connection has
/// found already. It holds while the WAL has its mark. The connection has had its shared lock
/// since, so the database file was changed only by way of a WAL. A writer of this WAL has written
/// over the mark.
pub fn take_up(
    wal: &dyn Below,
    database: &dyn Below,
    known: Option<Same>,
) -> Result<Option<TakenUp>, Code> {
    let mut header = first_header(wal)?;
    if header[MARKED] != *MARK {
        return Ok(None);
    }
    let found = match known.filter(|known| known.taken_up.is_of(wal)) {
        None => same(wal, database)?,
        known => known,
    };
    let Some(Same { first, taken_up }) = found else { return Ok(None) };
    header[MARKED].copy_from_slice(&first);
    wal.write(&header, FIRST_FRAME)?;
    Ok(Some(taken_up))
}

/// A WAL that has what the database file has, apart from its first frame's mark.
pub struct Same {
    /// The bytes that the mark replaced.
    first: [u8; MARK.len()],
    taken_up: TakenUp,
}

fn same(wal: &dyn Below, database: &dyn Below) -> Result<Option<Same>, Code> {
    let Some((page_bytes, chain)) = begin(wal)? else { return Ok(None) };
    let file = WalFile { file: wal, page_bytes };
    let Some(found) = read(&file, chain)? else { return Ok(None) };
    if database.size_bytes()? != u64::from(found.database_pages) * page_bytes as u64 {
        return Ok(None);
    }
    let mut page = vec![0; page_bytes];
    // Pages behind the end of the database were there before a VACUUM.
    for (page_no, logged) in found.pages.range(..=found.database_pages) {
        database.read(&mut page, u64::from(page_no - 1) * page_bytes as u64)?;
        if page != *logged {
            return Ok(None);
        }
    }
    let end_bytes = file.offset_of(found.frames + 1);
    let taken_up = TakenUp { salts: chain.salts(), frames: found.frames, end_bytes, changed: None };
    Ok(Some(Same { first: found.first, taken_up }))
}

fn first_header(wal: &dyn Below) -> Result<[u8; FRAME_HEADER_BYTES], Code> {
    let mut header = [0; FRAME_HEADER_BYTES];
    wal.read(&mut header, FIRST_FRAME)?;
    Ok(header)
}

/// How many checkpoints the header counts ("WAL file format": checkpoint sequence number).
fn checkpoints(wal: &dyn Below) -> Result<[u8; 4], Code> {
    let mut count = [0; 4];
    wal.read(&mut count, 12)?;
    Ok(count)
}

/// The page size and the chain of a valid header.
fn begin(wal: &dyn Below) -> Result<Option<(usize, Chain)>, Code> {
    let mut header = [0; HEADER_BYTES as usize];
    wal.read(&mut header, 0)?;
    Ok(WalFile::header(&header))
}

struct Found {
    /// The bytes that the mark replaced.
    first: [u8; MARK.len()],
    /// The number of frames up to the last commit.
    frames: u32,
    database_pages: u32,
    pages: BTreeMap<u32, Vec<u8>>,
}

/// What SQLite would recover if the first frame were valid. None: nothing, or too many frames.
fn read(file: &WalFile<'_>, mut chain: Chain) -> Result<Option<Found>, Code> {
    let mut found =
        Found { first: [0; MARK.len()], frames: 0, database_pages: 0, pages: BTreeMap::new() };
    let mut open = Vec::new();
    let mut bytes = vec![0; FRAME_HEADER_BYTES + file.page_bytes];
    for frame in 1.. {
        match file.file.read(&mut bytes, file.offset_of(frame)) {
            Err(Code::SHORT_READ) => break,
            result => result?,
        }
        let next = chain.behind(&bytes);
        if frame == 1 {
            found.first = next.encode();
        } else if bytes[MARKED] != next.encode() {
            break;
        }
        chain = next;
        let (header, page) = bytes.split_at(FRAME_HEADER_BYTES);
        let Ok(header) = header.try_into().map(FrameHeader::decode) else { break };
        if header.page_no == 0 {
            break;
        }
        if frame > FRAMES_MAX {
            return Ok(None);
        }
        open.push((header.page_no, page.to_vec()));
        if header.database_pages != 0 {
            found.frames = frame;
            found.database_pages = header.database_pages;
            found.pages.extend(open.drain(..));
        }
    }
    Ok(Some(found).filter(|found| found.frames > 0))
}
