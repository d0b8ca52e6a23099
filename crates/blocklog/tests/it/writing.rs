//! What reaches the storage: how many writes and flushes, where, and what is refused before any.

use oneflush_blocklog::{CHUNK_BYTES, Epoch, Error, FIRST_CHUNK_BYTES, Head, Log, Lsn, Storage};

use crate::common::{
    Ended, Memory, Operation, UUID, create, of_version_2, offset, offset_in_version_2,
    open_and_scan, scan,
};

#[test]
fn a_record_inside_a_chunk_is_one_durable_write() {
    let (log, head) = create(4096, CHUNK_BYTES);
    log.storage().take_operations();
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    let head = log.append(&head, 2, &[1; 4044]).unwrap();
    log.append(&head, 2, &[1; 4045]).unwrap();
    let at = |position| offset(4096, 1, position) as u64;
    let expected = [(0, 4096), (4096, 4096), (8192, 8192)]
        .map(|(position, length)| Operation::WriteDurable { offset: at(position), length });
    assert_eq!(log.storage().take_operations(), expected);
}

#[test]
fn a_record_over_a_chunks_border_is_a_write_for_each_chunk_and_one_flush() {
    let (log, head) = create(4096, 4 * CHUNK_BYTES);
    let payload: Vec<u8> = (0..2 * CHUNK_BYTES as usize).map(|index| (index / 7) as u8).collect();
    let head = log.begin_epoch(&head, 1, &vec![1; CHUNK_BYTES as usize - 52]).unwrap();
    let head = log.append(&head, 1, b"behind the small chunks").unwrap();
    log.storage().take_operations();
    log.append(&head, 2, &payload).unwrap();
    let operations = log.storage().take_operations();
    let lengths: Vec<usize> = operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Write { length, .. } => Some(*length),
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [CHUNK_BYTES as usize - 4096, CHUNK_BYTES as usize, 8192]);
    assert_eq!(operations[3..], [Operation::Flush]);
    assert_eq!(scan(&log).unwrap().0[2].2, payload);
}

#[test]
fn a_log_begins_with_two_lanes_of_32_kib_that_double_up_to_a_chunk() {
    let (log, mut head) = create(4096, 1);
    let (mut sizes, mut records) = (vec![log.storage().bytes().len()], Vec::new());
    for lane_bytes in [1, 2, 4, 8, 16, 24].map(|times| times * FIRST_CHUNK_BYTES) {
        head = log.grow(&head, lane_bytes).unwrap();
        assert_eq!(head.lane_bytes, lane_bytes);
        sizes.push(log.storage().bytes().len());
        // Records of both lanes, each up to the lane's end. The last one crosses every border.
        for _ in 0..2 {
            let payload = vec![lane_bytes as u8 | 7; lane_bytes as usize - 8192 - 52];
            head = log.begin_epoch(&head, 1, &payload).unwrap();
            head = log.append(&head, 2, b"in the last block but one").unwrap();
            assert_eq!(head.position, lane_bytes - 4096);
            records = vec![
                (1, head.lsn.0 - 1, payload),
                (2, head.lsn.0, b"in the last block but one".to_vec()),
            ];
        }
        assert_eq!(open_and_scan(log.storage()).unwrap(), (records.clone(), Some(head)));
    }
    let kib: Vec<usize> = sizes.iter().map(|bytes| (bytes - 4096) / 1024).collect();
    assert_eq!(kib, [64, 64, 128, 256, 512, 1024, 1536]);
    assert_eq!(scan(&log).unwrap().0, records);
}

/// The version that made the log can read it again.
#[test]
fn a_log_of_version_2_is_gone_on_with_in_its_own_layout() {
    let memory = of_version_2(4096);
    let log = Log::open(memory.clone()).unwrap();
    let head = log.begin_epoch(&log.empty_head().unwrap(), 1, b"begin").unwrap();
    let head = log.append(&head, 2, &[1; 100_000]).unwrap();
    let head = log.grow(&head, CHUNK_BYTES + 1).unwrap();
    assert_eq!(head.lane_bytes, 2 * CHUNK_BYTES);
    log.storage().take_operations();
    let next = log.append(&head, 2, b"more").unwrap();
    let place = offset_in_version_2(4096, 1, head.position) as u64;
    assert_eq!(
        log.storage().take_operations(),
        [Operation::WriteDurable { offset: place, length: 4096 }]
    );
    // The header is as it was, and the lane is counted in its chunks.
    let bytes = memory.bytes();
    assert_eq!(
        (bytes[264], bytes[place as usize + 36..place as usize + 40].to_vec()),
        (2, vec![2, 0, 0, 0])
    );
    let (records, end) = open_and_scan(&memory).unwrap();
    assert_eq!((records.len(), end), (3, Some(next)));
}

