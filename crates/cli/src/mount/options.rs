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
    /// allow_other, nonempty, nosuid, nodev, noexec; later ones win. Those of
    /// every file system are taken as well
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    of_mount: Vec<String>,
}

/// What is asked for.
pub struct Asked {
    pub mount: mount::Options,
    pub foreground: bool,
}

/// What mount(8) passes on to every file system and this one has anyway, and what is for mount(8)
/// alone.
const WITHOUT_MEANING: &[&str] = &[
    "rw",
    "auto",
    "noauto",
    "nouser",
    "nofail",
    "_netdev",
    "defaults",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
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
            take(option, &mut mount)?;
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

/// An option of mount(8). What it says holds until a later one says otherwise.
fn take(option: &str, mount: &mut mount::Options) -> Result<(), String> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let bytes = || size::parse(value).map_err(|error| format!("-o {option}: {error}"));
    match name {
        "log" => mount.log = Some(value.into()),
        "log_size" => mount.log_bytes = bytes()?,
        "threshold" => mount.threshold_bytes = bytes()?,
        "isets" => mount.isets = isets(value)?,
        "allow_other" => mount.allow_other = true,
        "nonempty" => mount.may_hide = true,
        "suid" | "nosuid" => mount.nosuid = name == "nosuid",
        "dev" | "nodev" => mount.nodev = name == "nodev",
        "exec" | "noexec" => mount.noexec = name == "noexec",
        // Users may mount so. What these imply is in the manual page of mount(8).
        "user" | "users" => (mount.nosuid, mount.nodev, mount.noexec) = (true, true, true),
        "owner" | "group" => (mount.nosuid, mount.nodev) = (true, true),
        _ if WITHOUT_MEANING.contains(&name) || name.starts_with("x-") => {}
        "ro" => return Err("-o ro: mount the directory read-only by mount(8)".to_owned()),
        _ => {
            return Err(format!(
                "-o {option}: not known; allowed are log=FILE, log_size=BYTES, threshold=BYTES, \
                    isets=all|closure|merge, allow_other, nonempty, nosuid, nodev, noexec"
            ));
        }
    }
    Ok(())
}

fn isets(name: &str) -> Result<Isets, String> {
    match name {
        "all" => Ok(Isets::All),
        "closure" => Ok(Isets::Closure),
        "merge" => Ok(Isets::Merge),
        other => Err(format!("isets {other}: allowed are all, closure, merge")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn asked(options: &str) -> Result<mount::Options, String> {
        let line = Line::try_parse_from(["mount", "/lower", "/at", "-o", options]).unwrap();
        Ok(line.options.asked()?.mount)
    }

    /// For each text of options: whether there is no set-user-ID, no device, no program to run.
    #[track_caller]
    fn expect_forbidden(cases: &[(&str, [bool; 3])]) {
        for (options, expected) in cases {
            let mount = asked(options).unwrap();
            assert_eq!([mount.nosuid, mount.nodev, mount.noexec], *expected, "{options}");
        }
    }

    /// They were taken and forgotten once: with `nosuid` a program of root ran as root.
    #[test]
    fn what_is_forbidden_reaches_the_mount() {
        expect_forbidden(&[
            ("rw", [false, false, false]),
            ("defaults,noatime,x-systemd.automount", [false, false, false]),
            ("nosuid", [true, false, false]),
            ("rw,nodev,allow_other", [false, true, false]),
            ("noexec", [false, false, true]),
            ("nosuid,nodev,noexec", [true, true, true]),
        ]);
    }

    #[test]
    fn who_lets_users_mount_forbids_as_mount_8_does() {
        expect_forbidden(&[
            ("user", [true, true, true]),
            ("users", [true, true, true]),
            ("user=somebody", [true, true, true]),
            ("owner", [true, true, false]),
            ("group", [true, true, false]),
            ("nouser", [false, false, false]),
        ]);
    }

    #[test]
    fn of_two_options_the_later_one_wins() {
        expect_forbidden(&[
            ("nosuid,suid", [false, false, false]),
            ("suid,nosuid", [true, false, false]),
            ("user,exec,dev,suid", [false, false, false]),
            ("suid,dev,exec,users", [true, true, true]),
            ("group,dev", [true, false, false]),
            ("noexec,defaults", [false, false, true]),
        ]);
        assert_eq!(asked("log=/a,threshold=1K,log=/b").unwrap().log, Some("/b".into()));
        let line = ["mount", "/lower", "/at", "-o", "nosuid,nodev", "-o", "suid"];
        let mount = Line::try_parse_from(line).unwrap().options.asked().unwrap().mount;
        assert!(!mount.nosuid && mount.nodev);
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_name() {
        for option in ["ro", "sync", "dirsync", "nosymfollow", "nonsense=1"] {
            let error = asked(&format!("rw,{option}")).unwrap_err();
            assert!(error.contains(&format!("-o {option}: ")), "{error}");
        }
    }
}
