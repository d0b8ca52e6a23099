//! A crash in the mending of what a crash has left.

use oneflush_crashlab::{
    Choice, Crash, Explorer, Fill, Found, Journal, Mark, Mounted, Op, Reading, Recording, Script,
    Seen, Setting, Step, Tear, Workload, image_after, record, register,
};

/// The write that takes the guard away is garbled. The log of that close holds no commit, and page
/// 1 whole. Power is lost again while page 1 is written from there. Its header may be good then,
/// and the rest of it not.
#[test]
fn a_page_one_whose_mending_was_torn_is_mended_again() {
    register().unwrap();
    for (strategy, journal, uri) in [
        ("maw", Journal::Persist, "atomic=log"),
        ("eager", Journal::Wal, ""),
        ("waldio", Journal::Wal, ""),
    ] {
        let setting = Setting::new(strategy, journal).with_uri(uri);
        let mended = (0..16).filter(|&seed| {
            let torn = garbled_at_the_close(&setting, seed);
            let mending = record_mending(&setting, torn);
            let (seen, go_on) = (Seen::default(), |_: &_| true);
            for ways in 0..10 {
                let explorer = Explorer::new(&setting, ways, 1 << 14, &seen, &go_on);
                let explored = explorer.explore(&mending);
                explored.map_err(|violation| format!("{strategy}: {}", violation.message)).unwrap();
            }
            mending.log.iter().any(|op| matches!(op, Op::Write { offset: 0, .. }))
        });
        assert!(mended.count() > 0, "{strategy}: nothing was garbled");
    }
}

/// A disk on which the last close was in the middle of taking the guard away. Also what it holds.
fn garbled_at_the_close(setting: &Setting, seed: u64) -> Recording {
    const FIRST_BYTE_OF_THE_GUARD: u64 = 18;
    let mut script = Script::draw_for(setting, Workload::Reopen, 3);
    script.page_bytes = 1024;
    script.made_by_sqlite = None;
    let commit = script.steps.iter().find(|step| matches!(step, Step::Commit { .. })).unwrap();
    script.steps = vec![commit.clone(), Step::Close { connection: 0 }];
    let mut recording = record(&script, setting).unwrap();
    let guard = |op: &Op| matches!(op, Op::Write { offset: FIRST_BYTE_OF_THE_GUARD, .. });
    let after = recording.log.iter().rposition(guard).expect("a guard was taken away") + 1;
    let found = recording.log.iter().rev().find_map(|op| match op {
        Op::Mark(Mark::Acknowledged { order, digest, .. }) => {
            Some(Found { order: *order, digest: *digest })
        }
        _ => None,
    });
    let choice = Choice { kept: vec![u64::MAX], tear: Tear::Garbled, fill: Fill::Missing, seed };
    let crash = Crash { reading: Reading::Weak, after, choice };
    recording.initial = image_after(&recording.initial, &recording.log, &crash);
    recording.beginning = vec![found.expect("the commit was acknowledged")];
    recording.log.clear();
    recording
}

/// What the next opener does to this disk.
fn record_mending(setting: &Setting, torn: Recording) -> Recording {
    let machine = Mounted::new(&torn.initial);
    let connection = setting.open(&machine, 0, &torn.files[0]).unwrap();
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0)).unwrap();
    drop(connection);
    let log = machine.disk().take_log();
    Recording { log, ..torn }
}
