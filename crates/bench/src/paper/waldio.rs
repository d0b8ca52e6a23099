//! WALDIO: Eliminating the Filesystem Journaling in Resolving the Journaling of Journal Anomaly,
//! USENIX ATC 2015. What its sections 5 and 6 measure.

mod emmc;
mod stated;

use super::short::{self, cell, column, compared, rate, row};
use super::{Claim, Column, Experiment, Figure, How, Ours, Paper, Row, Rule, Sheet, Work};
use oneflush_measure::workload::Operation;

pub const WALDIO: Paper = Paper {
    name: "waldio",
    title: "WALDIO: Eliminating the Filesystem Journaling in Resolving the Journaling of Journal \
        Anomaly, USENIX ATC 2015",
    device: "Samsung Galaxy S5, eMMC with pages of 8 KB, Android 4.4, ext4",
    size_gib: 1,
    experiments: &EXPERIMENTS,
    sheets: &SHEETS,
    patterns: &[],
    claims: &[&CLAIMS, &stated::STATED, &emmc::CLAIMS],
    unmeasured: &stated::UNMEASURED,
    across: &[],
    notes: &NOTES,
};

const OFF: &str = "off:sqlite";
const STOCK: &str = "wal:sqlite";
const DELETE: &str = "delete:sqlite";
const TRUNCATE: &str = "truncate:sqlite";
const PERSIST: &str = "persist:sqlite";
const PAD512: &str = "wal:waldio+layout=pad512+sync=fs";
const PAD4K: &str = "wal:waldio+layout=pad4k+sync=fs";
const PAD8K: &str = "wal:waldio+layout=pad8k+sync=fs";
const EMBED: &str = "wal:waldio+layout=embed+sync=fs";
const FS_GROUP: &str = "wal:waldio+layout=embed+sync=fs+group=4+interval=2ms";
const PD: &str = "wal:waldio+layout=embed+sync=pd";
const PD_GROUP: &str = "wal:waldio+layout=embed+sync=pd+group=4+interval=2ms";
const NS: &str = "wal:waldio+layout=embed+sync=ns";
const NS_GROUP: &str = "wal:waldio+layout=embed+sync=ns+group=4+interval=2ms";

const NOTES: [&str; 7] = [
    "Theirs are the numbers in the paper's text. What only its pictures and Table 2 show is `–`. \
        Of the rollback modes the text says: as much as 90 MB, 60 % of it the file system's \
        journal.",
    "MB are 1,000,000 bytes of 1,000 operations, at the block device, with all that the kernel \
        writes back behind them; KB are 1,024 bytes.",
    "New database: from its first opening on, so the laying out of the log is in the figures, as \
        the growing of stock SQLite's WAL is. Laid out: the log, or WAL, has its length before.",
    "Their log is laid out by `fallocate` with a flag of their own kernel, which writes nothing. \
        Ours writes zeros.",
    "\"WAL, padded\" is `–`: no strategy of ours writes padded frames through the page cache.",
    "Group synch keeps up to 4 frames (16 KiB, 2 ms) in memory after the commit was acknowledged. \
        A loss of power, and of the process, may take those back. Without flush (NS) it may take \
        back what the device's cache held.",
    "Figs. 13 to 15 and Table 2 run Mobibench's transactions on one table, as the paper does. \
        Figs. 8 and 11 and the goals run the same inserts by a prepared statement.",
];

const fn experiment(
    name: &'static str,
    what: &'static str,
    work: Work,
    operations: u64,
    fresh: bool,
) -> Experiment {
    Experiment { fresh, ..short::experiment(name, what, work, operations) }
}

const ONE_PAGE: Work = Work::Table(Operation::OnePage);

