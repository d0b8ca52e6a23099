//! A sub-buffer of the kernel's trace ring buffer, as `trace_pipe_raw` gives it.
//!
//! Layout (Linux `include/linux/ring_buffer.h`, `events/header_page`, `events/header_event`), in
//! the machine's byte order:
//!
//! ```text
//! 0  time of the first event, u64 (ns)
//! 8  commit: bytes of data in the low 20 bits, flags above
//! 16 data: events, each
//!      u32: 5 bits type or length, 27 bits time since the event before
//!      29 padding │ 30 time extend (+u32: high bits of the time) │ 31 absolute time (+u32)
//!      0: u32 length follows │ 1–28: length in units of 4 bytes
//! ```

const HEADER_BYTES: usize = 16;
const COMMIT_MASK: u64 = 0xF_FFFF;
const DELTA_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Calls `each(time_ns, record)` for the events of a sub-buffer. A damaged tail is left out.
pub(super) fn records(sub_buffer: &[u8], mut each: impl FnMut(u64, &[u8])) {
    let Some(mut time_ns) = u64_at(sub_buffer, 0) else { return };
    let Some(commit) = u64_at(sub_buffer, 8) else { return };
    let end = sub_buffer.len().min(HEADER_BYTES + (commit & COMMIT_MASK) as usize);
    let data = &sub_buffer[..end];
    let mut at = HEADER_BYTES;
    while let Some(head) = u32_at(data, at) {
        // Bit fields begin at the low end on a little-endian machine and at the high end on a
        // big-endian one.
        let (kind, delta) = if cfg!(target_endian = "little") {
            (head & 31, head >> 5)
        } else {
            (head >> DELTA_BITS, head & ((1 << DELTA_BITS) - 1))
        };
        at += 4;
        let length = match kind {
            TIME_EXTEND | TIME_STAMP => {
                let Some(high) = u32_at(data, at) else { return };
                let value = u64::from(high) << DELTA_BITS | u64::from(delta);
                if kind == TIME_EXTEND {
                    time_ns = time_ns.wrapping_add(value);
                } else {
                    // Only 59 bits are stored. The upper bits are those of the page.
                    time_ns = time_ns & (u64::MAX << 59) | value;
                }
                at += 4;
                continue;
            }
            PADDING => {
                // A discarded event. An event without a length fills the rest of the page.
                match u32_at(data, at) {
                    Some(length) if delta > 0 => {
                        time_ns = time_ns.wrapping_add(delta.into());
                        at += length as usize;
                        continue;
                    }
                    _ => return,
                }
            }
            0 => match u32_at(data, at) {
                Some(length) if length >= 4 => {
                    at += 4;
                    length as usize - 4
                }
                _ => return,
            },
            units => units as usize * 4,
        };
        time_ns = time_ns.wrapping_add(delta.into());
        let Some(record) = data.get(at..at.saturating_add(length)) else { return };
        each(time_ns, record);
        at += length;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    fn page(time: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | (1 << 31)).to_ne_bytes());
        page.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        page.resize(4096, 0xAA);
        page
    }

    fn read(page: &[u8]) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        records(page, |time, record| found.push((time, record.len())));
        found
    }

    #[test]
    fn short_long_and_discarded_events_and_times_are_read() {
        let words = [
            2 | 5 << 5,
            1,
            1, // 8 bytes, 5 ns later
            10 << 5,
            8,
            7, // length word: 8 - 4 bytes, 10 ns later
            29 | 3 << 5,
            8,
            0, // discarded, 3 ns, 8 bytes with its length word
            30 | 1 << 5,
            1, // 2^27 + 1 ns pass
            1,
            9, // 4 bytes, at once
        ];
        let later = 1000 + 5 + 10 + 3 + (1 << 27) + 1;
        assert_eq!(read(&page(1000, &words)), [(1005, 8), (1015, 4), (later, 4)]);
    }

    #[test]
    fn absolute_time_replaces_the_running_one() {
        assert_eq!(read(&page(1000, &[31 | 77 << 5, 0, 1, 9])), [(77, 4)]);
    }

    #[test]
    fn damaged_pages_end_early_without_a_panic() {
        assert_eq!(read(&[]), []);
        assert_eq!(read(&page(0, &[28, 1])), []);
        assert_eq!(read(&page(0, &[0, 3, 0])), []);
        assert_eq!(read(&page(0, &[29, u32::MAX])), []);
    }
}
