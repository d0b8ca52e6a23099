//! Resolving Journaling of Journal Anomaly in Android I/O: Multi-Version B-tree with Lazy Split
//! (LS-MVBT), FAST 2014. What its Figures 6 and 8 to 12 measure.
//!
//! Theirs is SQLite with another B-tree. Ours is that, too, and the engine `mvbt` alone. Beside
//! both is stock SQLite whose statements are prepared.

mod claims;
mod emmc;
mod sql;
mod stated;

use super::short::{self, column, compared, row};
use super::{Experiment, Figure, How, Paper, Row, Sheet, Work};
use crate::kv::{self, Keys, Task, Until};
use sql::SQL;

pub const LSMVBT: Paper = Paper {
    name: "lsmvbt",
    title: "Resolving Journaling of Journal Anomaly in Android I/O: Multi-Version B-tree with Lazy \
        Split (LS-MVBT), USENIX FAST 2014",
    device: "Samsung Galaxy S4, eMMC, Android 4.3, ext4",
    size_gib: 6,
    experiments: &EXPERIMENTS,
    sheets: &SHEETS,
    patterns: &sql::PATTERNS,
    claims: &[&claims::CLAIMS, &stated::STATED, &emmc::CLAIMS],
    unmeasured: &stated::UNMEASURED,
    across: &[],
    notes: &NOTES,
};

const OURS: &str = "mvbt";
const WAL: &str = "wal:sqlite";
const WAL_GROWING: &str = "wal-growing:sqlite";
const TRUNCATE: &str = "truncate:sqlite";
const PLAIN_MVBT: &str = "mvbt+lazy_split=off+metadata_embedding=off";
const EMBEDDING: &str = "mvbt+lazy_split=off";
const LAZY_SPLIT: &str = "mvbt+metadata_embedding=off";
const FIG_11_PLAIN: &str = "mvbt+page_bytes=1024+metadata_embedding=off";
const FIG_11_REDISTRIBUTED: &str = "mvbt+page_bytes=1024+redistribution=on+metadata_embedding=off";
const REDISTRIBUTION: &str = "mvbt+redistribution=on";

const NOTES: [&str; 10] = [
    "Theirs are the numbers in the paper's text. What only its pictures show is `–`. Of MVBT and \
        of metadata embedding in Fig. 12 the text has percents.",
    "`mvbt` is the engine alone: a call inserts a row. `lsmvbt` is SQLite on it, and theirs is \
        that. Stock SQLite and `lsmvbt` run prepared statements on a table with an integer key, \
        without AUTOINCREMENT; Mobibench composes a text for each.",
    "Pages are what a transaction writes: of ours pages, commit blocks and anchors, by its own \
        counters. Of SQLite they are pages that go to the WAL or the database, by its own counter. \
        Journals and checkpoints are in the KB, which are counted at the device.",
    "KB are 1,024 bytes at the block device, with all that the kernel writes back behind them.",
    "Both have 256 MiB for pages, but for Fig. 10. Ours reads past the kernel's page cache.",
    "Fig. 6(b) and the goals: 4,000 inserts of 100 B, each a durable transaction, into a table \
        that has so many rows. Random keys are in random order in the table, too.",
    "Fig. 9: a write is one transaction that inserts a row and deletes another one, of 1,000.",
    "Fig. 10: the files are copied while the transaction is open and its pages are written, as \
        when the process is killed. They are out of the page cache when the clock starts. It \
        stops when a row was read. SQLite's WAL has nothing but that transaction, or 500 more.",
    "Recovery in the paper reads the whole tree. Ours reads the last transaction's pages.",
    "Times are of this machine. Pages, KB and flushes repeat on others.",
];

const fn experiment(
    name: &'static str,
    what: &'static str,
    work: kv::Work,
    operations: u64,
) -> Experiment {
    short::experiment(name, what, Work::Stores(work), operations)
}

const fn of_rows(rows: u64, keys: Keys, task: Task) -> kv::Work {
    kv::Work { rows, keys, value_bytes: 100, task }
}

