//! What the paper says, and the goals beyond it.

use super::sql::{SQL, SQL_TRUNCATE, SQL_WAL};
use super::{EMBEDDING, OURS, PLAIN_MVBT, TRUNCATE, WAL, WAL_GROWING};
use crate::paper::short::cell;
use crate::paper::{Claim, Figure, Rule};

/// At most this, and in part that. A macro, since a constant function cannot lend a list.
macro_rules! goal {
    ($says:literal, $experiment:literal, $figure:ident, $holds:literal, $in_part:literal) => {
        Claim {
            source: "Goal",
            says: $says,
            theirs: None,
            over: &[cell($experiment, OURS, Figure::$figure)],
            under: &[],
            rule: Rule::AtMost { holds: $holds, in_part: $in_part },
            unless: "",
        }
    };
}

/// Faster than a mode of SQLite.
macro_rules! faster {
    ($says:literal, $experiment:literal, $mode:ident) => {
        Claim {
            source: "Fig. 9",
            says: $says,
            theirs: None,
            over: &[cell($experiment, OURS, Figure::PerSecond)],
            under: &[cell($experiment, $mode, Figure::PerSecond)],
            rule: Rule::AtLeast { holds: 1.0, in_part: 0.9 },
            unless: "",
        }
    };
}

/// Open sooner than a mode of SQLite after a crash.
macro_rules! sooner {
    ($says:literal, $experiment:literal, $mode:ident, $theirs:expr) => {
        Claim {
            source: "Fig. 10",
            says: $says,
            theirs: $theirs,
            over: &[cell($experiment, $mode, Figure::MedianMillis)],
            under: &[cell($experiment, OURS, Figure::MedianMillis)],
            rule: Rule::AtLeast { holds: 1.0, in_part: 0.8 },
            unless: "",
        }
    };
}

/// A bar of Fig. 12 beside another one.
macro_rules! bar {
    ($says:literal, $over:ident, $under:ident, $times:expr) => {
        Claim {
            source: "Fig. 12",
            says: $says,
            theirs: Some($times),
            over: &[cell("insert", $over, Figure::PerSecond)],
            under: &[cell("insert", $under, Figure::PerSecond)],
            rule: at_least($times),
            unless: FLUSH_COSTS,
        }
    };
}

/// As near to their ratio as a machine of another kind can be asked to be: nine tenths of it.
pub const fn at_least(times: f64) -> Rule {
    Rule::AtLeast { holds: times * 0.9, in_part: 1.0 }
}

pub const FLUSH_COSTS: &str = "Most of a commit is the flush here, and each mode has one. In \
    theirs it made the file system write its journal.";

