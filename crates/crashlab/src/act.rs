//! Carries out the steps of a script through real SQLite, on a machine with files: the simulated
//! one, or a real one.
//!
//! Marks never promise too much: *begun* is set before COMMIT is called, and *acknowledged* after
//! COMMIT returned.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::Connection;

use crate::changes::{Amount, changes, schema_changes, thinning};
use crate::lock::locked;
use crate::log::Mark;
use crate::machine::Machine;
use crate::model::{Book, CREATE, Change, Found, Model, NOTHING, change_sql, find};
use crate::script::{Script, Step};
use crate::setting::{Journal, Setting, Synchronous};

/// Carries out steps, and remembers what they make of the databases.
pub struct Actor<'a, M> {
    pub machine: M,
    pub files: Vec<String>,
    script: &'a Script,
    setting: &'a Setting,
    book: Mutex<Book>,
    /// The setting of connections that are opened now. After a switch its strategy is not that of
    /// `setting`.
    opening: Mutex<Setting>,
    /// How many processes of each connection have died.
    died: Mutex<BTreeMap<usize, usize>>,
}

pub struct Open {
    pub connection: Connection,
    level: Synchronous,
    setting: Setting,
}

/// Errors of SQLite are expected where there are faults. What contradicts the model never is.
pub enum StepError {
    Sqlite(rusqlite::Error),
    Refused(String),
    Contradiction(String),
}

impl StepError {
    pub fn is_expected_with_faults(&self) -> bool {
        match self {
            StepError::Sqlite(_) | StepError::Refused(_) => true,
            StepError::Contradiction(_) => false,
        }
    }
}

impl From<rusqlite::Error> for StepError {
    fn from(error: rusqlite::Error) -> StepError {
        StepError::Sqlite(error)
    }
}

pub type Connections = BTreeMap<usize, Open>;

