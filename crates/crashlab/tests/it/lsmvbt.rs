//! SQLite on its second B-tree: no loss of power and no failing disk makes it lose a commit.

use std::ops::ControlFlow;

use oneflush_crashlab::{
    Case, LSMVBT, Plan, Report, Sabotage, Setting, Workload, register, run, run_unshrunk,
};

use crate::share::states_of_one;

fn plan(sabotage: Sabotage, workloads: &[Workload], states: u64, fault_runs: u64) -> Plan {
    register().unwrap();
    let setting = Setting { sabotage, ..Setting::of(LSMVBT) };
    Plan { setting, workloads: workloads.to_vec(), states, fault_runs, seed: 37, jobs: 2 }
}

fn clean(report: &Report) {
    if let Some(case) = &report.violation {
        panic!("workload {}, {:?}: {}", case.script.workload, case.crashes, case.message);
    }
}

#[test]
fn no_loss_of_power_takes_a_commit() {
    let all = Setting::of(LSMVBT).workloads();
    let states = states_of_one();
    let report = run(&plan(Sabotage::None, &all, states, 0), &|_| ControlFlow::Continue(()));
    clean(&report);
    assert!(report.total().counts.states >= states);
}

/// A failed flush poisons the handle that met it. Another one goes on with what is on the medium. A
/// failed sync of the directory of a new database is repeated by who opens it next (I22).
#[test]
fn no_failing_disk_takes_a_commit() {
    use Workload::{Fresh, One, Processes, Reopen, Savepoints, Writers};
    let workloads = [Fresh, One, Processes, Reopen, Savepoints, Writers];
    let report = run(&plan(Sabotage::None, &workloads, 0, 300), &|_| ControlFlow::Continue(()));
    clean(&report);
    assert!(report.total().faults.runs.iter().all(|&runs| runs > 100));
}

fn caught(sabotage: Sabotage, workload: Workload, states: u64, fault_runs: u64) -> Box<Case> {
    let plan = plan(sabotage, &[workload], states, fault_runs);
    let report = run_unshrunk(&plan, &|_| ControlFlow::Continue(()));
    report.violation.unwrap_or_else(|| panic!("{} was not noticed", sabotage.name()))
}

#[test]
fn each_lie_of_the_disk_is_caught() {
    use Sabotage::{HiddenSyncFailure, LateDatabaseSync, NoDatabaseSync, NoDirectorySync};
    caught(NoDatabaseSync, Workload::One, 20_000, 0);
    caught(LateDatabaseSync, Workload::One, 20_000, 0);
    caught(NoDirectorySync, Workload::Fresh, 20_000, 0);
    caught(HiddenSyncFailure, Workload::One, 0, 3000);
}
