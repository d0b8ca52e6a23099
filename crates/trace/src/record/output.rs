//! The target of a recording's text: packed into one file or into several, or plain to a reader.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::mem;

use zstd::stream::write::Encoder;

use super::parts::{FileId, Parts};

/// Fast, and still a tenth of the text.
const ZSTD_LEVEL: i32 = 1;
/// Lines repeat what stands close before them, so a larger window finds little more. What is looked
/// through should stay in the processor's cache: the recorded programs need it too.
const ZSTD_WINDOW_LOG: u32 = 17;
/// Given to the encoder at once. A call for each line would cost more than the packing.
const BATCH_BYTES: usize = 64 << 10;
/// After so many turns, the written data can be unpacked from outside.
const FLUSH_TURNS: u64 = 16;

/// What is written stays in memory until the turn ends. Meanwhile the recorder gives way to others
/// ([`super::pace`]).
pub(super) struct Output<W> {
    text: Text,
    sink: Sink<W>,
    /// The single file that is written, if it is known.
    pub(super) file: Option<FileId>,
}

type Packed = BufWriter<Encoder<'static, Vec<u8>>>;

enum Text {
    Packed(Packed),
    Plain(Vec<u8>),
}

enum Sink<W> {
    One(W),
    Parts(Box<Parts>),
}

impl<W: Write> Output<W> {
    pub(super) fn packed(out: W) -> io::Result<Output<W>> {
        Ok(Output { text: Text::Packed(encoder()?), sink: Sink::One(out), file: None })
    }

    pub(super) fn plain(out: W) -> Output<W> {
        Output { text: Text::Plain(Vec::new()), sink: Sink::One(out), file: None }
    }

    /// Several packed files. The first one begins.
    pub(super) fn parts(mut parts: Parts) -> io::Result<Output<W>> {
        parts.begin()?;
        Ok(Output {
            text: Text::Packed(encoder()?),
            sink: Sink::Parts(Box::new(parts)),
            file: None,
        })
    }

    /// Called after the turn of this number. A flush is paid for by bad packing, so a file gets
    /// few. A reader waits for each turn. All events before `until_ns` are written.
    pub(super) fn turn_ended(&mut self, number: u64, until_ns: u64) -> io::Result<()> {
        let done = match &mut self.text {
            Text::Packed(packed) => {
                if number.is_multiple_of(FLUSH_TURNS) {
                    packed.flush()?;
                }
                packed.get_mut().get_mut()
            }
            Text::Plain(done) => done,
        };
        if !done.is_empty() {
            self.sink.write_all(done)?;
            self.sink.flush()?;
            done.clear();
        }
        if let Sink::Parts(parts) = &mut self.sink {
            parts.turn_ended(until_ns);
        }
        Ok(())
    }

    /// Completes the file, and begins the next one. `now_ns`: of the events' clock.
    pub(super) fn next(&mut self, now_ns: impl Fn() -> u64) -> io::Result<()> {
        let Sink::Parts(parts) = &mut self.sink else { return Ok(()) };
        let text = mem::replace(&mut self.text, Text::Packed(encoder()?));
        parts.write_all(&rest(text)?)?;
        parts.complete(now_ns)?;
        parts.begin()
    }

    /// The files, and the bytes in them.
    pub(super) fn finish(mut self) -> io::Result<(u64, u64)> {
        let rest = rest(self.text)?;
        self.sink.write_all(&rest)?;
        self.sink.flush()?;
        match self.sink {
            Sink::One(_) => Ok((1, 0)),
            Sink::Parts(mut parts) => {
                parts.complete(|| 0)?;
                Ok((parts.files, parts.bytes))
            }
        }
    }

    /// Several files are written.
    pub(super) fn as_parts(&mut self) -> Option<&mut Parts> {
        match &mut self.sink {
            Sink::One(_) => None,
            Sink::Parts(parts) => Some(parts),
        }
    }

    /// Bytes of the file that is being written, as far as they are packed.
    pub(super) fn part_bytes(&self) -> u64 {
        let Sink::Parts(parts) = &self.sink else { return 0 };
        let Text::Packed(packed) = &self.text else { return 0 };
        parts.part_bytes() + packed.get_ref().get_ref().len() as u64
    }

    /// The recorder knows its own files, and counts what it writes to them.
    pub(super) fn knows_files(&self) -> bool {
        self.file.is_some() || matches!(self.sink, Sink::Parts(_))
    }

    /// Whether a file is one of the recorder's own.
    pub(super) fn is_own(&self, file: FileId) -> bool {
        match &self.sink {
            Sink::One(_) => self.file == Some(file),
            Sink::Parts(parts) => parts.is_open(file),
        }
    }
}

fn encoder() -> io::Result<Packed> {
    let mut encoder = Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.window_log(ZSTD_WINDOW_LOG)?;
    Ok(BufWriter::with_capacity(BATCH_BYTES, encoder))
}

fn rest(text: Text) -> io::Result<Vec<u8>> {
    match text {
        Text::Packed(packed) => packed.into_inner().map_err(IntoInnerError::into_error)?.finish(),
        Text::Plain(rest) => Ok(rest),
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::One(out) => out.write(bytes),
            Sink::Parts(parts) => parts.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::One(out) => out.flush(),
            Sink::Parts(parts) => parts.flush(),
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.text {
            Text::Packed(packed) => packed.write(bytes),
            Text::Plain(text) => text.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // At the turn's end.
        Ok(())
    }
}
