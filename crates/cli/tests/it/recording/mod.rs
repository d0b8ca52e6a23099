//! Records real work on a scratch ext4 of our own, with the truth in `trace_marker`, and finds the
//! transactions in it.

pub mod above;
pub mod watched;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::{Add, Sub};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use oneflush_measure::place::{FsKind, Place, PlaceError, enter_private_namespace};
use oneflush_trace::identify::{Database, Identifier, Layer, Summary, Transaction};
use oneflush_trace::import::{self, Reader};
use oneflush_trace::kernel::find_or_mount_tracefs;
use oneflush_trace::model::{Action, Content, Event, Names};
use oneflush_trace::record::{Counts, Labels, Options, Recorder, Target};
use rusqlite::Connection;

const SIZE_BYTES: u64 = 1 << 30;

/// Where the kernel's trace instances are. The program mounts a tracefs that nobody else sees where
/// the machine has none mounted; so does this, for the calling thread. There is one set of
/// instances, whatever it is seen through.
pub fn instances() -> PathBuf {
    enter_private_namespace().expect("root may");
    find_or_mount_tracefs().expect("`scratch` has looked").join("instances")
}

/// `None`, and the test is skipped, where this machine cannot do it.
pub fn scratch() -> Option<Place> {
    // In a thread, and so in a namespace, that ends here: the program is to mount its own.
    if let Err(reason) = thread::spawn(find_or_mount_tracefs).join().expect("it does not panic") {
        oneflush_testing::skip(format_args!("no tracefs: {reason}"));
        return None;
    }
    scratch_of(FsKind::Ext4)
}

/// The same for what needs no traces.
pub fn scratch_of(fs: FsKind) -> Option<Place> {
    match Place::scratch(fs, SIZE_BYTES) {
        Ok(place) => Some(place),
        Err(
            error @ (PlaceError::NotRoot { .. }
            | PlaceError::Namespace { .. }
            | PlaceError::NoTool { .. }
            | PlaceError::Loop { .. }),
        ) => {
            oneflush_testing::skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// For recordings; stays where the test fails, so that they can be looked at.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::Builder::new().prefix("oneflush-recorded-").tempdir().expect("a folder"))
    }

    pub fn file(&self) -> PathBuf {
        self.0.path().join("t.zst")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the recording: {}", self.file().display());
            self.0.disable_cleanup(true);
        }
    }
}

/// Notes in the recording.
#[derive(Clone)]
pub struct Marker(Arc<File>);

impl Marker {
    pub fn note(&self, text: &str) {
        (&*self.0).write_all(text.as_bytes()).expect("trace_marker can be written");
    }
}

/// What a device was sent, as the device itself counts it or as a trace tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCounts {
    pub written_bytes: u64,
    pub flushes: u64,
}

impl DeviceCounts {
    /// By the device itself, since it was made.
    pub fn of(device: &str) -> DeviceCounts {
        let text =
            fs::read_to_string(format!("/sys/block/{device}/stat")).expect("the device's counters");
        let fields: Vec<u64> =
            text.split_ascii_whitespace().map(|field| field.parse().expect("a number")).collect();
        DeviceCounts { written_bytes: fields[6] * 512, flushes: fields[15] }
    }

    pub fn of_transactions(found: &[Transaction]) -> DeviceCounts {
        DeviceCounts {
            written_bytes: found.iter().map(|found| found.traffic.bytes()).sum(),
            flushes: found.iter().map(|found| found.flushes).sum(),
        }
    }

    /// Also of what belongs to no transaction.
    pub fn of_all(found: &[Transaction], summary: &Summary) -> DeviceCounts {
        let rest = [summary.other, summary.fs_journal, summary.metadata];
        let rest = rest.iter().map(|amount| amount.bytes).sum::<u64>();
        let written_bytes = rest + summary.partial.bytes();
        Self::of_transactions(found) + DeviceCounts { written_bytes, flushes: summary.flushes }
    }

    pub fn is_near(self, truth: DeviceCounts, share: f64) -> bool {
        is_near(self.written_bytes, truth.written_bytes, share)
            && is_near(self.flushes, truth.flushes, share)
    }
}

