//! The conditions V1 to V8 of `docs/log-format.md`. Each is broken alone, at the end of a log and
//! in its middle.
//!
//! The offsets below are written down a second time. So a change of the format does not pass
//! unseen.

use oneflush_blocklog::{CHUNK_BYTES, Epoch, Error, Head, Log, Lsn};

use crate::common::{Memory, Record, UUID, create, offset, open_and_scan, replay, scan};

const BLOCK: usize = 512;
const RECORD_HEADER_BYTES: usize = 52;
const FLAGS: usize = 5;
const RESERVED: usize = 6;
const EPOCH: usize = 8;
const LSN: usize = 16;
const POSITION: usize = 24;
const PAYLOAD_BYTES: usize = 32;
const LANE_CHUNKS: usize = 36;
const PREVIOUS: usize = 40;
const PAYLOAD_CRC: usize = 44;
const HEADER_CRC: usize = 48;

/// Epoch 1, in lane 1: three records, of one block, two blocks and one block.
struct Three {
    memory: Memory,
    records: Vec<Record>,
    positions: [u64; 3],
}

fn three() -> Three {
    let (log, head) = create(BLOCK, CHUNK_BYTES);
    let first = log.begin_epoch(&head, 1, b"first").unwrap();
    let second = log.append(&first, 2, &[2; 700]).unwrap();
    log.append(&second, 3, b"third").unwrap();
    let (records, _) = scan(&log).unwrap();
    assert_eq!(records.len(), 3);
    Three {
        memory: log.storage().clone(),
        records,
        positions: [0, first.position, second.position],
    }
}

impl Three {
    /// The file, with one record's blocks changed. `seal` makes the header's checksum right again.
    fn with(&self, index: usize, seal: bool, change: impl FnOnce(&mut [u8])) -> Memory {
        let mut bytes = self.memory.bytes();
        let block = &mut bytes[offset(BLOCK, 1, self.positions[index])..][..2 * BLOCK];
        change(block);
        if seal {
            self::seal(block);
        }
        Memory::of(BLOCK, bytes)
    }

    #[track_caller]
    fn expect_prefix(&self, memory: &Memory, count: usize) {
        let (records, head) = open_and_scan(memory).unwrap();
        assert_eq!(records, self.records[..count]);
        assert_eq!(head.unwrap().lsn, Lsn(count as u64));
    }

    /// A change after which the record is not recognised. The last record is then not there; any
    /// other is missed.
    #[track_caller]
    fn expect_end(&self, seal: bool, change: impl Fn(&mut [u8])) {
        self.expect_prefix(&self.with(2, seal, &change), 2);
        for index in [0, 1] {
            expect_damage(&self.with(index, seal, &change));
        }
    }

    #[track_caller]
    fn expect_damage_everywhere(&self, change: impl Fn(&mut [u8])) {
        for index in [0, 1, 2] {
            expect_damage(&self.with(index, true, &change));
        }
    }
}

