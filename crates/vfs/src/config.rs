//! Options: the URI parameters of one open go over environment variables, which go over defaults.
//!
//! | URI parameter | environment variable | values | default |
//! |---|---|---|---|
//! | `strategy` | `ONEFLUSH_STRATEGY` | `auto` or the name of a [`StrategyKind`] | `auto` |
//! | `durability` | `ONEFLUSH_DURABILITY` | `pragma`, `full` | `pragma` |
//! | `group_commit` | `ONEFLUSH_GROUP_COMMIT` | `on`, `off` | `on` |
//! | `log_size` | `ONEFLUSH_LOG_SIZE` | bytes, 1 MiB to 1 TiB | 64 MiB |
//! | `prealloc` | `ONEFLUSH_PREALLOC` | bytes, 0 to 1 GiB | 1 MiB |
//! | `keep_wal` | `ONEFLUSH_KEEP_WAL` | `on`, `off` | `on` |
//! | `checkpoints` | `ONEFLUSH_CHECKPOINTS` | `background`, `sqlite` | `background` |
//! | `layout` | `ONEFLUSH_LAYOUT` | `embed`, `pad512`, `pad4k`, `pad8k` | `embed` |
//! | `sync` | `ONEFLUSH_SYNC` | `fs`, `pd`, `ns` | `fs` |
//! | `group` | `ONEFLUSH_GROUP` | frames, 0 (off) to 1024 | 0 |
//! | `interval` | `ONEFLUSH_INTERVAL` | milliseconds, 1 to 1000, as in `2ms` | `2ms` |
//! | `atomic` | `ONEFLUSH_ATOMIC` | `auto`, `f2fs`, `xfs`, `log` | `auto` |
//! | `seatbelt` | `ONEFLUSH_SEATBELT` | `on`, `off` | `on`, with `stock`: `off` |
//! | `unsafe_ground` | `ONEFLUSH_UNSAFE_GROUND` | `refuse`, `allow` | `refuse` |
//! | | `ONEFLUSH_DEFAULT` | `0`, `1` | `0` |
//! | | `ONEFLUSH_LOG` | `off`, `stderr`, `syslog`, a file for messages (`messages.rs`) | `off` |
//! | | `ONEFLUSH_TRACE` | a file that gets a line for each call (`calls.rs`) | none |
//!
//! `layout`, `sync`, `group` and `interval` are for `waldio`, `atomic` is for `maw`. `group_commit`
//! and `log_size` permit and bound. A strategy without group commit or log has no use for them.
//! `durability=full` promises. A strategy that cannot keep the promise refuses the open.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use oneflush_blocklog::ground::Fault;
use oneflush_blocklog::messages;

/// How commits are made durable.
///
/// More strategies come with later versions. A name that this version lacks is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StrategyKind {
    /// SQLite's own calls, counted and otherwise unchanged.
    Stock,
    /// SQLite's own files, written with fewer flushes. For WAL mode; in the rollback modes it
    /// changes nothing.
    Plain,
    /// A commit is one aligned write to a log beside the database. For WAL mode; in the rollback
    /// modes it changes nothing.
    Eager,
    /// SQLite's WAL in preallocated slots, written by direct I/O. For WAL mode; in the rollback
    /// modes it changes nothing.
    Waldio,
    /// Commits without a rollback journal. For the rollback modes; in WAL mode it changes nothing.
    Maw,
}

const AUTO: &str = "auto";

/// The words that choose a strategy, for messages.
const STRATEGIES: &str = "auto, stock, plain, eager, waldio, maw";

impl StrategyKind {
    pub const ALL: [StrategyKind; 5] = [
        StrategyKind::Stock,
        StrategyKind::Plain,
        StrategyKind::Eager,
        StrategyKind::Waldio,
        StrategyKind::Maw,
    ];

