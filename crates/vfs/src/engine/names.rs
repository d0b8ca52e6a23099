//! Files that were removed or replaced while they are in use.
//!
//! A person restores a backup, or a script removes what it takes for left-overs. The connections go
//! on with files that nobody finds any more, and what they acknowledge is lost with them. So each
//! flush is followed by a look at the names, before anything is acknowledged. A checkpoint and a
//! last close look first.
//!
//! A name that leads elsewhere poisons the database in this process, as a failed flush does. What
//! is acknowledged and only in the orphaned files is saved beside the database, once.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::statvfs;

use super::connection::{InWalMode, WalConnection};
use super::contents::{self, Content, Looked};
use super::store::Store;
use crate::error::Code;
use crate::port::{Below, Copied, MainFile};
use crate::role::Role;
use crate::sync::lock;
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

/// What became of a file in use.
enum Harm {
    /// The name leads to another file, or to none.
    NameLost(String),
    /// "it", the database file ([`contents`](super::contents)), or "its WAL".
    WrittenOver(&'static str),
}

/// What is copied at once. A page is never longer.
const PIECE_BYTES: u64 = 64 << 10;

impl<S: Store> WalConnection<S> {
    /// An error: a file of the database was removed or replaced. Nothing is acknowledged any more.
    pub(super) fn check_names(&self, wal: Option<&dyn Below>) -> Result<(), Code> {
        if !self.options.has_seatbelt() {
            return Ok(());
        }
        let main = lock(&self.main).clone();
        let Some(main) = main.as_deref() else { return Ok(()) };
        let looked = self.look_at_main(main, wal).and_then(|()| {
            wal.map_or(Ok(None), Below::look_at_name).map_err(Harm::NameLost).map(|_| ())
        });
        looked.map_err(|harm| self.lost(&harm, main, wal))
    }

    fn look_at_main(&self, main: &dyn MainFile, wal: Option<&dyn Below>) -> Result<(), Harm> {
        // Who does not share the index must not ask for it: that would make one.
        let copied = || self.shares_index.load(Relaxed).then(|| main.copied()).flatten();
        let before = copied();
        let stamp = main.look_at_name().map_err(Harm::NameLost)?;
        let (Some(stamp), Some(before)) = (stamp, before) else { return Ok(()) };
        if !before.is_at_rest() || copied() != Some(before) {
            lock(&self.shared.contents).forget();
            return Ok(());
        }
        let looked = lock(&self.shared.contents).look(stamp, before);
        let content = match &looked {
            Looked::Same => return Ok(()),
            // Whether the place is one whose times can be relied on, only others have looked.
            Looked::First if self.is_checkpointer() => return Ok(()),
            Looked::First | Looked::Further => Content::All,
            Looked::Changed(was) => self.compare(main, wal, was, before),
        };
        // A checkpoint that began meanwhile explains what was seen.
        match contents::header(main).filter(|_| copied() == Some(before)) {
            None => lock(&self.shared.contents).forget(),
            Some(_) if content == Content::Another => return Err(Harm::WrittenOver("it")),
            Some(header) => lock(&self.shared.contents).note(stamp, before, header),
        }
        if content == Content::Unknown {
            self.shared.checkpointer.warn(&format!(
                "oneflush: {}: its time or size has changed, and no checkpoint did that. If \
                    another program has written over it, run PRAGMA integrity_check [OF-152]",
                self.shared.path
            ));
        }
        Ok(())
    }

    fn compare(
        &self,
        main: &dyn MainFile,
        wal: Option<&dyn Below>,
        was: &contents::DatabaseHeader,
        copied: Copied,
    ) -> Content {
        contents::compare(main, was, copied, &|buffer, offset| {
            wal.is_some_and(|wal| self.store().read(self, wal, Role::Wal, buffer, offset).is_ok())
        })
    }

    /// The same before a checkpoint. It copies by the WAL index alone, so the last published frame
    /// must be in the WAL as the index has it.
    pub(super) fn check_before_checkpoint(&self, main: Option<&dyn MainFile>) -> Result<(), Code> {
        let wal = lock(&self.wal);
        self.check_names(wal.as_deref())?;
        match (main, wal.as_deref()) {
            (Some(main), Some(wal))
                if self.options.has_seatbelt()
                    && self.shares_index.load(Relaxed)
                    && self.store().has_durable_wal()
                    && !self.has_its_tail(main, wal) =>
            {
                Err(self.lost(&Harm::WrittenOver("its WAL"), main, Some(wal)))
            }
            _ => Ok(()),
        }
    }

    fn has_its_tail(&self, index: &dyn MainFile, wal: &dyn Below) -> bool {
        let Some(tail) = index.tail() else { return true };
        let frame_bytes = FRAME_HEADER_BYTES as u64 + u64::from(tail.page_bytes);
        let mut header = [0; FRAME_HEADER_BYTES];
        let read = wal.read(&mut header, HEADER_BYTES + u64::from(tail.frame - 1) * frame_bytes);
        // SQLite 3.40 may leave a frame without salts ([`unchained`](super::unchained)).
        let is_unchained = header[..4] != [0; 4] && header[8..] == [0; 16];
        let is_there = match read {
            Ok(()) => is_unchained || header[8..16] == tail.salts && header[16..] == tail.checksum,
            // What cannot be read tells nothing.
            Err(code) => code != Code::SHORT_READ,
        };
        // A writer may have begun the WAL anew meanwhile.
        is_there || index.tail() != Some(tail)
    }

