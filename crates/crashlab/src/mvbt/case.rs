//! A failing case of the engine: what it takes to see a violation again, alone.

use serde::{Deserialize, Serialize};

use crate::case::{self, Failing, Recorded, SHRINK_STATES};
use crate::explore::{Crash, Explorer, Seen, Violation};
use crate::mix::mix2;
use crate::mvbt::examine::Engine;
use crate::mvbt::record::record;
use crate::mvbt::script::Script;
use crate::record::Recording;

#[derive(Clone, Serialize, Deserialize)]
pub struct Case {
    pub message: String,
    /// Says in a file whose case it is.
    pub engine: Name,
    pub script: Script,
    /// `None`: the run itself went wrong, before any crash.
    recorded: Option<Recorded>,
    /// The crash in the run, then those in the recoveries after it.
    pub crashes: Vec<Crash>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Name {
    Mvbt,
}

impl Case {
    pub fn of_run(message: String, script: &Script) -> Case {
        let script = script.clone();
        Case { message, engine: Name::Mvbt, script, recorded: None, crashes: Vec::new() }
    }

    pub fn of_violation(violation: Violation, recording: &Recording, script: &Script) -> Case {
        let Violation { message, crashes } = violation;
        let recorded = Some(Recorded::of(recording));
        Case { recorded, crashes, ..Case::of_run(message, script) }
    }

    /// What is wrong, if it is still wrong.
    pub fn replay(&self) -> Option<String> {
        match &self.recorded {
            Some(recorded) => {
                let engine = Engine::new(&self.script, &recorded.beginning, &recorded.log);
                recorded.replay(&engine, &self.crashes)
            }
            None => record(&self.script).err(),
        }
    }

    /// What a crash does to the operations in flight, in words.
    pub fn describe(&self, level: usize) -> String {
        case::describe(self.recorded.as_ref(), &self.crashes, level)
    }

    /// The smallest case found that still fails.
    pub fn shrunk(mut self) -> Case {
        self.leave_out_steps();
        case::lose_less(&mut self);
        self
    }

    fn leave_out_steps(&mut self) {
        let steps = |case: &Case| case.script.before.len() + case.script.steps.len();
        let mut at = steps(self);
        while at > 0 {
            at -= 1;
            let mut script = self.script.clone();
            match at.checked_sub(script.before.len()) {
                Some(at) => drop(script.steps.remove(at)),
                None => drop(script.before.remove(at)),
            }
            if let Some(smaller) = search(&script) {
                *self = smaller;
                at = at.min(steps(self));
            }
        }
    }
}

impl Failing for Case {
    fn wrong(&self) -> Option<String> {
        self.replay()
    }

    fn parts(&mut self) -> (&mut String, &mut Vec<Crash>) {
        (&mut self.message, &mut self.crashes)
    }
}

/// Looks for one of some states in which a script fails.
fn search(script: &Script) -> Option<Case> {
    let recording = match record(script) {
        Ok(recording) => recording,
        Err(message) => return Some(Case::of_run(message, script)),
    };
    let seen = Seen::default();
    let engine = Engine::new(script, &recording.beginning, &recording.log);
    let explorer = Explorer::new(&engine, mix2(script.seed, 1), SHRINK_STATES, &seen, &|counts| {
        counts.states < SHRINK_STATES
    });
    let violation = explorer.explore(&recording).err()?;
    Some(Case::of_violation(*violation, &recording, script))
}
