//! Broken variants of `eager` and its log.

use super::*;

#[test]
fn what_catches_the_mutants_catches_nothing_where_nothing_is_broken() {
    let turn = Turn::take();
    for workload in [Workload::One, Workload::Checkpoints, Workload::Reopen] {
        let report = turn.simulate(Run::without(StrategyKind::Eager, workload, 3000));
        assert!(report.violation.is_none(), "{workload}: {}", report.violation.unwrap().message);
        assert!(report.total().counts.states >= 3000);
    }
}

/// A record of several blocks, or one that is torn in its only block, is taken for whole.
#[test]
fn an_unchecked_checksum_is_caught() {
    is_caught(
        Mutant::Log(LogMutant::UncheckedPayload),
        Workload::One,
        &[PARTLY, BROKEN, MALFORMED],
    );
}

#[test]
fn a_reused_epoch_is_caught() {
    is_caught(Mutant::Log(LogMutant::EpochReused), Workload::Checkpoints, &[LOST, MALFORMED]);
}

#[test]
fn a_reused_lsn_is_caught() {
    is_caught(Mutant::Log(LogMutant::LsnReused), Workload::Checkpoints, &[MALFORMED]);
}

/// A durable write is one forced write of the device.
#[test]
fn a_piece_that_only_another_forced_write_follows_is_caught() {
    is_caught(Mutant::Log(LogMutant::PieceUnflushed), Workload::Growing, &[LOST]);
}

#[test]
fn a_delta_against_the_wrong_base_is_caught() {
    is_caught(Mutant::Eager(VfsMutant::WrongBase), Workload::One, &[PARTLY, BROKEN, MALFORMED]);
}

/// Cells of a page that only the database file has went to a new page, by copies. Then a checkpoint
/// overwrites the old page.
#[test]
fn a_copy_from_a_page_that_the_log_lacks_is_caught() {
    is_caught(Mutant::Eager(VfsMutant::SourcesUncounted), Workload::Checkpoints, &[MALFORMED]);
}

#[test]
fn a_page_torn_under_a_checkpoint_without_its_image_is_caught() {
    is_caught(Mutant::Eager(VfsMutant::NoPageImages), Workload::Checkpoints, &[MALFORMED]);
}

/// SQLite alone reads a database file that has a part of a checkpoint.
#[test]
fn a_guard_cleared_too_early_is_caught() {
    is_caught(
        Mutant::Eager(VfsMutant::GuardClearedEarly),
        Workload::Checkpoints,
        &[LOST, BROKEN, MALFORMED],
    );
}

#[test]
fn a_guard_set_too_late_is_caught() {
    is_caught(Mutant::Eager(VfsMutant::GuardSetLate), Workload::Reopen, &[LOST]);
}

/// Oneflush itself recovers everything. A program without it would not.
#[test]
fn a_guard_that_sqlite_alone_does_not_see_is_caught() {
    is_caught(Mutant::Eager(VfsMutant::GuardUnseen), Workload::One, &["SQLite alone"]);
}

/// Only processes that share the log can meet it, and not connections of one process. So the
/// workload has processes.
#[test]
fn a_process_that_does_not_follow_the_others_is_caught() {
    is_caught(Mutant::Eager(VfsMutant::StaleHead), Workload::Processes, &[LOST, MALFORMED, BROKEN]);
    let turn = Turn::take();
    let stale = Mutant::Eager(VfsMutant::StaleHead);
    let report = turn.simulate(Run::of(stale, Workload::Mixed, 3000));
    assert!(report.violation.is_none(), "{}", report.violation.unwrap().message);
}

#[test]
fn an_epoch_begun_after_a_recovery_is_caught() {
    is_caught(Mutant::Eager(VfsMutant::EpochAfterRecovery), Workload::Crashed, &[LOST, MALFORMED]);
}

/// In the memory of a real image it would end the process, and here it panics. The question for the
/// file's size comes before: the commit fails.
#[test]
fn a_store_behind_the_end_of_an_image_that_was_cut_is_caught() {
    let turn = Turn::take();
    let mutant = Mutant::Eager(VfsMutant::CutUntold);
    let report = turn.simulate(Run::of(mutant, Workload::Checkpoints, STATES_MAX));
    assert!(report.violation.is_some_and(|case| case.message.contains("disk I/O error")));
}
