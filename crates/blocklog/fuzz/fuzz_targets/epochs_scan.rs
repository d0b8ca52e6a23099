//! The log of a directory with any content is opened, scanned and, where that succeeded, gone on
//! with.
//!
//! The input is a program. Each step appends, begins an epoch or releases one with the log itself,
//! or patches bytes where records are. Half of the patches make the header's checksum right again,
//! since no fuzzer guesses one.

#![no_main]

#[path = "../memory.rs"]
mod memory;
#[path = "../places.rs"]
mod places;

use libfuzzer_sys::fuzz_target;
use memory::{BLOCK, Memory};
use oneflush_blocklog::{CHUNK_BYTES, Epoch, Error, Head, KIND_RELEASE, Log, Lsn, Uuid};
use places::{crc32c, offset};

const UUID: Uuid = Uuid([7; 16]);
const HEADER_CRC: usize = 48;

/// Changes bytes of a record, or of the first block.
fn patch(memory: &Memory, step: &[u8], is_sealed: bool) {
    let [a, b, c, rest @ ..] = step else { return };
    let start = match a {
        0xfe.. => 0,
        _ => offset(u64::from(a & 1), u64::from(a >> 1 & 31) * BLOCK as u64),
    };
    let mut bytes = memory.0.lock().unwrap();
    let block = &mut bytes[start..start + BLOCK];
    let at = usize::from(*b) % 64;
    block[at] = *c;
    block[at + 1..at + 1 + rest.len()].copy_from_slice(rest);
    if is_sealed {
        let crc = crc32c([&UUID.0, &block[..HEADER_CRC]]);
        block[HEADER_CRC..HEADER_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

type Shown = (Vec<(Epoch, u8, Lsn, usize)>, Option<Head>);

fn scan(log: &Log<&Memory>) -> Result<Shown, Error> {
    let mut shown = Vec::new();
    let head = log.scan_epochs(|epoch, kind, lsn, payload| {
        assert!(payload.len() as u64 <= CHUNK_BYTES && kind != KIND_RELEASE);
        shown.push((epoch, kind, lsn, payload.len()));
        Ok::<(), Error>(())
    })?;
    Ok((shown, head))
}

/// The bytes of a lane that a torn record at this place takes.
fn torn_end(memory: &Memory, log: &Log<&Memory>, lane: u64, position: u64) -> u64 {
    if position >= CHUNK_BYTES {
        return 0;
    }
    let bytes = memory.0.lock().unwrap();
    let header = &bytes[offset(lane, position)..][..BLOCK];
    match header {
        [b'1', b'F', b'L', b'R', ..] => {
            let payload_bytes = u32::from_le_bytes(header[32..36].try_into().unwrap());
            position + log.record_bytes(payload_bytes as usize)
        }
        _ => 0,
    }
}

fuzz_target!(|data: &[u8]| {
    let memory = Memory::default();
    let (log, mut head) = Log::create_for_directory(&memory, UUID, CHUNK_BYTES).unwrap();
    for step in data.chunks(8) {
        let [what, a, b, c, ..] = step else { break };
        let payload = vec![*b; usize::from(*c) * 9];
        let kind = a % KIND_RELEASE;
        match what % 5 {
            0 => head = log.append(&head, kind, &payload).unwrap_or(head),
            1 => head = log.begin_epoch(&head, kind, &payload).unwrap_or(head),
            2 => {
                let before = Epoch(head.epoch.0.saturating_sub(1));
                head = log.release(&head, before).unwrap_or(head);
            }
            seal => patch(&memory, &step[1..], seal == 4),
        }
    }
    let Ok(log) = Log::open_for_directory(&memory) else { return };
    let Ok((shown, found)) = scan(&log) else { return };
    let Some(found) = found else { return assert!(shown.is_empty()) };
    // One epoch, or two that follow each other; the last record may be a release.
    let (first, last) = (shown[0], shown[shown.len() - 1]);
    assert!(
        last.0 == found.epoch && last.2 <= found.lsn && first.0.0.saturating_add(1) >= last.0.0
    );
    assert!(shown.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].2 < pair[1].2));
    assert_eq!(scan(&log).unwrap(), (shown.clone(), Some(found)), "a scan changes nothing");

    // What a scan accepted goes on. Only bytes from the payload of a torn record may come to light
    // as damage: nobody but a fuzzer puts a record there.
    let torn_end = torn_end(&memory, &log, found.epoch.0 % 2, found.position);
    let Ok(next) = log.append(&found, 1, b"further") else { return };
    let mut expected = shown;
    expected.push((next.epoch, 1, next.lsn, 7));
    match scan(&log) {
        Err(Error::Damaged { position, .. }) => assert!(position < torn_end),
        scanned => assert_eq!(scanned.unwrap(), (expected, Some(next))),
    }
});
