//! Which events are recorded, and how a record becomes an [`Event`].

use std::io::ErrorKind;
use std::sync::Arc;

use super::KernelError;
use super::attribute::{Event, What, Whose, Write, Writer};
use super::format::{Field, Format};
use super::layout;
use super::tracefs::Instance;
use super::volume::{FileSystem, Volume};
use crate::model::SECTOR_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Extent,
    /// F2FS: a page and its block.
    Page,
    Queued,
    Merged,
    Split,
}

/// Block events must be there. The rest: as the kernel and its file systems have them.
const EVENTS: [(&str, Kind); 14] = [
    ("block/block_bio_queue", Kind::Queued),
    ("block/block_bio_backmerge", Kind::Merged),
    ("block/block_bio_frontmerge", Kind::Merged),
    ("block/block_split", Kind::Split),
    ("ext4/ext4_writepages", Kind::File),
    // Data that the journal thread writes before it commits (data=ordered).
    ("jbd2/jbd2_submit_inode_data", Kind::File),
    // Write-back of xfs: the name since Linux 6.17, and the older name.
    ("iomap/iomap_writeback_folio", Kind::File),
    ("iomap/iomap_writepage", Kind::File),
    // Direct I/O of all three.
    ("iomap/iomap_dio_rw_begin", Kind::File),
    ("btrfs/btrfs_ordered_extent_add", Kind::Extent),
    // To a new place, or in place: newer names, and the older ones.
    ("f2fs/f2fs_submit_folio_write", Kind::Page),
    ("f2fs/f2fs_submit_folio_bio", Kind::Page),
    ("f2fs/f2fs_submit_page_write", Kind::Page),
    ("f2fs/f2fs_submit_page_bio", Kind::Page),
];

/// Which of the device's requests are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Writes with data, and which of them are merged and split.
    Writes,
    /// All that is queued, also reads, discards and flushes. The events of requests tell what
    /// becomes of it.
    All,
}

/// Cheap to clone: one for each draining thread.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The numbers of `events`, in their order. Most records are of none of them; a look at the
    /// numbers must be enough to see that.
    ids: Arc<[u16]>,
    events: Arc<[(Kind, Fields)]>,
    volumes: Volumes,
}

/// The volumes that are recorded, in the order in which they were given. Finds the one that a
/// number in an event is of; such numbers are those of [`kernel_dev`]. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Volumes(Arc<[OfVolume]>);

impl Volumes {
    /// The only one: the filters let nothing else through.
    pub(crate) fn only(&self) -> Option<usize> {
        (self.0.len() == 1).then_some(0)
    }

    /// By the number of a request: the partition's own, else the disk's.
    pub(crate) fn of_device(&self, number: u64) -> Option<usize> {
        let of_device = self.0.iter().position(|volume| volume.device == number);
        of_device.or_else(|| self.0.iter().position(|volume| volume.disk == number))
    }

    /// By the number that the file system's inodes carry.
    pub(crate) fn of_inodes(&self, number: u64) -> Option<usize> {
        self.0.iter().position(|volume| volume.inode_dev == number)
    }

    /// By the identifier of btrfs.
    fn of_fsid(&self, fsid: &[u8]) -> Option<usize> {
        self.0.iter().position(|volume| volume.fsid.is_some_and(|own| own == fsid))
    }
}

/// The data of a volume that every record is compared with.
#[derive(Clone, Debug)]
struct OfVolume {
    disk: u64,
    /// The device's number. A partition has its own.
    device: u64,
    inode_dev: u64,
    fsid: Option<[u8; 16]>,
    f2fs_blocks: Option<Blocks>,
}

impl OfVolume {
    fn new(volume: &Volume) -> Result<OfVolume, KernelError> {
        let is = |file_system| volume.file_system == file_system;
        let block_bytes =
            is(FileSystem::F2fs).then(|| layout::f2fs_block_bytes(volume)).transpose()?;
        Ok(OfVolume {
            disk: kernel_dev(volume.disk),
            device: kernel_dev(volume.partition.unwrap_or(volume.disk)),
            inode_dev: kernel_dev(volume.inode_dev),
            fsid: is(FileSystem::Btrfs).then(|| layout::btrfs_fsid(volume)).transpose()?,
            f2fs_blocks: block_bytes
                .map(|block_bytes| Blocks { start_bytes: volume.start_bytes, block_bytes }),
        })
    }
}

/// The places of the fields that are read of an event. `None`: the event has no such field.
#[derive(Clone, Copy, Debug)]
struct Fields {
    thread: Option<Field>,
    device: Option<Field>,
    inode: Option<Field>,
    sector: Option<Field>,
    sectors: Option<Field>,
    flags: Option<Field>,
    comm: Option<Field>,
    /// Of btrfs.
    fsid: Option<Field>,
    extent_start: Option<Field>,
    extent_bytes: Option<Field>,
    /// Of F2FS.
    op: Option<Field>,
    page_type: Option<Field>,
    new_block: Option<Field>,
}

impl Fields {
    fn of(format: &Format) -> Fields {
        let field = |name| format.field(name);
        Fields {
            thread: field("common_pid"),
            device: field("dev"),
            inode: field("ino"),
            sector: field("sector"),
            sectors: field("nr_sector"),
            flags: field("rwbs"),
            comm: field("comm"),
            fsid: field("fsid"),
            extent_start: field("start"),
            extent_bytes: field("disk_len"),
            op: field("op"),
            page_type: field("type"),
            new_block: field("new_blkaddr"),
        }
    }
}

/// How F2FS counts the blocks of the device.
#[derive(Clone, Debug)]
struct Blocks {
    /// Where the partition begins on the disk.
    start_bytes: u64,
    block_bytes: u64,
}

