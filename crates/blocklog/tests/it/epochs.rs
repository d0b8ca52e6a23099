//! The conditions E1 to E7 of `docs/log-format.md`: which epochs of a directory's log are live, and
//! what is damage.

use oneflush_blocklog::{
    CHUNK_BYTES, Epoch, Error, FIRST_CHUNK_BYTES, Head, KIND_RELEASE, Log, Lsn,
};

use crate::common::{
    self, Memory, OfEpoch, create, create_for_directory, offset, open_and_scan_epochs,
    turn_into_one_of_a_directory, write_without_flush,
};

const BLOCK: usize = 512;
const RECORD_HEADER_BYTES: usize = 52;
const RELEASE: u8 = KIND_RELEASE;

/// A record as it was written.
#[derive(Clone, Debug)]
struct Written {
    epoch: u64,
    kind: u8,
    lsn: u64,
    position: u64,
    payload: Vec<u8>,
}

impl Written {
    fn offset(&self) -> usize {
        offset(BLOCK, self.epoch % 2, self.position)
    }

    fn content_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.payload.len()
    }

    fn shown(&self) -> OfEpoch {
        (self.epoch, self.kind, self.lsn, self.payload.clone())
    }
}

/// A log in the making. It is one of a database until it is [`done`](History::done), so nothing is
/// refused.
struct History {
    log: Log<Memory>,
    head: Head,
    written: Vec<Written>,
}

impl History {
    fn new() -> History {
        let (log, head) = create(BLOCK, 1);
        History { log, head, written: Vec::new() }
    }

    fn note(mut self, before: Head, after: Head, kind: u8, payload: &[u8]) -> History {
        let position = if before.epoch == after.epoch { before.position } else { 0 };
        let (epoch, lsn, payload) = (after.epoch.0, after.lsn.0, payload.to_vec());
        self.written.push(Written { epoch, kind, lsn, position, payload });
        self.head = after;
        self
    }

    /// Payloads of so many bytes, the first of them in a record that begins an epoch.
    fn epoch(mut self, lengths: &[usize]) -> History {
        let before = self.head;
        let payload = self.payload(lengths[0]);
        let after = self.log.begin_epoch(&before, 1, &payload).unwrap();
        self = self.note(before, after, 1, &payload);
        for length in &lengths[1..] {
            let payload = self.payload(*length);
            self = self.append(2, &payload);
        }
        self
    }

    fn append(self, kind: u8, payload: &[u8]) -> History {
        let before = self.head;
        let after = self.log.append(&before, kind, payload).unwrap();
        self.note(before, after, kind, payload)
    }

    /// Releases the epoch before.
    fn release(self) -> History {
        let epoch = self.head.epoch.0 - 1;
        self.append(RELEASE, &epoch.to_le_bytes())
    }

    fn payload(&self, length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 7) as u8 ^ self.head.lsn.0 as u8 ^ 0x55).collect()
    }

    /// It does not know what the first one has written.
    fn another_handle(&self) -> Log<Memory> {
        Log::open(self.log.storage().clone()).unwrap()
    }

    fn done(self) -> (Memory, Vec<Written>) {
        turn_into_one_of_a_directory(self.log.storage());
        (self.log.storage().clone(), self.written)
    }

    fn damage(self) -> (Epoch, Lsn, u64) {
        damage(&self.done().0)
    }
}

#[track_caller]
fn damage(memory: &Memory) -> (Epoch, Lsn, u64) {
    match open_and_scan_epochs(memory) {
        Err(Error::Damaged { epoch, lsn, position, .. }) => (epoch, lsn, position),
        other => panic!("damage was not noticed: {other:?}"),
    }
}

#[track_caller]
fn expect_epochs(memory: &Memory, written: &[Written], epochs: &[u64]) {
    let (records, _) = open_and_scan_epochs(memory).unwrap();
    let expected = written.iter().filter(|record| epochs.contains(&record.epoch));
    let expected = expected.filter(|record| record.kind != RELEASE).map(Written::shown);
    assert_eq!(records, expected.collect::<Vec<_>>());
}

fn wipe(memory: &Memory, record: &Written) {
    memory.edit(|bytes| bytes[record.offset()..][..BLOCK].fill(0));
}

fn break_payload(memory: &Memory, record: &Written) {
    memory.edit(|bytes| bytes[record.offset() + RECORD_HEADER_BYTES] ^= 1);
}

