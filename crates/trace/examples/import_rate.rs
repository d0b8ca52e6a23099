//! How fast a trace is read:
//! `cargo run --release -p oneflush-trace --example import_rate -- TRACE [ROUNDS]`.
//!
//! The trace is unpacked into memory once and parsed ROUNDS times as one long input. What is
//! measured is therefore the parsing, on one core. "Lines" counts all lines; "events" those that
//! the model has.

use std::io::{Cursor, Read};
use std::time::Instant;

use oneflush_trace::import::Reader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which TRACE? (a file, plain or .gz)")?;
    let rounds: usize = arguments.next().map_or(Ok(20), |rounds| rounds.parse())?;
    let packed = std::fs::read(&path)?;
    let mut bytes = Vec::new();
    if packed.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut bytes)?;
    } else {
        bytes = packed;
    }
    let lines = bytes.iter().filter(|b| **b == b'\n').count() * rounds;
    let input = Repeated { bytes: Cursor::new(bytes), rounds };
    let mut reader = Reader::from_read(path, input)?;
    let begin = Instant::now();
    let mut events = 0u64;
    while reader.next()?.is_some() {
        events += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let skipped = reader.skipped();
    println!(
        "{}: {lines} lines in {seconds:.2} s, {:.2} million a second; {events} events, {} ignored, \
            {} not understood",
        reader.format(),
        lines as f64 / seconds / 1e6,
        skipped.ignored,
        skipped.count
    );
    for line in &skipped.first {
        println!("  not understood, {}: {}", line.number, line.text);
    }
    Ok(())
}

/// The same bytes again and again.
struct Repeated {
    bytes: Cursor<Vec<u8>>,
    rounds: usize,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.bytes.read(buffer)?;
        if n > 0 || self.rounds <= 1 {
            return Ok(n);
        }
        self.rounds -= 1;
        self.bytes.set_position(0);
        self.bytes.read(buffer)
    }
}