    pub fn name(self) -> &'static str {
        match self {
            StrategyKind::Stock => "stock",
            StrategyKind::Plain => "plain",
            StrategyKind::Eager => "eager",
            StrategyKind::Waldio => "waldio",
            StrategyKind::Maw => "maw",
        }
    }

    /// The strategy may have a log beside the database, and a guard in the database.
    pub fn has_log(self) -> bool {
        matches!(self, StrategyKind::Eager | StrategyKind::Waldio | StrategyKind::Maw)
    }

    /// The strategy is for the rollback modes. The others that are not `stock` are for WAL mode.
    pub fn is_for_rollback(self) -> bool {
        self == StrategyKind::Maw
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StrategyKind {
    type Err = OptionError;

    /// `auto` is what leaves plain SQLite files at all times: `plain`, which acts as `stock` in the
    /// rollback modes.
    fn from_str(word: &str) -> Result<StrategyKind, OptionError> {
        if word.eq_ignore_ascii_case(AUTO) {
            return Ok(StrategyKind::Plain);
        }
        StrategyKind::ALL
            .into_iter()
            .find(|kind| word.eq_ignore_ascii_case(kind.name()))
            .ok_or_else(|| OptionError::value(Source::Caller("strategy"), word, STRATEGIES))
    }
}

/// How `waldio` aligns the frames of its log (WALDIO section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The header is in the page.
    #[default]
    Embed,
    /// The header has a sector of its own. Frames share blocks.
    Pad512,
    /// The header has a block of its own. A frame of a 4-KiB page is not aligned to its 8 KiB.
    Pad4k,
    /// Header and page are as long as a flash page of 8 KiB, or several, and aligned to it.
    Pad8k,
}

impl Layout {
    pub const ALL: [Layout; 4] = [Layout::Embed, Layout::Pad512, Layout::Pad4k, Layout::Pad8k];

    pub const fn name(self) -> &'static str {
        match self {
            Layout::Embed => "embed",
            Layout::Pad512 => "pad512",
            Layout::Pad4k => "pad4k",
            Layout::Pad8k => "pad8k",
        }
    }
}

/// What `waldio` does to make a commit durable (WALDIO section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WalSync {
    /// A write, then a flush of the device ("full sync").
    #[default]
    Fs,
    /// A write that is durable by itself, `RWF_DSYNC` ("persistent direct I/O").
    Pd,
    /// A write ("normal sync"). A loss of power may take commits; a crash of the system does not.
    Ns,
}

impl WalSync {
    pub const ALL: [WalSync; 3] = [WalSync::Fs, WalSync::Pd, WalSync::Ns];

    pub const fn name(self) -> &'static str {
        match self {
            WalSync::Fs => "fs",
            WalSync::Pd => "pd",
            WalSync::Ns => "ns",
        }
    }
}

/// What makes the commits of `maw` atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// F2FS's atomic write where it is there, else the log.
    #[default]
    Auto,
    /// `F2FS_IOC_START_ATOMIC_WRITE` and its companions.
    F2fs,
    /// `XFS_IOC_EXCHANGE_RANGE`.
    Xfs,
    /// A record in a log beside the database.
    Log,
}

impl Atomic {
    pub const ALL: [Atomic; 4] = [Atomic::Auto, Atomic::F2fs, Atomic::Xfs, Atomic::Log];

    pub const fn name(self) -> &'static str {
        match self {
            Atomic::Auto => AUTO,
            Atomic::F2fs => "f2fs",
            Atomic::Xfs => "xfs",
            Atomic::Log => "log",
        }
    }
}

impl fmt::Display for Atomic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose word decides whether a commit is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The connection's `PRAGMA synchronous`.
    Pragma,
    /// Every commit is durable, whatever the PRAGMA says.
    Full,
}

impl Durability {
    pub fn name(self) -> &'static str {
        match self {
            Durability::Pragma => "pragma",
            Durability::Full => "full",
        }
    }
}

