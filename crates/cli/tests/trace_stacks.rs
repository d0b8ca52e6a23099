//! Recordings by `oneflush trace` of several devices, and of devices that lie on each other,
//! against what the devices themselves count.
//!
//! The story: a recording held one device. Two disks were two recordings, and a write through a
//! loop device was seen either above or below.
//!
//! Needs root, loop devices and tracefs; says so and passes where they are missing.

mod common;
mod recording;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::Sub;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{Sandbox, assert_refused, stderr, stdout};
use oneflush_bench::place::{FsKind, Place};
use oneflush_testing::Running;
use oneflush_trace::identify::{Identifier, Layer, Summary, Transaction};
use oneflush_trace::import;
use recording::above::Above;
use recording::{scratch, scratch_of};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const INSERTS: usize = 200;

/// What a device was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    bytes: f64,
    flushes: f64,
}

impl Counts {
    fn of(device: &str) -> Counts {
        let text =
            fs::read_to_string(format!("/sys/block/{device}/stat")).expect("the device's counters");
        let fields: Vec<f64> =
            text.split_ascii_whitespace().map(|field| field.parse().expect("a number")).collect();
        Counts { bytes: fields[6] * 512.0, flushes: fields[15] }
    }

    fn is_near(self, other: Counts, share: f64) -> bool {
        let is_near = |one: f64, other: f64| (one - other).abs() <= other * share;
        is_near(self.bytes, other.bytes) && is_near(self.flushes, other.flushes)
    }
}

impl Sub for Counts {
    type Output = Counts;
    fn sub(self, other: Counts) -> Counts {
        Counts { bytes: self.bytes - other.bytes, flushes: self.flushes - other.flushes }
    }
}

fn device(place: &Place) -> String {
    place.device().expect("a device").name.clone()
}

fn number(device: &str) -> String {
    fs::read_to_string(format!("/sys/block/{device}/dev"))
        .expect("the device's number")
        .trim()
        .replace(':', ",")
}

fn database(folder: &Path) -> Connection {
    let db = Connection::open(folder.join("a.db")).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=PERSIST; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY \
            KEY, v);",
    )
    .unwrap();
    db
}

fn insert(db: &Connection) {
    db.execute("INSERT INTO t(v) VALUES(zeroblob(100))", []).unwrap();
}

fn sync(folder: &Path) {
    rustix::fs::syncfs(fs::File::open(folder).expect("the place")).expect("syncfs");
}

/// Records `work` into `t.zst`; gives back what the recorder has said.
fn record(sandbox: &Sandbox, devices: &[&str], work: impl FnOnce()) -> String {
    let mut command = sandbox.oneflush();
    command.args(["trace", "-o", "t.zst"]).args(devices).stderr(Stdio::piped());
    let mut recorder = Running::start(&mut command);
    let mut messages = BufReader::new(recorder.stderr.take().unwrap());
    let mut said = String::new();
    messages.read_line(&mut said).unwrap();
    assert!(said.starts_with("oneflush trace: recording /dev/"), "{said}");
    work();
    kill_process(Pid::from_child(&recorder), Signal::INT).unwrap();
    messages.read_to_string(&mut said).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0), "{said}");
    assert!(!said.contains("were lost"), "{said}");
    said
}

fn text(sandbox: &Sandbox) -> String {
    let packed = fs::read(sandbox.path().join("t.zst")).expect("the recording");
    String::from_utf8(zstd::decode_all(&packed[..]).expect("zstd")).expect("text")
}

fn identify(sandbox: &Sandbox, layer: Layer) -> (Vec<Transaction>, Summary) {
    let mut reader = import::open(&sandbox.path().join("t.zst")).unwrap();
    let mut identifier = Identifier::new().count_at(layer);
    let mut found = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        identifier.push(&event, reader.names());
        found.extend(std::iter::from_fn(|| identifier.next_transaction()));
    }
    assert_eq!((reader.skipped().count, reader.skipped().lost), (0, 0), "{:?}", reader.skipped());
    let (rest, summary) = identifier.finish(reader.names());
    found.extend(rest);
    (found, summary)
}

fn of_transactions(found: &[Transaction]) -> Counts {
    let bytes = found.iter().map(|found| found.traffic.bytes()).sum::<u64>() as f64;
    Counts { bytes, flushes: found.iter().map(|found| found.flushes).sum::<u64>() as f64 }
}

fn of_all(found: &[Transaction], summary: &Summary) -> Counts {
    let Counts { bytes, flushes } = of_transactions(found);
    let rest = [summary.other, summary.fs_journal, summary.metadata]
        .map(|amount| amount.bytes)
        .iter()
        .sum::<u64>();
    Counts {
        bytes: bytes + (rest + summary.partial.bytes()) as f64,
        flushes: flushes + summary.flushes as f64,
    }
}