#[test]
fn e1_an_epoch_that_began_over_one_that_was_not_released_is_damage() {
    assert_eq!(History::new().epoch(&[5]).epoch(&[5]).epoch(&[5, 5]).damage().0, Epoch(3));
    // Its first record is torn.
    let (memory, written) = History::new().epoch(&[5]).epoch(&[5]).epoch(&[5]).done();
    break_payload(&memory, &written[2]);
    assert_eq!(damage(&memory).0, Epoch(3));
    // Where epoch 3 has released epoch 2, what epoch 2 has is of no matter.
    let (memory, written) = History::new().epoch(&[5]).epoch(&[5]).epoch(&[5]).release().done();
    expect_epochs(&memory, &written, &[3]);
}

#[test]
fn e2_a_release_of_another_epoch_or_of_no_form_is_damage() {
    let begun = || History::new().epoch(&[5]).epoch(&[5]);
    for payload in
        [&[][..], &[1], &[1; 8], &[0; 8], &[2, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0, 0]]
    {
        let found = begun().append(RELEASE, payload).append(2, b"more").damage();
        assert_eq!(found, (Epoch(2), Lsn(3), BLOCK as u64));
    }
    // In the first epoch, and of one that is not there.
    let found = History::new().epoch(&[5]).append(RELEASE, &[0; 8]).damage();
    assert_eq!(found, (Epoch(1), Lsn(2), BLOCK as u64));
    // As an epoch's first record.
    let history = History::new().epoch(&[5]);
    let payload = 1u64.to_le_bytes();
    history.log.begin_epoch(&history.head, RELEASE, &payload).unwrap();
    assert_eq!(history.damage(), (Epoch(2), Lsn(2), 0));
}

#[test]
fn e3_the_last_two_epochs_are_shown_until_the_older_one_is_released() {
    let (memory, written) = History::new().epoch(&[5, 700, 5]).done();
    expect_epochs(&memory, &written, &[1]);
    let (memory, written) = History::new().epoch(&[5, 700, 5]).epoch(&[700, 5]).done();
    expect_epochs(&memory, &written, &[1, 2]);
    let history = History::new().epoch(&[5, 700, 5]).epoch(&[700, 5]).release();
    let (memory, written) = history.done();
    expect_epochs(&memory, &written, &[2]);
    let history = History::new().epoch(&[5, 700, 5]).epoch(&[700, 5]).release().epoch(&[5, 5]);
    let (memory, written) = history.done();
    expect_epochs(&memory, &written, &[2, 3]);
    let history =
        History::new().epoch(&[5; 9]).epoch(&[5]).release().append(2, b"and on").epoch(&[5]);
    let (memory, written) = history.release().append(2, b"and on").done();
    expect_epochs(&memory, &written, &[3]);
    // Once more does no harm.
    let (memory, written) = History::new().epoch(&[5]).epoch(&[5]).release().release().done();
    expect_epochs(&memory, &written, &[2]);
}

#[test]
fn e4_a_live_epoch_that_lacks_a_record_is_damage() {
    for lost in 0..4 {
        let history = History::new().epoch(&[5, 5]).epoch(&[5, 5, 700, 5]);
        let (memory, written) = history.release().epoch(&[5, 5]).done();
        let of_live: Vec<&Written> = written.iter().filter(|record| record.epoch == 2).collect();
        assert_eq!(of_live.len(), 5);
        for record in &of_live[lost..] {
            wipe(&memory, record);
        }
        damage(&memory);
    }
    // The last record alone. What is missing is named.
    let (memory, written) = History::new().epoch(&[5, 5]).epoch(&[5]).done();
    wipe(&memory, &written[1]);
    assert_eq!(damage(&memory), (Epoch(1), Lsn(2), BLOCK as u64));
    // Once the epoch is released, nothing of it matters.
    let (memory, written) = History::new().epoch(&[5, 5]).epoch(&[5]).release().done();
    wipe(&memory, &written[1]);
    expect_epochs(&memory, &written, &[2]);
    wipe(&memory, &written[0]);
    expect_epochs(&memory, &written, &[2]);
}

/// The numbers would allow it, were a broken record none.
#[test]
fn e4_a_live_epoch_without_any_record_is_damage() {
    let history = History::new().epoch(&[5]);
    let again = Head { lsn: Lsn(0), ..history.head };
    history.another_handle().begin_epoch(&again, 1, b"again 1").unwrap();
    let (memory, written) = history.done();
    break_payload(&memory, &written[0]);
    assert_eq!(damage(&memory).0, Epoch(1));
}

/// An append from an old head, after a begin that its writer does not know of.
#[test]
fn e4_a_live_epoch_that_went_on_after_the_next_one_began_is_damage() {
    let history = History::new().epoch(&[5, 5]);
    let old = history.head;
    let history = history.epoch(&[5, 5]);
    history.another_handle().append(&old, 2, b"acknowledged").unwrap();
    history.damage();
}

