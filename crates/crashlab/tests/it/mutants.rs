//! The simulator is tested by broken variants of `eager`, `waldio`, `maw` and the engine `mvbt`.
//! Each must be caught
//! by a state that must not be, and not by a panic.
//!
//! What a lie between strategy and disk can break is in `controls.rs`. A variant breaks all of this
//! process, so the tests take turns.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use oneflush_blocklog::invariant::Unchecked;
use oneflush_blocklog::mutant::{self as of_log, Mutant as LogMutant};
use oneflush_crashlab::{
    BEFORE_THE_RECORDING, Case, Plan, Report, Setting, Workload, register, run_unshrunk,
};
use oneflush_vfs::StrategyKind;
use oneflush_vfs::mutant::{self as of_vfs, Mutant as VfsMutant};

/// A variant that survives so many states is not caught.
const STATES_MAX: u64 = 20_000;

/// The first seed where none is known to catch, and how many share the states.
const SEED: u64 = 7;
const SEEDS: u64 = 12;

#[derive(Clone, Copy, Debug)]
enum Mutant {
    Log(LogMutant),
    Eager(VfsMutant),
    Waldio(VfsMutant),
    Maw(VfsMutant),
}

impl Mutant {
    fn choose(mutant: Option<Mutant>) {
        of_log::choose(None);
        of_vfs::choose(None);
        match mutant {
            None => {}
            Some(Mutant::Log(mutant)) => of_log::choose(Some(mutant)),
            Some(Mutant::Eager(mutant) | Mutant::Waldio(mutant) | Mutant::Maw(mutant)) => {
                of_vfs::choose(Some(mutant));
            }
        }
    }

    /// Options that show the variant. Without them few seeds would. What the timer of group synch
    /// does is no seed's.
    fn uri(self) -> &'static str {
        match self {
            Mutant::Waldio(VfsMutant::LaneShared) => "group=0&layout=embed&sync=fs",
            Mutant::Waldio(_) => "group=0",
            Mutant::Maw(VfsMutant::TemporaryNotEmptied | VfsMutant::SuperJournalMissed) => {
                "atomic=xfs"
            }
            Mutant::Maw(_) => "atomic=log",
            _ => "",
        }
    }

    /// The seed that caught it when it was last looked for; where another one does, the message of
    /// [`caught`] says which.
    fn first_seed(self) -> u64 {
        match self {
            Mutant::Waldio(VfsMutant::BlockRewritten) => 8,
            Mutant::Waldio(VfsMutant::GapMisplaced) => 9,
            Mutant::Waldio(VfsMutant::LaneShared) => 13,
            Mutant::Waldio(VfsMutant::LaneForgotten) => 14,
            Mutant::Waldio(VfsMutant::LaneUnflushed) => 18,
            _ => SEED,
        }
    }

    fn strategy(self) -> StrategyKind {
        match self {
            Mutant::Log(_) | Mutant::Eager(_) => StrategyKind::Eager,
            Mutant::Waldio(_) => StrategyKind::Waldio,
            Mutant::Maw(_) => StrategyKind::Maw,
        }
    }
}

mod invariants;
mod of_eager;
mod of_maw;
mod of_mvbt;
mod of_waldio;

/// What each panic of this process has said.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn panics() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is run, with this variant or without any, and how much of it.
#[derive(Clone, Copy)]
struct Run {
    strategy: StrategyKind,
    mutant: Option<Mutant>,
    workload: Workload,
    states: u64,
    fault_runs: u64,
    seed: u64,
}

impl Run {
    fn without(strategy: StrategyKind, workload: Workload, states: u64) -> Run {
        Run { strategy, mutant: None, workload, states, fault_runs: 0, seed: SEED }
    }

