//! What the kernel tells of a block device: its trace events, and the places of a file system's
//! parts.
//!
//! ```text
//! tracefs   an instance of our own ─▶ ring   records out of its binary buffers, with their times
//!           format, decode                   a record's fields; which events say whose a write is
//! volume    which device, which file system
//! device    opens its node ─▶ layout         journals of file systems; btrfs  chunks
//!        ─▶ attribute                        whose a write is: rules at its head
//! fanotify  which file got which name        mounts: which file system a path is on
//! idle      a thread gives way to all others
//! ```
//!
//! The benchmark's observer and the recorder ([`crate::record`]) both use it.

pub mod attribute;
mod btrfs;
mod decode;
mod device;
mod error;
mod fanotify;
mod format;
mod guard;
mod idle;
mod layout;
mod mounts;
mod namespace;
mod ring;
mod tracefs;
mod volume;

pub use decode::{Decoder, Scope};
pub(crate) use decode::{Volumes, any_of, device_pair, kernel_dev};
pub use error::KernelError;
pub use fanotify::{Named, Watch};
pub use format::{Field, Format};
pub use guard::Guard;
pub use idle::GivesWay;
pub use layout::Area;
pub use mounts::MountInfo;
pub use namespace::enter_private_namespace;
pub use tracefs::{Buffers, Instance, find_or_mount_tracefs};
pub use volume::{FileSystem, Volume};