fn seal(record: &mut [u8]) {
    let crc = crc32c(&[&UUID.0[..], &record[..HEADER_CRC]].concat());
    record[HEADER_CRC..HEADER_CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

/// CRC32C bit by bit: what every other implementation must agree with.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}

#[track_caller]
fn expect_damage(memory: &Memory) -> (Epoch, Lsn, u64) {
    match open_and_scan(memory) {
        Err(Error::Damaged { epoch, lsn, position, .. }) => (epoch, lsn, position),
        other => panic!("damage was not noticed: {other:?}"),
    }
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn a_record_has_the_documented_bytes() {
    let three = three();
    let file = three.memory.bytes();
    let block = &file[offset(BLOCK, 1, three.positions[2])..][..BLOCK];
    let second = &file[offset(BLOCK, 1, three.positions[1])..][..BLOCK];
    let mut expected = vec![0; BLOCK];
    expected[..4].copy_from_slice(b"1FLR");
    expected[4] = 3;
    put_u64(&mut expected, EPOCH, 1);
    put_u64(&mut expected, LSN, 3);
    put_u64(&mut expected, POSITION, three.positions[2]);
    put_u32(&mut expected, PAYLOAD_BYTES, 5);
    put_u32(&mut expected, LANE_CHUNKS, 8);
    expected[PREVIOUS..PREVIOUS + 4].copy_from_slice(&second[HEADER_CRC..HEADER_CRC + 4]);
    put_u32(&mut expected, PAYLOAD_CRC, crc32c(b"third"));
    seal(&mut expected);
    expected[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + 5].copy_from_slice(b"third");
    assert_eq!(block, expected);
}

#[test]
fn v1_a_record_without_the_magic_number_or_with_reserved_bits_is_none() {
    let three = three();
    three.expect_end(true, |record| record[0] ^= 1);
    three.expect_end(true, |record| record[FLAGS] = 1);
    three.expect_end(true, |record| record[RESERVED + 1] = 0x80);
}

#[test]
fn v2_a_header_with_a_wrong_checksum_or_of_another_log_is_none() {
    let three = three();
    three.expect_end(false, |record| record[HEADER_CRC] ^= 1);
    three.expect_end(false, |record| {
        let other_log = [&[9; 16][..], &record[..HEADER_CRC]].concat();
        put_u32(record, HEADER_CRC, crc32c(&other_log));
    });
}

#[test]
fn v3_a_record_that_stands_at_another_place_or_in_another_lane_is_none() {
    let three = three();
    three.expect_end(true, |record| record[POSITION + 1] ^= 0x40);
    three.expect_end(true, |record| put_u64(record, EPOCH, 2));
    three.expect_end(true, |record| put_u64(record, LSN, 0));
    // A whole record is copied behind the end, as a database may hold copies of blocks. It is
    // neither a record nor damage.
    let mut bytes = three.memory.bytes();
    for (index, position) in three.positions.into_iter().enumerate() {
        let from = offset(BLOCK, 1, position);
        bytes.copy_within(from..from + BLOCK, offset(BLOCK, 1, (10 + index as u64) * BLOCK as u64));
    }
    three.expect_prefix(&Memory::of(BLOCK, bytes), 3);
}

#[test]
fn v4_a_record_that_knew_a_longer_lane_or_reaches_out_of_it_is_damage() {
    let three = three();
    three.expect_damage_everywhere(|record| put_u32(record, LANE_CHUNKS, 9));
    three.expect_damage_everywhere(|record| put_u32(record, LANE_CHUNKS, 0));
    three.expect_damage_everywhere(|record| put_u32(record, PAYLOAD_BYTES, CHUNK_BYTES as u32));
    three.expect_damage_everywhere(|record| put_u32(record, PAYLOAD_BYTES, u32::MAX));
}

#[test]
fn v5_an_older_record_ends_the_epoch_and_a_newer_one_there_is_damage() {
    // Epoch 3, so that there is an older one for lane 1.
    let (log, head) = create(BLOCK, CHUNK_BYTES);
    let head = (1..=3).fold(head, |head, _| log.begin_epoch(&head, 1, b"begin").unwrap());
    let head = log.append(&head, 2, b"second").unwrap();
    log.append(&head, 2, b"third").unwrap();
    for (epoch, expected) in [(1, Some(2)), (5, None)] {
        let mut bytes = log.storage().bytes();
        let record = &mut bytes[offset(BLOCK, 1, head.position)..][..BLOCK];
        put_u64(record, EPOCH, epoch);
        seal(record);
        let memory = Memory::of(BLOCK, bytes);
        match expected {
            Some(count) => assert_eq!(open_and_scan(&memory).unwrap().0.len(), count),
            None => assert_eq!(expect_damage(&memory).0, Epoch(5)),
        }
    }
}

#[test]
fn v6_a_record_whose_number_does_not_follow_is_damage() {
    let three = three();
    for index in [1, 2] {
        expect_damage(&three.with(index, true, |record| put_u64(record, LSN, 9)));
    }
}

#[test]
fn v7_a_record_that_is_not_bound_to_the_one_before_it_is_damage() {
    three().expect_damage_everywhere(|record| record[PREVIOUS] ^= 1);
}

#[test]
fn v8_a_record_with_a_broken_payload_is_torn() {
    let three = three();
    three.expect_end(false, |record| record[RECORD_HEADER_BYTES] ^= 1);
    three.expect_end(true, |record| record[PAYLOAD_CRC] ^= 1);
}

/// A page may hold the copy of a record, even of one for the place where the page's bytes come to
/// stand.
#[test]
fn what_a_torn_record_holds_is_no_record_behind_it() {
    let begun = || {
        let (log, head) = create(BLOCK, CHUNK_BYTES);
        let head = log.begin_epoch(&head, 1, b"begin").unwrap();
        (log, head)
    };
    let (other, head) = begun();
    let head = other.append(&head, 2, b"second").unwrap();
    other.append(&head, 2, b"third").unwrap();
    let third = &other.storage().bytes()[offset(BLOCK, 1, head.position)..][..BLOCK];

    let (log, head) = begun();
    let payload = [&[1; BLOCK - RECORD_HEADER_BYTES], third, &[1; BLOCK]].concat();
    log.append(&head, 2, &payload).unwrap();
    assert_eq!(scan(&log).unwrap().0.len(), 2);
    log.storage().edit(|bytes| bytes[offset(BLOCK, 1, head.position) + 2 * BLOCK] ^= 1);
    assert_eq!(scan(&log).unwrap().1, Some(head));
}

#[test]
fn a_replay_ends_where_it_should_and_refuses_what_has_changed() {
    let (log, head) = create(BLOCK, CHUNK_BYTES);
    assert!(replay(&log, &head).is_err(), "of an epoch that has not begun");
    let first = log.begin_epoch(&head, 1, b"first").unwrap();
    let second = log.append(&first, 2, &[2; 700]).unwrap();
    let third = log.append(&second, 3, b"third").unwrap();
    let (records, _) = scan(&log).unwrap();
    assert_eq!(replay(&log, &second).unwrap(), records[..2]);
    assert!(
        replay(&log, &Head { previous: 0, ..third }).is_err()
            && replay(&log, &Head { lsn: Lsn(4), ..third }).is_err()
    );
    log.storage().edit(|bytes| bytes[offset(BLOCK, 1, first.position) + RECORD_HEADER_BYTES] ^= 1);
    assert!(replay(&log, &third).is_err());
    assert_eq!(replay(&log, &first).unwrap(), records[..1]);
    log.begin_epoch(&third, 1, b"next").unwrap();
    let other = Log::open(log.storage().clone()).unwrap();
    other
        .begin_epoch(&Head { epoch: Epoch(2), ..third }, 1, b"the one after, in the same lane")
        .unwrap();
    assert!(replay(&log, &first).is_err());
}

#[test]
fn what_is_missing_is_named() {
    let three = three();
    let (epoch, lsn, position) =
        expect_damage(&three.with(1, false, |record| record[RECORD_HEADER_BYTES] ^= 1));
    assert_eq!((epoch, lsn, position), (Epoch(1), Lsn(2), three.positions[1]));
}

#[test]
fn padding_is_of_no_meaning() {
    let three = three();
    three.expect_prefix(&three.with(2, false, |record| record[BLOCK - 1] = 1), 3);
}

/// The log is refused, or it is a prefix. It is never shorter where something valid stands behind.
#[test]
fn a_flipped_bit_anywhere_in_a_record_gives_a_prefix_or_an_error() {
    let three = three();
    for index in 0..3 {
        let length = if index == 1 { 2 * BLOCK } else { BLOCK };
        let content = RECORD_HEADER_BYTES + three.records[index].2.len();
        for bit in 0..length * 8 {
            let memory = three.with(index, false, |record| record[bit / 8] ^= 1 << (bit % 8));
            match open_and_scan(&memory) {
                Ok((records, _)) if bit / 8 >= content => {
                    assert_eq!(records, three.records, "padding")
                }
                Ok((records, _)) => {
                    assert_eq!(index, 2, "bit {bit} of record {index}: silently shorter");
                    assert_eq!(records, three.records[..2]);
                }
                Err(Error::Damaged { .. }) => {
                    assert!(index < 2 && bit / 8 < content, "bit {bit} of record {index}")
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_in_the_first_block_is_refused_or_of_no_meaning() {
    let (log, head) = create(4096, CHUNK_BYTES);
    log.begin_epoch(&head, 1, b"first").unwrap();
    let expected = scan(&log).unwrap();
    let memory = log.storage();
    for bit in 0..4096 * 8 {
        memory.edit(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        match open_and_scan(memory) {
            Err(Error::HeaderDamaged) => assert!(bit < 512 * 8),
            other => assert_eq!((bit >= 512 * 8, other.unwrap()), (true, expected.clone())),
        }
        memory.edit(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
    }
}

#[test]
fn a_file_that_was_cut_off_is_damage_wherever_a_record_knows_better() {
    let (log, head) = create(BLOCK, 3 * CHUNK_BYTES);
    let head = log.begin_epoch(&head, 1, b"first").unwrap();
    log.append(&head, 2, b"second").unwrap();
    let whole = log.storage().bytes();
    for chunks in [0, 1, 2, 5] {
        let memory =
            Memory::of(BLOCK, whole[..BLOCK + chunks * CHUNK_BYTES as usize + BLOCK].to_vec());
        expect_damage(&memory);
    }
}

#[test]
fn records_of_the_epoch_before_the_last_are_never_taken() {
    let (log, mut head) = create(BLOCK, CHUNK_BYTES);
    for epoch in 1..=6u8 {
        head = log.begin_epoch(&head, epoch, &[epoch; 10]).unwrap();
        // Each epoch has fewer records. So older ones stand at the places where the next would be.
        for _ in epoch..8 {
            head = log.append(&head, epoch, &[epoch; 10]).unwrap();
        }
        let (records, found) = scan(&log).unwrap();
        assert_eq!(found, Some(head));
        assert_eq!(records.len(), 9 - usize::from(epoch));
        assert!(records.iter().all(|(kind, _, _)| *kind == epoch));
    }
}

/// An append from an old head, after a begin that its writer does not know of, leaves two
/// histories. Neither may be dropped in silence.
#[test]
fn two_histories_are_damage() {
    let (log, head) = create(BLOCK, CHUNK_BYTES);
    let old = log.begin_epoch(&head, 1, b"begin").unwrap();
    log.begin_epoch(&old, 1, b"begin that its writer did not live to tell of").unwrap();
    let other = Log::open(log.storage().clone()).unwrap();
    other.append(&old, 2, b"acknowledged").unwrap();
    expect_damage(log.storage());
}

#[test]
fn records_without_any_first_record_are_damage() {
    let three = three();
    expect_damage(&three.with(0, false, |record| record.fill(0)));
}

#[test]
fn a_log_with_valid_checksums_and_numbers_at_their_limits_does_not_panic() {
    let three = three();
    for at in [EPOCH, LSN, POSITION] {
        for value in [u64::MAX, u64::MAX - 1, 1 << 63] {
            for index in 0..3 {
                let _ =
                    open_and_scan(&three.with(index, true, |record| put_u64(record, at, value)));
            }
        }
    }
    let (log, head) = create(BLOCK, CHUNK_BYTES);
    for head in [
        Head { lsn: Lsn(u64::MAX), ..head },
        Head { position: 513, ..head },
        Head { position: u64::MAX - 511, ..head },
        Head { lane_bytes: u64::MAX, ..head },
    ] {
        let started =
            Head { epoch: Epoch(head.epoch.0.max(1)), position: head.position.max(512), ..head };
        assert!(matches!(log.append(&started, 1, b""), Err(Error::BadHead { .. })), "{started:?}");
    }
    let last = Head { epoch: Epoch(u64::MAX), ..head };
    assert!(matches!(log.begin_epoch(&last, 1, b""), Err(Error::BadHead { .. })));
}
