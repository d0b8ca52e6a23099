//! Which inode had which name when.
//!
//! The kernel's events say inodes. Names come from three sources:
//! - What exists at the begin is found by reading the folders.
//! - What comes later is told by fanotify with the file's own inode, in the right order, without
//!   times.
//! - On ext4, `ext4_allocate_inode` in the trace says when an inode became another file. The next
//!   name that fanotify tells of this inode is that file's. On F2FS it is `f2fs_new_inode`. On XFS
//!   it is the first inode that a thread gets behind `xfs_create`.
//!
//! With these times, a journal that is made and deleted a hundred times a second has its right
//! name. This also holds for an inode that belongs to different journals in turn. Elsewhere, and
//! for renamed files, a name counts for all events of the turn in which it is read. So it counts up
//! to one turn early.
//!
//! Invariant: when an event at a time `t` is looked at, everything that fanotify told before `t`
//! was read. A file's data cannot be written before its creation was told. The name is therefore
//! there when it is needed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::Watch;

type Name = Arc<[u8]>;

pub(super) struct Names {
    /// Of one file system.
    directories: Vec<PathBuf>,
    device: u64,
    /// `None` if the kernel cannot watch (before Linux 5.17). Folders are then read again and
    /// again.
    watch: Option<Watch>,
    /// The trace says when an inode becomes another file.
    has_allocations: bool,
    inodes: HashMap<u64, Known>,
    /// Inodes with names that wait for their allocation.
    waiting: Vec<u64>,
    /// XFS: threads that make a file and have not got its inode yet.
    creating: HashSet<u32>,
    turn: u64,
    /// So many inodes are known before those that are gone are looked for.
    known_max: usize,
}

/// A folder of so many files is looked through in some milliseconds.
const KNOWN_MAX_LEAST: usize = 10_000;

#[derive(Default)]
struct Known {
    name: Option<Name>,
    /// Allocations in the trace for which no name was taken yet.
    allocated_count: usize,
    /// Names that fanotify told, and when.
    next: VecDeque<(u64, Name)>,
    /// The recording has said the name.
    is_told: bool,
}

impl Names {
    /// Watches before it reads, so that nothing is missed. `has_allocations`: see the head of this
    /// file.
    pub(super) fn new(
        directories: &[PathBuf],
        mount_point: &Path,
        has_allocations: bool,
    ) -> io::Result<Names> {
        let device = directories.first().map(fs::metadata).transpose()?;
        let device = device.map(|metadata| metadata.dev()).unwrap_or_default();
        let watch = Watch::new(mount_point).ok();
        let mut names = Names {
            directories: directories.to_vec(),
            device,
            watch,
            has_allocations,
            inodes: HashMap::new(),
            waiting: Vec::new(),
            creating: HashSet::new(),
            turn: 0,
            known_max: KNOWN_MAX_LEAST,
        };
        names.scan()?;
        names.hear(true)?;
        Ok(names)
    }

