//! What can go wrong while observing.

use oneflush_trace::kernel::KernelError;
use oneflush_trace::record::RecordError;

#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error(transparent)]
    Kernel(#[from] KernelError),

    #[error(transparent)]
    Volume(#[from] RecordError),

    #[error("stop without start: a slice begins with start()")]
    NotStarted,
}
