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
    trips_with(mutant, workload, (STATES, 0), number);
}

/// The same in so many states, and then in runs with faults.
fn trips_with(mutant: Mutant, workload: Workload, amount: (u64, u64), number: &str) {
    let said = tripped(|turn| {
        for seed in [mutant.first_seed()].into_iter().chain(SEED..SEED + SEEDS) {
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
fn the_log_checks_where_a_record_goes() {
    trips(Mutant::Log(LogMutant::LaneOverrun), Workload::Growing, "L1");
    trips(Mutant::Log(LogMutant::EpochReused), Workload::Checkpoints, "L2");
    trips(Mutant::Log(LogMutant::LsnReused), Workload::Checkpoints, "L3");
    trips(Mutant::Log(LogMutant::PieceUnflushed), Workload::Growing, "L4");
}

#[test]
fn the_engine_checks_what_is_acknowledged_and_written() {
    trips(Mutant::Eager(VfsMutant::AcknowledgedUncovered), Workload::One, "C1");
    trips(Mutant::Eager(VfsMutant::FrameMisplaced), Workload::One, "C2");
    trips_with(Mutant::Eager(VfsMutant::FailureForgotten), Workload::One, (1, 200), "C3");
}

#[test]
fn the_board_checks_who_changes_it() {
    trips(Mutant::Eager(VfsMutant::BusyForgotten), Workload::One, "B1");
    trips(Mutant::Maw(VfsMutant::BusyForgotten), Workload::One, "B1");
    trips(Mutant::Eager(VfsMutant::StaleHead), Workload::Processes, "B2");
}

#[test]
fn eager_checks_its_epochs_and_checkpoints() {
    trips(Mutant::Eager(VfsMutant::EpochAfterRecovery), Workload::Crashed, "E1");
    trips(Mutant::Eager(VfsMutant::NoPageImages), Workload::Checkpoints, "E2");
    trips_with(Mutant::Eager(VfsMutant::CutUntold), Workload::Checkpoints, (5000, 0), "E3");
    trips(Mutant::Eager(VfsMutant::GuardClearedEarly), Workload::Checkpoints, "G1");
}

#[test]
fn waldio_and_maw_check_what_must_be_durable_before() {
    trips(Mutant::Waldio(VfsMutant::GuardClearedEarly), Workload::Checkpoints, "G1");
    trips(Mutant::Waldio(VfsMutant::LaneForgotten), Workload::Large, "W1");
    trips(Mutant::Maw(VfsMutant::EpochUnsynced), Workload::Full, "M1");
}
