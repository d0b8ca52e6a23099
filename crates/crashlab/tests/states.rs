//! What every strategy has to survive in CI.

use std::ops::ControlFlow;

use oneflush_crashlab::{Journal, Plan, Report, Setting, Workload, register, run};
use oneflush_vfs::StrategyKind;

fn simulate(setting: Setting, states: u64, fault_runs: u64, seed: u64, jobs: usize) -> Report {
    register().unwrap();
    let workloads = Workload::ALL.to_vec();
    run(
        &Plan { setting, workloads, states, fault_runs, seed, jobs },
        &|_| ControlFlow::Continue(()),
    )
}

#[test]
fn every_strategy_keeps_every_promise_in_100_000_states() {
    let broken: Vec<String> =
        StrategyKind::ALL.into_iter().filter_map(|strategy| broken(strategy).err()).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn broken(strategy: StrategyKind) -> Result<(), String> {
    // `stock` is SQLite alone. `controls.rs` has it too, and a program may not go on with it after
    // a failed sync (`findings.rs`).
    let is_ours = strategy != StrategyKind::Stock;
    let (states, fault_runs) = if is_ours { (100_000, 150) } else { (20_000, 0) };
    let report = simulate(Setting::new(strategy.name(), Journal::Wal), states, fault_runs, 3, 2);
    if let Some(case) = &report.violation {
        return Err(format!(
            "{}: workload {}, {:?}, {:?}: {}",
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
        assert!(image.iter().all(|&count| count >= 1000), "missing, cut, stale: {image:?}");
    }
    Ok(())
}