/// The program's own figures: transactions of each database, their bytes and flushes.
fn report(sandbox: &Sandbox, layer: &str) -> (Vec<(String, u64)>, Value) {
    let output =
        sandbox.oneflush().args(["report", "t.zst", "--json", "--layer", layer]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let trace = report["traces"][0].clone();
    let databases = trace["databases"].as_array().unwrap().iter();
    let databases = databases.map(|database| {
        (
            database["database"].as_str().unwrap().to_owned(),
            database["transactions"].as_u64().unwrap(),
        )
    });
    (databases.collect(), trace)
}

#[test]
fn two_disks_in_one_recording_have_their_own_transactions_and_the_counters_bytes_and_flushes() {
    let Some(ext4) = scratch() else { return };
    let Some(xfs) = scratch_of(FsKind::Xfs) else { return };
    let sandbox = Sandbox::new();
    let places = [&ext4, &xfs];
    let databases = places.map(|place| database(place.path()));
    places.iter().for_each(|place| sync(place.path()));
    let devices = places.map(device);
    let count = || devices.each_ref().map(|device| Counts::of(device));
    let before = count();
    let [first, second] = places.map(|place| place.path().to_str().unwrap());
    record(&sandbox, &["--dir", first, "--dir", second], || {
        thread::scope(|scope| {
            for db in databases {
                scope.spawn(move || (0..INSERTS).for_each(|_| insert(&db)));
            }
        });
        places.iter().for_each(|place| sync(place.path()));
    });
    let after = count();
    let sent = [after[0] - before[0], after[1] - before[1]];
    let (found, summary) = identify(&sandbox, Layer::Lowest);
    let all = of_all(&found, &summary);
    eprintln!("{} transactions, {all:?}; the devices: {sent:?}", found.len());
    let both =
        Counts { bytes: sent[0].bytes + sent[1].bytes, flushes: sent[0].flushes + sent[1].flushes };
    assert!(all.is_near(both, 0.01), "{all:?} {both:?}");
    for (place, sent) in places.iter().zip(sent) {
        let of = |found: &&Transaction| {
            found.database.to_string().starts_with(place.path().to_str().unwrap())
        };
        let found: Vec<Transaction> = found.iter().filter(of).cloned().collect();
        assert_eq!(found.len(), INSERTS, "{place:?}");
        let counts = of_transactions(&found);
        // The rest is the file system's own.
        assert!(
            counts.bytes <= sent.bytes && counts.bytes > 0.8 * sent.bytes,
            "{counts:?} {sent:?}"
        );
        assert!(
            counts.flushes <= sent.flushes && counts.flushes > 0.8 * sent.flushes,
            "{counts:?} {sent:?}"
        );
    }
    let (databases, _) = report(&sandbox, "lowest");
    assert_eq!(
        databases.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
        [INSERTS as u64; 2],
        "{databases:?}"
    );
}

#[test]
fn a_loop_device_on_a_file_of_another_has_the_counters_of_each_layer() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let above = Above::on(place.path());
    let db = database(&above.mounted);
    let sync_all = || [above.mounted.as_path(), place.path()].iter().for_each(|path| sync(path));
    sync_all();
    let count = || [Counts::of(&above.device), Counts::of(&device(&place))];
    let before = count();
    let devices =
        ["--dir", above.mounted.to_str().unwrap(), "--dir", place.path().to_str().unwrap()];
    let said = record(&sandbox, &devices, || {
        (0..INSERTS).for_each(|_| insert(&db));
        sync_all();
    });
    let after = count();
    drop(db);
    let [upper, lower] = [after[0] - before[0], after[1] - before[1]];
    let numbers = [&above.device, &device(&place)].map(|device| number(device));
    let layer = format!("oneflush_layer: dev {} on a file of dev {}", numbers[0], numbers[1]);
    assert!(text(&sandbox).contains(&layer), "{layer}");
    // The file of the device below is on the machine's own disk.
    assert!(said.contains(&format!("device {} is a file on device ", numbers[1])), "{said}");

    let (found, summary) = identify(&sandbox, Layer::Lowest);
    let all = of_all(&found, &summary);
    eprintln!(
        "{} transactions, {all:?}; the devices: {upper:?} {lower:?}; {summary:?}",
        found.len()
    );
    assert_eq!(found.len(), INSERTS);
    assert!(all.is_near(lower, 0.01), "{all:?} {lower:?}");
    let lowest = of_transactions(&found);
    let (found, _) = identify(&sandbox, Layer::Highest);
    assert_eq!(found.len(), INSERTS);
    let highest = of_transactions(&found);
    eprintln!("of transactions: {lowest:?}, {highest:?}");
    assert!(highest.is_near(upper, 0.05) && highest.bytes <= upper.bytes, "{highest:?} {upper:?}");

    for (layer, counts) in
        [("lowest", lowest), ("highest", highest), (&numbers[0], highest), (&numbers[1], lowest)]
    {
        let (databases, trace) = report(&sandbox, layer);
        assert_eq!(
            databases.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
            [INSERTS as u64],
            "{databases:?}"
        );
        let bytes: f64 = ["db", "journal", "fs_journal", "metadata"]
            .map(|class| trace["bytes"][class].as_f64().unwrap())
            .iter()
            .sum();
        assert_eq!(bytes, counts.bytes, "{layer}: {}", trace["bytes"]);
        assert_eq!(trace["flushes"].as_f64(), Some(counts.flushes), "{layer}");
    }
}

