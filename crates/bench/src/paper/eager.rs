//! Fast Synchronous File Writing for Flash Storage in Android Devices (eager synching), a master's
//! thesis at National Chiao Tung University, 2013. What its chapters 3 and 5 measure.

mod claims;
mod experiments;

use super::short::{column, compared, row};
use super::{Figure, Paper, Row, Sheet};

pub const EAGER: Paper = Paper {
    name: "eager",
    title: "P.-H. Sung, Fast Synchronous File Writing for Flash Storage in Android Devices \
        (eager synching), National Chiao Tung University 2013",
    device: "Google Nexus 7, eMMC of 32 GB, Android 4.2.2, Linux 3.1.10, ext4",
    size_gib: 2,
    experiments: &experiments::EXPERIMENTS,
    sheets: &SHEETS,
    patterns: &[],
    claims: &claims::CLAIMS,
    unmeasured: &claims::UNMEASURED,
    across: &claims::ACROSS,
    notes: &NOTES,
};

/// Android's journal mode from 4.0.4 on, so probably AndroBench's.
const TRUNCATE: &str = "truncate:sqlite";
const TRUNCATE_EAGER: &str = "truncate:sqlite:mounted";
const PERSIST: &str = "persist:sqlite";
const PERSIST_EAGER: &str = "persist:sqlite:mounted";
const STRATEGY: &str = "wal:eager";
/// The calls of SQLite are counted in our VFS.
const CALLS: &str = "truncate:stock";
const TRUNCATE_FULL: &str = "truncate:full:sqlite";
const NO_SYNCS: &str = "truncate:off:sqlite";
const FILES: &str = "files";
const FILES_EAGER: &str = "files:mounted";

const NOTES: [&str; 11] = [
    "Theirs are the numbers of the thesis' tables and text. What only its pictures show is `–`.",
    "Theirs is eager synching inside of ext4, whose journal is the log. Ours is a mount of \
        `oneflush mount` over the same ext4, with a log beside it.",
    "Strategy eager is the same idea for SQLite's WAL alone. It stands beside theirs and is no \
        part of the thesis.",
    "A request's sectors have 512 bytes. Sequential is the part of all sectors that is in bursts \
        longer than 128 sectors; writes that follow each other in time and on the device are one \
        burst.",
    "MB are 1,000,000 bytes at the block device, with all that the kernel writes back behind the \
        run. Which run the MB of Table 5.4 cover is not clear from the thesis.",
    "The file test has the numbers of calls that Table 5.2 leads to: 1,431 random writes of 4 \
        KiB in a file of 43 MiB, 148 sequential writes of 256 KiB, each with `fsync`. They read \
        24,000 blocks and 376 pieces, 191 MB, none of them from a page cache.",
    "A sequential write of 256 KiB is below the threshold of 400 KB and goes to the log, in theirs \
        and in ours.",
    "The apps are replays of recorded file operations without the time between them: \
        DIR/mobigen/NAME.mobigen with `--inputs DIR`. They are not the recordings of the thesis, \
        which were never published.",
    "Emulated eMMC: a model of flash with the numbers that `oneflush bench --device list` prints. \
        Nothing measured on it is a claim about a product.",
    "On ext4 of today an `fsync` that only overwrites makes the journal commit where the file's \
        time has changed. Clocks of files tick every few ms. So on a fast device most syncs are \
        one write, and on a slow one each has its commit.",
    "The thesis tells its best gain as 50 % (abstract), 100 % (introduction) and 73 % (Table 5.4), \
        and its mean gain as 25 %, where its table gives 29 % for the apps and 45 % for all.",
];

const INSERT_ROWS: [Row; 5] = [
    row("ext4, TRUNCATE", &[Some(45.0), Some(38.7), Some(10.1), Some(0.0)], TRUNCATE),
    row("eager, TRUNCATE", &[Some(78.0), Some(41.1), Some(23.0), Some(65.03)], TRUNCATE_EAGER),
    row("ext4, PERSIST", &[None, None, None, None], PERSIST),
    row("eager, PERSIST", &[None, None, None, None], PERSIST_EAGER),
    row("strategy eager", &[None, None, None, None], STRATEGY),
];

const SQL_ROWS: [Row; 5] = [
    row("ext4, TRUNCATE", &[], TRUNCATE),
    row("eager, TRUNCATE", &[], TRUNCATE_EAGER),
    row("ext4, PERSIST", &[], PERSIST),
    row("eager, PERSIST", &[], PERSIST_EAGER),
    row("strategy eager", &[], STRATEGY),
];

const WRITE_ROWS: [Row; 2] = [
    row("ext4", &[Some(0.6), Some(39.4), Some(18.6), Some(0.0)], FILES),
    row("eager", &[Some(1.0), Some(34.9), Some(46.4), Some(99.02)], FILES_EAGER),
];

const FILE_ROWS: [Row; 2] = [row("ext4", &[], FILES), row("eager", &[], FILES_EAGER)];

