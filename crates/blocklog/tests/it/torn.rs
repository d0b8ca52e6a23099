//! A loss of power in the middle of a write: each choice of 512-byte sectors that survive.

use oneflush_blocklog::{CHUNK_BYTES, Error, Head, Log};

use crate::common::{
    self, Memory, Operation, Record, begin_to_the_chunks_border, create, open_and_scan, scan, tear,
    write_without_flush,
};

fn begun(block_bytes: usize) -> (Log<Memory>, Head) {
    let (log, head) = create(block_bytes, 2 * CHUNK_BYTES);
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    let head = log.append(&head, 2, &[1; 3000]).unwrap();
    (log, head)
}

/// Each file must have the records before, or these and the one that was being written. And its log
/// must go on from there.
fn expect_prefixes(before: &[Record], torn: Record, files: &mut [usize; 2]) -> impl FnMut(&Memory) {
    move |memory| {
        let log = Log::open(memory.clone()).unwrap();
        let (records, head) = scan(&log).unwrap();
        let whole = records.len() > before.len();
        files[usize::from(whole)] += 1;
        assert_eq!(&records[..before.len()], before);
        assert_eq!(records[before.len()..], [torn.clone()][..usize::from(whole)]);
        let next = log.append(&head.unwrap(), 9, b"further").unwrap();
        let (further, end) = open_and_scan(memory).unwrap();
        assert_eq!(
            (&further[..records.len()], further.len(), end),
            (&records[..], records.len() + 1, Some(next))
        );
    }
}

#[test]
fn a_torn_record_of_one_block_is_there_or_not() {
    for payload in [&b"short"[..], &[7; 4044]] {
        let (log, head) = begun(4096);
        let before = scan(&log).unwrap().0;
        let mut files = [0; 2];
        tear(
            &log,
            |log| log.append(&head, 3, payload),
            expect_prefixes(&before, (3, 3, payload.to_vec()), &mut files),
        );
        // A short record is whole when its first sector is. A record that fills its block is whole
        // when all eight sectors are.
        assert_eq!(files, if payload.len() == 5 { [128, 128] } else { [255, 1] });
    }
}

#[test]
fn a_torn_record_of_many_blocks_is_there_or_not() {
    for (block_bytes, length) in [(512, 5000), (4096, 20_000)] {
        let (log, head) = begun(block_bytes);
        let before = scan(&log).unwrap().0;
        let payload: Vec<u8> = (0..length).map(|index| (index % 251) as u8 + 1).collect();
        let mut files = [0; 2];
        let record = (3, 3, payload.clone());
        tear(
            &log,
            |log| log.append(&head, 3, &payload),
            expect_prefixes(&before, record, &mut files),
        );
        assert!(files[0] > 0 && files[1] > 0, "{files:?}");
    }
}

#[test]
fn a_record_over_a_chunks_border_is_torn_between_its_writes_and_before_its_flush() {
    for failing in 0..3 {
        let (log, head) = create(4096, 2 * CHUNK_BYTES);
        let head = begin_to_the_chunks_border(&log, &head);
        assert_eq!(head.position, CHUNK_BYTES - 4096);
        let before = scan(&log).unwrap().0;
        let payload = vec![2; 6000];
        let memory = log.storage();
        memory.take_operations();
        memory.fail_after(failing);
        log.append(&head, 2, &payload).unwrap_err();
        let operations = memory.take_operations();
        assert!(matches!(operations[0], Operation::Write { length: 4096, .. }), "{operations:?}");
        assert_eq!(operations.len(), failing + 1);
        let mut files = [0; 2];
        let mut expect = expect_prefixes(&before, (2, 2, payload.clone()), &mut files);
        let mut rng = fastrand::Rng::with_seed(failing as u64);
        for _ in 0..500 {
            expect(&memory.crash(|_| rng.f64() < 0.8));
        }
        expect(&memory.crash(|_| true));
        drop(expect);
        assert!(files[0] > 0);
        // Without its second write the record is never whole.
        assert_eq!(files[1] > 0, failing > 0, "{files:?}");
    }
}

