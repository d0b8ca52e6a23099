//! Why a log does not say what a database holds.

use oneflush_blocklog::Error as LogError;

use super::log_files::code_of;
use crate::error::Code;

/// Why a database cannot be recovered from its log.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("reading or writing beside the log failed: code {} [OF-317]", .0.0)]
    Below(Code),
    #[error("record {0} of the log changes page {1}, which no record before it has [OF-313]")]
    NoBase(u64, u32),
    #[error(
        "page {1} of the database file is not the one that record {0} of the log was written \
            against; the file was changed without Oneflush [OF-314]"
    )]
    OtherBase(u64, u32),
    #[error("the first {0} frames of the WAL image are not those that the log stands on [OF-315]")]
    Image(u32),
    #[error(
        "the database file has a later commit than the log, whose last record is damaged [OF-342]"
    )]
    Behind,
    #[error("record {0} of the log has a number of frames or pages that cannot be [OF-316]")]
    Impossible(u64),
}

impl RecoverError {
    pub fn code(&self) -> Code {
        match self {
            RecoverError::Log(error) => code_of(error),
            RecoverError::Below(code) => *code,
            RecoverError::NoBase(..)
            | RecoverError::OtherBase(..)
            | RecoverError::Image(_)
            | RecoverError::Behind
            | RecoverError::Impossible(_) => Code::CORRUPT,
        }
    }
}

impl From<Code> for RecoverError {
    fn from(code: Code) -> RecoverError {
        RecoverError::Below(code)
    }
}