impl Add for DeviceCounts {
    type Output = DeviceCounts;
    fn add(self, other: DeviceCounts) -> DeviceCounts {
        DeviceCounts {
            written_bytes: self.written_bytes + other.written_bytes,
            flushes: self.flushes + other.flushes,
        }
    }
}

impl Sub for DeviceCounts {
    type Output = DeviceCounts;
    fn sub(self, other: DeviceCounts) -> DeviceCounts {
        DeviceCounts {
            written_bytes: self.written_bytes - other.written_bytes,
            flushes: self.flushes - other.flushes,
        }
    }
}

pub fn is_near(found: u64, truth: u64, share: f64) -> bool {
    found.abs_diff(truth) as f64 <= truth as f64 * share
}

/// The name of a place's device.
pub fn device(place: &Place) -> String {
    place.device().expect("a device").name.clone()
}

/// The number of a device, as a trace writes it: `7,0`.
pub fn number(device: &str) -> String {
    fs::read_to_string(format!("/sys/block/{device}/dev"))
        .expect("the device's number")
        .trim()
        .replace(':', ",")
}

/// A new database with a table for [`insert`].
pub fn database(path: &Path, mode: &str) -> Connection {
    let db = Connection::open(path).unwrap();
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL;
         CREATE TABLE t(id INTEGER PRIMARY KEY, v);"
    ))
    .unwrap();
    db
}

/// A transaction.
pub fn insert(db: &Connection) {
    db.execute("INSERT INTO t(v) VALUES(zeroblob(100))", []).unwrap();
}

pub struct Recording {
    pub events: Vec<Event>,
    pub names: Names,
    pub transactions: Vec<Transaction>,
    pub counts: Counts,
    pub device: DeviceCounts,
}

/// Records `work` on the place; what it wrote is on the device when it ends.
pub fn record(place: &Place, file: &Path, work: impl FnOnce(&Marker)) -> Recording {
    let target = Target::of_directory(place.path()).expect("a place is on a device");
    let options = Options {
        targets: target.into(),
        process: None,
        sched: false,
        syscalls: false,
        labels: Labels::default(),
    };
    let out = File::create(file).expect("the recording");
    let over = Arc::new(AtomicBool::new(false));
    let (ready, begun) = mpsc::channel();
    let turns = thread::spawn({
        let over = over.clone();
        move || {
            let mut recorder = Recorder::start(options, out).expect("recording");
            assert!(recorder.is_watched());
            ready.send(recorder.marker()).expect("the test waits");
            while !over.load(Ordering::Relaxed) {
                recorder.turn(Duration::from_millis(50)).expect("a turn");
            }
            recorder.finish().expect("the end")
        }
    });
    let marker = begun.recv().expect("the recorder begins");
    let marker =
        Marker(Arc::new(OpenOptions::new().write(true).open(marker).expect("trace_marker")));
    let device = device(place);
    let before = DeviceCounts::of(&device);
    work(&marker);
    sync(place.path());
    let device = DeviceCounts::of(&device) - before;
    // An instance that is in use does not go away.
    drop(marker);
    over.store(true, Ordering::Relaxed);
    let counts = turns.join().expect("the recorder");
    assert_eq!(counts.lost, 0);
    read(file, counts, device)
}

/// The whole file system that the folder is on.
pub fn sync(folder: &Path) {
    rustix::fs::syncfs(File::open(folder).expect("the place")).expect("syncfs");
}

fn read(file: &Path, counts: Counts, device: DeviceCounts) -> Recording {
    let mut reader = import::open(file).expect("a recording is a trace");
    let mut events = Vec::new();
    let (mut transactions, _) =
        identified(&mut reader, Layer::default(), |event| events.push(event));
    transactions.sort_by_key(|transaction| transaction.begin_ns);
    Recording { events, names: reader.names().clone(), transactions, counts, device }
}

/// The transactions of a whole trace, of which every line is understood.
pub fn identified(
    reader: &mut Reader,
    layer: Layer,
    mut see: impl FnMut(Event),
) -> (Vec<Transaction>, Summary) {
    let mut identifier = Identifier::new().count_at(layer);
    let mut found = Vec::new();
    while let Some(event) = reader.next().expect("a trace can be read") {
        identifier.push(&event, reader.names());
        see(event);
        found.extend(std::iter::from_fn(|| identifier.next_transaction()));
    }
    let skipped = reader.skipped();
    assert_eq!((skipped.count, skipped.lost, skipped.cut_off), (0, 0, None), "{skipped:?}");
    let (rest, summary) = identifier.finish(reader.names());
    found.extend(rest);
    (found, summary)
}