    /// The kernel tells names; they are not found by reading folders again.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    fn scan(&mut self) -> io::Result<()> {
        let mut folders = Vec::new();
        for directory in &self.directories {
            folders.push((directory.clone(), fs::metadata(directory)?.ino()));
        }
        while let Some((folder, inode)) = folders.pop() {
            self.found(inode, folder.as_os_str().as_bytes());
            // A folder that vanishes meanwhile is no error.
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, inode) = (entry.path(), entry.ino());
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.found(inode, path.as_os_str().as_bytes());
                } else if fs::symlink_metadata(&path)
                    .is_ok_and(|metadata| metadata.dev() == self.device)
                {
                    folders.push((path, inode));
                }
            }
        }
        Ok(())
    }

    fn found(&mut self, inode: u64, name: &[u8]) {
        let known = self.inodes.entry(inode).or_default();
        if known.name.as_deref() != Some(name) {
            known.name = Some(name.into());
            known.is_told = false;
        }
    }

    /// Called once a turn, behind the moment up to which events will be looked at.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        self.turn += 1;
        if self.watch.is_none() {
            return self.scan();
        }
        self.hear(false)
    }

    /// `at_once`: the trace has no allocation for what is heard.
    fn hear(&mut self, at_once: bool) -> io::Result<()> {
        let Some(mut watch) = self.watch.take() else { return Ok(()) };
        let at_once = at_once || !self.has_allocations;
        let read = watch.read(|named| {
            let Some(folder) = self.newest(named.directory) else { return };
            let mut name = folder.to_vec();
            if !name.ends_with(b"/") {
                name.push(b'/');
            }
            name.extend(&named.name);
            if named.moved {
                self.moved(named.inode, &name);
            } else if at_once {
                self.found(named.inode, &name);
            } else {
                self.inodes
                    .entry(named.inode)
                    .or_default()
                    .next
                    .push_back((self.turn, name.into()));
                self.waiting.push(named.inode);
            }
        });
        self.watch = Some(watch);
        read
    }

    /// A file that was made in this turn, and renamed, has one name that waits: the new one.
    fn moved(&mut self, inode: u64, name: &[u8]) {
        match self.inodes.get_mut(&inode).and_then(|known| known.next.back_mut()) {
            Some((_, waiting)) => *waiting = name.into(),
            None => self.found(inode, name),
        }
    }

    /// The name of an inode by what was heard last.
    fn newest(&self, inode: u64) -> Option<Name> {
        let known = self.inodes.get(&inode)?;
        known.next.back().map(|(_, name)| name).or(known.name.as_ref()).cloned()
    }

    /// The trace says that this inode is another file now.
    pub(super) fn allocated(&mut self, inode: u64) {
        // Where not all allocations are told, a name counts at once and waits for none.
        if self.has_allocations {
            self.inodes.entry(inode).or_default().allocated_count += 1;
        }
    }

    /// The trace says that this thread is about to make a file.
    pub(super) fn creates(&mut self, thread: u32) {
        self.creating.insert(thread);
    }

    /// The trace says that this thread got an inode that was not in use. It may also have looked up
    /// a file that is there.
    pub(super) fn got(&mut self, thread: u32, inode: u64) {
        if self.creating.remove(&thread) {
            self.allocated(inode);
        }
    }

    /// The thread is gone. Its number may come again.
    pub(super) fn thread_ended(&mut self, thread: u32) {
        self.creating.remove(&thread);
    }

    /// The recording goes on in another file, in which no name has been said yet.
    ///
    /// Files come and go for months, and where inodes do not come again, their names would fill the
    /// memory. So names that are gone are forgotten whenever twice as many are known as before.
    pub(super) fn forget_told(&mut self) {
        if self.inodes.len() > self.known_max {
            self.inodes.retain(|inode, known| !known.next.is_empty() || known.is_there(*inode));
            self.known_max = KNOWN_MAX_LEAST.max(2 * self.inodes.len());
        }
        for known in self.inodes.values_mut() {
            known.is_told = false;
        }
    }

    /// All events up to the last [`Names::refresh`] were looked at. A name that waited longer waits
    /// for an allocation that was not recorded.
    pub(super) fn turn_ended(&mut self) {
        let turn = self.turn;
        let inodes = &mut self.inodes;
        self.waiting.retain(|inode| {
            let Some(known) = inodes.get_mut(inode) else { return false };
            known.settle();
            while known.next.front().is_some_and(|(heard, _)| *heard < turn) {
                known.name = known.next.pop_front().map(|(_, name)| name);
                known.is_told = false;
            }
            !known.next.is_empty()
        });
    }

    /// The name now.
    pub(super) fn now(&mut self, inode: u64) -> Option<Name> {
        let known = self.inodes.get_mut(&inode)?;
        known.settle();
        known.name.clone()
    }

    /// The name now, if the recording has not said it yet. The inner `None`: a file of unknown
    /// name.
    pub(super) fn news(&mut self, inode: u64) -> Option<Option<Name>> {
        let known = self.inodes.get_mut(&inode)?;
        known.settle();
        let is_told = std::mem::replace(&mut known.is_told, true);
        (!is_told).then(|| known.name.clone())
    }
}

impl Known {
    /// A file of this name has this inode now.
    fn is_there(&self, inode: u64) -> bool {
        let metadata = |name: &Name| fs::symlink_metadata(OsStr::from_bytes(name)).ok();
        self.name.as_ref().and_then(metadata).is_some_and(|metadata| metadata.ino() == inode)
    }

    fn settle(&mut self) {
        let count = std::mem::take(&mut self.allocated_count);
        if count > 0 {
            // Not every allocation gets a name (O_TMPFILE). The last name that is there is the
            // likeliest.
            self.name =
                self.next.drain(..count.min(self.next.len())).next_back().map(|(_, name)| name);
            self.is_told = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            directories: vec![PathBuf::from("/d")],
            device: 0,
            watch: None,
            has_allocations: true,
            inodes: HashMap::new(),
            waiting: Vec::new(),
            creating: HashSet::new(),
            turn: 1,
            known_max: KNOWN_MAX_LEAST,
        }
    }

