//! Which events are recorded, and what each means to the recorder.

use std::io::ErrorKind;

use super::fields::Fields;
use super::form::Form;
use super::target::{Target, Targets};
use crate::kernel::{FileSystem, Format, Instance, KernelError, any_of, kernel_dev};
use crate::model::{
    FRAME_HEADER_BYTES, FRAME_UNIT_BYTES, PAGE_UNIT_BYTES, WAL_HEADER_BYTES, WRITE_LOCK_AT,
};

/// What the recorder does with an event besides printing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Print,
    Queue,
    Request,
    Complete,
    /// From a device to one below it.
    Remap,
    SyncEnter,
    SyncExit,
    /// Of a file that the recording names.
    OfFile,
    /// The same as `OfFile`, of the index of a WAL.
    Lock,
    /// An inode becomes another file.
    Allocate,
    /// XFS: a thread is about to make a file. The next inode that it gets is that file's.
    Create,
    /// XFS: a thread gets an inode that was not in use.
    Get,
    Fork,
    End,
    Exec,
}

/// What an event is filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Device,
    /// Only devices below others, or only those that hand their requests on.
    Below,
    Mapped,
    FileSystem,
    /// The file system, too, by the text that write-back calls it.
    WriteBack,
    /// The file system, and SQLite's lock for writing in WAL mode.
    WriteLock,
    /// The file system, and writes as long as the header of a WAL or of one of its frames, or
    /// placed like whole frames. Of those, the recorder prints what begins in a WAL
    /// ([`super::frames`]).
    WalFrames,
    All,
}

impl Of {
    /// The event is of a request, and not of a file system.
    pub(super) fn is_device(self) -> bool {
        matches!(self, Of::Device | Of::Below | Of::Mapped)
    }
}

/// The events of all devices must be there, the others may be. An event without a form is not
/// printed.
const EVENTS: [(&str, Of, Does, Option<Form>); 32] = [
    ("block/block_bio_queue", Of::Device, Does::Queue, Some(Form::Queue)),
    ("block/block_rq_insert", Of::Device, Does::Request, Some(Form::Request)),
    ("block/block_rq_issue", Of::Device, Does::Request, Some(Form::Request)),
    ("block/block_rq_complete", Of::Device, Does::Complete, Some(Form::Complete)),
    ("block/block_bio_remap", Of::Below, Does::Remap, Some(Form::Remap)),
    ("block/block_rq_remap", Of::Below, Does::Remap, Some(Form::Remap)),
    ("block/block_bio_complete", Of::Mapped, Does::Complete, Some(Form::BioComplete)),
    ("ext4/ext4_sync_file_enter", Of::FileSystem, Does::SyncEnter, Some(Form::Ext4)),
    ("ext4/ext4_sync_file_exit", Of::FileSystem, Does::SyncExit, Some(Form::Ext4)),
    ("ext4/ext4_unlink_enter", Of::FileSystem, Does::OfFile, Some(Form::Ext4)),
    ("ext4/ext4_truncate_enter", Of::FileSystem, Does::OfFile, Some(Form::Ext4)),
    ("ext4/ext4_allocate_inode", Of::FileSystem, Does::Allocate, None),
    ("f2fs/f2fs_new_inode", Of::FileSystem, Does::Allocate, None),
    ("xfs/xfs_create", Of::FileSystem, Does::Create, None),
    ("xfs/xfs_iget_miss", Of::FileSystem, Does::Get, None),
    // An inode of which the kernel still has the memory: this name since Linux 5.16.
    ("xfs/xfs_iget_recycle", Of::FileSystem, Does::Get, None),
    ("xfs/xfs_iget_reclaim", Of::FileSystem, Does::Get, None),
    ("f2fs/f2fs_sync_file_enter", Of::FileSystem, Does::SyncEnter, Some(Form::F2fs)),
    ("f2fs/f2fs_sync_file_exit", Of::FileSystem, Does::SyncExit, Some(Form::F2fs)),
    ("f2fs/f2fs_unlink_exit", Of::FileSystem, Does::OfFile, Some(Form::F2fs)),
    ("f2fs/f2fs_truncate", Of::FileSystem, Does::OfFile, Some(Form::F2fs)),
    ("writeback/writeback_single_inode", Of::WriteBack, Does::Print, Some(Form::Fields)),
    ("filelock/posix_lock_inode", Of::WriteLock, Does::Lock, Some(Form::Lock)),
    ("ext4/ext4_da_write_end", Of::WalFrames, Does::OfFile, Some(Form::Ext4)),
    ("ext4/ext4_write_end", Of::WalFrames, Does::OfFile, Some(Form::Ext4)),
    ("f2fs/f2fs_write_end", Of::WalFrames, Does::OfFile, Some(Form::F2fs)),
    ("jbd2/jbd2_start_commit", Of::FileSystem, Does::Print, Some(Form::Jbd2)),
    ("jbd2/jbd2_end_commit", Of::FileSystem, Does::Print, Some(Form::Jbd2)),
    ("sched/sched_process_fork", Of::All, Does::Fork, None),
    ("sched/sched_process_exit", Of::All, Does::End, None),
    ("sched/sched_process_exec", Of::All, Does::Exec, None),
    // The text that is written to `trace_marker` is always on.
    ("ftrace/print", Of::All, Does::Print, Some(Form::Marker)),
];

/// System calls by which a program reads, writes and synchronizes files.
const CALLS: [&str; 22] = [
    "openat",
    "close",
    "read",
    "pread64",
    "readv",
    "preadv",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "msync",
    "ftruncate",
    "fallocate",
    "unlink",
    "unlinkat",
    "rename",
    "renameat2",
    "fcntl",
];