const fn inserts(name: &'static str, what: &'static str, rows: u64, keys: Keys) -> Experiment {
    experiment(name, what, of_rows(rows, keys, Task::Insert), 4000)
}

/// A large table is made for it.
const fn long(experiment: Experiment) -> Experiment {
    Experiment { is_long: true, ..experiment }
}

/// One of the three kinds of statements in Fig. 12.
const fn bars(name: &'static str, what: &'static str, task: Task) -> Experiment {
    experiment(name, what, of_rows(10_000, Keys::Random, task), 2000)
}

const fn mix(name: &'static str, what: &'static str, writes_percent: u64) -> Experiment {
    experiment(name, what, of_rows(1000, Keys::Random, Task::Mix { writes_percent }), 2000)
}

const fn crash(name: &'static str, committed: u64, inserts: u64, until: Until) -> Experiment {
    let task = Task::Recover { committed, inserts, until };
    experiment(name, "Fig. 10: recovery", of_rows(2000, Keys::Random, task), 10)
}

const EXPERIMENTS: [Experiment; 40] = [
    inserts("rising-2000", "Fig. 6(b): 2,000 rows", 2000, Keys::Sequential),
    inserts("rising-10000", "Fig. 6(b): 10,000 rows", 10_000, Keys::Sequential),
    inserts("rising-100000", "Fig. 6(b): 100,000 rows", 100_000, Keys::Sequential),
    long(inserts("rising-1000000", "Fig. 6(b): 1,000,000 rows", 1_000_000, Keys::Sequential)),
    inserts("random-2000", "Fig. 6(b): 2,000 rows, random", 2000, Keys::Random),
    inserts("random-10000", "Fig. 6(b): 10,000 rows, random", 10_000, Keys::Random),
    inserts("random-100000", "Fig. 6(b): 100,000 rows, random", 100_000, Keys::Random),
    long(inserts("random-1000000", "Fig. 6(b): 1,000,000 rows, random", 1_000_000, Keys::Random)),
    experiment(
        "thousand",
        "Fig. 6(a), 8: 1,000 inserts",
        of_rows(2000, Keys::Random, Task::Insert),
        1000,
    ),
    mix("mix-0", "Fig. 9: searches", 0),
    mix("mix-1", "Fig. 9: 1 % writes", 1),
    mix("mix-3", "Fig. 9: 3 % writes", 3),
    mix("mix-7", "Fig. 9: 7 % writes", 7),
    mix("mix-20", "Fig. 9: 20 % writes", 20),
    mix("mix-50", "Fig. 9: 50 % writes", 50),
    mix("mix-100", "Fig. 9: writes", 100),
    crash("crash-10", 0, 10, Until::Read),
    crash("crash-40", 0, 40, Until::Read),
    crash("crash-160", 0, 160, Until::Read),
    crash("crash-640", 0, 640, Until::Read),
    crash("crash-2560", 0, 2560, Until::Read),
    crash("wal-10", 500, 10, Until::Read),
    crash("wal-160", 500, 160, Until::Read),
    crash("wal-2560", 500, 2560, Until::Read),
    crash("commit-10", 500, 10, Until::Commit),
    crash("commit-160", 500, 160, Until::Commit),
    crash("commit-2560", 500, 2560, Until::Commit),
    long(experiment(
        "crash-1g",
        "goal: recovery of 1 GB",
        kv::Work {
            rows: 800_000,
            keys: Keys::Sequential,
            value_bytes: 1000,
            task: Task::Recover { committed: 0, inserts: 2560, until: Until::Commit },
        },
        2,
    )),
    experiment(
        "pages",
        "Fig. 11: 1,000 inserts of 128 B",
        kv::Work { rows: 0, keys: Keys::Random, value_bytes: 128, task: Task::Insert },
        1000,
    ),
    bars("insert", "Fig. 12: insert", Task::Insert),
    bars("update", "Fig. 12: update", Task::Update),
    bars("delete", "Fig. 12: delete", Task::Delete),
    Experiment {
        how: How::Turns,
        ..inserts("floor", "goal: a commit and the floor, in turns", 10_000, Keys::Sequential)
    },
    Experiment {
        how: How::Turns,
        ..inserts("floor-random", "goal: the same, random keys", 10_000, Keys::Random)
    },
    sql::INSERT,
    sql::LONG,
    sql::TEN,
    sql::HUNDRED,
    sql::SINGLE,
    emmc::INSERT,
];