    fn of(mutant: Mutant, workload: Workload, states: u64) -> Run {
        Run { mutant: Some(mutant), ..Run::without(mutant.strategy(), workload, states) }
    }
}

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
                // A breach is a text that was made; others are of no interest.
                let said = panic.payload().downcast_ref::<String>().cloned().unwrap_or_default();
                panics().push(said);
                usual(panic);
            }));
        });
        Turn { _turn }
    }

    /// What a run finds. A variant is to be caught by what it does, and not by a check. Nothing may
    /// panic: a panic is stopped at SQLite's callbacks and would look like an error.
    fn simulate(&self, run: Run) -> Report {
        let panics_before = panics().len();
        let _unchecked = run.mutant.map(|_| Unchecked::everywhere());
        let report = self.simulate_checked(run);
        assert_eq!(panics().len(), panics_before, "{:?} made something panic", run.mutant);
        report
    }

    /// The same with the checks on.
    fn simulate_checked(&self, run: Run) -> Report {
        let Run { strategy, mutant, workload, states, fault_runs, seed } = run;
        Mutant::choose(mutant);
        let setting = Setting::of(strategy.name()).with_uri(mutant.map_or("", Mutant::uri));
        let workloads = vec![workload];
        let plan = Plan { setting, workloads, states, fault_runs, seed, jobs: 1 };
        let report = run_unshrunk(&plan, &|_| ControlFlow::Continue(()));
        Mutant::choose(None);
        report
    }
}

/// The case that shows the variant: a loss of power, after which one of `wrong` is what is wrong.
fn is_caught(mutant: Mutant, workload: Workload, wrong: &[&str]) {
    is_caught_with(mutant, workload, STATES_MAX, 0, wrong);
}

/// The same in so many states, and then in runs with faults.
fn is_caught_with(
    mutant: Mutant,
    workload: Workload,
    states: u64,
    fault_runs: u64,
    wrong: &[&str],
) {
    let case = caught(mutant, workload, states, fault_runs, wrong);
    let has_crashed = !case.crashes.is_empty() || case.message.starts_with(BEFORE_THE_RECORDING);
    assert!(has_crashed, "{mutant:?}: the run itself went wrong: {}", case.message);
}

/// The variant reads what was not written. So the run itself goes wrong, or a state.
fn is_noticed(mutant: Mutant, workload: Workload, wrong: &[&str]) {
    caught(mutant, workload, STATES_MAX, 0, wrong);
}

fn caught(
    mutant: Mutant,
    workload: Workload,
    states: u64,
    fault_runs: u64,
    wrong: &[&str],
) -> Box<Case> {
    let turn = Turn::take();
    let mut stood = 0;
    // Some variants show only in databases that a part of the seeds makes.
    let shares = matches!(mutant, Mutant::Waldio(_) | Mutant::Maw(_)) && fault_runs == 0;
    let count = if shares { SEEDS } else { 1 };
    let first = mutant.first_seed();
    // Before one is said to stand, all have been tried.
    let seeds = [first].into_iter().chain((SEED..SEED + count).filter(|&seed| seed != first));
    let states = states / count;
    let report = seeds
        .map(|seed| {
            let report =
                turn.simulate(Run { fault_runs, seed, ..Run::of(mutant, workload, states) });
            stood += report.total().counts.states;
            (seed, report)
        })
        .find(|(_, report)| report.violation.is_some());
    let Some((case, (seed, report))) =
        report.and_then(|(seed, mut report)| Some((report.violation.take()?, (seed, report))))
    else {
        panic!("{mutant:?} stood {stood} states");
    };
    assert!(wrong.iter().any(|wrong| case.message.contains(wrong)), "{mutant:?}: {}", case.message);
    assert!(!case.message.contains("panic"), "{mutant:?}: {}", case.message);
    eprintln!("{mutant:?}, seed {seed} in {:?}: {}", report.elapsed, case.message);
    case
}

const LOST: &str = "acknowledged commits are lost";
/// What SQLite says of a log that is refused, or of a database that is broken.
const MALFORMED: &str = "malformed";
/// What SQLite finds wrong in a database that it can read.
const BROKEN: &str = "integrity_check";
/// A log or a database is refused.
const REFUSED: &str = "unable to open";
/// What the model says of a read that gives what nobody wrote.
const MADE_UP: &str = "which no transaction made";
const PARTLY: &str = "a part of a transaction is there";
/// What the model says of a commit over two databases.
const IN_ONE: &str = "a transaction over two databases is in one of them";
