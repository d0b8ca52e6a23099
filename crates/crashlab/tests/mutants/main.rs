//! The simulator is tested by broken variants of `eager`. Each must be caught by a state that must
//! not be, and not by a panic.
//!
//! What a lie between strategy and disk can break is in `controls.rs`. A variant breaks all of this
//! process, so the tests take turns.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use oneflush_blocklog::mutant::{self as of_log, Mutant as LogMutant};
use oneflush_crashlab::{
    BEFORE_THE_RECORDING, Journal, Plan, Report, Setting, Workload, register, run_unshrunk,
};
use oneflush_vfs::mutant::{self as of_eager, Mutant as EagerMutant};

/// A variant that survives so many states is not caught.
const STATES_MAX: u64 = 20_000;

#[derive(Clone, Copy, Debug)]
enum Mutant {
    OfLog(LogMutant),
    OfEager(EagerMutant),
}

impl Mutant {
    fn choose(mutant: Option<Mutant>) {
        of_log::choose(None);
        of_eager::choose(None);
        match mutant {
            None => {}
            Some(Mutant::OfLog(mutant)) => of_log::choose(Some(mutant)),
            Some(Mutant::OfEager(mutant)) => of_eager::choose(Some(mutant)),
        }
    }
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// The right to break this process, until it is dropped.
struct Turn {
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    fn take() -> Turn {
        static COUNTING: Once = Once::new();
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        register().unwrap();
        COUNTING.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICS.fetch_add(1, SeqCst);
                usual(panic);
            }));
        });
        Turn { _turn }
    }

    /// What a run finds with this variant, or without any. Also checks that nothing panicked: a
    /// panic is stopped at SQLite's callbacks and would look like an error.
    fn simulate(&self, mutant: Option<Mutant>, workload: Workload, states: u64) -> Report {
        let (report, panics) = self.simulate_counting(mutant, workload, states);
        assert_eq!(panics, 0, "{mutant:?} made something panic");
        report
    }

    /// The same, without that check. Answers also how often something panicked.
    fn simulate_counting(
        &self,
        mutant: Option<Mutant>,
        workload: Workload,
        states: u64,
    ) -> (Report, usize) {
        let panics_before = PANICS.load(SeqCst);
        Mutant::choose(mutant);
        let setting = Setting::new("eager", Journal::Wal);
        let plan =
            Plan { setting, workloads: vec![workload], states, fault_runs: 0, seed: 7, jobs: 1 };
        let report = run_unshrunk(&plan, &|_| ControlFlow::Continue(()));
        Mutant::choose(None);
        (report, PANICS.load(SeqCst) - panics_before)
    }
}

/// The case that shows the variant: a loss of power, after which one of `wrong` is what is wrong.
fn is_caught(mutant: Mutant, workload: Workload, wrong: &[&str]) {
    let turn = Turn::take();
    let report = turn.simulate(Some(mutant), workload, STATES_MAX);
    let states = report.total().counts.states;
    let Some(case) = report.violation else { panic!("{mutant:?} stood {states} states") };
    let has_crashed = !case.crashes.is_empty() || case.message.starts_with(BEFORE_THE_RECORDING);
    assert!(has_crashed, "{mutant:?}: the run itself went wrong: {}", case.message);
    assert!(wrong.iter().any(|wrong| case.message.contains(wrong)), "{mutant:?}: {}", case.message);
    assert!(!case.message.contains("panic"), "{mutant:?}: {}", case.message);
    eprintln!("{mutant:?} in {:?}: {}", report.elapsed, case.message);
}

const LOST: &str = "acknowledged commits are lost";
/// What SQLite says of a log that is refused, or of a database that is broken.
const MALFORMED: &str = "malformed";
/// What SQLite finds wrong in a database that it can read.
const BROKEN: &str = "integrity_check";
const PARTLY: &str = "a part of a transaction is there";

