//! Each variant that breaks an invariant which is checked in release trips that check
//! (`docs/invariants.md`).

use oneflush_crashlab::mvbt::{self, Plan as MvbtPlan, Workload as MvbtWorkload};
use oneflush_mvbt::mutant::{Mutant as MvbtMutant, choose as choose_of_mvbt};

use super::*;

const STATES: u64 = 500;

/// What broken invariants are said in runs with these seeds, until something panics.
fn tripped(seeds: impl IntoIterator<Item = u64>, run: impl Fn(&Turn, u64)) -> Vec<String> {
    let turn = Turn::take();
    panics().clear();
    for seed in seeds {
        run(&turn, seed);
        if !panics().is_empty() {
            break;
        }
    }
    let mut said = std::mem::take(&mut *panics());
    said.retain(|said| said.starts_with("invariant "));
    said
}

fn is_breach(said: &str, number: &str) -> bool {
    said.starts_with(&format!("invariant {number} is broken: "))
}

fn trips(mutant: Mutant, workload: Workload, number: &str) {
    trips_with(Run::of(mutant, workload, STATES), number);
}

fn trips_with(run: Run, number: &str) {
    let first = run.mutant.map(Mutant::first_seed);
    let seeds = first.into_iter().chain(SEED..SEED + SEEDS);
    let said = tripped(seeds, |turn, seed| _ = turn.simulate_checked(Run { seed, ..run }));
    assert!(said.iter().any(|said| is_breach(said, number)), "{:?}: {said:?}", run.mutant);
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
    let forgotten = Mutant::Eager(VfsMutant::FailureForgotten);
    trips_with(Run { fault_runs: 200, ..Run::of(forgotten, Workload::One, 1) }, "C2");
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
    let untold = Mutant::Eager(VfsMutant::CutUntold);
    trips_with(Run::of(untold, Workload::Checkpoints, 5000), "E3");
    trips(Mutant::Eager(VfsMutant::GuardClearedEarly), Workload::Checkpoints, "G1");
}

#[test]
fn waldio_and_maw_check_what_must_be_durable_before() {
    trips(Mutant::Waldio(VfsMutant::GuardClearedEarly), Workload::Checkpoints, "G1");
    trips(Mutant::Waldio(VfsMutant::LaneForgotten), Workload::Large, "W1");
    trips(Mutant::Maw(VfsMutant::EpochUnsynced), Workload::Full, "M1");
}

/// What the engine `mvbt` says with this variant.
fn of_mvbt(mutant: MvbtMutant, workload: MvbtWorkload) -> Vec<String> {
    tripped(SEED..SEED + SEEDS, |_, seed| {
        choose_of_mvbt(Some(mutant));
        let plan = MvbtPlan { workloads: vec![workload], states: STATES, seed, jobs: 1 };
        mvbt::run_unshrunk(&plan, &|_| ControlFlow::Continue(()));
        choose_of_mvbt(None);
    })
}

/// What several handles or real files show is in `crates/mvbt/tests/it/invariants.rs`.
#[test]
fn mvbt_checks_what_would_lose_a_transaction_or_a_part_of_it() {
    use MvbtMutant as M;
    use MvbtWorkload as W;
    let variants = [
        ("H2", M::HistoryInFallback, W::History),
        ("I1", M::VersionsReused, W::Killed),
        ("I2", M::CoveredByteChanged, W::Inserts),
        ("I3", M::CollectedEarly, W::Updates),
        ("I4", M::DeadUnlisted, W::Readers),
        ("I5", M::FloorTooLow, W::Readers),
        ("I6", M::FreshNotEmptied, W::Deletes),
        ("I7", M::OverflowRewritten, W::Long),
        ("I8", M::CommitUnflushed, W::Splits),
        ("I9", M::EarlyPagesForgotten, W::Early),
        ("I10", M::OverflowUnlisted, W::Long),
        ("I11", M::LargeUnflushed, W::Huge),
        ("I11a", M::GrowthUnflushed, W::Huge),
        ("I12", M::HeldReused, W::Long),
        ("I12", M::FreedReused, W::Long),
        ("I13", M::RollbackNotVoid, W::Early),
        ("I14", M::BlockUnchecked, W::Splits),
        ("I14", M::RecoveryUnflushed, W::Killed),
        ("I15", M::VoidsUnwritten, W::Splits),
        ("I16", M::VoidsUnsaid, W::Killed),
        ("I20", M::SingleUnmarked, W::Prepared),
        ("I21", M::ReservedNotRaised, W::Splits),
        ("I23", M::CutUnsettled, W::Shrunk),
        ("P1", M::EnteredLate, W::Inserts),
        ("P4", M::RepairSkipped, W::Killed),
        ("P9", M::GivenUpUnsaid, W::Inserts),
    ];
    for (number, mutant, workload) in variants {
        let said = of_mvbt(mutant, workload);
        // What it says first: the check is before the harm.
        let is_first = said.first().is_some_and(|said| is_breach(said, number));
        assert!(is_first, "{mutant:?}: {said:?}");
    }
}
