//! What a thread wrote between two flushes.

use crate::identify::ranges::{self, PAGE_BYTES_MAX, Range};
use crate::identify::requests::Request;
use crate::identify::traffic::Class;
use crate::model::DeviceId;

/// What a thread did, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Write(Request),
    Attach(Class, Request),
    Flushed(u64),
}

#[derive(Debug, Default)]
pub(super) struct Run {
    pub steps: Vec<Step>,
    pub ranges: Vec<Range>,
    pub bytes: u64,
    pub done_ns: u64,
    pub device: DeviceId,
    pub is_closed: bool,
}

impl Run {
    pub(super) fn holds(&self, sector: u64) -> bool {
        ranges::holds(&self.ranges, sector)
    }

    pub(super) fn is_alone(&self, sector: u64) -> bool {
        self.ranges.len() == 1 && self.ranges[0].0 == sector && self.bytes <= PAGE_BYTES_MAX
    }

    pub(super) fn has_body(&self) -> bool {
        self.bytes > PAGE_BYTES_MAX || self.ranges.len() > 1
    }

    pub(super) fn meets(&self, other: &Run) -> bool {
        self.ranges.iter().any(|a| other.ranges.iter().any(|b| a.0 < b.1 && b.0 < a.1))
    }
}
