//! Which file a descriptor is, where the calls do not say it (strace without `-y`). Also whether
//! writes to it are durable when they return.
//!
//! A descriptor is known from the call that opened it, in its process. Threads share their table; a
//! child gets a copy of its parent's.
//!
//! A descriptor that was opened before the trace has no name. For SQLite that is mostly the
//! database itself. Its name is therefore taken from its journal. A thread writes a rollback
//! journal or a WAL of a database. Then it writes whole pages to a descriptor without a name. That
//! descriptor is the database.

use std::borrow::Cow;
use std::collections::HashMap;

/// Processes of which descriptors are kept, and descriptors of one.
const TABLES_MAX: usize = 4096;
const FILES_MAX: usize = 65_536;
/// SQLite's smallest page.
const PAGE_BYTES_MIN: u64 = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    /// None where the call said no name.
    pub name: Option<Box<[u8]>>,
    /// `O_SYNC`, `O_DSYNC`.
    pub is_durable: bool,
}

impl Open {
    pub fn owned_name(&self) -> Option<Cow<'static, [u8]>> {
        self.name.clone().map(|name| Cow::Owned(name.into_vec()))
    }
}

#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// Number of a thread's table.
    of_thread: HashMap<u32, u32>,
    tables: HashMap<u32, HashMap<u64, Open>>,
    /// The database whose journal the thread wrote last.
    databases: HashMap<u32, Box<[u8]>>,
    next_table: u32,
}

impl Descriptors {
    pub fn opened(&mut self, thread: u32, descriptor: u64, open: Open) {
        let table = self.table(thread);
        if let Some(files) = self.tables.get_mut(&table)
            && files.len() < FILES_MAX
        {
            files.insert(descriptor, open);
        }
    }

    pub fn closed(&mut self, thread: u32, descriptor: u64) {
        let table = self.table(thread);
        if let Some(files) = self.tables.get_mut(&table) {
            files.remove(&descriptor);
        }
    }

    pub fn duplicated(&mut self, thread: u32, descriptor: u64, to: u64) {
        if let Some(open) = self.get(thread, descriptor).cloned() {
            self.opened(thread, to, open);
        }
    }

    /// A thread, or with `is_process` a process, is made.
    pub fn cloned(&mut self, thread: u32, child: u32, is_process: bool) {
        let mut table = self.table(thread);
        if is_process {
            let copy = self.tables.get(&table).cloned().unwrap_or_default();
            table = self.add_table(copy);
        }
        // Its number may have been another's, whose end is not in the trace.
        self.take(child);
        self.give(child, table);
    }

    /// The thread has ended; its number may come again.
    pub fn ended(&mut self, thread: u32) {
        self.databases.remove(&thread);
        self.take(thread);
    }

    fn take(&mut self, thread: u32) {
        let Some(table) = self.of_thread.remove(&thread) else { return };
        if !self.of_thread.values().any(|other| *other == table) {
            self.tables.remove(&table);
        }
    }

    pub fn get(&mut self, thread: u32, descriptor: u64) -> Option<&Open> {
        let table = self.table(thread);
        self.tables.get(&table)?.get(&descriptor)
    }

    /// A file of SQLite's is written under its name.
    pub fn written(&mut self, thread: u32, name: &[u8]) {
        let ending =
            [&b"-journal"[..], b"-wal"].into_iter().find_map(|ending| name.strip_suffix(ending));
        if let Some(database) = ending
            && self.databases.get(&thread).is_none_or(|known| **known != *database)
            && (self.databases.len() < TABLES_MAX || self.databases.contains_key(&thread))
        {
            self.databases.insert(thread, database.into());
        }
    }

    /// The thread writes this to a descriptor without a name. If the write looks like pages, the
    /// descriptor is the database's from now on.
    pub fn guess(
        &mut self,
        thread: u32,
        descriptor: u64,
        offset: Option<u64>,
        bytes: u64,
    ) -> Option<&Open> {
        let is_page = bytes >= PAGE_BYTES_MIN && bytes.is_power_of_two() && offset? % bytes == 0;
        let database = self.databases.get(&thread).filter(|_| is_page)?.clone();
        self.opened(thread, descriptor, Open { name: Some(database), is_durable: false });
        self.get(thread, descriptor)
    }

    /// A thread that nobody was seen to make has a table of its own.
    fn table(&mut self, thread: u32) -> u32 {
        if let Some(&table) = self.of_thread.get(&thread) {
            return table;
        }
        let table = self.add_table(HashMap::new());
        self.give(thread, table);
        table
    }

    fn give(&mut self, thread: u32, table: u32) {
        if self.of_thread.len() >= TABLES_MAX {
            self.of_thread.clear();
            self.tables.retain(|known, _| *known == table);
        }
        self.of_thread.insert(thread, table);
    }

    fn add_table(&mut self, files: HashMap<u64, Open>) -> u32 {
        self.next_table += 1;
        self.tables.insert(self.next_table, files);
        self.next_table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `strace -qq`, no line tells the end of a process: each had left its table.
    #[test]
    fn processes_whose_ends_are_not_told_take_no_more_memory() {
        let mut descriptors = Descriptors::default();
        descriptors.opened(1, 3, Open { name: Some(b"/a.db"[..].into()), is_durable: false });
        for child in (2..3000).cycle().take(20_000) {
            descriptors.cloned(1, child, true);
        }
        assert!(descriptors.tables.len() <= 3000, "{}", descriptors.tables.len());
        for child in 10_000..20_000 {
            descriptors.cloned(1, child, true);
        }
        assert!(descriptors.tables.len() <= TABLES_MAX + 1, "{}", descriptors.tables.len());
    }

    #[test]
    fn a_child_keeps_what_its_parent_had_open_and_a_thread_shares_it() {
        let mut descriptors = Descriptors::default();
        let open = |name: &[u8]| Open { name: Some(name.into()), is_durable: false };
        descriptors.opened(1, 3, open(b"/a.db"));
        descriptors.cloned(1, 2, true);
        descriptors.cloned(1, 3, false);
        descriptors.opened(1, 4, open(b"/b.db"));
        let mut has = |thread, descriptor| descriptors.get(thread, descriptor).is_some();
        assert_eq!([has(2, 3), has(2, 4), has(3, 3), has(3, 4)], [true, false, true, true]);
    }
}
