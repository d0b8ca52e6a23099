//! A drop-in `libsqlite3` with a second B-tree. What is linked is C: the amalgamation of SQLite
//! with the shim of `shim/`, which `build.rs` makes, and the static library of `oneflush-mvbt-c`.
//!
//! | question | file |
//! |---|---|
//! | how the amalgamation gets a second B-tree | `generate.rs`, `build.rs` |
//! | how the libraries are linked | `link.rs`, `main.rs` |
//! | what the second B-tree does | `shim/lsmvbt.c` |

#[cfg(test)]
mod generate;
mod link;

pub use link::{Libraries, link, link_shell};
