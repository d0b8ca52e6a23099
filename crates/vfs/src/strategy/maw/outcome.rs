//! What became of a commit.

use crate::error::Code;

/// What became of a batch that was to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file has all of it, durably.
    Committed,
    /// It is durable, and could not be written to the file. The file may have a part of it.
    InLogOnly(Code),
    /// This provider cannot take such a batch. The file is as before. An ordinary journaled
    /// transaction can do it.
    Declined,
}