const EXPERIMENTS: [Experiment; 16] = [
    experiment("new-1000", "Fig. 8: 1,000 inserts, new database", ONE_PAGE, 1000, true),
    experiment("laid-1000", "Fig. 8: 1,000 inserts, log laid out", ONE_PAGE, 1000, false),
    experiment("new-10000", "10,000 inserts, new database", ONE_PAGE, 10_000, true),
    experiment("laid-10000", "10,000 inserts, log laid out", ONE_PAGE, 10_000, false),
    Experiment {
        how: How::Recorded,
        is_long: true,
        ..experiment("single-new", "Fig. 11: single inserts, new database", ONE_PAGE, 30, true)
    },
    Experiment {
        how: How::Recorded,
        ..experiment("single-laid", "Fig. 11: single inserts, log laid out", ONE_PAGE, 30, false)
    },
    experiment(
        "layouts-new",
        "Fig. 13: layouts, new database",
        Work::Mobibench(Operation::Insert),
        1000,
        true,
    ),
    experiment(
        "layouts-laid",
        "Fig. 13: layouts, log laid out",
        Work::Mobibench(Operation::Insert),
        1000,
        false,
    ),
    experiment("insert", "Fig. 14: insert", Work::Mobibench(Operation::Insert), 1000, true),
    experiment("update", "Table 2: update", Work::Mobibench(Operation::Update), 1000, true),
    experiment("delete", "Table 2: delete", Work::Mobibench(Operation::Delete), 1000, true),
    Experiment {
        how: How::Turns,
        ..experiment("floor", "goal: one commit and the floor, in turns", ONE_PAGE, 1000, false)
    },
    Experiment {
        connections: 16,
        ..experiment("writers", "goal: 16 writers", ONE_PAGE, 4000, false)
    },
    Experiment {
        connections: 8,
        ..experiment("readers", "goal: 8 reader threads", Work::ReadsInWal, 300_000, false)
    },
    Experiment {
        connections: 8,
        processes: true,
        ..experiment("processes", "goal: 8 reader processes", Work::ReadsInWal, 300_000, false)
    },
    emmc::INSERT,
];

const LSMVBT: &str = "lsmvbt";

const VOLUME_ROWS: [Row; 4] = [
    row("WAL", &[Some(29.0), Some(12.3)], STOCK),
    Row {
        label: "WAL, padded",
        theirs: &[None, None],
        ours: Ours::Nothing("no strategy of ours writes padded frames through the page cache"),
    },
    row("WALDIO, padded", &[None, None], PAD4K),
    row("WALDIO, embedded", &[Some(4.6), Some(4.4)], EMBED),
];

/// Update and delete: the text has no number of theirs.
const OPERATION_ROWS: [Row; 11] = [
    row("DELETE", &[], DELETE),
    row("TRUNCATE", &[], TRUNCATE),
    row("PERSIST", &[], PERSIST),
    row("WAL", &[], STOCK),
    row("LS-MVBT", &[], LSMVBT),
    row("WALDIO-FS", &[], EMBED),
    row("WALDIO-FS, group", &[], FS_GROUP),
    row("WALDIO-PD", &[], PD),
    row("WALDIO-PD, group", &[], PD_GROUP),
    row("WALDIO-NS", &[], NS),
    row("WALDIO-NS, group", &[], NS_GROUP),
];

const LAYOUT_ROWS: [Row; 5] = [
    row("WAL", &[Some(587.0), Some(1.0)], STOCK),
    row("padded to 512 B", &[None, None], PAD512),
    row("padded to 4 KiB", &[None, Some(1.6)], PAD4K),
    row("padded to 8 KiB", &[None, Some(2.0)], PAD8K),
    row("embedded", &[Some(1239.0), Some(2.1)], EMBED),
];