pub(super) struct Event {
    /// The name without its system.
    pub(super) name: String,
    pub(super) of: Of,
    pub(super) does: Does,
    pub(super) form: Option<Form>,
    pub(super) fields: Fields,
}

pub(super) struct Events {
    /// By the event's number. The kernel counts the numbers from 1 on.
    by_id: Vec<Option<Event>>,
}

impl Events {
    /// Switches the events on in `instance`. Block events are filtered to the devices, others to
    /// their file systems. The calls of this thread are left out.
    pub(super) fn enable(
        instance: &Instance,
        targets: &Targets,
        sched: bool,
        syscalls: bool,
    ) -> Result<Events, KernelError> {
        let mut events = Events { by_id: Vec::new() };
        for (name, of, does, form) in EVENTS {
            let filter = filter(of, targets.all());
            if filter.as_ref().is_some_and(String::is_empty) {
                continue;
            }
            let is_there = events.add(instance, name, of, does, form, filter.as_deref())?;
            if !is_there && of == Of::Device {
                let path = instance.event_dir(name);
                return Err(KernelError::Format {
                    path,
                    what: "this kernel does not have the event".to_owned(),
                });
            }
        }
        if sched {
            events.add(
                instance,
                "sched/sched_switch",
                Of::All,
                Does::Print,
                Some(Form::Fields),
                None,
            )?;
        }
        if syscalls {
            // Reading events is a call too. It would make the next event, and so on without end.
            let not_ours = format!("common_pid != {}", rustix::thread::gettid().as_raw_nonzero());
            for call in CALLS {
                for way in ["enter", "exit"] {
                    let name = format!("syscalls/sys_{way}_{call}");
                    events.add(
                        instance,
                        &name,
                        Of::All,
                        Does::Print,
                        Some(Form::Fields),
                        Some(&not_ours),
                    )?;
                }
            }
        }
        Ok(events)
    }

    /// The trace says when an inode of this file system becomes another file.
    pub(super) fn has_allocations(&self, file_system: FileSystem) -> bool {
        // The kernel may have the events of other file systems, too.
        let has = |name: &str| self.by_id.iter().flatten().any(|event| event.name == name);
        match file_system {
            FileSystem::Ext4 => has("ext4_allocate_inode"),
            FileSystem::F2fs => has("f2fs_new_inode"),
            FileSystem::Xfs => {
                has("xfs_create")
                    && has("xfs_iget_miss")
                    && (has("xfs_iget_recycle") || has("xfs_iget_reclaim"))
            }
            FileSystem::Btrfs | FileSystem::Other => false,
        }
    }

    /// Adds an event. False if the kernel does not have it.
    fn add(
        &mut self,
        instance: &Instance,
        name: &str,
        of: Of,
        does: Does,
        form: Option<Form>,
        filter: Option<&str>,
    ) -> Result<bool, KernelError> {
        let format = match Format::read(&instance.event_dir(name)) {
            Ok(format) => format,
            Err(KernelError::Read { reason, .. }) if reason.kind() == ErrorKind::NotFound => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if let Some(filter) = filter {
            instance.write(&format!("events/{name}/filter"), filter)?;
        }
        if form != Some(Form::Marker) {
            instance.write(&format!("events/{name}/enable"), "1")?;
        }
        let short = name.rsplit('/').next().unwrap_or(name);
        let name = if form == Some(Form::Marker) {
            "tracing_mark_write".to_owned()
        } else {
            short.to_owned()
        };
        let id = usize::from(format.id);
        if self.by_id.len() <= id {
            self.by_id.resize_with(id + 1, || None);
        }
        self.by_id[id] = Some(Event { name, of, does, form, fields: Fields::of(&format, form) });
        Ok(true)
    }

    /// The event of a record.
    pub(super) fn of(&self, record: &[u8]) -> Option<&Event> {
        let id = u16::from_ne_bytes(record.get(..2)?.try_into().ok()?);
        self.by_id.get(usize::from(id))?.as_ref()
    }
}

/// `None`: everything. Empty: nothing.
fn filter(of: Of, targets: &[Target]) -> Option<String> {
    let inodes = |field: &str| {
        any_of(field, targets.iter().map(|target| kernel_dev(target.volume.inode_dev)))
    };
    let devices = |is: fn(&Target) -> bool| {
        let volumes = targets.iter().filter(|target| is(target)).map(|target| &target.volume);
        any_of(
            "dev",
            volumes
                .flat_map(|volume| [Some(volume.disk), volume.partition])
                .flatten()
                .map(kernel_dev),
        )
    };
    Some(match of {
        Of::Device => devices(|_| true),
        Of::Below => devices(|target| target.is_below),
        Of::Mapped => devices(|target| target.is_mapped),
        Of::FileSystem => inodes("dev"),
        Of::WriteBack => {
            let disks = targets.iter().map(|target| target.volume.disk);
            disks
                .map(|(major, minor)| format!("name == \"{major}:{minor}\""))
                .collect::<Vec<_>>()
                .join(" || ")
        }
        Of::WriteLock => {
            let (dev, at) = (inodes("s_dev"), WRITE_LOCK_AT);
            format!("({dev}) && fl_start == {at} && fl_end == {at}")
        }
        Of::WalFrames => {
            let (dev, wal, frame) = (inodes("dev"), WAL_HEADER_BYTES, FRAME_HEADER_BYTES);
            let (unit, page) = (FRAME_UNIT_BYTES - 1, PAGE_UNIT_BYTES - 1);
            let frames = format!("(len & {page}) && !(len & {unit}) && !(pos & {unit})");
            format!("({dev}) && (len == {wal} || len == {frame} || ({frames}))")
        }
        Of::All => return None,
    })
}
