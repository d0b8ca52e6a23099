//! The simulator is tested by what it must catch, and by what it must not catch.

use std::ops::ControlFlow;

use oneflush_crashlab::{
    Case, Fault, Journal, Plan, Reading, Report, SQLITE_ALONE, Sabotage, Script, Setting,
    Synchronous, Workload, register, run, run_unshrunk,
};
use oneflush_vfs::StrategyKind;

fn plan(setting: Setting, workloads: &[Workload], states: u64, fault_runs: u64) -> Plan {
    register().unwrap();
    Plan { setting, workloads: workloads.to_vec(), states, fault_runs, seed: 7, jobs: 2 }
}

fn simulate(setting: Setting, workloads: &[Workload], states: u64, fault_runs: u64) -> Report {
    run(&plan(setting, workloads, states, fault_runs), &|_| ControlFlow::Continue(()))
}

fn sqlite(journal: Journal, synchronous: Synchronous) -> Setting {
    Setting { synchronous, ..Setting::new(SQLITE_ALONE, journal) }
}

fn caught(report: Report) -> Box<Case> {
    report.violation.expect("the simulator did not notice")
}

fn clean(report: &Report) {
    if let Some(case) = &report.violation {
        panic!(
            "{}: workload {}, {:?}: {}",
            case.setting, case.script.workload, case.crashes, case.message
        );
    }
}

fn acknowledged_commits_are_lost(setting: Setting) {
    let case = caught(simulate(setting, &[Workload::One], 20_000, 0));
    assert!(case.message.contains("acknowledged commits are lost"), "{}", case.message);
    assert!(
        case.replay().is_some_and(|message| message == case.message),
        "the case does not replay"
    );
}

/// The unlink of the journal is the commit, and nothing makes it durable before COMMIT returns.
#[test]
fn sqlite_delete_full_loses_acknowledged_commits() {
    acknowledged_commits_are_lost(sqlite(Journal::Delete, Synchronous::Full));
}

#[test]
fn sqlite_delete_extra_is_clean() {
    let report = simulate(sqlite(Journal::Delete, Synchronous::Extra), &Workload::ALL, 10_000, 0);
    clean(&report);
    assert!(report.total().counts.states >= 10_000);
}

#[test]
fn sqlite_wal_normal_loses_acknowledged_commits() {
    acknowledged_commits_are_lost(sqlite(Journal::Wal, Synchronous::Normal));
}

/// SQLite has no such parameter, and keeps no such promise.
#[test]
fn a_durability_that_does_not_depend_on_synchronous_is_asked_for() {
    let setting = sqlite(Journal::Wal, Synchronous::Full).with_uri("durability=full");
    let case = caught(simulate(setting, &[Workload::Synchronous], 20_000, 0));
    assert!(!case.crashes.is_empty(), "{}", case.message);
}

#[test]
fn sqlite_wal_full_is_clean() {
    let report = simulate(sqlite(Journal::Wal, Synchronous::Full), &Workload::ALL, 10_000, 0);
    clean(&report);
    assert!(report.total().counts.states >= 10_000);
}

#[test]
fn a_failing_case_shrinks_and_survives_the_way_through_a_file() {
    let setting = sqlite(Journal::Delete, Synchronous::Full);
    let case = caught(simulate(setting, &[Workload::Checkpoints], 20_000, 0));
    let drawn = Script::draw(Workload::Checkpoints, case.script.seed);
    assert!(case.script.steps.len() < drawn.steps.len(), "{:?}", case.script.steps);
    let file = serde_json::to_string(&*case).unwrap();
    let read: Case = serde_json::from_str(&file).unwrap();
    assert_eq!(read.replay(), Some(case.message.clone()));
    // What is left of the crash is needed: without it nothing is wrong.
    let mut harmless = read;
    harmless.crashes.clear();
    assert_eq!(harmless.replay(), None);
}

/// The other tests of this program draw from the same random numbers. So only the number of states
/// is compared.
#[test]
fn a_run_follows_from_its_seed() {
    register().unwrap();
    let run = || {
        let setting = sqlite(Journal::Wal, Synchronous::Full);
        let workloads = vec![Workload::One];
        let plan = Plan { setting, workloads, states: 1000, fault_runs: 30, seed: 11, jobs: 1 };
        let total = run(&plan, &|_| ControlFlow::Continue(())).total();
        (total.counts, total.faults.runs, total.faults.states)
    };
    assert_eq!(run(), run());
}

