//! What a recording of `oneflush trace` says of itself, in comments that other readers pass over.
//!
//! ```text
//! # oneflush: format 1
//! # oneflush: clock 2026-11-28T22:44:10.123456789Z at 12345.678901234
//!                                        UTC, and what the events' clock showed then
//! # oneflush: kernel Linux 6.18.0 x86_64
//! # oneflush: recorder oneflush trace 0.1.0
//! # oneflush: file_system ext4           one line for each device that was asked for
//! # oneflush: label NAME=VALUE           one line for each label
//! # oneflush: part 3                     of a recording of several files
//! # oneflush: own_bytes 4096             at the end: data that the recorder itself wrote
//! ```
//!
//! Odd bytes are `\ooo`. Older recordings have none of these lines, and unknown ones are passed
//! over. Where recordings stand one behind the other, the first one's facts stay, and the bytes are
//! added up.

use std::collections::BTreeMap;

use super::text;
use crate::escape::unescape;
use crate::utc;

/// The newest format that is read here.
pub const FORMAT: u32 = 1;

const MARK: &[u8] = b"# oneflush: ";
/// So much is kept, whatever a file says.
const LABELS_MAX: usize = 64;
const FILE_SYSTEMS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 256;

/// `None` and empty: the recording does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub format: Option<u32>,
    /// The program that recorded, with its version.
    pub recorder: Option<String>,
    /// Name, release and machine as uname says them.
    pub kernel: Option<String>,
    pub clock: Option<Clock>,
    /// Of the devices that were asked for, as mount(2) names them; each once.
    pub file_systems: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// The file's number in a recording of several files.
    pub part: Option<u64>,
    /// Bytes of data that the recorder wrote to the recorded devices, those of this very file among
    /// them.
    pub own_bytes: Option<u64>,
}

/// What the events' clock showed at a moment of the world's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds since the begin of 1970, UTC.
    pub unix_ns: u64,
    /// The same moment as events tell it.
    pub at_ns: u64,
}

impl Facts {
    /// Keeps what the line says. An error: the recording is of this newer format.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), u64> {
        let Some((key, value)) = fact(line) else { return Ok(()) };
        let said = || {
            (value.len() <= TEXT_BYTES_MAX)
                .then(|| String::from_utf8_lossy(&unescape(value)).into_owned())
        };
        match key {
            b"format" => {
                if let Some(format) = text::whole_number(value) {
                    let known = u32::try_from(format).ok().filter(|known| *known <= FORMAT);
                    self.format = self.format.or(Some(known.ok_or(format)?));
                }
            }
            b"clock" => self.clock = self.clock.or_else(|| clock(value)),
            b"kernel" if self.kernel.is_none() => self.kernel = said(),
            b"recorder" if self.recorder.is_none() => self.recorder = said(),
            b"file_system" => self.file_system(said()),
            b"label" => self.label(value),
            b"part" => self.part = self.part.or_else(|| text::whole_number(value)),
            b"own_bytes" => {
                if let Some(bytes) = text::whole_number(value) {
                    self.own_bytes = Some(self.own_bytes.unwrap_or(0).saturating_add(bytes));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn file_system(&mut self, name: Option<String>) {
        if let Some(name) = name
            && self.file_systems.len() < FILE_SYSTEMS_MAX
            && !self.file_systems.contains(&name)
        {
            self.file_systems.push(name);
        }
    }

    fn label(&mut self, text: &[u8]) {
        let label = unescape(text);
        let Some(at) = memchr::memchr(b'=', &label) else { return };
        let [name, value] = [&label[..at], &label[at + 1..]];
        let fits = name.len() <= TEXT_BYTES_MAX && value.len() <= TEXT_BYTES_MAX;
        if !name.is_empty() && fits && self.labels.len() < LABELS_MAX {
            let [name, value] = [name, value].map(|text| String::from_utf8_lossy(text).into());
            self.labels.entry(name).or_insert(value);
        }
    }
}

/// Key and value.
fn fact(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(MARK)?;
    let at = memchr::memchr(b' ', rest)?;
    Some((&rest[..at], &rest[at + 1..]))
}

/// `2026-11-28T22:44:10.123456789Z at 12345.678901234`
fn clock(text: &[u8]) -> Option<Clock> {
    let at = memchr::memmem::find(text, b" at ")?;
    let unix_ns = utc::parse(std::str::from_utf8(&text[..at]).ok()?)?;
    Some(Clock { unix_ns, at_ns: text::whole_seconds(&text[at + 4..])? })
}

/// The whole lines of comments that a trace begins with.
fn head(begin: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = memchr::memrchr(b'\n', begin).map_or(&[][..], |at| &begin[..at]);
    whole.split(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#"))
}

/// The begin of a trace is all comments, and does not say a format yet.
pub(super) fn may_follow(begin: &[u8]) -> bool {
    let whole = memchr::memchr_iter(b'\n', begin).count();
    let is_said = |line: &[u8]| fact(line).is_some_and(|(key, _)| key == b"format");
    head(begin).count() == whole && !head(begin).any(is_said)
}

/// The format that the head of a trace says, if it is a newer one.
pub(super) fn newer(begin: &[u8]) -> Option<u64> {
    head(begin).find_map(|line| Facts::default().line(line).err())
}

#[cfg(test)]
mod tests;
