//! An open file: counts each call under its role and hands it to the strategy of its connection.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use crate::calls::{Call, Calls};
use crate::config::{Layout, StrategyKind};
use crate::connection::{Connection, Database};
use crate::error::{Code, Error};
use crate::port::{
    Below, BusyHandler, DeviceCharacteristics, LockLevel, MainFile, ShmLock, SyncRequest,
};
use crate::role::Role;
use crate::stats::{Counters, Sample, Tally, add, add_alone, clock};
use crate::strategy::{AbsorbsJournal, AtomicStep, Chosen, SharedWal, Stock, Strategy, guard};
use crate::super_journal;

/// The counters of files that belong to no known database. Nobody reads them.
static NOWHERE: LazyLock<Tally> = LazyLock::new(Tally::default);

/// What carries out the calls of a file without a connection: SQLite's own way.
static UNCHANGED: Chosen = Chosen::Stock(Stock);

pub struct File<B> {
    role: Role,
    /// True if the counters have one writer.
    ///
    /// SQLite uses a connection from one thread at a time, but its sorter writes temporary files
    /// from several.
    counts_alone: bool,
    owner: Owner,
    /// Where the file's calls are written down, if that is wanted.
    calls: Option<Box<Calls>>,
    below: B,
}

/// Whom a file's counts belong to.
pub enum Owner {
    Connection(Arc<Connection>),
    /// A side file of a database that several connections have open. None of them is known to have
    /// opened it.
    Database(Arc<Database>),
    Nobody,
}

/// A journal that is no file, and its owner.
pub struct Absorbed {
    pub owner: Owner,
    pub file: Box<dyn Below>,
}

impl Owner {
    /// The owner of a file that is being opened and is no main database. `path` is None for a
    /// temporary file.
    pub fn of_opened(role: Role, path: Option<&str>, name_address: usize) -> Owner {
        match (role, path) {
            // The same for a journal, where a strategy absorbs it. Others are only counted.
            (Role::RollbackJournal, Some(path)) if Connection::absorbs_journals(path) => {
                let may_play_back = |journals: &dyn AbsorbsJournal| journals.may_play_back_file();
                match Connection::that_absorbs(path, may_play_back) {
                    Some(connection) => Owner::Connection(connection),
                    None => Owner::of_database(path),
                }
            }
            // A WAL has a strategy. So it goes to the connection that it is sure to belong to, or
            // to none.
            (Role::Wal, Some(path)) => match Connection::of_wal(path, name_address) {
                Some(connection) => Owner::Connection(connection),
                None => Owner::of_database(path),
            },
            _ => Owner::of_side_file(role, path),
        }
    }

    /// True if this process writes a WAL whose directory entry is durable.
    pub fn has_durable_wal(&self) -> bool {
        match self {
            Owner::Connection(connection) => {
                connection.strategy().call(|strategy| strategy.has_durable_wal())
            }
            Owner::Database(_) | Owner::Nobody => false,
        }
    }

    /// True if `wal` is the WAL that this process writes, and its directory entry is durable.
    pub fn knows_wal(&self, wal: &dyn Below) -> bool {
        match self {
            Owner::Connection(connection) => {
                connection.strategy().call(|strategy| strategy.knows_wal(wal))
            }
            Owner::Database(_) | Owner::Nobody => false,
        }
    }

    /// The connection that SQLite creates this journal for, or opens it again to play it back, and
    /// the file that stands for it. `None`: SQLite gets a real file.
    pub fn open_absorbed(path: &str, creates: bool) -> Result<Option<Absorbed>, Error> {
        let Some(connection) = Connection::that_absorbs(path, |journals| match creates {
            true => journals.may_create_journal(),
            false => journals.may_play_back(),
        }) else {
            return Ok(None);
        };
        let absorbs = |strategy: &dyn Strategy| {
            strategy.absorbs_journal().map_or(Ok(None), AbsorbsJournal::opening_journal)
        };
        let file = connection.strategy().call(absorbs)?;
        Ok(file.map(|file| Absorbed { owner: Owner::Connection(connection), file }))
    }

