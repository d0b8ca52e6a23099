//! Recordings by `oneflush trace` of several devices, and of devices that lie on each other,
//! against what the devices themselves count.
//!
//! The story: a recording held one device. Two disks were two recordings, and a write through a
//! loop device was seen either above or below.
//!
//! Needs root, loop devices and tracefs; says so and passes where they are missing.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::thread;

use oneflush_measure::place::FsKind;
use oneflush_testing::Running;
use oneflush_trace::identify::{Layer, Summary, Transaction};
use oneflush_trace::import;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, stderr, stdout};
use crate::recording::above::Above;
use crate::recording::watched::{Watched, commits};
use crate::recording::{
    self, DeviceCounts, database, device, insert, is_near, number, scratch, scratch_of, sync,
};

const INSERTS: usize = 200;
/// They are done within the window of `top` on a busy machine, too.
const WATCHED: usize = 20;

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
    recording::identified(&mut reader, layer, drop)
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
    let databases = places.map(|place| database(&place.path().join("a.db"), "PERSIST"));
    places.iter().for_each(|place| sync(place.path()));
    let devices = places.map(device);
    let count = || devices.each_ref().map(|device| DeviceCounts::of(device));
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
    let all = DeviceCounts::of_all(&found, &summary);
    eprintln!("{} transactions, {all:?}; the devices: {sent:?}", found.len());
    assert!(all.is_near(sent[0] + sent[1], 0.01), "{all:?} {sent:?}");
    for (place, sent) in places.iter().zip(sent) {
        let of = |found: &&Transaction| {
            found.database.to_string().starts_with(place.path().to_str().unwrap())
        };
        let found: Vec<Transaction> = found.iter().filter(of).cloned().collect();
        assert_eq!(found.len(), INSERTS, "{place:?}");
        let counts = DeviceCounts::of_transactions(&found);
        // The rest is the file system's own.
        assert!(
            counts.written_bytes <= sent.written_bytes && counts.flushes <= sent.flushes,
            "{counts:?} {sent:?}"
        );
        assert!(counts.is_near(sent, 0.2), "{counts:?} {sent:?}");
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
    let db = database(&above.mounted.join("a.db"), "PERSIST");
    let sync_all = || [above.mounted.as_path(), place.path()].iter().for_each(|path| sync(path));
    sync_all();
    let count = || [DeviceCounts::of(&above.device), DeviceCounts::of(&device(&place))];
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
    let all = DeviceCounts::of_all(&found, &summary);
    eprintln!(
        "{} transactions, {all:?}; the devices: {upper:?} {lower:?}; {summary:?}",
        found.len()
    );
    assert_eq!(found.len(), INSERTS);
    assert!(all.is_near(lower, 0.01), "{all:?} {lower:?}");
    let lowest = DeviceCounts::of_transactions(&found);
    let (found, _) = identify(&sandbox, Layer::Highest);
    assert_eq!(found.len(), INSERTS);
    let highest = DeviceCounts::of_transactions(&found);
    eprintln!("of transactions: {lowest:?}, {highest:?}");
    assert!(
        highest.is_near(upper, 0.05) && highest.written_bytes <= upper.written_bytes,
        "{highest:?} {upper:?}"
    );

    for (layer, counts) in
        [("lowest", lowest), ("highest", highest), (&numbers[0], highest), (&numbers[1], lowest)]
    {
        let (databases, trace) = report(&sandbox, layer);
        assert_eq!(
            databases.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
            [INSERTS as u64],
            "{databases:?}"
        );
        let bytes: u64 = ["db", "journal", "fs_journal", "metadata"]
            .map(|class| trace["bytes"][class].as_u64().unwrap())
            .iter()
            .sum();
        assert_eq!(bytes, counts.written_bytes, "{layer}: {}", trace["bytes"]);
        assert_eq!(trace["flushes"].as_u64(), Some(counts.flushes), "{layer}");
    }
}

#[test]
fn what_lies_below_is_followed_where_it_is_asked_for() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let above = Above::on(place.path());
    let db = database(&above.mounted.join("a.db"), "PERSIST");
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
    let db = database(&above.mounted.join("a.db"), "PERSIST");
    sync(&above.mounted);
    sync(place.path());
    let count = || [DeviceCounts::of(&above.device), DeviceCounts::of(&device(&place))];
    let before = count();
    let mut top = sandbox.oneflush();
    top.args(["top", "--dir"]).arg(&above.mounted).arg("--dir").arg(place.path());
    let watched = Watched::of(&mut top, WATCHED, || {
        (0..WATCHED).for_each(|_| insert(&db));
        sync(&above.mounted);
        sync(place.path());
    });
    let after = count();
    assert_eq!(watched.output.status.code(), Some(0), "{}", stderr(&watched.output));
    let [upper, lower] = [after[0] - before[0], after[1] - before[1]];
    let last = &watched.last;
    assert_eq!(last["lost"], 0);
    let rounded = |rate: &dyn Fn(&Value) -> f64| watched.between(rate).round() as u64;
    let shown = DeviceCounts {
        written_bytes: rounded(&|table| table["written_bytes_per_s"].as_f64().unwrap()),
        flushes: rounded(&|table| table["flushes_per_s"].as_f64().unwrap()),
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
    let of_transactions = (each * watched.between(&commits)) as u64;
    assert!(is_near(of_transactions, lower.written_bytes, 0.4), "{of_transactions} {lower:?}");
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
