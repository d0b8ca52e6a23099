//! What a database and its transactions have in common. A transaction keeps it alive.

use std::sync::Arc;

use crate::options::Options;
use crate::readers::Readers;
use crate::store::Store;
use crate::writer_lock::WriterLock;

pub struct Shared {
    pub store: Arc<Store>,
    pub options: Arc<Options>,
    pub readers: Readers,
    pub writer: WriterLock,
}
