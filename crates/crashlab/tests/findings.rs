//! What the simulator found out about SQLite itself: each is a state that its "unix" VFS can leave (docs/crash-simulation.md).

use oneflush_crashlab::{
    Explorer, Journal, Reading, SQLITE_ALONE, Script, Seen, Setting, Step, Synchronous, Workload, record, register,
};

/// SQLite syncs the directory of a new WAL with the first sync through the file handle that created it. A connection that only
/// reads creates the WAL too; another one that commits then syncs through its own handle, and the name of the WAL is not
/// durable. ext4 commits the creation with that sync; a file system that promises no more than POSIX need not.
#[test]
fn wal_full_loses_commits_in_the_weak_reading_where_a_reader_created_the_wal() {
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
    let violation = Explorer::new(&setting, 1, 1 << 20, &seen, &go_on).explore(&recording).unwrap_err();
    assert!(violation.message.contains("acknowledged commits are lost"), "{}", violation.message);
    assert_eq!(violation.crashes[0].reading, Reading::Weak);
}
