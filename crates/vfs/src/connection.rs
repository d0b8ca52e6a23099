//! Databases of this process and the connections that have them open.
//!
//! A [`Connection`] is one main database file that SQLite has open, with its journal, WAL and
//! temporary files. A [`Database`] is what all connections to one path share. It lives as long as
//! one of them does.
//!
//! **Which connection owns a side file?** SQLite tells the VFS only the name of a journal or WAL. A
//! lock call, or `SQLITE_FCNTL_HAS_MOVED`, on a main database file leaves a note in its thread.
//! SQLite makes one of these calls right before it opens a side file. So a side file belongs to the
//! connection that its thread used last, if the name fits. Temporary files have no name and follow
//! the same note.
//!
//! **The WAL.** The note is good enough to count by. A strategy that works on the WAL needs to be
//! sure ([`Connection::of_wal`]). SQLite's pager keeps the names of its database, journal and WAL
//! one behind the other in one allocation. So the WAL belongs to the connection whose database name
//! lies nearest before the WAL's name. Where note and place do not agree, as under a VFS that makes
//! names of its own, the WAL gets no strategy.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};

use crate::canary::Canary;
use crate::config::{Options, StrategyKind};
use crate::engine::{InWalMode, RunCheckpoint};
use crate::port::Purpose;
use crate::role::Role;
use crate::stats::{CommitTracker, Measured, Report, Sample, Samples, State, Tally};
use crate::strategy::{self, AbsorbsJournal, Chosen, LogFiles, SharedWal, Site, guard};
use crate::sync::{Mutex, MutexGuard, StaticMutex, StaticMutexGuard, lock, ranks};

static DATABASES: LazyLock<StaticMutex<HashMap<String, Weak<Database>>, { ranks::DATABASES }>> =
    LazyLock::new(StaticMutex::default);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static LAST_ID: Cell<u64> = const { Cell::new(0) };
    static LAST: RefCell<Weak<Connection>> = const { RefCell::new(Weak::new()) };
}

/// One database file, by the path that SQLite gave it.
pub struct Database {
    connections: Mutex<Vec<Weak<Connection>>>,
    /// The number of connections. Only under the lock of all databases does it grow from 0.
    ///
    /// A thread that has found a database without connections, as a fork does, keeps it for a
    /// moment. Such a database is of no use to the next opener.
    users: AtomicUsize,
    /// Counters of closed connections, and of side files without a known connection.
    closed: Tally,
    measured: Mutex<Measured, { ranks::MEASURED }>,
    site: Site,
    /// True once the message is out that a strategy changes nothing here.
    inactive_is_said: AtomicBool,
    /// Tells whether SQLite's locks are still there.
    canary: Arc<Canary>,
    /// The process that opened the database. A forked child has to begin anew.
    process: u32,
    /// Device and inode. Another file in the place of this one is another database.
    ///
    /// None: the VFS below has files of its own kind.
    file_id: Option<(u64, u64)>,
}

impl Database {
    pub fn path(&self) -> &str {
        &self.site.path
    }

    pub fn canary(&self) -> &Arc<Canary> {
        &self.canary
    }

    pub(crate) fn closed(&self) -> &Tally {
        &self.closed
    }

