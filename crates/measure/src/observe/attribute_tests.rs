//! The rules, on events as the kernel sends them for real commits.

use oneflush_trace::kernel::attribute::{Geometry, Write, Writer};
use oneflush_trace::kernel::{Area, FileSystem};

use super::*;

const DB: u64 = 12;
const JOURNAL: u64 = 13;

fn ext4() -> Attribution {
    let journal = vec![Area { start: 1_000_000, end: 2_000_000 }];
    Attribution::new(Geometry::new(FileSystem::Ext4, journal))
}

fn write(start: u64, length_bytes: u64, metadata: bool) -> Write {
    Write { start, length_bytes, metadata, by: Writer::Any }
}

fn events(list: Vec<(u32, What)>) -> Vec<Event> {
    list.into_iter()
        .enumerate()
        .map(|(time, (thread, what))| Event { time_ns: time as u64, thread, volume: 0, what })
        .collect()
}

fn counts(split: &Split, class: Class) -> (u64, u64) {
    let counts = split.by_class[&class];
    (counts.bytes, counts.writes)
}

#[test]
fn a_deleted_rollback_journal_is_told_from_the_db_by_the_threads_last_file() {
    let events = events(vec![
        (1, What::File { inode: JOURNAL }),
        (1, What::Queued(write(4096, 16384, false))),
        (2, What::Queued(Write { by: Writer::Jbd2, ..write(1_000_000, 4096, true) })),
        (1, What::File { inode: DB }),
        (1, What::Queued(write(40960, 12288, false))),
        // A flush.
        (1, What::Queued(write(0, 0, false))),
    ]);
    let split = split(&events, &mut ext4(), &[(DB, Class::Db)].into());
    assert_eq!(counts(&split, Class::Journal), (16384, 1));
    assert_eq!(counts(&split, Class::FsJournal), (4096, 1));
    assert_eq!(counts(&split, Class::Db), (12288, 1));
    // The flush, which the kernel counts as a write.
    assert_eq!(counts(&split, Class::Other), (0, 1));
}

#[test]
fn merged_writes_are_one_and_split_ones_are_more() {
    let events = events(vec![
        (1, What::File { inode: DB }),
        (1, What::Queued(write(0, 4096, false))),
        (1, What::Queued(write(4096, 4096, false))),
        (1, What::Merged(write(4096, 4096, false))),
        (1, What::Queued(write(1 << 20, 2 << 20, false))),
        (1, What::Split(write(1 << 20, 1 << 20, false))),
    ]);
    let split = split(&events, &mut ext4(), &[(DB, Class::Db)].into());
    assert_eq!(counts(&split, Class::Db), (8192 + (2 << 20), 3));
}

#[test]
fn metadata_in_place_is_other_and_is_explained() {
    let events =
        events(vec![(1, What::File { inode: DB }), (1, What::Queued(write(8192, 4096, true)))]);
    let split = split(&events, &mut ext4(), &[(DB, Class::Db)].into());
    assert_eq!(counts(&split, Class::Other), (4096, 1));
    assert_eq!(split.unattributed_bytes, 0);
}

#[test]
fn data_of_a_thread_that_named_no_file_is_unattributed() {
    let split =
        split(&events(vec![(9, What::Queued(write(0, 4096, false)))]), &mut ext4(), &Owners::new());
    assert_eq!(counts(&split, Class::Other), (4096, 1));
    assert_eq!(split.unattributed_bytes, 4096);
}

#[test]
fn settled_classes_sum_to_the_totals() {
    let split = |db, other| Split {
        by_class: [(Class::Db, db), (Class::Other, other)]
            .map(|(class, bytes)| (class, ClassCounts { bytes, writes: 1 }))
            .into(),
        unattributed_bytes: 0,
    };
    let mut missing = split(100, 10);
    missing.settle(150, 5);
    assert_eq!((counts(&missing, Class::Db), counts(&missing, Class::Other)), ((100, 1), (50, 4)));
    assert_eq!(missing.unattributed_bytes, 40);
    let mut excess = split(100, 10);
    excess.settle(80, 2);
    assert_eq!((counts(&excess, Class::Db), counts(&excess, Class::Other)), ((80, 1), (0, 1)));
}
