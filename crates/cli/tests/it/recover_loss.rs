//! `oneflush recover --accept-loss`: what is kept of a database whose log is lost or damaged, and
//! that nothing is lost without a copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags};

use crate::common::crashed::{MAW, ROWS, WALDIO, records, side};
use crate::common::{self, Sandbox};

/// A database in use, with what `more` does to it, copied with these files as the end of its
/// process would leave them.
fn crashed_after(sandbox: &Sandbox, suffixes: &[&str], more: impl FnOnce(&Connection)) -> PathBuf {
    let database = sandbox.path().join("app.db");
    common::crashed::crashed_after(&database, suffixes, more);
    fs::set_permissions(&database, fs::Permissions::from_mode(0o640)).unwrap();
    database
}

fn crashed(sandbox: &Sandbox, suffixes: &[&str]) -> PathBuf {
    crashed_after(sandbox, suffixes, |_| {})
}

/// How many rows are there, by SQLite alone, in a sound database.
fn count(database: &Path) -> usize {
    let db =
        Connection::open_with_flags_and_vfs(database, OpenFlags::SQLITE_OPEN_READ_ONLY, "unix")
            .unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    // The first ones, without a gap.
    let (count, max): (i64, i64) = db
        .query_row("SELECT count(*), coalesce(max(v), -1) FROM t", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(max, count - 1);
    count as usize
}

fn recover(sandbox: &Sandbox, database: &Path, options: &[&str]) -> Result<String, String> {
    let output = sandbox.oneflush().arg("recover").arg(database).args(options).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Names and contents of all files in a folder, and in the folders in it.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

fn copies(database: &Path) -> PathBuf {
    let prefix = format!("{}-before-recovery-", database.file_name().unwrap().to_str().unwrap());
    let mut names =
        fs::read_dir(database.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix)).unwrap()
}

/// Refused without the option, which is named; a dry run changes nothing; then the loss is
/// accepted, and the files before that are in the copies.
fn accept(sandbox: &Sandbox, database: &Path) -> String {
    let before = contents(sandbox.path());
    let refused = recover(sandbox, database, &[]).unwrap_err();
    assert!(refused.contains("--accept-loss"), "{refused}");
    let dry = recover(sandbox, database, &["--accept-loss", "--dry-run"]).unwrap();
    assert!(dry.contains("nothing was changed"), "{dry}");
    assert!(contents(sandbox.path()) == before);
    let was: Vec<_> = ["", "-oneflush", "-oneflush-wal", "-waldio"]
        .map(|suffix| fs::read(side(database, suffix)).ok())
        .into();
    let said = recover(sandbox, database, &["--accept-loss"]).unwrap();
    assert!(
        said.contains("integrity_check: ok") && said.contains("a plain database file now"),
        "{said}"
    );
    let copied = copies(database).join(database.file_name().unwrap());
    for (suffix, was) in ["", "-oneflush", "-oneflush-wal", "-waldio"].iter().zip(was) {
        assert!(fs::read(side(&copied, suffix)).ok() == was, "{suffix}");
        assert_eq!(side(database, suffix).exists(), suffix.is_empty());
    }
    assert_eq!(
        fs::read_dir(copies(database)).unwrap().count(),
        fs::read_dir(copied.parent().unwrap()).unwrap().count()
    );
    assert!(!copied.with_file_name("recovered.db").exists());
    assert_eq!(fs::metadata(database).unwrap().permissions().mode() & 0o777, 0o640);
    said
}

#[test]
fn without_a_log_what_the_last_checkpoint_wrote_is_kept() {
    let sandbox = Sandbox::new();
    let database = crashed(&sandbox, &[]);
    fs::remove_file(side(&database, "-oneflush")).unwrap();
    let said = accept(&sandbox, &database);
    assert!(said.contains("an unknown number of commits") && said.contains("not sure"), "{said}");
    assert_eq!(count(&database), 0);
}

/// It said "lost: nothing that the readable part of the log has", of a log that was not there.
/// But the image may be of a time long before the crash.
#[test]
fn without_a_log_the_image_of_a_process_that_was_killed_has_every_commit_and_nobody_can_know_that()
{
    for log in [None, Some(&b""[..]), Some(b"a log whose disk is broken")] {
        let sandbox = Sandbox::new();
        let database = crashed(&sandbox, &["-oneflush-wal"]);
        fs::remove_file(side(&database, "-oneflush")).unwrap();
        if let Some(log) = log {
            fs::write(side(&database, "-oneflush"), log).unwrap();
        }
        let dry: serde_json::Value = serde_json::from_str(
            &recover(&sandbox, &database, &["--accept-loss", "--dry-run", "--json"]).unwrap(),
        )
        .unwrap();
        assert_eq!(dry["accepted_loss"]["lost_records"], serde_json::Value::Null, "{dry}");
        assert!(dry["accepted_loss"]["written_between"][1].is_string(), "{dry}");
        let said = accept(&sandbox, &database);
        assert!(
            said.contains("of the WAL image") && said.contains("lost: cannot be known"),
            "{said}"
        );
        assert!(said.contains("the image at 20") && !said.contains("nothing"), "{said}");
        assert_eq!(count(&database), ROWS);
    }
}

/// The times were those of the files that the recovery had made or removed: now, and unknown.
#[test]
fn the_times_between_which_the_loss_was_written_are_those_of_the_files_before() {
    let sandbox = Sandbox::new();
    let database = crashed(&sandbox, &[]);
    let log = fs::OpenOptions::new().write(true).open(side(&database, "-oneflush")).unwrap();
    log.set_len(3 * 4096).unwrap();
    let times = [
        ("", 1_000_000_000, "2001-09-09T01:46:40Z"),
        ("-oneflush", 1_000_000_060, "2001-09-09T01:47:40Z"),
    ];
    for (suffix, seconds, _) in times {
        let file = fs::OpenOptions::new().write(true).open(side(&database, suffix)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    let said = accept(&sandbox, &database);
    for (_, _, time) in times {
        assert!(said.contains(time), "{time}: {said}");
    }
}

#[test]
fn the_log_of_another_database_is_not_applied() {
    let (sandbox, other) = (Sandbox::new(), Sandbox::new());
    let database = crashed(&sandbox, &[]);
    let others = crashed(&other, &[]);
    fs::copy(side(&others, "-oneflush"), side(&database, "-oneflush")).unwrap();
    accept(&sandbox, &database);
    assert_eq!(count(&database), 0);
}

#[test]
fn a_log_whose_first_block_is_damaged_loses_nothing() {
    for damage in [300..301, 0..4096] {
        let sandbox = Sandbox::new();
        let database = crashed(&sandbox, &[]);
        let mut log = fs::read(side(&database, "-oneflush")).unwrap();
        log[damage.clone()].fill(0x5a);
        fs::write(side(&database, "-oneflush"), log).unwrap();
        accept(&sandbox, &database);
        assert_eq!(count(&database), ROWS, "{damage:?}");
    }
}

#[test]
fn of_a_log_with_a_damaged_record_everything_before_it_is_kept_and_the_rest_is_counted() {
    for at in [1, 17, ROWS - 2] {
        let sandbox = Sandbox::new();
        let database = crashed(&sandbox, &[]);
        let mut log = fs::read(side(&database, "-oneflush")).unwrap();
        let records = records(&log);
        assert_eq!(records.len(), ROWS);
        // In its payload: its header says that it was a commit, and no checkpoint's.
        log[records[at] + 60] ^= 1;
        fs::write(side(&database, "-oneflush"), log).unwrap();
        let said = accept(&sandbox, &database);
        assert!(said.contains(&format!("at least {} records", ROWS - at)), "{said}");
        assert_eq!(count(&database), at);
    }
}

/// The image has what the log has lost, if no power was lost.
#[test]
fn of_a_log_with_a_damaged_record_the_image_has_the_rest() {
    let sandbox = Sandbox::new();
    let database = crashed(&sandbox, &["-oneflush-wal"]);
    let mut log = fs::read(side(&database, "-oneflush")).unwrap();
    let at = records(&log)[9];
    log[at + 60] ^= 1;
    fs::write(side(&database, "-oneflush"), log).unwrap();
    let said = accept(&sandbox, &database);
    assert!(
        said.contains("of the WAL image") && said.contains("lost: nothing that the readable part"),
        "{said}"
    );
    assert_eq!(count(&database), ROWS);
}

/// An image that a loss of power has left as it was long before does not win over the log.
#[test]
fn a_stale_image_does_not_win_over_the_log() {
    let sandbox = Sandbox::new();
    let database = crashed(&sandbox, &["-oneflush-wal"]);
    let image = side(&database, "-oneflush-wal");
    let mut bytes = fs::read(&image).unwrap();
    bytes[32 + 5 * 4120..].fill(0);
    fs::write(&image, bytes).unwrap();
    let mut log = fs::read(side(&database, "-oneflush")).unwrap();
    let at = records(&log)[30];
    log[at + 60] ^= 1;
    fs::write(side(&database, "-oneflush"), log).unwrap();
    accept(&sandbox, &database);
    assert_eq!(count(&database), 30);
}

#[test]
fn an_epoch_that_stands_on_an_image_that_is_missing_leaves_the_database_file() {
    let sandbox = Sandbox::new();
    let large = |db: &Connection| {
        db.execute_batch("CREATE TABLE large AS SELECT zeroblob(4500000)").unwrap();
    };
    let database = crashed_after(&sandbox, &[], large);
    accept(&sandbox, &database);
    assert_eq!(count(&database), 0);
}

#[test]
fn a_garbled_header_of_the_database_is_taken_from_the_records_before_the_damage() {
    for (lost, has_page_one) in [(1, true), (3, false)] {
        let sandbox = Sandbox::new();
        let more =
            "CREATE TABLE later(v); INSERT INTO later VALUES (1); INSERT INTO later VALUES (2)";
        let database = crashed_after(&sandbox, &[], |db| db.execute_batch(more).unwrap());
        let mut bytes = fs::read(&database).unwrap();
        bytes[..100].fill(0x77);
        fs::write(&database, &bytes).unwrap();
        let mut log = fs::read(side(&database, "-oneflush")).unwrap();
        let records = records(&log);
        log[records[records.len() - 1 - lost] + 60] ^= 1;
        fs::write(side(&database, "-oneflush"), log).unwrap();
        if has_page_one {
            accept(&sandbox, &database);
            assert_eq!(count(&database), ROWS);
        } else {
            let said = recover(&sandbox, &database, &["--accept-loss"]).unwrap_err();
            for words in [
                "header is damaged, and no log says what it was [OF-324] [OF-327]",
                "No consistent database",
                "recovered.db .recover [OF-326]",
            ] {
                assert!(said.contains(words), "{words}: {said}");
            }
            assert!(fs::read(&database).unwrap() == bytes);
        }
    }
}

#[test]
fn where_no_database_can_be_had_the_original_stays_and_the_copies_are_named() {
    let sandbox = Sandbox::new();
    let database = crashed(&sandbox, &[]);
    let mut bytes = fs::read(&database).unwrap();
    // The root of a table of which the log has nothing.
    bytes[2 * 4096..3 * 4096].fill(0x77);
    fs::write(&database, &bytes).unwrap();
    fs::remove_file(side(&database, "-oneflush")).unwrap();
    let said = recover(&sandbox, &database, &["--accept-loss"]).unwrap_err();
    assert!(
        said.contains("No consistent database")
            && said.contains("integrity_check")
            && said.contains(".recover"),
        "{said}"
    );
    assert!(fs::read(&database).unwrap() == bytes);
    let copied = copies(&database).join("app.db");
    assert!(
        said.contains(copies(&database).to_str().unwrap()) && fs::read(copied).unwrap() == bytes
    );
}

#[test]
fn a_plain_database_beside_anothers_log_stays_as_it_is() {
    let (sandbox, other) = (Sandbox::new(), Sandbox::new());
    let others = crashed(&other, &[]);
    let database = sandbox.path().join("app.db");
    let db = Connection::open(&database).unwrap();
    db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (0)").unwrap();
    drop(db);
    let bytes = fs::read(&database).unwrap();
    fs::copy(side(&others, "-oneflush"), side(&database, "-oneflush")).unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o640)).unwrap();
    let said = accept(&sandbox, &database);
    assert!(said.contains("as it was"), "{said}");
    assert!(fs::read(&database).unwrap() == bytes);
}

#[test]
fn json_says_what_was_kept_and_lost() {
    let sandbox = Sandbox::new();
    let database = crashed(&sandbox, &[]);
    let mut log = fs::read(side(&database, "-oneflush")).unwrap();
    let at = records(&log)[5];
    log[at + 60] ^= 1;
    fs::write(side(&database, "-oneflush"), log).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&recover(&sandbox, &database, &["--accept-loss", "--json"]).unwrap())
            .unwrap();
    let loss = &json["accepted_loss"];
    assert_eq!(json["recovered"], true);
    assert_eq!(
        (&loss["source"], &loss["records"], &loss["lost_records"]),
        (&"log".into(), &5.into(), &35.into())
    );
    assert_eq!(loss["copies"].as_str().unwrap(), copies(&database).to_str().unwrap());
    let reason = loss["reason"].as_str().unwrap();
    assert!(reason.contains("the log is damaged in record "), "{reason}");
    assert!(!reason.contains("[OF-"), "{reason}");
}

