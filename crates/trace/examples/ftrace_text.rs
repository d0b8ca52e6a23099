//! Writes an ftrace text of any length, as fast as a pipe takes it. It shows that such a text is
//! read in bounded memory.
//!
//! ```text
//! cargo run --release -p oneflush-trace --example ftrace_text -- GIB [DATABASES] \
//!     | oneflush identify -
//! ```
//!
//! Every database has a thread of its own and no name, as in ftrace. All write at the same time,
//! again and again until the text is so long. Then the number of lines is told on standard error.

#[path = "../tests/it/identify_common/mod.rs"]
mod identify_common;
#[path = "../tests/it/many_databases/mod.rs"]
mod many_databases;

use std::io::{self, BufWriter, Write};

use many_databases::{Shape, trace};
use oneflush_trace::model::{Action, Event, Flags, Names, SECTOR_BYTES};

/// Transactions of each database before the same places are written again.
const ROUNDS: u32 = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let gib: u64 = arguments.next().ok_or("how many GIB?")?.parse()?;
    let databases: u32 = arguments.next().map_or(Ok(100), |count| count.parse())?;
    let mut names = Names::default();
    let events = trace(&mut names, Shape::Nameless, databases, ROUNDS);
    let lines: Vec<(String, u64, String)> =
        events.iter().map(|event| line(event, &names)).collect();
    let length_ns = events.last().map_or(0, |event| event.time_ns) + 1_000_000;
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let (mut bytes, mut count, mut begin_ns) = (0, 0u64, 0);
    while bytes < gib << 30 {
        for (head, time_ns, event) in &lines {
            let time_ns = begin_ns + time_ns;
            let (seconds, microseconds) = (time_ns / 1_000_000_000, time_ns / 1_000 % 1_000_000);
            let time = format!("{seconds:5}.{microseconds:06}");
            for text in [head.as_str(), &time, event] {
                out.write_all(text.as_bytes())?;
                bytes += text.len() as u64;
            }
            count += 1;
        }
        begin_ns += length_ns;
    }
    out.flush()?;
    eprintln!("{count} lines, {bytes} bytes");
    Ok(())
}

/// The text before the time, the time, and the text behind it.
fn line(event: &Event, names: &Names) -> (String, u64, String) {
    let comm = event.actor.name.map_or("<...>", |name| names.text(name));
    let Flags { preflush, fua, meta, .. } = event.flags;
    let letter = |is: bool, letter| if is { letter } else { "" };
    let (flush, durable, metadata) = (letter(preflush, "F"), letter(fua, "F"), letter(meta, "M"));
    let what =
        format!("{},{} {flush}W{durable}S{metadata}", event.device.major, event.device.minor);
    let place = format!("{} + {}", event.sector, event.bytes / SECTOR_BYTES);
    let text = match event.action {
        Action::Queue => format!("block_bio_queue: {what} {place} [{comm}]"),
        Action::Issue => {
            format!("block_rq_issue: {what} {} () {place} be,0,4 [{comm}]", event.bytes)
        }
        Action::Complete => format!("block_rq_complete: {what} () {place} be,0,4 [0]"),
        other => unreachable!("the shape holds no {other:?}"),
    };
    (
        format!("{comm:>16}-{:<7} [000] ..... ", event.actor.thread),
        event.time_ns,
        format!(": {text}\n"),
    )
}
