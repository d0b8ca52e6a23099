//! What the paper says, and the goals beyond it, by what is measured for it.

mod across;
mod apps;
mod files;
mod sqlite;
mod unmeasured;

pub use across::ACROSS;
pub use unmeasured::UNMEASURED;

use crate::paper::Claim;

pub const CLAIMS: [&[Claim]; 3] = [&sqlite::CLAIMS, &apps::CLAIMS, &files::CLAIMS];

const FAST_DEVICE: &str = "Where a flush takes 0.1 ms, the processor time of the daemon is most \
    of a sync.";
const CLOCKS: &str = "On a fast device most overwrites fall into one tick of the files' clock, and \
    ext4 has nothing to journal.";
const FUSE_READS: &str = "A read that misses the page cache is a request to the daemon.";
