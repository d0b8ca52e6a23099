//! Why a database cannot be opened with a strategy that has a log.

use oneflush_blocklog::{Error as LogError, Uuid};

use crate::config::StrategyKind;
use crate::error::Code;
use crate::strategy::log_files::code_of;

/// Why a database cannot be opened with a strategy that has a log.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error(
        "the log is missing: this database was in use with eager, waldio or maw, and commits may \
            be in it. Put it back beside the database [OF-101]"
    )]
    LogMissing,
    #[error(
        "the log belongs to another database (it is {found}, the database wants {wanted}). Put the \
            right one back [OF-102]"
    )]
    OtherLog { wanted: Uuid, found: Uuid },
    #[error(
        "its last commits are in the log of {0}, and that log is missing or another one. Put {0} \
            and its log back, say where they are (oneflush recover --with), or recover all of \
            them from one backup [OF-142]"
    )]
    LinkedLogMissing(String),
    #[error(
        "its last commits are in the log of {of}, and that log knows it as {name}: it was renamed, \
            or is a copy. Give it that name again, or say that this is the log: oneflush recover \
            --with {of} [OF-145]"
    )]
    LinkedLogOtherName { of: String, name: String },
    #[error(
        "its last commits are in the log of {0}, and that log does not have them any more, or not \
            yet: one of both is an older copy. Recover both from one backup [OF-146]"
    )]
    LinkedLogOtherTime(String),
    #[error("the log is for pages of {log} bytes, the database has {database} [OF-103]")]
    PageSize { log: u32, database: u32 },
    #[error(
        "strategy {0} cannot mark this database as in use: its header is not that of a database in \
            its journal mode, or uses reserved bytes [OF-104]"
    )]
    NoGuard(StrategyKind),
    #[error(
        "the database cannot be locked for writing (code {code}); strategy {strategy} has to mark \
            it as in use: open it for reading only, or use strategy=plain [OF-105]",
        strategy = .0,
        code = .1.0
    )]
    NotWritable(StrategyKind, Code),
    #[error(
        "another process keeps the log to itself (oneflush recover --dry-run does, while it \
            reads) [OF-106]"
    )]
    InUse,
    #[error(
        "strategy {0} was asked for, but the database is open elsewhere with SQLite's own WAL \
            (SQLite alone, or strategy stock or plain); close it there first [OF-107]"
    )]
    OtherStrategy(StrategyKind),
    #[error(
        "its WAL, which SQLite or strategy plain has left, cannot be copied into the database \
            file: {0} [OF-108]"
    )]
    Fold(String),
    #[error(
        "a crash has left commits in the log. Run `oneflush recover` as the owner; this connection \
            cannot recover them ({0}) [OF-109]"
    )]
    NeedsRecovery(String),
    #[error(
        "SQLite takes the file for no database, and its WAL has no first page to take instead. \
            Restore both from a backup [OF-110]"
    )]
    FoldNoDatabase,
    #[error("{0}")]
    Log(#[from] LogError),
    /// What the log says does not fit.
    #[error("{why}")]
    Recover { code: Code, why: String },
    #[error(
        "the file begins as no database does, not by a crash of ours, and the log beside it may \
            hold commits of it. Restore both from a backup, or move the log away [OF-111]"
    )]
    HeaderDamaged,
    #[error(
        "the file begins as no database does, encrypted perhaps, and the log beside it is not its \
            own: move the log away [OF-112]"
    )]
    NoDatabase,
    #[error(
        "a WAL of SQLite's own is beside the log, and both may hold commits. Move it away, run \
            `oneflush recover`, move it back [OF-113]"
    )]
    WalBesideLog,
    #[error("other processes use another log beside this database; close it there [OF-114]")]
    OtherBoard,
    #[error(
        "processes with another version of Oneflush have the database open; close it there, or use \
            the same version [OF-115]"
    )]
    OtherVersion,
    #[error(
        "this process has inherited connections to it by a fork, and its parent has gone without \
            closing the database. Close them all and open it again [OF-116]"
    )]
    Inherited,
    /// There is no log yet.
    #[error(
        "a log with blocks of {log_bytes} bytes cannot be made here: direct I/O needs blocks of \
            {storage_bytes} bytes. Use another layout, such as layout=embed [OF-140]"
    )]
    BlockSize { log_bytes: u32, storage_bytes: usize },
    #[error("code {} [OF-117]", .0.0)]
    Below(Code),
}

impl From<Code> for AttachError {
    fn from(code: Code) -> AttachError {
        AttachError::Below(code)
    }
}

impl AttachError {
    pub fn code(&self) -> Code {
        match self {
            AttachError::LogMissing
            | AttachError::LinkedLogMissing(_)
            | AttachError::LinkedLogOtherName { .. }
            | AttachError::LinkedLogOtherTime(_)
            | AttachError::OtherLog { .. }
            | AttachError::PageSize { .. }
            | AttachError::NoGuard(_)
            | AttachError::NeedsRecovery(_)
            | AttachError::NotWritable(..)
            | AttachError::OtherStrategy(_)
            | AttachError::Fold(_)
            | AttachError::WalBesideLog
            | AttachError::OtherBoard
            | AttachError::OtherVersion
            | AttachError::HeaderDamaged
            | AttachError::InUse
            | AttachError::BlockSize { .. }
            | AttachError::Inherited => Code::CANTOPEN,
            AttachError::FoldNoDatabase | AttachError::NoDatabase => Code::NOTADB,
            AttachError::Log(error) => code_of(error),
            AttachError::Recover { code, .. } => *code,
            AttachError::Below(code) => *code,
        }
    }
}
