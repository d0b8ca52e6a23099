//! The files of a recording that goes on and on: `app.000001.zst`, `app.000002.zst`, …
//!
//! Invariants:
//! 1. A file under its own name is complete and on the disk. The one being written is
//!    `app.000003.zst.part`.
//! 2. Numbers only rise, also after a restart: a new file's is one more than the highest that is
//!    there.
//! 3. With `keep`, at most so many complete files are there behind each boundary.
//! 4. Nothing is deleted without `keep`.
//!
//! A recorder that is killed leaves its `.part`. The next one gives it its name: readers say of
//! such a file that it is cut off. A lock tells a `.part` that is still written from one that is
//! left.
//!
//! Where the disk is full and `keep` is given, the oldest complete file makes room: whoever gives
//! `keep` wants the newest. Otherwise writing fails, and what is complete stays.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

const UNFINISHED: &str = ".part";
const DIGITS_LEAST: usize = 6;
/// A name with a larger number is not one of ours.
const NUMBER_MAX: u64 = 1 << 53;

#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    #[error("-o {}: names no file; give one, such as /var/lib/traces/app.zst", output.display())]
    NoName { output: PathBuf },

    #[error("-o {}: {}: {source}; name a file in an existing directory", output.display(),
        folder.display())]
    Folder { output: PathBuf, folder: PathBuf, source: io::Error },

    #[error("{}: another recorder is writing it; end that one, or give another file with -o",
        path.display())]
    Busy { path: PathBuf },

    #[error("{}: cannot be given its name, {}: {source}", path.display(), name.display())]
    Unfinished { path: PathBuf, name: PathBuf, source: io::Error },
}

/// A file by device and inode.
pub(super) type FileId = (u64, u64);

/// The files of one recording.
pub struct Parts {
    folder: PathBuf,
    /// What stands before and behind the number.
    before: OsString,
    behind: OsString,
    keep: Option<u64>,
    next: u64,
    current: Option<Part>,
    /// The file before, until all events of its writing are read. As long as it is open, nothing
    /// else gets its inode.
    retired: Option<(Part, u64)>,
    /// Complete ones of this run, and bytes of all.
    pub(super) files: u64,
    pub(super) bytes: u64,
    notices: Vec<String>,
}

struct Part {
    file: File,
    id: FileId,
    number: u64,
    bytes: u64,
}

impl Parts {
    /// `output`: the files' name without the number. Files that a killed recorder has left get
    /// their names.
    pub fn new(output: &Path, keep: Option<u64>) -> Result<Parts, PartsError> {
        let no_name = || PartsError::NoName { output: output.to_owned() };
        let stem = output.file_stem().filter(|_| !output.is_dir()).ok_or_else(no_name)?;
        let mut before = stem.to_owned();
        before.push(".");
        let mut behind = OsString::new();
        if let Some(extension) = output.extension() {
            behind.push(".");
            behind.push(extension);
        }
        let folder = output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let mut parts = Parts {
            folder,
            before,
            behind,
            keep,
            next: 1,
            current: None,
            retired: None,
            files: 0,
            bytes: 0,
            notices: Vec::new(),
        };
        let unreadable = |source| PartsError::Folder {
            output: output.to_owned(),
            folder: parts.folder.clone(),
            source,
        };
        let unfinished = parts.numbers(UNFINISHED).map_err(unreadable)?;
        for number in unfinished {
            parts.adopt(number)?;
        }
        let highest = parts.numbers("").map_err(unreadable)?.last().copied();
        parts.next = highest.unwrap_or(0) + 1;
        Ok(parts)
    }

    /// For a human reader: `app.*.zst`.
    pub fn pattern(&self) -> PathBuf {
        self.path_of(OsStr::new("*"), "")
    }

    fn path(&self, number: u64, ending: &str) -> PathBuf {
        self.path_of(OsStr::new(&format!("{number:0DIGITS_LEAST$}")), ending)
    }

    fn path_of(&self, number: &OsStr, ending: &str) -> PathBuf {
        let mut name = self.before.clone();
        name.push(number);
        name.push(&self.behind);
        name.push(ending);
        self.folder.join(name)
    }