#[test]
fn every_length_of_a_payload_reads_back_as_it_was() {
    let (log, head) = create(512, CHUNK_BYTES);
    let mut head = log.begin_epoch(&head, 0, b"").unwrap();
    let mut expected = vec![(0, 1, Vec::new())];
    for length in (0..20).chain(440..480).chain(960..980) {
        let payload: Vec<u8> = (0..length).map(|index| index as u8 | 1).collect();
        let next = log.append(&head, length as u8, &payload).unwrap();
        assert_eq!(next.position - head.position, log.record_bytes(length));
        head = next;
        expected.push((length as u8, head.lsn.0, payload));
    }
    assert_eq!(scan(&log).unwrap(), (expected, Some(head)));
}

#[test]
fn what_does_not_fit_writes_nothing_and_growing_makes_room() {
    let (log, head) = create(4096, CHUNK_BYTES);
    let head = log.begin_epoch(&head, 1, &vec![1; CHUNK_BYTES as usize - 8192 - 52]).unwrap();
    let before = log.storage().bytes();
    log.storage().take_operations();
    match log.append(&head, 2, &[2; 4045]).unwrap_err() {
        Error::Full { needed, free } => assert_eq!((needed, free), (8192, 4096)),
        other => panic!("{other}"),
    }
    assert!(matches!(
        log.begin_epoch(&head, 1, &vec![1; CHUNK_BYTES as usize]),
        Err(Error::Full { .. })
    ));
    assert_eq!(log.storage().take_operations(), []);
    assert_eq!(log.storage().bytes(), before);

    let grown = log.grow(&head, CHUNK_BYTES + 1).unwrap();
    assert_eq!(grown, Head { lane_bytes: 2 * CHUNK_BYTES, ..head });
    let size = (4096 + 4 * CHUNK_BYTES) as usize;
    assert_eq!(log.storage().bytes().len(), size);
    let next = log.append(&grown, 2, &[2; 4045]).unwrap();
    let (records, end) = open_and_scan(log.storage()).unwrap();
    assert_eq!((records.len(), end), (2, Some(next)));
}

/// A log is cut to the size that it had before it grew. It used to lose what followed in silence:
/// no record that was left named the longer lane.
#[test]
fn the_last_block_of_a_lane_is_for_a_record_that_knows_of_a_longer_one() {
    let (log, head) = create(4096, 1);
    let mut head = log.begin_epoch(&head, 1, b"").unwrap();
    let mut sizes = Vec::new();
    for _ in 0..200 {
        head = match log.append(&head, 2, b"x") {
            Err(Error::Full { needed: 4096, free: 0 }) => {
                assert_eq!(head.position, head.lane_bytes - 4096);
                sizes.push(log.storage().bytes().len());
                let grown = log.grow(&head, 2 * head.lane_bytes).unwrap();
                log.append(&grown, 2, b"x").unwrap()
            }
            appended => appended.unwrap(),
        };
    }
    assert_eq!(scan(&log).unwrap().1, Some(head));
    assert_eq!(sizes.len(), 5);
    let whole = log.storage().bytes();
    for size in sizes {
        let cut = open_and_scan(&Memory::of(4096, whole[..size].to_vec()));
        assert!(matches!(cut, Err(Error::Damaged { .. })), "cut to {size}");
    }
    let next = log.begin_epoch(&head, 1, b"next").unwrap();
    assert_eq!(scan(&log).unwrap().1, Some(next));
}

