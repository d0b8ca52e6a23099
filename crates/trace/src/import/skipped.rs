//! The account of the parts of a trace that gave no event.

/// Lines or records that are kept with their text.
const FIRST_MAX: usize = 10;

/// Bytes of a line's text that are kept.
const TEXT_BYTES_MAX: usize = 200;

/// A line, or a record of a binary trace, that is not of the trace's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUnderstood {
    /// Counted from 1.
    pub number: u64,
    /// The first 200 bytes; of a record, its first bytes in hexadecimal.
    pub text: String,
}

/// The parts of a trace that gave no event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines or records that were not understood.
    pub count: u64,
    /// The first ten of them.
    pub first: Vec<NotUnderstood>,
    /// Events that are not in the trace because a buffer ran over. The trace itself says so.
    pub lost: u64,
    /// Places where the trace says that events are lost, but not how many.
    pub lost_uncounted: u64,
    /// Events of kinds that mean nothing here.
    pub ignored: u64,
    /// Events without a name, because there were more names than are kept.
    pub names_left_out: u64,
    /// Why the trace does not say how long anything took.
    pub no_times: Option<&'static str>,
    /// Writes and syncs by descriptors of which the trace does not say the file.
    pub nameless_calls: u64,
    /// Events that stand behind a later one. What is told of them may be wrong.
    pub disordered: u64,
    /// Why the trace seems to end before its end.
    pub cut_off: Option<&'static str>,
}

impl Skipped {
    pub(super) fn not_understood(&mut self, number: u64, text: &[u8]) {
        self.count += 1;
        if self.first.len() < FIRST_MAX {
            let text = &text[..text.len().min(TEXT_BYTES_MAX)];
            self.first
                .push(NotUnderstood { number, text: String::from_utf8_lossy(text).into_owned() });
        }
    }

    pub(super) fn not_understood_record(&mut self, number: u64, bytes: &[u8]) {
        let hex: Vec<String> = bytes.iter().take(16).map(|b| format!("{b:02x}")).collect();
        self.not_understood(number, hex.join(" ").as_bytes());
    }

    pub(super) fn lost(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.lost = self.lost.saturating_add(number),
            None => self.lost_uncounted += 1,
        }
    }
}
