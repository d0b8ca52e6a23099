//! Workloads of `oneflush bench` that are recorded with SQLite's own journals and measured with the
//! strategies. The first part is what the model was fitted on, the second is what judges it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Case {
    pub name: &'static str,
    pub work: Work,
    pub transactions: u64,
    /// So many are measured with the strategies. If these are more, what a log needs once counts
    /// little, and the estimate for a day is judged.
    pub measured: u64,
    /// A second, of all writers; else as fast as they can.
    pub rate: Option<f64>,
    pub writers: u32,
    pub are_processes: bool,
    pub fs: &'static str,
    /// Modes of the recordings.
    pub recorded: &'static [&'static str],
    pub strategies: &'static [&'static str],
}

pub enum Work {
    /// One of `--workload`.
    Bench(&'static str),
    Sql(Sql),
}

#[derive(Clone, Copy)]
pub struct Sql {
    pub change: Change,
    pub page_bytes: u64,
    /// Of each row.
    pub bytes: u32,
    /// Statements a transaction.
    pub each: u32,
    /// Rows before the first transaction.
    pub rows: u32,
    pub indexes: u32,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Change {
    Insert,
    /// A number in a row by chance.
    Update,
    /// All of a row by chance.
    Rewrite,
}

const WAL_STRATEGIES: &[&str] = &["wal:plain", "wal:eager", "wal:waldio"];
const ALL_STRATEGIES: &[&str] = &["wal:plain", "wal:eager", "wal:waldio", "persist:maw"];
const RATE: Option<f64> = Some(50.0);

const ONE: Case = Case {
    name: "",
    work: Work::Bench("insert"),
    transactions: 1500,
    measured: 1500,
    rate: RATE,
    writers: 1,
    are_processes: false,
    fs: "ext4",
    recorded: &["wal", "delete"],
    strategies: ALL_STRATEGIES,
};
/// Writers that always wait.
const CROWD: Case = Case { rate: None, recorded: &["wal"], strategies: WAL_STRATEGIES, ..ONE };
const SQL: Sql =
    Sql { change: Change::Insert, page_bytes: 4096, bytes: 200, each: 1, rows: 0, indexes: 0 };
const UPDATE: Sql = Sql { change: Change::Update, rows: 20_000, ..SQL };
const REWRITE: Sql = Sql { change: Change::Rewrite, rows: 10_000, bytes: 400, ..SQL };

pub const FITTED: &[Case] = &[
    Case {
        name: "update",
        work: Work::Sql(UPDATE),
        recorded: &["wal", "persist", "delete"],
        ..ONE
    },
    Case {
        name: "insert-20",
        work: Work::Sql(Sql { each: 20, ..SQL }),
        transactions: 1000,
        measured: 1000,
        recorded: &["wal", "persist", "delete"],
        ..ONE
    },
    Case { name: "indexed", work: Work::Bench("indexed"), ..ONE },
    Case {
        name: "pages-8192",
        work: Work::Sql(Sql { page_bytes: 8192, bytes: 500, ..SQL }),
        ..ONE
    },
    Case {
        name: "pages-1024",
        work: Work::Sql(Sql { page_bytes: 1024, bytes: 100, ..UPDATE }),
        ..ONE
    },
    Case { name: "xfs-insert", fs: "xfs", recorded: &["delete"], ..ONE },
    Case { name: "threads-16", writers: 16, transactions: 6000, measured: 100_000, ..CROWD },
    Case { name: "threads-8", writers: 8, transactions: 5000, measured: 80_000, ..CROWD },
    Case { name: "threads-4", writers: 4, transactions: 4000, measured: 50_000, ..CROWD },
    Case { name: "threads-2", writers: 2, transactions: 4000, measured: 30_000, ..CROWD },
    Case {
        name: "processes-8",
        writers: 8,
        are_processes: true,
        transactions: 4000,
        measured: 40_000,
        ..CROWD
    },
    Case { name: "one-writer", transactions: 4000, measured: 30_000, ..CROWD },
];

pub const JUDGED: &[Case] = &[
    Case {
        name: "mixed",
        work: Work::Bench("mixed"),
        recorded: &["wal", "persist", "delete", "truncate"],
        ..ONE
    },
    Case {
        name: "insert-5",
        work: Work::Sql(Sql { bytes: 500, each: 5, ..SQL }),
        recorded: &["wal", "persist", "delete"],
        ..ONE
    },
    Case {
        name: "update-10",
        work: Work::Sql(Sql { bytes: 300, each: 10, ..UPDATE }),
        transactions: 1000,
        measured: 1000,
        recorded: &["wal", "persist", "delete"],
        ..ONE
    },
    Case {
        name: "pages-16384",
        work: Work::Sql(Sql { page_bytes: 16_384, bytes: 300, ..SQL }),
        ..ONE
    },
    Case {
        name: "pages-2048",
        work: Work::Sql(Sql { page_bytes: 2048, bytes: 60, ..SQL }),
        recorded: &["wal", "persist"],
        ..ONE
    },
    Case { name: "one-page", work: Work::Bench("one-page"), recorded: &["wal", "truncate"], ..ONE },
    Case { name: "delete", work: Work::Bench("delete"), recorded: &["wal", "truncate"], ..ONE },
    Case { name: "xfs-rewrite", work: Work::Sql(REWRITE), fs: "xfs", ..ONE },
    Case {
        name: "rate-10",
        transactions: 400,
        measured: 400,
        rate: Some(10.0),
        recorded: &["wal", "delete", "truncate", "persist"],
        ..ONE
    },
    Case {
        name: "rate-0.5",
        transactions: 20,
        measured: 20,
        rate: Some(0.5),
        recorded: &["wal", "persist"],
        ..ONE
    },
    Case {
        name: "long-insert",
        work: Work::Sql(Sql { bytes: 100, ..SQL }),
        measured: 6000,
        strategies: &["wal:plain", "wal:eager"],
        ..ONE
    },
    Case {
        name: "long-update",
        work: Work::Sql(UPDATE),
        measured: 6000,
        strategies: &["wal:plain", "wal:eager"],
        ..ONE
    },
    Case {
        name: "long-insert-5",
        work: Work::Sql(Sql { bytes: 500, each: 5, ..SQL }),
        measured: 6000,
        strategies: &["wal:plain", "wal:eager"],
        ..ONE
    },
    Case {
        name: "long-rewrite",
        work: Work::Sql(REWRITE),
        measured: 6000,
        strategies: &["wal:plain", "wal:eager"],
        ..ONE
    },
    Case {
        name: "long-update-10",
        work: Work::Sql(Sql { bytes: 300, each: 10, ..UPDATE }),
        transactions: 1000,
        measured: 5000,
        strategies: &["wal:plain", "wal:eager"],
        ..ONE
    },
    Case {
        name: "long-indexed",
        work: Work::Sql(Sql { bytes: 100, indexes: 2, rows: 20_000, ..SQL }),
        measured: 6000,
        strategies: &["wal:plain", "wal:eager"],
        ..ONE
    },
    Case { name: "threads-16-again", writers: 16, transactions: 6000, measured: 100_000, ..CROWD },
    Case { name: "threads-6", writers: 6, transactions: 5000, measured: 60_000, ..CROWD },
    Case {
        name: "processes-4",
        writers: 4,
        are_processes: true,
        transactions: 4000,
        measured: 30_000,
        ..CROWD
    },
    Case {
        name: "xfs-threads-16",
        writers: 16,
        fs: "xfs",
        transactions: 6000,
        measured: 100_000,
        ..CROWD
    },
    Case { name: "xfs-one-writer", fs: "xfs", transactions: 3000, measured: 30_000, ..CROWD },
];

/// A few that a test has time for.
pub const BRIEF: &[Case] = &[Case {
    name: "brief",
    transactions: 1200,
    measured: 1200,
    rate: Some(60.0),
    recorded: &["wal", "persist"],
    strategies: &["wal:plain", "wal:eager"],
    ..ONE
}];

impl Case {
    pub fn page_bytes(&self) -> u64 {
        match self.work {
            Work::Bench(_) => 4096,
            Work::Sql(sql) => sql.page_bytes,
        }
    }

