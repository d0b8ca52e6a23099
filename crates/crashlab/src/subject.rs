//! The subject of an exploration: what runs on the disk, and what it answers.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::content::Image;
use crate::log::Op;
use crate::model::Found;
use crate::state::Choice;

/// What runs on the disk, as far as an exploration asks.
pub(crate) trait Subject {
    /// Examines a state. An error says what is wrong with it, whatever the oracle allows.
    fn examine(
        &self,
        image: &Image,
        files: &[String],
        settled: &Settled,
    ) -> Result<Recovery, String>;

    /// False: the subject does not claim to stand such a loss of power.
    fn stands(&self, choice: &Choice) -> bool;

    /// The log has slots, whose losses are counted.
    fn has_slots(&self) -> bool;
}

pub struct Recovery {
    pub found: Vec<Found>,
    /// What the first recovery did to the disk, up to the close.
    pub log: Vec<Op>,
}

/// What a second process finds, by what the first has left on the disk. After many crashes that is
/// the same.
#[derive(Default)]
pub struct Settled(pub RefCell<HashMap<u64, Vec<Found>>>);
