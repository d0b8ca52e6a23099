//! From lines to what is to be done: files in place of paths, openings in place of descriptors, and
//! the order that a replay keeps.
//!
//! 1. Operations on one file are done in the order of the recording. Those on different files are
//!    done as the threads come to them. So two threads never meet a file in another state than the
//!    recorded one, and they overlap where the recording lets them.
//! 2. A file that was there before the recording is there before the replay, as long as the
//!    recording's reads need. How the first operation on a path ended tells whether it was there.
//! 3. A path that is the directory of other paths, and is opened as a file, is a name that the
//!    recording tool put where it knew none. It stands for a file of its own for each descriptor.
//! 4. A made-up name may stand for a pipe or a socket. What a file cannot do is left out: reading
//!    what nobody wrote, and reading or writing against the flags of the open.
//! 5. A call that failed in the recording is not repeated, and counted. Asking for a file that is
//!    not there is repeated.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::line::{Call, Flags, Line};

/// Numbers of files and openings, in the order in which they first occur.
pub type FileId = usize;
pub type OpeningId = usize;

#[derive(Debug, Default)]
pub struct Plan {
    pub files: Vec<FileEntry>,
    pub openings_count: usize,
    /// One entry a thread of the recording.
    pub threads: Vec<Vec<Step>>,
    pub totals: Totals,
    /// Calls of the recording that are not repeated, by the reason.
    pub left_out: BTreeMap<String, u64>,
}

/// What a whole replay does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub operations: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub syncs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Below the replay's directory.
    pub name: String,
    pub is_directory: bool,
    /// Before the replay; none: it is not there.
    pub bytes_before: Option<u64>,
    /// After it; none: it is gone. Of a directory it means nothing.
    pub bytes_after: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub at_us: u64,
    pub action: Action,
    /// Files that the step is about, each with the number of steps about it that come before.
    pub turns: Vec<(FileId, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Open { file: FileId, flags: Flags, opening: OpeningId },
    Close { opening: OpeningId },
    Read { opening: OpeningId, offset: Option<u64>, bytes: u64 },
    Write { opening: OpeningId, offset: Option<u64>, bytes: u64 },
    Sync { opening: OpeningId, data_only: bool },
    Fstat { opening: OpeningId },
    Stat { file: FileId, exists: bool },
    Unlink { file: FileId },
    Rename { from: FileId, to: FileId },
}

impl Plan {
    pub fn of(mut lines: Vec<Line>) -> Plan {
        lines.sort_by_key(|line| line.at_us);
        let mut planner = Planner::new(&lines);
        let mut numbers = HashMap::new();
        for line in lines {
            let count = numbers.len();
            let thread = *numbers.entry(line.thread).or_insert(count);
            planner.plan.threads.resize_with(numbers.len(), Vec::new);
            match planner.action(line.call) {
                Ok((action, files)) => planner.add(thread, line.at_us, action, files),
                Err(reason) => *planner.plan.left_out.entry(reason).or_default() += 1,
            }
        }
        planner.finish()
    }
}

/// A file while the recording is followed.
#[derive(Debug)]
struct Tracked {
    /// Now; none: it is not there.
    bytes: Option<u64>,
    /// It has what it had before the recording, so reads tell how long that was.
    is_original: bool,
    /// Steps so far.
    steps: u32,
}

#[derive(Debug)]
struct Opening {
    id: OpeningId,
    file: FileId,
    position: u64,
    reads: bool,
    writes: bool,
    appends: bool,
    /// The file was not removed since.
    is_linked: bool,
}

struct Planner {
    plan: Plan,
    directories: BTreeSet<String>,
    by_path: HashMap<String, FileId>,
    tracked: Vec<Tracked>,
    /// By descriptor.
    open: HashMap<u32, Opening>,
}

impl Planner {
    fn new(lines: &[Line]) -> Planner {
        let mut directories = BTreeSet::new();
        for line in lines {
            let paths: &[&String] = match &line.call {
                Call::Open { path, .. } | Call::Stat { path, .. } | Call::Unlink { path, .. } => {
                    &[path]
                }
                Call::Rename { from, to, .. } => &[from, to],
                _ => &[],
            };
            directories.extend(paths.iter().flat_map(|path| above(&plain(path))));
            if let Call::Open { path, flags: Flags { directory: true, .. }, .. } = &line.call {
                directories.insert(plain(path));
            }
        }
        Planner {
            plan: Plan::default(),
            directories,
            by_path: HashMap::new(),
            tracked: Vec::new(),
            open: HashMap::new(),
        }
    }