/// Bytes that were queued, by whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub db: u64,
    pub sqlite_journal: u64,
    pub other_files: u64,
    pub fs_journal: u64,
    pub metadata: u64,
    pub unknown: u64,
}

impl Bytes {
    pub fn total(&self) -> u64 {
        self.db
            + self.sqlite_journal
            + self.other_files
            + self.fs_journal
            + self.metadata
            + self.unknown
    }
}

impl Recording {
    pub fn bytes(&self) -> Bytes {
        let mut bytes = Bytes::default();
        for event in
            self.events.iter().filter(|event| event.action == Action::Queue && event.flags.write)
        {
            let name = event.file.map_or("", |file| self.names.text(file));
            let class = match event.content {
                Some(Content::Data | Content::DeletedData) if name.ends_with(".db") => {
                    &mut bytes.db
                }
                Some(Content::Data | Content::DeletedData)
                    if name.ends_with("-journal") || name.ends_with("-wal") =>
                {
                    &mut bytes.sqlite_journal
                }
                Some(Content::Data | Content::DeletedData) => &mut bytes.other_files,
                Some(Content::Journal) => &mut bytes.fs_journal,
                Some(Content::Metadata) => &mut bytes.metadata,
                None => &mut bytes.unknown,
            };
            *class += event.bytes;
        }
        bytes
    }

    /// What the notes say, in their order: time and text.
    pub fn notes(&self) -> Vec<(u64, &str)> {
        let notes = self.events.iter().filter(|event| event.action == Action::Marker);
        notes.filter_map(|event| Some((event.time_ns, self.names.text(event.file?)))).collect()
    }

    /// The transactions of one database, alone or with others.
    pub fn of(&self, database: &Path) -> Vec<&Transaction> {
        let is = |name: &Database| match name {
            Database::Named(path) => Path::new(&**path) == database,
            _ => false,
        };
        let found = self.transactions.iter();
        found.filter(|found| is(&found.database) || found.others.iter().any(&is)).collect()
    }
}

/// A transaction that the program says it made, by the notes `begin NAME` and `end NAME`.
#[derive(Clone, Debug)]
pub struct Truth {
    pub begin_ns: u64,
    pub end_ns: u64,
}

impl Truth {
    pub fn holds(&self, found: &Transaction) -> bool {
        (self.begin_ns..=self.end_ns).contains(&found.begin_ns)
    }
}

/// Notes around a transaction.
pub fn noted<T>(marker: &Marker, name: &str, transaction: impl FnOnce() -> T) -> T {
    marker.note(&format!("begin {name}"));
    let result = transaction();
    marker.note(&format!("end {name}"));
    result
}

/// The transactions of `name`, by the notes.
pub fn truth(recording: &Recording, name: &str) -> Vec<Truth> {
    let (begin, end) = (format!("begin {name}"), format!("end {name}"));
    let mut truth = Vec::new();
    let mut open = None;
    for (time_ns, note) in recording.notes() {
        if note == begin {
            open = Some(time_ns);
        } else if note == end {
            truth.push(Truth {
                begin_ns: open.take().expect("an end has a begin"),
                end_ns: time_ns,
            });
        }
    }
    truth
}

/// What was found against what is true, added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    pub found: usize,
    pub truth: usize,
    /// Found ones that are true: one for each true one.
    pub same: usize,
}

impl Score {
    pub fn add(&mut self, found: &[&Transaction], truth: &[Truth]) {
        self.found += found.len();
        self.truth += truth.len();
        self.same +=
            truth.iter().filter(|truth| found.iter().any(|found| truth.holds(found))).count();
    }

    pub fn precision(&self) -> f64 {
        self.same as f64 / self.found.max(1) as f64
    }

    pub fn recall(&self) -> f64 {
        self.same as f64 / self.truth.max(1) as f64
    }
}

/// A path as the kernel tells it.
pub fn path(place: &Place, name: &str) -> PathBuf {
    fs::canonicalize(place.path()).expect("the place").join(name)
}
