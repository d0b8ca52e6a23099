//! `waldio` keeps SQLite's WAL in slots. Its options and databases are drawn here, and what a run
//! has met of its log is counted.
//!
//! | drawn by seed | where the user has not given it |
//! |---|---|
//! | `layout` | all four, `embed` half of the time |
//! | `sync` | `fs`, `pd`, and now and then `ns` |
//! | `prealloc` | as it is by default, small, and 0 |
//! | `group` | off, and now and then 8 frames for 2 ms |
//! | pages | 512 bytes to 64 KiB |
//! | who makes the database | the strategy; or SQLite alone, with and without reserved bytes |
//! | rows | so long that pages are full, and a header has no room in them; or not |
//!
//! Other strategies have their scripts as they are: what was found once is found by its seed.

use std::collections::BTreeSet;

use fastrand::Rng;
use oneflush_vfs::count_slots;
use serde::{Deserialize, Serialize};

use crate::changes::Amount;
use crate::content::Image;
use crate::mix::mix2;
use crate::script::{Script, Step};
use crate::setting::Setting;
use crate::state::Moment;
use crate::workload::Workload;

/// How the name of the log ends.
const LOG: &str = "-waldio";

/// For seeds that no other draw has.
const OF_OPTIONS: u64 = 0x736c_6f74;
const OF_SCRIPT: u64 = 0x736c_6f75;

const LAYOUTS: [&str; 6] = ["embed", "embed", "embed", "pad512", "pad4k", "pad8k"];
const SYNCS: [&str; 5] = ["fs", "fs", "pd", "pd", "ns"];
/// "1": the log grows by one slot.
const PREALLOCS: [Option<&str>; 5] = [None, Some("0"), Some("1"), Some("16384"), Some("65536")];
const GROUPS: [Option<&str>; 6] = [None, None, None, None, None, Some("8&interval=2ms")];
const PAGES: [u32; 10] = [512, 1024, 4096, 4096, 4096, 4096, 8192, 8192, 16_384, 65_536];
const MADE_BY: [Option<u8>; 4] = [None, Some(0), Some(0), Some(24)];
/// Larger pages are not filled: a commit would be megabytes.
const FULL_PAGE_BYTES_MAX: u32 = 16_384;

/// The setting with the options that the user has not given.
pub fn drawn(setting: Setting, seed: u64) -> Setting {
    if !setting.has_slots() {
        return setting;
    }
    let mut rng = Rng::with_seed(mix2(seed, OF_OPTIONS));
    let layout = LAYOUTS[rng.usize(..LAYOUTS.len())];
    let mut sync = SYNCS[rng.usize(..SYNCS.len())];
    let prealloc = PREALLOCS[rng.usize(..PREALLOCS.len())];
    let mut group = GROUPS[rng.usize(..GROUPS.len())];
    if setting.promises_all() {
        // What promises less is refused with it.
        (sync, group) = (SYNCS[0], None);
    }
    [("layout", Some(layout)), ("sync", Some(sync)), ("prealloc", prealloc), ("group", group)]
        .into_iter()
        .fold(setting, |setting, (name, value)| match value {
            Some(value) if setting.parameter(name).is_none() => {
                setting.with_uri(&format!("{name}={value}"))
            }
            _ => setting,
        })
}

/// The script with a database and rows that a log of slots asks for.
pub fn varied(script: Script) -> Script {
    let mut rng = Rng::with_seed(mix2(script.seed, OF_SCRIPT));
    let page_bytes = PAGES[rng.usize(..PAGES.len())];
    let made_by_sqlite = MADE_BY[rng.usize(..MADE_BY.len())];
    // Only full pages without reserved bytes have no room for a header.
    let fills_pages = rng.bool() || made_by_sqlite == Some(0) && script.seed & 1 == 0;
    let fills_pages = fills_pages && page_bytes <= FULL_PAGE_BYTES_MAX;
    let mut steps = script.steps;
    if script.workload.has_processes() {
        // What one process has rolled back stands where another one's commit comes next.
        for _ in 0..2 {
            let (connection, seed) = (rng.usize(..3), rng.u64(..));
            let step = Step::RolledBack { connection, amount: Amount::Large, seed };
            let places = without_snapshot(&steps);
            steps.insert(places[rng.usize(..places.len())], step);
        }
    }
    Script {
        // As with the other strategies.
        page_bytes: if script.workload.fills_a_log() { page_bytes.max(1024) } else { page_bytes },
        made_by_sqlite: made_by_sqlite.filter(|_| script.workload != Workload::Fresh),
        row_bytes_more: if fills_pages { page_bytes as usize } else { 0 },
        steps,
        ..script
    }
}

