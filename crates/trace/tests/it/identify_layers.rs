//! One write at several devices that lie on each other. Each write is counted once, at the layer
//! asked for, and its file is found.
//!
//! The story: a whole-system trace has each write at every layer, on a phone with dm-default-key
//! and on servers with LVM and LUKS. Every layer was a device of its own, so bytes were counted two
//! and three times. Or only the lowest layer had ends, and threads of the device mapper had written
//! there. Then no transaction was found at all.
//!
//! The traces are written out here, in the order in which Linux 6 tells the events of each stack.
//! The disks' counters are kept beside.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Cursor;

use oneflush_trace::identify::{Identifier, JournalMode, Layer, Summary, Synchronous, Transaction};
use oneflush_trace::import::Reader;
use oneflush_trace::model::DeviceId;

const SDA: &str = "8,0";
const SDB: &str = "8,16";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    /// The file system is on the disk itself.
    Disk,
    /// LVM, and Android's dm-default-key.
    Linear,
    /// LUKS: a thread of its own sends what was encrypted.
    Crypt,
    /// LVM in LUKS.
    Two,
    /// LVM on a partition, whose number the remap has.
    LinearOnPartition,
    /// dm-multipath: no queue event below.
    RequestBased,
    /// md, two mirrors: writes are remapped, flushes are not.
    Mirror,
    /// Stripes of the device mapper. A write becomes two halves. The second flush follows on the
    /// end of the first.
    Stripes,
    /// LUKS over LVM on a partition.
    CryptOverLinear,
    /// Since Linux 5.12.
    Partition,
    /// Before it: only the remap has the partition's number.
    OldPartition,
}

impl Stack {
    /// The file system's device.
    fn top(self) -> &'static str {
        match self {
            Stack::Disk => SDA,
            Stack::Linear | Stack::Crypt | Stack::LinearOnPartition | Stack::RequestBased => {
                "253,0"
            }
            Stack::Two | Stack::Stripes | Stack::CryptOverLinear => "253,1",
            Stack::Mirror => "9,0",
            Stack::Partition | Stack::OldPartition => "8,1",
        }
    }
}

/// What a disk was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    bytes: u64,
    flushes: u64,
}

struct Pen {
    stack: Stack,
    text: String,
    us: u64,
    disks: BTreeMap<&'static str, Counters>,
}

