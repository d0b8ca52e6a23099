//! A failing case: what it takes to see a violation again, alone, and how the case gets smaller.
//!
//! The file holds the log with its data. So a run of threads can be replayed too, which no seed
//! repeats. Shrinking goes on as long as the violation stays:
//!
//! - it leaves out steps of the run, where a seed repeats the run;
//! - it brings back lost operations one by one;
//! - it takes whole writes for torn ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::content::{Content, Image};
use crate::explore::{Crash, Explorer, Seen, Violation, image_after, in_flight_after};
use crate::log::{Data, Op};
use crate::matrix::{Cell, run_cell};
use crate::mix::mix2;
use crate::model::{Allowed, Found};
use crate::record::{Recording, record};
use crate::script::Script;
use crate::setting::Setting;
use crate::state::{Fill, Tear};
use crate::subject::{Settled, Subject};

/// States that are looked at, to see whether a shorter run still fails.
pub(crate) const SHRINK_STATES: u64 = 4000;

#[derive(Clone, Serialize, Deserialize)]
pub struct Case {
    pub message: String,
    pub setting: Setting,
    pub script: Script,
    /// The fault of the run, if operations failed in it.
    pub cell: Option<Cell>,
    /// `None`: the run itself went wrong, before any crash.
    recorded: Option<Recorded>,
    /// The crash in the run, then those in the recoveries after it. Empty: the state was wrong
    /// without a crash.
    pub crashes: Vec<Crash>,
}

/// A recording as it stands in a file.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Recorded {
    initial: BTreeMap<String, Data>,
    pub beginning: Vec<Found>,
    pub files: Vec<String>,
    pub log: Vec<Op>,
}

impl Recorded {
    pub fn of(recording: &Recording) -> Recorded {
        let data = |content: &Content| Data(content.to_bytes().into());
        Recorded {
            initial: recording
                .initial
                .files
                .iter()
                .map(|(name, content)| (name.clone(), data(content)))
                .collect(),
            beginning: recording.beginning.clone(),
            files: recording.files.clone(),
            log: recording.log.clone(),
        }
    }

    pub fn initial(&self) -> Image {
        let content = |data: &Data| Content::from_bytes(&data.0);
        Image {
            files: self.initial.iter().map(|(name, data)| (name.clone(), content(data))).collect(),
        }
    }

