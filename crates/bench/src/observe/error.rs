//! What can go wrong while observing.

use oneflush_trace::kernel::KernelError;

#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error(transparent)]
    Kernel(#[from] KernelError),

    #[error("stop without start: a slice begins with start()")]
    NotStarted,
}
