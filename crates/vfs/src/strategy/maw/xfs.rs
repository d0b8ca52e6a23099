//! XFS's exchange of file contents as a provider (rule 6 of `maw`).
//!
//! | step | what survives a crash after it |
//! |---|---|
//! | 1. the temporary file is emptied | nothing of the transaction |
//! | 2. the database file is made longer, where it grows | the same; SQLite takes no notice of it |
//! | 3. whole blocks with the pages are written to the temporary file, at their own offsets | the same |
//! | 4. the exchange | the transaction |
//! | 5. the file is made shorter, where the transaction has done so | the transaction |

use std::ops::Range;

use super::overlay::Batch;
use super::provider::{Outcome, Provider};
use crate::config::Atomic;
use crate::error::{Code, Error};
use crate::port::{Below, ExchangeFile};
use crate::strategy::mutant::{self, Mutant};

pub struct Xfs(pub Box<dyn ExchangeFile>);

impl Provider for Xfs {
    fn commit(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, Error> {
        let written = self.write(main, batch);
        if let Err(code) = written {
            if batch.size_bytes > batch.size_bytes_before {
                let _ = main.truncate(batch.size_bytes_before);
            }
            return Err(code.into());
        }
        // After an error here the file may have all of it, and needs its size.
        written.and_then(|range| self.0.exchange(range))?;
        if batch.size_bytes < batch.size_bytes_before {
            main.truncate(batch.size_bytes)?;
        }
        Ok(Outcome::Committed)
    }

    fn kind(&self) -> Atomic {
        Atomic::Xfs
    }
}

impl Xfs {
    /// Writes the temporary file. Answers the range to exchange.
    fn write(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<Range<u64>, Code> {
        let size_bytes = batch.size_bytes.max(batch.size_bytes_before);
        if !mutant::is(Mutant::TemporaryNotEmptied) {
            self.0.empty(size_bytes)?;
        }
        if size_bytes > batch.size_bytes_before {
            main.truncate(size_bytes)?;
        }
        let block_bytes = self.0.block_bytes();
        let (mut first, mut end) = (u64::MAX, 0);
        let mut block: Option<(u64, Vec<u8>)> = None;
        for (offset, unit) in batch.writes() {
            if (offset | unit.len() as u64).is_multiple_of(block_bytes) {
                self.0.write(unit, offset)?;
            } else {
                let at = offset / block_bytes * block_bytes;
                if block.as_ref().is_none_or(|(of, _)| *of != at) {
                    if let Some((of, bytes)) = block.take() {
                        self.0.write(&bytes, of)?;
                    }
                    // Its neighbours in the block change places with it.
                    let mut bytes = vec![0; block_bytes as usize];
                    match main.read(&mut bytes, at) {
                        Ok(()) | Err(Code::SHORT_READ) => block = Some((at, bytes)),
                        Err(code) => return Err(code),
                    }
                }
                if let Some((_, bytes)) = &mut block {
                    let inside = (offset - at) as usize;
                    bytes[inside..inside + unit.len()].copy_from_slice(unit);
                }
            }
            first = first.min(offset / block_bytes * block_bytes);
            end = end.max((offset + unit.len() as u64).next_multiple_of(block_bytes));
        }
        if let Some((of, bytes)) = block {
            self.0.write(&bytes, of)?;
        }
        Ok(first.min(end)..end)
    }
}
