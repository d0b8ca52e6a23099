//! Records as the kernel itself would print them: a reader of ftrace's text can read a recording.
//!
//! ```text
//! sqlite3-3397 (   3390) [001] .....   263.580825: block_bio_queue: 7,0 WS 1024 + 8 [sqlite3] …
//! ```
//!
//! Events that are read again ([`crate::import`]) are printed as the kernel prints them. Other
//! events are printed as their fields with values.

use super::digits::{aligned, decimal, hexadecimal, signed};
use super::fields::Fields;
use crate::kernel::{Field, device_pair};

/// Width of what has a fixed width in the kernel's own text.
const COMM_COLUMNS: usize = 16;

/// How an event's fields are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Queue,
    /// Inserted, or sent to the device.
    Request,
    Complete,
    /// The end at a device that hands its requests on.
    BioComplete,
    /// From one device to another.
    Remap,
    /// `dev 7,0 ino 12 …`
    Ext4,
    /// `dev = (7,0), ino = 12, …`
    F2fs,
    Jbd2,
    /// `dev=0x7:0x0 ino=0xc fl_type=F_WRLCK …`
    Lock,
    Marker,
    /// `field=value …`
    Fields,
}

/// The head of a line about a thread, up to the processor. An empty `comm`: unknown.
pub(super) fn thread(thread: u32, comm: &[u8], process: Option<u32>) -> Vec<u8> {
    let comm: &[u8] = if comm.is_empty() { b"<...>" } else { comm };
    let mut out = vec![b' '; COMM_COLUMNS.saturating_sub(comm.len())];
    // A name may hold anything; a line must stay one.
    out.extend(comm.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }));
    let process = process.map_or_else(|| "-------".to_owned(), |process| format!("{process:>7}"));
    out.extend(format!("-{thread:<7} ({process}) [").into_bytes());
    out
}

/// `thread`: the text that [`thread`] made.
pub(super) fn head(out: &mut Vec<u8>, thread: &[u8], cpu: u32, time_ns: u64, event: &str) {
    out.extend_from_slice(thread);
    aligned(out, cpu.into(), 3, b'0');
    out.extend_from_slice(b"] ..... ");
    let micros = time_ns / 1000;
    aligned(out, micros / 1_000_000, 5, b' ');
    out.push(b'.');
    aligned(out, micros % 1_000_000, 6, b'0');
    out.extend_from_slice(b": ");
    out.extend_from_slice(event.as_bytes());
    out.extend_from_slice(b": ");
}

