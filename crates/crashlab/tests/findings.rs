//! Single histories that were suspected once (docs/crash-simulation.md).

use oneflush_crashlab::{
    Explorer, Journal, SQLITE_ALONE, Script, Seen, Setting, Step, Synchronous, Workload, record, register,
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
