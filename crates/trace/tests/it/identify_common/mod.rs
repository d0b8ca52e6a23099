//! Writes traces as the paper's figures read: `log`, `count`, `update`, `reset` of a database, with
//! what causes and follows them.
//!
//! A [`Pen`] is one database and its thread. It has its own clock and its own sectors. The events
//! of several pens can therefore be put together in the order of their times, as a machine would
//! have interleaved them.

#![allow(dead_code, reason = "the tests and each example use a part of it")]

use oneflush_trace::identify::{Identifier, Summary, Transaction};
use oneflush_trace::model::{Action, Actor, Content, DeviceId, Event, Flags, Names, SECTOR_BYTES};

pub const DEVICE: DeviceId = DeviceId { major: 8, minor: 0 };
pub const PAGE_SECTORS: u64 = 8;
pub const PAGE: u64 = PAGE_SECTORS * SECTOR_BYTES;
/// How long the device takes for a write, and for a flush.
pub const WRITE_NS: u64 = 50_000;
pub const FLUSH_NS: u64 = 700_000;
const STEP_NS: u64 = 10_000;

/// How a trace shows that something was synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Enter and exit of sync calls, with flushes inside.
    Calls,
    /// Flushes of the device.
    Flushes,
    /// Nothing: only that the writer waits.
    Waits,
}

pub struct Pen<'a> {
    pub names: &'a mut Names,
    pub events: Vec<Event>,
    pub now_ns: u64,
    pub show: Show,
    pub thread: u32,
    pub comm: String,
    pub database: Option<String>,
    pub db_sector: u64,
    pub journal_sector: u64,
    pub wal_sector: u64,
    /// Bytes of the file system's journal that each first sync of a log causes; 0: none.
    pub commit_pages: u64,
    jbd2_sector: u64,
    wal_page: u64,
}

