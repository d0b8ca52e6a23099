//! Traces as they are read: from files or standard input, with progress on a terminal, until the
//! end or a signal.
//!
//! A signal is the end of the input. A read that waits for a pipe would not notice one, so it waits
//! in short turns.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oneflush_measure::interrupt;
use oneflush_trace::identify::Layer;
use oneflush_trace::import::{self, ImportError, Reader};
use oneflush_trace::model::DeviceId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::output;

/// Work that is done sooner shows no progress.
const QUIET: Duration = Duration::from_secs(2);
/// How long a read waits before it looks for a signal.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

const STANDARD_INPUT: &str = "-";

pub struct Input {
    pub name: String,
    pub reader: Reader,
    pub progress: Progress,
}

impl Input {
    pub fn open(path: &Path) -> Result<Input, ImportError> {
        if path.as_os_str() == STANDARD_INPUT {
            let name = "standard input".to_owned();
            let progress = Progress::new(None);
            // Not by Stdin: what that had read ahead, poll would not see.
            let stdin = io::stdin().as_fd().try_clone_to_owned();
            let stdin = stdin.map_err(|source| ImportError::Open { name: name.clone(), source })?;
            let reader = Reader::from_read(&name, Watched::new(File::from(stdin), &progress))?;
            return Ok(Input { name, reader, progress });
        }
        let length =
            |path: &Path| path.metadata().ok().filter(|file| file.is_file()).map(|file| file.len());
        let parts = import::parts(path);
        let bytes = if parts.is_empty() {
            length(path)
        } else {
            parts.iter().map(|part| length(part)).sum()
        };
        let progress = Progress::new(bytes);
        let reader = import::open_through(path, |file| Watched::new(file, &progress))?;
        Ok(Input { name: path.display().to_string(), reader, progress })
    }
}

/// Opens every trace once. Before that, it looks at the two files that options name for results.
/// What cannot be read at all is said before the first line of a result.
pub fn open_all(
    traces: &[PathBuf],
    results: [(&str, &Option<PathBuf>); 2],
) -> Result<Vec<Input>, Failure> {
    let traces = distinct(traces).map_err(Failure::usage)?;
    for (option, file) in results {
        if let Some(file) = file {
            output::check_is_no_input(option, file, &traces).map_err(Failure::usage)?;
        }
    }
    let [(one, file), (other, same)] = results;
    if file.is_some() && file == same {
        return Err(Failure::usage(format!(
            "{one} and {other} name the same file; give each its own"
        )));
    }
    interrupt::install().map_err(Failure::failed)?;
    traces.iter().map(|path| Input::open(path)).collect::<Result<_, _>>().map_err(Failure::failed)
}

/// What `--layer` takes.
pub fn layer(text: &str) -> Result<Layer, String> {
    let device = || {
        let (major, minor) = text.split_once([',', ':'])?;
        Some(DeviceId { major: major.parse().ok()?, minor: minor.parse().ok()? })
    };
    match text {
        "lowest" => Ok(Layer::Lowest),
        "highest" => Ok(Layer::Highest),
        _ => device().map(Layer::Device).ok_or_else(|| {
            format!("{text:?} is no layer; give lowest, highest or a device such as 253,0")
        }),
    }
}

/// The last part of a path.
#[cfg(feature = "laboratory")]
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(feature = "laboratory")]
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Every trace once. Of blktrace's files for each processor, the first stands for all. Standard
/// input can be read only once.
pub fn distinct(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut distinct: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.as_os_str() == STANDARD_INPUT && distinct.contains(path) {
            return Err("-: standard input was given twice; it can be read only once".to_owned());
        }
        let parts = import::parts(path);
        let is_told = |known: &PathBuf| parts.len() > 1 && import::parts(known) == parts;
        if !distinct.iter().any(is_told) {
            distinct.push(path.clone());
        }
    }
    Ok(distinct)
}

/// A bar on stderr, if that is a terminal, once the work takes a while.
#[derive(Clone)]
pub struct Progress {
    bar: Option<ProgressBar>,
    begun: Option<Instant>,
}

impl Progress {
    /// `bytes`: none where nobody knows how many there are.
    fn new(bytes: Option<u64>) -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
            let template = match bytes {
                Some(_) => "{bar:30} {bytes} of {total_bytes}  {bytes_per_sec}, about {eta} left",
                None => "{spinner} {bytes} read  {bytes_per_sec}",
            };
            // The template is constant; were it wrong, the default bar would do.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Progress { bar, begun: None }
    }

    fn read(&mut self, bytes: usize) {
        let Some(bar) = &self.bar else { return };
        bar.inc(bytes as u64);
        if self.begun.get_or_insert_with(Instant::now).elapsed() > QUIET && bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Ends at a signal, and tells how far it is.
struct Watched {
    file: File,
    progress: Progress,
}

impl Watched {
    fn new(file: File, progress: &Progress) -> Watched {
        Watched { file, progress: progress.clone() }
    }
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if interrupt::requested() {
                return Ok(0);
            }
            let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&TURN));
            match ready {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.file.read(buffer) {
                // Another reader of the pipe was first.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    let bytes = read?;
                    self.progress.read(bytes);
                    return Ok(bytes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_all_processors_are_one_trace() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["sda.blktrace.0", "sda.blktrace.1", "sdb.blktrace.0", "other.txt"]
            .map(|name| folder.path().join(name));
        for path in &paths {
            std::fs::write(path, b"").unwrap();
        }
        assert_eq!(
            distinct(&paths).unwrap(),
            [paths[0].clone(), paths[2].clone(), paths[3].clone()]
        );
        assert_eq!(distinct(&paths[3..]).unwrap(), paths[3..]);
        assert!(distinct(&["-".into(), "-".into()]).is_err());
    }
}
