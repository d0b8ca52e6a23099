//! A file of any content is opened, scanned and, where that succeeded, appended to.
//!
//! The input is a program. Each step writes a record with the log itself, or patches bytes where
//! records are. Half of the patches make the header's checksum right again, since no fuzzer guesses
//! one.

#![no_main]

#[path = "../memory.rs"]
mod memory;
#[path = "../places.rs"]
mod places;

use libfuzzer_sys::fuzz_target;
use memory::{BLOCK, Memory};
use oneflush_blocklog::{CHUNK_BYTES, Error, Log, Uuid};
use places::{crc32c, offset};

const UUID: Uuid = Uuid([7; 16]);
const HEADER_CRC: usize = 48;

fuzz_target!(|data: &[u8]| {
    let memory = Memory::default();
    let (log, mut head) = Log::create(&memory, UUID, 4096, CHUNK_BYTES).unwrap();
    for step in data.chunks(8) {
        let [what, a, b, c, rest @ ..] = step else { break };
        match what % 4 {
            0 => head = log.append(&head, *a, &vec![*b; usize::from(*c) * 9]).unwrap_or(head),
            1 => head = log.begin_epoch(&head, *a, &vec![*b; usize::from(*c) * 9]).unwrap_or(head),
            seal => {
                let lane = usize::from(a & 1);
                let start = offset(lane as u64, u64::from(a >> 1 & 31) * BLOCK as u64);
                let start = if *a >= 0xfe { 0 } else { start };
                let mut bytes = memory.0.lock().unwrap();
                let block = &mut bytes[start..start + BLOCK];
                let at = usize::from(*b) % 64;
                block[at] = *c;
                block[at + 1..at + 1 + rest.len()].copy_from_slice(rest);
                if seal == 3 {
                    let crc = crc32c([&UUID.0, &block[..HEADER_CRC]]);
                    block[HEADER_CRC..HEADER_CRC + 4].copy_from_slice(&crc.to_le_bytes());
                }
            }
        }
    }
    let Ok(log) = Log::open(&memory) else { return };
    let mut last = None;
    let mut visited = Vec::new();
    let scanned = log.scan(|_, lsn, payload| {
        assert!(payload.len() as u64 <= CHUNK_BYTES && last.is_none_or(|last| last < lsn));
        last = Some(lsn);
        visited.push(payload.len());
        Ok::<(), Error>(())
    });
    let Ok(found) = scanned else { return };
    assert_eq!(found.map(|head| head.lsn), last);
    let Some(found) = found else { return };
    let mut again = visited.iter();
    log.replay(&found, |_, _, payload| {
        assert_eq!(again.next(), Some(&payload.len()));
        Ok::<(), Error>(())
    })
    .unwrap();
    // A log that a scan accepted goes on. Only bytes from the payload of a torn record may come to
    // light as damage: nobody but a fuzzer puts a record there.
    let torn_end = {
        let bytes = memory.0.lock().unwrap();
        let start = offset(found.epoch.0 % 2, found.position);
        let header = if found.position < CHUNK_BYTES { &bytes[start..start + BLOCK] } else { &[] };
        match header {
            [b'1', b'F', b'L', b'R', ..] => {
                let payload_bytes = u32::from_le_bytes(header[32..36].try_into().unwrap());
                found.position + log.record_bytes(payload_bytes as usize)
            }
            _ => 0,
        }
    };
    if let Ok(next) = log.append(&found, 1, b"further") {
        match log.scan(|_, _, _| Ok::<(), Error>(())) {
            Err(Error::Damaged { position, .. }) => assert!(position < torn_end),
            scanned => assert_eq!(scanned.unwrap(), Some(next)),
        }
    }
});