#[test]
fn a_database_that_is_in_use_is_left_alone() {
    let sandbox = Sandbox::new();
    crashed_after(&sandbox, &[], |_| {
        let live = sandbox.path().join("live.db");
        fs::remove_file(side(&live, "-oneflush")).unwrap();
        let said = recover(&sandbox, &live, &["--accept-loss"]).unwrap_err();
        assert!(said.contains("has the database open"), "{said}");
        // The rest of the test copies it.
        fs::write(side(&live, "-oneflush"), b"").unwrap();
    });
}

/// A close removes the board, then the log, and SQLite then the image. A crash may come in between.
#[test]
fn what_a_close_that_was_cut_off_has_left_is_removed() {
    for left in [&["-oneflush-wal"][..], &["-oneflush-wal", "-oneflush-shm"], &["-oneflush-shm"]] {
        let sandbox = Sandbox::new();
        let database = sandbox.path().join("app.db");
        Connection::open(&database).unwrap().execute_batch("CREATE TABLE t(v)").unwrap();
        for suffix in left {
            fs::write(side(&database, suffix), b"left").unwrap();
        }
        assert!(recover(&sandbox, &database, &[]).unwrap().contains("a plain database file"));
        assert!(left.iter().all(|suffix| !side(&database, suffix).exists()));
        assert_eq!(count(&database), 0);
    }
}

