//! Readers of traces, one for each format, into [`Event`](crate::model::Event)s.
//!
//! ```text
//! file ─▶ source    gzip, zstd or plain, by its magic; whole lines or records out of one buffer of
//!                   fixed size
//!      ─▶ detect    which format, by what the first lines or bytes look like
//!      ─▶ ftrace, blkparse, most, perf, strace
//!                   one line ─▶ event, ignored, nothing, lost, not understood
//!         blktrace, androtrace
//!                   one record ─▶ the same
//!      ─▶ Reader    counts what is skipped, hands out the events one by one
//! ```
//!
//! Only the buffer, the names and unfinished calls (in strace's text) are held. All three are
//! bounded, so a trace of any length fits. Events come in the order of the trace, with its times.
//!
//! What is wrong with a trace is never silent:
//! - A line that is not understood is counted, and the first ten are kept.
//! - Events that the trace says are lost are counted.
//! - A trace that is cut off gives what it holds and says so.
//!
//! An event of a kind that means nothing here (`sched_switch`) is understood, and `ignored`.

mod androtrace;
mod blkparse;
mod blktrace;
mod detect;
mod error;
mod facts;
mod ftrace;
mod line;
mod most;
mod perf;
mod reader;
mod rwbs;
mod skipped;
mod source;
mod strace;
mod text;
mod tracepoint;

pub use detect::Format;
pub use error::ImportError;
pub use facts::{Clock, FORMAT as FACTS_FORMAT, Facts};
pub use reader::{Reader, open, open_through, parts};
pub use skipped::{NotUnderstood, Skipped};
pub use strace::OFFSET_UNKNOWN;