/// Where a value came from. So a message names what the user has to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Uri(&'static str),
    Environment(&'static str),
    /// A caller that names the source itself, such as a command line.
    Caller(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Uri(name) => write!(f, "URI parameter {name}"),
            Source::Environment(name) => write!(f, "environment variable {name}"),
            Source::Caller(name) => f.write_str(name),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    #[error(
        "{source_name}: \"{value}\" is not known to Oneflush {version}; allowed: {allowed} [OF-401]"
    )]
    Value { source_name: String, value: String, allowed: &'static str, version: &'static str },
    #[error("URI parameter {name} is not known to Oneflush {version}; {way_out} [OF-412]")]
    UnknownParameter { name: String, version: &'static str, way_out: String },
    #[error(
        "durability=full: strategy {strategy} changes nothing, so it cannot promise more than \
            PRAGMA synchronous; \
         use durability=pragma and PRAGMA synchronous=FULL or EXTRA [OF-402]"
    )]
    DurabilityNotPromised { strategy: StrategyKind },
    #[error(
        "durability=full: sync=ns flushes no commit, so it cannot promise that; use sync=fs or \
            sync=pd [OF-413]"
    )]
    SyncNotPromised,
    #[error("atomic={atomic}: {reason}; use atomic=auto, or atomic=log [OF-415]")]
    NoAtomic { atomic: Atomic, reason: String },
    #[error(
        "durability=full: group acknowledges commits before they are durable; use group=0, with \
            which commits share flushes and wait for them [OF-414]"
    )]
    GroupNotPromised,
    #[error(
        "strategy {asked} was asked for, but this process has the database open with strategy \
            {in_use}; use that, or close it first [OF-119]"
    )]
    OtherStrategy { asked: StrategyKind, in_use: StrategyKind },
    #[error(
        "strategy {asked} was asked for, but the database is, or was, in use with strategy {by}, \
            and its log cannot be copied into it: {why}; \
         use strategy={by}, or close it there [OF-120]"
    )]
    Guarded { asked: StrategyKind, by: StrategyKind, why: String },
    #[error(
        "strategy {asked} was asked for, but the database was in use with eager, waldio or maw, \
            and the log is missing, with commits perhaps. Put it back beside the database [OF-141]"
    )]
    LogMissing { asked: StrategyKind },
    #[error(
        "{promised} is not possible for a database whose name is not UTF-8; rename it or its \
            folder, or leave the option out [OF-121]"
    )]
    NotUtf8 { promised: &'static str },
    #[error(
        "{strategy} is refused on {file_system}: {fault}, or strategy=plain, or \
            unsafe_ground=allow [OF-118]"
    )]
    UnsafeGround { strategy: StrategyKind, file_system: String, fault: Fault },
    #[error(
        "environment variable ONEFLUSH_TRACE: {path} cannot be written: {reason}; name a file in a \
            folder that is there [OF-403]"
    )]
    Trace { path: String, reason: String },
    #[error("{0}")]
    Log(#[from] messages::Refused),
}

impl OptionError {
    fn value(source: Source, value: &str, allowed: &'static str) -> OptionError {
        OptionError::Value {
            source_name: source.to_string(),
            value: value.to_owned(),
            allowed,
            version: crate::VERSION,
        }
    }
}

/// The options of one connection to one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub strategy: StrategyKind,
    /// The user asked for this very strategy and so wants to know where it changes nothing.
    pub strategy_is_named: bool,
    pub durability: Durability,
    pub group_commit: bool,
    pub log_size_bytes: u64,
    /// By how much the WAL is extended ahead. 0: not at all.
    pub prealloc_bytes: u64,
    /// Whether the WAL outlives the last close.
    pub keep_wal: bool,
    /// Whether automatic checkpoints run in a thread of their own.
    pub checkpoints_in_background: bool,
    /// The layout of a new log.
    pub layout: Layout,
    pub wal_sync: WalSync,
    /// Commits are acknowledged when they are in a buffer of so many frames. 0: when they are
    /// durable.
    pub group_frames: u32,
    /// The buffer is written after this time.
    pub group_interval: Duration,
    pub atomic: Atomic,
    /// The connection was opened for this alone: with `maw`, the database leaves the log of another
    /// one. No user can ask for it.
    pub(crate) leaves_log: bool,
    /// The same, where the log is to be retired while connections of this process are still open.
    pub(crate) retires_log: bool,
    /// Whether unsafe ground is only reported, and nothing is refused or left out for it.
    pub allows_unsafe_ground: bool,
    /// Whether SQLite's locks are held so that no `close()` takes them away. `None`: with each
    /// strategy but `stock`.
    pub seatbelt: Option<bool>,
}

