//! The numbers of objects and of operations.

use serde::{Deserialize, Serialize};

/// The number of an object of the mounted file system. It is not used again while the log lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId(pub u64);

/// The directory that is mounted.
pub const ROOT: ObjectId = ObjectId(1);

/// The number of an operation. They are numbered from 1 in the order in which the lower saw them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Seq(pub u64);