#[test]
fn e5_a_record_behind_the_end_of_a_live_epoch_is_damage() {
    for lost in [1, 4] {
        let (memory, written) = History::new().epoch(&[5, 5, 5]).epoch(&[5, 5, 5]).done();
        wipe(&memory, &written[lost]);
        let Written { epoch, lsn, position, .. } = written[lost];
        assert_eq!(damage(&memory), (Epoch(epoch), Lsn(lsn), position));
    }
}

#[test]
fn e6_a_newer_record_in_the_lane_of_a_released_epoch_is_damage_and_older_ones_are_not() {
    // Epoch 4 has left records behind those of epoch 6, and epoch 3 behind those of epoch 5.
    let history = History::new().epoch(&[5]);
    let history = history.epoch(&[5]).release().epoch(&[5; 9]).release().epoch(&[5; 8]).release();
    let history = history.epoch(&[5; 2]).release().epoch(&[5; 2]).release();
    let (memory, written) = history.done();
    expect_epochs(&memory, &written, &[6]);
    // Epoch 3 has a second record, and no first one.
    let history = History::new().epoch(&[5]).epoch(&[5]).release().epoch(&[5, 5]);
    let (memory, written) = history.done();
    wipe(&memory, &written[3]);
    assert_eq!(damage(&memory).0, Epoch(3));
}

#[test]
fn e7_the_torn_record_of_an_epoch_that_never_began_shows_that_records_are_missing() {
    let made =
        || History::new().epoch(&[5]).epoch(&[5]).release().append(2, b"last").epoch(&[5]).done();
    let (memory, written) = made();
    break_payload(&memory, &written[4]);
    expect_epochs(&memory, &written, &[2]);
    wipe(&memory, &written[3]);
    assert_eq!(damage(&memory), (Epoch(2), Lsn(4), 2 * BLOCK as u64));
    // The release is missing too.
    let (memory, written) = made();
    break_payload(&memory, &written[4]);
    wipe(&memory, &written[3]);
    wipe(&memory, &written[2]);
    damage(&memory);
}

#[test]
fn an_epoch_goes_on_after_the_next_one_did_not_begin() {
    let history = History::new().epoch(&[5]).epoch(&[5]).release().epoch(&[5]);
    let (memory, written) = history.done();
    break_payload(&memory, &written[3]);
    let log = Log::open_for_directory(memory.clone()).unwrap();
    let (before, mut head) = common::scan_epochs(&log).unwrap();
    assert_eq!(before.len(), 1);
    for _ in 0..3 {
        head = Some(log.append(&head.unwrap(), 2, b"further").unwrap());
    }
    let (records, found) = open_and_scan_epochs(&memory).unwrap();
    assert_eq!((records.len(), found), (4, head));
    let next = log.begin_epoch(&head.unwrap(), 1, b"anew").unwrap();
    let (records, found) = open_and_scan_epochs(&memory).unwrap();
    assert_eq!((records.len(), found), (5, Some(next)));
}

/// What a log with one changed record must show. `None`: an error.
fn shown_without(written: &[Written], index: usize) -> Option<Vec<OfEpoch>> {
    let live = |written: &[Written]| -> Vec<OfEpoch> {
        let newest = written.last().map_or(0, |record| record.epoch);
        let of_newest = written.iter().filter(|record| record.epoch == newest);
        let released = of_newest.clone().any(|record| record.kind == RELEASE);
        let from = if released { newest } else { newest.saturating_sub(1) };
        let live = written.iter().filter(|record| record.epoch >= from && record.kind != RELEASE);
        live.map(Written::shown).collect()
    };
    let whole = live(written);
    if index + 1 == written.len() {
        return Some(live(&written[..index]));
    }
    let oldest = whole.first().map_or(0, |record| record.0);
    (written[index].epoch < oldest).then_some(whole)
}

