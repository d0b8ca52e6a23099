//! What can be had of a database whose log is lost or damaged, for somebody who accepts the loss of the rest.
//!
//! Everything is copied aside first, into a folder beside the database, and the copies are durable before anything else is done. From the copies a
//! database is made in that folder, from one [`Source`] or another; its maker checks it and only then puts it in the place of the original.
//! What survives a crash after each step:
//!
//! 1. the copies are made                          the original, and a folder that may be incomplete
//! 2. a database is made beside the copies         the original
//! 3. it is renamed to the original's name         either of the two, whole; the log, which belongs to none then, is set aside by the next opener
//! 4. log, image and board are removed             the new one
//!
//! The records of a log before its damage are a consistent database only if no checkpoint behind them has written newer pages to the database file.
//! A checkpoint logs pages first, as a record of its own kind: so where each record that was lost can still be told, and none is of that kind, the
//! result is what the database was ([`Salvaged::is_exact`]). Otherwise a check of the structure is all that there is.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use oneflush_blocklog::group::{Group, KIND_IMAGES, page_crc};
use oneflush_blocklog::{DirectFile, Error as LogError, Log, Lsn, Salvage, Uuid, sync_directory};
use rustix::fs::{FlockOperation, fcntl_lock};
use serde::Serialize;

use crate::InspectError;
use crate::error::Code;
use crate::inspect::{ReadOnly, alone_with};
use crate::strategy::{
    Below, DeviceCharacteristics, LockLevel, LogFile, RebuiltPages, RecoverError, ShmLock, SyncRequest, WalFile,
    board_path, build_of, guard, image_path, log_path, page_one_of, write_image,
};

#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Inspect(#[from] InspectError),
    #[error("{}: a program has the database open; end it first", .0.display())]
    InUse(PathBuf),
    #[error("{}: a WAL of SQLite's own is beside the database, and may hold commits too; move it away first", .0.display())]
    WalBeside(PathBuf),
    #[error("{}: its header is damaged, and no log says what it was", .0.display())]
    NoHeader(PathBuf),
    #[error("reading or writing the copies failed: code {}", .0.0)]
    Below(Code),
    #[error("{0}")]
    Log(#[from] LogError),
}

impl From<Code> for SalvageError {
    fn from(code: Code) -> SalvageError {
        SalvageError::Below(code)
    }
}

/// Where the pages come from that the database file lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The records of the log up to the damage.
    Log,
    /// The WAL image, which has at least what the log's readable records have.
    Image,
    /// Nowhere: the database file alone.
    Database,
}

/// What is known of a database that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Salvaged {
    pub source: Source,
    /// Records and pages of the log that it has.
    pub records: u64,
    pub pages: u64,
    /// Records that it lacks, as far as they can be counted.
    pub lost_records: u64,
    /// Different pages in those of them that can be read.
    pub lost_pages: u64,
    /// No checkpoint came behind what it has: it is what the database was at that time.
    pub is_exact: bool,
}

/// A database and the copies of its files.
pub struct Aside {
    database: PathBuf,
    pub folder: PathBuf,
    /// Names in the folder.
    pub files: Vec<String>,
    /// What the guard names, or the log where the database's header is damaged.
    uuid: Option<Uuid>,
    /// The database has no guard, so the log beside it is another's.
    pub is_plain: bool,
    page_bytes: usize,
    /// Why the log cannot be read to its end.
    pub damage: String,
    found: Salvage,
    /// Nobody opens the log while this is there.
    _alone: Option<File>,
}

/// A WAL made from records of the log.
struct Built {
    records: usize,
    /// Its pages, with the checksums of what they hold.
    contents: HashMap<u32, u32>,
}

const SUFFIXES: [&str; 7] = ["", "-oneflush", "-oneflush-wal", "-oneflush-shm", "-wal", "-shm", "-journal"];
const RECOVERED: &str = "recovered.db";

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SalvageError + '_ {
    move |source| SalvageError::File { path: path.to_owned(), source }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Gives a file of ours owner, group and mode of the one that it is made from.
fn belongs_as(path: &Path, original: &fs::Metadata) -> io::Result<()> {
    let made = fs::metadata(path)?;
    if (made.uid(), made.gid()) != (original.uid(), original.gid()) {
        chown(path, Some(original.uid()), Some(original.gid()))?;
    }
    fs::set_permissions(path, original.permissions())
}

fn copy(from: &Path, to: &Path) -> Result<(), SalvageError> {
    fs::copy(from, to).map_err(failed(from))?;
    let original = fs::metadata(from).map_err(failed(from))?;
    belongs_as(to, &original).map_err(failed(to))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(failed(to))
}

