//! Bytes in a record are packed: as what differs from zeros, or from what the epoch has there.
//!
//! - **P1** Bytes are packed in parts of aligned *chunks* of 4 KiB. The last part of a chunk that
//!   an epoch has is the base of the next one, if it has all of the bytes.
//! - **P2** A base is of the same epoch. The epoch before may be released.
//! - **P3** Whoever reads knows every part that the writer knew. The writer may forget some, and
//!   the reader does not: then the writer names no base.

use oneflush_blocklog::delta;
use rustc_hash::FxHashMap;

use crate::entry::{Form, NoEntry, ObjectId, Piece};

const CHUNK_BYTES: u64 = 4096;
/// What a writer remembers at most.
const REMEMBERED_BYTES_MAX: usize = 32 << 20;

/// The last part of each chunk in an epoch.
#[derive(Debug, Default)]
pub struct Bases {
    parts: FxHashMap<(ObjectId, u64), Part>,
    bytes: usize,
}

#[derive(Debug)]
struct Part {
    offset: u64,
    bytes: Vec<u8>,
}

impl Part {
    fn range(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }
}

impl Bases {
    fn base(&self, id: ObjectId, offset: u64, length: usize) -> Option<&[u8]> {
        self.parts.get(&(id, offset / CHUNK_BYTES))?.range(offset, length)
    }

    fn remember(&mut self, id: ObjectId, offset: u64, bytes: &[u8]) {
        let part = Part { offset, bytes: bytes.to_vec() };
        self.bytes += bytes.len();
        if let Some(before) = self.parts.insert((id, offset / CHUNK_BYTES), part) {
            self.bytes -= before.bytes.len();
        }
    }

    /// Packs bytes of a file into the shortest form of each chunk.
    pub fn pack(&mut self, id: ObjectId, piece: &Piece, out: &mut Vec<Piece>) {
        if self.bytes > REMEMBERED_BYTES_MAX {
            *self = Bases::default();
        }
        for (offset, part) in parts(piece.offset, &piece.bytes) {
            let length = part.len() as u32;
            let mut packed = (Form::Plain, part.to_vec());
            let mut from_zeros = Vec::new();
            delta::encode_from_zeros(part, &mut from_zeros);
            if from_zeros.len() < packed.1.len() {
                packed = (Form::Zeros { length }, from_zeros);
            }
            if let Some(base) = self.base(id, offset, part.len()) {
                let mut from_base = Vec::new();
                delta::encode(base, part, &mut from_base);
                if from_base.len() < packed.1.len() {
                    packed = (Form::Before { length }, from_base);
                }
            }
            self.remember(id, offset, part);
            let (form, bytes) = packed;
            out.push(Piece { offset, form, bytes });
        }
    }

    /// Makes the bytes of a piece what they were before they were packed.
    pub fn unpack(&mut self, id: ObjectId, piece: &mut Piece) -> Result<(), NoEntry> {
        let bytes = match piece.form {
            Form::Plain => None,
            Form::Zeros { length } => Some(vec![0; in_chunk(length)?]),
            Form::Before { length } => {
                let base = self.base(id, piece.offset, in_chunk(length)?);
                Some(base.ok_or(NoEntry)?.to_vec())
            }
        };
        if let Some(mut bytes) = bytes {
            delta::apply(&piece.bytes, &mut bytes).map_err(|_| NoEntry)?;
            piece.bytes = bytes;
            piece.form = Form::Plain;
        }
        if piece.bytes.len() as u64 > CHUNK_BYTES - piece.offset % CHUNK_BYTES {
            return Err(NoEntry);
        }
        self.remember(id, piece.offset, &piece.bytes);
        Ok(())
    }
}

fn in_chunk(length: u32) -> Result<usize, NoEntry> {
    if u64::from(length) <= CHUNK_BYTES { Ok(length as usize) } else { Err(NoEntry) }
}

/// The parts of chunks that bytes are in.
fn parts(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = offset + at as u64;
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let length = ((CHUNK_BYTES - start % CHUNK_BYTES) as usize).min(rest.len());
        at += length;
        Some((start, &rest[..length]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId(7);

    fn packed(bases: &mut Bases, offset: u64, bytes: &[u8]) -> Vec<Piece> {
        let piece = Piece { offset, form: Form::Plain, bytes: bytes.to_vec() };
        let mut out = Vec::new();
        bases.pack(FILE, &piece, &mut out);
        out
    }

    fn size(pieces: &[Piece]) -> usize {
        pieces.iter().map(|piece| piece.bytes.len()).sum()
    }

    #[test]
    fn what_was_packed_is_what_is_unpacked_and_a_second_version_is_short() {
        let (mut writer, mut reader) = (Bases::default(), Bases::default());
        let mut page: Vec<u8> = (0..8000u32).map(|at| (at.wrapping_mul(at) >> 3) as u8).collect();
        let sizes: Vec<usize> = (0..4)
            .map(|round| {
                let pieces = packed(&mut writer, 1000, &page);
                let mut read = Vec::new();
                for mut piece in pieces.clone() {
                    reader.unpack(FILE, &mut piece).unwrap();
                    read.extend(piece.bytes);
                }
                assert_eq!(read, page);
                page[17 + round * 1500] ^= 1;
                size(&pieces)
            })
            .collect();
        assert!(sizes[0] > 7000 && sizes[1..].iter().all(|size| *size < 20), "{sizes:?}");
    }

    #[test]
    fn bytes_of_every_length_and_place_come_back() {
        for length in 1..70usize {
            for offset in [0, 1, 4090, 8191] {
                let (mut writer, mut reader) = (Bases::default(), Bases::default());
                let mut bytes: Vec<u8> = (0..length).map(|at| (at % 5) as u8).collect();
                for changed in 0..length {
                    bytes[changed] ^= 0xA5;
                    let mut read = Vec::new();
                    for mut piece in packed(&mut writer, offset, &bytes) {
                        reader.unpack(FILE, &mut piece).unwrap();
                        read.extend(piece.bytes);
                    }
                    assert_eq!(read, bytes);
                }
            }
        }
    }

    #[test]
    fn zeros_take_no_room_and_a_longer_part_has_no_base() {
        let mut bases = Bases::default();
        assert!(size(&packed(&mut bases, 0, &[0; 4096])) < 8);
        let noise: Vec<u8> =
            (0..4096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert!(size(&packed(&mut bases, 4096, &noise[..2000])) >= 1900);
        assert!(size(&packed(&mut bases, 4096, &noise)) >= 3900);
        assert!(size(&packed(&mut bases, 4096 + 50, &noise[50..90])) < 8);
    }

    #[test]
    fn a_piece_without_its_base_or_longer_than_a_chunk_is_none() {
        let mut bases = Bases::default();
        for (offset, form) in [
            (0, Form::Before { length: 10 }),
            (0, Form::Zeros { length: 5000 }),
            (4000, Form::Zeros { length: 4096 }),
        ] {
            let mut piece = Piece { offset, form, bytes: Vec::new() };
            assert_eq!(bases.unpack(FILE, &mut piece), Err(NoEntry));
        }
    }
}