    /// "Busy": nobody has files alone that have lost their names, with a WAL open. So nothing is
    /// copied into them, and nothing is deleted by their names.
    pub(super) fn may_be_alone(&self) -> Result<(), Code> {
        if !self.has_wal() {
            return Ok(());
        }
        let main = lock(&self.main).clone();
        self.check_before_checkpoint(main.as_deref()).map_err(|_| Code::BUSY)
    }

    #[cold]
    fn lost(&self, harm: &Harm, main: &dyn MainFile, wal: Option<&dyn Below>) -> Code {
        // A connection that only reads leaves that to those who write.
        let Some(is_first) = main.is_first_to_save() else { return Code::IOERR_FSYNC };
        self.shared.flush.poison(Code::IOERR_FSYNC);
        if self.shared.orphan_is_said.swap(true, Relaxed) {
            return Code::IOERR_FSYNC;
        }
        let saved = match is_first.then(|| self.save_orphan(main, wal)) {
            None => "Another connection saves what was acknowledged".to_owned(),
            Some(Ok(saved)) => format!("What was acknowledged is in {}", saved.display()),
            Some(Err(error)) => format!("What was acknowledged could not be saved: {error}"),
        };
        let what = match harm {
            Harm::NameLost(name) => format!("{name}: removed or replaced while it is in use"),
            Harm::WrittenOver(it) => {
                format!("{}: another program has written over {it}", self.shared.path)
            }
        };
        self.shared.checkpointer.warn(&format!(
            "oneflush: {what}. This process acknowledges no commit until it has closed all \
                connections to the database. {saved} [OF-242]"
        ));
        Code::IOERR_FSYNC
    }

    /// Copies the open database file and its WAL, for SQLite alone to open.
    fn save_orphan(&self, main: &dyn MainFile, wal: Option<&dyn Below>) -> io::Result<PathBuf> {
        let failed = |code: Code| io::Error::other(format!("SQLite's code {}", code.0));
        let database = Path::new(&self.shared.path);
        let main_bytes = main.size_bytes().map_err(failed)?;
        let wal_bytes = wal.map_or(Ok(0), |wal| self.published_bytes(wal)).map_err(failed)?;
        let folder = database.parent().unwrap_or(Path::new("/"));
        let space = statvfs(folder)?;
        if space.f_bavail.saturating_mul(space.f_frsize) < main_bytes + wal_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let (path, copy) = (0..100)
            .map(|number| PathBuf::from(format!("{}-orphan-{number}", database.display())))
            .filter(|path| !wal_of(path).exists())
            .find_map(|path| match create_like(&path, main) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                created => Some(created.map(|file| (path, file))),
            })
            .ok_or(io::ErrorKind::AlreadyExists)??;
        let read_main = |buffer: &mut [u8], offset| {
            self.store().read(self, main, Role::Db, buffer, offset).map_err(|error| error.code())
        };
        copy_into(copy, main_bytes, read_main)?;
        if let Some(wal) = wal.filter(|_| wal_bytes > 0) {
            let copy = create_like(&wal_of(&path), main)?;
            copy_into(copy, wal_bytes, |buffer, offset| {
                wal.read(buffer, offset).map_err(|code| code.0)
            })?;
        }
        File::open(folder)?.sync_all()?;
        Ok(path)
    }

    /// Where the last published frame of the WAL ends.
    fn published_bytes(&self, wal: &dyn Below) -> Result<u64, Code> {
        // Without the index that all share, recovery finds the commits.
        let Some(frames) = self.published_frames().map(u64::from) else {
            return wal.size_bytes();
        };
        if frames == 0 {
            return Ok(0);
        }
        let mut header = [0; HEADER_BYTES as usize];
        wal.read(&mut header, 0)?;
        let page_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        Ok(HEADER_BYTES + frames * (FRAME_HEADER_BYTES as u64 + u64::from(page_bytes)))
    }
}

fn wal_of(orphan: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", orphan.display()))
}

/// Makes a file that nobody may read who may not read the database.
fn create_like(path: &Path, database: &dyn Below) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if let Some((mode, user, group)) = database.owner() {
        // Who may not do that keeps the file to himself.
        let _ = fchown(&file, Some(user), Some(group));
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file)
}

fn copy_into(
    mut copy: File,
    bytes: u64,
    read: impl Fn(&mut [u8], u64) -> Result<(), i32>,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES as usize];
    for offset in (0..bytes).step_by(PIECE_BYTES as usize) {
        let piece = &mut buffer[..(bytes - offset).min(PIECE_BYTES) as usize];
        read(piece, offset).map_err(|code| io::Error::other(format!("SQLite's code {code}")))?;
        copy.write_all(piece)?;
    }
    copy.sync_all()
}