    /// The path of the file that stands for a WAL of this owner.
    ///
    /// Where another file stands for the WAL, a WAL without a certain connection is refused: nobody
    /// would log it.
    pub fn wal_path(&self) -> Result<Option<String>, Error> {
        match self {
            Owner::Connection(connection) => {
                Ok(connection.strategy().call(|strategy| strategy.wal_path()))
            }
            Owner::Database(database) if database.shared().is_some_and(SharedWal::is_guarded) => {
                Err(Error::Below(Code::CANTOPEN))
            }
            Owner::Database(_) | Owner::Nobody => Ok(None),
        }
    }

    /// A WAL of this owner is about to be opened.
    pub fn opening_wal(&self) -> Result<(), Error> {
        match self {
            Owner::Connection(connection) => {
                connection.strategy().call(|strategy| strategy.opening_wal())
            }
            Owner::Database(_) | Owner::Nobody => Ok(()),
        }
    }

    /// The WAL of this owner, if it is no file of the VFS below.
    pub fn open_virtual(&self) -> Result<Option<Box<dyn Below>>, Error> {
        match self {
            Owner::Connection(connection) => {
                connection.strategy().call(|strategy| strategy.open_virtual())
            }
            Owner::Database(_) | Owner::Nobody => Ok(None),
        }
    }

    /// A WAL of this owner could not be opened.
    pub fn closing_wal(&self) {
        if let Owner::Connection(connection) = self {
            connection.strategy().call(|strategy| strategy.closing_wal());
        }
    }

    fn of_database(path: &str) -> Owner {
        let database = Role::of_side_file(path).and_then(|(_, path)| Database::find(path));
        database.map_or(Owner::Nobody, Owner::Database)
    }

    /// The owner of the counts of a file that is no main database.
    fn of_side_file(role: Role, path: Option<&str>) -> Owner {
        let connection = match (role, path) {
            (Role::RollbackJournal | Role::Wal, Some(path)) => Connection::of_side_file(path),
            _ => Connection::last_used(),
        };
        if let Some(connection) = connection {
            return Owner::Connection(connection);
        }
        path.map_or(Owner::Nobody, Owner::of_database)
    }
}

impl<B: MainFile> File<B> {
    pub fn new(role: Role, owner: Owner, calls: Option<Box<Calls>>, below: B) -> File<B> {
        let counts_alone = role.is_durable() && matches!(owner, Owner::Connection(_));
        let file = File { role, counts_alone, owner, calls, below };
        file.count(|counters| [(&counters.opens, 1)]);
        file
    }

    pub fn below(&self) -> &B {
        &self.below
    }

