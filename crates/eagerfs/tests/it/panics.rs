//! A panic at any step lets nothing more be acknowledged (T8). Who waits in a sync meanwhile is
//! told, and does not wait for ever.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use oneflush_eagerfs::entry::{ObjectId, ROOT};

use crate::common::hooked::{Bench, THRESHOLD_BYTES};

const AT_MOST: Duration = Duration::from_secs(20);
/// The other one has come to where it waits.
const UNTIL_IT_WAITS: Duration = Duration::from_millis(200);

type Prepare = fn(&Bench) -> ObjectId;
type Act = fn(&Bench, ObjectId) -> io::Result<()>;

struct Case {
    name: &'static str,
    /// Where it panics.
    step: &'static str,
    prepare: Prepare,
    act: Act,
    /// What the other one does. It is told of an error if it `waits` for a lock that the first one
    /// has, or for its record. Otherwise it may be done before the panic.
    other: Act,
    waits: bool,
}

fn sync(bench: &Bench, id: ObjectId) -> io::Result<()> {
    bench.tree.sync(id)
}

fn sync_names(bench: &Bench, _: ObjectId) -> io::Result<()> {
    bench.tree.sync(ROOT)
}

fn release(bench: &Bench, _: ObjectId) -> io::Result<()> {
    bench.tree.release().map(drop)
}

fn small(bench: &Bench) -> ObjectId {
    bench.file("file", 100)
}

fn large(bench: &Bench) -> ObjectId {
    bench.file("file", THRESHOLD_BYTES + 1)
}

fn logged(bench: &Bench) -> ObjectId {
    bench.synced("file", 100)
}

fn ended(bench: &Bench) -> ObjectId {
    let id = bench.synced("file", 100);
    assert!(bench.tree.end_epoch().unwrap());
    id
}

fn make(bench: &Bench, _: ObjectId) -> io::Result<()> {
    bench.make("another").map(drop)
}

const fn case(
    name: &'static str,
    step: &'static str,
    prepare: Prepare,
    act: Act,
    other: Act,
) -> Case {
    Case { name, step, prepare, act, other, waits: true }
}

const CASES: &[Case] = &[
    case("bytes are taken", "read", small, sync, sync_names),
    case("bytes are taken, the same file", "read", small, sync, sync),
    case("the record is written", "log", small, sync, sync_names),
    case("the record is written, an epoch ends", "log", small, sync, |bench, _| {
        bench.tree.end_epoch().map(drop)
    }),
    case("the record is durable", "logged", small, sync, sync_names),
    case("the lower syncs the file", "sync", large, sync, sync),
    Case { waits: false, ..case("the lower is synced", "sync all", ended, release, sync_names) },
    case("the release is written", "log", ended, release, sync_names),
    case("the release is durable", "logged", ended, release, sync_names),
    case("an epoch begins", "log", logged, |bench, _| bench.tree.end_epoch().map(drop), sync_names),
    case("an object is made", "made", small, make, sync_names),
    case("an object is made, another one as well", "made", small, make, |bench, _| {
        bench.make("one more").map(drop)
    }),
    case(
        "a file is renamed",
        "renamed",
        small,
        |bench, _| bench.tree.rename((ROOT, b"file"), (ROOT, b"name"), true),
        sync_names,
    ),
    case("the lower is marked", "mark", logged, make, sync_names),
    case("a file is cut", "truncate", logged, |bench, id| bench.tree.truncate(id, 10), sync_names),
    case("bytes are written", "write", small, |bench, id| bench.tree.write(id, 100, b"more"), sync),
];

/// Panics at a step for the first time, when the other one waits.
fn panic_at(bench: &Bench, step: &'static str, reached: Sender<()>) {
    bench.steps.hook(move |at| {
        // The receiver is gone after the first time.
        if at == step && reached.send(()).is_ok() {
            thread::sleep(UNTIL_IT_WAITS);
            panic!("as a fault at {at} would");
        }
        Ok(())
    });
}

#[test]
fn a_panic_at_any_step_lets_nothing_more_be_acknowledged() {
    let failed: Vec<String> = CASES.iter().filter_map(|case| fault_of(case).err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

fn fault_of(case: &Case) -> Result<(), String> {
    let bench = Arc::new(Bench::new(1 << 20));
    let id = (case.prepare)(&bench);
    let (reached, first) = channel();
    panic_at(&bench, case.step, reached);
    let (act, other) = (case.act, case.other);
    let acting = Arc::clone(&bench);
    let acting =
        thread::spawn(move || catch_unwind(AssertUnwindSafe(|| act(&acting, id))).is_err());
    let fault = |what: &str| Err(format!("{}: {what}", case.name));
    if first.recv_timeout(AT_MOST).is_err() {
        return fault("the step is not come to");
    }
    drop(first);
    let (tell, told) = channel();
    let waiting = Arc::clone(&bench);
    thread::spawn(move || tell.send(other(&waiting, id).is_err()));
    let Ok(is_told) = told.recv_timeout(AT_MOST) else { return fault("the other one hangs") };
    if !acting.join().unwrap() {
        return fault("nothing panics");
    }
    if case.waits && !is_told {
        return fault("the other one is acknowledged");
    }
    if !bench.tree.is_poisoned() {
        return fault("the tree is not poisoned");
    }
    let records = bench.tree.counts.records.get();
    let tree = &bench.tree;
    let later = [
        tree.sync(id),
        tree.sync(ROOT),
        tree.sync_all(),
        tree.end_epoch().map(drop),
        tree.release().map(drop),
        tree.finish(),
        tree.write(id, 0, b"later"),
        bench.make("later").map(drop),
    ];
    if later.iter().any(Result::is_ok) || bench.tree.counts.records.get() > records {
        return fault(&format!("something is acknowledged later: {later:?}"));
    }
    Ok(())
}
