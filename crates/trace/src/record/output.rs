//! The target of a recording's text: packed into a file, or plain to a reader.

use std::io::{self, BufWriter, IntoInnerError, Write};

use zstd::stream::write::Encoder;

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
    out: W,
}

enum Text {
    Packed(BufWriter<Encoder<'static, Vec<u8>>>),
    Plain(Vec<u8>),
}

impl<W: Write> Output<W> {
    pub(super) fn packed(out: W) -> io::Result<Output<W>> {
        let mut encoder = Encoder::new(Vec::new(), ZSTD_LEVEL)?;
        encoder.window_log(ZSTD_WINDOW_LOG)?;
        Ok(Output { text: Text::Packed(BufWriter::with_capacity(BATCH_BYTES, encoder)), out })
    }

    pub(super) fn plain(out: W) -> Output<W> {
        Output { text: Text::Plain(Vec::new()), out }
    }

    /// Called after the turn of this number. A flush is paid for by bad packing, so a file gets
    /// few. A reader waits for each turn.
    pub(super) fn turn_ended(&mut self, number: u64) -> io::Result<()> {
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
            self.out.write_all(done)?;
            self.out.flush()?;
            done.clear();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let rest = match self.text {
            Text::Packed(packed) => {
                packed.into_inner().map_err(IntoInnerError::into_error)?.finish()?
            }
            Text::Plain(rest) => rest,
        };
        self.out.write_all(&rest)?;
        self.out.flush()
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
