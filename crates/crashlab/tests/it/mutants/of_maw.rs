//! Broken variants of `maw`.

use super::*;

fn of(mutant: VfsMutant) -> Mutant {
    Mutant::Maw(mutant)
}

#[test]
fn what_catches_the_mutants_catches_nothing_where_nothing_is_broken() {
    let turn = Turn::take();
    for workload in [Workload::One, Workload::Processes, Workload::Attach, Workload::Full] {
        let report = turn.simulate(Run::without(StrategyKind::Maw, workload, 3000));
        assert!(report.violation.is_none(), "{workload}: {}", report.violation.unwrap().message);
        assert!(report.total().counts.states >= 3000);
    }
}

/// A process dies with a part of its commit in place, and another goes on.
#[test]
fn a_reader_that_does_not_see_a_dead_writer_is_noticed() {
    // Whoever commits does see it, and fails.
    let wrong = [MALFORMED, MADE_UP, BROKEN, LOST, PARTLY, "disk I/O error"];
    is_noticed(of(VfsMutant::BusyUnseen), Workload::Processes, &wrong);
}

/// Power tears the page that the delta stands on.
#[test]
fn a_delta_against_the_page_in_place_is_caught() {
    let wrong = [LOST, MALFORMED, BROKEN, PARTLY, REFUSED];
    is_caught(of(VfsMutant::DeltaAgainstPlace), Workload::One, &wrong);
}

#[test]
fn an_epoch_that_begins_before_the_database_is_synced_is_caught() {
    let wrong = [LOST, MALFORMED, BROKEN, PARTLY];
    is_caught(of(VfsMutant::EpochUnsynced), Workload::Full, &wrong);
}

#[test]
fn databases_that_commit_each_for_itself_are_caught() {
    is_caught(of(VfsMutant::SuperJournalMissed), Workload::Attach, &[IN_ONE, LOST]);
    is_caught(of(VfsMutant::CommitsOneByOne), Workload::Attach, &[IN_ONE, LOST]);
}

/// Its own log does not lead to the record, so a recovery does not find it.
#[test]
fn a_database_without_the_link_to_its_commits_is_caught() {
    let wrong = [IN_ONE, LOST, MALFORMED, BROKEN, PARTLY];
    is_caught(of(VfsMutant::LinkForgotten), Workload::Attach, &wrong);
}

/// A copy beside its original takes the original's log for its own.
#[test]
fn a_link_that_is_followed_whatever_the_names_say_is_caught() {
    let wrong = ["its open changed an original", "was opened alone"];
    is_caught(of(VfsMutant::NamesUnread), Workload::Attach, &wrong);
}

/// A coordinator that was copied alone is opened, and what was linked to it comes later.
#[test]
fn a_log_that_is_not_kept_for_a_missing_database_is_caught() {
    is_caught(of(VfsMutant::LogNotKept), Workload::Attach, &["was opened alone"]);
}

/// The next exchange puts old blocks back.
#[test]
fn a_temporary_file_that_is_not_emptied_is_noticed() {
    let wrong = [MALFORMED, MADE_UP, BROKEN, LOST, PARTLY];
    is_noticed(of(VfsMutant::TemporaryNotEmptied), Workload::One, &wrong);
}

/// SQLite plays it back over a commit that the log has.
#[test]
fn a_journal_that_a_crash_leaves_is_caught() {
    let wrong = [LOST, "SQLite alone", MALFORMED, BROKEN, PARTLY];
    is_caught(of(VfsMutant::JournalVisible), Workload::One, &wrong);
}

#[test]
fn a_rollback_that_commits_is_noticed() {
    let wrong = [MALFORMED, MADE_UP, BROKEN, LOST, PARTLY];
    is_noticed(of(VfsMutant::RollbackCommits), Workload::Savepoints, &wrong);
}

#[test]
fn a_guard_set_too_late_is_caught() {
    let wrong = [LOST, MALFORMED, BROKEN, PARTLY];
    is_caught(of(VfsMutant::GuardSetLate), Workload::Reopen, &wrong);
}

#[test]
fn a_guard_that_sqlite_alone_does_not_see_is_caught() {
    is_caught(of(VfsMutant::GuardUnseen), Workload::One, &["SQLite alone"]);
}
