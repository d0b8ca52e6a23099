//! What a connection uses while it has the WAL open.

use std::sync::Arc;

use super::slot_file::SlotFile;
use crate::strategy::board::Board;

/// The log that a connection uses, and its board. Neither changes while the WAL is open.
pub struct InUse {
    pub file: Arc<SlotFile>,
    pub board: Board,
}
