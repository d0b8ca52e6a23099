//! Broken variants of `waldio`.
//!
//! Two promises have no variant, since nothing depends on them alone:
//!
//! - *Slots are synced before they are used.* A flush makes the size of the file durable too.
//! - *A frame of an earlier life of the WAL is given out as it is.* With the salts of this life it
//!   does not have its checksum, which goes over all frames before it. So SQLite does not take it.

use super::*;

fn of(mutant: VfsMutant) -> Mutant {
    Mutant::Waldio(mutant)
}

#[test]
fn what_catches_the_mutants_catches_nothing_where_nothing_is_broken() {
    let turn = Turn::take();
    for workload in [Workload::One, Workload::Crashed, Workload::Switched] {
        let report = turn.simulate(Run::without(StrategyKind::Waldio, workload, 3000));
        assert!(report.violation.is_none(), "{workload}: {}", report.violation.unwrap().message);
        assert!(report.total().counts.states >= 3000);
    }
}

#[test]
fn a_header_in_the_wrong_place_is_noticed() {
    is_noticed(of(VfsMutant::GapMisplaced), Workload::One, &[MALFORMED, MADE_UP, LOST]);
}

#[test]
fn a_lane_that_is_not_written_is_noticed() {
    is_noticed(of(VfsMutant::LaneForgotten), Workload::Large, &[MALFORMED, MADE_UP, LOST]);
}

#[test]
fn a_lane_that_is_durable_after_its_frame_is_caught() {
    is_caught(of(VfsMutant::LaneUnflushed), Workload::Crashed, &[LOST, MALFORMED, BROKEN]);
}

/// A torn write takes the bytes of frames that were acknowledged before.
#[test]
fn a_block_of_the_lane_that_transactions_share_is_caught() {
    is_caught(of(VfsMutant::LaneShared), Workload::Huge, &[LOST, MALFORMED, BROKEN]);
}

#[test]
fn a_block_with_an_acknowledged_frame_that_is_rewritten_is_caught() {
    is_caught(of(VfsMutant::BlockRewritten), Workload::One, &[LOST, MALFORMED, BROKEN]);
}

#[test]
fn a_log_without_page_one_is_caught() {
    is_caught(of(VfsMutant::PageOneNotKept), Workload::Switched, &[REFUSED, MALFORMED]);
}

/// Other processes read frames under salts of before, and pages of before from their caches.
#[test]
fn a_generation_that_nobody_is_told_of_is_noticed() {
    let wrong = [MALFORMED, MADE_UP, BROKEN, LOST, "file is not a database"];
    is_noticed(of(VfsMutant::GenerationUntold), Workload::Processes, &wrong);
}

/// One process rolls back. Another's commit takes the place of the frames, and the first reads it.
#[test]
fn a_cache_of_frames_that_were_rolled_back_is_noticed() {
    let wrong = [MALFORMED, MADE_UP, BROKEN, "file is not a database"];
    is_noticed(of(VfsMutant::UnpublishedCached), Workload::Crashed, &wrong);
}

/// The sync fails that is to take the guard away, and the guard comes back.
#[test]
fn a_log_that_still_has_commits_after_the_last_close_is_caught() {
    is_caught_with(of(VfsMutant::HeaderLeft), Workload::Switched, 1, 6000, &[REFUSED, LOST]);
}

/// SQLite alone reads a database file that has a part of a checkpoint.
#[test]
fn a_guard_cleared_too_early_is_caught() {
    let wrong = [LOST, BROKEN, MALFORMED];
    is_caught(of(VfsMutant::GuardClearedEarly), Workload::Checkpoints, &wrong);
}

#[test]
fn a_guard_set_too_late_is_caught() {
    is_caught(of(VfsMutant::GuardSetLate), Workload::Reopen, &[LOST, MALFORMED]);
}

#[test]
fn a_guard_that_sqlite_alone_does_not_see_is_caught() {
    is_caught(of(VfsMutant::GuardUnseen), Workload::One, &["SQLite alone"]);
}