#[test]
fn a_torn_beginning_leaves_the_epoch_before_whole() {
    for payload_bytes in [5, 4044, 4045, 300_000] {
        let (log, head) = begun(4096);
        // The third epoch's first record goes over the first epoch's.
        let head = log.begin_epoch(&head, 1, b"second epoch").unwrap();
        let head = log.append(&head, 2, &[3; 5000]).unwrap();
        let before = scan(&log).unwrap();
        let payload = vec![4; payload_bytes];
        let mut files = [0; 2];
        tear(
            &log,
            |log| log.begin_epoch(&head, 1, &payload),
            |memory| {
                let log = Log::open(memory.clone()).unwrap();
                let found = scan(&log).unwrap();
                if found.1.unwrap().epoch == head.epoch {
                    assert_eq!(found, before);
                    files[0] += 1;
                } else {
                    assert_eq!(found.0, [(1, 5, payload.clone())]);
                    files[1] += 1;
                }
                // Both ways of going on: in the epoch, and with a new attempt to leave it.
                let next = log.append(&found.1.unwrap(), 7, b"further").unwrap();
                assert_eq!(scan(&log).unwrap().1, Some(next));
                let next = log.begin_epoch(&next, 8, b"anew").unwrap();
                assert_eq!(
                    scan(&log).unwrap(),
                    (vec![(8, next.lsn.0, b"anew".to_vec())], Some(next))
                );
            },
        );
        assert!(
            files[0] > 0 && (files[1] > 0 || payload_bytes > CHUNK_BYTES as usize),
            "{payload_bytes}: {files:?}"
        );
    }
}

#[test]
fn a_torn_beginning_of_the_first_epoch_leaves_an_empty_log() {
    let (log, head) = create(4096, CHUNK_BYTES);
    let mut files = [0; 2];
    tear(
        &log,
        |log| log.begin_epoch(&head, 1, &[1; 4000]),
        |memory| {
            let log = Log::open(memory.clone()).unwrap();
            let (records, found) = scan(&log).unwrap();
            files[records.len()] += 1;
            let from = found.unwrap_or_else(|| log.empty_head().unwrap());
            let next = log.begin_epoch(&from, 1, b"anew").unwrap();
            assert_eq!(scan(&log).unwrap().1, Some(next));
        },
    );
    assert_eq!(files, [255, 1]);
}

#[test]
fn a_torn_creation_is_unfinished_or_an_empty_log() {
    let memory = Memory::new(4096);
    memory.fail_after(1);
    Log::create(memory.clone(), common::UUID, 4096, CHUNK_BYTES).unwrap_err();
    for subset in 0..256u32 {
        match Log::open(memory.crash(|sector| subset >> sector & 1 == 1)) {
            // The header is one sector, and the rest of the block is zeros.
            Ok(log) => assert!(subset & 1 == 1 && scan(&log).unwrap().1.is_none()),
            Err(error) => assert!(subset & 1 == 0 && matches!(error, Error::Unfinished), "{error}"),
        }
    }
}

/// A forced write (FUA) does not flush what another process wrote before it died. Recovery takes
/// such a record only after a flush of its own. Otherwise the next record could be durable, and
/// this one not.
#[test]
fn what_a_scan_showed_is_durable() {
    let (log, head) = create(4096, 2 * CHUNK_BYTES);
    write_without_flush(&log, &head);
    let (records, head) = scan(&log).unwrap();
    assert_eq!(records.len(), 2);
    log.append(&head.unwrap(), 3, b"further").unwrap();
    assert_eq!(open_and_scan(&log.storage().crash(|_| false)).unwrap().0.len(), 3);
}

/// The number of the torn record is given again, to the next epoch's first record. That is no
/// second history.
#[test]
fn a_record_that_was_torn_before_the_next_epoch_began_is_no_damage() {
    let (log, head) = begun(4096);
    tear(
        &log,
        |log| log.append(&head, 3, &[7; 4044]),
        |memory| {
            let log = Log::open(memory.clone()).unwrap();
            let found = scan(&log).unwrap().1.unwrap();
            let next = log.begin_epoch(&found, 1, b"next").unwrap();
            assert_eq!(scan(&log).unwrap(), (vec![(1, next.lsn.0, b"next".to_vec())], Some(next)));
        },
    );
}
