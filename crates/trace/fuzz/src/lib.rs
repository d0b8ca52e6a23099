//! What all targets do: read bytes to their end, as a trace of a given format or of the one that is
//! found.
//!
//! The fuzzer finds a panic. Asserted here: a reader ends, and gives no more events than its input
//! can hold.

use std::io::Cursor;

use oneflush_trace::import::{Format, Reader};

pub fn read(bytes: &[u8], format: Option<Format>) {
    let input = Cursor::new(bytes.to_vec());
    let reader = match format {
        Some(format) => Reader::with_format("any", input, format),
        None => Reader::from_read("any", input),
    };
    let Ok(mut reader) = reader else { return };
    let packed = bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5]);
    let mut events = 0;
    while let Ok(Some(event)) = reader.next() {
        events += 1;
        assert!(packed || events <= bytes.len(), "more events than bytes");
        for id in [event.actor.name, event.file].into_iter().flatten() {
            reader.names().text(id);
        }
    }
    let skipped = reader.skipped();
    assert_eq!(skipped.first.len() as u64, skipped.count.min(10));
}
