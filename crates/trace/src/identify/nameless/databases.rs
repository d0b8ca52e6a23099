//! What a thread has learned: the databases that its groups have shown, and their journals' places.

use std::collections::{BTreeMap, BTreeSet};

use super::run::Run;
use crate::identify::files::Role;
use crate::identify::transaction::Landmark;
use crate::model::DeviceId;

/// Pages of a journal that are remembered.
const BODY_COUNT_MAX: usize = 65_536;

/// The place of a landmark, which stands for the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub device: DeviceId,
    pub landmark: Landmark,
    pub sector: u64,
}

#[derive(Debug)]
struct Known {
    place: Place,
    /// Pages of its journal in `Databases::bodies`.
    body_count: usize,
    /// A log was written and the database was not yet.
    is_logged: bool,
}

/// In the order in which they were found; of several that a group may be of, the first counts.
#[derive(Debug, Default)]
pub(super) struct Databases {
    known: Vec<Known>,
    by_place: BTreeMap<Place, usize>,
    /// Device, sector and database of each known page of a journal that stays in its place.
    bodies: BTreeSet<(DeviceId, u64, usize)>,
}

impl Databases {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn place(&self, index: usize) -> Place {
        self.known[index].place
    }

    pub(super) fn is_logged(&self, index: usize) -> bool {
        self.known[index].is_logged
    }

    pub(super) fn find(&self, place: Place) -> Option<usize> {
        self.by_place.get(&place).copied()
    }

    pub(super) fn find_or_add(&mut self, place: Place) -> usize {
        *self.by_place.entry(place).or_insert_with(|| {
            self.known.push(Known { place, body_count: 0, is_logged: false });
            self.known.len() - 1
        })
    }

    /// Whose journal the group is. A group of a journal holds the header, or pages of the body
    /// alone.
    pub(super) fn journal_of(&self, run: &Run) -> Option<usize> {
        let device = run.device;
        let header = |sector| Place { device, landmark: Landmark::JournalHeader, sector };
        let headers = run
            .ranges
            .iter()
            .flat_map(|&(begin, end)| self.by_place.range(header(begin)..header(end)));
        if let Some(first) = headers.map(|(_, &index)| index).min() {
            return Some(first);
        }
        let (first, others) = run.ranges.split_first()?;
        let bodies = self.bodies.range((device, first.0, 0)..=(device, first.0, usize::MAX));
        bodies.map(|&(_, _, index)| index).find(|&index| {
            others.iter().all(|range| self.bodies.contains(&(device, range.0, index)))
        })
    }

    pub(super) fn learn(&mut self, index: usize, run: &Run, role: Role) {
        let Known { place, body_count, is_logged } = &mut self.known[index];
        *is_logged = role == Role::Journal && (run.has_body() || *is_logged);
        if role == Role::Journal && *body_count < BODY_COUNT_MAX {
            for sector in run.ranges.iter().flat_map(|&(begin, end)| (begin..end).step_by(8)) {
                *body_count += usize::from(self.bodies.insert((place.device, sector, index)));
            }
        }
    }
}
