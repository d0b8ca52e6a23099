//! Traces of the kernel's own text with several devices at once, against what the devices
//! themselves count.
//!
//! Needs root, loop devices and tracefs; says so and passes where they are missing.

use std::fs;
use std::io::Cursor;

use oneflush_measure::place::FsKind;
use oneflush_trace::identify::{JournalMode, Layer, Summary, Transaction};
use oneflush_trace::import::Reader;
use oneflush_trace::kernel::Instance;
use rusqlite::Connection;

use crate::recording::above::Above;
use crate::recording::{
    self, DeviceCounts, database, device, is_near, number, scratch, scratch_of, sync,
};

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

/// ftrace's text of `work`, of these devices alone: others run beside, and would fill the buffers.
fn trace(devices: &[&str], work: impl FnOnce()) -> String {
    let instance = Instance::make().expect("`scratch` has looked");
    instance.size(64 << 10, 16 << 10, 50).unwrap();
    // `MKDEV` of the kernel's <linux/kdev_t.h>.
    let dev = |device: &&str| -> String {
        let number = number(device);
        let (major, minor) = number.split_once(',').unwrap();
        let [major, minor] = [major, minor].map(|part| part.parse::<u32>().unwrap());
        format!("dev == {}", major << 20 | minor)
    };
    let filter = devices.iter().map(dev).collect::<Vec<_>>().join(" || ");
    for event in EVENTS {
        instance.write(&format!("events/{event}/filter"), &filter).unwrap();
        instance.write(&format!("events/{event}/enable"), "1").unwrap();
    }
    instance.write("tracing_on", "1").unwrap();
    work();
    instance.write("tracing_on", "0").unwrap();
    fs::read_to_string(instance.path().join("trace")).unwrap()
}

fn identify(text: String, layer: Layer) -> (Vec<Transaction>, Summary) {
    let mut reader = Reader::from_read("trace", Cursor::new(text)).unwrap();
    recording::identified(&mut reader, layer, drop)
}

/// `INSERTS` of them.
fn inserts(db: &Connection) {
    let mut insert = db.prepare("INSERT INTO t(v) VALUES(zeroblob(100))").unwrap();
    (0..INSERTS).for_each(|_| _ = insert.execute([]).unwrap());
}

#[test]
fn two_disks_at_once_have_their_own_transactions_bytes_and_flushes() {
    let Some(ext4) = scratch() else { return };
    let Some(xfs) = scratch_of(FsKind::Xfs) else { return };
    let devices = [&ext4, &xfs].map(device);
    let databases = [&ext4, &xfs].map(|place| database(&place.path().join("a.db"), "PERSIST"));
    [&ext4, &xfs].iter().for_each(|place| sync(place.path()));
    let count = || devices.each_ref().map(|device| DeviceCounts::of(device));
    let before = count();
    let text = trace(&[&devices[0], &devices[1]], || {
        std::thread::scope(|scope| {
            for db in databases {
                scope.spawn(move || inserts(&db));
            }
        });
        [&ext4, &xfs].iter().for_each(|place| sync(place.path()));
    });
    let after = count();
    let sent = [after[0] - before[0], after[1] - before[1]];
    let (found, summary) = identify(text, Layer::Lowest);
    let all = DeviceCounts::of_all(&found, &summary);
    eprintln!("{} transactions, {all:?}; the devices: {sent:?}", found.len());
    assert!(all.is_near(sent[0] + sent[1], 0.01), "{all:?} {sent:?}");
    for (n, device) in devices.iter().enumerate() {
        let place = format!("of {}", number(device).replace(',', ":"));
        let of: Vec<&Transaction> =
            found.iter().filter(|found| found.database.to_string().ends_with(&place)).collect();
        assert!(is_near(of.len() as u64, INSERTS as u64, 0.01), "{device}: {}", of.len());
        assert!(of.iter().all(|found| found.journal_mode == JournalMode::Persist), "{device}");
        let bytes = of.iter().map(|found| found.traffic.bytes()).sum::<u64>();
        assert!(bytes <= sent[n].written_bytes, "{device}: charged with {bytes}");
    }
}

#[test]
fn a_loop_device_over_a_file_of_another_is_counted_once_at_the_layer_asked_for() {
    let Some(place) = scratch() else { return };
    let below = device(&place);
    let above = Above::on(place.path());
    let db = database(&above.mounted.join("a.db"), "PERSIST");
    sync(&above.mounted);
    sync(place.path());
    let count = || [&above.device, &below].map(|device| DeviceCounts::of(device));
    let before = count();
    let text = trace(&[&above.device, &below], || {
        inserts(&db);
        sync(&above.mounted);
        sync(place.path());
    });
    drop(db);
    let after = count();
    let [upper, lower] = [after[0] - before[0], after[1] - before[1]];
    let layer = format!(
        "          oneflush-1       [000] .....     0.000001: oneflush_layer: dev {} on a file of \
            dev {}\n",
        number(&above.device),
        number(&below)
    );
    // All at the lower device; at the upper, what its file system below did for itself is of no
    // transaction.
    let (found, summary) = identify(layer.clone() + &text, Layer::Lowest);
    let all = DeviceCounts::of_all(&found, &summary);
    eprintln!(
        "{} transactions, {all:?}; the devices: {upper:?} {lower:?}; {summary:?}",
        found.len()
    );
    assert!(is_near(found.len() as u64, INSERTS as u64, 0.01), "{}", found.len());
    assert!(all.is_near(lower, 0.01), "{all:?} {lower:?}");
    // Header, body, header, database and header: each synchronized by a flush at least.
    assert!(
        DeviceCounts::of_transactions(&found).flushes >= 4 * INSERTS as u64,
        "they have their flushes below"
    );
    let (found, _) = identify(layer + &text, Layer::Highest);
    let highest = DeviceCounts::of_transactions(&found);
    assert!(is_near(found.len() as u64, INSERTS as u64, 0.01), "{}", found.len());
    assert!(highest.written_bytes <= upper.written_bytes, "{highest:?} {upper:?}");
    assert!(highest.flushes <= upper.flushes, "{highest:?} {upper:?}");
}
