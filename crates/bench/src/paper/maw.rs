//! MAW: Exploiting Multi-Block Atomic Write in SQLite Transaction. What its Tables I, II and III
//! and its Figures 3, 5 and 8 measure.
//!
//! Rows with F2FS run in a guest. There ext4 is measured once more, with the same kernel and disk.

mod emmc;
mod stated;

use super::pattern::{PatternRow, PatternSheet};
use super::short::{self, cell, column, compared, rate, row};
use super::{Cell, Claim, Experiment, Figure, How, Paper, Row, Rule, Sheet, Work};
use oneflush_measure::workload::Operation;

pub const MAW: Paper = Paper {
    name: "maw",
    title: "Exploiting Multi-Block Atomic Write in SQLite Transaction (MAW)",
    device: "Samsung 840 pro (SATA) and 950 pro (NVMe), Linux 4.8, ext4 and F2FS",
    size_gib: 1,
    experiments: &EXPERIMENTS,
    sheets: &SHEETS,
    patterns: &PATTERNS,
    claims: &[&CLAIMS, &stated::STATED, &emmc::CLAIMS],
    unmeasured: &stated::UNMEASURED,
    across: &[],
    notes: &NOTES,
};

const DELETE: &str = "delete:sqlite";
const TRUNCATE: &str = "truncate:sqlite";
const PERSIST: &str = "persist:sqlite";
const WAL: &str = "wal:sqlite";
const DELETE_MAW: &str = "delete:maw+atomic=log";
const TRUNCATE_MAW: &str = "truncate:maw+atomic=log";
const PERSIST_MAW: &str = "persist:maw+atomic=log";
const F2FS_DELETE: &str = "f2fs delete:sqlite";
const F2FS_PERSIST: &str = "f2fs persist:sqlite";
const F2FS_WAL: &str = "f2fs wal:sqlite";
const F2FS_MAW: &str = "f2fs delete:maw+atomic=f2fs";
const F2FS_MAW_TRUNCATE: &str = "f2fs truncate:maw+atomic=f2fs";
const F2FS_MAW_PERSIST: &str = "f2fs persist:maw+atomic=f2fs";
const GUEST_PERSIST: &str = "ext4 persist:sqlite";
const GUEST_WAL: &str = "ext4 wal:sqlite";

const NOTES: [&str; 7] = [
    "Theirs are the numbers in the paper's text and tables, those of the 950 pro where nothing \
        else is said. Of Figure 8 the text has ratios, and they are for inserts.",
    "Tables I and III insert rows of 100 B with AUTOINCREMENT, as the paper does. Figure 8 runs \
        Mobibench's transactions, of one row each.",
    "KB are 1,024 bytes at the block device, with all that the kernel writes back behind them. \
        \"In place\" is what reaches the database file, \"journal\" the file system's.",
    "Each database is new, and each WAL grows until its first checkpoint, as theirs do.",
    "The paper's MAW changes SQLite's pager and needs F2FS. Here SQLite is as it is, and `maw` \
        with `atomic=log` keeps its commits in a log beside the database, on ext4.",
    "On F2FS `maw` with `atomic=f2fs` is the paper's own way; F2FS MAW is with journal mode \
        DELETE. F2FS ran in a guest. \"VM\" is ext4 in a guest with the same kernel and the same \
        emulated disk. × EXT4 PERSIST is to ext4 here.",
    "Random ids: each insert goes to another page of the table, and that page is new to its epoch \
        of the log once.",
];

const fn experiment(
    name: &'static str,
    what: &'static str,
    work: Work,
    operations: u64,
) -> Experiment {
    Experiment { fresh: true, ..short::experiment(name, what, work, operations) }
}

const fn mobibench(name: &'static str, what: &'static str, operation: Operation) -> Experiment {
    experiment(name, what, Work::Mobibench(operation), 10_000)
}

