//! What is known of each recorded device, and which device an event belongs to.

use std::io;
use std::ops::Range;

use super::RecordError;
use super::events::{Event, Events, Of};
use super::names::Names;
use super::own::Own;
use super::target::{Target, Targets};
use crate::kernel::attribute::{Attribution, Geometry};
use crate::kernel::{FileSystem, KernelError, device_pair};

pub(super) struct Place {
    pub(super) target: Target,
    pub(super) attribution: Attribution,
    pub(super) names: Option<Names>,
    pub(super) own: Own,
}

/// In the order of the targets, which is that of the decoder's volumes.
pub(super) struct Places {
    all: Vec<Place>,
    pub(super) targets: Targets,
}

impl Places {
    pub(super) fn new(targets: Targets, events: &Events) -> Result<Places, RecordError> {
        let place = |(number, target): (usize, &Target)| -> Result<Place, RecordError> {
            let volume = &target.volume;
            let names =
                match target.directories.first() {
                    Some(directory) => {
                        let has_allocations = events.has_allocations(volume.file_system);
                        let names =
                            Names::new(&target.directories, &volume.mount_point, has_allocations);
                        Some(names.map_err(|reason| KernelError::Read {
                            path: directory.clone(),
                            reason,
                        })?)
                    }
                    None => None,
                };
            let geometry = match Geometry::of(volume) {
                // This device was not asked for, and a container may not be allowed to read it.
                Err(_) if !targets.is_named(number) => {
                    Geometry::new(volume.file_system, Vec::new())
                }
                geometry => geometry?,
            };
            let attribution = Attribution::new(geometry);
            Ok(Place { target: target.clone(), attribution, names, own: Own::default() })
        };
        let all = targets.all().iter().enumerate().map(place).collect::<Result<_, _>>()?;
        Ok(Places { all, targets })
    }

    pub(super) fn all(&self) -> &[Place] {
        &self.all
    }

    pub(super) fn at(&mut self, place: usize) -> &mut Place {
        &mut self.all[place]
    }

    /// The place that an event is of; the first one, if it is of none.
    pub(super) fn of(&self, event: &Event, record: &[u8]) -> usize {
        if self.all.len() == 1 {
            return 0;
        }
        let number = event.fields.device.and_then(|device| device.number(record)).map(device_pair);
        let found = match event.of {
            Of::Device | Of::Below | Of::Mapped => number.and_then(|number| self.of_device(number)),
            Of::FileSystem | Of::WriteLock | Of::WalHeader => number.and_then(|number| {
                self.all.iter().position(|place| place.target.volume.inode_dev == number)
            }),
            Of::WriteBack | Of::All => None,
        };
        found.unwrap_or(0)
    }

    /// Of a partition by its own number, else by the disk's.
    pub(super) fn of_device(&self, number: (u32, u32)) -> Option<usize> {
        let is = |place: &Place| {
            place.target.volume.partition.unwrap_or(place.target.volume.disk) == number
        };
        let of_disk = |place: &Place| place.target.volume.disk == number;
        self.all.iter().position(is).or_else(|| self.all.iter().position(of_disk))
    }

    /// All partitions of a disk of which requests are known by their sectors.
    fn of_disk(&mut self, place: usize) -> impl Iterator<Item = &mut Own> {
        let disk = self.all[place].target.volume.disk;
        self.all
            .iter_mut()
            .filter(move |other| other.target.volume.disk == disk)
            .map(|other| &mut other.own)
    }

    /// Whether a request was queued by a recorded thread.
    pub(super) fn has(&mut self, place: usize, sectors: &Range<u64>) -> bool {
        self.of_disk(place).any(|own| own.has(sectors))
    }

    pub(super) fn complete(&mut self, place: usize, sectors: &Range<u64>) {
        self.of_disk(place).for_each(|own| own.complete(sectors.clone()));
    }

    /// A request of `from` goes on at `place`. False if no recorded thread has asked for it.
    pub(super) fn remap(
        &mut self,
        place: usize,
        sectors: Range<u64>,
        from: ((u32, u32), Range<u64>),
        asks_flush: bool,
    ) -> bool {
        let (device, from_sectors) = from;
        let Some(upper) = self.of_device(device) else { return false };
        if !self.all[upper].own.has(&from_sectors) {
            return false;
        }
        if upper == place {
            // A partition's sectors become the disk's.
            self.all[upper].own.complete(from_sectors);
        }
        self.all[place].own.queue(sectors, asks_flush);
        true
    }

    pub(super) fn are_watched(&self) -> bool {
        self.all.iter().filter_map(|place| place.names.as_ref()).all(Names::is_watched)
    }

    pub(super) fn are_nameless(&self) -> bool {
        self.all.iter().all(|place| place.names.is_none())
    }

    /// Called before the events of a turn.
    pub(super) fn refresh(&mut self) -> Result<(), RecordError> {
        for Place { target, attribution, names, .. } in &mut self.all {
            let volume = &target.volume;
            let failed =
                |reason: io::Error| KernelError::Read { path: volume.mount_point.clone(), reason };
            names.as_mut().map_or(Ok(()), Names::refresh).map_err(failed)?;
            if volume.file_system == FileSystem::Btrfs {
                // Chunks are allocated as the file system grows.
                attribution.geometry = Geometry::of(volume)?;
            }
        }
        Ok(())
    }

    pub(super) fn thread_ended(&mut self, thread: u32) {
        self.all.iter_mut().for_each(|place| place.attribution.thread_ended(thread));
    }

    pub(super) fn turn_ended(&mut self) {
        self.all.iter_mut().filter_map(|place| place.names.as_mut()).for_each(Names::turn_ended);
    }
}
