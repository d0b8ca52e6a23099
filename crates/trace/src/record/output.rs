//! Where a recording's text goes: packed into a file, or as it is to whoever reads it at once.

use std::io::{self, BufWriter, IntoInnerError, Write};

use zstd::stream::write::Encoder;

/// Fast, and still a tenth of the text.
const ZSTD_LEVEL: i32 = 1;
/// Lines repeat what stands close before them, so little more is found farther back; and what is looked through should stay in the
/// processor's cache, which the recorded programs need too.
const ZSTD_WINDOW_LOG: u32 = 17;
/// Given to the encoder at once: a call for each line would cost more than the packing.
const BATCH_BYTES: usize = 64 << 10;
/// After so many turns what is written can be unpacked from outside.
const FLUSH_TURNS: u64 = 16;

pub(super) enum Output<W: Write> {
    Packed(BufWriter<Encoder<'static, BufWriter<W>>>),
    Plain(BufWriter<W>),
}

impl<W: Write> Output<W> {
    pub(super) fn packed(out: W) -> io::Result<Output<W>> {
        let mut encoder = Encoder::new(BufWriter::new(out), ZSTD_LEVEL)?;
        encoder.window_log(ZSTD_WINDOW_LOG)?;
        Ok(Output::Packed(BufWriter::with_capacity(BATCH_BYTES, encoder)))
    }

    pub(super) fn plain(out: W) -> Output<W> {
        Output::Plain(BufWriter::with_capacity(BATCH_BYTES, out))
    }

    /// After the turn of this number. Packing badly is the price of a flush, so a file gets few; a reader waits for each turn.
    pub(super) fn turn_ended(&mut self, number: u64) -> io::Result<()> {
        match self {
            Output::Packed(out) if number.is_multiple_of(FLUSH_TURNS) => out.flush(),
            Output::Packed(_) => Ok(()),
            Output::Plain(out) => out.flush(),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Output::Packed(out) => out.into_inner().map_err(IntoInnerError::into_error)?.finish()?.flush(),
            Output::Plain(mut out) => out.flush(),
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Packed(out) => out.write(bytes),
            Output::Plain(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Packed(out) => out.flush(),
            Output::Plain(out) => out.flush(),
        }
    }
}