    fn add(&mut self, thread: usize, at_us: u64, action: Action, files: Vec<FileId>) {
        let totals = &mut self.plan.totals;
        totals.operations += 1;
        match &action {
            Action::Read { bytes, .. } => totals.read_bytes += bytes,
            Action::Write { bytes, .. } => totals.written_bytes += bytes,
            Action::Sync { .. } => totals.syncs += 1,
            _ => {}
        }
        let tracked = &mut self.tracked;
        let turns = files.into_iter().map(|file| {
            let turn = tracked[file].steps;
            tracked[file].steps += 1;
            (file, turn)
        });
        let turns = turns.collect();
        self.plan.threads[thread].push(Step { at_us, action, turns });
    }

    /// What is done for a call, and the files that it is about. Or why nothing is done.
    fn action(&mut self, call: Call) -> Result<(Action, Vec<FileId>), String> {
        let failed = |what: &str| format!("{what} that failed in the recording");
        match call {
            Call::Open { descriptor: None, .. } => Err(failed("open")),
            Call::Open { path, flags, descriptor: Some(descriptor) } => {
                Ok(self.open(&path, flags, descriptor))
            }
            Call::Close { descriptor } => {
                let opening = self.open.remove(&descriptor).ok_or_else(|| unknown("close"))?;
                Ok((Action::Close { opening: opening.id }, vec![opening.file]))
            }
            Call::Read { bytes: None, .. } => Err(failed("read")),
            Call::Write { bytes: None, .. } => Err(failed("write")),
            Call::Read { descriptor, offset, bytes: Some(bytes) } => {
                let opening = self.opening(descriptor, "read")?;
                if !opening.reads {
                    return Err("read of a descriptor that was opened to write".to_owned());
                }
                let begin = offset.unwrap_or(opening.position);
                let (id, file, is_linked) = (opening.id, opening.file, opening.is_linked);
                let tracked = &mut self.tracked[file];
                let (size, end) = (tracked.bytes.unwrap_or(0), begin + bytes);
                if bytes > 0 && end > size {
                    if !tracked.is_original || !is_linked {
                        return Err("read of what the replay never wrote".to_owned());
                    }
                    (self.plan.files[file].bytes_before, tracked.bytes) = (Some(end), Some(end));
                }
                if offset.is_none()
                    && let Some(opening) = self.open.get_mut(&descriptor)
                {
                    opening.position = end;
                }
                Ok((Action::Read { opening: id, offset, bytes }, vec![file]))
            }
            Call::Write { descriptor, offset, bytes: Some(bytes) } => {
                let opening = self.opening(descriptor, "write")?;
                if !opening.writes {
                    return Err("write to a descriptor that was opened to read".to_owned());
                }
                let (id, file, is_linked) = (opening.id, opening.file, opening.is_linked);
                let (position, appends) = (opening.position, opening.appends);
                let size = self.tracked[file].bytes.unwrap_or(0);
                let begin = offset.unwrap_or(if appends { size } else { position });
                if offset.is_none()
                    && let Some(opening) = self.open.get_mut(&descriptor)
                {
                    opening.position = begin + bytes;
                }
                if is_linked && bytes > 0 {
                    self.tracked[file].bytes = Some(size.max(begin + bytes));
                }
                Ok((Action::Write { opening: id, offset, bytes }, vec![file]))
            }
            Call::Sync { descriptor, data_only } => {
                let opening = self.opening(descriptor, "fsync")?;
                Ok((Action::Sync { opening: opening.id, data_only }, vec![opening.file]))
            }
            Call::Fstat { descriptor } => {
                let opening = self.opening(descriptor, "fstat")?;
                Ok((Action::Fstat { opening: opening.id }, vec![opening.file]))
            }
            Call::Stat { path, exists } => {
                let file = self.file(&plain(&path), exists);
                // The recording's answer may be about a right, and not about the file.
                let exists = self.tracked[file].bytes.is_some() || self.is_directory(file);
                Ok((Action::Stat { file, exists }, vec![file]))
            }
            Call::Unlink { done: false, .. } => Err(failed("unlink")),
            Call::Unlink { path, done: true } => {
                let file = self.file(&plain(&path), true);
                if self.is_directory(file) || self.tracked[file].bytes.is_none() {
                    return Err("unlink of a file that was never made".to_owned());
                }
                self.is_gone(file);
                Ok((Action::Unlink { file }, vec![file]))
            }
            Call::Rename { done: false, .. } => Err(failed("rename")),
            Call::Rename { from, to, done: true } => {
                let (from, to) = (self.file(&plain(&from), true), self.file(&plain(&to), false));
                let bytes = self.tracked[from].bytes;
                if from == to || self.is_directory(from) || self.is_directory(to) {
                    return Err("rename of a directory".to_owned());
                }
                if bytes.is_none() {
                    return Err("rename of a file that was never made".to_owned());
                }
                self.is_gone(to);
                self.tracked[to].bytes = bytes;
                self.tracked[from].bytes = None;
                self.tracked[from].is_original = false;
                for opening in self.open.values_mut().filter(|opening| opening.file == from) {
                    opening.file = to;
                }
                Ok((Action::Rename { from, to }, vec![from, to]))
            }
            Call::Other { name } => Err(name),
        }
    }

