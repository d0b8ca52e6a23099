//! Records are put together here by the kernel's structure. The same bytes, made of a real trace,
//! were given to blkparse 1.2.0. Its text is the test data of [`super::super::blkparse`]. Both
//! readings were equal in all 343 requests.

use std::io::Cursor;

use super::*;
use crate::import::{Format, Reader, open};

struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
}

const ISSUE: u32 = 7;
const WS: u32 = WRITE | SYNC | 1 << 6;

impl Record {
    fn put(&self, out: &mut Vec<u8>, big: bool, pdu: &[u8]) {
        let u32s = |value: u32, out: &mut Vec<u8>| {
            out.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
        };
        let u64s = |value: u64, out: &mut Vec<u8>| {
            out.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() })
        };
        u32s(MAGIC, out);
        u32s(1, out);
        u64s(self.time, out);
        u64s(self.sector, out);
        u32s(self.bytes, out);
        u32s(self.action, out);
        u32s(self.pid, out);
        u32s(259 << 20 | 5, out);
        u32s(0, out);
        let length = pdu.len() as u16;
        out.extend([0, 0]);
        out.extend(if big { length.to_be_bytes() } else { length.to_le_bytes() });
        out.extend(pdu);
    }
}

fn issue(time: u64, sector: u64, pid: u32) -> Record {
    Record { time, sector, bytes: 4096, action: WS << 16 | ISSUE, pid }
}

fn name(pid: u32) -> Record {
    Record { time: 0, sector: 0, bytes: 0, action: NOTIFY << 16, pid }
}

fn read(bytes: Vec<u8>) -> (Vec<Event>, Reader) {
    let mut reader = Reader::from_read("test", Cursor::new(bytes)).unwrap();
    assert_eq!(reader.format(), Format::Blktrace);
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    (events, reader)
}

#[test]
fn both_byte_orders_say_the_same() {
    for big in [false, true] {
        let mut bytes = Vec::new();
        name(42).put(&mut bytes, big, b"kjournald\0\0\0\0\0\0\0");
        issue(1_000_000_007, 1 << 33, 42).put(&mut bytes, big, b"");
        let flush =
            Record { time: 2_000_000_000, sector: 7, bytes: 0, action: FLUSH << 16 | 8, pid: 9 };
        flush.put(&mut bytes, big, b"");
        let fua = Record {
            time: 3,
            sector: 7,
            bytes: 512,
            action: (WRITE | FUA | META | FLUSH) << 16 | 1,
            pid: 9,
        };
        fua.put(&mut bytes, big, b"");
        let discard = Record {
            time: 3,
            sector: 7,
            bytes: 512,
            action: (WRITE | DISCARD) << 16 | 12 | CGROUP,
            pid: 9,
        };
        discard.put(&mut bytes, big, &[0; 8]);
        let (events, reader) = read(bytes);
        let first = events[0];
        assert_eq!(
            (first.action, first.time_ns, first.sector),
            (Action::Issue, 1_000_000_007, 1 << 33)
        );
        assert_eq!((first.bytes, first.device), (4096, DeviceId { major: 259, minor: 5 }));
        assert_eq!(first.flags, Flags { write: true, sync: true, ..Flags::default() });
        assert_eq!(reader.names().text(first.actor.name.unwrap()), "kjournald");
        assert_eq!(
            (events[1].action, events[1].sector, events[1].actor.name),
            (Action::Complete, 0, None)
        );
        assert_eq!(events[1].flags, Flags { preflush: true, ..Flags::default() });
        assert!(
            events[2].flags.fua
                && events[2].flags.meta
                && events[2].flags.preflush
                && events[2].flags.write
        );
        assert_eq!(
            (events[3].action, events[3].flags),
            (Action::Insert, Flags { discard: true, ..Flags::default() })
        );
        assert_eq!((events.len(), reader.skipped().count, reader.skipped().cut_off), (4, 0, None));
    }
}

#[test]
fn other_actions_are_ignored_and_an_unknown_one_is_not_understood() {
    let mut bytes = Vec::new();
    Record { action: WS << 16 | 3, ..issue(1, 1, 1) }.put(&mut bytes, false, b"");
    Record { action: WS << 16 | 15, ..issue(1, 1, 1) }.put(&mut bytes, false, &[0; 12]);
    Record { action: WS << 16 | 99, ..issue(1, 1, 1) }.put(&mut bytes, false, b"");
    let (events, reader) = read(bytes);
    assert!(events.is_empty());
    assert_eq!((reader.skipped().ignored, reader.skipped().count), (2, 1));
    assert_eq!(
        (reader.skipped().first[0].number, &reader.skipped().first[0].text[..11]),
        (3, "07 74 61 65")
    );
}

#[test]
fn bytes_between_records_are_passed_over_and_counted_once() {
    let mut bytes = Vec::new();
    issue(1, 1, 1).put(&mut bytes, true, b"");
    bytes.extend(vec![0x65; 100_000]);
    issue(2, 2, 1).put(&mut bytes, true, b"");
    let (events, reader) = read(bytes);
    assert_eq!(events.iter().map(|event| event.sector).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(reader.skipped().count, 1);
}

#[test]
fn a_file_cut_within_a_record_gives_the_records_before() {
    let mut bytes = Vec::new();
    issue(1, 1, 1).put(&mut bytes, false, b"");
    let whole = bytes.len();
    issue(2, 2, 1).put(&mut bytes, false, b"0123456789");
    for cut in [whole + 1, whole + RECORD_BYTES, bytes.len() - 1] {
        let (events, reader) = read(bytes[..cut].to_vec());
        assert_eq!(
            (events.len(), reader.skipped().cut_off),
            (1, Some("the last record is not whole")),
            "{cut}"
        );
    }
}

#[test]
fn the_files_of_all_processors_are_merged_by_time_and_share_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    name(7).put(&mut first, false, b"writer\0");
    for time in [10, 30, 50] {
        issue(time, time, 7).put(&mut first, false, b"");
    }
    for time in [20, 40] {
        issue(time, time, 7).put(&mut second, false, b"");
    }
    std::fs::write(folder.path().join("sda.blktrace.0"), []).unwrap();
    std::fs::write(folder.path().join("sda.blktrace.1"), first).unwrap();
    std::fs::write(folder.path().join("sda.blktrace.10"), second).unwrap();
    std::fs::write(folder.path().join("sdb.blktrace.2"), b"another device's").unwrap();
    for opened in ["sda.blktrace.0", "sda.blktrace.10"] {
        let mut reader = open(&folder.path().join(opened)).unwrap();
        let mut sectors = Vec::new();
        while let Some(event) = reader.next().unwrap() {
            sectors.push(event.sector);
            assert_eq!(reader.names().text(event.actor.name.unwrap()), "writer");
        }
        assert_eq!(sectors, [10, 20, 30, 40, 50], "{opened}");
    }
}