const LOG_SIZE_BYTES_MIN: u64 = 1 << 20;
const LOG_SIZE_BYTES_MAX: u64 = 1 << 40;
const PREALLOC_BYTES_MAX: u64 = 1 << 30;
const GROUP_FRAMES_MAX: u32 = 1024;

impl Default for Options {
    fn default() -> Options {
        Options {
            strategy: StrategyKind::Plain,
            strategy_is_named: false,
            durability: Durability::Pragma,
            group_commit: true,
            log_size_bytes: 64 << 20,
            prealloc_bytes: 1 << 20,
            keep_wal: true,
            checkpoints_in_background: true,
            layout: Layout::Embed,
            wal_sync: WalSync::Fs,
            group_frames: 0,
            group_interval: Duration::from_millis(2),
            atomic: Atomic::Auto,
            leaves_log: false,
            retires_log: false,
            allows_unsafe_ground: false,
            seatbelt: None,
        }
    }
}

impl Options {
    pub fn has_seatbelt(&self) -> bool {
        self.seatbelt.unwrap_or(self.strategy != StrategyKind::Stock)
    }

    /// The defaults of this process. `lookup` reads an environment variable.
    pub fn from_environment(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Options, OptionError> {
        const NAMES: [&str; 14] = [
            "ONEFLUSH_STRATEGY",
            "ONEFLUSH_DURABILITY",
            "ONEFLUSH_GROUP_COMMIT",
            "ONEFLUSH_LOG_SIZE",
            "ONEFLUSH_PREALLOC",
            "ONEFLUSH_KEEP_WAL",
            "ONEFLUSH_CHECKPOINTS",
            "ONEFLUSH_UNSAFE_GROUND",
            "ONEFLUSH_LAYOUT",
            "ONEFLUSH_SYNC",
            "ONEFLUSH_GROUP",
            "ONEFLUSH_INTERVAL",
            "ONEFLUSH_ATOMIC",
            "ONEFLUSH_SEATBELT",
        ];
        Options::default().with(|at| Some((Source::Environment(NAMES[at]), lookup(NAMES[at])?)))
    }

    /// These options as changed by the parameters of one URI. `lookup` reads a parameter.
    pub fn with_uri(
        &self,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Options, OptionError> {
        const NAMES: [&str; 14] = [
            "strategy",
            "durability",
            "group_commit",
            "log_size",
            "prealloc",
            "keep_wal",
            "checkpoints",
            "unsafe_ground",
            "layout",
            "sync",
            "group",
            "interval",
            "atomic",
            "seatbelt",
        ];
        self.clone().with(|at| Some((Source::Uri(NAMES[at]), lookup(NAMES[at])?)))
    }

    fn with(
        mut self,
        given: impl Fn(usize) -> Option<(Source, String)>,
    ) -> Result<Options, OptionError> {
        if let Some((source, word)) = given(0) {
            self.strategy =
                word.parse().map_err(|_| OptionError::value(source, &word, STRATEGIES))?;
            self.strategy_is_named = !word.eq_ignore_ascii_case(AUTO);
        }
        if let Some((source, word)) = given(1) {
            self.durability = match word.to_ascii_lowercase().as_str() {
                "pragma" => Durability::Pragma,
                "full" => Durability::Full,
                _ => return Err(OptionError::value(source, &word, "pragma, full")),
            };
        }
        if let Some((source, word)) = given(2) {
            self.group_commit = switch(source, &word)?;
        }
        if let Some((source, word)) = given(3) {
            let allowed = "a number of bytes from 1048576 (1 MiB) to 1099511627776 (1 TiB)";
            self.log_size_bytes = word
                .parse()
                .ok()
                .filter(|size| (LOG_SIZE_BYTES_MIN..=LOG_SIZE_BYTES_MAX).contains(size))
                .ok_or_else(|| OptionError::value(source, &word, allowed))?;
        }
        if let Some((source, word)) = given(4) {
            let allowed = "a number of bytes from 0 (none) to 1073741824 (1 GiB)";
            self.prealloc_bytes = word
                .parse()
                .ok()
                .filter(|size| *size <= PREALLOC_BYTES_MAX)
                .ok_or_else(|| OptionError::value(source, &word, allowed))?;
        }
        if let Some((source, word)) = given(5) {
            self.keep_wal = switch(source, &word)?;
        }
        if let Some((source, word)) = given(6) {
            self.checkpoints_in_background = match word.to_ascii_lowercase().as_str() {
                "background" => true,
                "sqlite" => false,
                _ => return Err(OptionError::value(source, &word, "background, sqlite")),
            };
        }
        if let Some((source, word)) = given(7) {
            self.allows_unsafe_ground = match word.to_ascii_lowercase().as_str() {
                "refuse" => false,
                "allow" => true,
                _ => return Err(OptionError::value(source, &word, "refuse, allow")),
            };
        }
        if let Some((source, word)) = given(8) {
            self.layout = Layout::ALL
                .into_iter()
                .find(|layout| word.eq_ignore_ascii_case(layout.name()))
                .ok_or_else(|| OptionError::value(source, &word, "embed, pad512, pad4k, pad8k"))?;
        }
        if let Some((source, word)) = given(9) {
            self.wal_sync = WalSync::ALL
                .into_iter()
                .find(|sync| word.eq_ignore_ascii_case(sync.name()))
                .ok_or_else(|| OptionError::value(source, &word, "fs, pd, ns"))?;
        }
        if let Some((source, word)) = given(10) {
            let allowed = "a number of frames from 0 (off) to 1024";
            self.group_frames = word
                .parse()
                .ok()
                .filter(|frames| *frames <= GROUP_FRAMES_MAX)
                .ok_or_else(|| OptionError::value(source, &word, allowed))?;
        }
        if let Some((source, word)) = given(11) {
            let allowed = "milliseconds from 1 to 1000, as in 2ms";
            self.group_interval = word
                .strip_suffix("ms")
                .unwrap_or(&word)
                .parse()
                .ok()
                .filter(|milliseconds| (1..=1000).contains(milliseconds))
                .map(Duration::from_millis)
                .ok_or_else(|| OptionError::value(source, &word, allowed))?;
        }
        if let Some((source, word)) = given(12) {
            self.atomic = Atomic::ALL
                .into_iter()
                .find(|atomic| word.eq_ignore_ascii_case(atomic.name()))
                .ok_or_else(|| OptionError::value(source, &word, "auto, f2fs, xfs, log"))?;
        }
        if let Some((source, word)) = given(13) {
            self.seatbelt = Some(switch(source, &word)?);
        }
        match (self.strategy, self.durability) {
            (StrategyKind::Waldio, Durability::Full) if self.group_frames > 0 => {
                Err(OptionError::GroupNotPromised)
            }
            (StrategyKind::Stock, Durability::Full) => {
                Err(OptionError::DurabilityNotPromised { strategy: self.strategy })
            }
            (StrategyKind::Waldio, Durability::Full) if self.wal_sync == WalSync::Ns => {
                Err(OptionError::SyncNotPromised)
            }
            _ => Ok(self),
        }
    }
}

/// `ONEFLUSH_DEFAULT`: whether the VFS becomes the process's default.
pub fn default_wanted(lookup: impl Fn(&str) -> Option<String>) -> Result<bool, OptionError> {
    const NAME: &str = "ONEFLUSH_DEFAULT";
    match lookup(NAME).as_deref() {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(word) => Err(OptionError::value(Source::Environment(NAME), word, "0, 1")),
    }
}

fn switch(source: Source, word: &str) -> Result<bool, OptionError> {
    match word.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(OptionError::value(source, word, "on, off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(name: &'static str, value: &'static str) -> Result<Options, OptionError> {
        Options::default().with_uri(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn auto_is_plain_and_case_does_not_matter() {
        assert_eq!(uri("strategy", "AUTO").unwrap().strategy, StrategyKind::Plain);
        assert_eq!(uri("strategy", "Stock").unwrap().strategy, StrategyKind::Stock);
        assert!(uri("strategy", "plain").unwrap().strategy_is_named);
        assert!(
            !uri("strategy", "Auto").unwrap().strategy_is_named
                && !Options::default().strategy_is_named
        );
    }

    #[test]
    fn an_unknown_value_is_named_with_its_parameter_and_what_is_allowed() {
        for (name, value, allowed) in [
            ("strategy", "fast", "auto, stock, plain, eager, waldio, maw"),
            ("atomic", "ext4", "auto, f2fs, xfs, log"),
            ("layout", "pad", "embed, pad512, pad4k, pad8k"),
            ("sync", "no", "fs, pd, ns"),
            ("group", "1025", "0 (off) to 1024"),
            ("interval", "2s", "as in 2ms"),
            ("prealloc", "1M", "1 GiB"),
            ("prealloc", "1073741825", "1 GiB"),
            ("keep_wal", "yes", "on, off"),
            ("checkpoints", "never", "background, sqlite"),
            ("durability", "maybe", "pragma, full"),
            ("unsafe_ground", "yes", "refuse, allow"),
            ("group_commit", "1", "on, off"),
            ("seatbelt", "yes", "on, off"),
            ("log_size", "12", "1 MiB"),
            ("log_size", "-1", "1 MiB"),
            ("log_size", "64M", "1 MiB"),
        ] {
            let message = uri(name, value).unwrap_err().to_string();
            assert!(message.contains(&format!("URI parameter {name}")), "{message}");
            assert!(message.contains(&format!("\"{value}\"")), "{message}");
            assert!(message.contains(allowed), "{message}");
        }
    }

    #[test]
    fn a_uri_overrides_the_environment() {
        let environment = Options::from_environment(|name| {
            (name == "ONEFLUSH_GROUP_COMMIT").then(|| "off".to_owned())
        })
        .unwrap();
        assert!(!environment.group_commit);
        let both =
            environment.with_uri(|name| (name == "group_commit").then(|| "on".to_owned())).unwrap();
        assert!(both.group_commit);
    }

    #[test]
    fn an_environment_variable_is_named_in_its_error() {
        let error =
            Options::from_environment(|name| (name == "ONEFLUSH_STRATEGY").then(|| "x".to_owned()))
                .unwrap_err();
        assert!(error.to_string().contains("environment variable ONEFLUSH_STRATEGY"), "{error}");
    }

    #[test]
    fn stock_refuses_a_durability_that_it_cannot_promise() {
        let stock = Options { strategy: StrategyKind::Stock, ..Options::default() };
        assert_eq!(
            stock.with_uri(|name| (name == "durability").then(|| "full".to_owned())).unwrap_err(),
            OptionError::DurabilityNotPromised { strategy: StrategyKind::Stock }
        );
    }

    #[test]
    fn the_default_switch_takes_0_and_1_only() {
        assert!(!default_wanted(|_| None).unwrap());
        assert!(default_wanted(|_| Some("1".to_owned())).unwrap());
        let error = default_wanted(|_| Some("yes".to_owned())).unwrap_err();
        assert!(error.to_string().contains("ONEFLUSH_DEFAULT"), "{error}");
    }
}