const FACEBOOK_ROWS: [Row; 2] = [
    row("ext4", &[Some(0.91), Some(85.0), Some(45.73), Some(1.23)], FILES),
    row("eager", &[Some(1.19), Some(91.8), Some(91.15), Some(59.02)], FILES_EAGER),
];

const GMAIL_ROWS: [Row; 2] = [
    row("ext4", &[Some(1.69), Some(306.2), Some(25.74), Some(0.13)], FILES),
    row("eager", &[Some(2.08), Some(292.2), Some(70.99), Some(17.15)], FILES_EAGER),
];

const CHROME_ROWS: [Row; 2] = [
    row("ext4", &[Some(3.80), Some(149.8), Some(63.02), Some(3.49)], FILES),
    row("eager", &[Some(5.05), Some(146.0), Some(126.05), Some(14.44)], FILES_EAGER),
];

const THEIRS: [&str; 4] = ["theirs", "MB", "sectors", "seq %"];

/// What Table 5.4 tells of an experiment.
macro_rules! of_table {
    (
        $title:literal, $rate:ident, $head:literal, $experiment:literal,
        $control:ident, $rows:ident
    ) => {
        Sheet {
            source: "Table 5.4",
            title: $title,
            theirs: &THEIRS,
            columns: &[
                compared($head, $experiment, Figure::$rate),
                compared("MB", $experiment, Figure::TotalMegabytes),
                column("sectors", $experiment, Figure::RequestSectors),
                column("seq %", $experiment, Figure::SequentialPercent),
            ],
            control: $control,
            rows: &$rows,
        }
    };
}

