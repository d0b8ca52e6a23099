//! Single histories that were suspected once (docs/crash-simulation.md).

use oneflush_crashlab::{
    Explorer, Fault, Journal, SQLITE_ALONE, Script, Seen, Setting, Step, Synchronous, Workload, cells, record,
    register, run_cell,
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
    let recording = record(&script, &setting).unwrap();
    let (seen, go_on) = (Seen::default(), |_: &_| true);
    Explorer::new(&setting, 1, 1 << 20, &seen, &go_on)
        .explore(&recording)
        .map_err(|violation| violation.message)
        .unwrap();
}

/// A WAL that was kept over a close is taken up by a write that the first flush is to save. That flush fails, and a process that opens the
/// database then is told nothing of it. What it commits must not stand on a WAL whose first frame only the page cache has.
#[test]
fn a_wal_that_was_taken_up_is_whole_after_a_failed_flush_of_another_process() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    // Process 0 takes the WAL up and commits first, then process 1 opens the database.
    let script = Script::draw(Workload::Processes, 14_347_752_425_324_341_036);
    let go_on = |_: &_| true;
    let mut of_syncs = cells(&script, &setting).unwrap();
    of_syncs.retain(|cell| cell.plan.fault == Fault::Sync);
    assert!(!of_syncs.is_empty());
    for cell in &of_syncs {
        // Each draws three of the crash states.
        for seed in 0..20 {
            let seen = Seen::default();
            let explorer = Explorer::new(&setting, seed, 1 << 20, &seen, &go_on);
            let outcome = run_cell(&script, cell, &explorer).unwrap();
            assert!(outcome.struck);
            outcome.result.map_err(|violation| format!("{cell:?}: {}", violation.message)).unwrap();
        }
    }
}
