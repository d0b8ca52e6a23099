//! Several databases: in one transaction (super-journal), side by side, with a checkpoint in the
//! background. Also traces of system calls.

use oneflush_trace::identify::{Database, JournalMode, Phases, Synchronous};
use oneflush_trace::model::{Action, Actor, DeviceId, Event, Flags, Names};

use crate::identify_common::{PAGE, Pen, Show, identify, interleaved};

/// One thread writes two databases as one transaction. The order: super-journal, both logs and
/// updates, then both resets.
fn joint(pen: &mut Pen, others: &str, round: u64) {
    let main = pen.database.clone();
    let (db, journal) = (pen.db_sector, pen.journal_sector);
    let sector = 7_000_000 + round * 8;
    pen.durable("-mj0A1B2C9FF", &[(sector, 1)], 2);
    for (path, offset) in [(main.as_deref(), 0), (Some(others), 500_000)] {
        pen.database = path.map(str::to_string);
        (pen.db_sector, pen.journal_sector) = (db + offset, journal + offset);
        pen.log(3).count().update(2);
    }
    for (path, offset) in [(main.as_deref(), 0), (Some(others), 500_000)] {
        pen.database = path.map(str::to_string);
        pen.journal_sector = journal + offset;
        pen.truncate();
    }
    (pen.database, pen.db_sector, pen.journal_sector) = (main, db, journal);
}

#[test]
fn databases_under_a_super_journal_are_one_transaction() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    for round in 0..3 {
        joint(&mut pen, "/data/app0/b.db", round);
        pen.wait(2_000_000);
        // Between them, one of the main database alone.
        pen.log(4).count().update(1).truncate().wait(2_000_000);
    }
    let events = pen.events;
    let (found, summary) = identify(&events, &names);
    assert_eq!(found.len(), 6);
    for (number, transaction) in found.iter().enumerate() {
        assert_eq!(transaction.database, Database::Named("/data/app0/a.db".into()));
        assert_eq!(
            (transaction.journal_mode, transaction.synchronous),
            (JournalMode::Truncate, Synchronous::Full)
        );
        if number % 2 == 0 {
            assert_eq!(transaction.others, [Database::Named("/data/app0/b.db".into())]);
            assert_eq!(transaction.traffic.db.bytes, 4 * PAGE);
            assert_eq!(transaction.traffic.journal.bytes, (1 + 2 * 4) * PAGE);
            let Phases::Rollback { log_ns, db_ns, reset_ns } = transaction.phases else { panic!() };
            assert_eq!(log_ns + db_ns + reset_ns, transaction.latency_ns());
        } else {
            assert!(transaction.others.is_empty());
        }
    }
    assert_eq!(summary.partial_count, 0);
}

#[test]
fn another_threads_transaction_does_not_join() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    for round in 0..2 {
        joint(&mut pen, "/data/app0/b.db", round);
    }
    let joined = pen.events;
    let mut pen = Pen::new(&mut names, Show::Calls, 1);
    pen.now_ns += 800_000;
    pen.log(3).count().update(2).zero().log(3).count().update(2).zero();
    let other = pen.events;
    let (found, _) = identify(&interleaved(vec![joined, other]), &names);
    assert_eq!(found.len(), 4);
    assert_eq!(found.iter().filter(|found| found.others.len() == 1).count(), 2);
    let other: Vec<_> =
        found.iter().filter(|found| found.journal_mode == JournalMode::Persist).collect();
    assert_eq!(other.len(), 2);
    assert!(other.iter().all(|found| found.others.is_empty()));
}

#[test]
fn a_checkpoint_in_the_background_lengthens_no_commit() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    for _ in 0..6 {
        pen.append(2).wait(300_000);
    }
    let commits = pen.events;
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    (pen.thread, pen.comm, pen.now_ns) = (555, "checkpointer".into(), 3_900_000);
    pen.update(9);
    let checkpoint = pen.events;
    let (alone, _) = identify(&commits, &names);
    let (found, _) = identify(&interleaved(vec![commits, checkpoint]), &names);
    assert_eq!(found.len(), 6);
    let latencies = |found: &[oneflush_trace::identify::Transaction]| -> Vec<u64> {
        found.iter().map(|found| found.latency_ns()).collect()
    };
    assert_eq!(latencies(&found), latencies(&alone));
    assert!(found.iter().all(|found| found.traffic.journal.bytes == 3 * PAGE));
    assert_eq!(found.iter().map(|found| found.traffic.db.bytes).sum::<u64>(), 9 * PAGE);
}

/// A trace of system calls: offsets and lengths as SQLite passes them.
struct Calls {
    names: Names,
    events: Vec<Event>,
    now_ns: u64,
}

impl Calls {
    fn call(&mut self, action: Action, file: &str, offset: u64, bytes: u64) {
        self.now_ns += 5_000;
        let file = Some(self.names.id(file));
        let actor = Actor { thread: 3, process: 3, name: None };
        let flags = Flags { write: action == Action::FileWrite, ..Flags::default() };
        let (time_ns, device) = (self.now_ns, DeviceId::default());
        self.events.push(Event {
            time_ns,
            action,
            device,
            sector: offset,
            bytes,
            flags,
            actor,
            content: None,
            file,
        });
    }

