//! How a command fails.

use std::error::Error;

use crate::exit;

/// How a command failed; the message says what and how to go on.
pub enum Failure {
    /// The command line or what it names cannot be used.
    Usage(Box<dyn Error>),
    Failed(Box<dyn Error>),
    /// Another exit code, of `exit.rs` or of a program.
    WithCode(Box<dyn Error>, u8),
}

impl Failure {
    pub fn usage(error: impl Into<Box<dyn Error>>) -> Failure {
        Failure::Usage(error.into())
    }

    pub fn failed(error: impl Into<Box<dyn Error>>) -> Failure {
        Failure::Failed(error.into())
    }

    /// Nothing was done.
    pub fn refused(error: impl Into<Box<dyn Error>>) -> Failure {
        Failure::WithCode(error.into(), exit::REFUSED)
    }

    /// Nothing was done, since somebody is in the way who goes away.
    pub fn again(error: impl Into<Box<dyn Error>>) -> Failure {
        Failure::WithCode(error.into(), exit::AGAIN)
    }
}
