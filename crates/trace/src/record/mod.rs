//! The recorder: a trace of what reaches a block device. For each write, it says the file, journal
//! or metadata that the write belongs to.
//!
//! ```text
//! tracefs instance ─▶ buffers of the processors ─▶ in the order of time, once nothing older comes
//!   ─▶ attribution (kernel/attribute.rs)  whose a queued write is             ┐
//!   ─▶ names                              which file the inode is then        ├─▶ text ─▶ zstd
//!   ─▶ threads, own                       which thread does it; is it wanted  ┘
//! places   what is known of each device    target, stack    the devices, and what they lie on
//! head     comments and facts of a file    boundary, parts  where a file ends, and its name
//! ```
//!
//! A recording is ftrace's text, compressed, with five additions (`docs/trace.md`):
//! - `oneflush_layer` lines say which device lies on a file of which other;
//! - `oneflush_file` lines give an inode its name from then on;
//! - `oneflush_engine` lines say which file is a database of LS-MVBT;
//! - `oneflush_area` lines say where the file system's journal is;
//! - a queued request ends with whose it is.
//!
//! Invariants:
//! 1. Lines are in the order of time.
//! 2. A name stands before the first line that speaks of its inode.
//! 3. Events that the kernel had no room for are counted. The count is written where they are
//!    missing.
//! 4. Of several files, each is a recording of its own, and each event is in one (`boundary.rs`).

mod boundary;
mod counts;
mod digits;
mod engine;
mod error;
mod events;
mod fields;
mod form;
mod frames;
mod head;
mod labels;
mod names;
mod output;
mod own;
mod pace;
mod parts;
mod places;
mod stack;
mod target;
mod text;
mod threads;
mod writer;

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};

pub use boundary::Limit;
pub use counts::Counts;
pub use error::RecordError;
pub use labels::{Labels, LabelsError};
pub use parts::{Parts, PartsError};
pub use target::{Target, Targets};

use crate::kernel::{Buffers, Decoder, Instance, KernelError, Scope};
use boundary::Boundary;
use events::Events;
use output::Output;
use pace::Pace;
use places::Places;
use threads::Threads;
use writer::{Moment, Writer};

/// Memory for events that wait to be read, all processors together.
const BUFFER_KIB_TOTAL: usize = 64 << 10;
const BUFFER_KIB_PER_CPU_MAX: usize = 16 << 10;
/// Reading begins when a processor's buffer is so full, or at the next turn.
const WAKE_PERCENT: u32 = 25;
/// So long an event can be on its way into the buffer after its time was taken.
const ON_ITS_WAY_NS: u64 = 2_000_000;
/// Behind all events.
const EVER: u64 = u64::MAX;

pub struct Options {
    pub targets: Targets,
    /// Only this process, the processes that it starts, and the threads of the file system's
    /// journal.
    pub process: Option<u32>,
    /// Also records which thread runs.
    pub sched: bool,
    /// Also records calls that read, write and synchronize files, of all processes.
    pub syscalls: bool,
    /// Stand at the head of the recording.
    pub labels: Labels,
}

/// Records from its making until [`Recorder::finish`]. [`Recorder::turn`] must be called again and
/// again.
pub struct Recorder<W: Write> {
    /// Declared before `instance` and so dropped before it: an instance in use cannot be removed.
    buffers: Buffers,
    instance: Instance,
    decoder: Decoder,
    events: Events,
    writer: Writer<W>,
    held: Vec<Held>,
    held_bytes: Vec<u8>,
    /// Takes turns with `held_bytes`. Memory that is given back each turn would cost the kernel new
    /// pages.
    kept_bytes: Vec<u8>,
    turns: u64,
}

/// A record that waits for its turn.
struct Held {
    time_ns: u64,
    cpu: u32,
    bytes: Range<usize>,
}

/// What a recording needs of its caller. Ask this first, so that no other mistake is mended in
/// vain.
pub fn check_permission() -> Result<(), RecordError> {
    if !rustix::process::geteuid().is_root() {
        return Err(RecordError::NotRoot);
    }
    match rustix::thread::capabilities(None) {
        Ok(sets) if !sets.effective.contains(CapabilitySet::SYS_ADMIN) => {
            Err(RecordError::NotCapable)
        }
        _ => Ok(()),
    }
}

impl Recorder<File> {
    /// Records into several files: one behind the other, each a recording of its own.
    pub fn rotating(
        options: Options,
        parts: Parts,
        limit: Limit,
    ) -> Result<Recorder<File>, RecordError> {
        let mut recorder =
            Recorder::begin(options, || Output::parts(parts).map_err(RecordError::Output))?;
        recorder.writer.boundary = Some(Boundary::new(limit, now_ns()));
        Ok(recorder)
    }
}

impl<W: Write> Recorder<W> {
    /// Records into a file: packed.
    pub fn start(options: Options, out: W) -> Result<Recorder<W>, RecordError> {
        Recorder::begin(options, || Output::packed(out).map_err(RecordError::Output))
    }

    /// The same text, not packed, for a reader who reads it as it comes. What a turn has written is
    /// there when the turn ends.
    pub fn live(options: Options, out: W) -> Result<Recorder<W>, RecordError> {
        Recorder::begin(options, || Ok(Output::plain(out)))
    }

