//! Replays the file operations that were recorded from an application: opens, reads, writes, syncs,
//! removals, each thread of the recording by a thread of its own.
//!
//! ```text
//! line   one line of the recording
//! plan   files for paths, openings for descriptors, and the order that is kept (1 to 4 there)
//! play   the threads that do it
//! ```
//!
//! A unit is a sync. The time between operations, in which the application thought, is left out, or
//! scaled. What is written is random bytes, so that a log which writes differences has nothing from
//! them.
//!
//! Source: the eager synching thesis, section 5.3, replays such recordings.

mod line;
mod plan;
mod play;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plan::Plan;
pub use play::PlayStream;
use serde::{Deserialize, Serialize};

pub use super::error::FileTraceError;
use super::{FileError, MB, WorkloadError};
use line::Line;

/// In the run's directory.
pub(super) const FOLDER: &str = "replayed";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileTrace {
    pub recording: PathBuf,
    /// The recorded time between operations, times this. 0: none.
    pub think: f64,
    pub totals: Totals,
}

/// What a replay does, for a headline and for rates.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Totals {
    pub operations: u64,
    pub threads: u64,
    pub syncs: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
}

impl FileTrace {
    /// Reads it once, so that what is no recording is refused before anything is made.
    pub fn open(recording: &Path, think: f64) -> Result<FileTrace, FileTraceError> {
        let plan = read(recording)?;
        if plan.totals.syncs == 0 || plan.totals.written_bytes == 0 {
            return Err(FileTraceError::Nothing { path: recording.to_owned() });
        }
        // Workers may be processes with another working directory.
        let recording = fs::canonicalize(recording)
            .map_err(|reason| FileTraceError::Read { path: recording.to_owned(), reason })?;
        let totals = Totals {
            operations: plan.totals.operations,
            threads: plan.threads.len() as u64,
            syncs: plan.totals.syncs,
            written_bytes: plan.totals.written_bytes,
            read_bytes: plan.totals.read_bytes,
        };
        Ok(FileTrace { recording, think, totals })
    }

    /// Those of the replay, whether they are there or not.
    pub fn files(&self, folder: &Path) -> Result<Vec<PathBuf>, FileTraceError> {
        let files = read(&self.recording)?.files;
        Ok(files.iter().map(|file| folder.join(&file.name)).collect())
    }

    /// That the replay writes, for each of its syncs.
    pub(super) fn bytes_per_unit(&self) -> f64 {
        self.totals.written_bytes as f64 / self.totals.syncs.max(1) as f64
    }

    pub(super) fn describe(&self) -> String {
        let name = self.recording.file_name().unwrap_or(self.recording.as_os_str());
        let Totals { operations, threads, syncs, written_bytes, .. } = self.totals;
        let think = if self.think > 0.0 {
            format!("with {} of the time between them", self.think)
        } else {
            "without the time between them".to_owned()
        };
        format!(
            "replay of {}: {operations} file operations of {threads} threads, {syncs} syncs, {:.1} \
                MB written, {think}",
            name.to_string_lossy(),
            written_bytes as f64 / MB
        )
    }

    /// The files that were there before the recording.
    pub fn set_up(&self, folder: &Path) -> Result<(), WorkloadError> {
        let plan = read(&self.recording)?;
        let mut random = fastrand::Rng::with_seed(0);
        let mut buffer = vec![0; 64 << 10];
        for file in &plan.files {
            let path = folder.join(&file.name);
            let mut make = || -> io::Result<()> {
                let directory =
                    if file.is_directory { Some(path.as_path()) } else { path.parent() };
                directory.map_or(Ok(()), fs::create_dir_all)?;
                let Some(bytes) = file.bytes_before else { return Ok(()) };
                let file = File::create(&path)?;
                let mut offset = 0;
                while offset < bytes {
                    let length = (bytes - offset).min(buffer.len() as u64) as usize;
                    random.fill(&mut buffer[..length]);
                    file.write_all_at(&buffer[..length], offset)?;
                    offset += length as u64;
                }
                Ok(())
            };
            make().map_err(|reason| FileError { path: path.clone(), reason })?;
        }
        Ok(())
    }

