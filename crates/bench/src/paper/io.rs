//! On the IO characteristics of the SQLite Transactions, MobileSoft 2016. What its sections 2 to 4
//! measure: sizes, shares and latencies of single transactions, found in traces of block I/O.

mod claims;

use super::short::{self, column, row};
use super::{At, Experiment, Figure, How, On, Ours, Paper, Quantity, Row, Sheet, Work};
use oneflush_measure::workload::{Files, Operation};

pub const IO: Paper = Paper {
    name: "io",
    title: "D. Q. Tuan, S. Cheon, Y. Won, On the IO characteristics of the SQLite Transactions, \
        MobileSoft 2016",
    device: "phones of four users, traced for six months, Android 4.4 and 5, ext4",
    size_gib: 2,
    experiments: &EXPERIMENTS,
    sheets: &SHEETS,
    patterns: &[],
    claims: &claims::CLAIMS,
    unmeasured: &claims::UNMEASURED,
    across: &claims::ACROSS,
    notes: &NOTES,
};

const DELETE: &str = "delete:sqlite";
const DELETE_NORMAL: &str = "delete:normal:sqlite";
const TRUNCATE: &str = "truncate:sqlite";
const TRUNCATE_NORMAL: &str = "truncate:normal:sqlite";
const PERSIST: &str = "persist:sqlite";
const PERSIST_NORMAL: &str = "persist:normal:sqlite";
const WAL: &str = "wal:sqlite";
/// With the calls of SQLite counted in our VFS.
const DELETE_CALLS: &str = "delete:stock";
const DELETE_NORMAL_CALLS: &str = "delete:normal:stock";
const TRUNCATE_CALLS: &str = "truncate:stock";
const PERSIST_CALLS: &str = "persist:stock";
const PERSIST_NORMAL_CALLS: &str = "persist:normal:stock";
const WAL_CALLS: &str = "wal:stock";
const WAL_NORMAL_CALLS: &str = "wal:normal:stock";
const FILES: &str = "files";
/// Traces of others: names in DIR/traces.
const YCSB: &str = "phone_ycsb_a.ftrace.gz";
const MOST: &str = "most_result.po";

const NOTES: [&str; 7] = [
    "Theirs are the numbers of the text and the tables. What only pictures show is `–`. Where \
        users differ, the claim names the user.",
    "Ours are of three kinds: two traces of phones that others recorded (DIR/traces with `--inputs \
        DIR`), the SQL of two apps run here in PERSIST and recorded (DIR/sql), and single inserts \
        here in each journal mode, recorded.",
    "Transactions are found in the recordings by `oneflush identify`, which is not told the mode. \
        KB are 1,024 bytes.",
    "The two phones' traces have 447 transactions of one app and 6 of three. Quantiles beyond \
        their numbers are the largest.",
    "Calls are those of SQLite to its files, counted in our VFS. The one that synchronizes the \
        folder is not in them.",
    "An app's statements run one after the other on one connection, without the time between them. \
        On the phone two threads ran them.",
    "The device of a run here is not a phone's. So latencies are compared to their own median; the \
        emulated eMMC has ms beside theirs.",
];

const fn experiment(name: &'static str, what: &'static str, work: Work, count: u64) -> Experiment {
    Experiment { fresh: true, ..short::experiment(name, what, work, count) }
}

const fn recorded(name: &'static str, what: &'static str, work: Work, count: u64) -> Experiment {
    Experiment { how: How::Recorded, ..experiment(name, what, work, count) }
}

const INSERT: Work = Work::Mobibench(Operation::Insert);

const EXPERIMENTS: [Experiment; 8] = [
    recorded("single", "Fig. 6, Table 1: single inserts", INSERT, 200),
    Experiment {
        is_long: true,
        ..recorded("update", "Sec. 4.3: single updates", Work::Mobibench(Operation::Update), 200)
    },
    recorded("facebook", "Tables 2 to 5: Facebook's SQL", Work::Sql("facebook"), 0),
    recorded("twitter", "Tables 2 to 5: Twitter's SQL", Work::Sql("twitter"), 0),
    experiment("phones", "Tables 2 to 5: traces of phones", Work::Traces, 0),
    experiment("calls", "Sec. 3: calls of SQLite", INSERT, 500),
    experiment("overwrite", "Sec. 2.2: fsync of an overwrite", Work::Files(Files::Overwrite), 1000),
    Experiment {
        on: On::Emmc,
        is_long: true,
        ..recorded("emmc-single", "Table 2: single inserts, eMMC", INSERT, 100)
    },
];

const SINGLE_ROWS: [Row; 7] = [
    row("DELETE, FULL", &[None], DELETE),
    row("TRUNCATE, FULL", &[None], TRUNCATE),
    row("PERSIST, FULL", &[Some(36.0)], PERSIST),
    row("DELETE, NORMAL", &[None], DELETE_NORMAL),
    row("TRUNCATE, NORMAL", &[None], TRUNCATE_NORMAL),
    row("PERSIST, NORMAL", &[None], PERSIST_NORMAL),
    row("WAL, FULL", &[None], WAL),
];