    pub(crate) fn measured(&self) -> MutexGuard<'_, Measured, { ranks::MEASURED }> {
        lock(&self.measured)
    }

    /// The database of `path`, if a connection of this process has it open.
    pub fn find(path: &str) -> Option<Arc<Database>> {
        // Nobody else may hold it any more by now. Its drop takes the lock.
        let found = DATABASES.lock().get(path).and_then(Weak::upgrade);
        found.filter(|database| database.is_used())
    }

    /// A panic was stopped at a callback for a file of this path.
    pub fn panicked_at(path: &str) {
        let beside = || Role::of_side_file(path).and_then(|(_, path)| Database::find(path));
        if let Some(database) = Database::find(path).or_else(beside) {
            database.site.panicked();
        }
    }

    fn is_used(&self) -> bool {
        self.users.load(Relaxed) > 0
    }

    /// What its connections with a strategy for WAL mode share. None: there were no such
    /// connections.
    pub(crate) fn shared(&self) -> Option<&SharedWal> {
        self.site.shared()
    }

    /// The strategy of its connections. None: `stock`.
    pub(crate) fn strategy(&self) -> Option<StrategyKind> {
        self.site.kind()
    }

    fn find_or_create(
        path: &str,
        run_checkpoint: &Arc<dyn RunCheckpoint>,
        side_files: &Arc<dyn LogFiles>,
    ) -> Arc<Database> {
        let process = std::process::id();
        let file_id = std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let is_same = |found: &Arc<Database>| {
            found.is_used() && found.process == process && found.file_id == file_id
        };
        // This database is of another file, and perhaps nobody else holds it any more. Its drop
        // takes the lock.
        let other;
        let mut databases = DATABASES.lock();
        match databases.get(path).and_then(Weak::upgrade) {
            Some(database) if is_same(&database) => {
                database.users.fetch_add(1, Relaxed);
                return database;
            }
            found => other = found,
        }
        let database = Arc::new(Database {
            connections: Mutex::default(),
            users: AtomicUsize::new(1),
            closed: Tally::default(),
            measured: Mutex::default(),
            site: Site::new(path, run_checkpoint, side_files),
            inactive_is_said: AtomicBool::new(false),
            canary: Arc::default(),
            process,
            file_id,
        });
        databases.insert(path.to_owned(), Arc::downgrade(&database));
        drop(databases);
        drop(other);
        database
    }

    /// The databases that this process uses with a strategy for WAL mode.
    pub(crate) fn all_in_wal_mode() -> Vec<Arc<Database>> {
        let databases: Vec<_> = DATABASES.lock().values().filter_map(Weak::upgrade).collect();
        databases.into_iter().filter(|database| database.shared().is_some()).collect()
    }

    /// The processes ends: the logs of `maw` are retired where that is possible.
    pub(crate) fn retire_all() {
        let databases: Vec<_> = DATABASES.lock().values().filter_map(Weak::upgrade).collect();
        for log in databases.iter().filter_map(|database| database.site.maw_log()) {
            log.retire_at_exit();
        }
    }

    /// Keeps everybody from finding, making or forgetting a database while the answer lives.
    pub(crate) fn hold_all() -> AllDatabases {
        AllDatabases(DATABASES.lock())
    }

    fn live(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).iter().filter_map(Weak::upgrade).collect()
    }

    /// Those that SQLite may open files for. Another thread can keep a connection alive for a
    /// moment after its close, and its address is then the next one's.
    fn open_ones(&self) -> Vec<Arc<Connection>> {
        let mut open = self.live();
        open.retain(|one| !one.is_closed.load(Relaxed));
        open
    }
}

/// All databases of this process.
pub(crate) struct AllDatabases(
    StaticMutexGuard<'static, HashMap<String, Weak<Database>>, { ranks::DATABASES }>,
);

impl AllDatabases {
    /// Forgets all databases: this process has been forked, and they are its parent's.
    pub fn forget(mut self) {
        self.0.clear();
        let _ = LAST_ID.try_with(|last| last.set(0));
        let _ = LAST.try_with(|note| *note.borrow_mut() = Weak::new());
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut databases = DATABASES.lock();
        // Another thread may have made a new database under this path since the last connection
        // went away.
        if databases.get(self.path()).is_some_and(|entry| entry.strong_count() == 0) {
            databases.remove(self.path());
        }
    }
}

/// One open main database file.
pub struct Connection {
    id: u64,
    database: Arc<Database>,
    options: Options,
    strategy: Chosen,
    tally: Tally,
    commit: CommitTracker,
    samples: Samples,
    /// The address of the database's name in SQLite's pager; never followed.
    name_address: usize,
    /// The journal mode while the database is not in WAL mode: SQLite's own default, unless a
    /// PRAGMA asked for another.
    rollback_mode: Mutex<&'static str>,
    /// The connection has written the database file in a mode in which the strategy is inactive,
    /// since this was last looked at; and why.
    writes_in_place: Mutex<Option<String>>,
    /// SQLite closes the database file, and then frees the memory with its name. Relaxed: whoever
    /// gets that memory comes after the free.
    is_closed: AtomicBool,
}