impl Aside {
    /// Copies the database and all that lies beside it, durably; `why` is what a recovery says of them. `into` is for a dry run: there, and not
    /// beside the database.
    pub fn copy(database: &Path, why: &InspectError, into: Option<&Path>) -> Result<Aside, SalvageError> {
        let name = database.to_string_lossy();
        let log = PathBuf::from(log_path(&name));
        let alone = alone_with(database, &log)?;
        refuse_if_open(database)?;
        let mut header = vec![0; guard::HEADER_BYTES];
        let begins = File::open(database).and_then(|file| file.read_exact_at(&mut header, 0));
        begins.map_err(failed(database))?;
        if guard::of(&header).is_some() && with_suffix(database, "-wal").metadata().is_ok_and(|wal| wal.len() > 0) {
            return Err(SalvageError::WalBeside(with_suffix(database, "-wal")));
        }
        let id = Uuid::random()?.to_string();
        let folder = with_suffix(database, &format!("-before-recovery-{}", &id[..8]));
        let folder = into.map_or(folder.clone(), |into| into.join(folder.file_name().unwrap_or_default()));
        fs::create_dir(&folder).map_err(failed(&folder))?;
        let files = copy_all(database, &folder).inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65536,
            bytes => usize::from(bytes),
        };
        let uuid = guard::of(&header);
        let is_plain = uuid.is_none() && guard::is_database(&header);
        let mut aside = Aside {
            database: database.to_owned(),
            folder,
            files,
            uuid,
            is_plain,
            page_bytes,
            damage: why.to_string(),
            found: Salvage::default(),
            _alone: alone,
        };
        if !is_plain {
            aside.read_log().inspect_err(|_| drop(aside.discard()))?;
        }
        Ok(aside)
    }

    /// Removes the copies: of a dry run.
    pub fn discard(&self) -> Result<(), SalvageError> {
        fs::remove_dir_all(&self.folder).map_err(failed(&self.folder))
    }

    /// When the original of a file was changed last.
    pub fn changed(&self, suffix: &str) -> Option<SystemTime> {
        fs::metadata(with_suffix(&self.database, suffix)).and_then(|file| file.modified()).ok()
    }

    fn copied(&self, suffix: &str) -> PathBuf {
        let name = self.database.file_name().unwrap_or_default();
        with_suffix(&self.folder.join(name), suffix)
    }

    /// The database that is made.
    pub fn recovered(&self) -> PathBuf {
        self.folder.join(RECOVERED)
    }

    /// Finds the records that can be read, of the log that the database names.
    fn read_log(&mut self) -> Result<(), SalvageError> {
        let path = self.copied("-oneflush");
        if !path.exists() {
            return Ok(());
        }
        let open = || Ok(LogFile(Box::new(DirectFile::open_to_read(&path)?)));
        let logs = match Log::open(open()?) {
            Ok(log) if self.uuid.is_none_or(|uuid| uuid == log.uuid()) => {
                self.uuid = Some(log.uuid());
                self.page_bytes = log.page_bytes() as usize;
                vec![log]
            }
            Err(LogError::HeaderDamaged | LogError::NotALog) => match self.uuid {
                Some(uuid) => Log::open_without_header(open, uuid, self.page_bytes as u32)?,
                None => Vec::new(),
            },
            // Of another database, empty, or of a format that nobody here knows.
            _ => Vec::new(),
        };
        for log in logs {
            if let Ok(found) = log.salvage()
                && found.records.len() > self.found.records.len()
            {
                self.found = found;
            }
        }
        Ok(())
    }

    /// The sources that there are, the best first.
    pub fn sources(&self) -> Result<Vec<Source>, SalvageError> {
        let mut sources = vec![Source::Database];
        if self.is_plain {
            return Ok(sources);
        }
        let has_image =
            image_pages(&self.copied("-oneflush-wal"), self.page_bytes)?.is_some_and(|pages| !pages.is_empty());
        if !self.found.records.is_empty() {
            sources.insert(0, Source::Log);
        }
        if has_image && self.image_has_what_the_log_has()? {
            sources.insert(0, Source::Image);
        }
        Ok(sources)
    }

    /// Makes the database from a source; None: that has nothing. It is one in WAL mode, and its WAL is to be copied into it.
    pub fn make(&self, source: Source) -> Result<Option<Salvaged>, SalvageError> {
        let (made, wal) = (self.recovered(), with_suffix(&self.recovered(), "-wal"));
        for path in [&made, &wal, &with_suffix(&made, "-shm")] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(path)(error)),
                _ => {}
            }
        }
        copy(&self.copied(""), &made)?;
        let mut salvaged = Salvaged { source, records: 0, pages: 0, lost_records: 0, lost_pages: 0, is_exact: false };
        match source {
            Source::Log => {
                let Some(Built { records, contents }) = self.build(&wal)? else { return Ok(None) };
                (salvaged.records, salvaged.pages) = (records as u64, contents.len() as u64);
                let lost = self.lost(records);
                (salvaged.lost_records, salvaged.lost_pages, salvaged.is_exact) = lost;
            }
            Source::Image => {
                copy(&self.copied("-oneflush-wal"), &wal)?;
                let pages = image_pages(&wal, self.page_bytes)?;
                (salvaged.records, salvaged.pages) =
                    (self.found.records.len() as u64, pages.map_or(0, |pages| pages.len() as u64));
            }
            Source::Database if self.is_plain => {
                if self.copied("-wal").exists() {
                    copy(&self.copied("-wal"), &wal)?;
                }
                return Ok(Some(salvaged));
            }
            Source::Database => (salvaged.lost_records, salvaged.lost_pages, _) = self.lost(0),
        }
        self.take_guard_away(&made)?;
        Ok(Some(salvaged))
    }

    /// Writes the pages of the log into a WAL for SQLite; None: it has none that can be used.
    fn build(&self, wal: &Path) -> Result<Option<Built>, SalvageError> {
        let whole = |record: &oneflush_blocklog::ReadRecord| Some((record.kind, record.lsn, record.payload.clone()?));
        let mut records: Vec<(u8, Lsn, Vec<u8>)> = self.found.records.iter().map_while(whole).collect();
        let main = ReadOnly(Some(File::open(self.copied("")).map_err(failed(&self.copied("")))?));
        while !records.is_empty() {
            let image = self.copied("-oneflush-wal");
            if image.exists() {
                fs::copy(&image, wal).map_err(failed(wal))?;
            }
            let file = Writable::open(wal)?;
            let image = WalFile { file: &file, page_bytes: self.page_bytes };
            match build_of(&records, &main, RebuiltPages::new(image, usize::MAX)) {
                Ok(built) => {
                    let salt = Uuid::random()?.0;
                    let word = |at: usize| u32::from_ne_bytes([salt[at], salt[at + 1], salt[at + 2], salt[at + 3]]);
                    let (pages, _) = match write_image(built, &main, image, [word(0), word(4)]) {
                        Ok(written) => written,
                        Err(RecoverError::Below(code)) => return Err(code.into()),
                        Err(_) => return Ok(None),
                    };
                    let mut contents = HashMap::new();
                    let mut content = Vec::new();
                    for (page_no, page) in pages {
                        image.page(page.frame, &mut content)?;
                        contents.insert(page_no, page_crc(&content));
                    }
                    file.0.sync_all().map_err(failed(wal))?;
                    return Ok(Some(Built { records: records.len(), contents }));
                }
                Err((_, RecoverError::Below(code))) => return Err(code.into()),
                // What it was written against is not there any more: neither is it, then.
                Err((before, _)) => records.truncate(before),
            }
        }
        let _ = fs::remove_file(wal);
        Ok(None)
    }

    /// Of a database that has the first `built` records: how many it lacks, of how many pages, and whether no checkpoint can be among them.
    fn lost(&self, built: usize) -> (u64, u64, bool) {
        let records = &self.found.records;
        let unbuilt = records.iter().skip(built);
        let known: Vec<_> = unbuilt.chain(&self.found.behind).collect();
        let last = built.checked_sub(1).and_then(|at| records.get(at)).map(|record| record.lsn.0);
        let newest = known.iter().map(|record| record.lsn.0).max();
        let count = match (last, newest) {
            (Some(last), Some(newest)) => newest.saturating_sub(last),
            _ => known.len() as u64,
        };
        let mut pages = HashSet::new();
        for payload in known.iter().filter_map(|record| record.payload.as_ref().map(|payload| (record.kind, payload))) {
            if let Ok(group) = Group::decode(payload.0, payload.1) {
                pages.extend(group.pages().map(|entry| entry.page_no));
            }
        }
        let are_told = known.len() as u64 == count && self.found.behind.iter().all(|record| record.payload.is_some());
        let is_exact = are_told && last.is_some() && known.iter().all(|record| record.kind != KIND_IMAGES);
        (count, pages.len() as u64, is_exact)
    }

    /// Each page that the log has is among the versions that the image has of it.
    fn image_has_what_the_log_has(&self) -> Result<bool, SalvageError> {
        let Some(versions) = image_pages(&self.copied("-oneflush-wal"), self.page_bytes)? else { return Ok(false) };
        let scratch = self.folder.join("log-wal");
        let built = self.build(&scratch)?;
        let _ = fs::remove_file(&scratch);
        let Some(Built { contents, .. }) = built else { return Ok(true) };
        Ok(contents.iter().all(|(page_no, content)| versions.get(page_no).is_some_and(|of| of.contains(content))))
    }

    fn take_guard_away(&self, made: &Path) -> Result<(), SalvageError> {
        let file = OpenOptions::new().read(true).write(true).open(made).map_err(failed(made))?;
        let mut page = vec![0; self.page_bytes.max(guard::HEADER_BYTES)];
        file.read_exact_at(&mut page, 0).map_err(failed(made))?;
        if !guard::is_database(&page) {
            // A crash has garbled the page while it was written: the log has it.
            let records = self
                .found
                .records
                .iter()
                .filter_map(|record| Some((record.kind, record.lsn, record.payload.as_deref()?)));
            let from_log = page_one_of(records, self.page_bytes).ok().flatten();
            page = from_log.ok_or_else(|| SalvageError::NoHeader(self.database.clone()))?;
        }
        guard::hide(&mut page);
        file.write_all_at(&page, 0).and_then(|()| file.sync_all()).map_err(failed(made))
    }

    /// The database that was made, checked and closed takes the place of the original, and what lay beside that is removed.
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

    /// The database file stays as it is, and only what lies beside it goes.
    pub fn remove_beside(&self) -> Result<(), SalvageError> {
        let name = self.database.to_string_lossy();
        for path in [image_path(&name), board_path(&name), log_path(&name)].map(PathBuf::from) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path)(error)),
                _ => {}
            }
        }
        Ok(sync_directory(&self.database)?)
    }
}