/// A crashed database with `waldio`, with the numbers of the log's slots in its file.
fn crashed_with_waldio(sandbox: &Sandbox) -> PathBuf {
    let database = sandbox.path().join("app.db");
    WALDIO.crashed_after(&database, &[], |_| {});
    fs::set_permissions(&database, fs::Permissions::from_mode(0o640)).unwrap();
    database
}

#[test]
fn of_waldio_without_a_log_what_the_last_checkpoint_wrote_is_kept() {
    let sandbox = Sandbox::new();
    let database = crashed_with_waldio(&sandbox);
    fs::remove_file(side(&database, "-waldio")).unwrap();
    let said = accept(&sandbox, &database);
    assert!(said.contains("an unknown number of commits"), "{said}");
    assert_eq!(count(&database), 0);
}

#[test]
fn of_a_log_of_waldio_whose_first_block_is_damaged_nothing_is_lost() {
    for damage in [&[0xff; 512][..], &[0; 4096][..]] {
        let sandbox = Sandbox::new();
        let database = crashed_with_waldio(&sandbox);
        let log = side(&database, "-waldio");
        let mut bytes = fs::read(&log).unwrap();
        bytes[..damage.len()].copy_from_slice(damage);
        fs::write(&log, bytes).unwrap();
        let said = accept(&sandbox, &database);
        assert!(said.contains(&format!("has {ROWS} frames of 1 page")), "{said}");
        assert!(said.contains("lost: nothing that can be found"), "{said}");
        assert_eq!(count(&database), ROWS);
    }
}