    fn open(&mut self, path: &str, flags: Flags, descriptor: u32) -> (Action, Vec<FileId>) {
        let mut path = plain(path);
        if self.directories.contains(&path) && !flags.directory {
            path = format!("{path}/({descriptor})");
        }
        let file = self.file(&path, !flags.creates);
        if !self.is_directory(file) {
            let tracked = &mut self.tracked[file];
            let was_there = tracked.bytes.is_some();
            if !was_there || flags.truncates {
                tracked.bytes = Some(0);
                // A file that the open may have made tells by its reads what it had.
                tracked.is_original &= !flags.truncates && !flags.exclusive;
            }
        }
        let id = self.plan.openings_count;
        self.plan.openings_count += 1;
        let opening = Opening {
            id,
            file,
            position: 0,
            reads: flags.reads,
            writes: flags.writes,
            appends: flags.appends,
            is_linked: true,
        };
        // A number that is used again without a close: its close is not in the recording.
        self.open.insert(descriptor, opening);
        (Action::Open { file, flags, opening: id }, vec![file])
    }

    /// The file of a path. `exists`: at its first mention it is there.
    fn file(&mut self, path: &str, exists: bool) -> FileId {
        if let Some(file) = self.by_path.get(path) {
            return *file;
        }
        let file = self.plan.files.len();
        let is_directory = self.directories.contains(path);
        let bytes = (exists && !is_directory).then_some(0);
        self.plan.files.push(FileEntry {
            name: String::new(),
            is_directory,
            bytes_before: bytes,
            bytes_after: None,
        });
        self.tracked.push(Tracked { bytes, is_original: true, steps: 0 });
        self.by_path.insert(path.to_owned(), file);
        file
    }

    fn is_directory(&self, file: FileId) -> bool {
        self.plan.files[file].is_directory
    }

    fn opening(&mut self, descriptor: u32, what: &str) -> Result<&mut Opening, String> {
        self.open.get_mut(&descriptor).ok_or_else(|| unknown(what))
    }

    /// Its name is free. What was open stays open.
    fn is_gone(&mut self, file: FileId) {
        let tracked = &mut self.tracked[file];
        (tracked.bytes, tracked.is_original) = (None, false);
        for opening in self.open.values_mut().filter(|opening| opening.file == file) {
            opening.is_linked = false;
        }
    }

    /// Directories lie flat beside each other, so that a name is never a file and a directory.
    fn finish(mut self) -> Plan {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut number = |path: &str| {
            let count = numbers.len();
            *numbers.entry(path.to_owned()).or_insert(count)
        };
        for (path, file) in self.by_path.iter().collect::<BTreeMap<_, _>>() {
            let entry = &mut self.plan.files[*file];
            entry.name = if entry.is_directory {
                format!("d{}", number(path))
            } else {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                format!("d{}/f{file}", number(directory))
            };
            entry.bytes_after = self.tracked[*file].bytes;
        }
        self.plan
    }
}

