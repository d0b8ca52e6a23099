//! Broken invariants that only several handles, threads or real files show (feature `mutants`). The
//! others are in `crates/crashlab/tests/it/mutants/invariants.rs`.
//!
//! A mutant breaks its whole process. So each scene is played by this program again. There the
//! check panics, and after that the handle writes nothing more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use oneflush_mvbt::mutant::{Mutant, choose};
use oneflush_mvbt::{Database, Error, Memory as Commons, Options, Read, TreeId};
use oneflush_testing::named;

use crate::common::Memory;
use crate::races::slow_with;

const SCENE: &str = "ONEFLUSH_TEST_SCENE";

struct Scene {
    number: &'static str,
    mutant: Mutant,
    play: fn(&dyn Fn()),
}

const SCENES: [Scene; 7] = [
    Scene { number: "I17", mutant: Mutant::FailureForgotten, play: write_after_a_failed_write },
    Scene { number: "I18", mutant: Mutant::StaleReadKept, play: read_an_old_page_slowly },
    Scene { number: "I22", mutant: Mutant::NameUnsynced, play: commit_in_a_new_file },
    Scene { number: "P2", mutant: Mutant::ReaderUnseen, play: read },
    Scene { number: "P3", mutant: Mutant::SlotUncounted, play: begin },
    Scene { number: "P7", mutant: Mutant::AnchorUnread, play: write_after_another },
    Scene { number: "P8", mutant: Mutant::FailureHidden, play: drop_after_a_failed_write },
];

#[test]
fn a_broken_invariant_panics_and_its_handle_writes_nothing_more() {
    for Scene { number, mutant, .. } in SCENES {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", named!(scene), "--nocapture"]).env(SCENE, number);
        let played = command.output().unwrap();
        let said = String::from_utf8_lossy(&played.stderr);
        assert!(played.status.success(), "{mutant:?}: {said}");
        assert!(said.contains(&format!("invariant {number} is broken: ")), "{mutant:?}: {said}");
    }
}

/// Without its environment it is no test.
#[test]
fn scene() {
    let Ok(number) = std::env::var(SCENE) else { return };
    let scene = SCENES.into_iter().find(|scene| scene.number == number).unwrap();
    (scene.play)(&|| choose(Some(scene.mutant)));
}

fn breaks<R>(call: impl FnOnce() -> R) {
    let broken = catch_unwind(AssertUnwindSafe(call));
    choose(None);
    assert!(broken.is_err(), "nothing was broken");
}

fn writes_nothing_more(db: &Database) {
    assert!(matches!(db.begin_write(), Err(Error::Poisoned)));
}

fn early() -> Options {
    let mut options = Options::default();
    options.spill_bytes = 0;
    options
}

fn made(file: &Memory, options: Options) -> (Database, TreeId) {
    let db = file.create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    (db, tree)
}

fn write_after_a_failed_write(mutate: &dyn Fn()) {
    let file = Memory::default();
    let (db, tree) = made(&file, Options::default());
    let mut txn = db.begin_write().unwrap();
    txn.insert(tree, 1, b"one").unwrap();
    file.fail_after(0);
    assert!(matches!(txn.commit(), Err(Error::Io { .. })));
    mutate();
    breaks(|| db.begin_write());
    writes_nothing_more(&db);
}

fn drop_after_a_failed_write(mutate: &dyn Fn()) {
    let file = Memory::default();
    let (db, tree) = made(&file, Options::default());
    let mut txn = db.begin_write().unwrap();
    file.fail_after(0);
    // The file has to grow.
    let insert = |key| txn.insert(tree, key, &[7; 1 << 20]).map(drop);
    assert!(matches!((1..100).try_for_each(insert), Err(Error::Io { .. })));
    mutate();
    breaks(|| drop(txn));
    writes_nothing_more(&db);
}

/// The reader has the old page when the writer commits the new one.
fn read_an_old_page_slowly(mutate: &dyn Fn()) {
    let (slow, db, tree, at) = slow_with(&Options::default());
    mutate();
    let (has_read, goes_on) = slow.hold(at);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| db.begin_read().unwrap().get(tree, 1));
        has_read.recv().unwrap();
        let mut txn = db.begin_write().unwrap();
        txn.insert(tree, 2, b"two").unwrap();
        txn.commit().unwrap();
        goes_on.send(()).unwrap();
        breaks(|| reader.join().unwrap());
    });
    writes_nothing_more(&db);
}

fn commit_in_a_new_file(mutate: &dyn Fn()) {
    let folder = tempfile::tempdir().unwrap();
    mutate();
    let db = Database::create(&folder.path().join("a.mvbt"), Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    txn.create_tree(false).unwrap();
    breaks(|| txn.commit());
    writes_nothing_more(&db);
}

fn read(mutate: &dyn Fn()) {
    let (db, _) = made(&Memory::default(), Options::default());
    mutate();
    breaks(|| db.begin_read());
    writes_nothing_more(&db);
}

/// Nothing was written yet.
fn begin(mutate: &dyn Fn()) {
    let file = Memory::default();
    made(&file, Options::default()).0.close().unwrap();
    mutate();
    let db = file.open(Options::default()).unwrap();
    breaks(|| db.begin_write());
    writes_nothing_more(&db);
}

/// The rollback of the other one writes an anchor.
fn write_after_another(mutate: &dyn Fn()) {
    let (file, commons) = (Memory::default(), Commons::new());
    let (db, tree) = made(&file, early());
    db.close().unwrap();
    let join = || {
        let (storage, path) = (Arc::new(file.clone()), PathBuf::from("a.mvbt"));
        Database::join_on(storage, path, early(), &commons).unwrap()
    };
    let (one, other) = (join(), join());
    let mut txn = one.begin_write().unwrap();
    txn.insert(tree, 1, b"one").unwrap();
    txn.rollback().unwrap();
    mutate();
    breaks(|| other.begin_write());
    writes_nothing_more(&other);
    let mut txn = one.begin_write().unwrap();
    txn.insert(tree, 2, b"two").unwrap();
    txn.commit().unwrap();
}
