//! Each variant that breaks an invariant which is checked in release trips that check
//! (`docs/invariants.md`).

use super::*;

const STATES: u64 = 500;

/// What a run with this variant says of broken invariants.
fn tripped(run: impl FnOnce(&Turn)) -> Vec<String> {
    let turn = Turn::take();
    let said = || std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    said();
    run(&turn);
    said().into_iter().filter(|said| said.starts_with("invariant ")).collect()
}

fn trips(mutant: Mutant, workload: Workload, number: &str) {
    let said = tripped(|turn| {
        for seed in [mutant.first_seed()].into_iter().chain(SEED..SEED + SEEDS) {
            let amount = (STATES, 0);
            turn.simulate_checked(mutant.strategy(), Some(mutant), workload, amount, seed);
            if !SAID.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                return;
            }
        }
    });
    let expected = format!("invariant {number} is broken: ");
    assert!(said.iter().any(|said| said.starts_with(&expected)), "{mutant:?}: {said:?}");
}

#[test]
fn the_log_checks_what_would_overwrite_or_lose_records() {
    trips(Mutant::Log(LogMutant::LaneOverrun), Workload::Growing, "L1");
}
