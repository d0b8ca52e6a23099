//! Eager synching over a lower that loses power: nothing that was synced is lost, nothing is half.

use std::ops::ControlFlow;

use oneflush_crashlab::Sabotage;
use oneflush_crashlab::eagerfs::{self, Plan, Report, Step};
use oneflush_eagerfs::tree::Isets;

fn plan(length: usize, scripts: Option<usize>, states_a_moment: usize) -> Plan {
    Plan {
        length,
        scripts,
        seed: 38,
        isets: Isets::All,
        mutant: None,
        sabotage: Sabotage::None,
        has_faults: false,
        states_a_moment,
        recoveries_a_loss: 10,
        states_max: u64::MAX,
        jobs: 2,
    }
}

fn run(plan: &Plan) -> Report {
    eagerfs::run(plan, &|_| ControlFlow::Continue(()))
}

fn clean(report: &Report) {
    println!("{} scripts, {} states, {:?}", report.scripts, report.states, report.by_depth);
    if let Some(failure) = &report.failure {
        panic!("{failure}");
    }
}

#[test]
fn all_scripts_of_one_operation_survive() {
    clean(&run(&plan(1, None, 20)));
}

#[test]
fn scripts_of_two_operations_survive() {
    let report = run(&plan(2, Some(3000), 4));
    clean(&report);
    assert!(report.states > 20_000);
}

#[test]
fn scripts_of_three_operations_survive() {
    let report = run(&plan(3, Some(5000), 3));
    clean(&report);
    assert!(report.states > 5000);
}

/// After a failed sync of the lower, or a failed write to the log, nothing is acknowledged, and
/// what was acknowledged before is there.
#[test]
fn nothing_is_acknowledged_after_a_failure() {
    clean(&run(&Plan { has_faults: true, ..plan(2, Some(2000), 3) }));
}

/// What SQLite does for three commits: a journal, the database, the journal's end. As it is built
/// for Android, it does not sync the directory.
fn commits(end: &[Step], syncs_directory: bool) -> Vec<Step> {
    let (journal, database) = ("new", "foo");
    let mut steps = Vec::new();
    for commit in 0..3 {
        if commit == 0 || end == [Step::Unlink(journal)] {
            steps.push(Step::Create(journal));
            steps.extend(syncs_directory.then_some(Step::FsyncDirectory("")));
        }
        steps.extend([
            Step::Overwrite(journal, 0, 4700),
            Step::Fsync(journal),
            Step::Overwrite(database, 4096, 4096),
            Step::Fsync(database),
        ]);
        steps.extend(end);
    }
    steps
}

fn journals() -> Vec<Vec<Step>> {
    let ends: [&[Step]; 3] = [
        &[Step::Unlink("new")],
        &[Step::Truncate("new", 0), Step::Fsync("new")],
        &[Step::Overwrite("new", 0, 28), Step::Fsync("new")],
    ];
    let scripts = ends.into_iter().flat_map(|end| [commits(end, true), commits(end, false)]);
    scripts.collect()
}

/// SQLite in DELETE, TRUNCATE and PERSIST mode: a journal that came back would roll back commits
/// that were acknowledged.
#[test]
fn a_journal_does_not_come_back() {
    let plan = Plan { has_faults: true, ..plan(0, None, 60) };
    clean(&eagerfs::run_scripts(&plan, &journals(), &|_| ControlFlow::Continue(())));
}

/// Each of these has failed once, for another reason.
#[test]
fn scripts_that_have_failed_survive() {
    use Step::{Append, Create, EndEpoch, Exchange, Fsync, Link, Release, Rename, Sync, Truncate};
    let scripts = [
        // What the log had of a file before a sync of everything was replayed over it.
        vec![Truncate("foo", 30_000), Fsync("foo"), Append("foo", 40_000), Sync],
        // The cut stood in the epoch that a sync of everything begins.
        vec![Truncate("A/bar", 100), Append("A/bar", 6000), Sync, Create("new"), Fsync("new")],
        // A file that a later rename had brought back to a name of before was moved away from it.
        vec![Exchange("foo", "A/bar"), Fsync("foo"), Rename("A/bar", "foo"), Fsync("foo")],
        // A second name was taken for one that came later than the log.
        vec![Link("A/bar", "new"), Fsync("foo"), EndEpoch, Release],
        vec![Link("A/bar", "new"), Fsync("new"), Rename("new", "foo"), Step::Unlink("foo")],
    ];
    clean(&eagerfs::run_scripts(&plan(0, None, 60), &scripts, &|_| ControlFlow::Continue(())));
}

