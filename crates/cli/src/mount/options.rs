//! The command line of `oneflush mount`, also as mount(8) calls it.

use std::path::PathBuf;

use clap::Args;
use oneflush_eagerfs::mount;
use oneflush_eagerfs::tree::Isets;

use crate::size;

const EXAMPLES: &str = "Examples:
  oneflush mount /srv/data /mnt/data     programs that use /mnt/data have their
                                         syncs in one write and one flush
  oneflush mount /srv/data /mnt/data --log /fast/data.log
  oneflush umount /mnt/data              /srv/data is whole, without a log
  oneflush stats /mnt/data               syncs, records, bytes, epochs
  mount -t fuse.oneflush /srv/data /mnt/data -o allow_other
                                         by mount(8), or a line of /etc/fstab

Use the directory only through the mount while it is mounted. After a loss of
power mount it again, or run `oneflush recover --fs /srv/data`, before anything
else uses it. The log holds contents of files; it belongs to who mounts, and
nobody else may read it. sync(2) and syncfs(2) do not reach a file system in
user space: `oneflush sync /mnt/data` does what they do.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The directory that is mounted. Its log is made beside it
    lower: PathBuf,
    /// An empty directory, where programs find it
    mountpoint: PathBuf,
    /// The log's file; otherwise LOWER-oneflush/log. Never inside LOWER
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// What the log may grow to
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = size::parse)]
    log_size: u64,
    /// A sync of more bytes is left to the file system below
    #[arg(long, value_name = "BYTES", default_value = "400K", value_parser = size::parse)]
    threshold: u64,
    /// Which operations go with a file's sync. With closure and merge, which
    /// are the paper's, a crash may undo what programs rely on: for comparison
    #[arg(long, value_name = "WHICH", default_value = "all",
          value_parser = ["all", "closure", "merge"])]
    isets: String,
    /// Other users may use the mount, too
    #[arg(long)]
    allow_other: bool,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(long, short)]
    foreground: bool,
    /// Options of mount(8): log=FILE, log_size=, threshold=, isets=,
    /// allow_other, nonempty; those of every file system are taken as well
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    of_mount: Vec<String>,
}

/// What is asked for.
pub struct Asked {
    pub mount: mount::Options,
    pub foreground: bool,
}

/// What mount(8) passes on to every file system, and what is for mount(8) alone.
const OF_EVERY: &[&str] = &[
    "rw",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nofail",
    "_netdev",
    "defaults",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "atime",
    "noatime",
    "relatime",
    "async",
    "default_permissions",
];

impl Options {
    pub fn asked(&self) -> Result<Asked, String> {
        let mut mount = mount::Options {
            log: self.log.clone(),
            log_bytes: self.log_size,
            threshold_bytes: self.threshold,
            isets: isets(&self.isets)?,
            allow_other: self.allow_other,
            ..mount::Options::new(&self.lower, &self.mountpoint)
        };
        for option in self.of_mount.iter().filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let bytes = || size::parse(value).map_err(|error| format!("-o {option}: {error}"));
            match name {
                "log" => mount.log = Some(value.into()),
                "log_size" => mount.log_bytes = bytes()?,
                "threshold" => mount.threshold_bytes = bytes()?,
                "isets" => mount.isets = isets(value)?,
                "allow_other" => mount.allow_other = true,
                "nonempty" => mount.may_hide = true,
                _ if OF_EVERY.contains(&name) || name.starts_with("x-") => {}
                "ro" => return Err("-o ro: mount the directory read-only by mount(8)".to_owned()),
                _ => {
                    return Err(format!(
                        "-o {option}: not known; allowed are log=FILE, log_size=BYTES, \
                            threshold=BYTES, isets=all|closure|merge, allow_other, nonempty"
                    ));
                }
            }
        }
        const LOG_BYTES_MIN: u64 = 16 << 20;
        if mount.log_bytes < LOG_BYTES_MIN {
            return Err(format!(
                "--log-size {}: at least 16M, since a log has two halves",
                mount.log_bytes
            ));
        }
        if mount.threshold_bytes > mount.log_bytes / 8 {
            return Err(format!(
                "--threshold {}: at most an eighth of --log-size, {}",
                mount.threshold_bytes,
                mount.log_bytes / 8
            ));
        }
        Ok(Asked { mount, foreground: self.foreground })
    }
}

fn isets(name: &str) -> Result<Isets, String> {
    match name {
        "all" => Ok(Isets::All),
        "closure" => Ok(Isets::Closure),
        "merge" => Ok(Isets::Merge),
        other => Err(format!("isets {other}: allowed are all, closure, merge")),
    }
}