const EXPERIMENTS: [Experiment; 9] = [
    experiment("volume", "Tables I, III: inserts of 100 B", Work::Table(Operation::Insert), 1000),
    Experiment {
        how: How::Recorded,
        ..experiment(
            "pattern",
            "Table II, Fig. 3 and 5: single inserts of 100 B",
            Work::Table(Operation::Insert),
            40,
        )
    },
    mobibench("insert", "Fig. 8: insert", Operation::Insert),
    mobibench("update", "Fig. 8: update", Operation::Update),
    mobibench("delete", "Fig. 8: delete", Operation::Delete),
    experiment("random", "goal: inserts of random ids", Work::MobibenchRandom, 10_000),
    experiment("two", "goal: two databases a transaction", Work::Attached(2), 2000),
    experiment("five", "goal: five databases a transaction", Work::Attached(5), 2000),
    emmc::INSERT,
];

const RATE_ROWS: [Row; 9] = [
    row("EXT4 PERSIST", &[], PERSIST),
    row("EXT4 WAL", &[], WAL),
    row("F2FS PERSIST", &[], F2FS_PERSIST),
    row("F2FS WAL", &[], F2FS_WAL),
    row("F2FS MAW", &[], F2FS_MAW),
    row("log, DELETE", &[], DELETE_MAW),
    row("log, TRUNCATE", &[], TRUNCATE_MAW),
    row("log, PERSIST", &[], PERSIST_MAW),
    row("VM PERSIST", &[], GUEST_PERSIST),
];

const ATTACHED_ROWS: [Row; 4] = [
    row("DELETE", &[], DELETE),
    row("PERSIST", &[], PERSIST),
    row("WAL", &[], WAL),
    row("log, PERSIST", &[], PERSIST_MAW),
];

