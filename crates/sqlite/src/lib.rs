//! SQLite with both B-trees in a program in Rust: its own, and LS-MVBT.
//!
//! A program that has this line gets it, with `rusqlite` or whatever stands on `libsqlite3-sys`:
//!
//! ```
//! use oneflush_sqlite as _;
//! ```
//!
//! The library is linked whole and before that of `libsqlite3-sys`, which is compiled from the same
//! source with the same options. So the linker takes nothing from the other one. What the engines
//! are, and which one a database gets: the README of `oneflush-sqlite-lsmvbt`.
//!
//! | question | file |
//! |---|---|
//! | how the amalgamation gets a second B-tree | `generate.rs` |
//! | what the second B-tree does | `shim/lsmvbt.c` |
//! | how it comes into a program | `build.rs` |

#[cfg(test)]
mod generate;

use libsqlite3_sys as _;
use oneflush_mvbt_c as _;