/// Every strategy under every lie.
fn every_strategy_with(sabotage: Sabotage, workloads: &[Workload], fault_runs: u64) -> Vec<Case> {
    let caught = StrategyKind::ALL.map(|strategy| {
        let setting = Setting { sabotage, ..Setting::of(strategy.name()) };
        // Commits that are acknowledged early promise nothing that a lie could break.
        let setting = if setting.has_slots() { setting.with_uri("group=0") } else { setting };
        // The lies are of a log.
        let setting =
            if setting.absorbs_journal() { setting.with_uri("atomic=log") } else { setting };
        let states = if fault_runs == 0 { 20_000 } else { 0 };
        let plan = plan(setting, workloads, states, fault_runs);
        // A case of pages of 64 KiB takes minutes to shrink.
        *caught(run_unshrunk(&plan, &|_| ControlFlow::Continue(())))
    });
    caught.into()
}

/// Acknowledged commits are not there, or the log that should have them is refused.
fn is_loss(case: &Case) -> bool {
    let has_log = ["eager", "waldio", "maw"].contains(&case.setting.strategy.as_str());
    let refused =
        ["malformed", "unable to open"].iter().any(|message| case.message.contains(message));
    // With `maw` a commit is in place before anything else is durable than its record.
    let broken = ["integrity_check", "a part of a transaction"]
        .iter()
        .any(|message| case.message.contains(message));
    case.message.contains("acknowledged commits are lost")
        || (has_log && refused)
        || (case.setting.absorbs_journal() && broken)
}

#[test]
fn no_flush_at_commit_is_caught() {
    for case in every_strategy_with(Sabotage::NoFlush, &[Workload::One], 0) {
        assert!(is_loss(&case), "{}", case.message);
    }
}

#[test]
fn acknowledgement_before_the_flush_is_caught() {
    for case in every_strategy_with(Sabotage::LateFlush, &[Workload::One], 0) {
        assert!(is_loss(&case), "{}", case.message);
    }
}

#[test]
fn no_directory_sync_is_caught() {
    for case in
        every_strategy_with(Sabotage::NoDirectorySync, &[Workload::Fresh, Workload::Reopen], 0)
    {
        // Where the file system has one journal, the own sync of a new or larger file makes its
        // name durable. A kept WAL that gets its name back is neither new nor larger.
        let takes_a_name_back = case.setting.to_string().starts_with("plain");
        assert!(takes_a_name_back || case.crashes[0].reading == Reading::Weak, "{}", case.message);
    }
}

#[test]
fn acknowledgement_after_a_failed_fsync_is_caught() {
    for case in every_strategy_with(Sabotage::HiddenSyncFailure, &[Workload::One], 100_000) {
        let cell = case.cell.as_ref().expect("caught without a fault");
        assert_eq!(cell.plan.fault, Fault::Sync);
    }
}

#[test]
fn a_wal_reused_before_the_database_is_synced_is_caught() {
    every_strategy_with(Sabotage::NoDatabaseSync, &[Workload::Checkpoints], 0);
}

/// The first commit after a checkpoint begins the log anew, and is acknowledged while the database
/// is not durable yet.
#[test]
fn a_log_begun_anew_before_the_database_is_synced_is_caught() {
    every_strategy_with(Sabotage::LateDatabaseSync, &[Workload::Checkpoints], 0);
}

#[test]
fn a_flush_before_the_write_is_caught() {
    for case in every_strategy_with(Sabotage::FlushBeforeWrite, &[Workload::One], 0) {
        assert!(is_loss(&case), "{}", case.message);
    }
}

/// Only garbage in a torn sector can harm what was there already. So only the weak reading shows
/// it.
#[test]
fn a_tail_block_that_is_rewritten_is_caught() {
    for case in every_strategy_with(Sabotage::RewrittenTail, &[Workload::One], 0) {
        assert!(is_loss(&case), "{}", case.message);
        assert_eq!(case.crashes[0].reading, Reading::Weak, "{}", case.message);
    }
}