const SHEETS: [Sheet; 9] = [
    Sheet {
        source: "Table I",
        title: "Bytes of an insert of 100 B on ext4, in KB",
        theirs: &["data", "journal", "total"],
        columns: &[
            column("data", "volume", Figure::DataKilobytes),
            column("journal", "volume", Figure::FsJournalKilobytes),
            compared("total", "volume", Figure::Kilobytes),
            column("flushes", "volume", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &[
            row("DELETE", &[Some(32.0), Some(32.0), Some(64.0)], DELETE),
            row("TRUNCATE", &[Some(32.0), Some(44.0), Some(76.0)], TRUNCATE),
            row("PERSIST", &[Some(36.0), Some(12.0), Some(48.0)], PERSIST),
            row("WAL", &[Some(12.0), Some(24.0), Some(36.0)], WAL),
        ],
    },
    Sheet {
        source: "Table III",
        title: "Bytes of an insert of 100 B, in KB",
        theirs: &["SQLite", "fs", "total"],
        columns: &[
            column("SQLite", "volume", Figure::SqliteKilobytes),
            column("fs", "volume", Figure::FsKilobytes),
            compared("total", "volume", Figure::Kilobytes),
            column("in place", "volume", Figure::DbKilobytes),
            column("flushes", "volume", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &[
            row("EXT4 PERSIST", &[Some(36.0), Some(12.0), Some(48.0)], PERSIST),
            row("EXT4 WAL", &[Some(12.0), Some(24.0), Some(36.0)], WAL),
            row("F2FS PERSIST", &[Some(36.0), Some(16.0), Some(52.0)], F2FS_PERSIST),
            row("F2FS WAL", &[Some(12.0), Some(4.0), Some(16.0)], F2FS_WAL),
            row("F2FS MAW", &[Some(12.0), Some(4.0), Some(16.0)], F2FS_MAW),
            row("MAW TRUNCATE", &[None, None, None], F2FS_MAW_TRUNCATE),
            row("MAW, PERSIST", &[None, None, None], F2FS_MAW_PERSIST),
            row("F2FS DELETE", &[None, None, None], F2FS_DELETE),
            row("log, PERSIST", &[None, None, None], PERSIST_MAW),
            row("VM PERSIST", &[None, None, None], GUEST_PERSIST),
            row("VM WAL", &[None, None, None], GUEST_WAL),
        ],
    },
    Sheet {
        source: "Fig. 8, insert",
        title: "10,000 inserts, transactions a second, KB and flushes a transaction",
        theirs: &["× PERSIST"],
        columns: &[
            compared("ours/s", "insert", Figure::PerSecond),
            compared("KB", "insert", Figure::Kilobytes),
            column("in place", "insert", Figure::DbKilobytes),
            column("flushes", "insert", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &[
            row("EXT4 PERSIST", &[Some(1.0)], PERSIST),
            row("EXT4 WAL", &[Some(5.87 / 2.05)], WAL),
            row("F2FS PERSIST", &[Some(5.87 / 3.83)], F2FS_PERSIST),
            row("F2FS WAL", &[Some(5.87 / 1.01)], F2FS_WAL),
            row("F2FS MAW", &[Some(5.87)], F2FS_MAW),
            row("log, DELETE", &[None], DELETE_MAW),
            row("log, TRUNCATE", &[None], TRUNCATE_MAW),
            row("log, PERSIST", &[None], PERSIST_MAW),
            row("VM PERSIST", &[None], GUEST_PERSIST),
        ],
    },
    Sheet {
        source: "Fig. 8, update",
        title: "10,000 updates, the same",
        theirs: &[],
        columns: &[
            compared("ours/s", "update", Figure::PerSecond),
            compared("KB", "update", Figure::Kilobytes),
            column("in place", "update", Figure::DbKilobytes),
            column("flushes", "update", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &RATE_ROWS,
    },
    Sheet {
        source: "Fig. 8, delete",
        title: "10,000 deletes, the same",
        theirs: &[],
        columns: &[
            compared("ours/s", "delete", Figure::PerSecond),
            compared("KB", "delete", Figure::Kilobytes),
            column("in place", "delete", Figure::DbKilobytes),
            column("flushes", "delete", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &RATE_ROWS,
    },
    Sheet {
        source: "Goal, random ids",
        title: "10,000 inserts whose ids are in random order, the same",
        theirs: &[],
        columns: &[
            compared("ours/s", "random", Figure::PerSecond),
            compared("KB", "random", Figure::Kilobytes),
            column("in place", "random", Figure::DbKilobytes),
            column("flushes", "random", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &[
            row("EXT4 PERSIST", &[], PERSIST),
            row("EXT4 WAL", &[], WAL),
            row("log, PERSIST", &[], PERSIST_MAW),
        ],
    },
    Sheet {
        source: "Goal, two databases",
        title: "A row in each of two attached databases a transaction",
        theirs: &[],
        columns: &[
            compared("ours/s", "two", Figure::PerSecond),
            compared("KB", "two", Figure::Kilobytes),
            compared("flushes", "two", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &ATTACHED_ROWS,
    },
    Sheet {
        source: "Goal, five databases",
        title: "A row in each of five attached databases a transaction",
        theirs: &[],
        columns: &[
            compared("ours/s", "five", Figure::PerSecond),
            compared("KB", "five", Figure::Kilobytes),
            compared("flushes", "five", Figure::Flushes),
        ],
        control: PERSIST,
        rows: &ATTACHED_ROWS,
    },
    emmc::SHEET,
];

const fn pattern(label: &'static str, theirs: &'static str, mode: &'static str) -> PatternRow {
    PatternRow { label, theirs, mode }
}

/// Theirs are as their Table II and their text have them; the pictures show no more.
const PATTERNS: [PatternSheet; 2] = [
    PatternSheet {
        source: "Table II and Fig. 3",
        title: "The writes of an insert of 100 B on ext4",
        experiment: "pattern",
        rows: &[
            pattern("EXT4 PERSIST", "J12 J4 N8 N4 | J4 | D4 D8 | J4 |", PERSIST),
            pattern("EXT4 WAL", "J12 N24 |", WAL),
            pattern("log, PERSIST", "", PERSIST_MAW),
        ],
    },
    PatternSheet {
        source: "Fig. 5",
        title: "The writes of an insert of 100 B on F2FS",
        experiment: "pattern",
        rows: &[
            pattern("F2FS PERSIST", "J16 N4 | J4 N4 | D12 N4 | J4 N4 |", F2FS_PERSIST),
            pattern("F2FS WAL", "J12 N4 |", F2FS_WAL),
            pattern("F2FS MAW", "D12 N4 |", F2FS_MAW),
            pattern("MAW, PERSIST", "", F2FS_MAW_PERSIST),
            pattern("F2FS DELETE", "", F2FS_DELETE),
        ],
    },
];

const fn volume(experiment: &'static str, mode: &'static str) -> Cell {
    cell(experiment, mode, Figure::Kilobytes)
}

const FLUSH_COSTS: &str = "A flush costs this device less than theirs, so fewer flushes gain less.";

/// As near to their ratio as a machine of another kind can be asked to be: nine tenths of it.
const fn at_least(times: f64) -> Rule {
    Rule::AtLeast { holds: times * 0.9, in_part: 1.1 }
}

const ONE_FLUSH: Rule = Rule::AtMost { holds: 1.05, in_part: 1.25 };
const FOUR_TIMES: Rule = Rule::AtLeast { holds: 4.0, in_part: 2.0 };

const CLAIMS: [Claim; 20] = [
    Claim {
        source: "Table I",
        says: "DELETE writes 1.33 times the bytes of PERSIST",
        theirs: Some(64.0 / 48.0),
        over: &[volume("volume", DELETE)],
        under: &[volume("volume", PERSIST)],
        rule: Rule::Between { holds: [1.2, 1.47], in_part: [1.05, 1.75] },
        unless: "",
    },
    Claim {
        source: "Table I",
        says: "TRUNCATE writes 1.58 times the bytes of PERSIST",
        theirs: Some(76.0 / 48.0),
        over: &[volume("volume", TRUNCATE)],
        under: &[volume("volume", PERSIST)],
        rule: Rule::Between { holds: [1.42, 1.74], in_part: [1.1, 2.0] },
        unless: "",
    },
    Claim {
        source: "Table I",
        says: "WAL writes 3/4 of the bytes of PERSIST, most of it the file system's journal",
        theirs: Some(36.0 / 48.0),
        over: &[volume("volume", WAL)],
        under: &[volume("volume", PERSIST)],
        rule: Rule::AtMost { holds: 0.75, in_part: 0.9 },
        unless: "",
    },
    Claim {
        source: "Table III",
        says: "MAW writes a third of the bytes of PERSIST on ext4",
        theirs: Some(16.0 / 48.0),
        over: &[volume("volume", PERSIST_MAW)],
        under: &[volume("volume", PERSIST)],
        rule: Rule::AtMost { holds: 1.0 / 3.0, in_part: 0.5 },
        unless: "",
    },
    Claim {
        source: "Table III",
        says: "MAW writes a third of the bytes of PERSIST on ext4, by F2FS's atomic write",
        theirs: Some(16.0 / 48.0),
        over: &[volume("volume", F2FS_MAW)],
        under: &[volume("volume", GUEST_PERSIST)],
        rule: Rule::AtMost { holds: 1.0 / 3.0, in_part: 0.5 },
        unless: "",
    },
    Claim {
        source: "Table III",
        says: "MAW writes 16 KB an insert on F2FS",
        theirs: Some(16.0),
        over: &[volume("volume", F2FS_MAW)],
        under: &[],
        rule: Rule::AtMost { holds: 16.0, in_part: 17.6 },
        unless: "The mean has what F2FS writes in between: the table's new pages and its own \
            checkpoint.",
    },
    Claim {
        source: "Table III",
        says: "PERSIST on F2FS writes 1.08 times the bytes of PERSIST on ext4",
        theirs: Some(52.0 / 48.0),
        over: &[volume("volume", F2FS_PERSIST)],
        under: &[volume("volume", GUEST_PERSIST)],
        rule: Rule::Between { holds: [0.98, 1.2], in_part: [0.9, 1.3] },
        unless: "",
    },
    Claim {
        source: "Table III",
        says: "WAL on F2FS writes a third of the bytes of PERSIST on ext4",
        theirs: Some(16.0 / 48.0),
        over: &[volume("volume", F2FS_WAL)],
        under: &[volume("volume", GUEST_PERSIST)],
        rule: Rule::AtMost { holds: 1.0 / 3.0, in_part: 0.5 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "DELETE with F2FS's atomic write writes 10 % less than WAL on F2FS, 10,000 inserts",
        theirs: Some(0.9),
        over: &[volume("insert", F2FS_MAW)],
        under: &[volume("insert", F2FS_WAL)],
        rule: Rule::AtMost { holds: 0.9, in_part: 1.0 },
        unless: "A commit of one row in WAL mode leaves page 1 alone. A WAL that has its length is \
            overwritten in place, without a node.",
    },
    Claim {
        source: "Fig. 8",
        says: "MAW inserts 5.87 times as fast as PERSIST on ext4 (840 pro: 4.89)",
        theirs: Some(5.87),
        over: &[rate("insert", PERSIST_MAW)],
        under: &[rate("insert", PERSIST)],
        rule: at_least(4.89),
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Fig. 8",
        says: "MAW inserts 2.05 times as fast as WAL on ext4 (840 pro: 1.75)",
        theirs: Some(2.05),
        over: &[rate("insert", PERSIST_MAW)],
        under: &[rate("insert", WAL)],
        rule: at_least(1.75),
        unless: "Stock SQLite's WAL no longer makes the file system journal once it has its \
            length, and over 10,000 inserts it has it most of the time.",
    },
    Claim {
        source: "Goal",
        says: "an insert writes 1/8 of the bytes of PERSIST",
        theirs: None,
        over: &[volume("insert", PERSIST_MAW)],
        under: &[volume("insert", PERSIST)],
        rule: Rule::AtMost { holds: 0.125, in_part: 0.25 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "with random ids, 1/4 of the bytes of PERSIST",
        theirs: None,
        over: &[volume("random", PERSIST_MAW)],
        under: &[volume("random", PERSIST)],
        rule: Rule::AtMost { holds: 0.25, in_part: 0.5 },
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "inserts are 4 times as fast as with PERSIST",
        theirs: None,
        over: &[rate("insert", PERSIST_MAW)],
        under: &[rate("insert", PERSIST)],
        rule: FOUR_TIMES,
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Goal",
        says: "updates are 4 times as fast as with PERSIST",
        theirs: None,
        over: &[rate("update", PERSIST_MAW)],
        under: &[rate("update", PERSIST)],
        rule: FOUR_TIMES,
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Goal",
        says: "deletes are 4 times as fast as with PERSIST",
        theirs: None,
        over: &[rate("delete", PERSIST_MAW)],
        under: &[rate("delete", PERSIST)],
        rule: FOUR_TIMES,
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Goal",
        says: "an insert takes 1.05 flushes at most",
        theirs: None,
        over: &[cell("insert", PERSIST_MAW, Figure::Flushes)],
        under: &[],
        rule: ONE_FLUSH,
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "with random ids, 1.05 flushes at most",
        theirs: None,
        over: &[cell("random", PERSIST_MAW, Figure::Flushes)],
        under: &[],
        rule: ONE_FLUSH,
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "a transaction over two databases takes 1.05 flushes at most",
        theirs: None,
        over: &[cell("two", PERSIST_MAW, Figure::Flushes)],
        under: &[],
        rule: ONE_FLUSH,
        unless: "",
    },
    Claim {
        source: "Goal",
        says: "a transaction over five databases takes 1.05 flushes at most",
        theirs: None,
        over: &[cell("five", PERSIST_MAW, Figure::Flushes)],
        under: &[],
        rule: ONE_FLUSH,
        unless: "",
    },
];