const SHEETS: [Sheet; 23] = [
    of_table!("300 inserts", PerSecond, "TPS", "insert", TRUNCATE, INSERT_ROWS),
    of_table!("300 inserts, emulated eMMC", PerSecond, "TPS", "emmc-insert", TRUNCATE, INSERT_ROWS),
    of_table!(
        "300 inserts, ext4 with fast commits",
        PerSecond,
        "TPS",
        "fast-insert",
        TRUNCATE,
        INSERT_ROWS
    ),
    of_table!(
        "random write of 4 KiB with fsync",
        MegabytesPerSecond,
        "MB/s",
        "random-write",
        FILES,
        WRITE_ROWS
    ),
    of_table!(
        "random write, emulated eMMC",
        MegabytesPerSecond,
        "MB/s",
        "emmc-random-write",
        FILES,
        WRITE_ROWS
    ),
    of_table!(
        "random write, ext4 with fast commits",
        MegabytesPerSecond,
        "MB/s",
        "fast-random-write",
        FILES,
        WRITE_ROWS
    ),
    of_table!("Facebook", MegabytesPerSecond, "MB/s", "facebook", FILES, FACEBOOK_ROWS),
    of_table!(
        "Facebook, emulated eMMC",
        MegabytesPerSecond,
        "MB/s",
        "emmc-facebook",
        FILES,
        FACEBOOK_ROWS
    ),
    of_table!(
        "Facebook, ext4 with fast commits",
        MegabytesPerSecond,
        "MB/s",
        "fast-facebook",
        FILES,
        FACEBOOK_ROWS
    ),
    of_table!("Gmail", MegabytesPerSecond, "MB/s", "gmail", FILES, GMAIL_ROWS),
    of_table!("Chrome", MegabytesPerSecond, "MB/s", "chrome", FILES, CHROME_ROWS),
    Sheet {
        source: "Emulated eMMC, inserts",
        title: "what the flash did for an insert: KB, and days of its life",
        theirs: &[],
        columns: &[
            column("KB", "emmc-insert", Figure::Kilobytes),
            column("programmed", "emmc-insert", Figure::ProgrammedKilobytes),
            column("amplified", "emmc-insert", Figure::WriteAmplification),
            column("erases/1000", "emmc-insert", Figure::Erases),
            column("days", "emmc-insert", Figure::LifeDays),
        ],
        control: TRUNCATE,
        rows: &SQL_ROWS,
    },
    Sheet {
        source: "Emulated eMMC, random write",
        title: "the same for a write of 4 KiB with fsync",
        theirs: &[],
        columns: &[
            column("KB", "emmc-random-write", Figure::Kilobytes),
            column("programmed", "emmc-random-write", Figure::ProgrammedKilobytes),
            column("amplified", "emmc-random-write", Figure::WriteAmplification),
            column("erases/1000", "emmc-random-write", Figure::Erases),
            column("days", "emmc-random-write", Figure::LifeDays),
        ],
        control: FILES,
        rows: &FILE_ROWS,
    },
    Sheet {
        source: "Table 5.2",
        title: "Calls of SQLite in an insert: writes, syncs and KB that are written",
        theirs: &["writes", "syncs", "KB"],
        columns: &[
            column("writes", "calls", Figure::WriteCalls),
            column("syncs", "calls", Figure::SyncCalls),
            column("KB", "calls", Figure::CallKilobytes),
        ],
        control: CALLS,
        rows: &[row("TRUNCATE", &[Some(12.6), Some(5.04), Some(19.7)], CALLS)],
    },
    Sheet {
        source: "Fig. 5.1(a)",
        title: "300 inserts, updates and deletes a second",
        theirs: &[],
        columns: &[
            compared("insert", "insert", Figure::PerSecond),
            compared("update", "update", Figure::PerSecond),
            compared("delete", "delete", Figure::PerSecond),
        ],
        control: TRUNCATE,
        rows: &SQL_ROWS,
    },
    Sheet {
        source: "Fig. 5.1(a), emulated eMMC",
        title: "the same",
        theirs: &[],
        columns: &[
            compared("insert", "emmc-insert", Figure::PerSecond),
            compared("update", "emmc-update", Figure::PerSecond),
            compared("delete", "emmc-delete", Figure::PerSecond),
        ],
        control: TRUNCATE,
        rows: &SQL_ROWS,
    },
    Sheet {
        source: "Fig. 5.1(b), (c)",
        title: "300 inserts: where the KB of each go",
        theirs: &[],
        columns: &[
            column("db in place", "insert", Figure::DbKilobytes),
            column("db, journal, log", "insert", Figure::SqliteKilobytes),
            column("fs journal", "insert", Figure::FsJournalKilobytes),
            column("writes", "insert", Figure::Writes),
            column("flushes", "insert", Figure::Flushes),
        ],
        control: TRUNCATE,
        rows: &SQL_ROWS,
    },
    Sheet {
        source: "Fig. 5.2(a)",
        title: "MB/s of the file test",
        theirs: &[],
        columns: &[
            compared("random write", "random-write", Figure::MegabytesPerSecond),
            compared("sequential", "sequential-write", Figure::MegabytesPerSecond),
            compared("random read", "random-read", Figure::MegabytesPerSecond),
            compared("sequential", "sequential-read", Figure::MegabytesPerSecond),
        ],
        control: FILES,
        rows: &FILE_ROWS,
    },
    Sheet {
        source: "Fig. 5.2(a), emulated eMMC",
        title: "the same",
        theirs: &[],
        columns: &[
            compared("random write", "emmc-random-write", Figure::MegabytesPerSecond),
            compared("sequential", "emmc-sequential-write", Figure::MegabytesPerSecond),
            compared("random read", "emmc-random-read", Figure::MegabytesPerSecond),
            compared("sequential", "emmc-sequential-read", Figure::MegabytesPerSecond),
        ],
        control: FILES,
        rows: &FILE_ROWS,
    },
    Sheet {
        source: "Fig. 5.2(b), (c)",
        title: "random write: where the KB of a sync go",
        theirs: &[],
        columns: &[
            column("file in place", "random-write", Figure::DbKilobytes),
            column("file and log", "random-write", Figure::SqliteKilobytes),
            column("fs journal", "random-write", Figure::FsJournalKilobytes),
            column("writes", "random-write", Figure::Writes),
            column("flushes", "random-write", Figure::Flushes),
        ],
        control: FILES,
        rows: &FILE_ROWS,
    },
    Sheet {
        source: "Sec. 3.1 and 3.3",
        title: "ext4: a write of 4 KiB, the same with fsync (ms), and the longest",
        theirs: &["write", "fsync", "longest"],
        columns: &[
            column("write", "unsynced", Figure::MeanMillis),
            column("with fsync", "append", Figure::MeanMillis),
            column("longest", "append", Figure::LongestMillis),
            column("eMMC", "emmc-append", Figure::MeanMillis),
            column("longest", "emmc-append", Figure::LongestMillis),
        ],
        control: FILES,
        rows: &[
            row("ext4", &[Some(0.032), Some(14.446), Some(440.0)], FILES),
            row("eager", &[None, None, None], FILES_EAGER),
        ],
    },
    Sheet {
        source: "Sec. 3.2",
        title: "300 inserts without any sync: requests, and what is sequential",
        theirs: &[],
        columns: &[
            column("sectors", "no-syncs", Figure::RequestSectors),
            column("seq %", "no-syncs", Figure::SequentialPercent),
            column("MB", "no-syncs", Figure::TotalMegabytes),
        ],
        control: TRUNCATE_FULL,
        rows: &[row("TRUNCATE, FULL", &[], TRUNCATE_FULL), row("TRUNCATE, OFF", &[], NO_SYNCS)],
    },
    Sheet {
        source: "Sec. 4.4",
        title: "a sync with and without locality: requests and KB",
        theirs: &[],
        columns: &[
            column("append: writes", "append", Figure::Writes),
            compared("KB", "append", Figure::Kilobytes),
            column("one block: writes", "one-block", Figure::Writes),
            compared("KB", "one-block", Figure::Kilobytes),
        ],
        control: FILES,
        rows: &FILE_ROWS,
    },
];