#[test]
fn what_catches_the_mutants_catches_nothing_where_nothing_is_broken() {
    let turn = Turn::take();
    for workload in [Workload::One, Workload::Checkpoints, Workload::Reopen] {
        let report = turn.simulate(None, workload, 3000);
        assert!(report.violation.is_none(), "{workload}: {}", report.violation.unwrap().message);
        assert!(report.total().counts.states >= 3000);
    }
}

/// A record of several blocks, or one that is torn in its only block, is taken for whole.
#[test]
fn an_unchecked_checksum_is_caught() {
    is_caught(
        Mutant::OfLog(LogMutant::UncheckedPayload),
        Workload::One,
        &[PARTLY, BROKEN, MALFORMED],
    );
}

#[test]
fn a_reused_epoch_is_caught() {
    is_caught(Mutant::OfLog(LogMutant::EpochReused), Workload::Checkpoints, &[LOST, MALFORMED]);
}

#[test]
fn a_reused_lsn_is_caught() {
    is_caught(Mutant::OfLog(LogMutant::LsnReused), Workload::Checkpoints, &[MALFORMED]);
}

/// A durable write is one forced write of the device.
#[test]
fn a_piece_that_only_another_forced_write_follows_is_caught() {
    is_caught(Mutant::OfLog(LogMutant::PieceUnflushed), Workload::Growing, &[LOST]);
}

#[test]
fn a_delta_against_the_wrong_base_is_caught() {
    is_caught(Mutant::OfEager(EagerMutant::WrongBase), Workload::One, &[PARTLY, BROKEN, MALFORMED]);
}

/// Cells of a page that only the database file has went to a new page, by copies. Then a checkpoint
/// overwrites the old page.
#[test]
fn a_copy_from_a_page_that_the_log_lacks_is_caught() {
    is_caught(Mutant::OfEager(EagerMutant::SourcesUncounted), Workload::Checkpoints, &[MALFORMED]);
}

#[test]
fn a_page_torn_under_a_checkpoint_without_its_image_is_caught() {
    is_caught(Mutant::OfEager(EagerMutant::NoPageImages), Workload::Checkpoints, &[MALFORMED]);
}

/// SQLite alone reads a database file that has a part of a checkpoint.
#[test]
fn a_guard_cleared_too_early_is_caught() {
    is_caught(
        Mutant::OfEager(EagerMutant::GuardClearedEarly),
        Workload::Checkpoints,
        &[LOST, BROKEN, MALFORMED],
    );
}

#[test]
fn a_guard_set_too_late_is_caught() {
    is_caught(Mutant::OfEager(EagerMutant::GuardSetLate), Workload::Reopen, &[LOST]);
}

/// Oneflush itself recovers everything. A program without it would not.
#[test]
fn a_guard_that_sqlite_alone_does_not_see_is_caught() {
    is_caught(Mutant::OfEager(EagerMutant::GuardUnseen), Workload::One, &["SQLite alone"]);
}

/// Only processes that share the log can meet it, and not connections of one process. So the
/// workload has processes.
#[test]
fn a_process_that_does_not_follow_the_others_is_caught() {
    is_caught(
        Mutant::OfEager(EagerMutant::StaleHead),
        Workload::Processes,
        &[LOST, MALFORMED, BROKEN],
    );
    let turn = Turn::take();
    let report =
        turn.simulate(Some(Mutant::OfEager(EagerMutant::StaleHead)), Workload::Mixed, 3000);
    assert!(report.violation.is_none(), "{}", report.violation.unwrap().message);
}

#[test]
fn an_epoch_begun_after_a_recovery_is_caught() {
    is_caught(
        Mutant::OfEager(EagerMutant::EpochAfterRecovery),
        Workload::Crashed,
        &[LOST, MALFORMED],
    );
}

/// In the memory of a real image it would end the process. Here it panics.
#[test]
fn a_store_behind_the_end_of_an_image_that_was_cut_is_caught() {
    let turn = Turn::take();
    let mutant = Mutant::OfEager(EagerMutant::CutUntold);
    let (report, panics) = turn.simulate_counting(Some(mutant), Workload::Checkpoints, STATES_MAX);
    assert!(
        report.violation.is_some_and(|case| case.message.contains("disk I/O error")) && panics > 0
    );
}
