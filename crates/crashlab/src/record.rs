//! Runs a script with real SQLite on a recording disk.
//!
//! Several connections at once are threads of this process, as fast as they come. The disk takes
//! their operations, and those of a strategy's own threads, in the order in which they arrive.

use crate::act::{Actor, Connections, StepError};
use crate::changes::Amount;
use crate::content::Image;
use crate::fault::FaultPlan;
use crate::log::Op;
use crate::model::{Allowed, Found, NOTHING};
use crate::script::{Life, Script, Step};
use crate::setting::{SQLITE_ALONE, Setting};
use crate::state::drawn_image;
use crate::vfs::{Mounted, reserve_bytes};

/// What a run left behind: enough to make all its crash states.
#[derive(Clone)]
pub struct Recording {
    pub initial: Image,
    pub beginning: Vec<Found>,
    pub log: Vec<Op>,
    pub files: Vec<String>,
}

/// What the application does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterError {
    GoOn,
    Reopen,
    CrashNext,
}

impl AfterError {
    pub const ALL: [AfterError; 3] = [AfterError::GoOn, AfterError::Reopen, AfterError::CrashNext];

    pub fn name(self) -> &'static str {
        match self {
            AfterError::GoOn => "go on",
            AfterError::Reopen => "reopen",
            AfterError::CrashNext => "crash next",
        }
    }
}

/// A run in which operations fail.
pub struct FaultyRun {
    pub recording: Recording,
    /// False: the plan's operation was never reached.
    pub struck: bool,
    /// How long the log was when the application met its first error.
    pub error_after: usize,
    /// How many operations the fault could have struck.
    pub could_strike: u32,
    /// The disk at the end as the next process sees it, without a loss of power.
    pub at_end: Image,
}

pub fn record(script: &Script, setting: &Setting) -> Result<Recording, String> {
    let run = Run::prepare(script, setting)?;
    run.steps(&script.steps, None)?;
    run.actor.book_is_kept()?;
    let log = run.actor.machine.disk().take_log();
    Ok(run.recording(log))
}

pub fn record_with_faults(
    script: &Script,
    setting: &Setting,
    plan: FaultPlan,
    then: AfterError,
) -> Result<FaultyRun, String> {
    let run = Run::prepare(script, setting)?;
    run.actor.machine.disk().plan_faults(plan);
    let error_after = run.steps(&script.steps, Some(then))?;
    let mut disk = run.actor.machine.disk();
    let (struck, could_strike) =
        disk.take_faults().map_or((false, 0), |plan| (plan.has_struck(), plan.seen));
    let (log, at_end) = (disk.take_log(), disk.image());
    drop(disk);
    Ok(FaultyRun { struck, error_after, could_strike, at_end, recording: run.recording(log) })
}

/// Names an earlier life in messages.
pub const BEFORE_THE_RECORDING: &str = "in a life before the recording";

struct Run<'a> {
    script: &'a Script,
    setting: &'a Setting,
    initial: Image,
    beginning: Vec<Found>,
    actor: Actor<'a, Mounted>,
}

