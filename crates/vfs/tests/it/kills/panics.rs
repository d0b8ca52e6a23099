//! A panic in a process that goes on.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use oneflush_testing::{Running, Scenes, named};
use oneflush_vfs::KillPoint;

use super::stops::{ANSWERED, visit};
use super::worker::{Said, commit, crash};
use super::{
    USED, acknowledged, again, count_rows, create, is_busy, is_so_by, open, open_for,
    opens_or_closes,
};

const PANICKER: &str = "ONEFLUSH_TEST_PANICKER";

/// Not a test of its own: a process that commits until it meets a panic, and tries again. It closes
/// when its standard input ends.
#[test]
fn panicker() {
    let Ok(path) = std::env::var(PANICKER) else { return };
    let path = Path::new(&path);
    let Some(db) = opened(path) else { return };
    let mut number = 0;
    let mut met = None;
    for at in 1..=40 {
        match commit(&db, 1, number + 1, at) {
            Ok(()) => {
                number += 1;
                println!("acknowledged {number}");
                if met.is_some() {
                    println!("went on");
                    break;
                }
            }
            Err(error) => {
                met.get_or_insert_with(|| error.to_string());
                let _ = db.execute_batch("ROLLBACK");
            }
        }
        if at % 7 == 0 {
            for checkpoint in ["wal_checkpoint(RESTART)", "oneflush_checkpoint"] {
                let done = db.query_row(&format!("PRAGMA {checkpoint}"), [], |_| Ok(()));
                if let Err(error) = done {
                    met.get_or_insert_with(|| format!("{checkpoint}: {error}"));
                }
            }
        }
    }
    println!("{}", met.map_or("met nothing".to_owned(), |error| format!("met it: {error}")));
    let _ = std::io::stdin().read(&mut [0]);
    drop(db);
    println!("closed");
}

/// A connection to the database. `None`: it was the opening that met the panic, and the next one
/// did not work either.
fn opened(path: &Path) -> Option<rusqlite::Connection> {
    for _ in 0..2 {
        let read = |db: &rusqlite::Connection| {
            db.query_row("SELECT count(*) FROM kept", [], |row| row.get::<_, i64>(0))
        };
        match open(path).and_then(|db| read(&db).map(|_| db)) {
            Ok(db) => return Some(db),
            Err(error) => println!("opening met it: {error}"),
        }
    }
    println!("met it: it cannot be opened");
    let _ = std::io::stdin().read(&mut [0]);
    println!("closed");
    None
}

/// A process that met a panic, and lives.
struct Panicker {
    child: Running,
    told: std::sync::mpsc::Receiver<String>,
    heard: String,
}

impl Panicker {
    fn start(path: &Path, point: KillPoint, count: u32) -> Panicker {
        let mut command = again(named!(panicker));
        command
            .env(PANICKER, path)
            .env("ONEFLUSH_PANIC_AT", format!("{}:{count}", point.name()))
            .env("ONEFLUSH_TEST_PATIENCE_MS", "1500")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Running::start(&mut command);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| _ = sender.send(line));
        });
        Panicker { child, told, heard: String::new() }
    }

    /// Waits for a line that begins so.
    fn hears(&mut self, begin: &str, about: &str) {
        let deadline = Instant::now() + ANSWERED / 2;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.told.recv_timeout(left) else {
                self.child.kill().unwrap();
                panic!("{about}: it hangs before it says {begin:?}; {}", self.heard)
            };
            self.heard += &format!("{line}\n");
            if line.starts_with(begin) {
                return;
            }
        }
    }
}

/// Commits beside it, all the time. The answer is which commits were acknowledged.
fn commits_beside(path: &Path, about: &str, is_over: &AtomicBool) -> Vec<i64> {
    let db = open_for(Duration::from_millis(300), USED.get(), path, "log_size=1048576").unwrap();
    let mut acknowledged = Vec::new();
    while !is_over.load(Relaxed) {
        let began = Instant::now();
        let number = acknowledged.len() as i64 + 1;
        match commit(&db, 2, number, 1) {
            Ok(()) => acknowledged.push(number),
            Err(error) => {
                let _ = db.execute_batch("ROLLBACK");
                if !is_busy(&error) {
                    // A failure is the end for all processes.
                    break;
                }
            }
        }
        assert!(began.elapsed() < ANSWERED / 2, "{about}: a commit beside it took too long");
        std::thread::sleep(Duration::from_millis(1));
    }
    acknowledged
}

