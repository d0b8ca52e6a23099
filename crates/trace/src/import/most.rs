//! MOST's form of blkparse's text, by tabs: `blkparse -f '%5T.%9t\t%a\t%d\t%8S\t%4n\t%4p\t%20C'`.
//!
//! MOST, the Mobile Storage Analyzer, adds two columns. One says what the block holds: M metadata,
//! J the file system's journal, D data. The other is the file.
//!
//! ```text
//!     0.095398178  Q  WS  23901648     8  103336             GCMReader  D  /data/…/rmq.db-journal
//!     0.099409948  C  WS         0     0   135             flush-179:0  M  file-NONE
//! ```
//!
//! MOST writes a digit of its own before a process id that it knows more of. It then fills the id
//! up to 5 digits: 103336 is 3336. Ids of MOST's time end at 32,768, so an id of more than 5 digits
//! has such a digit. This form has no device and no processor.

use super::blkparse;
use super::line::{Interner, Line};
use super::rwbs;
use super::text;
use crate::model::{Action, Actor, Content, DeviceId, Event, SECTOR_BYTES};

/// Where MOST's digit stands in a process id.
const PREFIX: u32 = 100_000;

struct Row<'a> {
    time_ns: u64,
    action: Option<Action>,
    rwbs: &'a [u8],
    sector: u64,
    count: u64,
    thread: u32,
    comm: &'a [u8],
    content: Option<Content>,
    file: Option<&'a [u8]>,
}

pub(super) fn line(line: &[u8], names: &mut Interner) -> Line {
    match row(line) {
        Some(Row { action: None, .. }) => Line::Ignored,
        Some(row) => event(&row, names).map_or(Line::NotUnderstood, Line::Event),
        None if line.trim_ascii().is_empty() => Line::Nothing,
        None => Line::NotUnderstood,
    }
}

pub(super) fn recognizes(line: &[u8]) -> bool {
    row(line).is_some()
}

fn row(line: &[u8]) -> Option<Row<'_>> {
    let mut columns = line.split(|b| *b == b'\t');
    let time_ns = text::whole_seconds(columns.next()?.trim_ascii())?;
    // Without devices, remaps say nothing.
    let action = blkparse::action(columns.next()?.trim_ascii())?
        .filter(|action| !matches!(action, Action::Remap { .. }));
    let rwbs = columns.next()?.trim_ascii();
    let sector = text::whole_number(columns.next()?.trim_ascii())?;
    let count = text::whole_number(columns.next()?.trim_ascii())?;
    let thread = u32::try_from(text::whole_number(columns.next()?.trim_ascii())?).ok()?;
    let comm = columns.next()?.trim_ascii();
    let content = match columns.next() {
        None => None,
        Some(b"D") => Some(Content::Data),
        Some(b"J") => Some(Content::Journal),
        Some(b"M") => Some(Content::Metadata),
        Some(_) => return None,
    };
    let file = columns.next().filter(|file| !file.is_empty() && *file != b"file-NONE");
    columns.next().is_none().then_some(())?;
    Some(Row { time_ns, action, rwbs, sector, count, thread: thread % PREFIX, comm, content, file })
}

fn event(row: &Row, names: &mut Interner) -> Option<Event> {
    let bytes = row.count.checked_mul(SECTOR_BYTES)?;
    Some(Event {
        time_ns: row.time_ns,
        action: row.action?,
        device: DeviceId::default(),
        sector: row.sector,
        bytes,
        flags: rwbs::flags(row.rwbs)?,
        actor: Actor { thread: row.thread, process: 0, name: names.id(row.comm) },
        content: row.content,
        file: row.file.and_then(|file| names.id(file)),
    })
}

#[cfg(test)]
mod tests;