/// A frame in the middle is damaged too: what stands before it is kept, and the rest is counted.
#[test]
fn of_a_damaged_log_of_waldio_the_frames_before_the_damage_are_kept() {
    let sandbox = Sandbox::new();
    let database = crashed_with_waldio(&sandbox);
    let log = side(&database, "-waldio");
    let mut bytes = fs::read(&log).unwrap();
    let slots = u64::try_from(bytes.len()).unwrap() / 4096;
    // A page of table `t` with a row more in each slot. The last row's cell is the first of the
    // page.
    let first = (2..slots)
        .position(|block| {
            let page = &bytes[block as usize * 4096..][..4096];
            page[0] == 13 && page[3..5] == [0, 11]
        })
        .expect("the commit of the eleventh row")
        + 2;
    bytes[first * 4096 + 4000] ^= 1;
    bytes[300] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let json: serde_json::Value = serde_json::from_str(
        &recover(&sandbox, &database, &["--accept-loss", "--dry-run", "--json"]).unwrap(),
    )
    .unwrap();
    let loss = &json["accepted_loss"];
    assert_eq!(
        (&loss["source"], &loss["frames"], &loss["lost_frames"], &loss["records"]),
        (&"log".into(), &10.into(), &(ROWS - 10).into(), &serde_json::Value::Null)
    );
    let said = accept(&sandbox, &database);
    assert!(said.contains(&format!("lost: up to {} frames", ROWS - 10)), "{said}");
    assert_eq!(count(&database), 10);
}

