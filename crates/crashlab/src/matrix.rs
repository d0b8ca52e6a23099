//! The fault matrix: every operation of a run × how it fails × for how long × what the application
//! does then.
//!
//! After each such run two things must hold:
//!
//! - what the next process finds on the undamaged disk is allowed;
//! - every state is allowed that a loss of power after the first error could leave (some of them,
//!   by seed).

use serde::{Deserialize, Serialize};

use crate::examine::examine;
use crate::explore::{Counts, Explorer, Violation};
use crate::fault::{Fault, FaultPlan};
use crate::mix::mix2;
use crate::model::Allowed;
use crate::record::{AfterError, FaultyRun, Recording, record_with_faults};
use crate::script::Script;
use crate::setting::Setting;

/// How many crash states of each run are examined, in each reading.
const SAMPLES: usize = 3;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub plan: FaultPlan,
    pub then: AfterError,
}

/// Every cell of a script, in the order of its operations.
pub fn cells(script: &Script, setting: &Setting) -> Result<Vec<Cell>, String> {
    let mut cells = Vec::new();
    for fault in Fault::ALL {
        let never = FaultPlan::new(fault, u32::MAX, false, 0);
        let count = record_with_faults(script, setting, never, AfterError::GoOn)?.could_strike;
        for at in 0..count {
            for lasting in [false, true] {
                let seed = mix2(script.seed, u64::from(at));
                let plan = FaultPlan::new(fault, at, lasting, seed);
                cells.extend(AfterError::ALL.map(|then| Cell { plan: plan.clone(), then }));
            }
        }
    }
    Ok(cells)
}

/// What the run of a cell showed. The recording is there to report a violation.
pub struct Outcome {
    pub struck: bool,
    pub recording: Recording,
    pub result: Result<Counts, Box<Violation>>,
}

/// Runs one cell. An error is a run that contradicts the model without any crash.
pub fn run_cell(script: &Script, cell: &Cell, explorer: &Explorer<'_>) -> Result<Outcome, String> {
    let run = record_with_faults(script, explorer.setting, cell.plan.clone(), cell.then)?;
    let result = judge(&run, explorer);
    Ok(Outcome { struck: run.struck, recording: run.recording, result })
}

fn judge(run: &FaultyRun, explorer: &Explorer<'_>) -> Result<Counts, Box<Violation>> {
    let allowed = Allowed::after(&run.recording.beginning, &run.recording.log);
    let uncrashed = |message: String| {
        let message = format!("with no loss of power, the next process: {message}");
        Box::new(Violation { message, crashes: Vec::new() })
    };
    let recovery = examine(&run.at_end, explorer.setting, &run.recording.files, &explorer.settled)
        .map_err(uncrashed)?;
    if let Some(message) = allowed.objection(&recovery.found) {
        return Err(uncrashed(message));
    }
    explorer.sample(&run.recording, run.error_after, SAMPLES)
}
