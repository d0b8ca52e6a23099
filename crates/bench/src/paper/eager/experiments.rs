//! What is run, here and on the emulated eMMC: AndroBench's SQLite and file tests, and replays.

use crate::paper::short;
use crate::paper::{Experiment, On, Work};
use oneflush_measure::workload::{Files, Operation};

const TRANSACTIONS: u64 = 300;
/// From Table 5.2: 1,579 writes of 43.8 MB in all, of 4 KiB and of 256 KiB.
const RANDOM_WRITES: u64 = 1431;
const SEQUENTIAL_WRITES: u64 = 148;
/// The same for reads: 191.8 MB in pieces of 7.9 KB in the mean.
const RANDOM_READS: u64 = 24_000;
const SEQUENTIAL_READS: u64 = 376;

const fn here(name: &'static str, what: &'static str, work: Work, count: u64) -> Experiment {
    Experiment { fresh: true, ..short::experiment(name, what, work, count) }
}

const fn on(on: On, experiment: Experiment) -> Experiment {
    Experiment { on, ..experiment }
}

/// Not in a short form: the device takes its time to make the file.
const fn long(experiment: Experiment) -> Experiment {
    Experiment { is_long: true, ..experiment }
}

const fn sql(name: &'static str, what: &'static str, operation: Operation) -> Experiment {
    here(name, what, Work::Mobibench(operation), TRANSACTIONS)
}

const fn files(name: &'static str, what: &'static str, files: Files, count: u64) -> Experiment {
    here(name, what, Work::Files(files), count)
}

/// A replay has as many syncs as its recording.
const fn app(name: &'static str, what: &'static str, recording: &'static str) -> Experiment {
    here(name, what, Work::FileTrace(recording), 0)
}

pub const EXPERIMENTS: [Experiment; 27] = [
    sql("insert", "Table 5.4: inserts", Operation::Insert),
    sql("update", "Fig. 5.1: updates", Operation::Update),
    sql("delete", "Fig. 5.1: deletes", Operation::Delete),
    files("random-write", "Table 5.4: random write", Files::Overwrite, RANDOM_WRITES),
    files("sequential-write", "Fig. 5.2: sequential write", Files::SyncedStream, SEQUENTIAL_WRITES),
    files("random-read", "Fig. 5.2: random read", Files::ColdReadRandom, RANDOM_READS),
    files("sequential-read", "Fig. 5.2: sequential read", Files::ColdRead, SEQUENTIAL_READS),
    app("facebook", "Table 5.4: Facebook", "facebook"),
    app("gmail", "Table 5.4: Gmail", "gmail"),
    app("chrome", "Table 5.4: Chrome", "chrome"),
    files("append", "Sec. 3.1: writes with fsync", Files::Append, 1000),
    files("unsynced", "Sec. 3.1: writes without", Files::Unsynced, 4000),
    files("one-block", "Sec. 4.4: one block again and again", Files::OneBlock, 1000),
    sql("calls", "Table 5.2: calls of SQLite", Operation::Insert),
    sql("no-syncs", "Sec. 3.2: without syncs", Operation::Insert),
    on(On::FastCommit, sql("fast-insert", "inserts, fast commits", Operation::Insert)),
    on(
        On::FastCommit,
        files("fast-random-write", "random write, fast commits", Files::Overwrite, RANDOM_WRITES),
    ),
    on(On::FastCommit, app("fast-facebook", "Facebook, fast commits", "facebook")),
    on(On::Emmc, sql("emmc-insert", "inserts, eMMC", Operation::Insert)),
    long(on(On::Emmc, sql("emmc-update", "updates, eMMC", Operation::Update))),
    long(on(On::Emmc, sql("emmc-delete", "deletes, eMMC", Operation::Delete))),
    on(On::Emmc, files("emmc-random-write", "random write, eMMC", Files::Overwrite, RANDOM_WRITES)),
    long(on(
        On::Emmc,
        files(
            "emmc-sequential-write",
            "sequential write, eMMC",
            Files::SyncedStream,
            SEQUENTIAL_WRITES,
        ),
    )),
    long(on(
        On::Emmc,
        files("emmc-random-read", "random read, eMMC", Files::ColdReadRandom, RANDOM_READS),
    )),
    long(on(
        On::Emmc,
        files("emmc-sequential-read", "sequential read, eMMC", Files::ColdRead, SEQUENTIAL_READS),
    )),
    on(On::Emmc, app("emmc-facebook", "Facebook, eMMC", "facebook")),
    long(on(On::Emmc, files("emmc-append", "writes with fsync, eMMC", Files::Append, 300))),
];
