//! Single histories that were suspected once (docs/crash-simulation.md).

use std::ops::RangeBounds;

use oneflush_crashlab::{
    AfterError, Cell, Explorer, Fault, Journal, SQLITE_ALONE, Script, Seen, Setting, Step,
    Synchronous, Workload, cells, record, register, run_cell,
};
use serde_json::json;

/// A connection that only reads creates the WAL too, and never syncs it. Another connection that
/// commits syncs the directory with its own first sync, because it also asked for the WAL to be
/// created. Without that the commit would be lost where only a sync of the directory makes the
/// creation durable.
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
    assert_no_state_loses_a_commit(&script, &setting);
}

/// SQLite alone wrote while a WAL was kept, and the next open gave the kept WAL its name back. The
/// WAL's mark was lost, since no sync covered it. So its frames were there again, older than what
/// the database file had by then: an acknowledged commit was gone. A long WAL has another mark,
/// which is synced.
#[test]
fn a_kept_wal_that_the_database_has_outgrown_does_not_come_back_with_its_frames() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    // The database that the run begins with has left a WAL of 32 frames. One commit more makes it a
    // long one, and the next writer begins a short one.
    for sessions in [1, 2] {
        let commit = |connection, amount| {
            json!({
                "commit": {"connection": connection, "amount": amount, "seed": 3}
            })
        };
        let switch = |strategy| json!({"switch": {"strategy": strategy}});
        let session = [commit(0, "small"), json!({"close": {"connection": 0}})];
        let others = [
            switch(Some("stock")),
            commit(1, "small"),
            switch(None),
            json!({"checkpoint": {"connection": 0, "kind": "passive"}}),
            switch(Some("sqlite")),
        ];
        let steps: Vec<_> = session.iter().cycle().take(2 * sessions).chain(&others).collect();
        let script = serde_json::from_value(json!({
            "workload": "switched", "seed": 3, "page_bytes": 1024, "checkpoint_frames": 1000,
            "auto_vacuum": false, "rows_before": 4, "lives": [],
            "steps": steps,
        }));
        assert_no_state_loses_a_commit(&script.unwrap(), &setting);
    }
}

/// A write takes up a WAL that was kept over a close, and the first flush is to save that write.
/// That flush fails. A process that opens the database then is told nothing of it. What it commits
/// must not stand on a WAL whose first frame only the page cache has.
#[test]
fn a_wal_that_was_taken_up_is_whole_after_a_failed_flush_of_another_process() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    // Process 0 takes the WAL up and commits first. Then process 1 opens the database.
    let script = Script::draw(Workload::Processes, 14_347_752_425_324_341_036);
    let strikes = |cell: &Cell| cell.plan.fault == Fault::Sync;
    assert_no_violation(&script, &setting, strikes);
}