const TWO_ROWS: [Row; 2] = [row("LS-MVBT", &[], OURS), row("WAL", &[], WAL)];
const THREE_ROWS: [Row; 3] =
    [row("LS-MVBT", &[], OURS), row("WAL", &[], WAL), row("TRUNCATE", &[], TRUNCATE)];
/// With SQLite on the engine.
const THREE_ROWS_SQL: [Row; 3] =
    [row("LS-MVBT", &[], OURS), row("LS-MVBT, SQL", &[], SQL), row("WAL", &[], WAL)];
const FOUR_ROWS_SQL: [Row; 4] = [
    row("LS-MVBT", &[], OURS),
    row("LS-MVBT, SQL", &[], SQL),
    row("WAL", &[], WAL),
    row("TRUNCATE", &[], TRUNCATE),
];

/// Of Fig. 6(b).
const PAGE_ROWS: [Row; 2] = [row("LS-MVBT", &[Some(1.0)], OURS), row("WAL", &[Some(3.0)], WAL)];

/// Of Fig. 10.
const RECOVERY_ROWS: [Row; 3] = [
    row("LS-MVBT", &[Some(1.0)], OURS),
    row("WAL", &[Some(4.5)], WAL),
    row("TRUNCATE", &[Some(3.9)], TRUNCATE),
];

/// Of Fig. 12; updates and deletes are in its picture alone.
const BARS: [Row; 8] = [
    row("TRUNCATE", &[], TRUNCATE),
    row("WAL", &[], WAL),
    row("MVBT", &[], PLAIN_MVBT),
    row("+ embedding", &[], EMBEDDING),
    row("+ lazy split", &[], LAZY_SPLIT),
    row("LS-MVBT", &[], OURS),
    row("LS-MVBT, SQL", &[], SQL),
    row("redistribution", &[], REDISTRIBUTION),
];