    fn hear(names: &mut Names, inode: u64, name: &str) {
        names.inodes.entry(inode).or_default().next.push_back((names.turn, name.as_bytes().into()));
        names.waiting.push(inode);
    }

    fn name(names: &mut Names, inode: u64) -> Option<String> {
        names.news(inode).flatten().map(|name| String::from_utf8_lossy(&name).into_owned())
    }

    #[test]
    fn an_inode_that_now_this_and_now_that_file_has_is_told_by_the_files_turns() {
        let mut names = names();
        for file in ["/d/a-journal", "/d/b-journal", "/d/a-journal"] {
            hear(&mut names, 7, file);
        }
        for file in ["/d/a-journal", "/d/b-journal", "/d/a-journal"] {
            names.allocated(7);
            assert_eq!(name(&mut names, 7).as_deref(), Some(file));
        }
    }

    #[test]
    fn a_file_without_a_name_takes_the_name_of_none_before_it() {
        let mut names = names();
        names.found(7, b"/d/a");
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/a"));
        assert_eq!(names.news(7), None);
        names.allocated(7);
        assert_eq!(names.news(7), Some(None));
    }

    /// The first name came back with the file's allocation, and stayed.
    #[test]
    fn a_file_that_is_made_and_renamed_in_one_turn_has_the_new_name() {
        let mut names = names();
        hear(&mut names, 7, "/d/a.db-new");
        names.moved(7, b"/d/a.db");
        names.allocated(7);
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/a.db"));
        names.moved(7, b"/d/b.db");
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/b.db"));
    }

    #[test]
    fn a_name_whose_allocation_was_not_recorded_counts_one_turn_later() {
        let mut names = names();
        hear(&mut names, 7, "/d/a");
        names.turn_ended();
        assert_eq!(name(&mut names, 7), None);
        names.turn += 1;
        names.turn_ended();
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/a"));
        hear(&mut names, 7, "/d/b");
        names.allocated(7);
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/b"));
    }

    #[test]
    fn an_inode_is_another_file_only_if_its_thread_makes_one() {
        let mut names = names();
        names.found(7, b"/d/floor");
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/floor"));
        hear(&mut names, 7, "/d/a-wal");
        // Another thread looks the file up that was there before.
        names.creates(1);
        names.got(2, 7);
        assert_eq!(names.news(7), None);
        names.got(1, 7);
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/a-wal"));
        // The thread has its inode.
        names.got(1, 7);
        assert_eq!(names.news(7), None);
        names.creates(1);
        names.thread_ended(1);
        names.got(1, 7);
        assert_eq!(names.news(7), None);
    }

    #[test]
    fn where_not_all_allocations_are_told_none_takes_a_name_away() {
        let mut names = Names { has_allocations: false, ..names() };
        names.found(7, b"/d/a-wal");
        names.creates(1);
        names.got(1, 7);
        assert_eq!(name(&mut names, 7).as_deref(), Some("/d/a-wal"));
    }

    #[test]
    fn in_the_next_file_every_name_is_told_again_and_those_that_are_gone_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stays");
        fs::write(&path, "x").unwrap();
        let (inode, stays) = (path.metadata().unwrap().ino(), path.to_str().unwrap());
        let mut names = names();
        names.found(inode, stays.as_bytes());
        assert_eq!(name(&mut names, inode).as_deref(), Some(stays));
        names.forget_told();
        assert_eq!(name(&mut names, inode).as_deref(), Some(stays));
        for gone in 0..KNOWN_MAX_LEAST as u64 {
            names.found(1 << 40 | gone, stays.as_bytes());
        }
        names.forget_told();
        assert_eq!(names.inodes.len(), 1);
        assert_eq!(name(&mut names, inode).as_deref(), Some(stays));
    }

    #[test]
    fn files_that_are_made_and_deleted_are_named_by_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let mount = crate::kernel::MountInfo::of(folder.path()).unwrap();
        let folder = fs::canonicalize(folder.path()).unwrap();
        let mut names =
            Names::new(std::slice::from_ref(&folder), &mount.mount_point, false).unwrap();
        if !names.is_watched() {
            oneflush_testing::skip("fanotify needs root and Linux 5.17");
            return;
        }
        let path = folder.join("a.db-journal");
        let inode = fs::File::create(&path).unwrap().metadata().unwrap().ino();
        fs::remove_file(&path).unwrap();
        names.refresh().unwrap();
        assert_eq!(name(&mut names, inode).as_deref(), path.to_str());
    }
}