    /// `out` is asked for when nothing else can fail.
    fn begin(
        options: Options,
        out: impl FnOnce() -> Result<Output<W>, RecordError>,
    ) -> Result<Recorder<W>, RecordError> {
        check_permission()?;
        let Options { targets, process, sched, syscalls, labels } = options;
        let threads = process.map(Threads::of_process).transpose()?.unwrap_or_default();
        let instance = Instance::make()?;
        instance.size(BUFFER_KIB_TOTAL, BUFFER_KIB_PER_CPU_MAX, WAKE_PERCENT)?;
        let volumes: Vec<_> = targets.all().iter().map(|target| &target.volume).collect();
        let decoder = Decoder::enable(&instance, &volumes, Scope::All)?;
        let events = Events::enable(&instance, &targets, sched, syscalls)?;
        let places = Places::new(targets, &events, decoder.volumes().clone())?;
        let buffers = instance.buffers()?;
        let mut writer = Writer::new(places, threads, labels, out()?);
        writer.begin(now_ns()).map_err(RecordError::Output)?;
        instance.write("tracing_on", "1")?;
        Ok(Recorder {
            buffers,
            instance,
            decoder,
            events,
            writer,
            held: Vec::new(),
            held_bytes: Vec::new(),
            kept_bytes: Vec::new(),
            turns: 0,
        })
    }

    /// Text that is written into this file stands in the recording.
    pub fn marker(&self) -> PathBuf {
        self.instance.path().join("trace_marker")
    }

    /// The names of files that are made while recording are certain, or nobody has asked for them.
    pub fn is_watched(&self) -> bool {
        self.writer.places.are_watched()
    }

    /// No device that was asked for is mounted: files have no names.
    pub fn is_nameless(&self) -> bool {
        self.writer.places.are_nameless()
    }

    /// This is the file that [`Recorder::start`] was given. What is written to it is counted as the
    /// recorder's own.
    pub fn writes(&mut self, file: &File) -> io::Result<()> {
        self.writer.out.file = Some(parts::id(file)?);
        Ok(())
    }

    /// What whoever started the recording should know, each once.
    pub fn notices(&mut self) -> Vec<String> {
        self.writer.notices()
    }

    /// Ends without a recording: takes away the file that is being written, of several.
    pub fn discard(mut self) {
        if let Some(parts) = self.writer.out.as_parts() {
            parts.discard();
        }
    }

    pub fn counts(&self) -> Counts {
        self.writer.counts
    }

    /// Waits at most `wait` for events. Writes the events that are certain to be complete.
    pub fn turn(&mut self, wait: Duration) -> Result<(), RecordError> {
        let wait =
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut waits: Vec<PollFd> =
            self.buffers.files().map(|file| PollFd::new(file, PollFlags::IN)).collect();
        match poll(&mut waits, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno.into()).into()),
        }
        self.take(now_ns().saturating_sub(ON_ITS_WAY_NS))
    }

    /// Ends the recording.
    pub fn finish(mut self) -> Result<Counts, RecordError> {
        self.instance.write("tracing_on", "0")?;
        self.take(EVER)?;
        self.writer.end().map_err(RecordError::Output)?;
        let (files, files_bytes) = self.writer.out.finish().map_err(RecordError::Output)?;
        Ok(Counts { files, files_bytes, ..self.writer.counts })
    }

    /// Writes all events before `until_ns`.
    fn take(&mut self, until_ns: u64) -> Result<(), RecordError> {
        let (held, bytes) = (&mut self.held, &mut self.held_bytes);
        self.buffers
            .read(|cpu, time_ns, record| {
                let start = bytes.len();
                bytes.extend_from_slice(record);
                held.push(Held { time_ns, cpu, bytes: start..bytes.len() });
            })
            .map_err(failed)?;
        self.writer.refresh()?;
        let mut pace = Pace::begin();
        // Stable: the events of a processor in one nanosecond stay in their order.
        self.held.sort_by_key(|held| held.time_ns);
        let count = self.held.partition_point(|held| held.time_ns < until_ns);
        for Held { time_ns, cpu, bytes } in self.held.drain(..count) {
            if self.writer.is_boundary_before(time_ns) {
                // Files are written, and folders read.
                drop(pace);
                self.writer.next_file(time_ns).map_err(RecordError::Output)?;
                pace = Pace::begin();
            }
            let moment = Moment { time_ns, cpu, record: &self.held_bytes[bytes] };
            self.writer.event(&self.decoder, &self.events, moment).map_err(RecordError::Output)?;
            pace.step();
        }
        drop(pace);
        // Where nothing happens, too, a file is complete after its time.
        if until_ns != EVER && self.writer.is_boundary_before(until_ns) {
            self.writer.next_file(until_ns).map_err(RecordError::Output)?;
        }
        self.keep_held();
        let lost = self.instance.lost()?;
        self.writer.lost(lost).map_err(RecordError::Output)?;
        self.turns += 1;
        self.writer.out.turn_ended(self.turns, until_ns).map_err(RecordError::Output)?;
        self.writer.places.turn_ended();
        Ok(())
    }

    /// Moves the bytes of what is still held to the begin.
    fn keep_held(&mut self) {
        self.kept_bytes.clear();
        for held in &mut self.held {
            let start = self.kept_bytes.len();
            self.kept_bytes.extend_from_slice(&self.held_bytes[held.bytes.clone()]);
            held.bytes = start..self.kept_bytes.len();
        }
        mem::swap(&mut self.held_bytes, &mut self.kept_bytes);
    }
}

/// The time of the events.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn failed(reason: io::Error) -> KernelError {
    KernelError::Read { path: PathBuf::from("trace_pipe_raw"), reason }
}
