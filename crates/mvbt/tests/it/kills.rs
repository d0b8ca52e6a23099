//! Processes that share a database, and die or are stopped at each place where another one could
//! see what they do (feature `kill-points`).
//!
//! A worker is this program again, with its task in its environment. Each of its transactions adds
//! one row of its own to a tree, and one to the number of rows in another. It says each number when
//! its commit has returned. At the end every number that was said must be there, and for each death
//! at most one that was not.
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use oneflush_mvbt::{Database, KillPoint, Options, Read, ReadTransaction, Result, TreeId};
use oneflush_testing::{Running, Scenes, named, slowed};

const FILE: &str = "ONEFLUSH_TEST_FILE";
const PANICKER: &str = "ONEFLUSH_TEST_PANICKER";
const NUMBER: &str = "ONEFLUSH_TEST_NUMBER";
const ROWS: TreeId = TreeId(2);
const TOTAL: TreeId = TreeId(3);
/// Rows of one worker.
const SHARE: i64 = 1_000_000;

const TRIES: usize = 5;

fn patience() -> Duration {
    slowed(Duration::from_secs(20))
}

fn options(number: i64) -> Options {
    let mut options = Options::default();
    // Some write pages early.
    options.spill_bytes = if number % 2 == 0 { 2048 } else { 1 << 20 };
    options.page_bytes = 1024;
    options
}

fn make(path: &Path) {
    let db = Database::create(path, options(1)).unwrap();
    let mut txn = db.begin_write().unwrap();
    assert_eq!(txn.create_tree(false).unwrap(), ROWS);
    assert_eq!(txn.create_tree(false).unwrap(), TOTAL);
    txn.insert(TOTAL, 0, &0_i64.to_le_bytes()).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
}

fn total(read: &dyn Read) -> Result<i64> {
    let payload = read.get(TOTAL, 0)?.expect("the total is there");
    Ok(i64::from_le_bytes(payload[..8].try_into().unwrap()))
}

fn keys(reader: &ReadTransaction) -> Result<Vec<i64>> {
    let (mut cursor, source) = (reader.cursor(ROWS)?, reader.source());
    cursor.first(source)?;
    let mut keys = Vec::new();
    while let Some(key) = cursor.integer_key(source)? {
        keys.push(key);
        cursor.next(source)?;
    }
    Ok(keys)
}

/// Each transaction is seen as a whole.
fn look(db: &Database) -> Result<usize> {
    let reader = db.begin_read()?;
    let (rows, total) = (keys(&reader)?.len(), total(&reader)?);
    assert_eq!(rows as i64, total, "rows and their number at version {}", reader.version());
    Ok(rows)
}

/// The work of a process of its own. Without its environment it is no test.
#[test]
fn worker() {
    let (Ok(path), Ok(number)) = (std::env::var(FILE), std::env::var(NUMBER)) else { return };
    let (path, number) = (Path::new(&path), number.parse::<i64>().unwrap());
    let mut next = number * SHARE;
    loop {
        let db = Database::open(path, options(number)).unwrap();
        for _ in 0..10 {
            let mut txn = db.begin_write().unwrap();
            let rolls_back = next % 4 == 3 && next % 8 != 7;
            let length = if next % 3 == 0 { 3000 } else { 50 };
            txn.insert(ROWS, next, &vec![7; length]).unwrap();
            let more = total(&txn).unwrap() + 1;
            txn.insert(TOTAL, 0, &more.to_le_bytes()).unwrap();
            if rolls_back {
                txn.rollback().unwrap();
            } else {
                txn.commit().unwrap();
                println!("acknowledged {next}");
            }
            next += 1;
            look(&db).unwrap();
        }
        db.close().unwrap();
    }
}

struct Worker {
    process: Running,
    lines: Receiver<i64>,
    acknowledged: Vec<i64>,
}

impl Worker {
    fn start(path: &Path, number: i64, told: &[(&str, String)]) -> Worker {
        Worker::start_as(named!(worker), path, number, told)
    }

