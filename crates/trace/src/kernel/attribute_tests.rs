//! The rules, on events as the kernel sends them for real commits.

use super::*;

const DB: u64 = 12;
const JOURNAL: u64 = 13;

fn ext4() -> Attribution {
    let journal = vec![Area { start: 1_000_000, end: 2_000_000 }];
    Attribution::new(Geometry::new(FileSystem::Ext4, journal))
}

fn write(start: u64, metadata: bool) -> Write {
    Write { start, length_bytes: 4096, metadata, by: Writer::Any }
}

#[test]
fn data_belongs_to_the_file_that_the_thread_named_last() {
    let mut ext4 = ext4();
    ext4.file(1, JOURNAL);
    ext4.file(2, DB);
    assert_eq!(ext4.whose(1, &write(4096, false)), Whose::File(JOURNAL));
    assert_eq!(ext4.whose(2, &write(4096, false)), Whose::File(DB));
    ext4.file(1, DB);
    assert_eq!(ext4.whose(1, &write(4096, false)), Whose::File(DB));
    assert_eq!(ext4.whose(9, &write(4096, false)), Whose::Unknown);
    ext4.thread_ended(1);
    assert_eq!(ext4.whose(1, &write(4096, false)), Whose::Unknown);
}

#[test]
fn data_of_a_thread_that_names_no_file_belongs_to_the_one_that_it_synchronizes() {
    let mut ext4 = ext4();
    ext4.sync(1, Some(DB));
    assert_eq!(ext4.whose(1, &write(4096, false)), Whose::File(DB));
    ext4.sync(1, None);
    assert_eq!(ext4.whose(1, &write(4096, false)), Whose::Unknown);
}

#[test]
fn metadata_is_the_journals_by_its_place() {
    let ext4 = ext4();
    assert_eq!(ext4.whose(1, &write(1_000_000, true)), Whose::Journal);
    assert_eq!(ext4.whose(1, &write(8192, true)), Whose::Metadata);
}

#[test]
fn a_journal_of_unknown_place_is_told_by_its_thread() {
    let ext4 = Attribution::new(Geometry::new(FileSystem::Ext4, Vec::new()));
    assert_eq!(ext4.whose(1, &Write { by: Writer::Jbd2, ..write(8192, true) }), Whose::Journal);
    assert_eq!(ext4.whose(1, &write(8192, true)), Whose::Metadata);
}

#[test]
fn btrfs_data_queued_by_another_thread_is_found_by_its_logical_address() {
    let chunk = Chunk { logical: 1 << 30, length_bytes: 1 << 20, physical: vec![1 << 25] };
    let geometry = Geometry { chunks: vec![chunk], ..Geometry::new(FileSystem::Btrfs, Vec::new()) };
    let mut btrfs = Attribution::new(geometry);
    btrfs.extent(1, Whose::File(DB), (1 << 30) + 8192, 4096);
    btrfs.extent(1, Whose::File(JOURNAL), (1 << 30) + 16384, 4096);
    assert_eq!(btrfs.whose(7, &write((1 << 25) + 8192, false)), Whose::File(DB));
    assert_eq!(btrfs.whose(1, &write(1 << 28, true)), Whose::Journal);
    assert_eq!(
        btrfs.whose(3, &Write { by: Writer::BtrfsTransaction, ..write(1 << 28, true) }),
        Whose::Metadata
    );
}

#[test]
fn f2fs_tells_pages_of_files_and_nodes_by_their_addresses() {
    let mut f2fs = Attribution::new(Geometry::new(FileSystem::F2fs, Vec::new()));
    f2fs.sync(1, Some(DB));
    f2fs.extent(1, Whose::File(DB), 8192, 4096);
    f2fs.extent(1, Whose::Journal, 12288, 4096);
    assert_eq!(f2fs.whose(7, &write(8192, false)), Whose::File(DB));
    for marked in [false, true] {
        assert_eq!(f2fs.whose(1, &write(12288, marked)), Whose::Journal);
    }
    assert_eq!(f2fs.whose(1, &write(512, true)), Whose::Metadata);
    f2fs.is_written(&write(12288, false));
    assert_eq!(f2fs.whose(1, &write(12288, false)), Whose::File(DB));
    assert_eq!(f2fs.whose(7, &write(12288, false)), Whose::Unknown);
}

#[test]
fn an_announcement_counts_until_two_files_of_a_recording_have_ended() {
    let mut f2fs = Attribution::new(Geometry::new(FileSystem::F2fs, Vec::new()));
    f2fs.extent(1, Whose::Journal, 8192, 4096);
    f2fs.extent(1, Whose::Journal, 12288, 4096);
    f2fs.forget_old();
    f2fs.extent(1, Whose::File(DB), 12288, 4096);
    assert_eq!(f2fs.whose(7, &write(8192, false)), Whose::Journal);
    assert_eq!(f2fs.whose(7, &write(12288, false)), Whose::File(DB));
    f2fs.is_written(&write(8192, false));
    assert_eq!(f2fs.whose(7, &write(8192, false)), Whose::Unknown);
    f2fs.forget_old();
    assert_eq!(f2fs.whose(7, &write(12288, false)), Whose::File(DB));
    f2fs.forget_old();
    assert_eq!(f2fs.whose(7, &write(12288, false)), Whose::Unknown);
}

#[test]
fn a_later_extent_replaces_what_it_covers_and_nothing_else() {
    let mut extents = Extents::default();
    let file = |inode| Some(Whose::File(inode));
    extents.insert(0, 100, Whose::File(1));
    extents.insert(40, 20, Whose::File(2));
    assert_eq!([39, 40, 59, 60, 99].map(|at| extents.owner(at)), [1, 2, 2, 1, 1].map(file));
    extents.insert(30, 80, Whose::File(3));
    assert_eq!([29, 30, 109, 110].map(|at| extents.owner(at)), [file(1), file(3), file(3), None]);
    extents.remove(20, 50);
    assert_eq!([19, 20, 49, 50].map(|at| extents.owner(at)), [file(1), None, None, file(3)]);
}