#[test]
fn of_waldio_a_log_of_another_database_is_not_applied() {
    let sandbox = Sandbox::new();
    let database = crashed_with_waldio(&sandbox);
    let other = sandbox.path().join("other.db");
    WALDIO.crashed_after(&other, &[], |db| {
        db.execute("INSERT INTO t VALUES (1000)", []).unwrap();
    });
    fs::rename(side(&other, "-waldio"), side(&database, "-waldio")).unwrap();
    accept(&sandbox, &database);
    assert_eq!(count(&database), 0);
}

/// A crashed database with `maw`, whose file is that of the time before the rows.
fn crashed_with_maw(sandbox: &Sandbox) -> PathBuf {
    let database = sandbox.path().join("app.db");
    MAW.crashed_after(&database, &[], |_| {});
    fs::set_permissions(&database, fs::Permissions::from_mode(0o640)).unwrap();
    database
}

/// The same, whose process was killed: the file has every commit in place.
fn killed_with_maw(sandbox: &Sandbox) -> PathBuf {
    let database = sandbox.path().join("app.db");
    let mut in_place = Vec::new();
    MAW.crashed_after(&database, &[], |_| {
        in_place = fs::read(sandbox.path().join("live.db")).unwrap();
    });
    fs::write(&database, in_place).unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o640)).unwrap();
    database
}

