//! Root works on somebody else's database. Everybody who could use the database before can use it
//! afterwards.
//!
//! The case: a service owns its database and directory, and a job of root's opens it with `eager`.
//! The log, the image and the board belonged to root. The service's reads and writes answered
//! "attempt to write a readonly database". After the job was killed, its owner could not open the
//! database. SQLite alone gives WAL, index and journal to the database's owner.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use oneflush_testing::named;
use tempfile::TempDir;

use crate::common::{LOGGED, Logged, commits, files, open_with, side, take_said};

const SERVICE: (u32, u32) = (1001, 1002);
const ROOT: (u32, u32) = (0, 0);

/// A database of the service in a directory of its own, and this program where the service may run
/// it. None: the test does not run as root.
struct Place {
    dir: TempDir,
    database: PathBuf,
}

fn place(mode: u32) -> Option<Place> {
    if !rustix::process::geteuid().is_root() {
        oneflush_testing::skip("only root can act for two users");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    oneflush_testing::copy_program(&dir.path().join("program"));
    let folder = dir.path().join("data");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(SERVICE.0), Some(SERVICE.1)).unwrap();
    let database = folder.join("a.db");
    let place = Place { dir, database };
    assert_eq!(place.act(SERVICE, "create", "stock"), "0");
    fs::set_permissions(&place.database, Permissions::from_mode(mode)).unwrap();
    Some(place)
}

impl Place {
    fn command(&self, (uid, gid): (u32, u32), task: &str, strategy: &str) -> Command {
        let mut command = Command::new(self.dir.path().join("program"));
        command
            .args(["--exact", named!(acts_as_another_user), "--nocapture"])
            .env("ONEFLUSH_TEST_ACTS", format!("{task}|{strategy}|{}", self.database.display()))
            .current_dir("/")
            .uid(uid)
            .gid(gid);
        command
    }

    /// What the other process says at its end.
    fn act(&self, user: (u32, u32), task: &str, strategy: &str) -> String {
        answer(&mut self.command(user, task, strategy))
    }

    /// Each file whose name begins with the database's: its name, owner, group and mode.
    fn belongings(&self) -> Vec<(String, (u32, u32, u32))> {
        let of = |suffix: String| {
            let found = fs::metadata(side(&self.database, &suffix)).unwrap();
            (suffix, (found.uid(), found.gid(), found.mode() & 0o777))
        };
        files(&self.database).into_iter().map(of).collect()
    }

    fn assert_all_belong_to_the_service(&self, mode: u32, about: &str) {
        for (suffix, found) in self.belongings() {
            assert_eq!(found, (SERVICE.0, SERVICE.1, mode), "{about}: a.db{suffix}");
        }
    }
}

fn answer(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| line.split_once("answer: ").map(|(_, answer)| answer.to_owned());
    said.lines().find_map(line).unwrap_or_else(|| format!("none: {said}"))
}

/// This program again. The job's umask is strict, as root's may be.
#[test]
fn acts_as_another_user() {
    let Ok(task) = std::env::var("ONEFLUSH_TEST_ACTS") else { return };
    let [task, strategy, path] = task.splitn(3, '|').collect::<Vec<_>>()[..] else {
        panic!("{task}")
    };
    let path = Path::new(path);
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(if task == "die" {
        0o077
    } else {
        0o022
    }));
    let done = open_with(path, &format!("strategy={strategy}")).and_then(|db| {
        match task {
            "create" => {
                db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(()))?;
                commits::create(&db);
            }
            _ => commits::try_make(&db)?,
        }
        if task == "die" {
            println!("answer: dies");
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
        }
        Ok(commits::check(&db))
    });
    match done {
        Ok(count) => {
            println!("answer: {}", count.map_or_else(|wrong| wrong, |count| count.to_string()))
        }
        Err(error) => println!("answer: {error}; {}", take_said(path).replace('\n', "; ")),
    }
}

#[test]
fn the_owner_works_beside_root_and_after_root_was_killed() {
    for strategy in ["stock", "plain", "eager", "waldio"] {
        let Some(place) = place(0o640) else { return };
        let job = open_with(&place.database, &format!("strategy={strategy}")).unwrap();
        commits::make(&job, 1);
        place.assert_all_belong_to_the_service(0o640, strategy);
        assert_eq!(place.act(SERVICE, "commit", strategy), "2", "{strategy}");
        assert_eq!(commits::check(&job), Ok(2), "{strategy}");
        drop(job);
        assert_eq!(place.act(ROOT, "die", strategy), "dies");
        assert!(place.belongings().len() > 2, "{strategy}: {:?}", place.belongings());
        place.assert_all_belong_to_the_service(0o640, strategy);
        assert_eq!(place.act(SERVICE, "commit", strategy), "4", "{strategy}");
    }
}

/// An earlier version has left the files with this owner.
#[test]
fn files_of_the_wrong_owner_are_named_with_the_way_out_and_root_hands_them_over() {
    let of = |logged: Logged| logged.all.iter().map(move |&wrong| (logged, wrong));
    for (logged, wrong) in LOGGED.into_iter().flat_map(of) {
        let Some(place) = place(0o644) else { return };
        assert_eq!(place.act(SERVICE, "die", logged.strategy), "dies");
        let file = side(&place.database, wrong);
        chown(&file, Some(0), Some(0)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let refused = place.act(SERVICE, "commit", logged.strategy);
        for said in
            ["user 1001 may not", "belongs to user 0 (mode 0600)", "once as root, or chown it"]
        {
            assert!(refused.contains(said), "{wrong}: {refused}");
        }
        assert!(refused.contains(&file.display().to_string()), "{wrong}: {refused}");
        let job = logged.open(&place.database).unwrap();
        assert_eq!(commits::check(&job), Ok(1), "{wrong}");
        place.assert_all_belong_to_the_service(0o644, wrong);
        drop(job);
        assert_eq!(place.act(SERVICE, "commit", logged.strategy), "2", "{wrong}");
    }
}

#[test]
fn what_root_sets_aside_belongs_to_the_databases_owner() {
    for logged in LOGGED {
        let Some(place) = place(0o640) else { return };
        let backup = fs::read(&place.database).unwrap();
        assert_eq!(place.act(ROOT, "die", logged.strategy), "dies");
        for file in logged.with_image {
            chown(side(&place.database, file), Some(0), Some(0)).unwrap();
        }
        fs::write(&place.database, backup).unwrap();
        assert_eq!(place.act(ROOT, "commit", logged.strategy), "1");
        let set_aside: Vec<String> = files(&place.database)
            .into_iter()
            .filter(|suffix| suffix.starts_with(&format!("{}-", logged.log[0])))
            .collect();
        assert!(set_aside.len() >= logged.with_image.len(), "{set_aside:?}");
        place.assert_all_belong_to_the_service(0o640, "set aside");
    }
}

#[test]
fn a_trace_that_root_begins_can_be_gone_on_with_by_the_databases_owner() {
    let Some(place) = place(0o640) else { return };
    let trace = place.dir.path().join("data/trace");
    for (user, expected) in [(ROOT, "1"), (SERVICE, "2")] {
        let mut command = place.command(user, "commit", "plain");
        assert_eq!(answer(command.env("ONEFLUSH_TRACE", &trace)), expected);
    }
    let found = fs::metadata(&trace).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (SERVICE.0, SERVICE.1, 0o640));
    let lines = fs::read_to_string(&trace).unwrap();
    assert!(lines.contains("fdatasync") && lines.contains("a.db"), "{lines}");
}