/// Name and number of a thread.
#[derive(Clone, Copy)]
struct Who(&'static str, u32);

const APP: Who = Who("app", 100);
const JBD2: Who = Who("jbd2/dm-0-8", 9);
const WORKER: Who = Who("kworker/0:1H", 54);
const CRYPT: Who = Who("dmcrypt_write/2", 77);

impl Pen {
    fn new(stack: Stack) -> Pen {
        let mut pen = Pen { stack, text: String::new(), us: 0, disks: BTreeMap::new() };
        for (inode, name) in [(12, "/data/a.db"), (13, "/data/a.db-journal")] {
            pen.line(APP, &format!("oneflush_file: dev {} ino {inode} name {name}", stack.top()));
        }
        pen
    }

    fn line(&mut self, Who(name, thread): Who, event: &str) {
        self.us += 5;
        let (s, us) = (self.us / 1_000_000 + 1000, self.us % 1_000_000);
        writeln!(self.text, "{name:>16}-{thread:<7} [000] ..... {s:>5}.{us:06}: {event}").unwrap();
    }

    /// The request queue of a disk sends the request and hears its end.
    fn disk(&mut self, disk: &'static str, who: Who, rwbs: &str, sector: u64, sectors: u64) {
        let Who(name, _) = who;
        let counters = self.disks.entry(disk).or_default();
        if sectors == 0 {
            counters.flushes += 1;
            self.line(
                WORKER,
                &format!("block_rq_issue: {disk} FF 0 () 0 + 0 none,0,0 [kworker/0:1H]"),
            );
            self.us += 700;
            return self.line(
                WORKER,
                &format!("block_rq_complete: {disk} FF () 18446744073709551615 + 0 none,0,0 [0]"),
            );
        }
        // The disk has a cache and no FUA. The block layer empties the cache behind the data. It
        // also does so before the data, if that is asked for.
        counters.bytes += sectors * 512;
        let plain = rwbs.replace('F', "");
        if rwbs.starts_with('F') {
            self.disk(disk, WORKER, "FF", 0, 0);
        }
        let bytes = sectors * 512;
        self.line(
            who,
            &format!(
                "block_rq_issue: {disk} {plain} {bytes} () {sector} + {sectors} be,0,4 [{name}]"
            ),
        );
        self.us += 50;
        self.line(
            WORKER,
            &format!("block_rq_complete: {disk} {plain} () {sector} + {sectors} be,0,4 [0]"),
        );
        if rwbs[1..].contains('F') {
            self.disk(disk, WORKER, "FF", 0, 0);
        }
        if rwbs.contains('F') {
            self.line(
                WORKER,
                &format!("block_rq_complete: {disk} {plain} () {sector} + 0 be,0,4 [0]"),
            );
        }
    }

    fn queue(
        &mut self,
        device: &str,
        who: Who,
        rwbs: &str,
        sector: u64,
        sectors: u64,
        whose: &str,
    ) {
        let Who(name, _) = who;
        self.line(
            who,
            &format!("block_bio_queue: {device} {rwbs} {sector} + {sectors} [{name}]{whose}"),
        );
    }

    fn remap(&mut self, who: Who, rwbs: &str, sectors: u64, to: (&str, u64), from: (&str, u64)) {
        let (to, at) = to;
        self.line(
            who,
            &format!("block_bio_remap: {to} {rwbs} {at} + {sectors} <- ({}) {}", from.0, from.1),
        );
    }

    /// The work of a device mapper above a disk for a write or a flush of `top`, queued there by
    /// `who`.
    fn mapped(&mut self, top: &str, who: Who, rwbs: &str, sector: u64, sectors: u64) {
        if rwbs.starts_with('F') && sectors > 0 {
            // The device mapper sends the flush by itself, and then the write without it.
            self.below(top, who, "FWS", 0, 0);
            return self.below(top, WORKER, &rwbs[1..], sector, sectors);
        }
        self.below(top, who, rwbs, sector, sectors);
    }

    fn below(&mut self, top: &str, who: Who, rwbs: &str, sector: u64, sectors: u64) {
        let at = |offset: u64| if sectors == 0 { 0 } else { sector + offset };
        match self.stack {
            Stack::Linear => {
                self.remap(who, rwbs, sectors, (SDA, at(2048)), (top, sector));
                self.queue(SDA, who, rwbs, at(2048), sectors, "");
                self.disk(SDA, who, rwbs, at(2048), sectors);
            }
            Stack::Crypt => {
                let who = if sectors == 0 { who } else { CRYPT };
                self.us += 100;
                self.remap(who, rwbs, sectors, (SDA, at(32768)), (top, sector));
                self.queue(SDA, who, rwbs, at(32768), sectors, "");
                self.disk(SDA, who, rwbs, at(32768), sectors);
            }
            Stack::Two => {
                self.remap(who, rwbs, sectors, ("253,0", at(2048)), (top, sector));
                self.queue("253,0", who, rwbs, at(2048), sectors, "");
                self.remap(who, rwbs, sectors, (SDA, at(4096)), ("253,0", at(2048)));
                self.queue(SDA, who, rwbs, at(4096), sectors, "");
                self.disk(SDA, who, rwbs, at(4096), sectors);
            }
            Stack::LinearOnPartition => {
                self.remap(who, rwbs, sectors, ("8,2", at(1024)), (top, sector));
                if sectors > 0 {
                    self.remap(who, rwbs, sectors, ("8,2", at(9216)), ("8,2", at(1024)));
                }
                self.queue("8,2", who, rwbs, at(9216), sectors, "");
                self.disk(SDA, who, rwbs, at(9216), sectors);
            }
            Stack::RequestBased => {
                let to = format!(
                    "block_rq_remap: {SDA} {rwbs} {sector} + {sectors} <- ({top}) {sector} 1"
                );
                self.line(WORKER, &to);
                self.disk(SDA, WORKER, rwbs, sector, sectors);
            }
            Stack::Mirror => {
                for disk in [SDA, SDB] {
                    if sectors > 0 {
                        self.remap(who, rwbs, sectors, (disk, at(2048)), (top, sector));
                    }
                    let who = if sectors == 0 { WORKER } else { who };
                    self.queue(disk, who, rwbs, at(2048), sectors, "");
                }
                for disk in [SDA, SDB] {
                    self.disk(disk, WORKER, rwbs, at(2048), sectors);
                }
            }
            Stack::Stripes if sectors == 0 => {
                for disk in [SDA, SDB] {
                    self.remap(who, rwbs, 0, (disk, 0), (top, 0));
                    self.queue(disk, who, rwbs, 0, 0, "");
                    self.disk(disk, who, rwbs, 0, 0);
                }
            }
            Stack::Stripes => {
                let half = sectors / 2;
                for (disk, from) in [(SDA, 0), (SDB, half)] {
                    self.remap(who, rwbs, half, (disk, at(from + 2048)), (top, sector + from));
                    self.queue(disk, who, rwbs, at(from + 2048), half, "");
                }
                for (disk, from) in [(SDA, 0), (SDB, half)] {
                    self.disk(disk, who, rwbs, at(from + 2048), half);
                }
            }
            Stack::CryptOverLinear => {
                let who = if sectors == 0 { who } else { CRYPT };
                self.us += 100;
                self.remap(who, rwbs, sectors, ("253,0", at(32_768)), (top, sector));
                self.queue("253,0", who, rwbs, at(32_768), sectors, "");
                self.remap(who, rwbs, sectors, ("8,2", at(36_864)), ("253,0", at(32_768)));
                if sectors > 0 {
                    self.remap(who, rwbs, sectors, ("8,2", at(38_912)), ("8,2", at(36_864)));
                }
                self.queue("8,2", who, rwbs, at(38_912), sectors, "");
                self.disk(SDA, who, rwbs, at(38_912), sectors);
            }
            Stack::Disk | Stack::Partition | Stack::OldPartition => {
                unreachable!("no device mapper")
            }
        }
    }

    /// `who` asks the file system's device for a write. Without data if `sectors` is 0.
    fn ask(&mut self, who: Who, rwbs: &str, sector: u64, sectors: u64, inode: Option<u64>) {
        let top = self.stack.top();
        let whose = match inode {
            Some(inode) => format!(" oneflush=data dev {top} ino {inode}"),
            None if sectors > 0 => " oneflush=journal".to_owned(),
            None => String::new(),
        };
        let at = |offset: u64| if sectors == 0 { 0 } else { sector + offset };
        match self.stack {
            Stack::Disk => {
                self.queue(top, who, rwbs, sector, sectors, &whose);
                self.disk(SDA, who, rwbs, sector, sectors);
            }
            Stack::Partition | Stack::OldPartition => {
                let device = if self.stack == Stack::Partition { top } else { SDA };
                if sectors > 0 {
                    self.remap(who, rwbs, sectors, (device, at(63)), (top, sector));
                }
                self.queue(device, who, rwbs, at(63), sectors, &whose);
                self.disk(SDA, who, rwbs, at(63), sectors);
            }
            Stack::RequestBased => {
                let Who(name, _) = who;
                self.queue(top, who, rwbs, sector, sectors, &whose);
                let bytes = sectors * 512;
                self.line(
                    who,
                    &format!(
                        "block_rq_issue: {top} {rwbs} {bytes} () {sector} + {sectors} be,0,4 \
                        [{name}]"
                    ),
                );
                self.mapped(top, who, rwbs, sector, sectors);
                self.line(
                    WORKER,
                    &format!("block_rq_complete: {top} {rwbs} () {sector} + {sectors} be,0,4 [0]"),
                );
            }
            _ => {
                self.queue(top, who, rwbs, sector, sectors, &whose);
                self.mapped(top, who, rwbs, sector, sectors);
                self.line(
                    WORKER,
                    &format!("block_bio_complete: {top} {rwbs} {sector} + {sectors} [0]"),
                );
            }
        }
    }

    /// The program writes and synchronizes a file. `commits`: the file system commits its journal
    /// meanwhile.
    fn synced(&mut self, inode: u64, runs: &[(u64, u64)], commits: bool) {
        let top = self.stack.top();
        self.line(
            APP,
            &format!("ext4_sync_file_enter: dev {top} ino {inode} parent 2 datasync 1 "),
        );
        for &(sector, sectors) in runs {
            self.ask(APP, "WS", sector, sectors, Some(inode));
        }
        if commits {
            self.ask(JBD2, "WSM", 900_000, 16, None);
            self.ask(JBD2, "FWFSM", 900_016, 8, None);
        } else {
            self.ask(APP, "FWS", 0, 0, None);
        }
        self.line(APP, &format!("ext4_sync_file_exit: dev {top} ino {inode} ret 0"));
        self.us += 100;
    }

    /// PERSIST, FULL: log, count, update, reset.
    fn commit(&mut self) {
        let (journal, db) = (13, 12);
        self.synced(journal, &[(40_000, 8), (40_008, 16)], true);
        self.synced(journal, &[(40_000, 8)], false);
        self.synced(db, &[(8_000, 8), (8_064, 8)], false);
        self.synced(journal, &[(40_000, 8)], false);
    }
}

type Stacks = Vec<(DeviceId, Vec<DeviceId>)>;

fn identify(text: &str, layer: Layer) -> (Vec<Transaction>, Summary, Stacks) {
    let mut reader = Reader::from_read("trace", Cursor::new(text.as_bytes().to_vec())).unwrap();
    let mut identifier = Identifier::new().count_at(layer);
    let mut found = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        identifier.push(&event, reader.names());
        found.extend(std::iter::from_fn(|| identifier.next_transaction()));
    }
    assert_eq!(reader.skipped().count, 0, "{:?}", reader.skipped());
    let stacks = identifier.stacks();
    let (rest, summary) = identifier.finish(reader.names());
    found.extend(rest);
    (found, summary, stacks)
}