/// `None` if the record is not of this form.
pub(super) fn body(
    out: &mut Vec<u8>,
    form: Form,
    fields: &Fields,
    record: &[u8],
    device: (u32, u32),
) -> Option<()> {
    let number = |field: Option<Field>| field?.number(record);
    let text = |field: Option<Field>| field?.text(record);
    match form {
        Form::Queue | Form::Request | Form::Complete => {
            pair(out, device);
            out.push(b' ');
            out.extend_from_slice(text(fields.flags)?);
            if form == Form::Request {
                out.push(b' ');
                decimal(out, number(fields.bytes)?);
            }
            if form != Form::Queue {
                out.extend_from_slice(b" (");
                out.extend_from_slice(text(fields.cmd).unwrap_or_default());
                out.push(b')');
            }
            out.push(b' ');
            decimal(out, number(fields.sector)?);
            out.extend_from_slice(b" + ");
            decimal(out, number(fields.sectors)?);
            if form != Form::Queue
                && let Some(priority) = number(fields.priority)
            {
                let class = ["none", "rt", "be", "idle"]
                    .get((priority >> 13 & 7) as usize)
                    .unwrap_or(&"invalid");
                out.push(b' ');
                out.extend_from_slice(class.as_bytes());
                out.push(b',');
                decimal(out, priority >> 3 & 0x3FF);
                out.push(b',');
                decimal(out, priority & 7);
            }
            out.extend_from_slice(b" [");
            if form == Form::Complete {
                signed(out, fields.error?.signed(record)?);
            } else {
                out.extend_from_slice(text(fields.comm)?);
            }
            out.push(b']');
        }
        Form::BioComplete | Form::Remap => {
            pair(out, device);
            out.push(b' ');
            out.extend_from_slice(text(fields.flags)?);
            out.push(b' ');
            decimal(out, number(fields.sector)?);
            out.extend_from_slice(b" + ");
            decimal(out, number(fields.sectors)?);
            if form == Form::BioComplete {
                out.extend_from_slice(b" [");
                signed(out, fields.error?.signed(record)?);
                out.push(b']');
            } else {
                out.extend_from_slice(b" <- (");
                pair(out, device_pair(number(fields.from_device)?));
                out.extend_from_slice(b") ");
                decimal(out, number(fields.from_sector)?);
                if let Some(bios) = number(fields.bios) {
                    out.push(b' ');
                    decimal(out, bios);
                }
            }
        }
        Form::Ext4 => {
            out.extend_from_slice(b"dev ");
            pair(out, device);
            out.extend_from_slice(b" ino ");
            decimal(out, number(fields.inode)?);
            named(out, fields, record)?;
        }
        Form::F2fs => {
            out.extend_from_slice(b"dev = (");
            pair(out, device);
            out.extend_from_slice(b"), ino = ");
            decimal(out, number(fields.inode)?);
            named(out, fields, record)?;
        }
        Form::Jbd2 => {
            out.extend_from_slice(b"dev ");
            pair(out, device);
            out.extend_from_slice(b" transaction ");
            decimal(out, number(fields.transaction)?);
            out.extend_from_slice(b" sync ");
            decimal(out, number(fields.is_sync_commit)?);
        }
        Form::Lock => {
            let (major, minor) = device;
            out.extend_from_slice(b"dev=0x");
            hexadecimal(out, major.into());
            out.extend_from_slice(b":0x");
            hexadecimal(out, minor.into());
            out.extend_from_slice(b" ino=0x");
            hexadecimal(out, number(fields.inode)?);
            let kind = number(fields.lock)?;
            out.extend_from_slice(b" fl_type=");
            out.extend_from_slice([&b"F_RDLCK"[..], b"F_WRLCK", b"F_UNLCK"].get(kind as usize)?);
            for (before, field) in [
                (&b" fl_start="[..], fields.lock_start),
                (b" fl_end=", fields.lock_end),
                (b" ret=", fields.result),
            ] {
                out.extend_from_slice(before);
                signed(out, field?.signed(record)?);
            }
        }
        Form::Marker => {
            let text = text(fields.marker)?.trim_ascii_end();
            out.extend(text.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }));
        }
        Form::Fields => {
            for (n, (before, field)) in fields.named.iter().enumerate() {
                // The first field stands behind the head's own blank.
                out.extend_from_slice(&before[usize::from(n == 0)..]);
                match value(*field, record) {
                    Some(number) => signed(out, number),
                    None => {
                        let text = field.text(record).unwrap_or_default();
                        out.extend(
                            text.iter()
                                .map(|byte| if byte.is_ascii_graphic() { *byte } else { b'_' }),
                        );
                    }
                }
            }
        }
    }
    Some(())
}

/// `7,0`
pub(super) fn pair(out: &mut Vec<u8>, (major, minor): (u32, u32)) {
    decimal(out, major.into());
    out.push(b',');
    decimal(out, minor.into());
}

/// The fields that are printed with their names.
fn named(out: &mut Vec<u8>, fields: &Fields, record: &[u8]) -> Option<()> {
    for (before, field) in &fields.named {
        out.extend_from_slice(before);
        signed(out, value(*field, record)?);
    }
    Some(())
}

/// Numbers of 4 and 8 bytes are printed with their sign. File descriptors, results and offsets are
/// right then.
fn value(field: Field, record: &[u8]) -> Option<i64> {
    field.signed(record).or_else(|| field.number(record).map(u64::cast_signed))
}
