//! The databases that the trace has shown, by path, by place and by folder.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::slice::{Iter, IterMut};
use std::sync::Arc;

use super::decide::History;
use super::files;
use super::nameless::Place;
use super::track::Track;
use super::transaction::Database;
use crate::model::DeviceId;

/// Each has a number, from 0 on.
#[derive(Default)]
pub(super) struct Databases {
    known: Vec<Known>,
    by_path: HashMap<Arc<str>, usize>,
    by_place: HashMap<Place, usize>,
    /// Numbers of the folders with databases.
    folders: HashMap<Box<str>, u32>,
    /// The single requests of each transaction are kept.
    pub(super) keeps_accesses: bool,
}

pub(super) struct Known {
    pub(super) track: Track,
    pub(super) history: History,
    /// Number of its folder.
    pub(super) folder: Option<u32>,
    /// Transactions over several databases of which a part is open here.
    pub(super) joints: Vec<u64>,
    /// The device at which the database was written last. `None`: no write yet, or a trace of
    /// calls.
    pub(super) device: Option<DeviceId>,
}

impl Databases {
    /// The number of the database with this path, which may be new.
    pub(super) fn with_path(&mut self, path: &str) -> usize {
        if let Some(index) = self.of_path(path) {
            return index;
        }
        let path: Arc<str> = path.into();
        self.by_path.insert(path.clone(), self.known.len());
        let count = self.folders.len() as u32;
        let folder = *self.folders.entry(files::folder(&path).into()).or_insert(count);
        self.add(Database::Named(path), Some(folder))
    }

    /// The number of the database at this place, which may be new.
    pub(super) fn with_place(&mut self, place: Place) -> usize {
        if let Some(&index) = self.by_place.get(&place) {
            return index;
        }
        self.by_place.insert(place, self.known.len());
        let Place { device, landmark, sector } = place;
        self.add(Database::Sectors { device, landmark, sector }, None)
    }

    fn add(&mut self, database: Database, folder: Option<u32>) -> usize {
        let history = History::new(matches!(database, Database::Named(_)));
        let mut track = Track::new(database);
        track.keeps_accesses = self.keeps_accesses;
        self.known.push(Known { track, history, folder, joints: Vec::new(), device: None });
        self.known.len() - 1
    }

    pub(super) fn of_path(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// The number of a folder with databases.
    pub(super) fn folder(&self, folder: &str) -> Option<u32> {
        self.folders.get(folder).copied()
    }

    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    pub(super) fn iter(&self) -> Iter<'_, Known> {
        self.known.iter()
    }

    pub(super) fn iter_mut(&mut self) -> IterMut<'_, Known> {
        self.known.iter_mut()
    }
}

impl Index<usize> for Databases {
    type Output = Known;

    fn index(&self, index: usize) -> &Known {
        &self.known[index]
    }
}

impl IndexMut<usize> for Databases {
    fn index_mut(&mut self, index: usize) -> &mut Known {
        &mut self.known[index]
    }
}
