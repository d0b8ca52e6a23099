//! What the paper says, and the goals beyond it, by what is measured for it.

mod across;
mod latency;
mod shares;
mod single;
mod sizes;
mod unmeasured;

pub use across::ACROSS;
pub use unmeasured::UNMEASURED;

use crate::paper::Claim;

pub const CLAIMS: [&[Claim]; 4] =
    [&latency::CLAIMS, &single::CLAIMS, &shares::CLAIMS, &sizes::CLAIMS];

const OTHER_PHONES: &str = "They are two phones' traces of seconds, with other apps, and the SQL \
    of two apps.";
const AWAKE: &str = "Phones that sleep make the long ones. None slept here.";
const FOLDER: &str = "SQLite of today synchronizes the folder of the journal in each transaction, \
    and ext4's journal commits for it.";
const TRUNCATED: &str = "Since 2014 SQLite synchronizes the journal that it has truncated.";
