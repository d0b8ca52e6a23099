//! Mounts an emulated device: `flash_serve MOUNTPOINT PRESET MEBIBYTES IMAGE [SHARE OVERWRITES]`.
//!
//! PRESET is `emmc`, `ufs`, `sd`, `nvme`, or `zero`, which takes no time at all. IMAGE is made, or
//! overwritten. It ends when it is unmounted. As root, with a loop device on it:
//!
//! ```text
//! losetup --direct-io=on --find --show MOUNTPOINT/disk
//! ```

use std::env::args;
use std::error::Error;
use std::fs::OpenOptions;
use std::path::Path;

use oneflush_flash::serve::{Options, Precondition, serve};
use oneflush_flash::{Preset, Timing};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [mountpoint, preset, mebibytes, image, rest @ ..] = arguments.as_slice() else {
        return Err("flash_serve MOUNTPOINT PRESET MEBIBYTES IMAGE [SHARE OVERWRITES]".into());
    };
    let is_zero = preset == "zero";
    let name = if is_zero { "nvme" } else { preset };
    let preset = Preset::named(name)
        .ok_or_else(|| format!("no preset {name}: take emmc, ufs, sd, nvme or zero"))?;
    let mut options = Options::of(preset, mebibytes.parse::<u64>()? << 20);
    if is_zero {
        options.name = "zero".to_owned();
        options.model.timing = Timing::ZERO;
    }
    if let [share, overwrites, ..] = rest {
        let (share, overwrites) = (share.parse()?, overwrites.parse()?);
        options.precondition = Some(Precondition { share, overwrites });
    }
    let image =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(image)?;
    serve(Path::new(mountpoint), options, image)?;
    Ok(())
}