fn counters(found: &[Transaction], summary: &Summary) -> Counters {
    let rest = [summary.other, summary.fs_journal, summary.metadata]
        .map(|amount| amount.bytes)
        .iter()
        .sum::<u64>();
    Counters {
        bytes: found.iter().map(|found| found.traffic.bytes()).sum::<u64>()
            + summary.partial.bytes()
            + rest,
        flushes: found.iter().map(|found| found.flushes).sum::<u64>() + summary.flushes,
    }
}

const COMMITS: usize = 10;

fn written(stack: Stack) -> Pen {
    let mut pen = Pen::new(stack);
    (0..COMMITS).for_each(|_| pen.commit());
    pen
}

const STACKS: [Stack; 11] = [
    Stack::Disk,
    Stack::Linear,
    Stack::Crypt,
    Stack::Two,
    Stack::LinearOnPartition,
    Stack::RequestBased,
    Stack::Mirror,
    Stack::Stripes,
    Stack::CryptOverLinear,
    Stack::Partition,
    Stack::OldPartition,
];

#[test]
fn each_stack_has_the_transactions_of_the_disk_and_the_bytes_and_flushes_of_its_counters() {
    for stack in STACKS {
        let pen = written(stack);
        let (found, summary, _) = identify(&pen.text, Layer::Lowest);
        let mut sent = Counters::default();
        for counters in pen.disks.values() {
            sent.bytes += counters.bytes;
            sent.flushes += counters.flushes;
        }
        assert_eq!(counters(&found, &summary), sent, "{stack:?}");
        assert_eq!(found.len(), COMMITS, "{stack:?}");
        for found in &found {
            assert_eq!(found.database.to_string(), "/data/a.db", "{stack:?}");
            assert_eq!(
                (found.journal_mode, found.synchronous),
                (JournalMode::Persist, Synchronous::Full),
                "{stack:?}"
            );
            assert_eq!(found.process.thread, APP.1, "{stack:?}");
        }
        assert_eq!(summary, Summary::default(), "{stack:?}: everything belongs to a transaction");
    }
}

