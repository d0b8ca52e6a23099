//! An emulated flash device: what a write and a flush cost on eMMC, UFS, SD and NVMe.
//!
//! A database waits for its flushes. How long, and how much wear, is decided by what is below the
//! block layer: pages that are written once, blocks that are erased whole, a table between, and a
//! cache that forgets. This crate has these parts and a clock that nobody waits for.
//!
//! ```text
//!  Request ──▶ device   queue, bus, write cache, time of each die
//!                │
//!               ftl     table, garbage collection, trims, recovery
//!                │
//!               nand    pages and blocks; their rules are kept here
//!                │
//!              store    memory, a file, or nothing but the counts
//! ```
//!
//! `serve` (feature of that name) makes a file of a device that answers when its time has come. A
//! loop device on that file is a block device.
//!
//! **Nothing that is measured on it is a claim about a product on the market.** The numbers are
//! from data sheets and papers, each with its source ([`preset`]). `README.md` says what the model
//! leaves out.

pub mod device;
pub mod ftl;
pub mod geometry;
pub mod nand;
pub mod preset;
mod random;
#[cfg(feature = "serve")]
pub mod serve;
pub mod timing;

pub use device::{Content, Counters, Device, DeviceError, Request};
pub use geometry::{Geometry, GeometryError, Shape};
pub use preset::{Model, Preset, Sourced};
pub use timing::Timing;