fn copy_all(database: &Path, folder: &Path) -> Result<Vec<String>, SalvageError> {
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
            files.push(name.to_string_lossy().into_owned());
        }
    }
    sync_directory(folder)?;
    File::open(folder).and_then(|opened| opened.sync_all()).map_err(failed(folder))?;
    sync_directory(database)?;
    Ok(files)
}

/// A connection in WAL mode has a shared lock on the database file as long as it is open. (It is a lock of the process: ours is gone with the file.)
pub(crate) fn lock_alone(database: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).open(database)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn refuse_if_open(database: &Path) -> Result<(), SalvageError> {
    match lock_alone(database).map_err(failed(database))? {
        Some(_) => Ok(()),
        None => Err(SalvageError::InUse(database.to_owned())),
    }
}

/// The pages of all commits in an image, with the checksums of all their versions; None: it is no image of such pages.
fn image_pages(path: &Path, page_bytes: usize) -> Result<Option<HashMap<u32, HashSet<u32>>>, SalvageError> {
    use crate::strategy::{FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES};

    let image = ReadOnly(File::open(path).ok());
    let mut header = [0; HEADER_BYTES as usize];
    if image.read(&mut header, 0).is_err() {
        return Ok(None);
    }
    let Some((_, mut chain)) = WalFile::header(&header).filter(|(found, _)| *found == page_bytes) else {
        return Ok(None);
    };
    let wal = WalFile { file: &image, page_bytes };
    let (mut pages, mut open) = (HashMap::<u32, HashSet<u32>>::new(), Vec::new());
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    for number in 1..=wal.frames()? {
        image.read(&mut frame, wal.offset_of(number))?;
        let Some(found) = frame.first_chunk().map(FrameHeader::decode) else { break };
        chain = chain.behind(&frame);
        if found.chain != chain || found.page_no == 0 {
            break;
        }
        open.push((found.page_no, page_crc(&frame[FRAME_HEADER_BYTES..])));
        if found.database_pages != 0 {
            for (page_no, content) in open.drain(..) {
                pages.entry(page_no).or_default().insert(content);
            }
        }
    }
    Ok(Some(pages))
}

/// A WAL that is being made.
struct Writable(File);

impl Writable {
    fn open(path: &Path) -> Result<Writable, SalvageError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        Ok(Writable(file.map_err(failed(path))?))
    }
}

impl Below for Writable {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        match self.0.read_exact_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Code::SHORT_READ),
            result => result.map_err(|_| Code::IOERR_READ),
        }
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        self.0.metadata().map(|metadata| metadata.len()).map_err(|_| Code::IOERR_READ)
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        self.0.write_all_at(data, offset).map_err(|_| Code::FULL)
    }

    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        self.0.set_len(size_bytes).map_err(|_| Code::FULL)
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        self.0.sync_all().map_err(|_| Code::IOERR_FSYNC)
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn shm_lock(&self, _: ShmLock) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn published_frames(&self) -> Option<u32> {
        None
    }

    fn forget_backfill(&self) {}

    fn believe_backfill(&self, _: u32) {}

    fn sector_size(&self) -> i32 {
        0
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(0)
    }
}