#[test]
fn at_the_highest_layer_each_write_is_what_the_file_system_asked_for() {
    for stack in STACKS {
        let (found, summary, _) = identify(&written(stack).text, Layer::Highest);
        let each = (4 + 8 + 8 + 4 + 4) * 1024 + 12 * 1024;
        assert_eq!(found.len(), COMMITS, "{stack:?}");
        assert_eq!(counters(&found, &summary).bytes, COMMITS as u64 * each, "{stack:?}");
    }
}

#[test]
fn a_layer_between_can_be_asked_for() {
    let middle = Layer::Device(DeviceId { major: 253, minor: 0 });
    let (found, summary, _) = identify(&written(Stack::Two).text, middle);
    assert_eq!(found.len(), COMMITS);
    assert_eq!(counters(&found, &summary).bytes, COMMITS as u64 * 40 * 1024);
}

/// What `top` shows of the devices.
#[test]
fn the_load_is_what_the_devices_of_a_layer_are_sent() {
    let load = |text: &str, layer: Layer| {
        let mut reader = Reader::from_read("trace", Cursor::new(text.as_bytes().to_vec())).unwrap();
        let mut identifier = Identifier::new().count_at(layer);
        let mut load = Counters::default();
        while let Some(event) = reader.next().unwrap() {
            identifier.push(&event, reader.names());
            let counted = identifier.counts(&event);
            load.bytes += if counted.bytes && event.flags.write { event.bytes } else { 0 };
            load.flushes += u64::from(counted.flush);
        }
        load
    };
    for stack in STACKS {
        let pen = written(stack);
        let mut sent = Counters::default();
        for counters in pen.disks.values() {
            sent.bytes += counters.bytes;
            sent.flushes += counters.flushes;
        }
        let first = load(&pen.text, Layer::Lowest);
        // From the first request on, it is known which device lies on which.
        let is_near = |found: u64, sent: u64| found >= sent && found - sent <= 16_384;
        assert!(
            is_near(first.bytes, sent.bytes) && first.flushes - sent.flushes <= 2,
            "{stack:?} {first:?} {sent:?}"
        );
        let highest = load(&pen.text, Layer::Highest).bytes;
        let asked = COMMITS as u64 * 40 * 1024;
        assert!(is_near(highest, asked), "{stack:?} {highest} {asked}");
    }
}

