//! Which states a loss of power can leave. Each rule of the fault model is tried on a disk without
//! SQLite.

use std::collections::BTreeSet;

use super::*;
use crate::disk::{Disk, DiskError, SyncFailures};
use crate::log::Op;

/// All images of the last moment of `work`, on a disk that holds `/d/old` with eight sectors of
/// ones.
fn images(reading: Reading, work: impl FnOnce(&mut Disk)) -> Vec<Image> {
    let mut initial = Image::default();
    initial.files.insert("/d/old".to_owned(), Content::from_bytes(&[1; 4096]));
    let mut disk = Disk::from_image(&initial);
    work(&mut disk);
    let mut timeline = Timeline::new(&initial, reading);
    let log = disk.take_log();
    assert!(!log.is_empty());
    log.iter().for_each(|op| timeline.apply(op));
    let moment = Moment::new(&timeline);
    // Several seeds, so that each way to tear is there.
    (0..64)
        .flat_map(|seed| moment.choices(seed, true, 1.0))
        .map(|choice| moment.image(&choice))
        .collect()
}

fn names(image: &Image) -> Vec<&str> {
    image.files.keys().map(String::as_str).collect()
}

fn old(disk: &Disk) -> u32 {
    disk.lookup("/d/old").unwrap()
}

/// One letter a sector: the first byte, or `?` if it is none of zero, one, two and three.
fn sectors_of(image: &Image, name: &str) -> String {
    let letter = |sector: &[u8]| match sector {
        same if same.iter().all(|byte| *byte == sector[0]) && sector[0] < 4 => {
            char::from(b'0' + sector[0])
        }
        _ => '?',
    };
    image.files[name].to_bytes().chunks(512).map(letter).collect()
}

fn all_sectors(reading: Reading, work: impl FnOnce(&mut Disk)) -> BTreeSet<String> {
    images(reading, work).iter().map(|image| sectors_of(image, "/d/old")).collect()
}

#[test]
fn any_subset_of_the_writes_survives_in_any_order() {
    let found = all_sectors(Reading::Ordered, |disk| {
        let ino = old(disk);
        disk.write(ino, 0, &[2; 512]).unwrap();
        disk.write(ino, 1024, &[2; 512]).unwrap();
        disk.write(ino, 0, &[3; 512]).unwrap();
    });
    let wanted = ["11111111", "21111111", "31111111", "11211111", "21211111", "31211111"];
    assert_eq!(found, wanted.map(str::to_owned).into());
}

#[test]
fn a_write_is_torn_at_sectors() {
    let found = all_sectors(Reading::Ordered, |disk| disk.write(old(disk), 0, &[2; 2048]).unwrap());
    assert!(
        found.contains("12121111") || found.contains("21121111") || found.contains("12211111"),
        "{found:?}"
    );
    assert!(
        found.iter().all(|sectors| sectors.ends_with("1111") && !sectors.contains('?')),
        "{found:?}"
    );
}

#[test]
fn only_the_weak_reading_has_garbage_and_only_where_was_written() {
    let work = |disk: &mut Disk| disk.write(old(disk), 512, &[2; 1024]).unwrap();
    let weak = all_sectors(Reading::Weak, work);
    assert!(weak.iter().any(|sectors| sectors.contains('?')), "{weak:?}");
    assert!(
        weak.iter().all(|sectors| sectors.starts_with('1') && sectors.ends_with("11111")),
        "{weak:?}"
    );
    let ordered = all_sectors(Reading::Ordered, work);
    assert!(ordered.iter().all(|sectors| !sectors.contains('?')), "{ordered:?}");
}

#[test]
fn bytes_beside_a_write_never_change() {
    for image in images(Reading::Weak, |disk| disk.write(old(disk), 100, &[2; 24]).unwrap()) {
        let bytes = image.files["/d/old"].to_bytes();
        assert!(bytes[..100].iter().chain(&bytes[124..]).all(|byte| *byte == 1));
    }
}

#[test]
fn space_that_a_file_gained_is_missing_zero_or_written_and_in_the_weak_reading_stale() {
    let work = |disk: &mut Disk| {
        let new = disk.create("/d/new").unwrap();
        disk.sync(new, &mut SyncFailures::default(), None, false).unwrap();
        disk.sync_dir("/d").unwrap();
        disk.write(new, 0, &[2; 1024]).unwrap();
    };
    let found = |reading| -> BTreeSet<String> {
        images(reading, work).iter().map(|image| sectors_of(image, "/d/new")).collect()
    };
    let ordered = found(Reading::Ordered);
    // A second sector that survives alone makes a hole. A first one alone may leave the file short.
    assert_eq!(ordered, ["", "2", "00", "20", "02", "22"].map(str::to_owned).into());
    let weak = found(Reading::Weak);
    assert!(weak.contains("11") && weak.iter().any(|sectors| sectors.contains('?')), "{weak:?}");
}