const CALL_ROWS: [Row; 7] = [
    row("DELETE, FULL", &[Some(3.0)], DELETE_CALLS),
    row("TRUNCATE, FULL", &[Some(3.0)], TRUNCATE_CALLS),
    row("PERSIST, FULL", &[Some(4.0)], PERSIST_CALLS),
    row("DELETE, NORMAL", &[None], DELETE_NORMAL_CALLS),
    row("PERSIST, NORMAL", &[Some(3.0)], PERSIST_NORMAL_CALLS),
    row("WAL, FULL", &[Some(1.0)], WAL_CALLS),
    row("WAL, NORMAL", &[Some(0.0)], WAL_NORMAL_CALLS),
];

/// One of the paper's users.
const fn of_user(label: &'static str, theirs: &'static [Option<f64>]) -> Row {
    Row { label, theirs: &[], ours: Ours::Theirs(theirs) }
}

/// The same rows for sizes and for latencies.
macro_rules! spread {
    (
        $source:literal, $title:literal, $quantity:ident, $experiment:literal,
        $control:ident, $rows:expr
    ) => {
        Sheet {
            source: $source,
            title: $title,
            theirs: &[],
            columns: &[
                column("median", $experiment, Figure::Each(Quantity::$quantity, At::Median)),
                column("mean", $experiment, Figure::Each(Quantity::$quantity, At::Mean)),
                column("75", $experiment, Figure::Each(Quantity::$quantity, At::P75)),
                column("99", $experiment, Figure::Each(Quantity::$quantity, At::P99)),
                column("99.9", $experiment, Figure::Each(Quantity::$quantity, At::P999)),
                column("max", $experiment, Figure::Each(Quantity::$quantity, At::Most)),
            ],
            control: $control,
            rows: $rows,
        }
    };
}