#[test]
fn growing_to_less_does_nothing_and_a_crash_in_growing_leaves_whole_pairs() {
    let (log, head) = create(4096, 2 * CHUNK_BYTES);
    log.storage().take_operations();
    assert_eq!(log.grow(&head, CHUNK_BYTES).unwrap(), head);
    assert_eq!(log.storage().take_operations(), []);
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    // Eight chunks were to be added. One chunk and a half was.
    log.storage().extend(4096 + 4 * CHUNK_BYTES + 3 * CHUNK_BYTES / 2).unwrap();
    assert_eq!(scan(&log).unwrap().1, Some(head));
    let grown = log.grow(&head, 4 * CHUNK_BYTES).unwrap();
    let next = log.append(&grown, 2, &vec![7; 3 * CHUNK_BYTES as usize]).unwrap();
    assert_eq!(scan(&log).unwrap().1, Some(next));
}

#[test]
fn a_created_log_is_empty_and_takes_no_append_before_its_first_epoch() {
    let (log, head) = create(4096, 1);
    assert_eq!((head.epoch, head.lsn, head.lane_bytes), (Epoch(0), Lsn(0), FIRST_CHUNK_BYTES));
    assert!(matches!(log.append(&head, 1, b""), Err(Error::BadHead { .. })));
    let opened = Log::open(log.storage().clone()).unwrap();
    assert_eq!((opened.uuid(), opened.page_bytes()), (UUID, 4096));
    assert_eq!(scan(&opened).unwrap(), (vec![], None));
    assert_eq!(opened.empty_head().unwrap(), head);
}

#[test]
fn what_is_no_log_is_refused_by_what_it_is() {
    let open = |bytes: Vec<u8>| Log::open(Memory::of(4096, bytes)).map(drop).unwrap_err();
    assert!(matches!(open(vec![]), Error::Unfinished));
    assert!(matches!(open(vec![0; 700_000]), Error::Unfinished));
    assert!(matches!(open(vec![1; 8192]), Error::NotALog));
    assert!(matches!(open(b"Oneflush log".to_vec()), Error::NotALog));
    let (log, head) = create(4096, CHUNK_BYTES);
    log.begin_epoch(&head, 1, b"begin").unwrap();
    let mut bytes = log.storage().bytes();
    bytes[..4096].fill(0);
    assert!(
        matches!(open(bytes), Error::HeaderDamaged),
        "a first block that was lost is no unfinished log"
    );
}

#[test]
fn a_device_with_larger_blocks_is_refused_and_one_with_smaller_blocks_is_not() {
    let (log, head) = create(4096, CHUNK_BYTES);
    log.begin_epoch(&head, 1, b"begin").unwrap();
    let bytes = log.storage().bytes();
    assert_eq!(open_and_scan(&Memory::of(512, bytes.clone())).unwrap().0.len(), 1);
    let error = Log::open(Memory::of(8192, bytes)).unwrap_err();
    assert!(matches!(error, Error::BlockSize { log_bytes: 4096, storage_bytes: 8192 }));
    assert!(matches!(Log::create(Memory::new(100), UUID, 4096, 1), Err(Error::BlockSize { .. })));
}

#[test]
fn sizes_that_no_database_or_file_has_are_refused_before_any_write() {
    for (page_bytes, lane_bytes) in
        [(0, 1), (1000, 1), (131_072, 1), (4096, u64::MAX), (4096, 1 << 62), (4096, 1 << 51)]
    {
        let memory = Memory::new(4096);
        let error = Log::create(memory.clone(), UUID, page_bytes, lane_bytes).unwrap_err();
        assert!(matches!(error, Error::BadSize { .. }), "{error}");
        assert_eq!(memory.take_operations(), []);
    }
    let (log, head) = create(4096, CHUNK_BYTES);
    assert!(matches!(log.grow(&head, u64::MAX), Err(Error::BadSize { .. })));
}

#[test]
fn an_error_of_the_visitor_ends_the_scan() {
    let (log, head) = create(4096, CHUNK_BYTES);
    log.begin_epoch(&head, 1, b"begin").unwrap();
    assert!(matches!(log.scan(|_, _, _| Err(Ended::ByVisitor)), Err(Ended::ByVisitor)));
    log.storage().fail_after(0);
    assert!(matches!(log.scan(|_, _, _| Ok(())), Err(Ended::ByLog)));
}
