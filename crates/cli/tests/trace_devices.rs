//! Traces of the kernel's own text with several devices at once, against what the devices
//! themselves count.
//!
//! Needs root, loop devices and tracefs; says so and passes where they are missing.

mod recording;

use std::fs;
use std::io::Cursor;
use std::path::Path;

use oneflush_bench::place::FsKind;
use oneflush_trace::identify::{Identifier, JournalMode, Layer, Summary, Transaction};
use oneflush_trace::import::Reader;
use oneflush_trace::kernel::Instance;
use recording::above::Above;
use recording::{scratch, scratch_of};
use rusqlite::Connection;

const INSERTS: usize = 200;
const EVENTS: [&str; 7] = [
    "block/block_bio_queue",
    "block/block_bio_remap",
    "block/block_rq_insert",
    "block/block_rq_issue",
    "block/block_rq_complete",
    "ext4/ext4_sync_file_enter",
    "ext4/ext4_sync_file_exit",
];

/// Written bytes and flushes, as a device counts them.
fn counted(device: &str) -> (u64, u64) {
    let text =
        fs::read_to_string(format!("/sys/block/{device}/stat")).expect("the device's counters");
    let fields: Vec<u64> =
        text.split_ascii_whitespace().map(|field| field.parse().expect("a number")).collect();
    (fields[6] * 512, fields[15])
}

fn number(device: &str) -> String {
    fs::read_to_string(format!("/sys/block/{device}/dev"))
        .expect("the device's number")
        .trim()
        .replace(':', ",")
}

/// Inserts by PERSIST and FULL, each a transaction.
fn database(folder: &Path) -> Connection {
    let db = Connection::open(folder.join("a.db")).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=PERSIST; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY \
            KEY, v);",
    )
    .unwrap();
    db
}

fn sync(folder: &Path) {
    rustix::fs::syncfs(fs::File::open(folder).expect("the place")).expect("syncfs");
}

/// ftrace's text of `work`, of these devices alone: others run beside.
fn trace(devices: &[&str], work: impl FnOnce()) -> String {
    let instance = Instance::make().expect("`scratch` has looked");
    instance.size(64 << 10, 16 << 10, 50).unwrap();
    for event in EVENTS {
        instance.write(&format!("events/{event}/enable"), "1").unwrap();
    }
    instance.write("tracing_on", "1").unwrap();
    work();
    instance.write("tracing_on", "0").unwrap();
    let text = fs::read_to_string(instance.path().join("trace")).unwrap();
    let numbers: Vec<String> = devices.iter().map(|device| number(device)).collect();
    let is_ours = |line: &&str| {
        line.starts_with('#')
            || numbers.iter().any(|number| {
                line.contains(&format!(": {number} ")) || line.contains(&format!("dev {number} "))
            })
    };
    text.lines().filter(is_ours).map(|line| format!("{line}\n")).collect()
}

