//! What a trace shows of devices, and which events it lacks.

use oneflush_trace::identify::{Identifier, Layer, Observed};
use oneflush_trace::import::Skipped;
use oneflush_trace::model::DeviceId;

use crate::layout::plural;

/// Of a trace that was read to its end.
pub struct Shown {
    pub observed: Observed,
    /// Databases that were written with the strategy `plain`.
    pub plain_databases: Vec<String>,
    layer: Layer,
    stacks: Vec<(DeviceId, Vec<DeviceId>)>,
    untied: Vec<DeviceId>,
}

impl Shown {
    pub fn of(identifier: &Identifier, layer: Layer) -> Shown {
        let (stacks, untied) = (identifier.stacks(), identifier.untied_devices());
        let plain_databases = identifier.plain_databases();
        Shown { observed: identifier.observed(), plain_databases, layer, stacks, untied }
    }

    /// What a reader of the figures must know; `count`: how many transactions were found.
    pub fn notes(&self, count: u64, skipped: &Skipped) -> Vec<String> {
        let mut notes = stacks(&self.stacks, self.layer);
        notes.extend(self.untied());
        notes.extend(self.missing(count, skipped));
        notes
    }

    /// Without remaps, one write at several devices is counted at each.
    fn untied(&self) -> Option<String> {
        let devices = match self.untied.as_slice() {
            [] => return None,
            [one] => format!("device {} seems to lie on or under another", device(one)),
            many => format!(
                "devices {} seem to lie on or under others",
                many.iter().map(device).collect::<Vec<_>>().join(" and ")
            ),
        };
        Some(format!(
            "{devices}, and the trace does not say which: each is counted by itself; record with \
                block_bio_remap, \
             block_rq_remap and block_rq_issue"
        ))
    }

    /// What the trace would have to hold, too.
    fn missing(&self, count: u64, skipped: &Skipped) -> Option<String> {
        let Observed { device, numbers, queues, lacks_ends, names, unwritten, .. } = self.observed;
        if !device {
            return self.missing_calls(skipped);
        }
        let lacks_queues = device && numbers && !queues;
        match (count, lacks_queues, lacks_ends) {
            (0, true, true) => Some(lacks(
                "block_bio_queue and block_rq_complete",
                "no transaction \
                was found",
            )),
            (0, true, false) => Some(lacks("block_bio_queue", "no transaction was found")),
            (0, false, true) => Some(lacks("block_rq_complete", "no transaction was found")),
            (_, _, true) => Some(lacks(
                "block_rq_complete",
                "times may be too short, and \
                transactions missing",
            )),
            (0, false, false) if unwritten => Some(lacks(
                "block_bio_queue of the device that the databases' file system is on",
                "no transaction was found",
            )),
            (0, false, false) if queues && !names => Some(
                "no file has a name in the trace: so only PERSIST can be found, and DELETE and \
                    TRUNCATE with FULL; \
                 record with oneflush trace, which names files"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// The same of a trace of calls.
    fn missing_calls(&self, skipped: &Skipped) -> Option<String> {
        let Observed { calls, syncs, .. } = self.observed;
        match (calls, syncs) {
            (true, true) => None,
            // Of which file they were is said elsewhere.
            _ if skipped.nameless_calls > 0 => None,
            (true, false) => Some(
                "no call in the trace synchronizes a file (fsync, fdatasync, RWF_DSYNC): either \
                    none did, or they \
                 were not recorded, and then synchronous is not known"
                    .to_owned(),
            ),
            (false, true) => Some(lacks(
                "calls that write files (pwrite64, write)",
                "no \
                transaction was found",
            )),
            (false, false) => (skipped.ignored > 0).then(|| {
                "the trace has other events, but none that is needed: block_bio_queue, \
                    block_rq_issue and \
                 block_rq_complete, or in a trace of calls those that write and synchronize files"
                    .to_owned()
            }),
        }
    }
}

fn lacks(events: &str, so: &str) -> String {
    format!("the trace lacks {events}: {so}; record that, too")
}

fn device(device: &DeviceId) -> String {
    format!("{},{}", device.major, device.minor)
}

/// Each device that lies on others, and where its figures are counted.
fn stacks(stacks: &[(DeviceId, Vec<DeviceId>)], layer: Layer) -> Vec<String> {
    let said = |(upper, below): &(DeviceId, Vec<DeviceId>)| {
        let below: Vec<String> = below.iter().map(device).collect();
        format!("device {} lies on {}", device(upper), below.join(" and "))
    };
    let mut lines: Vec<String> = stacks.iter().map(said).collect();
    if let Some(last) = lines.last_mut() {
        let at = match layer {
            Layer::Lowest => "the lowest",
            Layer::Highest => "the highest",
            Layer::Device(_) => "the device asked for",
        };
        *last += &format!("; bytes, requests and flushes are those of {at} (--layer)");
    }
    lines
}

/// Of a trace that has such events.
pub fn disordered(skipped: &Skipped) -> String {
    let events = plural(skipped.disordered, "event");
    format!(
        "{events} not in the order of time, so figures may be wrong; sort the trace by its times"
    )
}

/// What options of strace would have told.
pub fn options(skipped: &Skipped) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(why) = skipped.no_times {
        lines.push(format!(
            "{why}: nobody knows how long anything took; record with strace -f -ttt -yy -T"
        ));
    }
    if skipped.nameless_calls > 0 {
        let calls = plural(skipped.nameless_calls, "call");
        lines.push(format!(
            "{calls} on descriptors without a name; record with strace -f -ttt -yy -T"
        ));
    }
    lines
}