#[test]
fn which_device_lies_on_which_is_told() {
    let device = |major, minor| DeviceId { major, minor };
    let (.., stacks) = identify(&written(Stack::Two).text, Layer::Lowest);
    let disk = device(8, 0);
    assert_eq!(stacks, [(device(253, 0), vec![disk]), (device(253, 1), vec![device(253, 0)])]);
    let (.., stacks) = identify(&written(Stack::Mirror).text, Layer::Lowest);
    assert_eq!(stacks, [(device(9, 0), vec![disk, device(8, 16)])]);
    let (.., stacks) = identify(&written(Stack::Partition).text, Layer::Lowest);
    assert_eq!(stacks, [], "a partition is no layer");
}

#[test]
fn a_partition_is_found_without_remaps() {
    let pen = written(Stack::Partition);
    let text: String = pen
        .text
        .lines()
        .filter(|line| !line.contains("_remap"))
        .map(|line| format!("{line}\n"))
        .collect();
    let (found, summary, _) = identify(&text, Layer::Lowest);
    assert_eq!((found.len(), counters(&found, &summary)), (COMMITS, pen.disks[SDA]));
}

/// The story: without the queue events of a LUKS device, 0 transactions were told, and no reason.
/// Without remaps, bytes were counted at each layer, and again no reason was given.
#[test]
fn what_is_lost_for_want_of_events_has_a_reason() {
    const KINDS: [&str; 5] =
        ["block_bio_queue", "_remap", "block_rq_issue", "block_rq_complete", "block_bio_complete"];
    for stack in STACKS {
        let pen = written(stack);
        let sent: u64 = pen.disks.values().map(|disk| disk.bytes).sum();
        for missing in 0..1 << KINDS.len() {
            let lacks = |kind: usize| missing >> kind & 1 == 1;
            for has_names in [true, false] {
                let is_there = |line: &&str| {
                    let is_missing = |kind: usize| lacks(kind) && line.contains(KINDS[kind]);
                    let is_name = !has_names
                        && (line.contains("oneflush_file") || line.contains("ext4_sync"));
                    !(0..KINDS.len()).any(is_missing) && !is_name
                };
                let cut = |line: &str| {
                    let whole = line.split(" oneflush=").next().filter(|_| !has_names);
                    format!("{}\n", whole.unwrap_or(line))
                };
                let text: String = pen.text.lines().filter(is_there).map(cut).collect();
                if !text.contains("block_rq_") && !text.contains("block_bio_") {
                    continue;
                }
                let mut reader =
                    Reader::from_read("trace", Cursor::new(text.into_bytes())).unwrap();
                let mut identifier = Identifier::new();
                while let Some(event) = reader.next().unwrap() {
                    identifier.push(&event, reader.names());
                }
                let (observed, untied) = (identifier.observed(), identifier.untied_devices());
                let (found, summary) = identifier.finish(reader.names());
                let of: Vec<&str> =
                    (0..KINDS.len()).filter(|kind| lacks(*kind)).map(|kind| KINDS[kind]).collect();
                let what = format!(
                    "{stack:?} without {of:?}, names: {has_names}: {observed:?} {untied:?} {}",
                    found.len()
                );
                // Without both, two layers look like two disks.
                if found.len() < COMMITS - 1 && !(lacks(1) && lacks(2)) {
                    assert!(
                        !observed.queues || observed.lacks_ends || !untied.is_empty(),
                        "{what}"
                    );
                }
                // The same holds without what a disk is sent.
                if observed.queues && !lacks(2) && counters(&found, &summary).bytes > sent {
                    assert!(observed.lacks_ends || !untied.is_empty(), "{what}");
                }
                if missing == 0 {
                    assert_eq!((observed.lacks_ends, untied), (false, Vec::new()), "{what}");
                }
            }
        }
    }
}