/// Inside the kernel a device number is major << 20 | minor.
pub(crate) fn kernel_dev((major, minor): (u32, u32)) -> u64 {
    u64::from(major) << 20 | u64::from(minor)
}

/// A filter that compares a field with all of the given numbers.
pub(crate) fn any_of(field: &str, devices: impl IntoIterator<Item = u64>) -> String {
    let mut devices: Vec<u64> = devices.into_iter().collect();
    devices.sort_unstable();
    devices.dedup();
    devices.iter().map(|device| format!("{field} == {device}")).collect::<Vec<_>>().join(" || ")
}

/// Major and minor number of [`kernel_dev`]'s.
pub(crate) fn device_pair(number: u64) -> (u32, u32) {
    ((number >> 20) as u32, (number & 0xF_FFFF) as u32)
}

impl Decoder {
    /// Switches the events on in `instance`. Block events are filtered to the devices, others to
    /// the file systems.
    pub fn enable(
        instance: &Instance,
        volumes: &[&Volume],
        scope: Scope,
    ) -> Result<Decoder, KernelError> {
        let volumes: Arc<[OfVolume]> = volumes
            .iter()
            .map(|volume| OfVolume::new(volume))
            .collect::<Result<_, KernelError>>()?;
        let has_extents = volumes.iter().any(|volume| volume.fsid.is_some());
        // A queued request carries the number of the partition.
        let of_devices = any_of("dev", volumes.iter().map(|volume| volume.device));
        let of_inodes = any_of("dev", volumes.iter().map(|volume| volume.inode_dev));
        let filter = match scope {
            // A write's flags have a W.
            Scope::Writes => format!("({of_devices}) && rwbs ~ \"*W*\""),
            Scope::All => of_devices,
        };
        let (mut ids, mut events) = (Vec::new(), Vec::new());
        for (name, kind) in EVENTS {
            let format = match Format::read(&instance.event_dir(name)) {
                Ok(format) => format,
                Err(KernelError::Read { reason, .. })
                    if reason.kind() == ErrorKind::NotFound
                        && matches!(kind, Kind::File | Kind::Extent | Kind::Page) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            match kind {
                Kind::Merged | Kind::Split if scope == Scope::All => continue,
                Kind::Queued | Kind::Merged | Kind::Split => {
                    instance.write(&format!("events/{name}/filter"), &filter)?;
                }
                Kind::File | Kind::Page => {
                    instance.write(&format!("events/{name}/filter"), &of_inodes)?;
                }
                // The event carries no device number. It carries the file system's identifier,
                // which no filter can compare.
                Kind::Extent if !has_extents => continue,
                Kind::Extent => {}
            }
            instance.write(&format!("events/{name}/enable"), "1")?;
            ids.push(format.id);
            events.push((kind, Fields::of(&format)));
        }
        Ok(Decoder { ids: ids.into(), events: events.into(), volumes: Volumes(volumes) })
    }

    pub(crate) fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// `None` for an event that says nothing about writes.
    pub fn decode(&self, time_ns: u64, record: &[u8]) -> Option<Event> {
        let id = u16::from_ne_bytes(record.get(..2)?.try_into().ok()?);
        let (kind, fields) = self.events.get(self.ids.iter().position(|known| *known == id)?)?;
        let number = |field: Option<Field>| field?.number(record);
        let thread = number(fields.thread)? as u32;
        let volume = self.volume(*kind, fields, record)?;
        let what = match kind {
            Kind::File => What::File { inode: number(fields.inode)? },
            Kind::Extent => What::Extent {
                whose: Whose::File(number(fields.inode)?),
                address: number(fields.extent_start)?,
                length_bytes: number(fields.extent_bytes)?,
            },
            Kind::Page => {
                const REQ_OP_WRITE: u64 = 1;
                const DATA: u64 = 0;
                const NODE: u64 = 1;
                if number(fields.op)? != REQ_OP_WRITE {
                    return None;
                }
                let whose = match number(fields.page_type)? {
                    DATA => Whose::File(number(fields.inode)?),
                    NODE => Whose::Journal,
                    _ => return None,
                };
                let blocks = self.volumes.0[volume].f2fs_blocks.as_ref()?;
                let address = number(fields.new_block)?
                    .checked_mul(blocks.block_bytes)?
                    .checked_add(blocks.start_bytes)?;
                What::Extent { whose, address, length_bytes: blocks.block_bytes }
            }
            Kind::Queued | Kind::Merged | Kind::Split => {
                let rwbs = fields.flags?.bytes(record)?;
                let flags = rwbs.split(|&byte| byte == 0).next()?;
                if !flags.contains(&b'W') {
                    return None;
                }
                let write = Write {
                    start: number(fields.sector)?.saturating_mul(SECTOR_BYTES),
                    length_bytes: number(fields.sectors).unwrap_or(0).saturating_mul(SECTOR_BYTES),
                    metadata: flags.contains(&b'M'),
                    by: fields
                        .comm
                        .and_then(|comm| comm.bytes(record))
                        .map_or(Writer::Any, Writer::named),
                };
                match kind {
                    Kind::Merged => What::Merged(write),
                    Kind::Split => What::Split(write),
                    _ => What::Queued(write),
                }
            }
        };
        Some(Event { time_ns, thread, volume, what })
    }

    /// The volume of a record.
    fn volume(&self, kind: Kind, fields: &Fields, record: &[u8]) -> Option<usize> {
        if kind == Kind::Extent {
            return self.volumes.of_fsid(fields.fsid?.bytes(record)?);
        }
        let device = || fields.device?.number(record);
        self.volumes.only().or_else(|| match kind {
            Kind::File | Kind::Page => self.volumes.of_inodes(device()?),
            _ => self.volumes.of_device(device()?),
        })
    }
}
