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
use super::form::Form;
use crate::kernel::{Field, device_pair};

/// Width of what has a fixed width in the kernel's own text.
const COMM_COLUMNS: usize = 16;

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
    let body = Body { fields, record, device };
    match form {
        Form::Queue | Form::Request | Form::Complete => body.request(out, form),
        Form::BioComplete => body.bio_complete(out),
        Form::Remap => body.remap(out),
        Form::Ext4 => body.inode(out, b"dev ", b" ino "),
        Form::F2fs => body.inode(out, b"dev = (", b"), ino = "),
        Form::Jbd2 => body.journal_commit(out),
        Form::Lock => body.lock(out),
        Form::Marker => body.marker(out),
        Form::Fields => {
            body.all_fields(out);
            Some(())
        }
    }
}

/// A record whose fields are printed. Each function answers `None` if a field is missing.
struct Body<'a> {
    fields: &'a Fields,
    record: &'a [u8],
    device: (u32, u32),
}

impl<'a> Body<'a> {
    fn number(&self, field: Option<Field>) -> Option<u64> {
        field?.number(self.record)
    }

    fn text(&self, field: Option<Field>) -> Option<&'a [u8]> {
        field?.text(self.record)
    }

    /// `7,0 WS`
    fn device_and_flags(&self, out: &mut Vec<u8>) -> Option<()> {
        pair(out, self.device);
        out.push(b' ');
        out.extend_from_slice(self.text(self.fields.flags)?);
        Some(())
    }

    /// ` 1024 + 8`
    fn sectors(&self, out: &mut Vec<u8>) -> Option<()> {
        out.push(b' ');
        decimal(out, self.number(self.fields.sector)?);
        out.extend_from_slice(b" + ");
        decimal(out, self.number(self.fields.sectors)?);
        Some(())
    }

    /// ` [0]`
    fn error(&self, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(b" [");
        signed(out, self.fields.error?.signed(self.record)?);
        out.push(b']');
        Some(())
    }

    fn request(&self, out: &mut Vec<u8>, form: Form) -> Option<()> {
        self.device_and_flags(out)?;
        if form == Form::Request {
            out.push(b' ');
            decimal(out, self.number(self.fields.bytes)?);
        }
        if form != Form::Queue {
            out.extend_from_slice(b" (");
            out.extend_from_slice(self.text(self.fields.cmd).unwrap_or_default());
            out.push(b')');
        }
        self.sectors(out)?;
        if form != Form::Queue {
            self.priority(out);
        }
        if form == Form::Complete {
            return self.error(out);
        }
        out.extend_from_slice(b" [");
        out.extend_from_slice(self.text(self.fields.comm)?);
        out.push(b']');
        Some(())
    }

    /// ` be,0,4`; nothing from a kernel that does not say it.
    fn priority(&self, out: &mut Vec<u8>) {
        let Some(priority) = self.number(self.fields.priority) else { return };
        let class =
            ["none", "rt", "be", "idle"].get((priority >> 13 & 7) as usize).unwrap_or(&"invalid");
        out.push(b' ');
        out.extend_from_slice(class.as_bytes());
        out.push(b',');
        decimal(out, priority >> 3 & 0x3FF);
        out.push(b',');
        decimal(out, priority & 7);
    }

    fn bio_complete(&self, out: &mut Vec<u8>) -> Option<()> {
        self.device_and_flags(out)?;
        self.sectors(out)?;
        self.error(out)
    }

    fn remap(&self, out: &mut Vec<u8>) -> Option<()> {
        self.device_and_flags(out)?;
        self.sectors(out)?;
        out.extend_from_slice(b" <- (");
        pair(out, device_pair(self.number(self.fields.from_device)?));
        out.extend_from_slice(b") ");
        decimal(out, self.number(self.fields.from_sector)?);
        if let Some(bios) = self.number(self.fields.bios) {
            out.push(b' ');
            decimal(out, bios);
        }
        Some(())
    }

    /// A file: its device behind `before`, its inode behind `between`, and the named fields.
    fn inode(&self, out: &mut Vec<u8>, before: &[u8], between: &[u8]) -> Option<()> {
        out.extend_from_slice(before);
        pair(out, self.device);
        out.extend_from_slice(between);
        decimal(out, self.number(self.fields.inode)?);
        for (before, field) in &self.fields.named {
            out.extend_from_slice(before);
            signed(out, value(*field, self.record)?);
        }
        Some(())
    }

    fn journal_commit(&self, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(b"dev ");
        pair(out, self.device);
        out.extend_from_slice(b" transaction ");
        decimal(out, self.number(self.fields.transaction)?);
        out.extend_from_slice(b" sync ");
        decimal(out, self.number(self.fields.is_sync_commit)?);
        Some(())
    }

    fn lock(&self, out: &mut Vec<u8>) -> Option<()> {
        let (major, minor) = self.device;
        out.extend_from_slice(b"dev=0x");
        hexadecimal(out, major.into());
        out.extend_from_slice(b":0x");
        hexadecimal(out, minor.into());
        out.extend_from_slice(b" ino=0x");
        hexadecimal(out, self.number(self.fields.inode)?);
        let kind = self.number(self.fields.lock)?;
        out.extend_from_slice(b" fl_type=");
        out.extend_from_slice([&b"F_RDLCK"[..], b"F_WRLCK", b"F_UNLCK"].get(kind as usize)?);
        for (before, field) in [
            (&b" fl_start="[..], self.fields.lock_start),
            (b" fl_end=", self.fields.lock_end),
            (b" ret=", self.fields.result),
        ] {
            out.extend_from_slice(before);
            signed(out, field?.signed(self.record)?);
        }
        Some(())
    }

    fn marker(&self, out: &mut Vec<u8>) -> Option<()> {
        let text = self.text(self.fields.marker)?.trim_ascii_end();
        out.extend(text.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }));
        Some(())
    }

    fn all_fields(&self, out: &mut Vec<u8>) {
        for (n, (before, field)) in self.fields.named.iter().enumerate() {
            // The first field stands behind the head's own blank.
            out.extend_from_slice(&before[usize::from(n == 0)..]);
            if let Some(number) = value(*field, self.record) {
                signed(out, number);
                continue;
            }
            let text = field.text(self.record).unwrap_or_default();
            out.extend(text.iter().map(|byte| if byte.is_ascii_graphic() { *byte } else { b'_' }));
        }
    }
}

/// `7,0`
pub(super) fn pair(out: &mut Vec<u8>, (major, minor): (u32, u32)) {
    decimal(out, major.into());
    out.push(b',');
    decimal(out, minor.into());
}

/// Numbers of 4 and 8 bytes are printed with their sign. File descriptors, results and offsets are
/// right then.
fn value(field: Field, record: &[u8]) -> Option<i64> {
    field.signed(record).or_else(|| field.number(record).map(u64::cast_signed))
}