/// The places between these steps where no connection keeps its snapshot: it could not begin a
/// transaction.
fn without_snapshot(steps: &[Step]) -> Vec<usize> {
    let mut held = BTreeSet::new();
    let mut places = vec![0];
    for (at, step) in steps.iter().enumerate() {
        match *step {
            Step::Snapshot { connection, held: true } => {
                held.insert(connection);
            }
            Step::Snapshot { connection, held: false } | Step::Close { connection } => {
                held.remove(&connection);
            }
            _ => {}
        }
        if held.is_empty() {
            places.push(at + 1);
        }
    }
    places
}

/// What a log of slots had when power was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// A page without room for its header.
    Lane,
    /// A page whose end went to a gap.
    Gap,
    /// A frame from before the WAL began anew.
    Stale,
    /// Slots that no sync has covered yet.
    Growth,
}

impl Occurrence {
    pub const ALL: [Occurrence; 4] =
        [Occurrence::Lane, Occurrence::Gap, Occurrence::Stale, Occurrence::Growth];

    pub fn name(self) -> &'static str {
        match self {
            Occurrence::Lane => "lane",
            Occurrence::Gap => "gap",
            Occurrence::Stale => "stale slots",
            Occurrence::Growth => "growth",
        }
    }
}

/// In so many states each [`Occurrence`] was there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Occurrences([u64; Occurrence::ALL.len()]);

impl Occurrences {
    pub fn count(&mut self, moment: &Moment<'_>, image: &Image) {
        let mut has = [false; Occurrence::ALL.len()];
        has[Occurrence::Growth as usize] = moment.grows(LOG);
        for (_, content) in image.files.iter().filter(|(name, _)| name.ends_with(LOG)) {
            let read = |offset: u64, buffer: &mut [u8]| {
                content.read(offset, buffer);
            };
            let Some(counts) = count_slots(content.size(), read) else { continue };
            has[Occurrence::Lane as usize] |= counts.in_lane > 0;
            has[Occurrence::Gap as usize] |= counts.in_gap > 0;
            has[Occurrence::Stale as usize] |= counts.earlier > 0;
        }
        self.0.iter_mut().zip(has).for_each(|(count, has)| *count += u64::from(has));
    }

    pub fn add(&mut self, other: &Occurrences) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// In the order of [`Occurrence::ALL`].
    pub fn counts(&self) -> [u64; Occurrence::ALL.len()] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{DURABILITY_FULL, Journal};

    #[test]
    fn every_option_is_drawn_and_what_the_user_gave_stays() {
        let waldio = Setting::new("waldio", Journal::Wal);
        let values = |name: &str, given: &Setting| -> BTreeSet<Option<String>> {
            (0..200)
                .map(|seed| drawn(given.clone(), seed).parameter(name).map(str::to_owned))
                .collect()
        };
        assert_eq!(values("layout", &waldio).len(), 4);
        assert_eq!(values("sync", &waldio).len(), 3);
        assert_eq!(values("prealloc", &waldio).len(), 5);
        assert_eq!(values("group", &waldio).len(), 2);
        let given = waldio.with_uri("layout=pad8k&prealloc=7");
        assert_eq!(values("layout", &given), BTreeSet::from([Some("pad8k".to_owned())]));
        assert_eq!(values("prealloc", &given), BTreeSet::from([Some("7".to_owned())]));
        let full = waldio.with_uri(DURABILITY_FULL);
        assert_eq!(values("sync", &full), BTreeSet::from([Some("fs".to_owned())]));
        assert_eq!(values("group", &full), BTreeSet::from([None]));
        let plain = Setting::new("plain", Journal::Wal);
        assert_eq!(drawn(plain.clone(), 1), plain);
    }
}