    /// Whether each file is there with its length, or gone: a benchmark that lost some must not
    /// report them.
    pub fn verify(&self, folder: &Path) -> Result<(), WorkloadError> {
        for file in read(&self.recording)?.files.iter().filter(|file| !file.is_directory) {
            let path = folder.join(&file.name);
            let found = match fs::metadata(&path) {
                Ok(metadata) => Some(metadata.len()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(reason) => return Err(FileError { path, reason }.into()),
            };
            if found != file.bytes_after {
                let told = |bytes: Option<u64>| {
                    bytes.map_or("missing".to_owned(), |bytes| format!("{bytes} bytes long"))
                };
                return Err(WorkloadError::Contents(format!(
                    "after the replay {} is {}, and must be {}",
                    path.display(),
                    told(found),
                    told(file.bytes_after)
                )));
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Plan, FileTraceError> {
    let failed = |reason| FileTraceError::Read { path: path.to_owned(), reason };
    let mut lines = Vec::new();
    for (at, line) in BufReader::new(File::open(path).map_err(failed)?).split(b'\n').enumerate() {
        let line = line.map_err(failed)?;
        let wrong =
            |reason| FileTraceError::NotALine { path: path.to_owned(), number: at + 1, reason };
        let text = std::str::from_utf8(&line).map_err(|_| wrong("it is no text"))?.trim();
        if !text.is_empty() {
            lines.push(Line::parse(text).map_err(wrong)?);
        }
    }
    Ok(Plan::of(lines))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::workload::{Step, Stream};

    fn refused(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mobigen");
        fs::write(&path, bytes).unwrap();
        FileTrace::open(&path, 0.0).unwrap_err().to_string()
    }

    fn replayed(text: &str, think: f64) -> (tempfile::TempDir, FileTrace, Vec<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mobigen");
        fs::write(&path, text).unwrap();
        let trace = FileTrace::open(&path, think).unwrap();
        let files = folder.path().join(FOLDER);
        trace.set_up(&files).unwrap();
        let mut stream = PlayStream::new(&trace, &files).unwrap();
        let mut latencies = Vec::new();
        loop {
            match stream.step().unwrap() {
                Step::Done { latency_ns } => latencies.push(latency_ns),
                Step::NothingWritten => {}
                Step::Finished => break,
            }
        }
        stream.finish().unwrap();
        assert_eq!(stream.failures(), BTreeMap::new());
        (folder, trace, latencies)
    }

    /// Two threads hand a file to each other; a third one works beside them.
    const HANDED_OVER: &str = "\
        1 0 open /data/app/a.db O_RDWR|O_CREAT 10
        2 10 pwrite 10 4096 4096
        1 20 fsync 10 0
        2 30 close 10 0
        1 40 rename /data/app/a.db /data/app/b.db 0
        2 50 open /data/app/b.db O_WRONLY|O_APPEND 11
        2 60 write 11 100
        2 70 fdatasync 11 0
        1 80 unlink /data/app/c.db 0
        1 90 stat /data/app/a.db -1
        3 5 open /data/app O_RDONLY|O_DIRECTORY 12
        3 6 fsync 12 0
        3 7 open /data/app/d.db O_RDONLY 13
        3 100000 read 13 512";

    #[test]
    fn threads_take_their_turns_on_a_file_and_leave_what_the_recording_left() {
        let (folder, trace, latencies) = replayed(HANDED_OVER, 0.0);
        assert_eq!((latencies.len(), trace.totals.syncs, trace.totals.threads), (3, 3, 3));
        let files = folder.path().join(FOLDER);
        trace.verify(&files).unwrap();
        let of_b = trace.files(&files).unwrap();
        let lengths: Vec<u64> = of_b
            .iter()
            .filter_map(|file| fs::metadata(file).ok())
            .filter(|found| found.is_file())
            .map(|found| found.len())
            .collect();
        assert_eq!(lengths, [512, 8292]);
        let lost = of_b.iter().find(|file| fs::metadata(file).is_ok_and(|it| it.len() == 8292));
        File::options().write(true).open(lost.unwrap()).unwrap().set_len(4).unwrap();
        let text = trace.verify(&files).unwrap_err().to_string();
        assert!(text.contains("4 bytes long, and must be 8292 bytes long"), "{text}");
    }

    #[test]
    fn the_time_between_operations_is_kept_as_much_as_is_asked_for() {
        for (think, least) in [(1.0, 100), (0.5, 50)] {
            let begin = Instant::now();
            replayed(HANDED_OVER, think);
            let elapsed = begin.elapsed();
            assert!(elapsed >= Duration::from_millis(least), "{elapsed:?}");
        }
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line_and_the_way_out() {
        let missing = FileTrace::open(Path::new("/nowhere/x"), 0.0).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/x") && missing.contains("write 199 698"), "{missing}");
        let text = refused(b"1 0 open /a O_RDWR 3\nSQLite format 3");
        assert!(text.contains("line 2: no thread's number"), "{text}");
        assert!(refused(b"\xff\xfe").contains("line 1: it is no text"));
        assert!(refused(b"").contains("nothing in it can be replayed"));
        assert!(refused(b"1 0 fsync 3 0\n").contains("nothing in it can be replayed"));
    }
}
