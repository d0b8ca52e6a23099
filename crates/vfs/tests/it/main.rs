//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

mod beside_others;
mod closed_at_once;
mod common;
mod docs;
mod doubtful;
mod eager;
mod eager_damage;
mod eager_image;
mod flawed_places;
mod house;
mod inactive;
mod kept_wal;
mod kept_wal_places;
#[cfg(feature = "kill-points")]
mod kills;
mod log_disks;
mod log_neighbours;
mod log_places;
mod maw;
mod maw_batch;
mod maw_copies;
mod maw_damage;
mod maw_disks;
mod maw_f2fs;
mod maw_faults;
#[cfg(feature = "kill-points")]
mod maw_kills;
mod maw_threads;
mod maw_xfs;
mod message_codes;
mod names;
mod onlooker;
mod onlooker_races;
mod options;
mod owners;
mod pass_through;
mod plain;
mod plain_writes;
mod recorder;
mod restored;
mod seatbelt;
mod slow_closes;
mod stats;
mod waldio;
mod waldio_damage;
mod who;
