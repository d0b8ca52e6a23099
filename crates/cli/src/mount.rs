//! `oneflush mount`, `umount` and `sync`: eager synching for every program, by FUSE.

mod background;
mod options;

use std::path::{Path, PathBuf};

use clap::Args;
use oneflush_eagerfs::mount::{self, Before, MountError, Mounted};
use serde_json::json;

use crate::failure::Failure;
use crate::output;
pub use options::Options;

/// Mounts, and serves until somebody unmounts: in a process of its own, unless asked otherwise.
pub fn main(options: &Options) -> Result<(), Failure> {
    let asked = options.asked().map_err(Failure::usage)?;
    if !asked.foreground && !background::is_child() {
        return background::start();
    }
    let mounted = mount::mount(&asked.mount)?;
    let text = said(&mounted, &asked.mount.lower);
    if background::is_child() {
        background::is_ready(&text).map_err(Failure::failed)?;
    } else {
        output::print(&text)?;
    }
    Ok(mounted.wait()?)
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Failure {
        use MountError::*;
        match &error {
            Unmount { .. } if error.is_busy() => Failure::again(error),
            // What was named forbids it, and nothing was tried.
            NotADirectory(_)
            | ReadOnly(_)
            | Nested { .. }
            | Taken { .. }
            | Mounted { .. }
            | LogInside { .. }
            | NoPlace(_)
            | BadPlace(_)
            | OfAnother(_)
            | Changed { .. }
            | NotOurs(_) => Failure::refused(error),
            File { .. }
            | NoFuse
            | Log { .. }
            | Recovery { .. }
            | Mount { .. }
            | Unmount { .. }
            | Sync { .. }
            | Poisoned { .. }
            | Dead { .. } => Failure::failed(error),
        }
    }
}

fn said(mounted: &Mounted, lower: &Path) -> String {
    let mut text = match mounted.before {
        Before::Nothing => String::new(),
        Before::Synced => "a log was there: only the daemon had died, and the directory is whole\n\
            (pages that only the kernel had are lost)\n"
            .to_owned(),
        Before::Replayed(recovered) => format!(
            "recovered from the log: {} objects, {} bytes, {} made anew, {} later than the log\n",
            recovered.objects, recovered.bytes, recovered.remade, recovered.later
        ),
    };
    let at = mounted.mountpoint.display();
    text += &format!(
        "{} is mounted at {at}\n\
        sync(2) and syncfs(2) do not reach it: run `oneflush sync {at}` instead; fsync does\n",
        lower.display()
    );
    text
}

const UMOUNT_EXAMPLES: &str = "Examples:
  oneflush umount /mnt/app   waits until the directory is whole without a log

Who has mounted may unmount. While a program uses the mount it is refused: leave
the directory, or end the program.";

#[derive(Args)]
#[command(after_help = UMOUNT_EXAMPLES)]
pub struct Umount {
    /// Where it is mounted
    mountpoint: PathBuf,
}

pub fn umount(options: &Umount) -> Result<(), Failure> {
    let dead = mount::is_dead(&options.mountpoint).then(|| mount::seen_at(&options.mountpoint));
    mount::unmount(&options.mountpoint)?;
    if let Some(Some(seen)) = dead {
        let (lower, at) = (seen.lower.display(), seen.at.display());
        eprintln!(
            "oneflush umount: its daemon had died, and its log is still there. Mount again: \
                oneflush mount {lower} {at}; or: oneflush recover --fs {lower}"
        );
    }
    Ok(())
}

const SYNC_EXAMPLES: &str = "Examples:
  oneflush sync /mnt/app     returns when everything that was written through
                             the mount is durable in the directory itself

sync(2), syncfs(2) and so the program `sync` do not reach a file system in user
space: the kernel answers \"done\" without asking it. fsync and fdatasync of a
file or directory do reach it.";

#[derive(Args)]
#[command(after_help = SYNC_EXAMPLES)]
pub struct Sync {
    /// Where it is mounted
    mountpoint: PathBuf,
}

pub fn sync(options: &Sync) -> Result<(), Failure> {
    Ok(mount::sync(&options.mountpoint)?)
}

/// What the daemon of a mount counts. `None`: nothing of ours is mounted there.
pub fn stats(mountpoint: &Path, as_json: bool) -> Result<Option<String>, Failure> {
    let stats = match mount::stats(mountpoint) {
        Err(MountError::NotOurs(_)) => return Ok(None),
        stats => stats?,
    };
    if as_json {
        let value = |text: &str| text.parse::<u64>().map_or_else(|_| json!(text), |n| json!(n));
        let all: serde_json::Map<String, serde_json::Value> =
            stats.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        return Ok(Some(format!("{}\n", serde_json::Value::Object(all))));
    }
    let mut text = format!("{}\n", mountpoint.display());
    let width = stats.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in stats {
        text += &format!("  {name:<width$}  {value}\n");
    }
    Ok(Some(text))
}

/// `oneflush recover --fs`: what the log holds goes into the directory, and the log is removed.
pub fn recover(
    lower: &Path,
    log: Option<&Path>,
    over_changes: bool,
    as_json: bool,
) -> Result<(), Failure> {
    let before = mount::recover(lower, log, over_changes)?;
    let name = lower.display();
    if as_json {
        let (found, recovered) = match before {
            Before::Nothing => ("nothing", Default::default()),
            Before::Synced => ("same boot", Default::default()),
            Before::Replayed(recovered) => ("log", recovered),
        };
        let json = json!({
            "directory": name.to_string(), "found": found, "objects": recovered.objects,
            "bytes": recovered.bytes, "remade": recovered.remade, "names": recovered.names,
            "later": recovered.later, "kept": recovered.kept,
        });
        return output::print(&format!("{json}\n"));
    }
    output::print(&match before {
        Before::Nothing => format!("{name}: there is nothing to recover\n"),
        Before::Synced => {
            format!("{name}: only the daemon had died; the directory is whole now\n")
        }
        Before::Replayed(recovered) => {
            let kept = match recovered.kept {
                0 => String::new(),
                kept => format!("; {kept} are in {name}/.oneflush-recovery, without a name"),
            };
            format!(
                "{name}: recovered {} objects, {} bytes; the directory is whole now{kept}\n",
                recovered.objects, recovered.bytes
            )
        }
    })
}
