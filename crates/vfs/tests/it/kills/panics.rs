//! A panic in a process that goes on.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use oneflush_testing::{Running, named};
use oneflush_vfs::KillPoint;

use super::stops::{ANSWERED, visit};
use super::worker::{Said, commit};
use super::{acknowledged, again, count_rows, create, open};

const PANICKER: &str = "ONEFLUSH_TEST_PANICKER";

/// Not a test of its own: a process that commits until it meets a panic, then tries again, and
/// closes.
#[test]
fn panicker() {
    let Ok(path) = std::env::var(PANICKER) else { return };
    let db = open(Path::new(&path)).unwrap();
    let mut number = 0;
    let mut met_error = false;
    for at in 1..=120 {
        match commit(&db, 1, number + 1, at) {
            Ok(()) => {
                number += 1;
                println!("acknowledged {number}");
                if met_error {
                    println!("went on");
                    break;
                }
            }
            Err(_) => {
                met_error = true;
                let _ = db.execute_batch("ROLLBACK");
            }
        }
        if at % 7 == 0 {
            met_error |= db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).is_err();
            met_error |= db.query_row("PRAGMA oneflush_checkpoint", [], |_| Ok(())).is_err();
        }
    }
    println!("{}", if met_error { "met it" } else { "met nothing" });
    drop(db);
    println!("closed");
}

/// A panic that was stopped at a callback left flags set, and the board's lock held. The next
/// commit of any process hung.
#[test]
fn a_panic_at_a_callback_ends_acknowledgements_and_leaves_nobody_hanging() {
    use KillPoint::*;
    let under_the_lock = [
        Locked,
        BatchAwaited,
        Busy,
        Recorded,
        HalfShown,
        Shown,
        Unlocking,
        Durable,
        ImageSynced,
        RestartNoted,
        Forgotten,
    ];
    let others = [Noted, Prepared, CheckpointBegun];
    for point in under_the_lock.into_iter().chain(others) {
        let about = format!("a panic at {point:?}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        create(&path);
        let neighbour = open(&path).unwrap();
        count_rows(&neighbour);
        let mut command = again(named!(panicker));
        command
            .env(PANICKER, &path)
            .env("ONEFLUSH_PANIC_AT", format!("{}:1", point.name()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Running::start(&mut command);
        let mut told = String::new();
        let (sender, ended) = std::sync::mpsc::channel();
        let mut stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let _ = stdout.read_to_string(&mut told);
            sender.send(told)
        });
        let told = ended.recv_timeout(ANSWERED).unwrap_or_else(|_| {
            child.kill().unwrap();
            panic!("{about}: it hangs")
        });
        assert!(child.wait().unwrap().success(), "{about}: {told}");
        assert!(told.contains("closed"), "{about}: {told}");
        // `ProcessBatching` needs several processes that commit.
        if !matches!(point, BatchAwaited | Noted) || told.contains("met it") {
            assert!(told.contains("met it") || point == CheckpointBegun, "{about}: {told}");
            assert!(
                !under_the_lock.contains(&point) || !told.contains("went on"),
                "{about}: {told}"
            );
        }
        let mut said = Said::default();
        said.numbers.insert(1, acknowledged(&told));
        said.deaths.insert(1, 1);
        visit(&path, 6, &mut said, &about);
        drop(neighbour);
        said.check(&path, &about);
    }
}
