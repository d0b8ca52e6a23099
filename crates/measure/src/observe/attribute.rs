//! The counts of each class, made from the owners of the queued writes
//! ([`oneflush_trace::kernel::attribute`]). Pure: events in, counts out.
//!
//! The file system's journal is `FsJournal`, its other metadata `Other`. An inode without a known
//! path is a file that was made and deleted during the slice: `Journal`.
//!
//! Writes are counted, and not only bytes. A queued write that was merged into an earlier one is
//! not one more; a split one is. A flush without data is a write of 0 bytes in the kernel's
//! statistics. It is `Other`.

use std::collections::{BTreeMap, HashMap};

use oneflush_trace::kernel::attribute::{Attribution, Event, What, Whose};

use super::{Class, ClassCounts};

/// Inode → whose it is.
pub(super) type Owners = HashMap<u64, Class>;

/// The split of a slice.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) by_class: BTreeMap<Class, ClassCounts>,
    pub(super) unattributed_bytes: u64,
}

/// Applies the rules to the events of a slice, in the order of time.
pub(super) fn split(events: &[Event], attribution: &mut Attribution, owners: &Owners) -> Split {
    let mut split = Split {
        by_class: Class::ALL.map(|class| (class, ClassCounts::default())).into(),
        ..Split::default()
    };
    for event in events {
        match &event.what {
            What::File { inode } => attribution.file(event.thread, *inode),
            What::Extent { whose, address, length_bytes } => {
                attribution.extent(event.thread, *whose, *address, *length_bytes);
            }
            What::Queued(write) | What::Merged(write) | What::Split(write) => {
                let class = match attribution.whose(event.thread, write) {
                    Whose::File(inode) => {
                        Some(owners.get(&inode).copied().unwrap_or(Class::Journal))
                    }
                    Whose::Journal => Some(Class::FsJournal),
                    Whose::Metadata => Some(Class::Other),
                    Whose::Unknown => None,
                };
                // The kernel counts a flush without data as a write too; nobody's bytes are in it.
                let is_bare_flush =
                    matches!(event.what, What::Queued(_)) && write.length_bytes == 0;
                let class_counted =
                    if is_bare_flush { Class::Other } else { class.unwrap_or(Class::Other) };
                let counts = split.by_class.entry(class_counted).or_default();
                match &event.what {
                    What::Queued(write) => {
                        counts.bytes += write.length_bytes;
                        counts.writes += 1;
                        if class.is_none() {
                            split.unattributed_bytes += write.length_bytes;
                        }
                    }
                    What::Merged(_) => counts.writes = counts.writes.saturating_sub(1),
                    _ => counts.writes += 1,
                }
            }
        }
    }
    split
}

impl Split {
    /// Makes the classes sum to the totals. What is missing is `Other`. What is too much was queued
    /// in the slice and completed after it. It is taken from `Other` first, then from the largest
    /// class.
    pub(super) fn settle(&mut self, bytes: u64, writes: u64) {
        let missing = settle(&mut self.by_class, bytes, |counts| &mut counts.bytes);
        settle(&mut self.by_class, writes, |counts| &mut counts.writes);
        self.unattributed_bytes += missing;
    }
}

fn settle(
    by_class: &mut BTreeMap<Class, ClassCounts>,
    total: u64,
    field: impl Fn(&mut ClassCounts) -> &mut u64,
) -> u64 {
    let sum: u64 = by_class.values_mut().map(|counts| *field(counts)).sum();
    let missing = total.saturating_sub(sum);
    *field(by_class.entry(Class::Other).or_default()) += missing;
    let mut excess = sum.saturating_sub(total);
    let mut order: Vec<Class> = by_class.keys().copied().collect();
    order.sort_by_key(|class| {
        let value = by_class.get_mut(class).map_or(0, |counts| *field(counts));
        (*class != Class::Other, u64::MAX - value)
    });
    for class in order {
        let value = field(by_class.entry(class).or_default());
        let taken = excess.min(*value);
        *value -= taken;
        excess -= taken;
    }
    missing
}

#[cfg(test)]
#[path = "attribute_tests.rs"]
mod tests;