    /// The connection that this file is the main database of.
    pub fn main_of(&self) -> Option<&Arc<Connection>> {
        match &self.owner {
            Owner::Connection(connection) if self.role == Role::Db => Some(connection),
            _ => None,
        }
    }

    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        self.count(|counters| [(&counters.reads, 1), (&counters.read_bytes, buffer.len() as u64)]);
        self.strategy().call(|strategy| strategy.read(&self.below, self.role, buffer, offset))
    }

    pub fn write(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.count(|counters| [(&counters.writes, 1), (&counters.write_bytes, data.len() as u64)]);
        if let Some(connection) = self.connection() {
            connection.commit().wrote(self.role, data.len());
        }
        if self.role == Role::Db
            && offset == 0
            && let Some(connection) = self.connection()
        {
            connection.writes_first_page(data);
        }
        let call = Call::Write { bytes: data.len(), offset };
        self.around(call, || {
            self.strategy().call(|strategy| strategy.write(&self.below, self.role, data, offset))
        })
    }

    pub fn truncate(&self, size_bytes: u64) -> Result<(), Error> {
        self.count(|counters| [(&counters.truncates, 1)]);
        if let Some(connection) = self.connection() {
            connection.commit().goes_on();
        }
        let call = Call::Truncate { size_bytes };
        self.around(call, || {
            self.strategy().call(|strategy| strategy.truncate(&self.below, self.role, size_bytes))
        })
    }

    pub fn sync(&self, request: SyncRequest) -> Result<(), Error> {
        self.count(|counters| [(&counters.syncs, 1)]);
        let began_ns = clock::now_ns();
        if let Some(connection) = self.connection() {
            connection.commit().syncs(self.role, began_ns);
        }
        let sync =
            || self.strategy().call(|strategy| strategy.sync(&self.below, self.role, request));
        let result = self.around(Call::Sync, sync);
        let ended_ns = clock::now_ns();
        let sample = Sample::Sync { role: self.role, latency_ns: ended_ns - began_ns };
        match &self.owner {
            Owner::Connection(connection) => {
                connection.commit().synced(ended_ns);
                connection.note_sample(sample);
            }
            Owner::Database(database) => database.measured().add([sample]),
            Owner::Nobody => {}
        }
        result
    }

    pub fn size_bytes(&self) -> Result<u64, Error> {
        self.strategy().call(|strategy| strategy.size_bytes(&self.below, self.role))
    }

    pub fn lock(&self, level: LockLevel) -> Result<(), Error> {
        self.note_use();
        self.strategy().call(|strategy| strategy.lock(&self.below, level))?;
        if level == LockLevel::Reserved
            && let Some(connection) = self.connection()
        {
            connection.commit().write_lock_taken();
        }
        Ok(())
    }

    pub fn unlock(&self, level: LockLevel) -> Result<(), Error> {
        self.strategy().call(|strategy| strategy.unlock(&self.below, level))
    }

    #[inline(always)]
    pub fn take_read_lock(&self, slot: u8) -> Result<(), Code> {
        let read = ShmLock::of_reader(slot, true);
        match &self.owner {
            Owner::Connection(connection) => {
                // Only a main database has a WAL index.
                connection.note_use();
                connection.strategy().call(|strategy| strategy.take_read_lock(&self.below, read))
            }
            Owner::Database(_) | Owner::Nobody => self.below.shm_lock(read),
        }
    }

    #[inline(always)]
    pub fn release_read_lock(&self, slot: u8) -> Result<(), Code> {
        let read = ShmLock::of_reader(slot, false);
        match &self.owner {
            Owner::Connection(connection) => {
                connection.strategy().call(|strategy| strategy.release_read_lock(&self.below, read))
            }
            Owner::Database(_) | Owner::Nobody => self.below.shm_lock(read),
        }
    }

    /// Any other lock of the WAL index.
    pub fn shm_lock(&self, lock: ShmLock) -> Result<(), Error> {
        if lock.acquire {
            self.note_use();
        }
        self.strategy().call(|strategy| strategy.shm_lock(&self.below, lock))?;
        if lock.exclusive
            && let Some(connection) = self.connection()
        {
            if lock.acquire && lock.covers(ShmLock::WRITE) {
                connection.commit().write_lock_taken();
            }
            if lock.covers(ShmLock::CHECKPOINT) {
                connection.commit().checkpoint_lock(lock.acquire);
            }
        }
        Ok(())
    }

    /// A panic was stopped at a callback of this file.
    pub fn panicked(&self, released: Option<ShmLock>) {
        self.strategy().call(|strategy| strategy.panicked(released));
    }

    pub fn unmapping_index(&self) {
        self.strategy().call(|strategy| strategy.unmapping_index());
    }

    pub fn mapped_read(&self) {
        self.count(|counters| [(&counters.mapped_reads, 1)]);
    }

    pub fn sector_size(&self) -> i32 {
        self.strategy().call(|strategy| strategy.sector_size(&self.below, self.role))
    }

    pub fn device_characteristics(&self) -> DeviceCharacteristics {
        self.strategy().call(|strategy| strategy.device_characteristics(&self.below, self.role))
    }

    /// `SQLITE_FCNTL_COMMIT_PHASETWO`, after the VFS below has had it. An error fails the commit.
    pub fn commit_phase_two(&self) -> Result<(), Error> {
        self.strategy().call(|strategy| strategy.commit_phase_two())?;
        if let Some(connection) = self.connection()
            && let Some(commit) = connection.commit().committed()
        {
            connection.note_sample(Sample::Commit(commit));
        }
        Ok(())
    }

    /// `SQLITE_FCNTL_CKPT_START` and `SQLITE_FCNTL_CKPT_DONE`.
    pub fn checkpoint(&self, running: bool) -> Result<(), Error> {
        if let Some(connection) = self.connection() {
            connection.commit().checkpoint_announced(running);
        }
        self.strategy().call(|strategy| strategy.checkpoint_announced(running))
    }

    /// Why the strategy of this main database file changes nothing now.
    ///
    /// None: the strategy is in force, or that cannot be known.
    pub fn inactive_because(&self) -> Option<String> {
        let connection = self
            .main_of()
            .filter(|connection| connection.options().strategy != StrategyKind::Stock)?;
        let mut header = [0; guard::HEADER_BYTES];
        match self.strategy().call(|strategy| strategy.read(&self.below, Role::Db, &mut header, 0))
        {
            Ok(()) | Err(Error::Below(Code::SHORT_READ)) => connection.inactive_because(&header),
            Err(_) => None,
        }
    }

    /// A message after the first transaction that a strategy had no part in, if it was asked for by
    /// name.
    ///
    /// Only the rollback modes lock and unlock the database file for a transaction. So no commit in
    /// WAL mode pays for this.
    pub fn inactive_for_the_first_time(&self) -> Option<String> {
        self.main_of()?.inactive_for_the_first_time()
    }

    /// `SQLITE_FCNTL_PRAGMA`.
    pub fn asked_by_pragma(&self) {
        self.strategy().call(|strategy| strategy.asked_by_pragma());
    }

    /// `SQLITE_FCNTL_BUSYHANDLER`.
    pub fn busy_handler(&self, handler: Arc<dyn BusyHandler>) {
        self.strategy().call(|strategy| strategy.busy_handler(handler));
    }

    /// The file was opened. Its strategy may use it until [`File::closing`].
    pub fn opened(&self) -> Result<(), Error>
    where
        B: Clone + 'static,
    {
        match self.role {
            Role::Db => {
                self.strategy().call(|strategy| strategy.opened(Arc::new(self.below.clone())))
            }
            Role::Wal => {
                self.strategy().call(|strategy| strategy.opened_wal(Box::new(self.below.clone())))
            }
            Role::SuperJournal => {
                super_journal::opened();
                Ok(())
            }
            Role::RollbackJournal => {
                self.strategy().call(|strategy| {
                    if let Some(journals) = strategy.absorbs_journal() {
                        journals.opened_journal();
                    }
                });
                Ok(())
            }
            Role::Temp => Ok(()),
        }
    }

    pub fn closing(&self) {
        match self.role {
            Role::Db => {
                if let Some(connection) = self.connection() {
                    connection.note_close();
                }
                self.strategy().call(|strategy| strategy.closing());
            }
            Role::Wal => self.strategy().call(|strategy| strategy.closing_wal()),
            Role::SuperJournal => super_journal::closing(),
            Role::RollbackJournal => self.strategy().call(|strategy| {
                if let Some(journals) = strategy.absorbs_journal() {
                    journals.closing_journal();
                }
            }),
            Role::Temp => {}
        }
    }

    /// A step of SQLite's own batch of atomic writes. `None`: the VFS below decides.
    pub fn atomic_step(&self, step: AtomicStep) -> Option<Result<(), Error>> {
        if self.role != Role::Db {
            return None;
        }
        let absorbs = |strategy: &dyn Strategy| {
            Some(strategy.absorbs_journal()?.atomic_step(&self.below, step))
        };
        self.strategy().call(absorbs)
    }

    /// True if writes to this main database file are kept in memory now.
    pub fn absorbs_writes(&self) -> bool {
        let absorbs = |strategy: &dyn Strategy| {
            strategy.absorbs_journal().is_some_and(AbsorbsJournal::is_absorbing)
        };
        self.role == Role::Db && self.strategy().call(absorbs)
    }

    /// True if this part of the file may be read from mapped memory.
    pub fn maps(&self, offset: u64) -> bool {
        self.role != Role::Db || self.strategy().call(|strategy| strategy.maps(offset))
    }

    /// `SQLITE_FCNTL_HAS_MOVED`.
    pub fn asked_whether_moved(&self, has_moved: bool) {
        self.note_use();
        self.strategy().call(|strategy| strategy.asked_whether_moved(has_moved));
    }

    /// SQLite asked whether the WAL is to stay. `stays` is the answer so far; SQLite gets what this
    /// returns.
    pub fn asked_whether_wal_stays(&self, stays: bool) -> bool {
        self.strategy().call(|strategy| strategy.asked_whether_wal_stays(stays))
    }

    /// True if a new database is to have reserved bytes for the headers of frames.
    pub fn wants_reserved_bytes(&self) -> bool {
        self.main_of().is_some_and(|connection| {
            let options = connection.options();
            options.strategy == StrategyKind::Waldio && options.layout == Layout::Embed
        })
    }

    /// Leaves the note by which side files find their connection.
    pub fn note_use(&self) {
        if let Some(connection) = self.main_of() {
            connection.note_use();
        }
    }

    #[inline]
    fn around<T>(&self, call: Call, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        match &self.calls {
            None => act(),
            Some(calls) => calls.around(call, act),
        }
    }

    /// The connection that the file belongs to, if that is known.
    pub fn connection(&self) -> Option<&Arc<Connection>> {
        match &self.owner {
            Owner::Connection(connection) => Some(connection),
            Owner::Database(_) | Owner::Nobody => None,
        }
    }

    fn strategy(&self) -> &Chosen {
        match &self.owner {
            Owner::Connection(connection) => connection.strategy(),
            Owner::Database(_) | Owner::Nobody => &UNCHANGED,
        }
    }

    #[inline]
    fn count<const N: usize>(&self, increments: impl FnOnce(&Counters) -> [(&AtomicU64, u64); N]) {
        match &self.owner {
            Owner::Connection(connection) if self.counts_alone => {
                for (counter, n) in increments(connection.tally().of(self.role)) {
                    add_alone(counter, n);
                }
            }
            _ => self.count_shared(increments),
        }
    }

    /// Kept apart from the path of the files that commits go through.
    #[cold]
    #[inline(never)]
    fn count_shared<const N: usize>(
        &self,
        increments: impl FnOnce(&Counters) -> [(&AtomicU64, u64); N],
    ) {
        let tally = match &self.owner {
            Owner::Connection(connection) => connection.tally(),
            Owner::Database(database) => database.closed(),
            Owner::Nobody => &NOWHERE,
        };
        for (counter, n) in increments(tally.of(self.role)) {
            add(counter, n);
        }
    }
}

/// SQLite has deleted the file `path`. Super-journals belong to several databases and are not
/// counted.
pub fn deleted(path: &str) {
    let Some((role, _)) = Role::of_side_file(path) else { return };
    match Owner::of_side_file(role, Some(path)) {
        Owner::Connection(connection) => {
            add(&connection.tally().of(role).deletes, 1);
            connection.commit().goes_on();
        }
        Owner::Database(database) => add(&database.closed().of(role).deletes, 1),
        Owner::Nobody => {}
    }
}