    /// Options of `oneflush bench`. Files of SQL are made in `folder`.
    pub fn options(&self, folder: &Path, mode: &str, transactions: u64) -> Vec<String> {
        let mut options = vec!["--fs".to_owned(), self.fs.to_owned()];
        match self.work {
            Work::Bench(workload) => options.extend(
                ["--workload", workload, "-n", &transactions.to_string()].map(str::to_owned),
            ),
            Work::Sql(sql) => {
                let made = sql.make(folder, self.name, mode.starts_with("wal"), transactions);
                options.extend(["--sql".to_owned(), made.display().to_string()]);
            }
        }
        if self.writers > 1 {
            options.extend(["-t".to_owned(), self.writers.to_string()]);
        }
        if self.are_processes {
            options.extend(["--as", "processes"].map(str::to_owned));
        }
        if let Some(rate) = self.rate {
            options.extend(["--rate".to_owned(), rate.to_string()]);
        }
        options
    }
}

impl Sql {
    fn make(&self, folder: &Path, name: &str, is_wal: bool, transactions: u64) -> PathBuf {
        let made = folder.join(format!("{name}-{is_wal}-{transactions}"));
        fs::create_dir_all(&made).unwrap();
        fs::write(made.join("loading.sql"), self.loading(is_wal)).unwrap();
        let mut chance = 1u64;
        let mut text = String::new();
        for _ in 0..transactions {
            let statements: Vec<String> =
                (0..self.each).map(|_| self.statement(&mut chance)).collect();
            let line = match statements.as_slice() {
                [one] => one.clone(),
                many => format!("BEGIN;{};COMMIT", many.join(";")),
            };
            text.push_str(&line);
            text.push('\n');
        }
        fs::write(made.join("0.sql"), text).unwrap();
        made
    }