const SHEETS: [Sheet; 13] = [
    Sheet {
        source: "Fig. 8",
        title: "Bytes of 1,000 inserts, all and without the file system's journal, in MB",
        theirs: &["theirs", "data"],
        columns: &[
            compared("new", "new-1000", Figure::Megabytes),
            column("data", "new-1000", Figure::DataMegabytes),
            // The paper's WAL grows. What a laid out log saves is to be seen against that.
            Column {
                head: "laid out",
                experiment: "laid-1000",
                figure: Figure::Megabytes,
                ratio_to: Some("new-1000"),
            },
            column("data", "laid-1000", Figure::DataMegabytes),
        ],
        control: STOCK,
        rows: &VOLUME_ROWS,
    },
    Sheet {
        source: "Goal",
        title: "10,000 inserts with their checkpoints, in KB and writes an insert",
        theirs: &[],
        columns: &[
            compared("new", "new-10000", Figure::Kilobytes),
            column("writes", "new-10000", Figure::Writes),
            compared("laid out", "laid-10000", Figure::Kilobytes),
            column("writes", "laid-10000", Figure::Writes),
        ],
        control: STOCK,
        rows: &[
            row("WAL", &[], STOCK),
            row("WALDIO, padded", &[], PAD4K),
            row("WALDIO, embedded", &[], EMBED),
        ],
    },
    Sheet {
        source: "Fig. 11 and Table 1",
        title: "A single insert: what the commit in the middle sent to the device",
        theirs: &["theirs KB"],
        columns: &[
            column("new KB", "single-new", Figure::CommitKilobytes),
            column("requests", "single-new", Figure::CommitRequests),
            column("laid out KB", "single-laid", Figure::CommitKilobytes),
            column("requests", "single-laid", Figure::CommitRequests),
            column("4 KiB once %", "single-laid", Figure::OneRequestPercent),
            column("fs journal %", "single-laid", Figure::FsJournalPercent),
        ],
        control: STOCK,
        rows: &[
            row("OFF", &[Some(20.0)], OFF),
            row("DELETE", &[Some(80.0)], DELETE),
            row("WAL", &[Some(28.0)], STOCK),
            row("WALDIO", &[Some(4.0)], EMBED),
        ],
    },
    Sheet {
        source: "Fig. 13",
        title: "Layouts of the log, new database: inserts a second, KB and writes an insert",
        theirs: &["theirs/s", "× WAL"],
        columns: &[
            compared("ours/s", "layouts-new", Figure::PerSecond),
            compared("KB", "layouts-new", Figure::Kilobytes),
            compared("writes", "layouts-new", Figure::Writes),
        ],
        control: STOCK,
        rows: &LAYOUT_ROWS,
    },
    Sheet {
        source: "Fig. 13, log laid out",
        title: "the same, without the growing of WAL and log",
        theirs: &["theirs/s", "× WAL"],
        columns: &[
            compared("ours/s", "layouts-laid", Figure::PerSecond),
            compared("KB", "layouts-laid", Figure::Kilobytes),
            compared("writes", "layouts-laid", Figure::Writes),
        ],
        control: STOCK,
        rows: &LAYOUT_ROWS,
    },
    Sheet {
        source: "Fig. 14 and Table 2, insert",
        title: "1,000 inserts in a new database, inserts a second",
        theirs: &["theirs/s", "× WAL"],
        columns: &[compared("ours/s", "insert", Figure::PerSecond)],
        control: STOCK,
        rows: &[
            row("DELETE", &[None, None], DELETE),
            row("TRUNCATE", &[None, None], TRUNCATE),
            row("PERSIST", &[None, None], PERSIST),
            row("WAL", &[Some(587.0), Some(1.0)], STOCK),
            row("LS-MVBT", &[Some(1083.0), Some(1.8)], LSMVBT),
            row("WALDIO-FS", &[Some(1219.0), None], EMBED),
            row("WALDIO-FS, group", &[Some(2729.0), None], FS_GROUP),
            row("WALDIO-PD", &[None, None], PD),
            row("WALDIO-PD, group", &[Some(2967.0), Some(5.1)], PD_GROUP),
            row("WALDIO-NS", &[None, None], NS),
            row("WALDIO-NS, group", &[Some(4332.0), Some(7.4)], NS_GROUP),
        ],
    },
    Sheet {
        source: "Table 2, update",
        title: "1,000 updates in a new database, updates a second",
        theirs: &[],
        columns: &[compared("ours/s", "update", Figure::PerSecond)],
        control: STOCK,
        rows: &OPERATION_ROWS,
    },
    Sheet {
        source: "Table 2, delete",
        title: "1,000 deletes in a new database, deletes a second",
        theirs: &[],
        columns: &[compared("ours/s", "delete", Figure::PerSecond)],
        control: STOCK,
        rows: &OPERATION_ROWS,
    },
    Sheet {
        source: "Fig. 15",
        title: "Bytes of 1,000 inserts, updates and deletes in a new database, in MB",
        theirs: &["insert"],
        columns: &[
            compared("ours", "insert", Figure::Megabytes),
            compared("update", "update", Figure::Megabytes),
            compared("delete", "delete", Figure::Megabytes),
        ],
        control: STOCK,
        rows: &[
            row("DELETE", &[None], DELETE),
            row("TRUNCATE", &[None], TRUNCATE),
            row("PERSIST", &[None], PERSIST),
            row("WAL", &[Some(29.0)], STOCK),
            row("LS-MVBT", &[None], LSMVBT),
            row("WALDIO-FS", &[None], EMBED),
            row("WALDIO-FS, group", &[None], FS_GROUP),
        ],
    },
    Sheet {
        source: "Goal",
        title: "A commit of one page and the floor (4 KiB overwrite + fdatasync), in turns",
        theirs: &[],
        columns: &[
            compared("median ms", "floor", Figure::MedianMillis),
            column("× floor", "floor", Figure::MedianToFloor),
        ],
        control: STOCK,
        rows: &[row("WAL", &[], STOCK), row("WALDIO-FS", &[], EMBED)],
    },
    Sheet {
        source: "Goal",
        title: "16 writer threads on one table, log laid out",
        theirs: &[],
        columns: &[
            compared("commits/s", "writers", Figure::PerSecond),
            column("flushes each", "writers", Figure::Flushes),
            column("longest ms", "writers", Figure::LongestMillis),
            column("floor's", "writers", Figure::FloorLongestMillis),
        ],
        control: STOCK,
        rows: &[row("WAL", &[], STOCK), row("WALDIO-FS", &[], EMBED)],
    },
    Sheet {
        source: "Goal",
        title: "8 readers of rows whose pages are in the WAL, reads a second",
        theirs: &[],
        columns: &[
            compared("threads", "readers", Figure::PerSecond),
            compared("processes", "processes", Figure::PerSecond),
        ],
        control: STOCK,
        rows: &[row("WAL", &[], STOCK), row("WALDIO-FS", &[], EMBED)],
    },
    emmc::SHEET,
];

