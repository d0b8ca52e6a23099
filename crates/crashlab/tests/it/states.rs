//! What every strategy has to survive in CI.

use std::ops::ControlFlow;

use oneflush_crashlab::{Occurrence, Plan, Report, Setting, Workload, register, run};
use oneflush_vfs::StrategyKind;

use crate::share::states_of_one;

/// `stock`, which is SQLite alone, gets one state for so many of a strategy of ours. `controls.rs`
/// has it too.
const STATES_A_STATE_OF_STOCK: u64 = 10;
/// One run with faults for so many states.
const STATES_A_FAULT_RUN: u64 = 200;

fn simulate(setting: Setting, states: u64, fault_runs: u64, seed: u64, jobs: usize) -> Report {
    register().unwrap();
    let workloads = Workload::ALL.to_vec();
    run(
        &Plan { setting, workloads, states, fault_runs, seed, jobs },
        &|_| ControlFlow::Continue(()),
    )
}

#[test]
fn every_strategy_keeps_every_promise_in_its_part_of_the_states() {
    let seed = oneflush_testing::seed();
    eprintln!("seed {seed}");
    let broken: Vec<String> =
        StrategyKind::ALL.into_iter().filter_map(|strategy| broken(strategy, seed).err()).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn broken(strategy: StrategyKind, seed: u64) -> Result<(), String> {
    let is_ours = strategy != StrategyKind::Stock;
    // With `stock` a program may not go on after a failed sync (`findings.rs`).
    let part = states_of_one();
    let (states, fault_runs) = if is_ours {
        (part, part / STATES_A_FAULT_RUN)
    } else {
        (part / STATES_A_STATE_OF_STOCK, 0)
    };
    let report = simulate(Setting::of(strategy.name()), states, fault_runs, seed, 2);
    if let Some(case) = &report.violation {
        return Err(format!(
            "{}, seed {seed}: workload {}, {:?}, {:?}: {}",
            case.setting, case.script.workload, case.cell, case.crashes, case.message
        ));
    }
    let total = report.total();
    assert!(total.counts.states >= states);
    // Each kind of crash and fault was really there.
    let counts = &total.counts;
    for count in counts.by_reading.iter().chain(&counts.by_tear).chain(&counts.by_depth) {
        assert!(*count > 0, "{total:?}");
    }
    assert!(total.faults.runs.iter().all(|&runs| (runs > 0) == is_ours), "{total:?}");
    for (workload, report) in &report.workloads {
        assert!(
            report.counts.states >= states / Workload::ALL.len() as u64,
            "{workload}: {report:?}"
        );
    }
    if strategy == StrategyKind::Eager {
        // The image is never asked for to be durable. So the strategy must do without any part of
        // it.
        let image = counts.losses.of("-oneflush-wal");
        assert!(image.iter().all(|&count| count >= part / 50), "missing, cut, stale: {image:?}");
    }
    if strategy == StrategyKind::Waldio {
        for (occurrence, count) in Occurrence::ALL.iter().zip(counts.occurrences.counts()) {
            assert!(count >= part / 500, "{}: {count}", occurrence.name());
        }
    }
    Ok(())
}
