//! A cursor across changes of its tree: what it keeps, and where it stands after them.

use crate::check::Order;
use crate::cursor::Cursor;
use crate::search::{Probe, Source, with_content};
use crate::{Error, Result};

/// The key of the cell on which a cursor stands, or the record.
#[derive(Clone, Debug)]
pub enum Key {
    Integer(i64),
    Record(Vec<u8>),
}

pub const NO_ORDER: Error =
    Error::Misuse { what: "a cursor of a record tree is restored with the order of the records" };

/// Where a cursor stands after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// On its cell.
    Same,
    /// Its cell is gone; on the one behind it. The following call of `next` stays there.
    Next,
    /// Its cell is gone, and there is none behind it; on the one before it. The following call of
    /// `previous` stays there.
    Previous,
    /// On no cell: it stood on none, or the tree is empty.
    Nowhere,
}

impl Cursor {
    /// Keeps the key, or a copy of the record, on which the cursor stands. To be called before the
    /// tree is changed; only then [`restore`](Cursor::restore) knows what to look for. Until the
    /// cursor moves it keeps that, so a second call costs nothing.
    pub fn save(&mut self, source: &dyn Source) -> Result<()> {
        if self.saved.is_some() {
            return Ok(());
        }
        let Some(step) = self.step(source)? else { return Ok(()) };
        let page = source.page(step.no)?;
        let view = page.view()?;
        self.saved = Some(match self.tree().is_record {
            false => Key::Integer(view.integer_key(step.index)),
            true => {
                let content = view.cell(step.index).content;
                Key::Record(with_content(source, content, <[u8]>::to_vec)?)
            }
        });
        Ok(())
    }

    /// Goes back to the cell that was saved, or beside it. If nothing has changed since, this looks
    /// for nothing. `order`: of the records, for a record tree. `Misuse`: the tree has changed, and
    /// the cursor was not saved before. What was saved survives an error, so this may be repeated.
    pub fn restore(&mut self, source: &dyn Source, order: Option<Order<'_>>) -> Result<Restored> {
        let has_failed = self.saved.is_some() && !self.is_on_cell();
        if self.is_current(source) && !has_failed {
            return Ok(if self.is_on_cell() { self.stands } else { Restored::Nowhere });
        }
        let Some(saved) = self.saved.take() else {
            self.step(source)?;
            return Ok(Restored::Nowhere);
        };
        match self.find_again(source, &saved, order) {
            Ok(stands) => {
                self.stands = stands;
                self.saved = Some(saved).filter(|_| stands != Restored::Nowhere);
                Ok(stands)
            }
            Err(error) => {
                self.saved = Some(saved);
                Err(error)
            }
        }
    }

    fn find_again(
        &mut self,
        source: &dyn Source,
        saved: &Key,
        order: Option<Order<'_>>,
    ) -> Result<Restored> {
        let is_found = match saved {
            Key::Integer(key) => self.seek(source, Probe::Integer(*key))?,
            Key::Record(record) => {
                let order = order.ok_or(NO_ORDER)?;
                self.seek(source, Probe::Record(&|stored| order(stored, record)))?
            }
        };
        if is_found || self.is_on_cell() {
            return Ok(if is_found { Restored::Same } else { Restored::Next });
        }
        self.last(source)?;
        Ok(if self.is_on_cell() { Restored::Previous } else { Restored::Nowhere })
    }
}
