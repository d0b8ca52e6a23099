//! A drop-in `libsqlite3` with a second B-tree. What is linked is C: the amalgamation of SQLite
//! with the shim of `crates/sqlite`, which `build.rs` makes, and the static library of
//! `oneflush-mvbt-c`.
//!
//! | question | file |
//! |---|---|
//! | how the amalgamation gets a second B-tree | `crates/sqlite` |
//! | with which options it is compiled | `build.rs` |
//! | how the libraries are linked | `link.rs`, `main.rs` |

mod link;

pub use link::{Libraries, link, link_shell};