    /// `bench` runs these lines in a transaction, which they end.
    fn loading(&self, is_wal: bool) -> String {
        let &Sql { page_bytes, bytes, rows, indexes, .. } = self;
        let mut text = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v BLOB)\n".to_owned();
        for index in 0..indexes {
            let _ = writeln!(
                text,
                "CREATE INDEX t{index} ON t((k * {} % 1000003))",
                104_729 + index * 7919
            );
        }
        let counter = |count: u32| {
            format!(
                "WITH RECURSIVE c(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM c WHERE n < {count})"
            )
        };
        if rows > 0 {
            let _ = writeln!(
                text,
                "{} INSERT INTO t SELECT n, abs(random()) % 1000000, randomblob({bytes}) FROM c",
                counter(rows)
            );
        }
        text.push_str("COMMIT\n");
        if page_bytes != 4096 {
            let (out_of_wal, into_wal) = match is_wal {
                true => ("PRAGMA journal_mode=DELETE\n", "PRAGMA journal_mode=WAL\n"),
                false => ("", ""),
            };
            let _ = write!(text, "{out_of_wal}PRAGMA page_size={page_bytes}\nVACUUM\n{into_wal}");
        }
        if page_bytes > 4096 {
            // A WAL that has its length, as `bench` makes it for pages of 4,096 bytes.
            let filler = page_bytes - 200;
            let _ = writeln!(
                text,
                "CREATE TABLE grown(v)\n{} INSERT INTO grown SELECT zeroblob({filler}) FROM c",
                counter(1400)
            );
        }
        text
    }

    fn statement(&self, chance: &mut u64) -> String {
        let mut below = |limit: u64| {
            *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*chance >> 33) % limit
        };
        let (number, bytes) = (below(1_000_000), self.bytes);
        match self.change {
            Change::Insert => format!("INSERT INTO t(k, v) VALUES({number}, randomblob({bytes}))"),
            Change::Update => {
                format!("UPDATE t SET k = {number} WHERE id = {}", 1 + below(self.rows.into()))
            }
            Change::Rewrite => format!(
                "UPDATE t SET v = randomblob({bytes}) WHERE id = {}",
                1 + below(self.rows.into())
            ),
        }
    }
}