impl<'a, M: Machine> Actor<'a, M> {
    pub fn new(script: &'a Script, setting: &'a Setting, machine: M) -> Actor<'a, M> {
        Actor {
            machine,
            files: script.workload.files(),
            script,
            setting,
            book: Mutex::default(),
            opening: Mutex::new(setting.clone()),
            died: Mutex::default(),
        }
    }

    pub fn text(&self, error: StepError) -> String {
        match error {
            StepError::Sqlite(error) => {
                format!("workload {}: SQLite: {error}", self.script.workload)
            }
            StepError::Refused(now) => format!(
                "workload {}: SQLite kept journal_mode={now} where {} was asked for",
                self.script.workload,
                self.setting.journal.name()
            ),
            StepError::Contradiction(text) => text,
        }
    }

    /// Reads all databases through new connections.
    pub fn read_all(&self) -> Result<Vec<Found>, String> {
        let read = |file: &String| -> rusqlite::Result<Found> {
            let connection = self.setting.open(&self.machine, self.process_of(0), file)?;
            connection.busy_timeout(Duration::from_secs(5))?;
            find(&connection, "main")
        };
        self.files
            .iter()
            .map(|file| read(file).map_err(|error| format!("{file}: {error}")))
            .collect()
    }

    /// Without faults each database ends with the last state that was begun.
    pub fn book_is_kept(&self) -> Result<(), String> {
        let found = self.read_all().map_err(|error| format!("at the end of the run: {error}"))?;
        for (file, found) in found.into_iter().enumerate() {
            let wanted = locked(&self.book).latest(file, found.order);
            if found != wanted {
                return Err(format!(
                    "database {file} holds {found:?} at the end of the run, the model {wanted:?}"
                ));
            }
        }
        Ok(())
    }

    pub fn step(&self, step: &Step, connections: &mut Connections) -> Result<(), StepError> {
        match *step {
            Step::Commit { connection, amount, seed } => self
                .commit(self.open(connections, connection)?, |file| {
                    self.changes(amount, seed ^ file as u64)
                }),
            Step::Thin { connection, seed } => {
                self.commit(self.open(connections, connection)?, |_| thinning(seed))
            }
            Step::Schema { connection, seed } => self
                .commit(self.open(connections, connection)?, |_| {
                    schema_changes(seed, self.script.row_bytes_more)
                }),
            Step::Savepoints { connection, seed } => {
                self.savepoints(self.open(connections, connection)?, seed)
            }
            Step::RolledBack { connection, amount, seed } => {
                let connection = &self.open(connections, connection)?.connection;
                connection.execute_batch("BEGIN IMMEDIATE")?;
                if find(connection, "main")?.order == 0 {
                    connection.execute_batch(&CREATE.replace("{s}", "main"))?;
                }
                for change in self.changes(amount, !seed) {
                    change_sql(connection, "main", &change)?;
                }
                Ok(connection.execute_batch("UPDATE c SET o = o + 1; ROLLBACK")?)
            }
            Step::Vacuum { connection, page_bytes } => {
                let pragma = page_bytes.map(|bytes| format!("PRAGMA page_size={bytes};"));
                let sql = pragma.unwrap_or_default() + "VACUUM";
                Ok(self.open(connections, connection)?.connection.execute_batch(&sql)?)
            }
            Step::Killed { connection, amount, seed, at } => {
                self.open(connections, connection)?;
                match connections.remove(&connection) {
                    Some(open) => self.killed(open, connection, self.changes(amount, seed), at),
                    None => Ok(()),
                }
            }
            Step::Checkpoint { connection, kind } => {
                let sql = format!("PRAGMA wal_checkpoint({})", kind.name());
                Ok(self.open(connections, connection)?.connection.execute_batch(&sql)?)
            }
            // In a rollback mode the snapshot would keep the writer out.
            Step::Snapshot { .. } if !self.setting.reads_snapshots() => Ok(()),
            Step::Snapshot { connection, held } => {
                let connection = &self.open(connections, connection)?.connection;
                // A script may have lost either step to shrinking.
                match (held, connection.is_autocommit()) {
                    (true, true) => {
                        Ok(connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?)
                    }
                    (false, false) => Ok(connection.execute_batch("COMMIT")?),
                    (true, false) | (false, true) => Ok(()),
                }
            }
            Step::Synchronous { connection, level } => {
                // A rollback journal at NORMAL may corrupt the database when power is lost. SQLite
                // says so, and promises nothing.
                let opening = locked(&self.opening).clone();
                let is_safe = self.setting.reads_snapshots() || opening.absorbs_journal();
                let level = if is_safe { level } else { level.max(Synchronous::Full) };
                let open = self.open(connections, connection)?;
                let is_off = level == Synchronous::Normal && self.setting.promises_all();
                let name = if is_off { "off" } else { level.name() };
                open.connection.execute_batch(&format!("PRAGMA synchronous={name}"))?;
                open.level = level;
                Ok(())
            }
            Step::Close { connection } => {
                connections.remove(&connection);
                Ok(())
            }
            Step::Switch { ref strategy } => {
                connections.clear();
                let mut opening = locked(&self.opening);
                *opening = match strategy {
                    Some(strategy) => self.setting.with(strategy),
                    None => self.setting.clone(),
                };
                let is_sqlites = self.setting.absorbs_journal() && !opening.absorbs_journal();
                self.machine.strategy_changes(is_sqlites);
                Ok(())
            }
            Step::Threads { threads, commits, seed } => self.threads(threads, commits, seed),
        }
    }

    fn threads(&self, threads: usize, commits: usize, seed: u64) -> Result<(), StepError> {
        // This connection stays open. So the first writer to end does not take the WAL with it (see
        // `prepare`).
        let _keeper = self.connect(threads)?;
        self.machine.threads_commit(true);
        let result = std::thread::scope(|scope| {
            let writer = |thread: usize| {
                let mut open = self.connect(thread)?;
                for commit in 0..commits {
                    let seed = seed ^ (thread * 1000 + commit) as u64;
                    self.commit(&mut open, |_| self.changes(Amount::Small, seed))?;
                }
                Ok(())
            };
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || writer(thread))).collect();
            running.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(StepError::Contradiction("a writer panicked".to_owned()))
                })
            })
        });
        self.machine.threads_commit(false);
        result
    }

    pub fn open<'c>(
        &self,
        connections: &'c mut Connections,
        number: usize,
    ) -> Result<&'c mut Open, StepError> {
        Ok(match connections.entry(number) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(none) => none.insert(self.connect(number)?),
        })
    }

    fn connect(&self, number: usize) -> Result<Open, StepError> {
        let process = self.process_of(number);
        let setting = locked(&self.opening).clone();
        let connection = setting.open(&self.machine, process, &self.files[0])?;
        // Here a second of waiting takes some milliseconds (`x_sleep`).
        connection.busy_timeout(Duration::from_secs(600))?;
        if let Some(second) = self.files.get(1) {
            connection
                .execute("ATTACH ?1 AS second", [setting.uri(&self.machine, process, second)])?;
        }
        let script = self.script;
        let drawn = script.level.filter(|_| setting.absorbs_journal());
        let level = drawn.map_or(setting.synchronous, |level| level.max(setting.synchronous));
        let locking = if script.is_exclusive { "EXCLUSIVE" } else { "NORMAL" };
        for (schema, _) in self.schemas() {
            // The journal mode is set only where it differs. Asking for it takes locks that others
            // may hold.
            connection.execute_batch(&format!(
                "PRAGMA {schema}.page_size={}; PRAGMA {schema}.auto_vacuum={}; PRAGMA \
                    {schema}.synchronous={};
                 PRAGMA {schema}.cache_size=5; PRAGMA {schema}.locking_mode={locking}",
                script.page_bytes,
                u8::from(script.auto_vacuum),
                level.name(),
            ))?;
            let now: String =
                connection
                    .query_row(&format!("PRAGMA {schema}.journal_mode"), [], |row| row.get(0))?;
            if now != self.setting.journal.name() {
                let sql = format!("PRAGMA {schema}.journal_mode={}", self.setting.journal.name());
                let now: String = connection.query_row(&sql, [], |row| row.get(0))?;
                if now != self.setting.journal.name() {
                    // SQLite answers with the old mode where it could not change it.
                    return Err(StepError::Refused(now));
                }
            }
        }
        if self.setting.journal == Journal::Wal {
            connection.execute_batch(&format!(
                "PRAGMA wal_autocheckpoint={}",
                script.checkpoint_frames
            ))?;
        }
        Ok(Open { connection, level, setting })
    }

    /// The process of a connection. One that has died is followed by another.
    pub fn process_of(&self, connection: usize) -> usize {
        const FURTHER: usize = 10;
        let died = locked(&self.died).get(&connection).copied().unwrap_or(0);
        self.script.workload.process_of(connection) + FURTHER * died
    }

    /// The process of this connection dies during a commit of these changes.
    fn killed(
        &self,
        open: Open,
        number: usize,
        changes: Vec<Change>,
        at: u32,
    ) -> Result<(), StepError> {
        open.connection.execute_batch("BEGIN IMMEDIATE")?;
        let begun = match self.change(&open.connection, |_| changes.clone()) {
            Ok(begun) => begun,
            error => return self.end(&open, error),
        };
        self.mark_begun(&begun);
        let promised = open.setting.promises(open.level);
        let process = self.process_of(number);
        let answer = self.machine.last_call(process, &self.files, at, move || {
            let result = open.connection.execute_batch("COMMIT");
            (result, open)
        });
        *locked(&self.died).entry(number).or_default() += 1;
        if let Some(result) = answer {
            result?;
            self.mark_acknowledged(&begun, promised);
        }
        Ok(())
    }

    /// The databases of a connection: each one's name in SQL, and its number.
    fn schemas(&self) -> impl Iterator<Item = (&'static str, usize)> {
        ["main", "second"].into_iter().zip(0..self.files.len())
    }

    fn commit(
        &self,
        open: &mut Open,
        changes: impl Fn(usize) -> Vec<Change>,
    ) -> Result<(), StepError> {
        let connection = &open.connection;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let begun = self.change(connection, changes);
        self.end(open, begun)
    }

    fn changes(&self, amount: Amount, seed: u64) -> Vec<Change> {
        changes(amount, seed, self.script.row_bytes_more)
    }

    fn savepoints(&self, open: &mut Open, seed: u64) -> Result<(), StepError> {
        let connection = &open.connection;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let begun =
            self.change(connection, |_| self.changes(Amount::Several, seed)).and_then(|begun| {
                connection.execute_batch("SAVEPOINT a")?;
                for change in self.changes(Amount::Large, seed ^ 1) {
                    change_sql(connection, "main", &change)?;
                }
                connection.execute_batch(
                    "SAVEPOINT b; DELETE FROM t; RELEASE b; ROLLBACK TO a; RELEASE a",
                )?;
                Ok(begun)
            });
        self.end(open, begun)
    }

    /// Makes the changes of a transaction that has begun, and enters what it will leave.
    fn change(
        &self,
        connection: &Connection,
        changes: impl Fn(usize) -> Vec<Change>,
    ) -> Result<Vec<(usize, Found)>, StepError> {
        let mut begun = Vec::new();
        for (schema, file) in self.schemas() {
            // An I/O error may come in the switch of a new database to WAL. SQLite then answers
            // "wal" and stays with a rollback journal, where FULL promises less. Within a
            // transaction it tells the truth.
            let journal: String =
                connection
                    .query_row(&format!("PRAGMA {schema}.journal_mode"), [], |row| row.get(0))?;
            if journal != self.setting.journal.name() {
                return Err(StepError::Refused(journal));
            }
            let mut before = find(connection, schema)?;
            let changes = changes(file);
            if before.order == 0 {
                // The tables are made in the first transaction.
                connection.execute_batch(&CREATE.replace("{s}", schema))?;
                before = NOTHING;
            }
            if self.machine.has_others() {
                locked(&self.book).learn(file, before, Model::read(connection, schema)?);
            }
            for change in &changes {
                change_sql(connection, schema, change)?;
            }
            connection.execute_batch(&format!("UPDATE {schema}.c SET o = o + 1"))?;
            let found = locked(&self.book).begin(file, before, &changes).ok_or_else(|| {
                StepError::Contradiction(format!(
                    "database {file} holds {before:?}, which no transaction made"
                ))
            })?;
            begun.push((file, found));
        }
        Ok(begun)
    }

    fn end(
        &self,
        open: &Open,
        begun: Result<Vec<(usize, Found)>, StepError>,
    ) -> Result<(), StepError> {
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // Some errors have rolled back already. Then this fails, which does no harm.
                let _ = open.connection.execute_batch("ROLLBACK");
                return Err(error);
            }
        };
        self.mark_begun(&begun);
        open.connection.execute_batch("COMMIT")?;
        self.mark_acknowledged(&begun, open.setting.promises(open.level));
        Ok(())
    }

    fn mark_begun(&self, begun: &[(usize, Found)]) {
        for &(file, Found { order, digest }) in begun {
            self.machine.mark(Mark::Begun { file, order, digest });
        }
        // A super-journal, or one record of a log, makes the commit atomic. A WAL does not, nor
        // does the second B-tree.
        if let [(0, first), (1, second)] = begun
            && !self.setting.reads_snapshots()
        {
            let orders = [first.order, second.order];
            self.machine.mark(Mark::Together { orders });
        }
    }

    fn mark_acknowledged(&self, begun: &[(usize, Found)], promised: bool) {
        for &(file, Found { order, digest }) in begun {
            self.machine.mark(Mark::Acknowledged { file, order, digest, promised });
        }
    }
}
