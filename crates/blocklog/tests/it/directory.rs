//! What makes a log that of a directory, and what is refused before any write.

use oneflush_blocklog::{CHUNK_BYTES, Epoch, Error, Head, KIND_RELEASE, Log, Lsn};

use crate::common::{
    self, Ended, Memory, OfEpoch, UUID, create, create_for_directory, of_version_2, open_and_scan,
    open_and_scan_epochs, scan, scan_epochs, turn_into_one_of_a_directory,
};

#[test]
fn a_created_log_of_a_directory_is_empty_and_says_what_it_is() {
    let (log, head) = create_for_directory(4096, 1);
    assert_eq!((head.epoch, head.lsn), (Epoch(0), Lsn(0)));
    assert_eq!(scan_epochs(&log).unwrap(), (vec![], None));
    let bytes = log.storage().bytes();
    let text: &[u8] = b"Oneflush log. It may hold synced contents of the directory beside it: \
        mount that with oneflush mount, or run: oneflush recover --fs DIRECTORY\n\0";
    assert_eq!(&bytes[..text.len()], text);
    assert_eq!(bytes[264..268], [4, 0, 0, 0]);
    assert_eq!(bytes[276..280], 4096u32.to_le_bytes());
    let opened = Log::open_for_directory(log.storage().clone()).unwrap();
    assert_eq!((opened.uuid(), opened.empty_head().unwrap()), (UUID, head));
}

#[test]
fn each_kind_of_log_is_refused_where_the_other_is_wanted() {
    let (of_directory, _) = create_for_directory(4096, 1);
    let error = Log::open(of_directory.storage().clone()).unwrap_err();
    assert!(matches!(error, Error::OfDirectory));
    let text = error.to_string();
    assert!(text.contains("log of a directory") && text.contains("oneflush recover --fs"));

    for memory in [create(4096, 1).0.storage().clone(), of_version_2(4096)] {
        let error = Log::open_for_directory(memory).unwrap_err();
        assert!(matches!(error, Error::OfDatabase));
        assert!(error.to_string().contains("log of a database"));
    }
}

#[test]
fn the_reader_of_one_kind_refuses_the_other_kind() {
    let (log, head) = create_for_directory(4096, 1);
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    assert!(matches!(scan(&log), Err(Error::OfDirectory)));
    assert!(matches!(common::replay(&log, &head), Err(Error::OfDirectory)));
    assert!(matches!(log.write_again(head.lsn), Err(Error::OfDirectory)));
    assert!(matches!(log.salvage(), Err(Error::OfDirectory)));
    let (log, head) = create(4096, 1);
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    assert!(matches!(scan_epochs(&log), Err(Error::OfDatabase)));
    assert!(matches!(log.release(&head, Epoch(1)), Err(Error::OfDatabase)));
}