#[test]
fn what_lies_below_is_followed_where_it_is_asked_for() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let above = Above::on(place.path());
    let db = database(&above.mounted);
    sync(&above.mounted);
    record(&sandbox, &["--below", "--dir", above.mounted.to_str().unwrap()], || {
        (0..INSERTS / 4).for_each(|_| insert(&db));
        sync(&above.mounted);
    });
    drop(db);
    let text = text(&sandbox);
    let layer = format!(
        "oneflush_layer: dev {} on a file of dev {}",
        number(&above.device),
        number(&device(&place))
    );
    assert!(text.contains(&layer), "{layer}");
    let (found, _) = identify(&sandbox, Layer::Lowest);
    assert_eq!(found.len(), INSERTS / 4);
    let path = above.mounted.join("a.db");
    let path = path.to_str().unwrap();
    assert!(found.iter().all(|found| found.database.to_string() == path));
    let output = sandbox.oneflush().args(["identify", "t.zst"]).output().unwrap();
    let table = stdout(&output);
    assert!(
        table.contains(&format!(
            "device {} lies on {}",
            number(&above.device),
            number(&device(&place))
        )),
        "{table}"
    );
}

#[test]
fn top_counts_what_lies_on_each_other_once() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let above = Above::on(place.path());
    let db = database(&above.mounted);
    sync(&above.mounted);
    sync(place.path());
    let over = AtomicBool::new(false);
    let tables: Vec<(Value, [Counts; 2])> = thread::scope(|scope| {
        scope.spawn(|| {
            let db = db;
            while !over.load(Ordering::Relaxed) {
                insert(&db);
            }
        });
        let mut command = sandbox.oneflush();
        command
            .args(["top", "--batch", "2", "--interval", "3", "--json", "--dir"])
            .arg(&above.mounted);
        command.arg("--dir").arg(place.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut top = Running::start(&mut command);
        let lines = BufReader::new(top.stdout.take().unwrap()).lines();
        let count = || [Counts::of(&above.device), Counts::of(&device(&place))];
        let tables =
            lines.map(|line| (serde_json::from_str(&line.unwrap()).unwrap(), count())).collect();
        over.store(true, Ordering::Relaxed);
        let output = top.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        tables
    });
    let [(first, first_counts), (last, last_counts)] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!(last["lost"], 0);
    let [upper, lower] = [last_counts[0] - first_counts[0], last_counts[1] - first_counts[1]];
    let between = |of: &dyn Fn(&Value) -> f64| {
        let sum = |table: &Value| of(table) * table["window_s"].as_f64().unwrap();
        sum(last) - sum(first)
    };
    let shown = Counts {
        bytes: between(&|table| table["written_bytes_per_s"].as_f64().unwrap()),
        flushes: between(&|table| table["flushes_per_s"].as_f64().unwrap()),
    };
    eprintln!("{shown:?}; the devices: {upper:?} {lower:?}");
    assert!(shown.is_near(lower, 0.4), "{shown:?} {lower:?}");
    let databases = last["databases"].as_array().unwrap();
    assert_eq!(databases.len(), 1, "{last}");
    assert_eq!(
        (&databases[0]["journal_mode"], &databases[0]["synchronous"]),
        (&"PERSIST".into(), &"FULL".into())
    );
    let each = databases[0]["bytes_per_transaction"].as_f64().unwrap();
    let commits = between(&|table| table["total"]["transactions_per_s"].as_f64().unwrap());
    assert!(
        (each * commits - lower.bytes).abs() <= 0.4 * lower.bytes,
        "{each} {commits} {lower:?}"
    );
}

#[test]
fn a_process_alone_is_not_followed_below_a_file() {
    let sandbox = Sandbox::new();
    let output = sandbox
        .oneflush()
        .args(["trace", "-o", "t.zst", "--below", "--pid", "1"])
        .output()
        .unwrap();
    assert_refused(&output, 2, &["--below", "--pid"]);
}