/// Ends the commits beside, whatever else fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A panic that was stopped at a callback left flags set, and the board's lock held. The next
/// commit of any process hung. True: the process came to that place.
fn panics_at(point: KillPoint, count: u32, is_crashed: bool, has_company: bool) -> bool {
    let strategy = USED.get();
    let about = format!("{strategy}: a panic at {point:?} no. {count}, company: {has_company}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    let mut said = Said::default();
    if is_crashed {
        crash(&path, &mut said, &about);
    }
    let is_over = AtomicBool::new(false);
    let mut panicker = None;
    let beside = std::thread::scope(|scope| {
        let (path, about, is_over) = (path.as_path(), about.as_str(), &is_over);
        let _ends = Ends(is_over);
        let beside = has_company.then(|| {
            scope.spawn(move || {
                USED.set(strategy);
                commits_beside(path, about, is_over)
            })
        });
        if has_company {
            let probe = open(path).unwrap();
            is_so_by(Instant::now() + ANSWERED, || count_rows(&probe) > 2);
        }
        let panicker = panicker.insert(Panicker::start(path, point, count));
        panicker.hears("met ", about);
        // While it lives.
        for writer in [6, 7] {
            visit(path, writer, &mut said, about);
        }
        is_over.store(true, Relaxed);
        beside.map(|beside| beside.join().unwrap())
    });
    let mut panicker = panicker.unwrap();
    drop(panicker.child.stdin.take());
    panicker.hears("closed", &about);
    assert!(panicker.child.wait().unwrap().success(), "{about}: {}", panicker.heard);
    let has_met = panicker.heard.contains("met it");
    // A checkpoint of the background is SQLite's then.
    let may_go_on = point == KillPoint::CheckpointBegun || panicker.heard.contains("opening met");
    assert!(may_go_on || !panicker.heard.contains("went on"), "{about}: {}", panicker.heard);
    said.numbers.insert(1, acknowledged(&panicker.heard));
    said.deaths.insert(1, 1);
    if let Some(beside) = beside {
        said.numbers.insert(2, beside);
        said.deaths.insert(2, 1);
    }
    let told = visit(&path, 8, &mut said, &about);
    assert!(told.contains("acknowledged"), "{about}: nobody is left, and it was told {told}");
    said.check(&path, &about);
    has_met || closes(point)
}

/// Nothing is committed behind these places.
fn closes(point: KillPoint) -> bool {
    use KillPoint::*;
    matches!(point, ExclusivelyLocked | ClosingWal | Closing | GuardHidden | BoardDeleted)
}

/// Where each strategy comes to, for which time, and whether the process opens the database after a
/// crash.
fn places() -> Vec<(KillPoint, u32, bool)> {
    use KillPoint::*;
    let common = [
        WriteLocked,
        Releasing,
        ReadLocked,
        Flushed,
        CheckpointLocked,
        Copied,
        CheckpointBegun,
        ExclusivelyLocked,
        ClosingWal,
        Closing,
    ];
    let of_log = [LogMade, PageOneLogged, Guarded, Alone, GuardHidden, BoardDeleted];
    let (own, after_crash): (&[KillPoint], &[KillPoint]) = match USED.get() {
        "eager" => (
            &[
                Noted,
                Locked,
                Busy,
                Recorded,
                HalfShown,
                Shown,
                Unlocking,
                Durable,
                ImageSynced,
                RestartNoted,
                Forgotten,
                Prepared,
            ],
            &[Joined, Rebuilt, Opened, LogOpened],
        ),
        "waldio" => (&[FramesWritten, HeaderWritten], &[Joined, LogOpened]),
        _ => (&[], &[]),
    };
    let has_log = USED.get() != "plain";
    let mut places: Vec<_> = common.iter().chain(own).map(|&point| (point, 1, false)).collect();
    places.extend(
        common.iter().chain(own).filter(|point| !closes(**point)).map(|&point| (point, 3, false)),
    );
    places.extend(of_log.iter().filter(|_| has_log).map(|&point| (point, 1, false)));
    places.extend(after_crash.iter().map(|&point| (point, 1, true)));
    places
}

#[test]
fn a_panic_at_a_callback_ends_acknowledgements_and_leaves_nobody_hanging() {
    let mut scenes = Scenes::default();
    for strategy in ["eager", "waldio", "plain"] {
        USED.set(strategy);
        for (point, count, is_crashed) in places() {
            let alone_only = opens_or_closes(point);
            for has_company in [false, true].into_iter().filter(|&has| !has || !alone_only) {
                let about = format!("{strategy} {point:?} {count}, company: {has_company}");
                scenes.play(&about, || {
                    let is_there = panics_at(point, count, is_crashed, has_company);
                    // Beside others it may be they who come there.
                    assert!(is_there || count > 1 || has_company, "{about}: never there");
                });
            }
        }
    }
    scenes.end();
}