impl<'a> Run<'a> {
    /// Makes the database as it is before the recording, closes it, and mounts it on the machine
    /// that records.
    fn prepare(script: &'a Script, setting: &'a Setting) -> Result<Run<'a>, String> {
        let actor = Actor::new(script, setting, Mounted::new(&Image::default()));
        let mut run = Run {
            script,
            setting,
            initial: Image::default(),
            beginning: vec![NOTHING; actor.files.len()],
            actor,
        };
        if let Some(reserved) = script.made_by_sqlite {
            run.make_alone(reserved).map_err(|error| run.actor.text(error))?;
        }
        if script.rows_before > 0 {
            let before = |seed| Step::Commit { connection: 0, amount: Amount::Several, seed };
            let mut connections = Connections::new();
            for number in 0..script.rows_before {
                let step = before(script.seed ^ u64::from(number) << 32);
                run.actor.step(&step, &mut connections).map_err(|error| run.actor.text(error))?;
            }
            // Several connections begin with an existing WAL, as after the end of a process. SQLite
            // syncs the directory of a new WAL only if the connection that made it is the first to
            // sync it (docs/crash-simulation.md, findings).
            if setting.acknowledges_early() {
                // What was acknowledged may be in memory. A checkpoint takes it to the disk.
                let open =
                    run.actor.open(&mut connections, 0).map_err(|error| run.actor.text(error))?;
                let checkpointed = open.connection.execute_batch("PRAGMA wal_checkpoint");
                checkpointed.map_err(|error| run.actor.text(error.into()))?;
            }
            let left_open = script.workload.is_threaded().then(|| run.actor.machine.disk().image());
            drop(connections);
            run.beginning = run.actor.read_all()?;
            run.initial = left_open.unwrap_or_else(|| run.actor.machine.disk().image());
            run.actor.machine = Mounted::new(&run.initial);
        }
        for life in &script.lives {
            run.live(life).map_err(|message| format!("{BEFORE_THE_RECORDING}: {message}"))?;
        }
        run.actor.machine.disk().sabotage(setting.sabotage);
        if script.workload.has_processes() {
            run.actor.machine.disk().tell_all_of_failed_syncs();
        }
        Ok(run)
    }

    /// SQLite alone makes the databases, and closes them.
    fn make_alone(&mut self, reserved: u8) -> Result<(), StepError> {
        let alone = Setting::new(SQLITE_ALONE, self.setting.journal);
        for file in &self.actor.files {
            let connection = alone.open(&self.actor.machine, 0, file)?;
            reserve_bytes(&connection, reserved)?;
            connection.execute_batch(&format!(
                "PRAGMA page_size={}; PRAGMA auto_vacuum={}; PRAGMA journal_mode={}; \
                    PRAGMA user_version=1",
                self.script.page_bytes,
                u8::from(self.script.auto_vacuum),
                self.setting.journal.name(),
            ))?;
        }
        self.initial = self.actor.machine.disk().image();
        self.actor.machine = Mounted::new(&self.initial);
        Ok(())
    }

    /// Runs the steps of a life and loses power in it. The recording begins with what is left,
    /// which nobody has recovered yet.
    fn live(&mut self, life: &Life) -> Result<(), String> {
        self.steps(&life.steps, None)?;
        let log = self.actor.machine.disk().take_log();
        let (image, after) =
            drawn_image(&self.initial, &log, &mut fastrand::Rng::with_seed(life.crash_seed));
        let allowed = Allowed::after(&self.beginning, &log[..after]);
        self.actor.machine = Mounted::new(&image);
        self.beginning = self.actor.read_all()?;
        if let Some(message) = allowed.objection(&self.beginning) {
            return Err(message);
        }
        self.actor.machine = Mounted::new(&image);
        self.initial = image;
        Ok(())
    }

    fn recording(self, log: Vec<Op>) -> Recording {
        Recording { initial: self.initial, beginning: self.beginning, log, files: self.actor.files }
    }

    /// Runs the steps. Answers how long the log was at the first error, or at the end.
    fn steps(&self, steps: &[Step], after_error: Option<AfterError>) -> Result<usize, String> {
        let mut connections = Connections::new();
        let mut error_after = None;
        for step in steps {
            let result = self.actor.step(step, &mut connections);
            if result.is_err() {
                error_after = error_after.or(Some(self.actor.machine.disk().log_len()));
            }
            let Err(error) = result else { continue };
            let Some(then) = after_error.filter(|_| error.is_expected_with_faults()) else {
                return Err(self.actor.text(error));
            };
            match then {
                AfterError::GoOn => {
                    for open in connections.values().filter(|open| !open.connection.is_autocommit())
                    {
                        let _ = open.connection.execute_batch("ROLLBACK");
                    }
                }
                AfterError::Reopen => connections.clear(),
                AfterError::CrashNext => {
                    // What the dying process still does on its way out reaches no disk.
                    self.actor.machine.disk().power_off();
                    break;
                }
            }
        }
        Ok(error_after.unwrap_or_else(|| self.actor.machine.disk().log_len()))
    }
}