    fn sync(&mut self, file: &str) {
        self.call(Action::SyncEnter, file, 0, 0);
        self.now_ns += 900_000;
        self.call(Action::SyncExit, file, 0, 0);
    }

    fn log(&mut self) {
        self.call(Action::FileWrite, "/d/a.db-journal", 0, 512);
        for page in 0..2 {
            let at = 512 + page * 4104;
            self.call(Action::FileWrite, "/d/a.db-journal", at, 4);
            self.call(Action::FileWrite, "/d/a.db-journal", at + 4, 4096);
            self.call(Action::FileWrite, "/d/a.db-journal", at + 4100, 4);
        }
    }

    fn update(&mut self) {
        self.call(Action::FileWrite, "/d/a.db", 0, 4096);
        self.call(Action::FileWrite, "/d/a.db", 8192, 4096);
        self.sync("/d/a.db");
    }
}

#[test]
fn system_calls_show_the_same_transactions() {
    for full in [true, false] {
        for persist in [true, false] {
            let mut calls = Calls { names: Names::default(), events: Vec::new(), now_ns: 0 };
            for _ in 0..3 {
                calls.log();
                if full {
                    calls.sync("/d/a.db-journal");
                }
                calls.call(Action::FileWrite, "/d/a.db-journal", 0, 12);
                calls.sync("/d/a.db-journal");
                calls.update();
                if persist {
                    calls.call(Action::FileWrite, "/d/a.db-journal", 0, 28);
                    calls.sync("/d/a.db-journal");
                }
            }
            let (found, _) = identify(&calls.events, &calls.names);
            assert_eq!(found.len(), 3, "full {full}, persist {persist}");
            for transaction in &found {
                let mode = if persist { JournalMode::Persist } else { JournalMode::Delete };
                let synchronous = if full { Synchronous::Full } else { Synchronous::Normal };
                assert_eq!(
                    (transaction.journal_mode, transaction.synchronous),
                    (mode, synchronous)
                );
                assert_eq!(transaction.traffic.db.bytes, 8192);
                assert_eq!(
                    transaction.traffic.journal.bytes,
                    512 + 2 * 4104 + 12 + if persist { 28 } else { 0 }
                );
            }
        }
    }
}

#[test]
fn system_calls_show_wal_commits_and_the_header_of_the_log_is_none() {
    let mut calls = Calls { names: Names::default(), events: Vec::new(), now_ns: 0 };
    calls.call(Action::FileWrite, "/d/a.db-wal", 0, 32);
    calls.sync("/d/a.db-wal");
    for commit in 0..4 {
        calls.call(Action::FileWrite, "/d/a.db-wal", 32 + commit * 4120, 24);
        calls.call(Action::FileWrite, "/d/a.db-wal", 56 + commit * 4120, 4096);
        calls.sync("/d/a.db-wal");
    }
    calls.update();
    let (found, _) = identify(&calls.events, &calls.names);
    assert_eq!(found.len(), 4);
    assert!(
        found.iter().all(|found| (found.journal_mode, found.synchronous)
            == (JournalMode::Wal, Synchronous::Full))
    );
    assert_eq!(found[0].traffic.journal.bytes, 32 + 4120);
    assert_eq!(found[3].traffic.db.bytes, 8192);
}

/// The story: 601 commits by `plain` were 602 in a strace. The kept WAL is taken out of use at the
/// end.
#[test]
fn headers_of_a_log_that_is_taken_out_of_use_are_no_commit() {
    let mut calls = Calls { names: Names::default(), events: Vec::new(), now_ns: 0 };
    for commit in 0..4 {
        calls.call(Action::FileWrite, "/d/a.db-wal", 32 + commit * 4120, 24);
        calls.call(Action::FileWrite, "/d/a.db-wal", 56 + commit * 4120, 4096);
        calls.sync("/d/a.db-wal");
    }
    calls.update();
    calls.call(Action::FileWrite, "/d/a.db-wal", 0, 32);
    calls.call(Action::FileWrite, "/d/a.db-wal", 32, 24);
    calls.sync("/d/a.db-wal");
    let (found, summary) = identify(&calls.events, &calls.names);
    assert_eq!((found.len(), summary.partial_count), (4, 0));
    assert_eq!(summary.partial.journal.bytes, 56);
}

#[test]
fn calls_count_for_nothing_where_the_trace_shows_the_device() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    for _ in 0..2 {
        pen.log(3).count().update(2).zero();
    }
    let events = pen.events;
    let (alone, _) = identify(&events, &names);
    let mut both = Vec::new();
    for event in &events {
        both.push(*event);
        if event.action == Action::Queue && event.bytes > 0 {
            both.push(Event { action: Action::FileWrite, sector: 0, ..*event });
        }
    }
    assert_eq!(identify(&both, &names).0, alone);
}