    fn start_as(test: &str, path: &Path, number: i64, told: &[(&str, String)]) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).stdin(Stdio::piped());
        command.env(FILE, path).env(NUMBER, number.to_string());
        command.envs(told.iter().map(|(name, value)| (name, value)));
        let mut process = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let (told, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(|line| line.ok()) {
                let number = line.strip_prefix("acknowledged ").and_then(|one| one.parse().ok());
                number.into_iter().for_each(|number| {
                    let _ = told.send(number);
                });
            }
        });
        Worker { process, lines, acknowledged: Vec::new() }
    }

    /// Waits for so many commits more. False: it has ended before.
    fn commits(&mut self, count: usize) -> bool {
        let wanted = self.acknowledged.len() + count;
        let until = Instant::now() + patience();
        while self.acknowledged.len() < wanted {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(number) => self.acknowledged.push(number),
                Err(_) => return false,
            }
        }
        true
    }

    /// True: it has died by a signal until then.
    fn has_died(&mut self, until: Instant) -> bool {
        use std::os::unix::process::ExitStatusExt;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                let mut said = String::new();
                if status.signal().is_none() {
                    use std::io::Read;
                    self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                }
                assert_eq!(status.signal(), Some(9), "it failed by itself: {said}");
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it at any place. Answers what it has acknowledged.
    fn end(mut self) -> Vec<i64> {
        assert!(self.process.try_wait().unwrap().is_none() || self.has_died(Instant::now()));
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        while let Ok(number) = self.lines.recv_timeout(Duration::from_secs(5)) {
            self.acknowledged.push(number);
        }
        self.acknowledged
    }
}

/// All that was acknowledged is there, and for each death at most one transaction more.
fn judge(path: &Path, acknowledged: &[Vec<i64>], deaths: usize, about: &str) {
    let db = Database::open(path, options(1)).unwrap();
    look(&db).unwrap();
    let found = keys(&db.begin_read().unwrap()).unwrap();
    let expected: Vec<i64> = acknowledged.iter().flatten().copied().collect();
    for number in &expected {
        assert!(found.binary_search(number).is_ok(), "{about}: {number} is lost");
    }
    let more = found.len() - expected.len();
    assert!(more <= deaths, "{about}: {more} transactions that nobody has acknowledged");
    let report = db.check(None).unwrap();
    assert!(report.faults.is_empty(), "{about}: {:#?}", report.faults);
    db.close().unwrap();
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{about}: the shared memory is left");
}

fn kill_at(point: &str, count: usize) -> Vec<(&'static str, String)> {
    vec![("ONEFLUSH_KILL_AT", format!("{point}:{count}"))]
}

/// Who else is there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nobody,
    /// One that writes all the time.
    Another,
    /// The same, and one that dies while it writes, again and again.
    Victims,
}

/// True: the victim has come to the place, and died.
fn dies_there(point: KillPoint, count: usize, beside: Beside) -> bool {
    let about = format!("{point:?}, time {count}, beside {beside:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mvbt");
    make(&path);
    let mut acknowledged = Vec::new();
    let mut deaths = 1;
    if beside == Beside::Nobody {
        // Somebody has died before: the file has to be recovered.
        let mut before = Worker::start(&path, 9, &kill_at("listed", 2));
        assert!(before.has_died(Instant::now() + patience()), "{about}");
        acknowledged.push(before.end());
        deaths += 1;
    }
    let mut other = (beside != Beside::Nobody).then(|| Worker::start(&path, 5, &[]));
    assert!(other.as_mut().is_none_or(|other| other.commits(3)), "{about}");
    let mut victim = Worker::start(&path, 2, &kill_at(point.name(), count));
    let until = Instant::now() + slowed(Duration::from_millis(1500));
    let mut number = 10;
    let mut has_died = false;
    while !has_died && Instant::now() < until {
        if beside == Beside::Victims {
            let place = ["durable", "listed", "written", "begun"][number as usize % 4];
            let mut first = Worker::start(&path, number, &kill_at(place, 2));
            first.has_died(until);
            acknowledged.push(first.end());
            (number, deaths) = (number + 1, deaths + 1);
        }
        has_died = victim.has_died((Instant::now() + Duration::from_millis(300)).min(until));
    }
    acknowledged.push(victim.end());
    if let Some(mut other) = other {
        assert!(other.commits(5), "{about}: the other one cannot go on");
        acknowledged.push(other.end());
        deaths += 1;
    }
    judge(&path, &acknowledged, deaths, &about);
    has_died
}

