//! How a connection that only reads joins the users of a log.
//!
//! The connection neither maps nor changes board and log. Rights to read both are enough, except on
//! NFS.
//!
//! It takes *use* and never *shown*. So where only readers are left, nobody joins without the
//! board's lock.
//!
//! While the connection joins, it holds the board's lock. That keeps a process away that would
//! build the image. If a stopped process has the lock, the connection joins by invariant 9 of the
//! board. It does so as a writer does, but leaves out *shown*.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use oneflush_blocklog::DirectFile;
use oneflush_blocklog::belonging::is_at;
use oneflush_blocklog::record_lock::record_lock_at;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::board_file::is_shown;
use super::board_place::{FRAMES, Unfit};
use crate::config::StrategyKind;
use crate::kill_point::KillPoint;
use crate::names::board_path;
use crate::own_file::open_to_lock;
use crate::strategy::{LogFile, LogInUse, board_is_open, read_board, uuid_of};

/// How long a reader waits for a process that opens or closes the log at that moment.
const LOOKS_FOR: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(1);

/// Joins the users of the log. None: it has no users. "Would block": another process takes too long
/// to open or close the log, or uses it alone.
pub fn look_on(database: &str, log_path: &str, kind: StrategyKind) -> io::Result<Option<LogInUse>> {
    let board_path = board_path(database);
    let deadline = Instant::now() + LOOKS_FOR;
    loop {
        let Some(board) = open_if_there(&board_path)? else { return Ok(None) };
        match flock(&board, FlockOperation::NonBlockingLockExclusive) {
            // The process that had the lock before may have removed the file.
            Ok(()) if is_at(&board, &board_path) => return with_lock(log_path, kind),
            Ok(()) | Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(Unfit::Flock(errno).into()),
        }
        if let Some(in_use) = beside(&board, &board_path, log_path, kind) {
            return Ok(Some(in_use));
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        std::thread::sleep(POLL);
    }
}

/// Joins with the board's lock, which is taken.
fn with_lock(path: &str, kind: StrategyKind) -> io::Result<Option<LogInUse>> {
    let Some(log) = open_if_there(path)? else { return Ok(None) };
    match flock(&log, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(None),
        Err(Errno::WOULDBLOCK) => flock(&log, FlockOperation::NonBlockingLockShared)?,
        Err(errno) => return Err(Unfit::Flock(errno).into()),
    }
    in_use(path, log, kind).map(Some)
}

/// Joins without the board's lock. None: nobody uses the log, or board and image are not known to
/// be whole. An error here is no failure, because somebody may just be removing the files.
fn beside(board: &File, board_path: &str, log_path: &str, kind: StrategyKind) -> Option<LogInUse> {
    let log = File::open(log_path).ok()?;
    if !is_shown(&log) || !board_is_open(&read_board(board)?, None) {
        return None;
    }
    KillPoint::Seen.reached();
    flock(&log, FlockOperation::NonBlockingLockShared).ok()?;
    KillPoint::Using.reached();
    let is_there = is_at(board, board_path) && is_at(&log, log_path);
    let in_use = in_use(log_path, log, kind).ok()?;
    (is_there && board_is_open(&read_board(board)?, Some(in_use.uuid))).then_some(in_use)
}

fn in_use(path: &str, log: File, kind: StrategyKind) -> io::Result<LogInUse> {
    let opened = DirectFile::open_to_read(Path::new(path)).map(|file| LogFile(Box::new(file)));
    let uuid = opened.and_then(|file| uuid_of(kind, file)).map_err(io::Error::other)?;
    if kind == StrategyKind::Waldio {
        may_read_frames(&log)?;
    }
    Ok(LogInUse { uuid, file: Some(log) })
}

/// Takes the lock of who reads frames. Another process may hold frames for some milliseconds that
/// are not in their slots.
fn may_read_frames(log: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOOKS_FOR;
    loop {
        match record_lock_at(log, libc::F_OFD_SETLK, libc::F_RDLCK, FRAMES) {
            Err(Errno::AGAIN | Errno::ACCESS) if Instant::now() < deadline => {
                std::thread::sleep(POLL);
            }
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(io::ErrorKind::WouldBlock.into()),
            // On a system without such locks nobody holds frames.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

fn open_if_there(path: &str) -> io::Result<Option<File>> {
    match open_to_lock(Path::new(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}
