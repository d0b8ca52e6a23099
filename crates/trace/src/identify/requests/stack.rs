//! Which device lies on which, learned from the trace as it goes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::model::{DeviceId, NameId};

/// The major number of partitions that found no place among their disk's.
const EXTENDED_MAJOR: u32 = 259;

#[derive(Debug, Default)]
pub struct Devices {
    /// A partition, or the number that a file system's inodes carry → the device whose number
    /// requests carry.
    aliases: HashMap<DeviceId, DeviceId>,
    new_aliases: Vec<(DeviceId, DeviceId)>,
    /// Each upper device → the devices below it, by remaps.
    below: BTreeMap<DeviceId, BTreeSet<DeviceId>>,
    /// Loop devices → the device of the file system that their file is on, and that file.
    on_file: BTreeMap<DeviceId, (DeviceId, Option<NameId>)>,
    /// Devices to which something was queued, and those that have sent something from their queue.
    /// A partition is only in the first.
    queued: BTreeSet<DeviceId>,
    with_queue: HashSet<DeviceId>,
    partitions: HashSet<DeviceId>,
}

impl Devices {
    /// The device whose number requests carry.
    pub fn of(&self, device: DeviceId) -> DeviceId {
        self.aliases.get(&device).copied().unwrap_or(device)
    }

    /// Requests of this very number were seen.
    pub fn is_block(&self, device: DeviceId) -> bool {
        self.queued.contains(&device) || self.with_queue.contains(&device)
    }

    pub fn is_queued(&self, device: DeviceId) -> bool {
        self.queued.contains(&device)
    }

    pub fn add_alias(&mut self, device: DeviceId, of: DeviceId) {
        let of = self.of(of);
        if device == of || self.aliases.insert(device, of) == Some(of) {
            return;
        }
        self.aliases.values_mut().filter(|known| **known == device).for_each(|known| *known = of);
        self.queued.remove(&device);
        self.new_aliases.push((device, of));
    }

    /// The aliases found since the last time.
    pub fn take_new_aliases(&mut self) -> Vec<(DeviceId, DeviceId)> {
        std::mem::take(&mut self.new_aliases)
    }

    pub(super) fn add_below(&mut self, upper: DeviceId, lower: DeviceId) {
        self.below.entry(upper).or_default().insert(lower);
    }

    pub(super) fn add_file_of(&mut self, upper: DeviceId, below: DeviceId, file: Option<NameId>) {
        self.on_file.insert(upper, (below, file));
    }

    pub(super) fn add_partition(&mut self, device: DeviceId) {
        self.partitions.insert(device);
    }

    pub(super) fn queue_at(&mut self, device: DeviceId) {
        self.queued.insert(device);
    }

    pub(super) fn send_at(&mut self, device: DeviceId) {
        self.with_queue.insert(device);
    }

    /// The devices that may be partitions of `disk`.
    pub(super) fn partitions_of(&self, disk: DeviceId) -> Vec<DeviceId> {
        let may_be = |device: &&DeviceId| {
            **device != disk
                && !self.with_queue.contains(device)
                && (self.partitions.contains(device)
                    || [disk.major, EXTENDED_MAJOR].contains(&device.major))
        };
        self.queued.iter().filter(may_be).copied().collect()
    }

    /// The devices that lie on `device`, by remaps.
    pub(super) fn above(&self, device: DeviceId) -> impl Iterator<Item = DeviceId> {
        let all = self.below.iter();
        all.filter(move |(_, below)| below.contains(&device)).map(|(upper, _)| *upper)
    }

    /// The loop devices whose files are on it.
    pub(super) fn loops_above(&self, device: DeviceId) -> impl Iterator<Item = DeviceId> {
        let all = self.on_file.iter();
        all.filter(move |(_, (below, _))| self.of(*below) == device).map(|(upper, _)| *upper)
    }

    /// The device lies on no other, as far as the trace shows. Two things hold: no remap says
    /// otherwise, and the device sends what it was asked for, if any device does.
    pub(super) fn is_bottom(&self, device: DeviceId) -> bool {
        !self.below.contains_key(&device)
            && (self.with_queue.is_empty() || self.with_queue.contains(&device))
    }

    /// The device lies on others.
    pub(super) fn is_above(&self, device: DeviceId) -> bool {
        self.below.contains_key(&device) || self.on_file.contains_key(&device)
    }

    /// Other devices lie on this one.
    pub(super) fn is_below(&self, device: DeviceId) -> bool {
        self.above(device).chain(self.loops_above(device)).next().is_some()
    }

    pub(super) fn is_sent(&self, device: DeviceId) -> bool {
        self.with_queue.contains(&device)
    }

    /// The file that a loop device is.
    pub(super) fn file_of(&self, device: DeviceId) -> Option<NameId> {
        self.on_file.get(&device).and_then(|(_, file)| *file)
    }

    pub(super) fn is_on_file(&self, device: DeviceId) -> bool {
        self.on_file.contains_key(&device)
    }

    /// Devices of which only one half of a request's life was seen, and no remap:
    /// - requests were queued there and not sent, while another device sends some;
    /// - or requests were sent or `ended` there and not queued, while another device has queued
    ///   some.
    pub(super) fn untied(&self, ended: &HashSet<DeviceId>) -> Vec<DeviceId> {
        let only_queued =
            |device: &&DeviceId| !self.with_queue.is_empty() && !self.with_queue.contains(device);
        let only_sent =
            |device: &&DeviceId| !self.queued.is_empty() && !self.queued.contains(device);
        let halves = self.queued.iter().filter(only_queued);
        let others = self.with_queue.iter().chain(ended).filter(only_sent);
        let is_tied = |device: DeviceId| self.is_above(device) || self.is_below(device);
        let untied: BTreeSet<DeviceId> =
            halves.chain(others).copied().filter(|device| !is_tied(*device)).collect();
        untied.into_iter().collect()
    }

    /// Each device that lies on others, with those others.
    pub fn stacks(&self) -> Vec<(DeviceId, Vec<DeviceId>)> {
        let mut stacks: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
        for (upper, below) in &self.below {
            stacks.entry(*upper).or_default().extend(below.iter().map(|below| self.of(*below)));
        }
        for (upper, (below, _)) in &self.on_file {
            stacks.entry(*upper).or_default().insert(self.of(*below));
        }
        stacks.into_iter().map(|(upper, below)| (upper, below.into_iter().collect())).collect()
    }
}
