//! Runs a script with real SQLite on a recording disk.
//!
//! Several connections at once are threads of this process, as fast as they come. The disk takes
//! their operations, and those of a strategy's own threads, in the order in which they arrive.
//!
//! Marks never promise too much: *begun* is set before COMMIT is called, and *acknowledged* after
//! COMMIT returned.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::Connection;

use crate::changes::{Amount, changes, schema_changes, thinning};
use crate::content::Image;
use crate::fault::FaultPlan;
use crate::log::{Mark, Op};
use crate::model::{Allowed, Book, CREATE, Change, Found, NOTHING, change_sql, find};
use crate::script::{Life, Script, Step};
use crate::setting::{Journal, SQLITE_ALONE, Setting, Synchronous};
use crate::state::drawn_image;
use crate::vfs::{Mounted, locked, reserve_bytes};

/// What a run left behind: enough to make all its crash states.
#[derive(Clone)]
pub struct Recording {
    pub initial: Image,
    pub beginning: Vec<Found>,
    pub log: Vec<Op>,
    pub files: Vec<String>,
}

/// What the application does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterError {
    GoOn,
    Reopen,
    CrashNext,
}

impl AfterError {
    pub const ALL: [AfterError; 3] = [AfterError::GoOn, AfterError::Reopen, AfterError::CrashNext];

    pub fn name(self) -> &'static str {
        match self {
            AfterError::GoOn => "go on",
            AfterError::Reopen => "reopen",
            AfterError::CrashNext => "crash next",
        }
    }
}

/// A run in which operations fail.
pub struct FaultyRun {
    pub recording: Recording,
    /// False: the plan's operation was never reached.
    pub struck: bool,
    /// How long the log was when the application met its first error.
    pub error_after: usize,
    /// How many operations the fault could have struck.
    pub could_strike: u32,
    /// The disk at the end as the next process sees it, without a loss of power.
    pub at_end: Image,
}

pub fn record(script: &Script, setting: &Setting) -> Result<Recording, String> {
    let run = Run::prepare(script, setting)?;
    run.steps(&script.steps, None)?;
    run.book_is_kept()?;
    let log = run.machine.disk().take_log();
    Ok(run.recording(log))
}

pub fn record_with_faults(
    script: &Script,
    setting: &Setting,
    plan: FaultPlan,
    then: AfterError,
) -> Result<FaultyRun, String> {
    let run = Run::prepare(script, setting)?;
    run.machine.disk().plan_faults(plan);
    let error_after = run.steps(&script.steps, Some(then))?;
    let mut disk = run.machine.disk();
    let (struck, could_strike) =
        disk.take_faults().map_or((false, 0), |plan| (plan.has_struck(), plan.seen));
    let (log, at_end) = (disk.take_log(), disk.image());
    drop(disk);
    Ok(FaultyRun { struck, error_after, could_strike, at_end, recording: run.recording(log) })
}

/// Names an earlier life in messages.
pub const BEFORE_THE_RECORDING: &str = "in a life before the recording";

struct Run<'a> {
    script: &'a Script,
    setting: &'a Setting,
    files: Vec<String>,
    initial: Image,
    beginning: Vec<Found>,
    book: Mutex<Book>,
    machine: Mounted,
    /// The setting of connections that are opened now. After a switch its strategy is not that of
    /// `setting`.
    opening: Mutex<Setting>,
    /// How many processes of each connection have died.
    died: Mutex<BTreeMap<usize, usize>>,
}

struct Open {
    connection: Connection,
    level: Synchronous,
    setting: Setting,
}

/// Errors of SQLite are expected where there are faults. What contradicts the model never is.
enum StepError {
    Sqlite(rusqlite::Error),
    Refused(String),
    Contradiction(String),
}