    /// The numbers that are there, rising.
    fn numbers(&self, ending: &str) -> io::Result<Vec<u64>> {
        let mut behind = self.behind.clone();
        behind.push(ending);
        let number = |name: &OsStr| {
            let name = name.as_bytes().strip_prefix(self.before.as_bytes())?;
            let digits = str::from_utf8(name.strip_suffix(behind.as_bytes())?).ok()?;
            let number = digits.parse::<u64>().ok().filter(|number| *number <= NUMBER_MAX)?;
            (format!("{number:0DIGITS_LEAST$}") == digits).then_some(number)
        };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            numbers.extend(number(&entry?.file_name()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A file that a killed recorder has left.
    fn adopt(&self, number: u64) -> Result<(), PartsError> {
        let [path, name] = [UNFINISHED, ""].map(|ending| self.path(number, ending));
        let failed =
            |source| PartsError::Unfinished { path: path.clone(), name: name.clone(), source };
        let file = File::open(&path).map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(PartsError::Busy { path }),
            locked => locked.map_err(|error| failed(error.into()))?,
        }
        if file.metadata().map_err(failed)?.len() == 0 {
            // Nothing is in it, and it would look like a recording.
            return fs::remove_file(&path).map_err(failed);
        }
        if name.exists() {
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        file.sync_all().map_err(failed)?;
        fs::rename(&path, &name).map_err(failed)
    }

    /// Begins the next file.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let path = self.path(self.next, UNFINISHED);
        let create = || OpenOptions::new().write(true).create_new(true).open(&path);
        let mut created = create();
        while let Err(error) = &created
            && is_full(error)
            && self.make_room()
        {
            created = create();
        }
        let file = created.map_err(|error| self.explained(&path, error))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let id = id(&file)?;
        self.current = Some(Part { file, id, number: self.next, bytes: 0 });
        self.next += 1;
        Ok(())
    }

    /// The file is complete. `now_ns`: the time of the events' clock.
    pub(super) fn complete(&mut self, now_ns: impl Fn() -> u64) -> io::Result<()> {
        let Some(part) = self.current.take() else { return Ok(()) };
        let [path, name] = [UNFINISHED, ""].map(|ending| self.path(part.number, ending));
        let mut synced = part.file.sync_all();
        while let Err(error) = &synced
            && is_full(error)
            && self.make_room()
        {
            synced = part.file.sync_all();
        }
        synced
            .and_then(|()| fs::rename(&path, name))
            .map_err(|error| self.explained(&path, error))?;
        self.retired = Some((part, now_ns()));
        self.files += 1;
        if let Some(keep) = self.keep {
            let numbers = self.numbers("")?;
            let over = numbers.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
            for number in &numbers[..over] {
                self.delete(*number);
            }
        }
        self.sync_folder()
    }

    /// Takes away the file that is being written: nothing is in it.
    pub(super) fn discard(&mut self) {
        if let Some(part) = self.current.take() {
            let _ = fs::remove_file(self.path(part.number, UNFINISHED));
        }
    }

    /// All events before `until_ns` are read.
    pub(super) fn turn_ended(&mut self, until_ns: u64) {
        self.retired.take_if(|(_, time_ns)| *time_ns < until_ns);
    }

    /// The number of the file that is being written.
    pub(super) fn number(&self) -> Option<u64> {
        self.current.as_ref().map(|part| part.number)
    }

    /// Bytes of the file that is being written.
    pub(super) fn part_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |part| part.bytes)
    }

    /// Whether data of this file may be on their way to the device.
    pub(super) fn is_open(&self, file: FileId) -> bool {
        let is = |part: &Part| part.id == file;
        self.current.as_ref().is_some_and(is)
            || self.retired.as_ref().is_some_and(|(part, _)| is(part))
    }

    /// What whoever started the recording should know.
    pub(super) fn notices(&mut self) -> impl Iterator<Item = String> {
        self.notices.drain(..)
    }

    /// Deletes the oldest complete file. False if none may be deleted.
    fn make_room(&mut self) -> bool {
        if self.keep.is_none() {
            return false;
        }
        let Some(oldest) = self.numbers("").ok().and_then(|numbers| numbers.first().copied())
        else {
            return false;
        };
        let name = self.path(oldest, "");
        let is_deleted = self.delete(oldest);
        if is_deleted {
            self.notices.push(format!("the disk is full: {} makes room", name.display()));
            // The file systems' own journals hold the blocks until then.
            let _ = self.sync_folder();
        }
        is_deleted
    }

    fn delete(&mut self, number: u64) -> bool {
        let name = self.path(number, "");
        match fs::remove_file(&name) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                self.notices.push(format!("{}: cannot be deleted: {error}", name.display()));
                false
            }
            _ => true,
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    fn explained(&self, path: &Path, error: io::Error) -> io::Error {
        let way_out = match (is_full(&error), self.keep) {
            (false, _) => "",
            (true, None) => {
                "; what is complete stays. Make room, or give --keep N: then the oldest file makes \
                    room"
            }
            (true, Some(_)) => "; no complete file is left that could make room. Make some",
        };
        io::Error::new(error.kind(), format!("{}: {error}{way_out}", path.display()))
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let Some(part) = &mut self.current else { return Err(ErrorKind::NotFound.into()) };
            match part.file.write(bytes) {
                Ok(count) => {
                    part.bytes += count as u64;
                    self.bytes += count as u64;
                    return Ok(count);
                }
                Err(error) if is_full(&error) && self.make_room() => {}
                Err(error) => {
                    let number = self.number().unwrap_or_default();
                    return Err(self.explained(&self.path(number, UNFINISHED), error));
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

pub(super) fn id(file: &File) -> io::Result<FileId> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests;
