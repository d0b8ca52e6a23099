//! Files of `mvbt` that nobody has written, with right checksums: no fuzzer guesses one.
//!
//! The input is a program. It begins with a sound database. Each step changes bytes of a page, puts
//! another page in its place, or changes an anchor or a commit block. Then the checksums of what
//! was changed are made right. So the fuzzer gets behind them.
//!
//! | question | file |
//! |---|---|
//! | the file in memory | `memory.rs` |
//! | the databases to begin with | `base.rs` |
//! | the program's steps | `program.rs` |
//! | checksums | `checksum.rs` |
//! | what is done with a file | `exercise.rs` |

pub mod base;
pub mod checksum;
pub mod exercise;
pub mod memory;
pub mod program;