impl<'a> Pen<'a> {
    /// The `number`-th database of a trace.
    pub fn new(names: &'a mut Names, show: Show, number: u32) -> Pen<'a> {
        let base = 1_000_000 * u64::from(number + 1);
        Pen {
            names,
            events: Vec::new(),
            now_ns: 1_000_000,
            show,
            thread: 100 + number,
            comm: format!("app{number}"),
            database: Some(format!("/data/app{number}/a.db")),
            db_sector: base,
            journal_sector: base + 100_000,
            wal_sector: base + 200_000,
            commit_pages: 0,
            jbd2_sector: base + 300_000,
            wal_page: 0,
        }
    }

    fn actor(&mut self) -> Actor {
        let name = Some(self.names.id(&self.comm));
        Actor { thread: self.thread, process: self.thread, name }
    }

    pub fn push(
        &mut self,
        action: Action,
        sector: u64,
        bytes: u64,
        flags: Flags,
        actor: Actor,
        file: Option<&str>,
    ) {
        let file = file.map(|file| self.names.id(file));
        let content = None;
        let (time_ns, device) = (self.now_ns, DEVICE);
        self.events.push(Event {
            time_ns,
            action,
            device,
            sector,
            bytes,
            flags,
            actor,
            content,
            file,
        });
    }

    /// Writes of pages at these places, sent together and waited for.
    pub fn write(&mut self, file: Option<&str>, runs: &[(u64, u64)]) -> &mut Self {
        let actor = self.actor();
        let flags = Flags { write: true, sync: true, ..Flags::default() };
        for &(sector, pages) in runs {
            self.push(Action::Queue, sector, pages * PAGE, flags, actor, file);
            self.now_ns += STEP_NS;
            self.push(Action::Issue, sector, pages * PAGE, flags, actor, None);
        }
        for &(sector, pages) in runs {
            self.now_ns += WRITE_NS;
            self.push(Action::Complete, sector, pages * PAGE, flags, actor, None);
        }
        self.now_ns += STEP_NS;
        self
    }

    pub fn flush(&mut self) -> &mut Self {
        let actor = self.actor();
        let flags = Flags { write: true, sync: true, preflush: true, ..Flags::default() };
        self.push(Action::Queue, 0, 0, flags, actor, None);
        self.now_ns += FLUSH_NS;
        self.push(Action::Complete, 0, 0, flags, actor, None);
        self.now_ns += STEP_NS;
        self
    }

    /// The file system commits its journal: a descriptor with `pages` blocks, and the commit record
    /// with a flush.
    pub fn commit(&mut self, pages: u64) -> &mut Self {
        let (thread, comm) = (self.thread, std::mem::replace(&mut self.comm, "jbd2/sda1-8".into()));
        self.thread = 9;
        let actor = self.actor();
        let plain = Flags { write: true, sync: true, meta: true, ..Flags::default() };
        let record = Flags { preflush: true, fua: true, ..plain };
        for (length, flags) in [(pages + 1, plain), (1, record)] {
            self.push(Action::Queue, self.jbd2_sector, length * PAGE, flags, actor, None);
            self.now_ns += if flags.preflush { FLUSH_NS } else { WRITE_NS };
            self.push(Action::Complete, self.jbd2_sector, length * PAGE, flags, actor, None);
            if flags.preflush {
                self.push(Action::Complete, self.jbd2_sector, 0, flags, actor, None);
            }
            self.jbd2_sector += length * PAGE_SECTORS;
            self.now_ns += STEP_NS;
        }
        (self.thread, self.comm) = (thread, comm);
        self
    }

    /// A page of the rollback journal, so many pages from its begin. The file system's journal
    /// thread writes it, for no program.
    pub fn written_by_kernel(&mut self, at: u64) -> &mut Self {
        let (file, sector) = (self.side_file("-journal"), self.journal_sector + at * PAGE_SECTORS);
        self.by("jbd2/sda1-8", |pen| _ = pen.write(file.as_deref(), &[(sector, 1)]))
    }

    /// The same of a journal that has been deleted.
    pub fn deleted_written_by_kernel(&mut self, at: u64) -> &mut Self {
        self.written_by_kernel(at);
        for event in
            self.events.iter_mut().rev().take(3).filter(|event| event.action == Action::Queue)
        {
            event.content = Some(Content::DeletedData);
        }
        self
    }

    /// Pages of the database that the kernel's write-back writes for nobody.
    pub fn database_written_back(&mut self, pages: u64) -> &mut Self {
        let (file, sector) = (self.database.clone(), self.db_sector);
        self.by("kworker/u4:1", |pen| _ = pen.write(file.as_deref(), &[(sector, pages)]))
    }

    /// Runs `act` as another thread.
    fn by(&mut self, comm: &str, act: impl FnOnce(&mut Self)) -> &mut Self {
        let (thread, comm) = (self.thread, std::mem::replace(&mut self.comm, comm.into()));
        self.thread = 9;
        act(self);
        (self.thread, self.comm) = (thread, comm);
        self
    }

    /// A page of the rollback journal, so many pages from its begin. The program's own thread
    /// writes it and does not synchronize it.
    pub fn written_unsynced(&mut self, at: u64) -> &mut Self {
        let (file, sector) = (self.side_file("-journal"), self.journal_sector + at * PAGE_SECTORS);
        self.write(file.as_deref(), &[(sector, 1)])
    }

    /// A sync call around `inside`, or the part of it that shows.
    pub fn sync(&mut self, file: Option<&str>, inside: impl FnOnce(&mut Self)) -> &mut Self {
        let actor = self.actor();
        let calls = self.show == Show::Calls;
        if calls {
            self.push(Action::SyncEnter, 0, 0, Flags::default(), actor, file);
            self.now_ns += STEP_NS;
        }
        inside(self);
        if calls {
            self.push(Action::SyncExit, 0, 0, Flags::default(), actor, file);
        }
        self.now_ns += STEP_NS;
        self
    }

    fn side_file(&self, ending: &str) -> Option<String> {
        self.database.as_ref().map(|database| format!("{database}{ending}"))
    }

    /// Pages of a file, made durable.
    pub fn durable(&mut self, ending: &str, runs: &[(u64, u64)], commit_pages: u64) -> &mut Self {
        let file = self.side_file(ending);
        let file = file.as_deref();
        self.sync(file, |pen| {
            pen.write(file, runs);
            if commit_pages > 0 {
                pen.commit(commit_pages);
            } else if pen.show != Show::Waits {
                pen.flush();
            }
        })
    }

    /// Header and body of the rollback journal, `pages` in all.
    pub fn log(&mut self, pages: u64) -> &mut Self {
        let sector = self.journal_sector;
        let runs: &[(u64, u64)] = if pages == 1 {
            &[(sector, 1)]
        } else {
            &[(sector, 1), (sector + 4 * PAGE_SECTORS, pages - 1)]
        };
        let commit_pages = self.commit_pages;
        self.durable("-journal", runs, commit_pages)
    }

    /// A later segment of the journal, `at` so many pages.
    pub fn segment(&mut self, at: u64, pages: u64) -> &mut Self {
        let sector = self.journal_sector + at * PAGE_SECTORS;
        self.durable("-journal", &[(sector, pages)], 0)
    }

    /// The number of records, into the header of the segment `at` so many pages.
    pub fn count_at(&mut self, at: u64) -> &mut Self {
        let sector = self.journal_sector + at * PAGE_SECTORS;
        self.durable("-journal", &[(sector, 1)], 0)
    }

    pub fn count(&mut self) -> &mut Self {
        self.count_at(0)
    }

    /// Page 1 and `pages - 1` others of the database.
    pub fn update(&mut self, pages: u64) -> &mut Self {
        let sector = self.db_sector;
        let runs = [(sector, 1), (sector + 80, pages.saturating_sub(1))];
        self.durable("", if pages > 1 { &runs } else { &runs[..1] }, 0)
    }

    /// The header is overwritten with zeros: PERSIST.
    pub fn zero(&mut self) -> &mut Self {
        self.count_at(0)
    }

    /// The journal is truncated and that is made durable: TRUNCATE with FULL.
    pub fn truncate(&mut self) -> &mut Self {
        let file = self.side_file("-journal");
        self.sync(file.as_deref(), |pen| {
            pen.commit(4);
        })
    }

    /// The journal is truncated or deleted, and the trace says so.
    pub fn remove(&mut self, action: Action) -> &mut Self {
        let (file, actor) = (self.side_file("-journal"), self.actor());
        self.push(action, 0, 0, Flags::default(), actor, file.as_deref());
        self.wait(STEP_NS)
    }

    /// The journal is deleted and that is made durable: DELETE with EXTRA.
    pub fn delete_durably(&mut self) -> &mut Self {
        let folder = self
            .database
            .as_deref()
            .and_then(|path| path.rsplit_once('/'))
            .map(|parts| parts.0.to_string());
        self.sync(folder.as_deref(), |pen| {
            pen.commit(7);
        })
    }

    /// `frames` behind what the WAL holds.
    pub fn append(&mut self, frames: u64) -> &mut Self {
        let sector = self.wal_sector + self.wal_page * PAGE_SECTORS;
        self.wal_page += frames;
        // A frame is longer than a page, so the last page is written again by the next.
        self.durable("-wal", &[(sector, frames + 1)], 0)
    }

    pub fn restart_wal(&mut self) -> &mut Self {
        self.wal_page = 0;
        self
    }

    /// Zeros behind what the WAL, or a log of our own, holds, so many pages.
    pub fn zeros(&mut self, ending: &str, pages: u64) -> &mut Self {
        let sector = self.wal_sector + self.wal_page * PAGE_SECTORS;
        self.durable(ending, &[(sector, pages)], 4)
    }

    pub fn wal_header(&mut self) -> &mut Self {
        self.restart_wal();
        let sector = self.wal_sector;
        self.durable("-wal", &[(sector, 1)], 0)
    }

    /// A block of our own log.
    pub fn record(&mut self, ending: &str) -> &mut Self {
        let sector = self.wal_sector + self.wal_page * PAGE_SECTORS;
        self.wal_page += 1;
        self.durable(ending, &[(sector, 1)], 0)
    }

    /// SQLite's lock for writing in WAL mode is taken, or given back.
    pub fn lock(&mut self, action: Action) -> &mut Self {
        let (file, actor) = (self.side_file("-shm"), self.actor());
        self.push(action, 0, 0, Flags::default(), actor, file.as_deref());
        self.wait(STEP_NS)
    }

    pub fn wait(&mut self, ns: u64) -> &mut Self {
        self.now_ns += ns;
        self
    }

    pub fn metadata(&mut self, sector: u64) -> &mut Self {
        self.write(None, &[(sector, 1)]);
        for event in self.events.iter_mut().rev().take(3) {
            event.content = Some(Content::Metadata);
        }
        self
    }
}

pub fn identify(events: &[Event], names: &Names) -> (Vec<Transaction>, Summary) {
    let mut identifier = Identifier::new();
    let mut found = Vec::new();
    for event in events {
        identifier.push(event, names);
        while let Some(transaction) = identifier.next_transaction() {
            found.push(transaction);
        }
    }
    let (rest, summary) = identifier.finish(names);
    found.extend(rest);
    found.sort_by_key(|transaction| (transaction.begin_ns, transaction.database.clone()));
    (found, summary)
}

/// Several traces as one.
pub fn interleaved(traces: Vec<Vec<Event>>) -> Vec<Event> {
    let mut events: Vec<Event> = traces.into_iter().flatten().collect();
    events.sort_by_key(|event| event.time_ns);
    events
}