fn identify(text: String, layer: Layer) -> (Vec<Transaction>, Summary) {
    let mut reader = Reader::from_read("trace", Cursor::new(text)).unwrap();
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

fn sum(found: &[Transaction], summary: &Summary) -> (u64, u64) {
    let rest = [summary.other, summary.fs_journal, summary.metadata]
        .map(|amount| amount.bytes)
        .iter()
        .sum::<u64>();
    let bytes = found.iter().map(|found| found.traffic.bytes()).sum::<u64>()
        + summary.partial.bytes()
        + rest;
    (bytes, found.iter().map(|found| found.flushes).sum::<u64>() + summary.flushes)
}

fn within_1_percent(found: u64, counted: u64) -> bool {
    (found as f64 - counted as f64).abs() <= counted as f64 * 0.01
}

#[test]
fn two_disks_at_once_have_their_own_transactions_bytes_and_flushes() {
    let Some(ext4) = scratch() else { return };
    let Some(xfs) = scratch_of(FsKind::Xfs) else { return };
    let devices = [&ext4, &xfs].map(|place| place.device().expect("a device").name.clone());
    let [first, second] = [&ext4, &xfs].map(|place| database(place.path()));
    [&ext4, &xfs].iter().for_each(|place| sync(place.path()));
    let before = [0, 1].map(|n| counted(&devices[n]));
    let text = trace(&[&devices[0], &devices[1]], || {
        std::thread::scope(|scope| {
            for db in [first, second] {
                scope.spawn(move || {
                    let mut insert = db.prepare("INSERT INTO t(v) VALUES(zeroblob(100))").unwrap();
                    (0..INSERTS).for_each(|_| _ = insert.execute([]).unwrap());
                });
            }
        });
        [&ext4, &xfs].iter().for_each(|place| sync(place.path()));
    });
    let after = [0, 1].map(|n| counted(&devices[n]));
    let (found, summary) = identify(text, Layer::Lowest);
    let (bytes, flushes) = sum(&found, &summary);
    let all = |part: fn(&(u64, u64)) -> u64| {
        after.iter().map(part).sum::<u64>() - before.iter().map(part).sum::<u64>()
    };
    eprintln!(
        "{} transactions, {bytes} bytes, {flushes} flushes; the devices: {before:?} {after:?}",
        found.len()
    );
    assert!(within_1_percent(bytes, all(|counted| counted.0)));
    assert!(
        within_1_percent(flushes, all(|counted| counted.1)),
        "{flushes} {}",
        all(|counted| counted.1)
    );
    for (n, device) in devices.iter().enumerate() {
        let place = format!("of {}", number(device).replace(',', ":"));
        let of: Vec<&Transaction> =
            found.iter().filter(|found| found.database.to_string().ends_with(&place)).collect();
        assert!(within_1_percent(of.len() as u64, INSERTS as u64), "{device}: {}", of.len());
        assert!(of.iter().all(|found| found.journal_mode == JournalMode::Persist), "{device}");
        let bytes = of.iter().map(|found| found.traffic.bytes()).sum::<u64>();
        assert!(bytes <= after[n].0 - before[n].0, "{device}: charged with {bytes}");
    }
}

#[test]
fn a_loop_device_over_a_file_of_another_is_counted_once_at_the_layer_asked_for() {
    let Some(place) = scratch() else { return };
    let below = place.device().expect("a device").name.clone();
    let above = Above::on(place.path());
    let db = database(&above.mounted);
    sync(&above.mounted);
    sync(place.path());
    let before = [&above.device, &below].map(|device| counted(device));
    let text = trace(&[&above.device, &below], || {
        let mut insert = db.prepare("INSERT INTO t(v) VALUES(zeroblob(100))").unwrap();
        (0..INSERTS).for_each(|_| _ = insert.execute([]).unwrap());
        sync(&above.mounted);
        sync(place.path());
    });
    drop(db);
    let after = [&above.device, &below].map(|device| counted(device));
    let layer = format!(
        "          oneflush-1       [000] .....     0.000001: oneflush_layer: dev {} on a file of \
            dev {}\n",
        number(&above.device),
        number(&below)
    );
    // All at the lower device; at the upper, what its file system below did for itself is of no
    // transaction.
    let (found, summary) = identify(layer.clone() + &text, Layer::Lowest);
    let (bytes, flushes) = sum(&found, &summary);
    eprintln!(
        "{} transactions, {bytes} bytes, {flushes} flushes; the devices: {before:?} {after:?}; \
            {summary:?}",
        found.len()
    );
    assert!(within_1_percent(found.len() as u64, INSERTS as u64), "{}", found.len());
    assert!(within_1_percent(bytes, after[1].0 - before[1].0));
    assert!(within_1_percent(flushes, after[1].1 - before[1].1));
    // Header, body, header, database and header: each synchronized by a flush at least.
    assert!(
        found.iter().map(|found| found.flushes).sum::<u64>() >= 4 * INSERTS as u64,
        "they have their flushes below"
    );
    let (found, _) = identify(layer + &text, Layer::Highest);
    let of_upper = |part: fn(&Transaction) -> u64| found.iter().map(part).sum::<u64>();
    assert!(within_1_percent(found.len() as u64, INSERTS as u64), "{}", found.len());
    assert!(of_upper(|found| found.traffic.bytes()) <= after[0].0 - before[0].0);
    assert!(of_upper(|found| found.flushes) <= after[0].1 - before[0].1);
}