pub const CLAIMS: [Claim; 66] = [
    goal!("2,000 rows, rising keys: an insert writes 1.10 pages", "rising-2000", Pages, 1.10, 1.25),
    goal!(
        "10,000 rows, rising keys: an insert writes 1.10 pages",
        "rising-10000",
        Pages,
        1.10,
        1.25
    ),
    goal!(
        "100,000 rows, rising keys: an insert writes 1.10 pages",
        "rising-100000",
        Pages,
        1.10,
        1.25
    ),
    goal!(
        "1,000,000 rows, rising keys: an insert writes 1.10 pages",
        "rising-1000000",
        Pages,
        1.10,
        1.25
    ),
    goal!("2,000 rows, random keys: an insert writes 1.15 pages", "random-2000", Pages, 1.15, 1.30),
    goal!(
        "10,000 rows, random keys: an insert writes 1.15 pages",
        "random-10000",
        Pages,
        1.15,
        1.30
    ),
    goal!(
        "100,000 rows, random keys: an insert writes 1.15 pages",
        "random-100000",
        Pages,
        1.15,
        1.30
    ),
    goal!(
        "1,000,000 rows, random keys: an insert writes 1.15 pages",
        "random-1000000",
        Pages,
        1.15,
        1.30
    ),
    goal!("2,000 rows, rising keys: an insert writes 4.9 KB", "rising-2000", Kilobytes, 4.9, 5.5),
    goal!("10,000 rows, rising keys: an insert writes 4.9 KB", "rising-10000", Kilobytes, 4.9, 5.5),
    goal!(
        "100,000 rows, rising keys: an insert writes 4.9 KB",
        "rising-100000",
        Kilobytes,
        4.9,
        5.5
    ),
    goal!(
        "1,000,000 rows, rising keys: an insert writes 4.9 KB",
        "rising-1000000",
        Kilobytes,
        4.9,
        5.5
    ),
    goal!("2,000 rows, random keys: an insert writes 4.9 KB", "random-2000", Kilobytes, 4.9, 5.5),
    goal!("10,000 rows, random keys: an insert writes 4.9 KB", "random-10000", Kilobytes, 4.9, 5.5),
    goal!(
        "100,000 rows, random keys: an insert writes 4.9 KB",
        "random-100000",
        Kilobytes,
        4.9,
        5.5
    ),
    goal!(
        "1,000,000 rows, random keys: an insert writes 4.9 KB",
        "random-1000000",
        Kilobytes,
        4.9,
        5.5
    ),
    goal!(
        "2,000 rows, rising keys: an insert takes 1.01 flushes",
        "rising-2000",
        Flushes,
        1.01,
        1.1
    ),
    goal!(
        "10,000 rows, rising keys: an insert takes 1.01 flushes",
        "rising-10000",
        Flushes,
        1.01,
        1.1
    ),
    goal!(
        "100,000 rows, rising keys: an insert takes 1.01 flushes",
        "rising-100000",
        Flushes,
        1.01,
        1.1
    ),
    goal!(
        "1,000,000 rows, rising keys: an insert takes 1.01 flushes",
        "rising-1000000",
        Flushes,
        1.01,
        1.1
    ),
    goal!(
        "2,000 rows, random keys: an insert takes 1.01 flushes",
        "random-2000",
        Flushes,
        1.01,
        1.1
    ),
    goal!(
        "10,000 rows, random keys: an insert takes 1.01 flushes",
        "random-10000",
        Flushes,
        1.01,
        1.1
    ),
    goal!(
        "100,000 rows, random keys: an insert takes 1.01 flushes",
        "random-100000",
        Flushes,
        1.01,
        1.1
    ),
    goal!(
        "1,000,000 rows, random keys: an insert takes 1.01 flushes",
        "random-1000000",
        Flushes,
        1.01,
        1.1
    ),
    Claim {
        source: "Fig. 6(b)",
        says: "an insert writes a third of the pages that WAL writes",
        theirs: Some(1.0 / 3.0),
        over: &[cell("random-2000", OURS, Figure::Pages)],
        under: &[cell("random-2000", WAL, Figure::Pages)],
        rule: Rule::AtMost { holds: 1.0 / 3.0, in_part: 1.0 },
        unless: "A row without AUTOINCREMENT changes one page of a table of SQLite.",
    },
    Claim {
        source: "Fig. 6(a)",
        says: "an insert takes 0.70 of the time of WAL, at a checkpoint every 1,000 pages",
        theirs: Some(0.7),
        over: &[cell("thousand", OURS, Figure::MeanMillis)],
        under: &[cell("thousand", WAL_GROWING, Figure::MeanMillis)],
        rule: Rule::AtMost { holds: 0.77, in_part: 1.0 },
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Fig. 8",
        says: "1,000 inserts write a third of the bytes of WAL: 9.9 MB to 31 MB",
        theirs: Some(9.9 / 31.0),
        over: &[cell("thousand", OURS, Figure::Megabytes)],
        under: &[cell("thousand", WAL_GROWING, Figure::Megabytes)],
        rule: Rule::AtMost { holds: 9.9 / 31.0, in_part: 0.5 },
        unless: "",
    },
    faster!("7 % writes: faster than WAL", "mix-7", WAL),
    faster!("20 % writes: faster than WAL", "mix-20", WAL),
    faster!("50 % writes: faster than WAL", "mix-50", WAL),
    faster!("100 % writes: faster than WAL", "mix-100", WAL),
    faster!("7 % writes: faster than TRUNCATE", "mix-7", TRUNCATE),
    faster!("only writes: faster than TRUNCATE", "mix-100", TRUNCATE),
    sooner!(
        "open after a crash in a transaction of 10 inserts before WAL",
        "crash-10",
        WAL,
        Some(4.5)
    ),
    sooner!(
        "open after a crash in a transaction of 10 inserts before TRUNCATE",
        "crash-10",
        TRUNCATE,
        Some(3.9)
    ),
    sooner!("open after a crash in a transaction of 40 inserts before WAL", "crash-40", WAL, None),
    sooner!(
        "open after a crash in a transaction of 40 inserts before TRUNCATE",
        "crash-40",
        TRUNCATE,
        None
    ),
    sooner!(
        "open after a crash in a transaction of 160 inserts before WAL",
        "crash-160",
        WAL,
        None
    ),
    sooner!(
        "open after a crash in a transaction of 160 inserts before TRUNCATE",
        "crash-160",
        TRUNCATE,
        None
    ),
    sooner!(
        "open after a crash in a transaction of 640 inserts before WAL",
        "crash-640",
        WAL,
        None
    ),
    sooner!(
        "open after a crash in a transaction of 640 inserts before TRUNCATE",
        "crash-640",
        TRUNCATE,
        None
    ),
    sooner!(
        "open after a crash in a transaction of 2,560 inserts before WAL",
        "crash-2560",
        WAL,
        None
    ),
    sooner!(
        "open after a crash in a transaction of 2,560 inserts before TRUNCATE",
        "crash-2560",
        TRUNCATE,
        None
    ),
    sooner!(
        "goal: 500 commits since the checkpoint, 10 inserts: open before WAL",
        "wal-10",
        WAL,
        None
    ),
    sooner!(
        "goal: 500 commits since the checkpoint, 160 inserts: open before WAL",
        "wal-160",
        WAL,
        None
    ),
    sooner!(
        "goal: 500 commits since the checkpoint, 2,560 inserts: open before WAL",
        "wal-2560",
        WAL,
        None
    ),
    sooner!("goal, the same, 10 inserts: commit before WAL", "commit-10", WAL, None),
    sooner!("goal, the same, 10 inserts: commit before TRUNCATE", "commit-10", TRUNCATE, None),
    sooner!("goal, the same, 160 inserts: commit before WAL", "commit-160", WAL, None),
    sooner!("goal, the same, 160 inserts: commit before TRUNCATE", "commit-160", TRUNCATE, None),
    sooner!("goal, the same, 2,560 inserts: commit before WAL", "commit-2560", WAL, None),
    sooner!("goal, the same, 2,560 inserts: commit before TRUNCATE", "commit-2560", TRUNCATE, None),
    goal!(
        "a file of 1 GB commits again 50 ms after a crash",
        "crash-1g",
        MedianMillis,
        50.0,
        100.0
    ),
    Claim {
        source: "Fig. 11",
        says: "without redistribution, pages of 1 KiB: 2.4 pages an insert to 3.7 with it",
        theirs: Some(2.4 / 3.7),
        over: &[cell("pages", "mvbt+page_bytes=1024", Figure::Pages)],
        under: &[cell("pages", "mvbt+page_bytes=1024+redistribution=on", Figure::Pages)],
        rule: Rule::AtMost { holds: 0.72, in_part: 1.0 },
        unless: "Ours moves rows between siblings only where a page is full, once in some inserts.",
    },
    bar!("MVBT inserts 1.2 times as fast as WAL", PLAIN_MVBT, WAL, 1.2),
    bar!("with metadata embedding, 1.5 times", EMBEDDING, WAL, 1.5),
    bar!("LS-MVBT 1.7 times as fast as WAL", OURS, WAL, 704.0 / 416.0),
    bar!("LS-MVBT 12.8 times as fast as TRUNCATE (abstract)", OURS, TRUNCATE, 704.0 / 55.0),
    goal!(
        "the median commit takes 1.15 times the floor, rising keys",
        "floor",
        MedianToFloor,
        1.15,
        1.3
    ),
    goal!("the same, random keys", "floor-random", MedianToFloor, 1.15, 1.3),
    Claim {
        source: "Fig. 6(a), in SQL",
        says: "an insert takes 0.70 of the time of WAL, at a checkpoint every 1,000 pages",
        theirs: Some(0.7),
        over: &[cell("sql-insert", SQL, Figure::MeanMillis)],
        under: &[cell("sql-insert", SQL_WAL, Figure::MeanMillis)],
        rule: Rule::AtMost { holds: 0.77, in_part: 1.0 },
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Goal, in SQL",
        says: "1.3 times the inserts a second of a growing WAL",
        theirs: None,
        over: &[cell("sql-insert", SQL, Figure::PerSecond)],
        under: &[cell("sql-insert", SQL_WAL, Figure::PerSecond)],
        rule: Rule::AtLeast { holds: 1.3, in_part: 1.0 },
        unless: FLUSH_COSTS,
    },
    Claim {
        source: "Goal, in SQL",
        says: "5 times the inserts a second of TRUNCATE",
        theirs: None,
        over: &[cell("sql-insert", SQL, Figure::PerSecond)],
        under: &[cell("sql-insert", SQL_TRUNCATE, Figure::PerSecond)],
        rule: Rule::AtLeast { holds: 5.0, in_part: 3.0 },
        unless: "",
    },
    Claim {
        source: "Goal, in SQL",
        says: "an insert of Mobibench writes 5 KB",
        theirs: None,
        over: &[cell("sql-long", SQL, Figure::Kilobytes)],
        under: &[],
        rule: Rule::AtMost { holds: 5.0, in_part: 5.5 },
        unless: "",
    },
    Claim {
        source: "Goal, in SQL",
        says: "an insert of Mobibench takes one flush",
        theirs: None,
        over: &[cell("sql-long", SQL, Figure::Flushes)],
        under: &[],
        rule: Rule::AtMost { holds: 1.01, in_part: 1.1 },
        unless: "",
    },
    Claim {
        source: "Goal, in SQL",
        says: "of a thousand inserts the longest is no longer than WAL's (p99.9)",
        theirs: None,
        over: &[cell("sql-long", SQL, Figure::TailMillis)],
        under: &[cell("sql-long", SQL_WAL, Figure::TailMillis)],
        rule: Rule::AtMost { holds: 1.0, in_part: 1.3 },
        unless: "",
    },
];
