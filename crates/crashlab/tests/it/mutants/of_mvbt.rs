//! Broken variants of the engine `mvbt`.

use std::ops::ControlFlow;

use oneflush_blocklog::invariant::Unchecked;
use oneflush_crashlab::BEFORE_THE_RECORDING;
use oneflush_crashlab::mvbt::{Case, Plan, Report, Workload as Of, run, run_unshrunk};
use oneflush_mvbt::mutant::{Mutant, choose};

use super::{SEED, STATES_MAX, Turn, panics};

fn simulate(mutant: Option<Mutant>, workloads: &[Of], states: u64) -> Report {
    let _turn = Turn::take();
    // A variant is to be caught by what it does.
    let _unchecked = mutant.map(|_| Unchecked::everywhere());
    choose(mutant);
    let plan = Plan { workloads: workloads.to_vec(), states, seed: SEED, jobs: 1 };
    let report = run_unshrunk(&plan, &|_| ControlFlow::Continue(()));
    choose(None);
    report
}

/// A loss of power shows the variant, in a state that must not be.
fn is_caught(mutant: Mutant, workloads: &[Of]) {
    let case = caught(mutant, workloads);
    let has_crashed = !case.crashes.is_empty() || case.message.starts_with(BEFORE_THE_RECORDING);
    assert!(has_crashed, "{mutant:?}: the run itself went wrong: {}", case.message);
}

/// A state that must not be, or a run that goes wrong by itself.
fn caught(mutant: Mutant, workloads: &[Of]) -> Box<Case> {
    let before = panics().len();
    let report = simulate(Some(mutant), workloads, STATES_MAX);
    let stood = report.total().counts.states;
    let Some(case) = report.violation else { panic!("{mutant:?} stood {stood} states") };
    eprintln!("{mutant:?} after {stood} states in {:?}: {}", report.elapsed, case.message);
    assert_eq!(panics().len(), before, "{mutant:?} made something panic");
    case
}

#[test]
fn what_catches_the_mutants_catches_nothing_where_nothing_is_broken() {
    let report = simulate(None, &Of::ALL, 15_000);
    assert!(report.violation.is_none(), "{}", report.violation.unwrap().message);
    assert!(report.total().counts.states >= 15_000);
}

#[test]
fn a_page_of_the_newest_block_that_is_used_again_is_caught() {
    is_caught(Mutant::HeldReused, &[Of::Long]);
}

#[test]
fn a_page_that_the_transaction_itself_has_freed_is_caught() {
    // The engine itself meets a page that is free and in use.
    caught(Mutant::FreedReused, &[Of::Long]);
}

#[test]
fn space_that_is_collected_before_the_commit_is_caught() {
    is_caught(Mutant::CollectedEarly, &[Of::Updates]);
}

#[test]
fn a_change_under_the_checksum_of_the_active_directory_is_caught() {
    // The engine itself reads the page again, and finds no directory.
    caught(Mutant::CoveredByteChanged, &[Of::Inserts]);
}

#[test]
fn a_block_that_is_not_checked_is_caught() {
    is_caught(Mutant::BlockUnchecked, &[Of::Splits]);
}

#[test]
fn a_void_interval_that_is_not_written_is_caught() {
    is_caught(Mutant::VoidsUnwritten, &[Of::Splits]);
}

#[test]
fn versions_above_what_an_anchor_says_are_caught() {
    // The next opening of the run itself finds a commit block above H.
    caught(Mutant::ReservedNotRaised, &[Of::Splits]);
}

#[test]
fn versions_that_are_given_twice_are_caught() {
    is_caught(Mutant::VersionsReused, &[Of::Splits]);
}

#[test]
fn a_flush_that_is_left_out_is_caught() {
    is_caught(Mutant::CommitUnflushed, &[Of::Splits]);
    is_caught(Mutant::LargeUnflushed, &[Of::Huge]);
    is_caught(Mutant::RecoveryUnflushed, &[Of::Killed]);
}

#[test]
fn a_cut_with_a_block_that_lists_what_is_cut_off_is_caught() {
    is_caught(Mutant::CutUnsettled, &[Of::Shrunk]);
}

#[test]
fn a_list_of_numbers_alone_is_caught() {
    is_caught(Mutant::ChecksumsUnlisted, &[Of::Early]);
}

#[test]
fn overflow_pages_that_no_block_lists_are_caught() {
    is_caught(Mutant::OverflowUnlisted, &[Of::Long]);
}

#[test]
fn overflow_pages_that_are_written_again_are_caught() {
    caught(Mutant::OverflowRewritten, &[Of::Long]);
}

#[test]
fn a_crash_after_which_no_anchor_is_written_is_caught() {
    // The run itself goes on after the deaths of processes.
    caught(Mutant::VoidsUnsaid, &[Of::Killed]);
}

#[test]
fn early_pages_that_no_block_lists_are_caught() {
    is_caught(Mutant::EarlyPagesForgotten, &[Of::Early]);
}

#[test]
fn a_rollback_whose_version_is_not_void_is_caught() {
    is_caught(Mutant::RollbackNotVoid, &[Of::Early]);
}

#[test]
fn a_single_page_that_cannot_be_made_void_is_caught() {
    // The run itself reads what was rolled back.
    caught(Mutant::SingleUnmarked, &[Of::Prepared]);
}

#[test]
fn void_directories_that_are_forgotten_too_early_are_caught() {
    is_caught(Mutant::ScrubUnflushed, &[Of::Scrubbed]);
}

#[test]
fn a_history_that_stands_in_the_other_directory_is_caught() {
    is_caught(Mutant::HistoryInFallback, &[Of::History]);
}

#[test]
fn pages_of_a_history_that_are_used_again_are_caught() {
    caught(Mutant::KeptPagesReused, &[Of::History]);
}

#[test]
fn a_failing_case_is_shrunk_and_replays_from_its_file() {
    let _turn = Turn::take();
    let _unchecked = Unchecked::everywhere();
    choose(Some(Mutant::BlockUnchecked));
    let plan = Plan { workloads: vec![Of::Splits], states: STATES_MAX, seed: SEED, jobs: 1 };
    let case = run(&plan, &|_| ControlFlow::Continue(())).violation.unwrap();
    let file = serde_json::to_string(&case).unwrap();
    let case: Case = serde_json::from_str(&file).unwrap();
    let (broken, described) = (case.replay(), case.describe(0));
    choose(None);
    let mended = case.replay();
    assert_eq!(broken.as_ref(), Some(&case.message));
    assert_eq!(mended, None);
    assert!(described.contains("operations in flight lost"), "{described}");
    assert!(case.script.before.len() + case.script.steps.len() <= 2, "{:?}", case.script);
}