#[cfg(feature = "mutants")]
mod broken {
    use oneflush_crashlab::Sabotage;
    use std::ops::ControlFlow;

    use oneflush_crashlab::eagerfs::{self, Plan, Step};
    use oneflush_eagerfs::mutant::{ALL, Mutant};
    use oneflush_eagerfs::tree::Isets;

    use super::{journals, plan, run};

    /// Scripts that have caught some, before others are sought.
    fn known() -> Vec<Vec<Step>> {
        use Step::{
            Append, Create, EndEpoch, Exchange, Fsync, FsyncDirectory, Link, Mkdir, Overwrite,
            Release, Rename, Truncate,
        };
        let tail = [Fsync("foo"), EndEpoch, Release];
        let script = |steps: &[Step]| [steps, &tail].concat();
        vec![
            script(&[Create("new"), FsyncDirectory("A"), Link("new", "A/new")]),
            vec![Create("new"), FsyncDirectory("A"), Link("new", "A/new"), FsyncDirectory("A")],
            script(&[Mkdir("B"), Fsync("A/bar"), Create("B/new")]),
            script(&[Append("foo", 40_000), Fsync("foo"), Append("A/bar", 6000), Fsync("A/bar")]),
            script(&[Create("new"), Append("new", 40_000), Fsync("new")]),
            script(&[Append("foo", 700), Fsync("foo"), Append("foo", 40_000), Fsync("foo")]),
            script(&[Overwrite("foo", 4000, 300), Fsync("foo"), Truncate("foo", 4500)]),
            script(&[Overwrite("foo", 4000, 300), Fsync("foo"), EndEpoch, Truncate("foo", 0)]),
            script(&[Append("A/bar", 6000), Rename("A/bar", "foo")]),
            script(&[Truncate("foo", 4500), Append("foo", 700)]),
            script(&[Rename("foo", "new"), Rename("new", "A/new")]),
            vec![Exchange("foo", "A/bar"), Fsync("foo"), Rename("A/bar", "foo")],
        ]
    }

    fn is_caught(plan: &Plan) -> bool {
        let mut seeds = 0..16;
        let among_known = seeds.find_map(|seed| {
            let plan = Plan { seed, states_a_moment: 60, recoveries_a_loss: 1, ..plan.clone() };
            eagerfs::run_scripts(&plan, &known(), &|_| ControlFlow::Continue(())).failure
        });
        let failure = among_known.or_else(|| run(plan).failure);
        if let Some(failure) = &failure {
            println!("{:?}, {:?}: {failure}", plan.mutant, plan.isets);
        }
        failure.is_some()
    }

    #[test]
    fn each_broken_variant_is_caught() {
        let missed: Vec<Mutant> = ALL
            .into_iter()
            .filter(|mutant| {
                let has_faults = *mutant == Mutant::FailureForgotten;
                let plan = Plan { recoveries_a_loss: 2, has_faults, ..plan(2, None, 6) };
                !is_caught(&Plan { mutant: Some(*mutant), ..plan })
            })
            .collect();
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn a_log_without_flushes_is_caught() {
        assert!(is_caught(&Plan { sabotage: Sabotage::NoFlush, ..plan(2, None, 6) }));
    }

    /// The removal of a journal stays out of the records of the next commit.
    #[test]
    fn with_closure_a_journal_comes_back() {
        let scripts = &journals()[1..2];
        // By the seed the log's lanes are short or long. In short ones the next epoch makes the
        // removal durable.
        let failure = (0..8).find_map(|seed| {
            let plan = Plan { isets: Isets::Closure, seed, ..plan(0, None, 60) };
            eagerfs::run_scripts(&plan, scripts, &|_| ControlFlow::Continue(())).failure
        });
        println!("{}", failure.expect("a journal comes back"));
    }

    /// The isets of the paper lose what SQLite relies on: that is why they are not the default.
    #[test]
    fn isets_that_leave_operations_out_are_caught() {
        for isets in [Isets::Closure, Isets::Merge] {
            assert!(is_caught(&Plan { isets, ..plan(2, None, 6) }), "{isets:?}");
        }
    }
}
