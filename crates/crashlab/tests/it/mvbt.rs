//! What the engine `mvbt` has to survive in CI.

use std::ops::ControlFlow;

use oneflush_crashlab::Tear;
use oneflush_crashlab::mvbt::{Plan, Script, Workload, record_with_looks, run};

use crate::share::states_of_one;

#[test]
fn the_engine_keeps_every_promise_in_all_workloads() {
    let seed = oneflush_testing::seed();
    eprintln!("seed {seed}");
    let plan = Plan { workloads: Workload::ALL.to_vec(), states: states_of_one(), seed, jobs: 2 };
    let report = run(&plan, &|_| ControlFlow::Continue(()));
    for (workload, report) in &report.workloads {
        eprintln!("{workload}: {} cases, {:?}", report.cases, report.counts);
    }
    eprintln!("{:?}", report.elapsed);
    if let Some(case) = &report.violation {
        panic!("seed {seed}: {:?}, {:?}: {}", case.script, case.crashes, case.message);
    }
    let counts = report.total().counts;
    assert!(counts.states >= plan.states);
    // Each kind of crash was really there. A garbled sector is left out.
    for (tear, count) in Tear::ALL.into_iter().zip(counts.by_tear) {
        assert_eq!(count > 0, tear != Tear::Garbled, "{counts:?}");
    }
    assert!(counts.by_depth.iter().all(|&count| count > 0), "{counts:?}");
}

/// No version is lost where nothing was written early.
#[test]
fn readers_of_old_versions_are_answered() {
    let (mut answered, mut gone) = (0, 0);
    for seed in 0..300 {
        let script = Script::draw(Workload::Readers, seed);
        let (_, looks) =
            record_with_looks(&script).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
        answered += looks.answered;
        gone += looks.gone;
    }
    eprintln!("{answered} looks answered, {gone} gone");
    assert!(answered > 1000 && gone == 0, "{answered} answered, {gone} gone");
}