#[test]
fn of_maw_without_a_log_the_database_file_is_kept_and_what_it_lacks_is_not_known() {
    for (killed, rows) in [(false, 0), (true, ROWS)] {
        let sandbox = Sandbox::new();
        let database = if killed { killed_with_maw(&sandbox) } else { crashed_with_maw(&sandbox) };
        fs::remove_file(side(&database, "-maw")).unwrap();
        let said = accept(&sandbox, &database);
        assert!(said.contains("lost: cannot be known") && said.contains("[OF-340]"), "{said}");
        assert!(said.contains("not sure") && said.contains("page by page"), "{said}");
        assert_eq!(count(&database), rows);
    }
}

#[test]
fn of_a_log_of_maw_whose_first_block_is_damaged_nothing_is_lost() {
    for damage in [300..301, 0..4096] {
        for killed in [false, true] {
            let sandbox = Sandbox::new();
            let database =
                if killed { killed_with_maw(&sandbox) } else { crashed_with_maw(&sandbox) };
            let mut log = fs::read(side(&database, "-maw")).unwrap();
            log[damage.clone()].fill(0x5a);
            fs::write(side(&database, "-maw"), log).unwrap();
            let said = accept(&sandbox, &database);
            assert!(said.contains(&format!("has {} records of ", ROWS + 2)), "{said}");
            assert!(!said.contains("not sure"), "{said}");
            assert_eq!(count(&database), ROWS, "{damage:?}");
        }
    }
}

/// The records before the damage, if power was lost. Otherwise the file has everything.
#[test]
fn of_a_damaged_log_of_maw_the_database_file_has_the_rest_unless_power_was_lost() {
    for (killed, at) in [(false, 7), (true, 7), (false, 30), (true, 30)] {
        let sandbox = Sandbox::new();
        let database = if killed { killed_with_maw(&sandbox) } else { crashed_with_maw(&sandbox) };
        let mut log = fs::read(side(&database, "-maw")).unwrap();
        let records = records(&log);
        // One that holds no commit, and two tables.
        assert_eq!(records.len(), ROWS + 3);
        log[records[at + 3] + 60] ^= 1;
        fs::write(side(&database, "-maw"), log).unwrap();
        let json: serde_json::Value = serde_json::from_str(
            &recover(&sandbox, &database, &["--accept-loss", "--dry-run", "--json"]).unwrap(),
        )
        .unwrap();
        let loss = &json["accepted_loss"];
        assert_eq!(loss["is_exact"], false, "{loss}");
        let said = accept(&sandbox, &database);
        if killed {
            assert_eq!((&loss["source"], &loss["lost_records"]), (&"database".into(), &0.into()));
            assert!(said.contains("has what the database file has"), "{said}");
            assert!(said.contains("nothing that the readable part of the log has"), "{said}");
            assert_eq!(count(&database), ROWS);
        } else {
            assert_eq!(loss["source"], "log", "{loss}");
            assert!(said.contains(&format!("at least {} records", ROWS - at)), "{said}");
            assert_eq!(count(&database), at);
        }
    }
}

#[test]
fn of_maw_a_log_of_another_database_is_not_applied() {
    let (sandbox, other) = (Sandbox::new(), Sandbox::new());
    let (database, others) = (crashed_with_maw(&sandbox), crashed_with_maw(&other));
    fs::copy(side(&others, "-maw"), side(&database, "-maw")).unwrap();
    accept(&sandbox, &database);
    assert_eq!(count(&database), 0);
}

#[test]
fn a_garbled_header_with_maw_is_taken_from_the_log() {
    let sandbox = Sandbox::new();
    let database = crashed_with_maw(&sandbox);
    let mut bytes = fs::read(&database).unwrap();
    bytes[..100].fill(0x77);
    fs::write(&database, bytes).unwrap();
    let mut log = fs::read(side(&database, "-maw")).unwrap();
    let at = records(&log)[20];
    log[at + 60] ^= 1;
    fs::write(side(&database, "-maw"), log).unwrap();
    accept(&sandbox, &database);
    assert_eq!(count(&database), 17);
}
