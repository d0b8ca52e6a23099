//! The copies of a database and of the files beside it, and what becomes of the original.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::SystemTime;

use oneflush_blocklog::{Salvage, Uuid, sync_directory};

use super::{Aside, SalvageError, failed, remove};
use crate::InspectError;
use crate::config::StrategyKind;
use crate::inspect::{alone_with, strategy_beside};
use crate::names::{board_path, image_path, log_path, maw_path, wal_path, waldio_path};
use crate::own_file::lock_alone;
use crate::path::{beside, with_suffix};
use crate::strategy::{WITH_A_LOG, guard};

const SUFFIXES: [&str; 9] = [
    "",
    "-oneflush",
    "-oneflush-wal",
    "-oneflush-shm",
    "-waldio",
    "-maw",
    "-wal",
    "-shm",
    "-journal",
];

/// Gives a file of ours the owner, group and mode of the file that it is made from.
fn belongs_as(path: &Path, original: &fs::Metadata) -> io::Result<()> {
    let made = fs::metadata(path)?;
    if (made.uid(), made.gid()) != (original.uid(), original.gid()) {
        chown(path, Some(original.uid()), Some(original.gid()))?;
    }
    fs::set_permissions(path, original.permissions())
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), SalvageError> {
    fs::copy(from, to).map_err(failed(from))?;
    let original = fs::metadata(from).map_err(failed(from))?;
    belongs_as(to, &original).map_err(failed(to))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(failed(to))
}

impl Aside {
    /// Copies the database and all files beside it, durably. `why` is what a recovery says of them.
    /// With `into`, for a dry run, the copies are made there, and not beside the database.
    pub fn copy(
        database: &Path,
        why: &InspectError,
        into: Option<&Path>,
    ) -> Result<Aside, SalvageError> {
        let mut alone = Vec::new();
        for kind in WITH_A_LOG {
            alone.extend(alone_with(database, kind)?);
        }
        refuse_if_open(database)?;
        let mut header = vec![0; guard::HEADER_BYTES];
        let begins = File::open(database).and_then(|file| file.read_exact_at(&mut header, 0));
        begins.map_err(failed(database))?;
        if guard::of(&header).is_some()
            && beside(database, wal_path).metadata().is_ok_and(|wal| wal.len() > 0)
        {
            return Err(SalvageError::WalBeside(beside(database, wal_path)));
        }
        let id = Uuid::random()?.to_string();
        let folder = with_suffix(database, format!("-before-recovery-{}", &id[..8]));
        let folder =
            into.map_or(folder.clone(), |into| into.join(folder.file_name().unwrap_or_default()));
        fs::create_dir(&folder).map_err(failed(&folder))?;
        let changed = SUFFIXES
            .iter()
            .filter_map(|&suffix| Some((suffix, modified(&with_suffix(database, suffix))?)));
        let changed = changed.collect();
        let files =
            copy_all(database, &folder).inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let page_bytes = guard::page_bytes(&header) as usize;
        let uuid = guard::of(&header);
        let is_plain = uuid.is_none() && guard::is_database(&header);
        let mut aside = Aside {
            database: database.to_owned(),
            folder,
            files,
            changed,
            uuid,
            is_plain,
            page_bytes,
            damage: why.to_string(),
            strategy: strategy_beside(database, uuid).or_else(|| {
                // Only `maw` guards databases in a rollback mode.
                uuid.filter(|_| guard::mode(&header) == Some(guard::Mode::Rollback))?;
                Some(StrategyKind::Maw)
            }),
            found: Salvage::default(),
            lacks_records: false,
            has_all_in_place: false,
            slots: None,
            _alone: alone,
        };
        if !is_plain {
            let read = match aside.strategy {
                Some(StrategyKind::Waldio) => aside.read_slots(),
                Some(StrategyKind::Maw) => aside.read_log(maw_path),
                _ => aside.read_log(log_path),
            };
            aside.note_link();
            let read = read.and_then(|()| {
                aside.lacks_records = aside.log_lacks_records()?;
                aside.has_all_in_place = aside.strategy == Some(StrategyKind::Maw)
                    && aside.commits_read() > 0
                    && aside.file_has_what_the_log_has()?;
                Ok(())
            });
            read.inspect_err(|_| drop(aside.discard()))?;
        }
        Ok(aside)
    }

    /// Removes the copies of a dry run.
    pub fn discard(&self) -> Result<(), SalvageError> {
        fs::remove_dir_all(&self.folder).map_err(failed(&self.folder))
    }

    /// When the original of a file was last changed before this recovery.
    pub fn changed(&self, suffix: &str) -> Option<SystemTime> {
        self.changed.iter().find(|(of, _)| *of == suffix).map(|&(_, at)| at)
    }

    /// Puts the new database in the place of the original, and removes the files beside the
    /// original. The new database was checked and closed.
    pub fn put_in_place(&self) -> Result<(), SalvageError> {
        refuse_if_open(&self.database)?;
        if self.is_plain {
            let _ = fs::remove_file(self.recovered());
            return self.remove_beside();
        }
        let (made, database) = (self.recovered(), &self.database);
        let original = fs::metadata(database).map_err(failed(database))?;
        belongs_as(&made, &original).map_err(failed(&made))?;
        File::open(&made).and_then(|file| file.sync_all()).map_err(failed(&made))?;
        fs::rename(&made, database).map_err(failed(database))?;
        sync_directory(database)?;
        self.remove_beside()
    }

    /// Leaves the database file as it is, and removes logs, image and board.
    pub fn remove_beside(&self) -> Result<(), SalvageError> {
        for path in [image_path, board_path, log_path, waldio_path, maw_path] {
            remove(&beside(&self.database, path))?;
        }
        Ok(sync_directory(&self.database)?)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

fn copy_all(database: &Path, folder: &Path) -> Result<Vec<OsString>, SalvageError> {
    let owner = fs::metadata(database).map_err(failed(database))?;
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(folder, mode)
        .and_then(|()| chown(folder, Some(owner.uid()), Some(owner.gid())))
        .map_err(failed(folder))?;
    let mut files = Vec::new();
    for from in SUFFIXES.map(|suffix| with_suffix(database, suffix)) {
        if from.is_file()
            && let Some(name) = from.file_name()
        {
            copy(&from, &folder.join(name))?;
            files.push(name.to_owned());
        }
    }
    sync_directory(folder)?;
    File::open(folder).and_then(|opened| opened.sync_all()).map_err(failed(folder))?;
    sync_directory(database)?;
    Ok(files)
}

fn refuse_if_open(database: &Path) -> Result<(), SalvageError> {
    match lock_alone(database).map_err(failed(database))? {
        Some(_) => Ok(()),
        None => Err(SalvageError::InUse(database.to_owned())),
    }
}