const FLUSH_COSTS: &str = "Their flush costs little beside the journal of the file system. Where \
    most of a commit is the flush itself, every mode pays that one.";
const STOCK_REUSES: &str = "Stock SQLite's WAL no longer makes the file system journal once it has \
    its length.";
const GROUP_SAVES: &str = "Group synch gains what it saves of writes and flushes; what is left is \
    SQLite's own work.";
const NAND_PAGES: &str = "Padding gains where the device writes whole pages of flash.";

/// As near to their ratio as a machine of another kind can be asked to be: nine tenths of it.
const fn at_least(times: f64) -> Rule {
    Rule::AtLeast { holds: times * 0.9, in_part: 1.1 }
}

const CLAIMS: [Claim; 25] = [
    Claim {
        source: "Fig. 8",
        says: "WALDIO writes 1/6 of the bytes of WAL, once the log is laid out",
        theirs: Some(4.6 / 29.0),
        over: &[cell("laid-1000", EMBED, Figure::Megabytes)],
        under: &[cell("new-1000", STOCK, Figure::Megabytes)],
        rule: Rule::AtMost { holds: 1.0 / 6.0, in_part: 1.0 / 3.0 },
        unless: "",
    },
    Claim {
        source: "Fig. 8",
        says: "with header embedding, 1/3 of the bytes outside the file system's journal",
        theirs: Some(4.4 / 12.3),
        over: &[cell("laid-1000", EMBED, Figure::DataMegabytes)],
        under: &[cell("new-1000", STOCK, Figure::DataMegabytes)],
        rule: Rule::AtMost { holds: 0.4, in_part: 0.7 },
        unless: "A commit of stock SQLite writes two blocks of its WAL here. The paper saw three.",
    },
    Claim {
        source: "Goal",
        says: "1/3 of the bytes of WAL with the laying out of the log",
        theirs: None,
        over: &[cell("new-1000", EMBED, Figure::Megabytes)],
        under: &[cell("new-1000", STOCK, Figure::Megabytes)],
        rule: Rule::AtMost { holds: 1.0 / 3.0, in_part: 0.5 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "0.45 of the bytes of WAL over 10,000 inserts with checkpoints",
        theirs: None,
        over: &[cell("new-10000", EMBED, Figure::Kilobytes)],
        under: &[cell("new-10000", STOCK, Figure::Kilobytes)],
        rule: Rule::AtMost { holds: 0.45, in_part: 0.6 },
        unless: STOCK_REUSES,
    },
    Claim {
        source: "Fig. 11",
        says: "a commit of one page is one write request of 4 KiB (percent of the commits)",
        theirs: Some(100.0),
        over: &[cell("single-laid", EMBED, Figure::OneRequestPercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 100.0, in_part: 90.0 },
        unless: "",
    },
    Claim {
        source: "Fig. 11",
        says: "no commit makes the file system write its journal (percent of the commits)",
        theirs: Some(0.0),
        over: &[cell("single-laid", EMBED, Figure::FsJournalPercent)],
        under: &[],
        rule: Rule::AtMost { holds: 0.0, in_part: 5.0 },
        unless: "The file system writes its journal every 5 s for others, too.",
    },
    Claim {
        source: "Fig. 13",
        says: "padded to sectors, barely any gain against WAL",
        theirs: None,
        over: &[rate("layouts-new", PAD512)],
        under: &[rate("layouts-new", STOCK)],
        rule: Rule::Between { holds: [0.9, 1.1], in_part: [0.75, 1.33] },
        unless: "Their eMMC is slow with writes that are no whole blocks; other devices are not.",
    },
    Claim {
        source: "Fig. 13",
        says: "padded to 4 KiB, 1.6 times as fast as WAL",
        theirs: Some(1.6),
        over: &[rate("layouts-new", PAD4K)],
        under: &[rate("layouts-new", STOCK)],
        rule: at_least(1.6),
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Fig. 13",
        says: "padded to 8 KiB, 2.0 times as fast as WAL",
        theirs: Some(2.0),
        over: &[rate("layouts-new", PAD8K)],
        under: &[rate("layouts-new", STOCK)],
        rule: at_least(2.0),
        unless: NAND_PAGES,
    },
    Claim {
        source: "Fig. 13",
        says: "embedded, 2.1 times as fast as WAL",
        theirs: Some(2.1),
        over: &[rate("layouts-new", EMBED)],
        under: &[rate("layouts-new", STOCK)],
        rule: at_least(2.1),
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Fig. 14",
        says: "WAL is the fastest of stock SQLite's modes (PERSIST to WAL)",
        theirs: None,
        over: &[rate("insert", PERSIST)],
        under: &[rate("insert", STOCK)],
        rule: Rule::AtMost { holds: 0.9, in_part: 1.0 },
        unless: "",
    },
    Claim {
        source: "Fig. 14",
        says: "WALDIO-FS without group synch: 1219 inserts/s to WAL's 587",
        theirs: Some(1219.0 / 587.0),
        over: &[rate("insert", EMBED)],
        under: &[rate("insert", STOCK)],
        rule: at_least(1219.0 / 587.0),
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Fig. 14",
        says: "group synch makes WALDIO-FS 2.2 times as fast (1219 to 2729 inserts/s)",
        theirs: Some(2729.0 / 1219.0),
        over: &[rate("insert", FS_GROUP)],
        under: &[rate("insert", EMBED)],
        rule: at_least(2729.0 / 1219.0),
        unless: GROUP_SAVES,
    },
    Claim {
        source: "Fig. 14",
        says: "WALDIO-PD with group synch, 5.1 times as fast as WAL",
        theirs: Some(5.1),
        over: &[rate("insert", PD_GROUP)],
        under: &[rate("insert", STOCK)],
        rule: at_least(5.1),
        unless: GROUP_SAVES,
    },
    Claim {
        source: "Fig. 14",
        says: "WALDIO-PD is faster than WALDIO-FS by a tenth, both with group synch",
        theirs: Some(1.1),
        over: &[rate("insert", PD_GROUP)],
        under: &[rate("insert", FS_GROUP)],
        rule: Rule::AtLeast { holds: 1.07, in_part: 1.0 },
        unless: "Without FUA in the device, the kernel makes a durable write of a write and a \
            flush: the same as FS.",
    },
    Claim {
        source: "Fig. 14",
        says: "WALDIO-NS with group synch, 7.4 times as fast as WAL",
        theirs: Some(7.4),
        over: &[rate("insert", NS_GROUP)],
        under: &[rate("insert", STOCK)],
        rule: at_least(7.4),
        unless: GROUP_SAVES,
    },
    Claim {
        source: "Fig. 14",
        says: "WALDIO-NS is faster than WALDIO-PD by more than 35 %, both with group synch",
        theirs: Some(4332.0 / 2967.0),
        over: &[rate("insert", NS_GROUP)],
        under: &[rate("insert", PD_GROUP)],
        rule: Rule::AtLeast { holds: 1.35, in_part: 1.1 },
        unless: GROUP_SAVES,
    },
    Claim {
        source: "Table 2",
        says: "UPDATE gains as INSERT does (WALDIO-FS to WAL, beside the same of INSERT)",
        theirs: None,
        over: &[rate("update", EMBED), rate("insert", STOCK)],
        under: &[rate("update", STOCK), rate("insert", EMBED)],
        rule: Rule::Between { holds: [0.8, 1.25], in_part: [0.6, 1.6] },
        unless: "",
    },
    Claim {
        source: "Table 2",
        says: "DELETE gains as INSERT does (WALDIO-FS to WAL, beside the same of INSERT)",
        theirs: None,
        over: &[rate("delete", EMBED), rate("insert", STOCK)],
        under: &[rate("delete", STOCK), rate("insert", EMBED)],
        rule: Rule::Between { holds: [0.8, 1.25], in_part: [0.6, 1.6] },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "the median commit with sync=fs takes 1.20 times the floor at most",
        theirs: None,
        over: &[cell("floor", EMBED, Figure::MedianToFloor)],
        under: &[],
        rule: Rule::AtMost { holds: 1.2, in_part: 1.5 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "16 writers commit 4 times as fast as with WAL",
        theirs: None,
        over: &[rate("writers", EMBED)],
        under: &[rate("writers", STOCK)],
        rule: Rule::AtLeast { holds: 4.0, in_part: 2.0 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "16 writers need 0.25 flushes a commit at most",
        theirs: None,
        over: &[cell("writers", EMBED, Figure::Flushes)],
        under: &[],
        rule: Rule::AtMost { holds: 0.25, in_part: 0.5 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "the longest commit of 16 writers takes 20 ms at most, outside stalls of the device",
        theirs: None,
        over: &[cell("writers", EMBED, Figure::LongestMillis)],
        under: &[],
        rule: Rule::AtMost { holds: 20.0, in_part: 100.0 },
        unless: "A stall of the device is in this figure: see the floor's longest write beside it.",
    },
    Claim {
        source: "Goal",
        says: "8 reader threads read pages in the WAL half as fast as with stock SQLite",
        theirs: None,
        over: &[rate("readers", EMBED)],
        under: &[rate("readers", STOCK)],
        rule: Rule::AtLeast { holds: 0.5, in_part: 0.25 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "8 reader processes read pages in the WAL half as fast as with stock SQLite",
        theirs: None,
        over: &[rate("processes", EMBED)],
        under: &[rate("processes", STOCK)],
        rule: Rule::AtLeast { holds: 0.5, in_part: 0.25 },
        unless: "",
    },
];
