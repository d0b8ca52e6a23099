//! The options of `oneflush recover`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "Examples:
  oneflush recover app.db             what the log holds goes into app.db, and
                                      the log is removed
  oneflush recover app.db --dry-run   only say what would be done
  oneflush recover app.db --accept-loss
                                      the log is lost or damaged: copies all
                                      files aside, keeps what can be kept,
                                      says what is lost
  oneflush recover b.db --with a.db   the last commits of b.db are in the log of
                                      a.db, which was moved or renamed (maw)
  oneflush recover a.db --forget b.db
                                      b.db is gone for good: what the log of
                                      a.db has for it may be removed
  oneflush recover --fs /srv/data     a directory that oneflush mount had
                                      mounted when it was interrupted

Opening the database with the strategy of its log, eager, waldio or maw, does
the same. So does an open with plain. Nothing is removed before the database
file has everything. A database of LS-MVBT has no log, so it is left alone.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file; its log is expected beside it. With --fs the directory
    pub(super) database: PathBuf,
    /// Recover a directory that was mounted by oneflush mount
    #[arg(long, conflicts_with_all = ["dry_run", "accept_loss", "with", "forget"])]
    pub(super) fs: bool,
    /// With --fs: the log's file, if it was named at the mount
    #[arg(long, value_name = "FILE", requires = "fs")]
    pub(super) log: Option<PathBuf>,
    /// With --fs: also if the directory was used without the mount since it was
    /// interrupted. What the log has may be older than those changes
    #[arg(long, requires = "fs")]
    pub(super) over_changes: bool,
    /// Check the log and say what it holds, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Where the log is lost or damaged, go on without what is lost. First
    /// everything is copied to a folder beside the database
    #[arg(long)]
    pub(super) accept_loss: bool,
    /// A database of the same transactions (strategy maw), or its log, that is
    /// not where it was, or has another name
    #[arg(long, value_name = "FILE")]
    pub(super) with: Option<PathBuf>,
    /// A database of the same transactions that is gone for good: no log is
    /// kept for it
    #[arg(long, value_name = "FILE")]
    pub(super) forget: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}
