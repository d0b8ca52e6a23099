//! A loss of power in a write to the log of a directory: each choice of 512-byte sectors that
//! survive, at each step of an epoch's life.

use oneflush_blocklog::{CHUNK_BYTES, Epoch, Error, Head, Log};

use crate::common::{
    Memory, OfEpoch, create_for_directory, open_and_scan_epochs, scan_epochs, tear,
};

/// One record for a sector, for a block, for several blocks, and for several chunks.
const LENGTHS: [usize; 5] = [5, 4044, 4045, 20_000, 300_000];

fn payload(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251 + seed) as u8 | 1).collect()
}

/// Epoch 1 with several records, then epoch 2. Both are live.
fn two_live() -> (Log<Memory>, Head) {
    let (log, head) = create_for_directory(4096, 2 * CHUNK_BYTES);
    let head = log.begin_epoch(&head, 1, &payload(100, 1)).unwrap();
    let head = log.append(&head, 2, &payload(9000, 2)).unwrap();
    let head = log.append(&head, 2, &payload(3000, 3)).unwrap();
    let head = log.begin_epoch(&head, 1, &payload(100, 4)).unwrap();
    let head = log.append(&head, 2, &payload(5000, 5)).unwrap();
    (log, head)
}

/// The log goes on from what a scan shows, through two further epochs.
fn go_on(memory: &Memory, records: &[OfEpoch], head: Head) {
    let log = Log::open_for_directory(memory.clone()).unwrap();
    assert_eq!(scan_epochs(&log).unwrap(), (records.to_vec(), Some(head)));
    let live = |records: &[OfEpoch], from: u64| -> Vec<OfEpoch> {
        records.iter().filter(|record| record.0 >= from).cloned().collect()
    };
    let mut records = records.to_vec();
    let mut head = log.append(&head, 7, b"further").unwrap();
    records.push((head.epoch.0, 7, head.lsn.0, b"further".to_vec()));
    for kind in [8, 9] {
        let newest = head.epoch;
        if newest.0 > 1 {
            head = log.release(&head, Epoch(newest.0 - 1)).unwrap();
            records = live(&records, newest.0);
            assert_eq!(scan_epochs(&log).unwrap(), (records.clone(), Some(head)));
        }
        head = log.begin_epoch(&head, kind, b"anew").unwrap();
        records.push((head.epoch.0, kind, head.lsn.0, b"anew".to_vec()));
        assert_eq!(scan_epochs(&log).unwrap(), (records.clone(), Some(head)));
    }
}

/// Loses power in `write`. Each file has the records before, or those after.
fn expect_either(
    log: &Log<Memory>,
    from: Head,
    after: &[OfEpoch],
    write: impl FnOnce(&Log<Memory>) -> Result<Head, Error>,
) -> [usize; 2] {
    let before = scan_epochs(log).unwrap();
    assert_eq!(before.1, Some(from));
    let mut files = [0; 2];
    tear(log, write, |memory| {
        let (records, head) = open_and_scan_epochs(memory).unwrap();
        let head = head.unwrap();
        let is_after = head != from;
        assert_eq!(records, if is_after { after } else { &before.0[..] });
        assert_eq!(head.lsn.0, from.lsn.0 + u64::from(is_after));
        files[usize::from(is_after)] += 1;
        go_on(memory, &records, head);
    });
    files
}

/// The same for a record of each length, with this epoch and kind.
fn expect_either_for_each_length(
    log_before: impl Fn() -> (Log<Memory>, Head),
    (epoch, kind): (u64, u8),
    write: impl Fn(&Log<Memory>, &Head, &[u8]) -> Result<Head, Error>,
) {
    for length in LENGTHS {
        let (log, head) = log_before();
        let payload = payload(length, 50);
        let mut after = scan_epochs(&log).unwrap().0;
        after.push((epoch, kind, head.lsn.0 + 1, payload.clone()));
        let files = expect_either(&log, head, &after, |log| write(log, &head, &payload));
        // Power is lost in the first write, and several chunks take several.
        let is_never_whole = length > CHUNK_BYTES as usize;
        assert!(files[0] > 0 && (files[1] > 0 || is_never_whole), "{length}: {files:?}");
    }
}

#[test]
fn a_torn_record_while_two_epochs_are_live_is_there_or_not() {
    expect_either_for_each_length(two_live, (2, 3), |log, head, payload| {
        log.append(head, 3, payload)
    });
}

#[test]
fn a_torn_release_releases_nothing() {
    let (log, head) = two_live();
    let mut after = scan_epochs(&log).unwrap().0;
    after.retain(|record| record.0 == 2);
    let files = expect_either(&log, head, &after, |log| log.release(&head, Epoch(1)));
    assert_eq!(files, [128, 128]);
}

#[test]
fn a_torn_beginning_leaves_one_live_epoch_and_a_whole_one_two() {
    // The third epoch goes over the first one, which is released.
    let second_alone = || {
        let (log, head) = two_live();
        let head = log.release(&head, Epoch(1)).unwrap();
        let head = log.append(&head, 2, &payload(200, 7)).unwrap();
        (log, head)
    };
    expect_either_for_each_length(second_alone, (3, 1), |log, head, payload| {
        log.begin_epoch(head, 1, payload)
    });
}

#[test]
fn a_torn_beginning_of_the_second_epoch_leaves_the_first() {
    let first_alone = || {
        let (log, head) = create_for_directory(4096, 2 * CHUNK_BYTES);
        let head = log.begin_epoch(&head, 1, &payload(100, 1)).unwrap();
        (log, head)
    };
    expect_either_for_each_length(first_alone, (2, 1), |log, head, payload| {
        log.begin_epoch(head, 1, payload)
    });
}

#[test]
fn a_torn_beginning_of_the_first_epoch_leaves_an_empty_log_of_a_directory() {
    let (log, head) = create_for_directory(4096, CHUNK_BYTES);
    let mut files = [0; 2];
    tear(
        &log,
        |log| log.begin_epoch(&head, 1, &payload(4000, 1)),
        |memory| {
            let log = Log::open_for_directory(memory.clone()).unwrap();
            let (records, found) = scan_epochs(&log).unwrap();
            files[records.len()] += 1;
            let from = found.unwrap_or_else(|| log.empty_head().unwrap());
            let next = log.begin_epoch(&from, 1, b"anew").unwrap();
            assert_eq!(scan_epochs(&log).unwrap().1, Some(next));
        },
    );
    assert_eq!(files, [255, 1]);
}

/// The number of the torn record is given again, to the next epoch's first record. The live epoch
/// is whole without it.
#[test]
fn a_record_that_was_torn_before_the_next_epoch_began_is_not_missed() {
    let (log, head) = create_for_directory(4096, CHUNK_BYTES);
    let head = log.begin_epoch(&head, 1, &payload(100, 1)).unwrap();
    tear(
        &log,
        |log| log.append(&head, 3, &payload(9000, 2)),
        |memory| {
            let (records, found) = open_and_scan_epochs(memory).unwrap();
            go_on(memory, &records, found.unwrap());
        },
    );
}