/// A commit fails. A checkpoint of frames that the database file has already fails too, in the
/// middle of a page. The close finds nothing to copy. It must not empty the WAL over a page that
/// may be torn.
#[test]
fn a_wal_that_was_taken_up_is_not_closed_over_a_checkpoint_that_failed() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    let script = Script::draw(Workload::Cycles, 16_088_404_016_916_779_538);
    let in_the_second_session = 4..12;
    let strikes = struck(Fault::ShortWrite, in_the_second_session, true, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// The same with a checkpoint of another process. The process that took the WAL up, and closes it,
/// knows nothing of it.
#[test]
fn a_wal_that_was_taken_up_is_not_closed_over_another_process_s_checkpoint_that_failed() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    let mut script = Script::draw(Workload::Processes, 14_347_752_425_324_341_036);
    let checkpoint =
        script.steps.iter().find(|step| matches!(step, Step::Checkpoint { .. })).unwrap().clone();
    assert!(matches!(checkpoint, Step::Checkpoint { connection: 1, .. }));
    let snapshot = |held| Step::Snapshot { connection: 0, held };
    let close = |connection| Step::Close { connection };
    script.steps = vec![snapshot(true), checkpoint, snapshot(false), close(1), close(0)];
    let strikes = struck(Fault::ShortWrite, .., false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// Every sync fails from the one on that ends the last close with `eager`. Another program goes on
/// with SQLite alone. Power is lost when there is a WAL of SQLite's own, and the guard is back.
#[test]
fn a_wal_beside_a_guard_that_came_back_does_not_keep_the_database_from_being_opened() {
    register().unwrap();
    let setting = Setting::new("eager", Journal::Wal);
    let script = Script::draw(Workload::Switched, 1_791_233_484_949_871_473);
    let strikes = struck(Fault::Sync, .., true, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// A transaction that has written a page twice gets the checksums of its frames last. So the last
/// write is that of a header, in front of its page. The sync fails. What others can see must be
/// written again, and that page with it.
#[test]
fn a_commit_whose_checksums_were_written_last_is_written_again_whole() {
    register().unwrap();
    let setting = Setting::new("plain", Journal::Wal);
    let script = Script::draw(Workload::Processes, 17_747_979_329_089_167_545);
    // The sync of that commit. Later ones are not at the same place in each run, where checkpoints
    // have a thread of their own.
    let strikes = |cell: &Cell| {
        cell.plan.fault == Fault::Sync && cell.plan.at == 10 && cell.then == AfterError::GoOn
    };
    assert_no_violation(&script, &setting, strikes);
}

/// SQLite's own, no. 2: a sync fails, the program goes on, and a checkpoint copies pages of frames
/// that the device does not have.
#[test]
fn what_sqlite_breaks_after_a_failed_sync_a_strategy_does_not() {
    register().unwrap();
    // A checkpoint in its own thread would not be at the same place in each run.
    let setting = |strategy| Setting::new(strategy, Journal::Wal).with_uri("checkpoints=sqlite");
    let script = Script::draw(Workload::Synchronous, 9_122_618_794_908_197_078);
    let strikes = |cell: &Cell| cell.plan.fault == Fault::Sync && cell.then == AfterError::GoOn;
    let broken = violation(&script, &setting(SQLITE_ALONE), strikes).unwrap();
    assert!(broken.contains("integrity_check"), "{broken}");
    assert_no_violation(&script, &setting("plain"), strikes);
    assert_no_violation(&script, &setting("eager"), strikes);
}

/// `waldio` with `sync=ns` flushes no commit, but each checkpoint. The last close has all locks, so
/// none says that its checkpoint begins. Frames that nobody synced were there before: of a commit
/// at NORMAL, or of a transaction that was rolled back. The close took the checkpoint's sync for
/// that of a commit, and the database file got pages that the log may have lost.
#[test]
fn a_close_that_copies_commits_which_nobody_flushed_flushes_them_first() {
    register().unwrap();
    let setting = Setting::new("waldio", Journal::Wal).with_uri("sync=ns&prealloc=65536");
    let mut script = Script::draw(Workload::Mixed, 1);
    let commit = |amount| json!({"commit": {"connection": 1, "amount": amount, "seed": 3}});
    let steps = |steps: &[serde_json::Value]| serde_json::from_value(json!(steps)).unwrap();
    let normal = json!({"synchronous": {"connection": 1, "level": "normal"}});
    script.steps = steps(&[normal, commit("several")]);
    assert_none_of_the_states_loses_a_commit(&script, &setting, 2000);
    let rolled_back = json!({"rolled_back": {"connection": 1, "amount": "large", "seed": 3}});
    script.steps = steps(&[commit("several"), rolled_back]);
    assert_none_of_the_states_loses_a_commit(&script, &setting, 2000);
}

/// `waldio` with `sync=pd`: commits are durable without a flush. The board did not know that they
/// are. So after a failed sync the next opener wrote them again, and power was lost meanwhile.
#[test]
fn what_forced_writes_have_made_durable_is_not_written_again_after_a_failed_sync() {
    register().unwrap();
    let setting = Setting::new("waldio", Journal::Wal).with_uri("layout=embed&sync=pd");
    let script = Script::draw_for(&setting, Workload::Vacuum, 12_178_297_968_071_185_142);
    let strikes = struck(Fault::Sync, .., true, AfterError::Reopen);
    assert_no_violation(&script, &setting, strikes);
}

/// A transaction spills frames, rolls back to a savepoint in front of them all, and begins the WAL
/// anew. Its frames go where those were. The board was not told of such frames. So after a failed
/// sync they were written again, though they were acknowledged.
#[test]
fn acknowledged_frames_in_the_place_of_spilled_ones_are_not_written_again() {
    register().unwrap();
    let uri = "layout=embed&sync=fs&prealloc=0";
    let setting = Setting::new("waldio", Journal::Wal).with_uri(uri);
    let script = Script::draw_for(&setting, Workload::Savepoints, 3_565_273_561_402_385_925);
    let strikes = struck(Fault::Sync, 9..=9, true, AfterError::Reopen);
    assert_no_violation(&script, &setting, strikes);
}

/// The making of a log ends half-way, with a part of the guard in page 1. The next opener mends
/// that page, which fails in the middle of it too. Those after it must not write over the copy that
/// they mend the page with.
#[test]
fn the_copy_of_page_one_stays_while_page_one_may_be_torn() {
    register().unwrap();
    let uri = "checkpoints=sqlite&layout=pad512&sync=ns&prealloc=65536";
    let setting = Setting::new("waldio", Journal::Wal).with_uri(uri);
    let script = Script::draw_for(&setting, Workload::Synchronous, 5_931_034_663_281_120_502);
    let strikes = struck(Fault::ShortWrite, 5..=5, true, AfterError::Reopen);
    assert_no_violation(&script, &setting, strikes);
}

/// `waldio` with `sync=pd`: the forced write of a commit fails. Its sync may have been told of
/// frames that another connection has written at NORMAL, and the next sync would not be. A commit
/// behind them must not be acknowledged.
#[test]
fn a_forced_write_that_failed_is_a_failed_flush() {
    register().unwrap();
    let uri = "sync=pd&checkpoints=sqlite&layout=embed&prealloc=16384";
    let setting = Setting::new("waldio", Journal::Wal).with_uri(uri);
    let script = Script::draw_for(&setting, Workload::Mixed, 4_827_138_496_128_559_534);
    let strikes = struck(Fault::Sync, .., false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// `waldio`: a TRUNCATE checkpoint marks the copy of page 1 as no longer valid, and syncs that. The
/// sync failed, and commits went on. After a loss of power the old copy was written over page 1.
#[test]
fn a_sync_that_failed_while_the_wal_was_cut_is_a_failed_flush() {
    register().unwrap();
    let uri = "checkpoints=sqlite&layout=pad512&sync=pd&prealloc=65536";
    let setting = Setting::new("waldio", Journal::Wal).with_uri(uri);
    let script = Script::draw_for(&setting, Workload::Checkpoints, 4_948_617_818_995_641_946);
    let strikes = struck(Fault::Sync, 9..=9, false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// `waldio`: the write of the same mark failed, and half of it could be read. So the next try took
/// the copy of page 1 for invalid, and nothing of that was durable.
#[test]
fn a_mark_on_the_copy_of_page_one_that_was_half_written_is_a_failed_flush() {
    register().unwrap();
    let setting = Setting::new("waldio", Journal::Wal).with_uri("layout=pad8k&sync=fs");
    let setting = setting.with_uri("prealloc=16384");
    let script = Script::draw_for(&setting, Workload::Checkpoints, 16_649_623_826_903_353_653);
    let strikes = struck(Fault::ShortWrite, 15..=15, true, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// `waldio` with group synch: a flush covered a commit that counted as written only after it. Then
/// everything was copied, and a sync of the last close failed. The next opener wrote those frames
/// again, and power was lost meanwhile.
#[test]
fn a_commit_that_was_written_by_the_flush_itself_counts_as_durable() {
    register().unwrap();
    let uri = "layout=pad512&sync=fs&prealloc=1&group=8&interval=2ms";
    let setting = Setting::new("waldio", Journal::Wal).with_uri(uri);
    let script = Script::draw_for(&setting, Workload::Switched, 6_208_081_012_379_523_402);
    let strikes = struck(Fault::Sync, 55..=55, true, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// `waldio`: the same sync failed, and all connections closed. The next opener wrote the frames
/// again that the device may have lost. It did not write again that the copy of page 1 is invalid.
#[test]
fn that_the_copy_of_page_one_is_invalid_is_written_again_after_a_failed_sync() {
    register().unwrap();
    let setting = Setting::new("waldio", Journal::Wal).with_uri("layout=pad4k&sync=ns");
    let setting = setting.with_uri("prealloc=16384");
    let script = Script::draw_for(&setting, Workload::Crashed, 7_202_416_331_249_816_210);
    let strikes = struck(Fault::Sync, 4..=4, false, AfterError::Reopen);
    assert_no_violation(&script, &setting, strikes);
}

/// `waldio`: the sync of a new piece of the lane failed, and that was taken for a failed write. It
/// may have lost a commit that was written before. A checkpoint copied that commit.
#[test]
fn a_sync_of_the_lane_that_failed_is_a_failed_flush() {
    register().unwrap();
    let uri = "checkpoints=sqlite&layout=embed&sync=ns&prealloc=0&group=8&interval=2ms";
    let setting = Setting::new("waldio", Journal::Wal).with_uri(uri);
    let script = Script::draw_for(&setting, Workload::Crashed, 2_946_613_092_393_135_809);
    let strikes = struck(Fault::Sync, 5..=5, false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// `waldio` with group synch at NORMAL: a commit that stays in memory has no sync of its own. The
/// checkpoint's sync was taken for it, so pages reached the database before their frames the log.
#[test]
fn a_commit_in_memory_is_written_before_a_checkpoint_copies_it() {
    register().unwrap();
    let uri = "checkpoints=sqlite&layout=embed&sync=fs&prealloc=1&group=8&interval=1000ms";
    let setting = Setting::new("waldio", Journal::Wal).with_uri(uri);
    let script = Script::draw_for(&setting, Workload::Synchronous, 9_914_407_666_766_023_439);
    assert_none_of_the_states_loses_a_commit(&script, &setting, 20_000);
}

fn maw(journal: Journal, uri: &str) -> Setting {
    Setting::new("maw", journal).with_uri(uri).with_uri("checkpoints=sqlite")
}

/// The first transaction of a database is an ordinary one. SQLite had sent the sync of the file
/// while all was in memory. So the journal was deleted before the pages were durable.
#[test]
fn a_transaction_that_turns_ordinary_at_its_end_is_synced_before_its_journal_ends() {
    register().unwrap();
    for journal in Journal::OF_ROLLBACK {
        for synchronous in Synchronous::ALL {
            let setting = maw(journal, "atomic=log");
            let script = Script::draw_for(&setting, Workload::Fresh, 6_791_897_765_849_424_158);
            let steps = script.steps[..1].to_vec();
            let script = Script { level: Some(synchronous), steps, ..script };
            assert_no_state_loses_a_commit(&script, &setting);
        }
    }
}

/// At NORMAL SQLite makes its journal valid and syncs it once. A record that is lost may have the
/// right checksum. With a super-journal such a transaction is an ordinary one of `maw`.
#[test]
fn a_journal_is_valid_only_when_its_records_are_durable() {
    register().unwrap();
    for journal in Journal::OF_ROLLBACK {
        let setting = maw(journal, "atomic=log&log_size=1048576");
        let script = Script::draw_for(&setting, Workload::Attach, 17_171_160_726_500_789_228);
        let steps = script.steps[..1].to_vec();
        let script = Script { level: Some(Synchronous::Normal), steps, ..script };
        assert_none_of_the_states_loses_a_commit(&script, &setting, 20_000);
    }
}

/// In exclusive locking mode SQLite keeps its lock after an error. A commit was in the log, and its
/// writing in place failed half-way. The connection went on to read what was there.
#[test]
fn a_commit_that_failed_in_place_is_whole_for_an_exclusive_connection() {
    register().unwrap();
    let setting = maw(Journal::Truncate, "atomic=log");
    let script = Script::draw_for(&setting, Workload::Fresh, 8_061_161_583_904_312_913);
    assert!(script.is_exclusive);
    let strikes = struck(Fault::Io, 30..60, false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// The first pages of the commit are in the file, and a panic comes at the next one. The connection
/// keeps its lock, so nothing else made it look at the board again.
#[test]
fn a_commit_that_a_panic_ends_in_place_is_whole_for_an_exclusive_connection() {
    register().unwrap();
    let setting = maw(Journal::Truncate, "atomic=log");
    let script = Script::draw_for(&setting, Workload::Fresh, 8_061_161_583_904_312_913);
    assert!(script.is_exclusive);
    assert_no_violation(&script, &setting, struck(Fault::Panic, 50..60, false, AfterError::GoOn));
}

/// SQLite's WAL is a file of ours there, behind a function that no panic may cross.
#[test]
fn a_panic_in_a_wal_of_waldio_reaches_the_callback_of_sqlite() {
    register().unwrap();
    let setting = Setting::of("waldio");
    let script = Script::draw_for(&setting, Workload::One, 7);
    assert_no_violation(&script, &setting, struck(Fault::Panic, 0..40, false, AfterError::Reopen));
}

/// The sync of the guard fails. An exclusive connection goes on, and finds the guard in the file.
#[test]
fn a_guard_that_failed_to_become_durable_is_written_again() {
    register().unwrap();
    let setting = maw(Journal::Persist, "atomic=log&log_size=1048576");
    let script = Script::draw_for(&setting, Workload::One, 14_361_713_269_403_557_092);
    assert!(script.is_exclusive);
    assert_no_violation(&script, &setting, struck(Fault::Sync, .., false, AfterError::GoOn));
}

/// The sync of the database at the end of an epoch fails. The next sync succeeds and does not write
/// what the first has lost. So the log must not begin an epoch then.
#[test]
fn an_epoch_does_not_end_by_a_sync_after_a_failed_one() {
    register().unwrap();
    let setting = maw(Journal::Truncate, "log_size=1048576&atomic=log");
    let script = Script::draw_for(&setting, Workload::Full, 13_266_641_729_347_008_837);
    let strikes = struck(Fault::Sync, 8..14, false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// SQLite alone finishes or deletes its journal, and that does not become durable. Then `maw`
/// commits without a journal of its own. The old one must not come back over that commit.
#[test]
fn a_journal_that_sqlite_alone_has_left_does_not_come_back() {
    register().unwrap();
    let of_log =
        (Journal::Persist, "atomic=log&log_size=1048576", 1_871_062_907_647_783_671, 18..30);
    let of_xfs = (Journal::Delete, "atomic=xfs", 14_594_529_353_020_220_108, 3..8);
    for (journal, uri, seed, at) in [of_log, of_xfs] {
        let setting = maw(journal, uri);
        let script = Script::draw_for(&setting, Workload::Switched, seed);
        let strikes = struck(Fault::Sync, at.clone(), false, AfterError::GoOn);
        assert_no_violation(&script, &setting, strikes);
    }
}

/// A transaction is too large for memory. The sync of its real journal fails, and the journal is
/// deleted. The next commit has none, and must not leave that deletion in flight.
#[test]
fn a_journal_of_a_transaction_that_failed_does_not_come_back() {
    register().unwrap();
    let setting = maw(Journal::Persist, "atomic=xfs&log_size=1048576");
    let script = Script::draw_for(&setting, Workload::Huge, 883_292_050_863_345_382);
    let strikes = struck(Fault::Sync, 4..9, false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// Where the provider was not there for a moment, a commit failed with a code for which SQLite
/// keeps its cache. The next transaction stood on what had not been committed.
#[test]
fn a_commit_that_fails_leaves_nothing_in_the_cache_of_its_connection() {
    register().unwrap();
    let setting = maw(Journal::Persist, "atomic=xfs");
    let script = Script::draw_for(&setting, Workload::Mixed, 13_119_329_742_766_556_479);
    let strikes = |cell: &Cell| {
        cell.plan.fault == Fault::NoSpace && cell.plan.at < 4 && cell.then == AfterError::GoOn
    };
    assert_no_violation(&script, &setting, strikes);
}

/// The append of a record of two databases failed, and the log had it all the same. One of them was
/// closed cleanly, without the record. The other one recovered it.
#[test]
fn a_common_record_that_may_be_there_is_asked_for_by_both_databases() {
    register().unwrap();
    let setting = maw(Journal::Persist, "atomic=log&log_size=1048576");
    let script = Script::draw_for(&setting, Workload::Attach, 14_913_634_043_655_111_638);
    let strikes = struck(Fault::ShortWrite, 20..50, true, AfterError::Reopen);
    assert_no_violation(&script, &setting, strikes);
}

/// A process synced the database file to end an epoch, and died. The next one replayed the log,
/// took that sync for its own, and began an epoch. Pages that it had written again were torn.
#[test]
fn a_sync_before_a_replay_does_not_end_the_epoch_after_it() {
    register().unwrap();
    let setting = Setting {
        synchronous: Synchronous::Normal,
        ..Setting::new("maw", Journal::Persist).with_uri("atomic=log&log_size=1048576")
    };
    let script = Script::draw_for(&setting, Workload::Crashed, 15_228_088_462_839_610_566);
    assert_none_of_the_states_loses_a_commit(&script, &setting, 60_000);
}

/// SQLite played back a journal, and kept its file open for the next commit. At NORMAL it does not
/// sync the end of a journal that it truncates.
#[test]
fn a_commit_with_a_journal_that_sqlite_has_played_back_is_durable() {
    register().unwrap();
    let setting = Setting {
        synchronous: Synchronous::Normal,
        ..Setting::new("maw", Journal::Truncate).with_uri("atomic=f2fs&log_size=1048576")
    };
    let script = Script::draw_for(&setting, Workload::Fresh, 103_419_101_783_043_166);
    let strikes = struck(Fault::Sync, 3..=3, false, AfterError::GoOn);
    assert_no_violation(&script, &setting, strikes);
}

/// A database closed. The record that ended its link to another's log failed to become durable, but
/// it could be read. So that other log was retired, and after a loss of power the link led nowhere.
#[test]
fn a_link_that_may_be_there_after_a_failed_sync_keeps_the_log_that_it_names() {
    register().unwrap();
    let setting = maw(Journal::Truncate, "atomic=log&log_size=1048576");
    let script = Script::draw_for(&setting, Workload::Attach, 2_483_966_375_164_819_646);
    let strikes = struck(Fault::Sync, 20..=20, false, AfterError::Reopen);
    assert_no_violation(&script, &setting, strikes);
}

/// A process dies between the write of its record and the flush. The next one reads the record, and
/// its flush fails before it trusts what it has read. Those after it flush without an error. What
/// they append must not stand on a record that only the page cache has.
#[test]
fn a_record_whose_process_died_is_durable_before_others_build_on_it() {
    register().unwrap();
    let commit =
        |connection| json!({"commit": {"connection": connection, "amount": "small", "seed": 3}});
    for setting in [
        Setting::new("eager", Journal::Wal).with_uri("checkpoints=sqlite"),
        Setting::new("waldio", Journal::Wal).with_uri("checkpoints=sqlite"),
        maw(Journal::Delete, "atomic=log"),
    ] {
        // The process dies in the calls to the disk around the flush of its record. Another one has
        // the database open, or nobody.
        for (at, is_alone) in (3..6).flat_map(|at| [(at, false), (at, true)]) {
            let killed =
                json!({"killed": {"connection": 1, "amount": "small", "seed": 3, "at": at}});
            let before = if is_alone { 1 } else { 2 };
            let steps = [commit(before), killed, commit(2), commit(0), commit(2)];
            let steps = serde_json::from_value(json!(steps)).unwrap();
            let script = Script { steps, ..Script::draw_for(&setting, Workload::Processes, 1) };
            let strikes = struck(Fault::Sync, 5..9, false, AfterError::Reopen);
            assert_no_violation(&script, &setting, strikes);
        }
    }
}

/// The cells in which this fault strikes at these operations, once or from there on.
fn struck(
    fault: Fault,
    at: impl RangeBounds<u32>,
    lasting: bool,
    then: AfterError,
) -> impl Fn(&Cell) -> bool {
    move |cell: &Cell| {
        cell.plan.fault == fault
            && at.contains(&cell.plan.at)
            && cell.plan.lasting == lasting
            && cell.then == then
    }
}

/// Tries all states that a loss of power leaves, after each operation.
fn assert_no_state_loses_a_commit(script: &Script, setting: &Setting) {
    assert_none_of_the_states_loses_a_commit(script, setting, 1 << 20);
}

/// Tries so many of them.
fn assert_none_of_the_states_loses_a_commit(script: &Script, setting: &Setting, states: u64) {
    let recording = record(script, setting).unwrap();
    let (seen, go_on) = (Seen::default(), |_: &_| true);
    let explored = Explorer::new(setting, 1, states, &seen, &go_on).explore(&recording);
    explored.map_err(|violation| violation.message).unwrap();
}

fn assert_no_violation(script: &Script, setting: &Setting, strikes: impl Fn(&Cell) -> bool) {
    assert_eq!(violation(script, setting, strikes), None);
}

/// The first violation in the runs with these faults.
fn violation(
    script: &Script,
    setting: &Setting,
    strikes: impl Fn(&Cell) -> bool,
) -> Option<String> {
    let go_on = |_: &_| true;
    let cells: Vec<Cell> = cells(script, setting).unwrap().into_iter().filter(strikes).collect();
    assert!(!cells.is_empty());
    for cell in &cells {
        // Each seed draws three of the crash states.
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