/// What is needed to open a main database file.
pub(crate) struct Opening<'a> {
    pub path: &'a str,
    pub name_address: usize,
    pub options: Options,
    pub run_checkpoint: &'a Arc<dyn RunCheckpoint>,
    pub side_files: &'a Arc<dyn LogFiles>,
    /// What the connection is for; the checkpointer opens some.
    pub purpose: Purpose,
}

impl Connection {
    pub(crate) fn open(opening: Opening<'_>) -> Arc<Connection> {
        let Opening { path, name_address, options, run_checkpoint, side_files, purpose } = opening;
        let id = NEXT_ID.fetch_add(1, Relaxed);
        let database = Database::find_or_create(path, run_checkpoint, side_files);
        let connection = Arc::new(Connection {
            id,
            strategy: strategy::build(id, &options, &database.site, purpose),
            database,
            options,
            name_address,
            tally: Tally::default(),
            commit: CommitTracker::default(),
            samples: Samples::default(),
            rollback_mode: Mutex::new("delete"),
            writes_in_place: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let mut connections = lock(&connection.database.connections);
        connections.retain(|other| other.strong_count() > 0);
        connections.push(Arc::downgrade(&connection));
        drop(connections);
        connection
    }

    /// The same connection of SQLite's in a child of the process that opened it.
    ///
    /// It is another connection here, of a database that the child has to itself.
    pub(crate) fn again(&self, before: &dyn InWalMode) -> Arc<Connection> {
        let Site { path, run_checkpoint, files, .. } = &self.database.site;
        let again = Connection::open(Opening {
            path,
            name_address: self.name_address,
            options: self.options.clone(),
            run_checkpoint,
            side_files: files,
            purpose: before.purpose(),
        });
        if let Some(in_wal_mode) = again.strategy.in_wal_mode() {
            in_wal_mode.take_over(before.told());
        }
        again
    }

    pub(crate) fn note_close(&self) {
        self.is_closed.store(true, Relaxed);
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn strategy(&self) -> &Chosen {
        &self.strategy
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn commit(&self) -> &CommitTracker {
        &self.commit
    }

    pub(crate) fn note_sample(&self, sample: Sample) {
        if let Some(batch) = self.samples.note(sample) {
            self.database.measured().add(batch);
        }
    }

    /// Notes that this thread uses the connection now.
    #[inline]
    pub(crate) fn note_use(self: &Arc<Self>) {
        // During thread exit the note may be gone. No file is opened then either.
        if LAST_ID.try_with(Cell::get).is_ok_and(|last| last != self.id) {
            self.note_first_use();
        }
    }

    /// Notes the use, after this thread has used another connection.
    #[cold]
    fn note_first_use(self: &Arc<Self>) {
        let _ = LAST_ID.try_with(|last| last.set(self.id));
        let _ = LAST.try_with(|note| *note.borrow_mut() = Arc::downgrade(self));
    }

    /// The connection that this thread used last, if it is still open.
    pub(crate) fn last_used() -> Option<Arc<Connection>> {
        LAST.try_with(|note| note.borrow().upgrade()).ok().flatten()
    }

    /// Runs `act`, which opens and closes another connection within a call of the last used one.
    pub(crate) fn used_meanwhile<R>(act: impl FnOnce() -> R) -> R {
        let last = Connection::last_used();
        let result = act();
        if let Some(last) = last {
            last.note_use();
        }
        result
    }

    /// The connection that a rollback journal or WAL of this name belongs to. This thread opens the
    /// file now.
    ///
    /// It is the connection that the thread used last, if the name fits. Otherwise it is the only
    /// connection that has the database open.
    pub(crate) fn of_side_file(path: &str) -> Option<Arc<Connection>> {
        if let Some(last) = Connection::last_used().filter(|last| last.owns(path)) {
            return Some(last);
        }
        let (_, database_path) = Role::of_side_file(path)?;
        let mut live = Database::find(database_path)?.open_ones();
        if live.len() == 1 { live.pop() } else { None }
    }

    /// The connection that the WAL of this name is sure to belong to. This thread opens the WAL
    /// now.
    pub(crate) fn of_wal(path: &str, name_address: usize) -> Option<Arc<Connection>> {
        let noted = Connection::last_used().filter(|last| last.owns(path))?;
        let before =
            |connection: &Arc<Connection>| name_address.checked_sub(connection.name_address);
        let nearest = noted
            .database
            .open_ones()
            .into_iter()
            .filter(|one| before(one).is_some())
            .min_by_key(before)?;
        Arc::ptr_eq(&nearest, &noted).then_some(noted)
    }

    /// The connection with the database of this journal that absorbs journals and `is_it`.
    pub(crate) fn that_absorbs(
        path: &str,
        is_it: impl Fn(&dyn AbsorbsJournal) -> bool,
    ) -> Option<Arc<Connection>> {
        let (_, database) = Role::of_side_file(path)?;
        let live = Database::find(database)?.live();
        live.into_iter().find(|connection| {
            connection.strategy.call(|strategy| strategy.absorbs_journal().is_some_and(&is_it))
        })
    }

    /// True if any connection of this process absorbs journals.
    pub(crate) fn any_absorbs() -> bool {
        let databases: Vec<_> = DATABASES.lock().values().filter_map(Weak::upgrade).collect();
        databases
            .iter()
            .any(|database| database.strategy().is_some_and(|kind| kind.is_for_rollback()))
    }

    /// True if a connection with the database of this journal absorbs journals.
    pub(crate) fn absorbs_journals(path: &str) -> bool {
        Connection::that_absorbs(path, |_| true).is_some()
    }

    /// True if `path` is the database's with `-journal` or `-wal`, or has another extension by
    /// SQLite's 8.3 names.
    fn owns(&self, path: &str) -> bool {
        let own = self.database.path();
        path.strip_prefix(own).is_some_and(|rest| matches!(rest, "-journal" | "-wal"))
            || (stem(path) == stem(own) && (path.ends_with(".nal") || path.ends_with(".wal")))
    }

    /// `PRAGMA oneflush_checkpoint`: a checkpoint by a connection of its own, as the background
    /// checkpointer runs it.
    pub(crate) fn checkpoint_now(&self) -> Result<String, String> {
        if let Some(log) = self.database.site.maw_log() {
            log.checkpoint()?;
        }
        let progress = self.database.site.checkpoint_now(&self.options)?;
        serde_json::to_string(&progress).map_err(|error| error.to_string())
    }

    /// `PRAGMA journal_mode=…`. SQLite may refuse it. Only the database header says whether the
    /// mode is WAL.
    pub(crate) fn asked_for_journal_mode(&self, mode: &str) {
        const MODES: [&str; 5] = ["delete", "truncate", "persist", "memory", "off"];
        if let Some(mode) = MODES.into_iter().find(|known| mode.eq_ignore_ascii_case(known)) {
            *lock(&self.rollback_mode) = mode;
        }
    }

    /// Why the strategy changes nothing in a database with this header. None: the strategy is in
    /// force.
    ///
    /// A database without a page has a header of zeros.
    pub(crate) fn inactive_because(&self, header: &[u8]) -> Option<String> {
        let mode = *lock(&self.rollback_mode);
        let because = |mode| Some(format!("journal_mode={mode}"));
        if self.options.strategy.is_for_rollback() {
            return match mode {
                _ if guard::has_wal(header) => because("wal"),
                "memory" | "off" => because(mode),
                _ => None,
            };
        }
        let is_new = header.iter().all(|&byte| byte == 0);
        let is_rollback = guard::is_any_database(header) && header[guard::FIRST] == 1;
        if is_new || is_rollback { because(mode) } else { None }
    }

    /// Notes a write of the first page.
    ///
    /// A writer in a rollback mode writes that page in place at each commit. So does a checkpoint
    /// of a database in WAL mode.
    pub(crate) fn writes_first_page(&self, page: &[u8]) {
        let is_asked =
            self.options.strategy_is_named && self.options.strategy != StrategyKind::Stock;
        if is_asked && let Some(because) = self.inactive_because(page) {
            *lock(&self.writes_in_place) = Some(because);
        }
    }

    /// The message that the strategy changes nothing in this database, if somebody has asked for
    /// the strategy.
    ///
    /// It is answered once, after the first write in a rollback mode. Nothing is read for it, since
    /// SQLite's callers count reads.
    pub(crate) fn inactive_for_the_first_time(&self) -> Option<String> {
        let because = lock(&self.writes_in_place).take()?;
        if self.database.inactive_is_said.swap(true, Relaxed) {
            return None;
        }
        let (works_in, way_out) = match self.options.strategy.is_for_rollback() {
            true => ("with a journal file", "DELETE"),
            false => ("in WAL mode", "WAL"),
        };
        Some(format!(
            "oneflush: {}: strategy {} is inactive: {because}, and it works {works_in} only; the \
                commits are SQLite's own. PRAGMA journal_mode={way_out} puts it in force [OF-205]",
            self.database.path(),
            self.options.strategy,
        ))
    }

    /// `PRAGMA oneflush_stats`: one JSON object for the database, all connections of this process
    /// together.
    pub(crate) fn stats_json(&self, inactive_because: Option<String>) -> String {
        let live = self.database.live();
        let sum = Tally::default();
        sum.absorb(&self.database.closed);
        for connection in &live {
            sum.absorb(&connection.tally);
            self.database.measured().add(connection.samples.take());
        }
        let (strategy, durability) =
            (self.strategy.call(|strategy| strategy.kind()).name(), self.options.durability.name());
        let strategy_report = self.strategy.report(&self.database.site);
        let state = State {
            strategy,
            inactive_because,
            durability,
            connections: live.len(),
            cancelled_locks: self.database.canary.found_gone(),
        };
        let measured = self.database.measured();
        Report::new(self.database.path(), state, &sum, &measured, strategy_report).to_json()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.users.fetch_sub(1, Relaxed);
        self.database.closed.absorb(&self.tally);
        self.database.measured().add(self.samples.take());
    }
}

/// The path without its last extension.
fn stem(path: &str) -> &str {
    match path.rfind(['.', '/']) {
        Some(at) if path.as_bytes()[at] == b'.' => &path[..at],
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_stubs::{NoCheckpoints, NoLogs};

    fn open(path: &str) -> Arc<Connection> {
        open_at(path, 0)
    }

    fn open_at(path: &str, name_address: usize) -> Arc<Connection> {
        let run_checkpoint: Arc<dyn RunCheckpoint> = Arc::new(NoCheckpoints);
        let side_files: Arc<dyn LogFiles> = Arc::new(NoLogs);
        Connection::open(Opening {
            path,
            name_address,
            options: Options::default(),
            run_checkpoint: &run_checkpoint,
            side_files: &side_files,
            purpose: Purpose::ReadWrite,
        })
    }

    #[test]
    fn a_wal_belongs_to_the_last_used_connection_whose_name_lies_nearest_before_its_own() {
        let (low, high) = (open_at("/wal/a.db", 1000), open_at("/wal/a.db", 5000));
        low.note_use();
        assert_eq!(Connection::of_wal("/wal/a.db-wal", 1030).unwrap().id, low.id);
        assert!(
            Connection::of_wal("/wal/a.db-wal", 5030).is_none(),
            "the note says low, the place says high"
        );
        high.note_use();
        assert_eq!(Connection::of_wal("/wal/a.db-wal", 5030).unwrap().id, high.id);
        assert!(Connection::of_wal("/wal/a.db-wal", 900).is_none(), "before all names");
        assert!(Connection::of_wal("/wal/b.db-wal", 5030).is_none(), "another database");
    }

    #[test]
    fn a_connection_that_is_closed_owns_no_wal_though_another_thread_still_holds_it() {
        let closed = open_at("/wal/c.db", 1000);
        closed.note_close();
        let next = open_at("/wal/c.db", 1000);
        next.note_use();
        assert_eq!(Connection::of_wal("/wal/c.db-wal", 1030).unwrap().id, next.id);
        drop(closed);
    }

    /// Whoever looks for a database may hold it last. Its drop took the lock that was held.
    #[test]
    fn a_database_that_goes_while_it_is_looked_for_stops_nobody() {
        const PATH: &str = "/goes/a.db";
        let opens = || (0..20_000).for_each(|_| open(PATH).note_close());
        let opening = std::thread::spawn(opens);
        while !opening.is_finished() {
            Database::find(PATH);
        }
        opening.join().unwrap();
    }

    #[test]
    fn a_side_file_belongs_to_the_connection_last_used_in_this_thread() {
        let (first, second) = (open("/last/a.db"), open("/last/a.db"));
        second.note_use();
        first.note_use();
        assert_eq!(Connection::of_side_file("/last/a.db-wal").unwrap().id, first.id);
        second.note_use();
        assert_eq!(Connection::of_side_file("/last/a.db-journal").unwrap().id, second.id);
        assert_eq!(Connection::of_side_file("/last/a.nal").unwrap().id, second.id);
    }

    /// The WAL of "a.db-x" once was taken for one of "a.db".
    #[test]
    fn a_side_file_is_not_taken_for_that_of_a_database_whose_name_begins_like_its_own() {
        let (a, _longer) = (open("/begin/a.db"), open("/begin/a.db-x"));
        a.note_use();
        for (path, is_own) in [
            ("-wal", true),
            ("-journal", true),
            ("-x-wal", false),
            ("-x-journal", false),
            ("-shm", false),
        ] {
            assert_eq!(a.owns(&format!("/begin/a.db{path}")), is_own, "{path}");
        }
        assert_ne!(Connection::of_side_file("/begin/a.db-x-wal").unwrap().id, a.id);
        assert!(Connection::of_wal("/begin/a.db-x-wal", 10).is_none());
    }

    #[test]
    fn a_side_file_of_another_database_goes_to_its_only_connection_or_to_none() {
        let (a, b) = (open("/other/a.db"), open("/other/b.db"));
        b.note_use();
        assert_eq!(Connection::of_side_file("/other/a.db-wal").unwrap().id, a.id);
        let a_again = open("/other/a.db");
        assert!(Connection::of_side_file("/other/a.db-wal").is_none());
        drop(a_again);
        assert!(Connection::of_side_file("/other/c.db-wal").is_none());
    }

    #[test]
    fn a_file_that_has_taken_the_place_of_another_is_another_database() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db").display().to_string();
        std::fs::write(&path, "one").unwrap();
        let (first, again) = (open(&path), open(&path));
        assert!(Arc::ptr_eq(&first.database, &again.database));
        let new = format!("{path}.new");
        std::fs::write(&new, "two").unwrap();
        std::fs::rename(&new, &path).unwrap();
        let other = open(&path);
        assert!(!Arc::ptr_eq(&first.database, &other.database));
        drop((first, again));
        assert!(Arc::ptr_eq(&Database::find(&path).unwrap(), &other.database));
    }

    /// A fork in another thread had found the database while its last connection was closed. The
    /// next open, with another strategy, was refused: "in use with strategy eager".
    #[test]
    fn a_database_without_connections_is_not_in_use_whoever_has_found_it() {
        let last = open("/found/a.db");
        let found = Database::find("/found/a.db").unwrap();
        drop(last);
        assert!(Database::find("/found/a.db").is_none());
        let next = open("/found/a.db");
        assert!(!Arc::ptr_eq(&next.database, &found));
        drop(found);
        assert!(Arc::ptr_eq(&Database::find("/found/a.db").unwrap(), &next.database));
    }

    #[test]
    fn a_database_lives_as_long_as_its_connections_and_keeps_the_counts_of_closed_ones() {
        let (first, second) = (open("/life/a.db"), open("/life/a.db"));
        crate::stats::add(&first.tally().of(Role::Db).writes, 3);
        drop(first);
        let json = second.stats_json(None);
        assert!(json.contains("\"connections\":1"), "{json}");
        assert!(json.contains("\"writes\":3"), "{json}");
        drop(second);
        assert!(Database::find("/life/a.db").is_none());
    }
}