impl StepError {
    fn is_expected_with_faults(&self) -> bool {
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

type Connections = BTreeMap<usize, Open>;

impl<'a> Run<'a> {
    /// Makes the database as it is before the recording, closes it, and mounts it on the machine
    /// that records.
    fn prepare(script: &'a Script, setting: &'a Setting) -> Result<Run<'a>, String> {
        let files = script.workload.files();
        let mut run = Run {
            script,
            setting,
            initial: Image::default(),
            beginning: vec![NOTHING; files.len()],
            book: Mutex::default(),
            machine: Mounted::new(&Image::default()),
            opening: Mutex::new(setting.clone()),
            died: Mutex::default(),
            files,
        };
        if let Some(reserved) = script.made_by_sqlite {
            run.make_alone(reserved).map_err(|error| run.text(error))?;
        }
        if script.rows_before > 0 {
            let before = |seed| Step::Commit { connection: 0, amount: Amount::Several, seed };
            let mut connections = Connections::new();
            for number in 0..script.rows_before {
                let step = before(script.seed ^ u64::from(number) << 32);
                run.step(&step, &mut connections).map_err(|error| run.text(error))?;
            }
            // Several connections begin with an existing WAL, as after the end of a process. SQLite
            // syncs the directory of a new WAL only if the connection that made it is the first to
            // sync it (docs/crash-simulation.md, findings).
            if setting.acknowledges_early() {
                // What was acknowledged may be in memory. A checkpoint takes it to the disk.
                let open = run.open(&mut connections, 0).map_err(|error| run.text(error))?;
                let checkpointed = open.connection.execute_batch("PRAGMA wal_checkpoint");
                checkpointed.map_err(|error| run.text(error.into()))?;
            }
            let left_open = script.workload.is_threaded().then(|| run.machine.disk().image());
            drop(connections);
            run.beginning = run.read_all()?;
            run.initial = left_open.unwrap_or_else(|| run.machine.disk().image());
            run.machine = Mounted::new(&run.initial);
        }
        for life in &script.lives {
            run.live(life).map_err(|message| format!("{BEFORE_THE_RECORDING}: {message}"))?;
        }
        run.machine.disk().sabotage(setting.sabotage);
        if script.workload.has_processes() {
            run.machine.disk().tell_all_of_failed_syncs();
        }
        Ok(run)
    }

    /// SQLite alone makes the databases, and closes them.
    fn make_alone(&mut self, reserved: u8) -> Result<(), StepError> {
        let alone = Setting::new(SQLITE_ALONE, self.setting.journal);
        for file in &self.files {
            let connection = alone.open(&self.machine, 0, file)?;
            reserve_bytes(&connection, reserved)?;
            connection.execute_batch(&format!(
                "PRAGMA page_size={}; PRAGMA auto_vacuum={}; PRAGMA journal_mode={}; \
                    PRAGMA user_version=1",
                self.script.page_bytes,
                u8::from(self.script.auto_vacuum),
                self.setting.journal.name(),
            ))?;
        }
        self.initial = self.machine.disk().image();
        self.machine = Mounted::new(&self.initial);
        Ok(())
    }

    /// Runs the steps of a life and loses power in it. The recording begins with what is left,
    /// which nobody has recovered yet.
    fn live(&mut self, life: &Life) -> Result<(), String> {
        self.steps(&life.steps, None)?;
        let log = self.machine.disk().take_log();
        let (image, after) =
            drawn_image(&self.initial, &log, &mut fastrand::Rng::with_seed(life.crash_seed));
        let allowed = Allowed::after(&self.beginning, &log[..after]);
        self.machine = Mounted::new(&image);
        self.beginning = self.read_all()?;
        if let Some(message) = allowed.objection(&self.beginning) {
            return Err(message);
        }
        self.machine = Mounted::new(&image);
        self.initial = image;
        Ok(())
    }

    fn text(&self, error: StepError) -> String {
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

    fn recording(self, log: Vec<Op>) -> Recording {
        Recording { initial: self.initial, beginning: self.beginning, log, files: self.files }
    }

    /// Reads all databases through new connections.
    fn read_all(&self) -> Result<Vec<Found>, String> {
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
    fn book_is_kept(&self) -> Result<(), String> {
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

    /// Runs the steps. Answers how long the log was at the first error, or at the end.
    fn steps(&self, steps: &[Step], after_error: Option<AfterError>) -> Result<usize, String> {
        let mut connections = Connections::new();
        let mut error_after = None;
        for step in steps {
            let result = self.step(step, &mut connections);
            if result.is_err() {
                error_after = error_after.or(Some(self.machine.disk().log_len()));
            }
            let Err(error) = result else { continue };
            let Some(then) = after_error.filter(|_| error.is_expected_with_faults()) else {
                return Err(self.text(error));
            };
            match then {
                AfterError::GoOn => {
                    for open in connections.values().filter(|open| !open.connection.is_autocommit())
                    {
                        let _ = open.connection.execute_batch("ROLLBACK");
                    }
                }
                AfterError::Reopen => connections.clear(),
                AfterError::CrashNext => {
                    // What the dying process still does on its way out reaches no disk.
                    self.machine.disk().power_off();
                    break;
                }
            }
        }
        Ok(error_after.unwrap_or_else(|| self.machine.disk().log_len()))
    }

    fn step(&self, step: &Step, connections: &mut Connections) -> Result<(), StepError> {
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
            Step::Snapshot { .. } if self.setting.journal != Journal::Wal => Ok(()),
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
                let is_safe = self.setting.journal == Journal::Wal || opening.absorbs_journal();
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
                self.machine.disk().spare_from_faults(is_sqlites);
                Ok(())
            }
            Step::Threads { threads, commits, seed } => self.threads(threads, commits, seed),
        }
    }

    fn threads(&self, threads: usize, commits: usize, seed: u64) -> Result<(), StepError> {
        // This connection stays open. So the first writer to end does not take the WAL with it (see
        // `prepare`).
        let _keeper = self.connect(threads)?;
        // Not with faults: Linux tells a failed sync to all that have the file open, also to those
        // that sync it at the same time.
        let plans_faults = self.machine.disk().plans_faults();
        self.machine.syncs_take_time(!plans_faults);
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
        self.machine.syncs_take_time(false);
        result
    }

    fn open<'c>(
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
    fn process_of(&self, connection: usize) -> usize {
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
            self.machine.disk().mark(Mark::Begun { file, order, digest });
        }
        // A super-journal, or one record of a log, makes the commit atomic. A WAL does not.
        if let [(0, first), (1, second)] = begun
            && self.setting.journal != Journal::Wal
        {
            let orders = [first.order, second.order];
            self.machine.disk().mark(Mark::Together { orders });
        }
    }

    fn mark_acknowledged(&self, begun: &[(usize, Found)], promised: bool) {
        for &(file, Found { order, digest }) in begun {
            self.machine.disk().mark(Mark::Acknowledged { file, order, digest, promised });
        }
    }
}
