//! A failing case of the engine: what it takes to see a violation again, alone.

use serde::{Deserialize, Serialize};

use crate::case::Recorded;
use crate::examine::Settled;
use crate::explore::{Crash, Explorer, Seen, Subject, Violation, image_after, in_flight_after};
use crate::mix::mix2;
use crate::model::Allowed;
use crate::mvbt::examine::Engine;
use crate::mvbt::record::record;
use crate::mvbt::script::Script;
use crate::record::Recording;
use crate::state::{Fill, Tear};

/// States that are looked at, to see whether a shorter run still fails.
const SHRINK_STATES: u64 = 4000;

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
            Some(recorded) => self.replay_crashes(recorded),
            None => record(&self.script).err(),
        }
    }

    fn replay_crashes(&self, recorded: &Recorded) -> Option<String> {
        let engine = Engine::new(&self.script, &recorded.beginning, &recorded.log);
        let mut image = recorded.initial();
        let mut log = recorded.log.clone();
        let first = self.crashes.first()?;
        let mut allowed = Allowed::after(&recorded.beginning, &log[..first.after.min(log.len())]);
        for crash in &self.crashes {
            image = image_after(&image, &log, crash);
            let examined = engine.examine(&image, &recorded.files, &Settled::default());
            let recovery = match examined {
                Ok(recovery) => recovery,
                Err(message) => return Some(message),
            };
            if let Some(message) = allowed.objection(&recovery.found) {
                return Some(message);
            }
            allowed = Allowed::from(&recovery.found);
            log = recovery.log;
        }
        None
    }

    /// What a crash does to the operations in flight, in words.
    pub fn describe(&self, level: usize) -> String {
        let crash = &self.crashes[level];
        let tear = crash.choice.tear.name();
        let Some(recorded) = self.recorded.as_ref().filter(|_| level == 0) else {
            return tear.to_owned();
        };
        let count = in_flight_after(&recorded.initial(), &recorded.log, crash);
        format!("{} of {count} operations in flight lost, {tear}", crash.choice.lost(count))
    }

    /// The smallest case found that still fails.
    pub fn shrunk(mut self) -> Case {
        self.leave_out_steps();
        for level in 0..self.crashes.len() {
            self.keep_if_wrong(level, |crash| crash.choice.tear = Tear::Whole);
            self.keep_if_wrong(level, |crash| crash.choice.fill = Fill::Missing);
            for item in 0..self.crashes[level].choice.kept.len() * 64 {
                self.keep_if_wrong(level, |crash| crash.choice.set(item, true));
            }
        }
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

    fn keep_if_wrong(&mut self, level: usize, change: impl Fn(&mut Crash)) {
        let mut smaller = self.clone();
        change(&mut smaller.crashes[level]);
        if smaller.crashes != self.crashes
            && let Some(message) = smaller.replay()
        {
            *self = Case { message, ..smaller };
        }
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
