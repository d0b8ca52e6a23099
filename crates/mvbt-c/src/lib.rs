//! The C functions of `oneflush-mvbt`. `include/oneflush_mvbt.h` is made from these files, and what
//! it says at its head stands in `cbindgen.toml`.
//!
//! | question | file |
//! |---|---|
//! | codes, and which error has which | `code.rs` |
//! | what every call does: panics, messages, null pointers | `call.rs` |
//! | open, close, check | `database.rs` |
//! | handles of a process that share a database | `opened.rs` |
//! | a new database in the place of an empty file | `make.rs` |
//! | where messages go, and which file systems are refused | `guest.rs` |
//! | where databases are, if not in files | `place.rs` |
//! | transactions and savepoints | `transaction.rs` |
//! | trees, inserts and deletes, meta words | `trees.rs` |
//! | cursors | `cursor.rs` |
//! | comparisons and orders that the caller brings | `compare.rs` |
//! | older versions | `history.rs` |
//! | copies | `backup.rs` |
//! | what was done, and how full the file is | `stats.rs` |

mod backup;
mod call;
mod code;
mod compare;
mod cursor;
mod database;
mod guest;
mod history;
mod make;
mod opened;
pub mod place;
mod stats;
mod transaction;
mod trees;
