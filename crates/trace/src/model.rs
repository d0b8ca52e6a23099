//! The one event model that all readers of traces fill and everything else works on.
//!
//! Times are nanoseconds since the trace's own zero. Names (of files and threads) stand once in
//! [`Names`]. Events hold their numbers.

use std::collections::HashMap;

/// The unit in which the kernel counts positions on a device, whatever its blocks are.
pub const SECTOR_BYTES: u64 = 512;

/// The header of a WAL, and of a frame (SQLite's file format, section 4).
pub(crate) const WAL_HEADER_BYTES: u64 = 32;
pub(crate) const FRAME_HEADER_BYTES: u64 = 24;
/// Frames of a WAL, also a piece of one, begin and end at multiples of this.
pub(crate) const FRAME_UNIT_BYTES: u64 = 8;
/// Pages alone are multiples of this, and frames are not.
pub(crate) const PAGE_UNIT_BYTES: u64 = 512;
/// Where SQLite locks the index of a WAL to write: `WALINDEX_LOCK_OFFSET` of its file format,
/// section 4.4.
pub(crate) const WRITE_LOCK_AT: u64 = 120;

/// A file of LS-MVBT begins so (`docs/mvbt-format.md`).
pub(crate) const LSMVBT_MAGIC: &[u8; 16] = b"Oneflush mvbt 1\n";
/// Two anchors, and behind them eight commit blocks. Then come the pages.
pub(crate) const LSMVBT_ANCHORS_BYTES: u64 = 8 << 10;
pub(crate) const LSMVBT_HEAD_BYTES: u64 = 40 << 10;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A thread hands a request to the block layer (`block_bio_queue`, blktrace `Q`). The thread is
    /// the one that asked for it.
    Queue,
    /// A request of another device becomes this one here (`block_bio_remap`, `block_rq_remap`,
    /// `A`). It began at `from_sector` of the other device. Devices on others remap so: LVM, LUKS,
    /// md, a partition. If both devices are the same, a partition's sectors become the disk's.
    Remap {
        from: DeviceId,
        from_sector: u64,
    },
    /// The device is a file of a file system on another device: a loop device. `file`: that file,
    /// if the trace says it.
    OnFileOf {
        below: DeviceId,
    },
    /// `file` is a database of LS-MVBT from here on, or, with 0 bytes of a page, none any more. On
    /// `device`, the event's `bytes` from its `sector` on are a piece of the file's head, which is
    /// 40 KiB long (`LSMVBT_HEAD_BYTES`). The piece begins at this offset of the file, and the one
    /// at 0 comes first. 0 bytes: nobody knows where the head is.
    Lsmvbt {
        page_bytes: u32,
        offset: u32,
    },
    /// The request enters the device's queue (`block_rq_insert`, `I`). The thread may be a worker
    /// of the kernel.
    Insert,
    /// The request goes to the device (`block_rq_issue`, `D`). The thread may be a worker of the
    /// kernel.
    Issue,
    /// The device says that the request is done (`block_rq_complete`, `C`). The thread means
    /// nothing.
    Complete,
    /// A thread enters `fsync`, `fdatasync` or what the file system makes of them. `file` is known
    /// if the trace says it.
    SyncEnter,
    SyncExit,
    /// A write or read of a file by a thread, from a trace of system calls. `sector` is the offset
    /// in the file, in bytes.
    FileWrite,
    FileRead,
    /// A thread truncates a file to nothing, or deletes it. `file` says which. A deletion may be
    /// followed by a truncation, the file system's own.
    FileTruncate,
    FileDelete,
    /// A thread writes the header of a WAL, the header of a frame, or a frame into the page cache.
    /// `file` is the WAL, `sector` the offset in bytes.
    WalWrite,
    /// A thread takes, or gives back, the lock that lets it write a database in WAL mode. `file` is
    /// the WAL's index.
    WriteLock,
    WriteUnlock,
    /// A text that a program left in the trace (`trace_marker`): a note, or the truth about what it
    /// did. `file` is the text's number.
    Marker,
}

/// What a request is, as far as the trace says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    pub write: bool,
    pub read: bool,
    pub discard: bool,
    /// A thread waits for the request (`S`).
    pub sync: bool,
    /// The device's cache is emptied before the request (`F` before `W`, or a flush without data).
    pub preflush: bool,
    /// The request is durable when it completes (`F` behind `W`).
    pub fua: bool,
    /// File-system metadata (`M`).
    pub meta: bool,
    /// Readahead (`A` behind `R`).
    pub ahead: bool,
}

/// What a range of the device holds, as the trace itself says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// A file's data.
    Data,
    /// The data of a file that was deleted before. Told if the trace can tell the file from a newer
    /// file of that name.
    DeletedData,
    /// The journal of the file system.
    Journal,
    /// Other metadata of the file system.
    Metadata,
}

/// Major and minor number of a device; 0:0 where the trace has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    pub major: u32,
    pub minor: u32,
}

/// Number of a name in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

/// The actor. `process` is 0 if the trace has only threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Actor {
    pub thread: u32,
    pub process: u32,
    /// The thread's name (`comm`).
    pub name: Option<NameId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub time_ns: u64,
    pub action: Action,
    pub device: DeviceId,
    pub sector: u64,
    pub bytes: u64,
    pub flags: Flags,
    pub actor: Actor,
    pub content: Option<Content>,
    /// The file, if the trace says it.
    pub file: Option<NameId>,
}

impl Event {
    /// False for facts without a time. A tool that adds such a line to a trace need not know when
    /// it began.
    pub fn has_time(&self) -> bool {
        !matches!(self.action, Action::OnFileOf { .. } | Action::Lsmvbt { .. })
    }

    /// An event that moves no bytes and of which nothing else is known.
    pub(crate) fn plain(time_ns: u64, action: Action, actor: Actor) -> Event {
        Event {
            time_ns,
            action,
            device: DeviceId::default(),
            sector: 0,
            bytes: 0,
            flags: Flags::default(),
            actor,
            content: None,
            file: None,
        }
    }
}

/// Every name once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Box<str>>,
    ids: HashMap<Box<str>, NameId>,
}

impl Names {
    pub fn id(&mut self, text: &str) -> NameId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = NameId(self.texts.len() as u32);
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    /// The text of a number that [`Names::id`] gave.
    pub fn text(&self, id: NameId) -> &str {
        &self.texts[id.0 as usize]
    }

    pub fn count(&self) -> usize {
        self.texts.len()
    }

    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }
}