const SHEETS: [Sheet; 13] = [
    spread!(
        "Table 2, phones",
        "latency of a transaction in ms",
        Latency,
        "phones",
        YCSB,
        &[
            of_user("user 1, theirs", &SIX_MS[0]),
            of_user("user 2, theirs", &SIX_MS[1]),
            of_user("user 3, theirs", &SIX_MS[2]),
            of_user("user 4, theirs", &SIX_MS[3]),
            row("phone, YCSB", &[], YCSB),
            row("phone, six apps", &[], MOST),
        ]
    ),
    spread!(
        "Table 2, Facebook's SQL",
        "the same, here",
        Latency,
        "facebook",
        PERSIST,
        &[row("PERSIST", &[], PERSIST)]
    ),
    spread!(
        "Table 2, emulated eMMC",
        "single inserts, the same",
        Latency,
        "emmc-single",
        PERSIST,
        &[row("TRUNCATE", &[], TRUNCATE), row("PERSIST", &[], PERSIST)]
    ),
    spread!(
        "Table 3, phones",
        "bytes of a transaction in KB",
        Bytes,
        "phones",
        YCSB,
        &[
            of_user("user 1, theirs", &SIX_KB[0]),
            of_user("user 2, theirs", &SIX_KB[1]),
            of_user("user 3, theirs", &SIX_KB[2]),
            of_user("user 4, theirs", &SIX_KB[3]),
            row("phone, YCSB", &[], YCSB),
            row("phone, six apps", &[], MOST),
        ]
    ),
    spread!(
        "Table 3, Facebook's SQL",
        "the same, here",
        Bytes,
        "facebook",
        PERSIST,
        &[row("PERSIST", &[], PERSIST)]
    ),
    spread!(
        "Table 3, Twitter's SQL",
        "the same, here",
        Bytes,
        "twitter",
        PERSIST,
        &[row("PERSIST", &[], PERSIST)]
    ),
    Sheet {
        source: "Table 4, phones",
        title: "medians of KB by kind of file, and the 99 % quantiles",
        theirs: &[],
        columns: &[
            column("db", "phones", Figure::Each(Quantity::DbBytes, At::Median)),
            column("journal", "phones", Figure::Each(Quantity::JournalBytes, At::Median)),
            column("ext4", "phones", Figure::Each(Quantity::FsJournalBytes, At::Median)),
            column("99", "phones", Figure::Each(Quantity::DbBytes, At::P99)),
            column("99", "phones", Figure::Each(Quantity::JournalBytes, At::P99)),
            column("99", "phones", Figure::Each(Quantity::FsJournalBytes, At::P99)),
        ],
        control: YCSB,
        rows: &[
            of_user(
                "users, theirs",
                &[Some(12.0), Some(24.0), Some(16.0), Some(64.0), Some(68.0), Some(104.0)],
            ),
            row("phone, YCSB", &[], YCSB),
            row("phone, six apps", &[], MOST),
        ],
    },
    Sheet {
        source: "Table 5, phones",
        title: "percent of the bytes by kind of file; write requests that a thread waits for",
        theirs: &[],
        columns: &[
            column("db", "phones", Figure::SharePercent(Quantity::DbBytes)),
            column("journal", "phones", Figure::SharePercent(Quantity::JournalBytes)),
            column("ext4", "phones", Figure::SharePercent(Quantity::FsJournalBytes)),
            column("synchronous", "phones", Figure::SyncWritePercent),
            column("PERSIST, FULL", "phones", Figure::FoundPercent("persist full")),
        ],
        control: YCSB,
        rows: &[
            of_user("user 1, theirs", &[Some(22.1), Some(40.3), Some(37.6), None, None]),
            of_user("user 2, theirs", &[Some(20.5), Some(37.7), Some(41.9), None, None]),
            of_user("user 3, theirs", &[Some(23.5), Some(39.8), Some(36.7), None, None]),
            of_user("user 4, theirs", &[Some(22.8), Some(40.1), Some(37.1), None, None]),
            row("phone, YCSB", &[], YCSB),
            row("phone, six apps", &[], MOST),
        ],
    },
    Sheet {
        source: "Tables 4 and 5, the apps' SQL",
        title: "the same, here: percent of the bytes, and medians of KB",
        theirs: &[],
        columns: &[
            column("Facebook db %", "facebook", Figure::SharePercent(Quantity::DbBytes)),
            column("journal", "facebook", Figure::SharePercent(Quantity::JournalBytes)),
            column("ext4", "facebook", Figure::SharePercent(Quantity::FsJournalBytes)),
            column("db KB", "facebook", Figure::Each(Quantity::DbBytes, At::Median)),
            column("Twitter db %", "twitter", Figure::SharePercent(Quantity::DbBytes)),
            column("journal", "twitter", Figure::SharePercent(Quantity::JournalBytes)),
            column("ext4", "twitter", Figure::SharePercent(Quantity::FsJournalBytes)),
        ],
        control: PERSIST,
        rows: &[row("PERSIST", &[], PERSIST)],
    },
    Sheet {
        source: "Fig. 6 and Table 1",
        title: "single inserts: KB by kind of file, flushes and syncs (medians)",
        theirs: &["theirs"],
        columns: &[
            column("KB", "single", Figure::Each(Quantity::Bytes, At::Median)),
            column("db", "single", Figure::Each(Quantity::DbBytes, At::Median)),
            column("journal", "single", Figure::Each(Quantity::JournalBytes, At::Median)),
            column("ext4", "single", Figure::Each(Quantity::FsJournalBytes, At::Median)),
            column("flushes", "single", Figure::Each(Quantity::Flushes, At::Median)),
            column("syncs", "single", Figure::Each(Quantity::Syncs, At::Median)),
        ],
        control: PERSIST,
        rows: &SINGLE_ROWS,
    },
    Sheet {
        source: "Fig. 8 and 10",
        title: "calls of SQLite in an insert",
        theirs: &["syncs"],
        columns: &[
            column("syncs", "calls", Figure::SyncCalls),
            column("writes", "calls", Figure::WriteCalls),
            column("KB", "calls", Figure::CallKilobytes),
        ],
        control: PERSIST_CALLS,
        rows: &CALL_ROWS,
    },
    Sheet {
        source: "Sec. 2.2",
        title: "an overwrite of 4 KiB with fsync: KB, writes and flushes",
        theirs: &[],
        columns: &[
            column("fs journal", "overwrite", Figure::FsJournalKilobytes),
            column("KB", "overwrite", Figure::Kilobytes),
            column("writes", "overwrite", Figure::Writes),
            column("flushes", "overwrite", Figure::Flushes),
        ],
        control: FILES,
        rows: &[row("ext4", &[], FILES)],
    },
    Sheet {
        source: "Sec. 4.3",
        title: "the smallest transaction: an update of one row",
        theirs: &["KB", "flushes"],
        columns: &[
            column("KB", "update", Figure::Each(Quantity::Bytes, At::Least)),
            column("requests", "update", Figure::Each(Quantity::Requests, At::Least)),
            column("flushes", "update", Figure::Each(Quantity::Flushes, At::Least)),
        ],
        control: PERSIST,
        rows: &[row("PERSIST, FULL", &[Some(16.0), Some(4.0)], PERSIST)],
    },
];

/// Median, mean and quantiles of four users.
const SIX_MS: [[Option<f64>; 6]; 4] = [
    [Some(11.9), Some(27.9), Some(15.4), Some(62.3), Some(266.6), Some(110_543.6)],
    [Some(12.4), Some(42.8), Some(17.0), Some(109.4), Some(4626.2), Some(295_934.1)],
    [Some(12.0), Some(47.2), Some(17.0), Some(86.5), Some(9261.6), Some(222_575.4)],
    [Some(11.2), Some(68.8), Some(16.0), Some(84.4), Some(12_986.8), Some(281_887.2)],
];
const SIX_KB: [[Option<f64>; 6]; 4] = [
    [Some(56.0), Some(61.2), Some(76.0), Some(144.0), Some(280.0), Some(12_928.0)],
    [Some(56.0), Some(63.6), Some(80.0), Some(172.0), Some(332.0), Some(5356.0)],
    [Some(56.0), Some(68.5), Some(80.0), Some(212.0), Some(428.0), Some(17_880.0)],
    [Some(60.0), Some(64.9), Some(76.0), Some(188.0), Some(312.0), Some(11_364.0)],
];