    /// What is wrong after these crashes, if it is still wrong.
    pub fn replay(&self, subject: &impl Subject, crashes: &[Crash]) -> Option<String> {
        let mut image = self.initial();
        let mut log = self.log.clone();
        let first = crashes.first()?;
        let mut allowed = Allowed::after(&self.beginning, &log[..first.after.min(log.len())]);
        for crash in crashes {
            image = image_after(&image, &log, crash);
            let recovery = match subject.examine(&image, &self.files, &Settled::default()) {
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
}

impl Case {
    /// A run that went wrong by itself.
    pub fn of_run(
        message: String,
        setting: &Setting,
        script: &Script,
        cell: Option<&Cell>,
    ) -> Case {
        let (setting, script, cell) = (setting.clone(), script.clone(), cell.cloned());
        Case { message, setting, script, cell, recorded: None, crashes: Vec::new() }
    }

    pub fn of_violation(
        violation: Violation,
        recording: &Recording,
        setting: &Setting,
        script: &Script,
        cell: Option<&Cell>,
    ) -> Case {
        let Violation { message, crashes } = violation;
        let recorded = (!crashes.is_empty()).then(|| Recorded::of(recording));
        Case { recorded, crashes, ..Case::of_run(message, setting, script, cell) }
    }

    /// What is wrong, if it is still wrong.
    pub fn replay(&self) -> Option<String> {
        match &self.recorded {
            Some(recorded) => recorded.replay(&self.setting, &self.crashes),
            None => self.replay_run(),
        }
    }

    fn replay_run(&self) -> Option<String> {
        let seen = Seen::default();
        let explorer = Explorer::new(&self.setting, self.script.seed, 1, &seen, &|_| true);
        match &self.cell {
            None => record(&self.script, &self.setting).err(),
            Some(cell) => match run_cell(&self.script, cell, &explorer) {
                Err(message) => Some(message),
                Ok(outcome) => outcome.result.err().map(|violation| violation.message),
            },
        }
    }

    /// What a crash does to the operations in flight, in words.
    pub fn describe(&self, level: usize) -> String {
        describe(self.recorded.as_ref(), &self.crashes, level)
    }

    /// The smallest case found that still fails.
    pub fn shrunk(mut self) -> Case {
        if self.cell.is_none() && !self.script.workload.is_threaded() {
            self.leave_out_steps();
        }
        lose_less(&mut self);
        if let (Some(recorded), [first, ..]) = (&mut self.recorded, &self.crashes[..]) {
            // Operations after the crash are of no use, but for one: it says whether a sync comes
            // next.
            recorded.log.truncate(first.after);
        }
        self
    }

    fn leave_out_steps(&mut self) {
        let mut at = self.script.steps.len();
        while at > 0 {
            at -= 1;
            let mut script = self.script.clone();
            script.steps.remove(at);
            if let Some(smaller) = search(&script, &self.setting) {
                *self = smaller;
                at = at.min(self.script.steps.len());
            }
        }
    }
}

/// A case of anything that runs on the disk.
pub(crate) trait Failing: Clone {
    /// What is wrong, if it is still wrong.
    fn wrong(&self) -> Option<String>;
    fn parts(&mut self) -> (&mut String, &mut Vec<Crash>);
}

impl Failing for Case {
    fn wrong(&self) -> Option<String> {
        self.replay()
    }

    fn parts(&mut self) -> (&mut String, &mut Vec<Crash>) {
        (&mut self.message, &mut self.crashes)
    }
}

/// Brings lost operations back, and takes whole writes for torn ones, as long as the case fails.
pub(crate) fn lose_less(case: &mut impl Failing) {
    for level in 0..case.parts().1.len() {
        keep_if_wrong(case, level, |crash| crash.choice.tear = Tear::Whole);
        keep_if_wrong(case, level, |crash| crash.choice.fill = Fill::Missing);
        for item in 0..case.parts().1[level].choice.kept.len() * 64 {
            keep_if_wrong(case, level, |crash| crash.choice.set(item, true));
        }
    }
}

fn keep_if_wrong<C: Failing>(case: &mut C, level: usize, change: impl Fn(&mut Crash)) {
    let mut smaller = case.clone();
    change(&mut smaller.parts().1[level]);
    if smaller.parts().1 != case.parts().1
        && let Some(message) = smaller.wrong()
    {
        *smaller.parts().0 = message;
        *case = smaller;
    }
}

/// What a crash does to the operations in flight, in words.
pub(crate) fn describe(recorded: Option<&Recorded>, crashes: &[Crash], level: usize) -> String {
    let crash = &crashes[level];
    let tear = crash.choice.tear.name();
    // The log of a recovery is made anew each time. How much is in flight in it is not known here.
    let Some(recorded) = recorded.filter(|_| level == 0) else {
        return tear.to_owned();
    };
    let count = in_flight_after(&recorded.initial(), &recorded.log, crash);
    format!("{} of {count} operations in flight lost, {tear}", crash.choice.lost(count))
}

/// Looks for one of some states in which a script fails.
fn search(script: &Script, setting: &Setting) -> Option<Case> {
    let recording = match record(script, setting) {
        Ok(recording) => recording,
        Err(message) => return Some(Case::of_run(message, setting, script, None)),
    };
    let seen = Seen::default();
    let explorer = Explorer::new(setting, mix2(script.seed, 1), SHRINK_STATES, &seen, &|counts| {
        counts.states < SHRINK_STATES
    });
    let violation = explorer.explore(&recording).err()?;
    Some(Case::of_violation(*violation, &recording, setting, script, None))
}
