//! Records as the kernel itself would print them, so that whatever reads ftrace's text reads a recording.
//!
//! ```text
//!          sqlite3-3397    (   3390) [001] .....   263.580825: block_bio_queue: 7,0 WS 1024 + 8 [sqlite3] oneflush=data,12
//! ```
//! The events that are read again ([`crate::import`]) are printed as the kernel prints them, the others as their fields with values.

use std::io::Write;

use super::threads::Thread;
use crate::kernel::Format;

/// Width of what has a fixed width in the kernel's own text.
const COMM_COLUMNS: usize = 16;

/// How an event's fields are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Queue,
    /// Inserted, or sent to the device.
    Request,
    Complete,
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

pub(super) fn head(out: &mut Vec<u8>, thread: u32, known: &Thread, cpu: u32, time_ns: u64, event: &str) {
    let comm: &[u8] = if known.comm.is_empty() { b"<...>" } else { &known.comm };
    out.resize(out.len() + COMM_COLUMNS.saturating_sub(comm.len()), b' ');
    // A name may hold anything; a line must stay one.
    out.extend(comm.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }));
    match known.process {
        Some(process) => put(out, format_args!("-{thread:<7} ({process:>7})")),
        None => put(out, format_args!("-{thread:<7} (-------)")),
    }
    let micros = time_ns / 1000;
    put(out, format_args!(" [{cpu:03}] ..... {:>5}.{:06}: {event}: ", micros / 1_000_000, micros % 1_000_000));
}

/// None where the record is not of this form.
pub(super) fn body(out: &mut Vec<u8>, form: Form, format: &Format, record: &[u8], device: (u32, u32)) -> Option<()> {
    let number = |field| format.number(record, field);
    let (major, minor) = device;
    match form {
        Form::Queue | Form::Request | Form::Complete => {
            put(out, format_args!("{major},{minor} "));
            out.extend(format.text(record, "rwbs")?);
            if form == Form::Request {
                put(out, format_args!(" {}", number("bytes")?));
            }
            if form != Form::Queue {
                out.extend(b" (");
                out.extend(format.text(record, "cmd").unwrap_or_default());
                out.push(b')');
            }
            put(out, format_args!(" {} + {}", number("sector")?, number("nr_sector")?));
            if form != Form::Queue
                && let Some(priority) = number("ioprio")
            {
                let class = ["none", "rt", "be", "idle"].get((priority >> 13 & 7) as usize).unwrap_or(&"invalid");
                put(out, format_args!(" {class},{},{}", priority >> 3 & 0x3FF, priority & 7));
            }
            if form == Form::Complete {
                put(out, format_args!(" [{}]", format.signed(record, "error")?));
            } else {
                out.extend(b" [");
                out.extend(format.text(record, "comm")?);
                out.push(b']');
            }
        }
        Form::Ext4 => {
            put(out, format_args!("dev {major},{minor} ino {}", number("ino")?));
            for field in format.own_fields().filter(|field| !matches!(*field, "dev" | "ino")) {
                put(out, format_args!(" {field} {}", value(format, record, field)?));
            }
        }
        Form::F2fs => {
            put(out, format_args!("dev = ({major},{minor}), ino = {}", number("ino")?));
            for field in format.own_fields().filter(|field| !matches!(*field, "dev" | "ino")) {
                let prefix = if matches!(field, "mode" | "size" | "nlink" | "blocks" | "advise") { "i_" } else { "" };
                put(out, format_args!(", {prefix}{field} = {}", value(format, record, field)?));
            }
        }
        Form::Jbd2 => {
            let (transaction, sync) = (number("transaction")?, number("sync_commit")?);
            put(out, format_args!("dev {major},{minor} transaction {transaction} sync {sync}"));
        }
        Form::Lock => {
            put(out, format_args!("dev=0x{major:x}:0x{minor:x} ino=0x{:x}", number("i_ino")?));
            let kind = number("type").or_else(|| number("fl_type"))?;
            let kind = ["F_RDLCK", "F_WRLCK", "F_UNLCK"].get(kind as usize)?;
            let signed = |field| format.signed(record, field);
            let (start, end, result) = (signed("fl_start")?, signed("fl_end")?, signed("ret")?);
            put(out, format_args!(" fl_type={kind} fl_start={start} fl_end={end} ret={result}"));
        }
        Form::Marker => {
            let text = format.text(record, "buf")?.trim_ascii_end();
            out.extend(text.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }));
        }
        Form::Fields => {
            for (n, field) in format.own_fields().filter(|field| *field != "__syscall_nr").enumerate() {
                out.extend(if n == 0 { &b""[..] } else { b" " });
                put(out, format_args!("{field}="));
                match value(format, record, field) {
                    Some(number) => put(out, format_args!("{number}")),
                    None => {
                        let text = format.text(record, field).unwrap_or_default();
                        out.extend(text.iter().map(|byte| if byte.is_ascii_graphic() { *byte } else { b'_' }));
                    }
                }
            }
        }
    }
    Some(())
}

/// Numbers of 4 and 8 bytes are printed with their sign: so are file descriptors, results and offsets right.
fn value(format: &Format, record: &[u8], field: &str) -> Option<i64> {
    format.signed(record, field).or_else(|| format.number(record, field).map(u64::cast_signed))
}

fn put(out: &mut Vec<u8>, arguments: std::fmt::Arguments) {
    // Writing into memory does not fail.
    let _ = out.write_fmt(arguments);
}