#[test]
fn whoever_dies_where_others_could_see_it_loses_nothing_and_leaves_no_lock() {
    // Which time it is follows from the commit, so that all of them come.
    let later = 2 + oneflush_testing::seed() as usize % 3;
    for &point in KillPoint::ALL {
        let all = [Beside::Nobody, Beside::Another, Beside::Victims];
        // On a busy machine a victim may not come there in its time.
        let has_come = (0..TRIES).any(|_| {
            let died = all.map(|beside| {
                let count = if beside == Beside::Another { later } else { 1 };
                dies_there(point, count, beside)
            });
            println!("{point:?}: {died:?}");
            died.contains(&true)
        });
        assert!(has_come, "nobody has come to {point:?}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Met {
    Opening,
    Writing,
}

/// A process that goes on after a panic. Without its environment it is no test.
#[test]
fn panicker() {
    let Ok(path) = std::env::var(PANICKER) else { return };
    let path = Path::new(&path);
    let open = || std::panic::catch_unwind(|| Database::open(path, options(2)));
    let (db, mut has_met) = match open() {
        Ok(db) => (db.unwrap(), None),
        Err(_) => (open().expect("a panic is met once").unwrap(), Some(Met::Opening)),
    };
    for next in 2 * SHARE..2 * SHARE + 60 {
        let write = || -> Result<bool> {
            let mut txn = db.begin_write()?;
            txn.insert(ROWS, next, &[7; 3000])?;
            let more = total(&txn)? + 1;
            txn.insert(TOTAL, 0, &more.to_le_bytes())?;
            match next % 4 {
                3 => txn.rollback().map(|()| false),
                _ => txn.commit().map(|_| true),
            }
        };
        let wrote = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
        if matches!(wrote, Ok(Ok(true))) {
            println!("acknowledged {next}");
            assert_ne!(has_met, Some(Met::Writing), "it went on");
        }
        has_met = has_met.or(wrote.is_err().then_some(Met::Writing));
    }
    if has_met.is_some() {
        let _ = look(&db);
    }
    println!("acknowledged {}", if has_met.is_some() { -2 } else { -1 });
    let _ = std::io::stdin().read_line(&mut String::new());
    let closed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.close()));
    println!("closed {}", closed.is_ok());
}

/// While it lives, others read and write.
fn panics_there(point: KillPoint, count: usize) {
    let about = format!("a panic at {point:?}, time {count}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mvbt");
    make(&path);
    let mut acknowledged = Vec::new();
    // Some places are those of the first user, and others those of one beside others.
    let is_first = matches!(
        point,
        KillPoint::Made | KillPoint::Recovered | KillPoint::Repairing | KillPoint::Regenerated
    );
    if is_first {
        let mut before = Worker::start(&path, 9, &kill_at("listed", 2));
        assert!(before.has_died(Instant::now() + patience()), "{about}");
        acknowledged.push(before.end());
    }
    let start = || {
        let other = Worker::start(&path, 5, &[]);
        (other, "the other one cannot go on")
    };
    let mut other = (!is_first).then(start);
    assert!(other.as_mut().is_none_or(|(other, _)| other.commits(3)), "{about}");
    let told = [
        (PANICKER, path.display().to_string()),
        ("ONEFLUSH_PANIC_AT", format!("{}:{count}", point.name())),
    ];
    let mut panicker = Worker::start_as(named!(panicker), &path, 2, &told);
    let until = Instant::now() + patience();
    while panicker.acknowledged.last().is_none_or(|last| *last >= 0) {
        assert!(panicker.commits(1) && Instant::now() < until, "{about}: it hangs or has failed");
    }
    let has_met = panicker.acknowledged.pop() == Some(-2);
    let closes = matches!(point, KillPoint::Deposited | KillPoint::Closed | KillPoint::Deleted);
    assert!(has_met || closes || count > 1, "{about}: never there");
    let (mut other, why) = other.unwrap_or_else(start);
    assert!(other.commits(5), "{about}: {why}");
    drop(panicker.process.stdin.take());
    assert!(panicker.process.wait().unwrap().success(), "{about}");
    acknowledged.push(std::mem::take(&mut panicker.acknowledged));
    assert!(other.commits(5), "{about}: {why}");
    acknowledged.push(other.end());
    judge(&path, &acknowledged, 3, &about);
}

#[test]
fn a_panic_loses_nothing_and_leaves_no_lock() {
    let mut scenes = Scenes::default();
    for &point in KillPoint::ALL {
        for count in [1, 3] {
            scenes.play(&format!("{point:?} {count}"), || panics_there(point, count));
        }
    }
    scenes.end();
}

#[test]
fn readers_do_not_wait_for_a_writer_that_is_stopped() {
    let points =
        ["locked", "begun", "written", "listed", "durable", "half-entered", "entered", "published"];
    for point in points {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mvbt");
        make(&path);
        let db = Database::open(&path, options(1)).unwrap();
        let told = vec![("ONEFLUSH_STOP_AT", format!("{point}:7"))];
        let mut stopped = Worker::start(&path, 2, &told);
        stopped.commits(4);
        let until = Instant::now() + patience();
        while !is_stopped(stopped.process.id()) {
            assert!(Instant::now() < until, "{point}: it has not come there");
            std::thread::sleep(Duration::from_millis(2));
        }
        for _ in 0..20 {
            look(&db).unwrap();
        }
        assert!(db.try_begin_write().is_err(), "{point}: it has the lock");
        let pid = rustix::process::Pid::from_raw(stopped.process.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        assert!(stopped.commits(10), "{point}: it goes on");
        look(&db).unwrap();
        let acknowledged = stopped.end();
        look(&db).unwrap();
        db.close().unwrap();
        judge(&path, &[acknowledged], 1, point);
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}
