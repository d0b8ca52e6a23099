//! Single histories that were suspected once (docs/crash-simulation.md).

use oneflush_crashlab::{
    AfterError, Cell, Explorer, Fault, Journal, SQLITE_ALONE, Script, Seen, Setting, Step, Synchronous, Workload,
    cells, record, register, run_cell,
};

/// A connection that only reads creates the WAL too, and never syncs it. Another one that commits syncs the directory with its own
/// first sync, because it also asked for the WAL to be created: without that, the commit would be lost where the creation is
/// durable by the directory's sync only.
#[test]
fn a_wal_that_a_reader_created_is_durable_when_another_connection_commits() {
    register().unwrap();
    let setting = Setting::new(SQLITE_ALONE, Journal::Wal);
    let mut script = Script::draw(Workload::Mixed, 1);
    let amount = script.steps.iter().find_map(|step| match step {
        Step::Commit { amount, .. } => Some(*amount),
        _ => None,
    });
    script.steps = vec![
        // Connecting reads the database.
        Step::Synchronous { connection: 1, level: Synchronous::Full },
        Step::Commit { connection: 0, amount: amount.unwrap(), seed: 3 },
    ];
    assert_all_crashes_end_well(&script, &setting);
}

/// SQLite alone wrote while a WAL was kept, and the next open gave the kept WAL its name back. Its
/// mark was lost, because no sync covers it. So its frames were there again, older than what the
/// database file had by then. An acknowledged commit was gone.
#[test]
fn a_kept_wal_that_the_database_has_outgrown_does_not_come_back_with_its_frames() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    let script = Script::draw(Workload::Switched, 17_950_847_348_801_734_443);
    assert_all_crashes_end_well(&script, &setting);
}

/// A WAL that was kept over a close is taken up by a write that the first flush is to save. That flush fails, and a process that opens the
/// database then is told nothing of it. What it commits must not stand on a WAL whose first frame only the page cache has.
#[test]
fn a_wal_that_was_taken_up_is_whole_after_a_failed_flush_of_another_process() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    // Process 0 takes the WAL up and commits first, then process 1 opens the database.
    let script = Script::draw(Workload::Processes, 14_347_752_425_324_341_036);
    let strikes = |cell: &Cell| cell.plan.fault == Fault::Sync;
    assert_no_violation(&script, &setting, strikes);
}

/// A commit fails, a checkpoint of the frames that the database file has already fails too, in the middle of a page, and the close finds
/// nothing to copy. It must not make the WAL empty over a page that may be torn.
#[test]
fn a_wal_that_was_taken_up_is_not_closed_over_a_checkpoint_that_failed() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    let script = Script::draw(Workload::Cycles, 16_088_404_016_916_779_538);
    let strikes = |cell: &Cell| {
        let in_the_second_session = (4..12).contains(&cell.plan.at);
        cell.plan.fault == Fault::ShortWrite
            && cell.plan.lasting
            && cell.then == AfterError::GoOn
            && in_the_second_session
    };
    assert_no_violation(&script, &setting, strikes);
}

/// The same with a checkpoint of another process, of which the one that took the WAL up, and closes it, knows nothing.
#[test]
fn a_wal_that_was_taken_up_is_not_closed_over_another_process_s_checkpoint_that_failed() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    let mut script = Script::draw(Workload::Processes, 14_347_752_425_324_341_036);
    let checkpoint = script.steps.iter().find(|step| matches!(step, Step::Checkpoint { .. })).unwrap().clone();
    assert!(matches!(checkpoint, Step::Checkpoint { connection: 1, .. }));
    let snapshot = |held| Step::Snapshot { connection: 0, held };
    let close = |connection| Step::Close { connection };
    script.steps = vec![snapshot(true), checkpoint, snapshot(false), close(1), close(0)];
    let strikes =
        |cell: &Cell| cell.plan.fault == Fault::ShortWrite && !cell.plan.lasting && cell.then == AfterError::GoOn;
    assert_no_violation(&script, &setting, strikes);
}

/// Every sync fails from the one on that ends the last close with `eager`, and another program goes on with SQLite alone: power is lost when there is a
/// WAL of its own, and the guard is back.
#[test]
fn a_wal_beside_a_guard_that_came_back_does_not_keep_the_database_from_being_opened() {
    register().unwrap();
    let setting = Setting::new("eager", Journal::Wal);
    let script = Script::draw(Workload::Switched, 1_791_233_484_949_871_473);
    let strikes = |cell: &Cell| cell.plan.fault == Fault::Sync && cell.plan.lasting && cell.then == AfterError::GoOn;
    assert_no_violation(&script, &setting, strikes);
}

/// A transaction that has written a page twice gets the checksums of its frames last: the last write is that of a header, in front of its page. The sync
/// fails, and of what others can see that page must be written again, too.
#[test]
fn a_commit_whose_checksums_were_written_last_is_written_again_whole() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    let script = Script::draw(Workload::Processes, 17_747_979_329_089_167_545);
    // That commit's. What comes later is not at the same place in each run, where a checkpoint has a thread of its own.
    let strikes = |cell: &Cell| cell.plan.fault == Fault::Sync && cell.plan.at == 10 && cell.then == AfterError::GoOn;
    assert_no_violation(&script, &setting, strikes);
}

/// SQLite's own, no. 2: a sync fails, the program goes on, and a checkpoint copies pages of frames that the device does not have.
#[test]
fn what_sqlite_breaks_after_a_failed_sync_a_strategy_does_not() {
    register().unwrap();
    // A checkpoint in a thread of its own would not be at the same place in each run.
    let setting = |strategy| Setting::new(strategy, Journal::Wal).with_uri("checkpoints=sqlite");
    let script = Script::draw(Workload::Synchronous, 9_122_618_794_908_197_078);
    let strikes = |cell: &Cell| cell.plan.fault == Fault::Sync && cell.then == AfterError::GoOn;
    let broken = violation(&script, &setting(SQLITE_ALONE), strikes).unwrap();
    assert!(broken.contains("integrity_check"), "{broken}");
    assert_no_violation(&script, &setting("plain"), strikes);
    assert_no_violation(&script, &setting("eager"), strikes);
}

/// Without any fault.
fn assert_all_crashes_end_well(script: &Script, setting: &Setting) {
    let recording = record(script, setting).unwrap();
    let (seen, go_on) = (Seen::default(), |_: &_| true);
    let explored = Explorer::new(setting, 1, 1 << 20, &seen, &go_on).explore(&recording);
    explored.map_err(|violation| violation.message).unwrap();
}

fn assert_no_violation(script: &Script, setting: &Setting, strikes: impl Fn(&Cell) -> bool) {
    assert_eq!(violation(script, setting, strikes), None);
}

/// The first one in the runs with these faults.
fn violation(script: &Script, setting: &Setting, strikes: impl Fn(&Cell) -> bool) -> Option<String> {
    let go_on = |_: &_| true;
    let cells: Vec<Cell> = cells(script, setting).unwrap().into_iter().filter(strikes).collect();
    assert!(!cells.is_empty());
    for cell in &cells {
        // Each draws three of the crash states.
        for seed in 0..40 {
            let seen = Seen::default();
            let explorer = Explorer::new(setting, seed, 1 << 20, &seen, &go_on);
            let outcome = run_cell(script, cell, &explorer).unwrap();
            assert!(outcome.struck);
            if let Err(violation) = outcome.result {
                return Some(format!("{cell:?}: {} {:?}", violation.message, violation.crashes));
            }
        }
    }
    None
}