#[test]
fn a_newer_format_and_a_flipped_bit_are_neither_kind() {
    let (log, head) = create_for_directory(512, 1);
    log.begin_epoch(&head, 1, b"begin").unwrap();
    let memory = log.storage();
    for bit in 0..512 * 8 {
        memory.edit(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert!(matches!(open_and_scan_epochs(memory), Err(Error::HeaderDamaged)), "bit {bit}");
        assert!(matches!(open_and_scan(memory), Err(Error::HeaderDamaged)), "bit {bit}");
        memory.edit(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
    }
    memory.edit(|bytes| {
        bytes[264] = 5;
        let checksum = crc32c::crc32c(&bytes[..508]);
        bytes[508..512].copy_from_slice(&checksum.to_le_bytes());
    });
    for error in [open_and_scan(memory).unwrap_err(), open_and_scan_epochs(memory).unwrap_err()] {
        assert!(matches!(error, Error::NewerFormat { found: 5, known: 4 }), "{error}");
    }
}

/// Epochs 1 and 2, both live.
fn two_live() -> (Log<Memory>, Head) {
    let (log, head) = create_for_directory(512, CHUNK_BYTES);
    let one = log.begin_epoch(&head, 1, b"one").unwrap();
    let two = log.begin_epoch(&one, 1, b"two").unwrap();
    (log, two)
}

/// Nothing is written where this is the answer.
#[track_caller]
fn expect_bad_head(log: &Log<Memory>, answer: Result<Head, Error>) {
    assert!(matches!(answer, Err(Error::BadHead { .. })), "{answer:?}");
    assert_eq!(log.storage().take_operations(), []);
}

#[test]
fn an_epoch_begins_only_when_the_one_before_the_last_is_released() {
    let (log, two) = two_live();
    log.storage().take_operations();
    expect_bad_head(&log, log.begin_epoch(&two, 1, b"three"));
    let released = log.release(&two, Epoch(1)).unwrap();
    let three = log.begin_epoch(&released, 1, b"three").unwrap();
    assert_eq!((three.epoch, three.position, three.lsn), (Epoch(3), 512, Lsn(4)));
    log.storage().take_operations();
    expect_bad_head(&log, log.begin_epoch(&three, 1, b"four"));
}

#[test]
fn after_opening_the_scan_says_what_is_released() {
    let (log, two) = two_live();
    let memory = log.storage().clone();
    let reopened = Log::open_for_directory(memory.clone()).unwrap();
    assert_eq!(scan_epochs(&reopened).unwrap().1, Some(two));
    memory.take_operations();
    expect_bad_head(&reopened, reopened.begin_epoch(&two, 1, b"three"));
    let released = reopened.release(&two, Epoch(1)).unwrap();

    let reopened = Log::open_for_directory(memory.clone()).unwrap();
    memory.take_operations();
    expect_bad_head(&reopened, reopened.begin_epoch(&released, 1, b"before any scan"));
    assert_eq!(scan_epochs(&reopened).unwrap().1, Some(released));
    let three = reopened.begin_epoch(&released, 1, b"three").unwrap();
    // Epoch 2 is not released now.
    assert_eq!(scan_epochs(&reopened).unwrap().1, Some(three));
    memory.take_operations();
    expect_bad_head(&reopened, reopened.begin_epoch(&three, 1, b"four"));
}

#[test]
fn a_release_that_failed_releases_nothing() {
    let (log, two) = two_live();
    log.storage().fail_after(0);
    assert!(matches!(log.release(&two, Epoch(1)), Err(Error::Io { .. })));
    log.storage().heal();
    log.storage().take_operations();
    expect_bad_head(&log, log.begin_epoch(&two, 1, b"three"));
}

#[test]
fn only_the_epoch_before_the_heads_is_released_and_only_by_a_release() {
    let (log, head) = create_for_directory(512, CHUNK_BYTES);
    log.storage().take_operations();
    expect_bad_head(&log, log.release(&head, Epoch(0)));
    let one = log.begin_epoch(&head, 1, b"one").unwrap();
    log.storage().take_operations();
    expect_bad_head(&log, log.release(&one, Epoch(0)));
    expect_bad_head(&log, log.release(&one, Epoch(1)));
    expect_bad_head(&log, log.begin_epoch(&one, KIND_RELEASE, &1u64.to_le_bytes()));
    let two = log.begin_epoch(&one, 1, b"two").unwrap();
    log.storage().take_operations();
    for epoch in [0, 2, 3, u64::MAX] {
        expect_bad_head(&log, log.release(&two, Epoch(epoch)));
    }
    expect_bad_head(&log, log.release(&Head { position: 0, ..two }, Epoch(1)));
    expect_bad_head(&log, log.append(&two, KIND_RELEASE, &1u64.to_le_bytes()));
    // In the log of a database the number has no meaning.
    let (log, head) = create(512, CHUNK_BYTES);
    let head = log.begin_epoch(&head, KIND_RELEASE, b"any").unwrap();
    log.append(&head, KIND_RELEASE, b"any").unwrap();
    assert_eq!(scan(&log).unwrap().0.len(), 2);
}

#[test]
fn a_release_has_the_documented_bytes() {
    let (log, two) = two_live();
    let end = log.release(&two, Epoch(1)).unwrap();
    assert_eq!((end.position, end.lsn), (1024, Lsn(3)));
    let bytes = log.storage().bytes();
    let record = &bytes[common::offset(512, 0, two.position)..][..512];
    assert_eq!((&record[..4], record[4], record[32]), (&b"1FLR"[..], 16, 8));
    assert_eq!(record[52..60], [1, 0, 0, 0, 0, 0, 0, 0]);

    // The same by other means.
    let (other, head) = create(512, CHUNK_BYTES);
    let head = other.begin_epoch(&head, 1, b"one").unwrap();
    let head = other.begin_epoch(&head, 1, b"two").unwrap();
    other.append(&head, 16, &[1, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    turn_into_one_of_a_directory(other.storage());
    let two: OfEpoch = (2, 1, 2, b"two".to_vec());
    assert_eq!(open_and_scan_epochs(other.storage()).unwrap(), (vec![two], Some(end)));
    assert_eq!(other.storage().bytes()[512..], bytes[512..]);
}

#[test]
fn a_full_lane_refuses_a_release_and_growing_makes_room() {
    let (log, head) = create_for_directory(512, 1);
    let one = log.begin_epoch(&head, 1, b"one").unwrap();
    let two = log.begin_epoch(&one, 1, &vec![2; one.lane_bytes as usize - 512 - 52]).unwrap();
    assert!(matches!(log.release(&two, Epoch(1)), Err(Error::Full { needed: 512, free: 0 })));
    let grown = log.grow(&two, 2 * two.lane_bytes).unwrap();
    let end = log.release(&grown, Epoch(1)).unwrap();
    let (records, found) = open_and_scan_epochs(log.storage()).unwrap();
    assert_eq!((records.len(), found), (1, Some(end)));
}

#[test]
fn an_error_of_the_visitor_ends_the_scan_of_epochs() {
    let (log, head) = create_for_directory(4096, CHUNK_BYTES);
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    log.begin_epoch(&head, 1, b"begin").unwrap();
    for at in [Epoch(1), Epoch(2)] {
        let scanned = log
            .scan_epochs(|epoch, _, _, _| if epoch == at { Err(Ended::ByVisitor) } else { Ok(()) });
        assert!(matches!(scanned, Err(Ended::ByVisitor)));
    }
    log.storage().fail_after(0);
    assert!(matches!(log.scan_epochs(|_, _, _, _| Ok(())), Err(Ended::ByLog)));
}
