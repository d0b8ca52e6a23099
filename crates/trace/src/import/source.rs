//! A trace's bytes, unpacked, as whole lines or records out of one buffer of fixed size.
//!
//! Compressed data that end early give all that can be unpacked, and `cut_off` says so. Damaged
//! data are an error. A line that does not fit the buffer is passed over to its end, so that no
//! input can make the buffer grow.

use std::io::{self, Cursor, Read};
use std::ops::Range;

/// The longest line or record.
pub(super) const LINE_BYTES_MAX: usize = 512 << 10;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Where the text of a line is, to be asked with [`Source::bytes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Without the line feed and the carriage return.
    Line(Range<usize>),
    /// The last line, without a line feed.
    Unended(Range<usize>),
    /// The begin of a line that is longer than the buffer.
    TooLong(Range<usize>),
}

pub(super) struct Source {
    input: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    pub cut_off: Option<&'static str>,
}

impl Source {
    pub fn new(mut input: impl Read + Send + 'static) -> io::Result<Source> {
        let mut magic = [0; 4];
        let mut n = 0;
        while n < magic.len() {
            match input.read(&mut magic[n..]) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let whole = Cursor::new(magic).take(n as u64).chain(input);
        let input: Box<dyn Read + Send> = if magic.starts_with(&GZIP) {
            Box::new(flate2::read::MultiGzDecoder::new(whole))
        } else if magic == ZSTD {
            Box::new(zstd::stream::read::Decoder::new(whole)?)
        } else {
            Box::new(whole)
        };
        let buffer = vec![0; LINE_BYTES_MAX].into_boxed_slice();
        Ok(Source { input, buffer, start: 0, end: 0, ended: false, cut_off: None })
    }

    /// The bytes that are read and not used yet.
    pub fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Reads once behind what is held. Does nothing if the buffer is full or the input at its end.
    pub fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while !self.ended && self.end < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    self.end += n;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    self.cut_off = Some("the compressed data end early");
                }
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The next line; `None` at the end.
    pub fn line(&mut self) -> io::Result<Option<Text>> {
        let mut searched = 0;
        loop {
            if let Some(n) = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                let line = self.start..self.start + searched + n;
                self.start = line.end + 1;
                return Ok(Some(Text::Line(self.without_return(line))));
            }
            searched = self.end - self.start;
            if self.ended {
                let line = self.start..self.end;
                self.start = self.end;
                return Ok((!line.is_empty()).then(|| Text::Unended(self.without_return(line))));
            }
            if searched == self.buffer.len() {
                return self.pass_over_line().map(Some);
            }
            self.fill()?;
        }
    }

    /// `n` bytes from the next one on, without using them; fewer only at the end. `n` is at most
    /// [`LINE_BYTES_MAX`].
    pub fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.end - self.start < n && !self.ended {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + n)])
    }

    /// Uses `n` of the bytes that are held.
    pub fn advance(&mut self, n: usize) {
        self.start = self.end.min(self.start + n);
    }

    /// Uses up the held begin of a record whose end is not in the input, and says that it is cut
    /// off.
    pub fn cut_off_in_record(&mut self) {
        self.start = self.end;
        self.cut_off.get_or_insert("the last record is not whole");
    }

    fn without_return(&self, line: Range<usize>) -> Range<usize> {
        match self.buffer[line.clone()].last() {
            Some(b'\r') => line.start..line.end - 1,
            _ => line,
        }
    }

    /// Keeps the begin of the line that fills the buffer. Reads on behind it up to the line's end.
    fn pass_over_line(&mut self) -> io::Result<Text> {
        const KEPT: usize = 256;
        self.start = KEPT;
        loop {
            if let Some(n) = memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += n + 1;
                return Ok(Text::TooLong(0..KEPT));
            }
            self.start = self.end;
            if self.ended {
                return Ok(Text::TooLong(0..KEPT));
            }
            // Not by fill(): that would move the rest over the begin.
            self.end = KEPT;
            self.start = KEPT;
            match self.input.read(&mut self.buffer[KEPT..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    self.cut_off = Some("the compressed data end early");
                }
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
