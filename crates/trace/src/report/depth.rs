//! How many requests a device has, from the events of a trace.
//!
//! A request is there from its issue to its end. If it ends in parts, the first part is its end. A
//! request that never ends is forgotten after ten seconds.

use std::collections::BTreeMap;

use crate::model::{Action, DeviceId, Event, SECTOR_BYTES};

const AGE_NS_MAX: u64 = 10_000_000_000;

#[derive(Default)]
pub(super) struct Depths(BTreeMap<DeviceId, Depth>);

#[derive(Default)]
struct Depth {
    /// First sector and time of the issue.
    with_data: BTreeMap<u64, u64>,
    /// Times of the issues.
    flushes: Vec<u64>,
    told: usize,
}

impl Depths {
    /// The number of a device's requests, where it changes.
    pub(super) fn event(&mut self, event: &Event) -> Option<usize> {
        if !matches!(event.action, Action::Issue | Action::Complete) {
            return None;
        }
        let depth = self.0.entry(event.device).or_default();
        match (event.action, event.bytes) {
            (Action::Issue, 0) => depth.flushes.push(event.time_ns),
            (Action::Issue, _) => {
                depth.with_data.insert(event.sector, event.time_ns);
            }
            (_, 0) => {
                if !depth.flushes.is_empty() {
                    depth.flushes.remove(0);
                }
            }
            (_, bytes) => {
                let end = event.sector.saturating_add(bytes.div_ceil(SECTOR_BYTES));
                let ended: Vec<u64> =
                    depth.with_data.range(event.sector..end).map(|held| *held.0).collect();
                ended.iter().for_each(|sector| {
                    depth.with_data.remove(sector);
                });
            }
        }
        let is_recent = |issued_ns: u64| issued_ns + AGE_NS_MAX >= event.time_ns;
        depth.with_data.retain(|_, issued_ns| is_recent(*issued_ns));
        depth.flushes.retain(|issued_ns| is_recent(*issued_ns));
        let now = depth.with_data.len() + depth.flushes.len();
        (std::mem::replace(&mut depth.told, now) != now).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Actor, Flags};

    fn event(time_ns: u64, action: Action, sector: u64, bytes: u64) -> Event {
        let actor = Actor { thread: 1, process: 1, name: None };
        let flags = Flags { write: true, ..Flags::default() };
        let device = DeviceId { major: 8, minor: 0 };
        Event { time_ns, action, device, sector, bytes, flags, actor, content: None, file: None }
    }

    #[test]
    fn a_request_counts_from_its_issue_to_its_end() {
        let mut depths = Depths::default();
        let told: Vec<Option<usize>> = [
            event(0, Action::Queue, 8, 4096),
            event(1, Action::Issue, 8, 4096),
            event(2, Action::Issue, 16, 8192),
            event(3, Action::Issue, 0, 0),
            // One end for two requests that the trace shows apart.
            event(4, Action::Complete, 8, 12288),
            event(5, Action::Complete, 0, 0),
            event(6, Action::Complete, 0, 0),
        ]
        .iter()
        .map(|event| depths.event(event))
        .collect();
        assert_eq!(told, [None, Some(1), Some(2), Some(3), Some(1), Some(0), None]);
    }

    #[test]
    fn a_request_without_an_end_is_forgotten() {
        let mut depths = Depths::default();
        depths.event(&event(0, Action::Issue, 8, 4096));
        assert_eq!(depths.event(&event(AGE_NS_MAX + 1, Action::Issue, 80, 4096)), None);
        assert_eq!(depths.event(&event(AGE_NS_MAX + 2, Action::Complete, 80, 4096)), Some(0));
    }
}