#[test]
fn a_forced_write_saves_itself_and_no_other() {
    let lost = |second: u64| {
        images(Reading::Ordered, |disk| {
            let ino = old(disk);
            disk.write(ino, 0, &[2; 512]).unwrap();
            disk.write(ino, second, &[2; 512]).unwrap();
            disk.sync(ino, &mut SyncFailures::default(), None, true).unwrap();
        })
    };
    let found = |second| {
        lost(second).iter().map(|image| sectors_of(image, "/d/old")).collect::<BTreeSet<_>>()
    };
    assert_eq!(found(1024), ["11211111", "21211111"].map(str::to_owned).into());
    // Behind the end of the file its size has to be made durable, too.
    assert_eq!(found(4096), ["211111112"].map(str::to_owned).into());
}

#[test]
fn names_are_durable_in_order_in_one_reading_and_alone_in_the_other() {
    let work = |disk: &mut Disk| {
        disk.create("/d/a").unwrap();
        disk.create("/d/b").unwrap();
        disk.unlink("/d/old").unwrap();
    };
    let found = |reading| -> BTreeSet<String> {
        images(reading, work)
            .iter()
            .map(|image| names(image).join(" ").replace("/d/", ""))
            .collect()
    };
    assert_eq!(
        found(Reading::Ordered),
        ["old", "a old", "a b old", "a b"].map(str::to_owned).into()
    );
    let weak = found(Reading::Weak);
    assert!(weak.contains("b") && weak.contains("") && weak.contains("a"), "{weak:?}");
    assert_eq!(weak.len(), 8);
}

#[test]
fn the_sync_of_a_new_file_saves_its_name_on_ext4_only() {
    let work = |disk: &mut Disk| {
        let new = disk.create("/d/new").unwrap();
        disk.write(new, 0, &[2; 512]).unwrap();
        disk.sync(new, &mut SyncFailures::default(), None, false).unwrap();
    };
    assert!(images(Reading::Ordered, work).iter().all(|image| sectors_of(image, "/d/new") == "2"));
    assert!(images(Reading::Weak, work).iter().any(|image| !image.files.contains_key("/d/new")));
}

#[test]
fn a_sync_of_the_directory_saves_names_and_no_data() {
    for reading in Reading::ALL {
        let found = images(reading, |disk| {
            let new = disk.create("/d/new").unwrap();
            disk.write(new, 0, &[2; 512]).unwrap();
            disk.rename("/d/old", "/d/renamed").unwrap();
            disk.sync_dir("/d").unwrap();
        });
        assert!(found.iter().all(|image| names(image) == ["/d/new", "/d/renamed"]));
        assert!(found.iter().any(|image| sectors_of(image, "/d/new").is_empty()));
    }
}

/// Linux marks the pages of a failed writeback clean. A second fsync succeeds and writes nothing of
/// them.
#[test]
fn a_sync_after_a_failed_one_does_not_save_what_the_first_lost() {
    let lost = (0..16).any(|seed| {
        images(Reading::Ordered, |disk| {
            let ino = old(disk);
            disk.write(ino, 0, &[2; 512]).unwrap();
            disk.plan_faults(crate::fault::FaultPlan::new(
                crate::fault::Fault::Sync,
                0,
                false,
                seed,
            ));
            disk.sync(ino, &mut SyncFailures::default(), None, false).unwrap_err();
            disk.sync(ino, &mut SyncFailures::default(), None, false).unwrap();
            let mut seen = [0; 512];
            disk.read(ino, 0, &mut seen).unwrap();
            assert_eq!(seen, [2; 512], "the process still reads what it wrote");
        })
        .iter()
        .all(|image| sectors_of(image, "/d/old") == "11111111")
    });
    assert!(lost);
}

/// As in Linux since 4.13: once to every open file, not to one that is opened after it.
#[test]
fn a_failed_sync_is_told_once_to_every_file_that_was_open() {
    let mut initial = Image::default();
    initial.files.insert("/d/old".to_owned(), Content::from_bytes(&[1; 4096]));
    let mut disk = Disk::from_image(&initial);
    disk.tell_all_of_failed_syncs();
    let ino = old(&disk);
    let (mut one, mut other) = (disk.sync_failures(ino), disk.sync_failures(ino));
    disk.plan_faults(crate::fault::FaultPlan::new(crate::fault::Fault::Sync, 0, false, 1));
    assert_eq!(disk.sync(ino, &mut one, None, false), Err(DiskError::Io));
    let mut later = disk.sync_failures(ino);
    assert_eq!(disk.sync(ino, &mut other, None, false), Err(DiskError::Io));
    for known in [&mut one, &mut other, &mut later] {
        assert_eq!(disk.sync(ino, known, None, false), Ok(()));
    }
}

#[test]
fn many_operations_in_flight_are_sampled_a_thousand_times() {
    let initial = Image::default();
    let mut timeline = Timeline::new(&initial, Reading::Weak);
    timeline.apply(&Op::Create { name: "/f".to_owned(), ino: 1 });
    for number in 0..EXHAUSTIVE_MAX as u64 {
        let data = crate::log::Data([1; 512].into());
        timeline.apply(&Op::Write { ino: 1, offset: number * 512, data });
    }
    let moment = Moment::new(&timeline);
    let choices = moment.choices(5, true, 1.0);
    assert_eq!(choices.len(), SAMPLES_AT_SYNC);
    let images: BTreeSet<u64> = choices.iter().map(|choice| moment.image(choice).hash()).collect();
    assert!(images.len() > SAMPLES_AT_SYNC / 4, "{}", images.len());
    assert_eq!(choices, moment.choices(5, true, 1.0));
}
