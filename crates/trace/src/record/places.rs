//! What is known of each recorded device, and which device an event belongs to.

use std::io;
use std::ops::Range;

use super::RecordError;
use super::events::{Event, Events, Of};
use super::names::Names;
use super::own::Own;
use super::target::{Target, Targets};
use crate::kernel::attribute::{Attribution, Geometry};
use crate::kernel::{FileSystem, KernelError, Volumes};

pub(super) struct Place {
    pub(super) target: Target,
    pub(super) attribution: Attribution,
    pub(super) names: Option<Names>,
    pub(super) own: Own,
}

/// In the order of the targets, which is that of the decoder's volumes.
pub(super) struct Places {
    all: Vec<Place>,
    /// By the numbers that events carry.
    numbers: Volumes,
    pub(super) targets: Targets,
    /// Devices whose layout is not known, in words.
    pub(super) notices: Vec<String>,
}

impl Places {
    pub(super) fn new(
        targets: Targets,
        events: &Events,
        numbers: Volumes,
    ) -> Result<Places, RecordError> {
        let mut notices = Vec::new();
        let mut place = |(number, target): (usize, &Target)| -> Result<Place, RecordError> {
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
                // All else is there without it. What btrfs and F2FS need has failed before.
                Err(error @ KernelError::Device { .. }) => {
                    notices.push(without_layout(&error, volume.file_system));
                    Geometry::new(volume.file_system, Vec::new())
                }
                geometry => geometry?,
            };
            let attribution = Attribution::new(geometry);
            Ok(Place { target: target.clone(), attribution, names, own: Own::default() })
        };
        let all = targets.all().iter().enumerate().map(&mut place).collect::<Result<_, _>>()?;
        Ok(Places { all, numbers, targets, notices })
    }

    pub(super) fn all(&self) -> &[Place] {
        &self.all
    }

    pub(super) fn at(&mut self, place: usize) -> &mut Place {
        &mut self.all[place]
    }

    /// The place that an event is of; the first one, if it is of none.
    pub(super) fn of(&self, event: &Event, record: &[u8]) -> usize {
        let number = || event.fields.device?.number(record);
        let found = self.numbers.only().or_else(|| match event.of {
            Of::Device | Of::Below | Of::Mapped => self.of_device(number()?),
            Of::FileSystem | Of::WriteLock | Of::WalFrames => self.numbers.of_inodes(number()?),
            Of::WriteBack | Of::All => None,
        });
        found.unwrap_or(0)
    }

    /// By a device's number as events carry it.
    pub(super) fn of_device(&self, number: u64) -> Option<usize> {
        self.numbers.of_device(number)
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
        from: (u64, Range<u64>),
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
        for Place { attribution, names, .. } in &mut self.all {
            attribution.thread_ended(thread);
            if let Some(names) = names {
                names.thread_ended(thread);
            }
        }
    }

    /// No name has been said yet.
    pub(super) fn forget_told(&mut self) {
        for Place { attribution, names, .. } in &mut self.all {
            attribution.forget_old();
            if let Some(names) = names {
                names.forget_told();
            }
        }
    }

    pub(super) fn turn_ended(&mut self) {
        self.all.iter_mut().filter_map(|place| place.names.as_mut()).for_each(Names::turn_ended);
    }
}

fn without_layout(error: &KernelError, file_system: FileSystem) -> String {
    let instead = match file_system {
        FileSystem::Ext4 => "what its thread jbd2 writes counts as that",
        _ => "what is written there counts as other metadata",
    };
    format!("{error}. So it is not known where the file system keeps its journal: {instead}")
}
