//! No recording is public. Records are put together here by AndroTrace's own structures and order.

use std::io::Cursor;

use super::*;
use crate::import::{Format, Reader};

/// 2015-06-19 14:05:09 in Korea.
const DATE: u32 = 15 | 6 << 4 | 19 << 8 | 14 << 13 | 5 << 18 | 9 << 24;
const WRITE_SYNC_ISSUE: u8 = 1 | 3 << 1 | 8;

fn request(bits: u8, block_type: u8, sector: u32, process: &str, file: &str) -> Vec<u8> {
    let mut fields = vec![1, bits, 179, 28, block_type];
    fields.extend(sector.to_le_bytes());
    fields.extend(16u32.to_le_bytes());
    fields.push(process.len() as u8);
    fields.extend(process.bytes());
    fields.push(file.len() as u8);
    fields.extend(file.bytes());
    if bits & 8 != 0 {
        fields.extend([3, 1, 0, 0, 0, 0, 0]);
    }
    let mut record = vec![1, fields.len() as u8];
    record.extend(DATE.to_le_bytes());
    record.extend(123_456_789u32.to_le_bytes());
    record.extend(fields);
    record
}

fn suspend(kind: u8) -> Vec<u8> {
    let mut record = vec![4, 0];
    record.extend(DATE.to_le_bytes());
    record.extend(0u32.to_le_bytes());
    record.push(kind);
    record
}

fn read(bytes: Vec<u8>) -> (Vec<Event>, Reader) {
    let mut reader = Reader::from_read("test", Cursor::new(bytes)).unwrap();
    assert_eq!(reader.format(), Format::AndroTrace);
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    (events, reader)
}

#[test]
fn a_request_with_its_file_its_process_and_its_time() {
    let (events, reader) = read(
        [
            request(WRITE_SYNC_ISSUE, 2, 23_901_648, "GCMReader", "rmq.db-journal"),
            suspend(9),
            request(0, 0, 7, "", ""),
            request(3 << 1 | 8, 1, 8, "jbd2/mmcblk0p28", ""),
        ]
        .concat(),
    );
    let event = events[0];
    assert_eq!((event.action, event.sector, event.bytes), (Action::Issue, 23_901_648, 8192));
    assert_eq!(
        (event.device, event.content),
        (DeviceId { major: 179, minor: 28 }, Some(Content::Data))
    );
    assert_eq!(event.flags, Flags { write: true, sync: true, ..Flags::default() });
    // `date -u -d '2015-06-19 14:05:09 +0900' +%s`
    assert_eq!(event.time_ns, 1_434_690_309_123_456_789);
    assert_eq!(reader.names().text(event.file.unwrap()), "rmq.db-journal");
    assert_eq!(reader.names().text(event.actor.name.unwrap()), "GCMReader");
    assert_eq!((events[1].action, events[1].content), (Action::Complete, Some(Content::Metadata)));
    assert!(events[1].flags.read && events[1].file.is_none() && events[1].actor.name.is_none());
    assert_eq!(events[2].content, Some(Content::Journal));
    assert_eq!((events.len(), reader.skipped().ignored, reader.skipped().count), (3, 1, 0));
}

#[test]
fn a_long_file_name_makes_the_size_field_run_over_and_is_read_all_the_same() {
    let name = "x".repeat(250);
    let (events, reader) = read(request(WRITE_SYNC_ISSUE, 2, 1, "p", &name));
    assert_eq!(reader.names().text(events[0].file.unwrap()), name);
}

#[test]
fn a_file_cut_within_a_record_gives_the_records_before() {
    let mut bytes =
        [request(WRITE_SYNC_ISSUE, 2, 1, "p", "a.db"), request(0, 2, 2, "p", "b.db")].concat();
    bytes.pop();
    let (events, reader) = read(bytes);
    assert_eq!((events.len(), reader.skipped().cut_off), (1, Some("the last record is not whole")));
}

#[test]
fn behind_a_damaged_record_nothing_is_made_up() {
    let good = request(WRITE_SYNC_ISSUE, 2, 1, "p", "a.db");
    let mut bad = good.clone();
    bad[1] ^= 1;
    let bytes = [good.clone(), good.clone(), good.clone(), good.clone(), bad, good].concat();
    let (events, reader) = read(bytes);
    assert_eq!((events.len(), reader.skipped().count), (4, 1));
    assert_eq!(reader.skipped().cut_off, Some("behind a damaged record nothing can be read"));
}

#[test]
fn a_text_or_zeros_are_no_androtrace() {
    for bytes in [vec![0; 4096], b"hello, world\n".repeat(100), vec![1; 4096], vec![4; 4096]] {
        assert!(!recognizes(&bytes, true));
    }
}