const SHEETS: [Sheet; 21] = [
    Sheet {
        source: "Goal, Fig. 6(b) with rising keys",
        title: "Pages that an insert of 100 B writes, by rows in the table",
        theirs: &[],
        columns: &[
            column("2,000", "rising-2000", Figure::Pages),
            column("10,000", "rising-10000", Figure::Pages),
            column("100,000", "rising-100000", Figure::Pages),
            column("1,000,000", "rising-1000000", Figure::Pages),
        ],
        control: WAL,
        rows: &TWO_ROWS,
    },
    Sheet {
        source: "Fig. 6(b), random keys",
        title: "the same",
        theirs: &["2,000"],
        columns: &[
            column("2,000", "random-2000", Figure::Pages),
            column("10,000", "random-10000", Figure::Pages),
            column("100,000", "random-100000", Figure::Pages),
            column("1,000,000", "random-1000000", Figure::Pages),
        ],
        control: WAL,
        rows: &PAGE_ROWS,
    },
    Sheet {
        source: "Goal, rising keys at the device",
        title: "KB and flushes of an insert of 100 B, by rows in the table",
        theirs: &[],
        columns: &[
            column("2,000: KB", "rising-2000", Figure::Kilobytes),
            column("flushes", "rising-2000", Figure::Flushes),
            column("100,000: KB", "rising-100000", Figure::Kilobytes),
            column("flushes", "rising-100000", Figure::Flushes),
            column("1,000,000: KB", "rising-1000000", Figure::Kilobytes),
            column("flushes", "rising-1000000", Figure::Flushes),
        ],
        control: WAL,
        rows: &TWO_ROWS,
    },
    Sheet {
        source: "Goal, random keys at the device",
        title: "the same",
        theirs: &[],
        columns: &[
            column("2,000: KB", "random-2000", Figure::Kilobytes),
            column("flushes", "random-2000", Figure::Flushes),
            column("100,000: KB", "random-100000", Figure::Kilobytes),
            column("flushes", "random-100000", Figure::Flushes),
            column("1,000,000: KB", "random-1000000", Figure::Kilobytes),
            column("flushes", "random-1000000", Figure::Flushes),
        ],
        control: WAL,
        rows: &TWO_ROWS,
    },
    Sheet {
        source: "Fig. 6(a) and 8",
        title: "1,000 inserts into a table of 2,000 rows: ms each, and MB of all",
        theirs: &["ms", "MB"],
        columns: &[
            compared("mean ms", "thousand", Figure::MeanMillis),
            compared("MB", "thousand", Figure::Megabytes),
            column("flushes", "thousand", Figure::Flushes),
        ],
        control: WAL_GROWING,
        rows: &[
            row("LS-MVBT", &[Some(1.4), Some(9.9)], OURS),
            row("LS-MVBT, SQL", &[Some(1.4), Some(9.9)], SQL),
            row("WAL", &[Some(2.0), Some(31.0)], WAL_GROWING),
            row("WAL, laid out", &[None, None], WAL),
            row("TRUNCATE", &[None, None], TRUNCATE),
        ],
    },
    Sheet {
        source: "Fig. 9",
        title: "Searches and writes mixed, 1,000 rows: transactions a second, by percent of writes",
        theirs: &[],
        columns: &[
            column("0", "mix-0", Figure::PerSecond),
            column("1", "mix-1", Figure::PerSecond),
            column("3", "mix-3", Figure::PerSecond),
            column("7", "mix-7", Figure::PerSecond),
            column("20", "mix-20", Figure::PerSecond),
            column("50", "mix-50", Figure::PerSecond),
            column("100", "mix-100", Figure::PerSecond),
        ],
        control: WAL,
        rows: &FOUR_ROWS_SQL,
    },
    Sheet {
        source: "Fig. 10, nothing else in the WAL",
        title: "ms to open and read after a crash, by inserts under way",
        theirs: &["× at 10"],
        columns: &[
            column("10", "crash-10", Figure::MedianMillis),
            column("40", "crash-40", Figure::MedianMillis),
            column("160", "crash-160", Figure::MedianMillis),
            column("640", "crash-640", Figure::MedianMillis),
            column("2560", "crash-2560", Figure::MedianMillis),
        ],
        control: WAL,
        rows: &RECOVERY_ROWS,
    },
    Sheet {
        source: "Fig. 10, 500 commits since the checkpoint",
        title: "the same",
        theirs: &["× at 10"],
        columns: &[
            column("10", "wal-10", Figure::MedianMillis),
            column("160", "wal-160", Figure::MedianMillis),
            column("2560", "wal-2560", Figure::MedianMillis),
        ],
        control: WAL,
        rows: &RECOVERY_ROWS,
    },
    Sheet {
        source: "Fig. 10, until a commit",
        title: "the same, and a row was committed",
        theirs: &[],
        columns: &[
            column("10", "commit-10", Figure::MedianMillis),
            column("160", "commit-160", Figure::MedianMillis),
            column("2560", "commit-2560", Figure::MedianMillis),
        ],
        control: WAL,
        rows: &THREE_ROWS,
    },
    Sheet {
        source: "Goal, a file of 1 GB",
        title: "ms to open, read and commit after a crash in 2,560 inserts",
        theirs: &[],
        columns: &[column("ms", "crash-1g", Figure::MedianMillis)],
        control: OURS,
        rows: &[row("LS-MVBT", &[], OURS)],
    },
    Sheet {
        source: "Fig. 11",
        title: "1,000 inserts of 128 B into an empty table, by the size of pages",
        theirs: &["pages"],
        columns: &[
            column("pages", "pages", Figure::Pages),
            column("KB", "pages", Figure::Kilobytes),
            column("mean ms", "pages", Figure::MeanMillis),
        ],
        control: "mvbt+page_bytes=4096",
        rows: &[
            row("512 B", &[None], "mvbt+page_bytes=512"),
            row("1 KiB", &[None], "mvbt+page_bytes=1024"),
            row("1 KiB, no embedding", &[Some(2.4)], FIG_11_PLAIN),
            row("2 KiB", &[None], "mvbt+page_bytes=2048"),
            row("4 KiB", &[None], "mvbt+page_bytes=4096"),
            row("8 KiB", &[None], "mvbt+page_bytes=8192"),
            row("512 B, redistribution", &[None], "mvbt+page_bytes=512+redistribution=on"),
            row("1 KiB, redistribution", &[None], "mvbt+page_bytes=1024+redistribution=on"),
            row("1 KiB, redistribution, no embedding", &[Some(3.7)], FIG_11_REDISTRIBUTED),
            row("2 KiB, redistribution", &[None], "mvbt+page_bytes=2048+redistribution=on"),
            row("4 KiB, redistribution", &[None], "mvbt+page_bytes=4096+redistribution=on"),
            row("8 KiB, redistribution", &[None], "mvbt+page_bytes=8192+redistribution=on"),
        ],
    },
    Sheet {
        source: "Fig. 12, insert",
        title: "What each element saves: inserts a second, pages, KB and flushes",
        theirs: &["theirs/s"],
        columns: &[
            compared("ours/s", "insert", Figure::PerSecond),
            column("pages", "insert", Figure::Pages),
            column("KB", "insert", Figure::Kilobytes),
            column("flushes", "insert", Figure::Flushes),
        ],
        control: WAL,
        rows: &[
            row("TRUNCATE", &[Some(60.0)], TRUNCATE),
            row("WAL", &[Some(416.0)], WAL),
            row("MVBT", &[Some(416.0 * 1.2)], PLAIN_MVBT),
            row("+ embedding", &[Some(416.0 * 1.5)], EMBEDDING),
            row("+ lazy split", &[None], LAZY_SPLIT),
            row("LS-MVBT", &[Some(704.0)], OURS),
            row("LS-MVBT, SQL", &[Some(704.0)], SQL),
            row("redistribution", &[None], REDISTRIBUTION),
        ],
    },
    Sheet {
        source: "Fig. 12, update",
        title: "the same",
        theirs: &[],
        columns: &[
            compared("ours/s", "update", Figure::PerSecond),
            column("pages", "update", Figure::Pages),
            column("KB", "update", Figure::Kilobytes),
            column("flushes", "update", Figure::Flushes),
        ],
        control: WAL,
        rows: &BARS,
    },
    Sheet {
        source: "Fig. 12, delete",
        title: "the same",
        theirs: &[],
        columns: &[
            compared("ours/s", "delete", Figure::PerSecond),
            column("pages", "delete", Figure::Pages),
            column("KB", "delete", Figure::Kilobytes),
            column("flushes", "delete", Figure::Flushes),
        ],
        control: WAL,
        rows: &BARS,
    },
    Sheet {
        source: "Goal, the floor, rising keys",
        title: "A commit and the floor (4 KiB overwrite + fdatasync), in turns",
        theirs: &[],
        columns: &[
            compared("median ms", "floor", Figure::MedianMillis),
            column("× floor", "floor", Figure::MedianToFloor),
            column("mean ms", "floor", Figure::MeanMillis),
        ],
        control: WAL,
        rows: &THREE_ROWS_SQL,
    },
    Sheet {
        source: "Goal, the floor, random keys",
        title: "the same",
        theirs: &[],
        columns: &[
            compared("median ms", "floor-random", Figure::MedianMillis),
            column("× floor", "floor-random", Figure::MedianToFloor),
            column("mean ms", "floor-random", Figure::MeanMillis),
        ],
        control: WAL,
        rows: &THREE_ROWS_SQL,
    },
    Sheet {
        source: "Goal, CPU",
        title: "Processor time of an insert, in µs, by rows in the table; random keys",
        theirs: &[],
        columns: &[
            column("2,000", "random-2000", Figure::CpuMicros),
            column("100,000", "random-100000", Figure::CpuMicros),
            column("1,000,000", "random-1000000", Figure::CpuMicros),
        ],
        control: WAL,
        rows: &TWO_ROWS,
    },
    sql::INSERTS,
    sql::MORE_INSERTS,
    sql::ACCESSES,
    emmc::SHEET,
];