fn unknown(what: &str) -> String {
    format!("{what} of a descriptor that was never opened")
}

/// Without blank parts: "/data//data/" and "data/data" are one.
fn plain(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// The directories that a path lies in.
fn above(path: &str) -> Vec<String> {
    path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::of(text.lines().map(|line| Line::parse(line.trim()).unwrap()).collect())
    }

    #[test]
    fn a_file_that_was_there_is_as_long_as_the_recordings_reads_need() {
        let plan = plan(
            "1 0 open /a/old O_RDWR 5
             1 1 pread 5 4096 100
             1 2 pwrite 5 8192 4096
             1 3 pread 5 8192 4096
             1 4 open /a/new O_RDWR|O_CREAT|O_EXCL 6
             1 5 write 6 10
             1 6 write 6 20
             1 7 open /a/same O_RDWR|O_CREAT 7
             1 8 read 7 30",
        );
        let files: Vec<_> =
            plan.files.iter().map(|file| (file.bytes_before, file.bytes_after)).collect();
        // What was written is read back later: the file need not have had it before.
        assert_eq!(files[0], (Some(4196), Some(12_288)));
        assert_eq!(files[1], (None, Some(30)));
        assert_eq!(files[2], (Some(30), Some(30)));
        assert_eq!((plan.totals.written_bytes, plan.totals.read_bytes), (4126, 4226));
    }

    #[test]
    fn steps_on_a_file_are_numbered_over_all_threads_and_removed_files_begin_anew() {
        let plan = plan(
            "7 0 open /a/f O_RDWR|O_CREAT 5
             8 1 write 5 100
             7 2 unlink /a/f 0
             7 3 write 5 50
             8 4 open /a/f O_RDWR|O_CREAT 6
             7 5 fsync 6 0",
        );
        let turns = |thread: usize| -> Vec<_> {
            plan.threads[thread].iter().map(|step| step.turns[0].1).collect()
        };
        assert_eq!((turns(0), turns(1)), (vec![0, 2, 3, 5], vec![1, 4]));
        assert_eq!((plan.files[0].bytes_before, plan.files[0].bytes_after), (None, Some(0)));
        assert_eq!(plan.totals.syncs, 1);
    }

    #[test]
    fn a_name_that_the_tool_made_up_is_a_file_for_each_descriptor() {
        let plan = plan(
            "1 0 open /data/data O_WRONLY|O_CREAT|O_TRUNC 36
             1 1 open data/data O_WRONLY|O_CREAT|O_TRUNC 37
             1 2 open /data/data/app/x O_RDWR|O_CREAT 38
             1 3 open /data/data/app O_RDONLY|O_DIRECTORY 39
             1 4 fsync 39 0",
        );
        let names: BTreeSet<_> = plan.files.iter().map(|file| &file.name).collect();
        assert_eq!(names.len(), 4);
        assert!(plan.files[3].is_directory);
        let directory = &plan.files[3].name;
        assert!(plan.files[2].name.starts_with(&format!("{directory}/")), "{:?}", plan.files);
    }

    #[test]
    fn what_cannot_be_repeated_is_counted_with_its_reason() {
        let plan = plan(
            "1 0 write 3 4
             1 1 open /a O_RDWR -1
             1 2 ioctl 3
             1 3 read 3 -1
             1 3 open /data/data O_WRONLY|O_CREAT|O_TRUNC 7
             1 3 write 7 100
             1 3 read 7 100
             1 3 open /data/new O_RDWR|O_CREAT|O_TRUNC 8
             1 3 read 8 50
             1 4 stat /nowhere -1",
        );
        let reasons: Vec<_> = plan.left_out.keys().map(String::as_str).collect();
        assert_eq!(
            reasons,
            [
                "ioctl",
                "open that failed in the recording",
                "read of a descriptor that was opened to write",
                "read of what the replay never wrote",
                "read that failed in the recording",
                "write of a descriptor that was never opened",
            ]
        );
        let last = plan.threads[0].last().unwrap();
        assert_eq!(last.action, Action::Stat { file: 2, exists: false });
    }
}