/// The very last record may be missing afterwards. Otherwise the log is whole, or the answer is an
/// error.
#[test]
fn a_flipped_bit_anywhere_gives_all_but_the_last_record_or_an_error() {
    let histories = [
        History::new().epoch(&[5]),
        History::new().epoch(&[5, 700, 5]),
        History::new().epoch(&[5, 700]).epoch(&[5]),
        History::new().epoch(&[5, 700]).epoch(&[5, 600, 5]),
        History::new().epoch(&[5, 700]).epoch(&[5, 5]).release(),
        History::new().epoch(&[5, 5]).epoch(&[700]).release().append(2, b"more"),
        History::new().epoch(&[5, 5, 5]).epoch(&[700]).release().epoch(&[5]),
        History::new().epoch(&[5, 5, 5]).epoch(&[5]).release().epoch(&[5, 5]),
        History::new().epoch(&[5; 4]).epoch(&[5; 2]).release().epoch(&[5; 2]).release(),
    ];
    for history in histories {
        let (memory, written) = history.done();
        let (whole, _) = open_and_scan_epochs(&memory).unwrap();
        for (index, record) in written.iter().enumerate() {
            // The next epoch but one has gone over it.
            let later = written.iter().filter(|later| later.epoch == record.epoch + 2);
            let end = record.position + (record.content_bytes() as u64).next_multiple_of(512);
            if later.clone().any(|later| {
                let later_end =
                    later.position + (later.content_bytes() as u64).next_multiple_of(512);
                record.position < later_end && later.position < end
            }) {
                continue;
            }
            let expected = shown_without(&written, index);
            for bit in 0..(end - record.position) as usize * 8 {
                let at = record.offset() + bit / 8;
                memory.edit(|bytes| bytes[at] ^= 1 << (bit % 8));
                let scanned = open_and_scan_epochs(&memory);
                memory.edit(|bytes| bytes[at] ^= 1 << (bit % 8));
                match scanned {
                    Ok((records, _)) if bit / 8 >= record.content_bytes() => {
                        assert_eq!(records, whole, "padding")
                    }
                    Ok((records, _)) => assert_eq!(
                        Some(records),
                        expected,
                        "bit {bit} of record {index} in {written:?}"
                    ),
                    Err(Error::Damaged { .. }) => assert!(
                        expected.is_none() && bit / 8 < record.content_bytes(),
                        "bit {bit} of record {index} in {written:?}"
                    ),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

/// So many further records, each of a block, with the lanes growing as they must.
fn append_growing(log: &Log<Memory>, head: Head, count: u8) -> Head {
    (0..count).fold(head, |head, number| match log.append(&head, 2, &[number; 3000]) {
        Err(Error::Full { .. }) => {
            let grown = log.grow(&head, head.lane_bytes + 1).unwrap();
            log.append(&grown, 2, &[number; 3000]).unwrap()
        }
        appended => appended.unwrap(),
    })
}

/// Lanes grow in either of two live epochs, or in both. The file is then cut at every block.
#[test]
fn a_file_that_was_cut_off_is_damage_where_a_live_record_is_lost() {
    for (of_one, of_two, released) in
        [(60, 60, false), (60, 3, false), (3, 60, false), (60, 3, true), (3, 60, true)]
    {
        let (log, head) = create_for_directory(4096, 1);
        let one = log.begin_epoch(&head, 1, b"one").unwrap();
        let one = append_growing(&log, one, of_one);
        let mut two = log.begin_epoch(&one, 1, b"two").unwrap();
        if released {
            two = log.release(&two, Epoch(1)).unwrap();
        }
        let end = append_growing(&log, two, of_two);
        assert_eq!(end.lane_bytes, 8 * FIRST_CHUNK_BYTES);
        let whole = log.storage().bytes();
        let (records, found) = open_and_scan_epochs(log.storage()).unwrap();
        let of_one = if released { 0 } else { 1 + usize::from(of_one) };
        assert_eq!((records.len(), found), (of_one + 1 + usize::from(of_two), Some(end)));
        for blocks in 1..whole.len() / 4096 {
            damage(&Memory::of(4096, whole[..blocks * 4096].to_vec()));
        }
    }
}

/// A forced write (FUA) does not flush what another process wrote before it died.
#[test]
fn what_a_scan_of_epochs_showed_is_durable() {
    let (log, head) = create_for_directory(4096, 2 * CHUNK_BYTES);
    write_without_flush(&log, &head);
    let (records, head) = common::scan_epochs(&log).unwrap();
    assert_eq!(records.len(), 2);
    log.append(&head.unwrap(), 3, b"further").unwrap();
    assert_eq!(open_and_scan_epochs(&log.storage().crash(|_| false)).unwrap().0.len(), 3);
}

#[test]
fn records_without_any_first_record_are_damage() {
    let (memory, written) = History::new().epoch(&[5, 5]).epoch(&[5, 5]).done();
    wipe(&memory, &written[0]);
    wipe(&memory, &written[2]);
    damage(&memory);
}

#[test]
fn valid_checksums_and_numbers_at_their_limits_do_not_panic() {
    let (memory, written) =
        History::new().epoch(&[5, 5]).epoch(&[5, 5]).release().epoch(&[5]).done();
    for at in [8, 16, 24] {
        for value in [u64::MAX, u64::MAX - 1, 1 << 63, 0, 1] {
            for record in &written {
                let changed = Memory::of(BLOCK, memory.bytes());
                changed.edit(|bytes| {
                    let block = &mut bytes[record.offset()..][..BLOCK];
                    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
                    let crc = crc32c::crc32c_append(crc32c::crc32c(&common::UUID.0), &block[..48]);
                    block[48..52].copy_from_slice(&crc.to_le_bytes());
                });
                let _ = open_and_scan_epochs(&changed);
            }
        }
    }
}
