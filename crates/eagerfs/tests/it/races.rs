//! Syncs that meet another one at a bad moment. A hook stops one of them there.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use oneflush_eagerfs::entry::ROOT;

use crate::common::hooked::{Bench, THRESHOLD_BYTES};

const AT_MOST: Duration = Duration::from_secs(20);
const A_WHILE: Duration = Duration::from_millis(300);

/// The write of a record stops until it is let go, once.
struct Stop {
    come: Receiver<()>,
    go: Sender<()>,
}

/// Stops what the log writes, and says so. Steps are noted.
fn stops(bench: &Bench, count: usize) -> (Vec<Stop>, Arc<Mutex<Vec<String>>>) {
    let (mut stops, mut hooks) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let ((tell, come), (go, wait)) = (channel(), channel::<()>());
        stops.push(Stop { come, go });
        hooks.push((tell, Mutex::new(wait)));
    }
    let steps = Arc::new(Mutex::new(Vec::new()));
    let (noted, next) = (Arc::clone(&steps), AtomicU32::new(0));
    bench.steps.hook(move |step| {
        if step == "log"
            && let Some((tell, wait)) = hooks.get(next.fetch_add(1, SeqCst) as usize)
        {
            let _ = tell.send(());
            let _ = wait.lock().unwrap().recv_timeout(AT_MOST);
        }
        noted.lock().unwrap().push(step.to_owned());
        Ok(())
    });
    (stops, steps)
}

/// Its bytes were taken for void before the record that says so was durable, and what the lower had
/// besides them was lost with the cut.
#[test]
fn a_file_is_cut_behind_the_record_that_voids_its_bytes() {
    let bench = Arc::new(Bench::new(1 << 20));
    let id = bench.synced("file", 100);
    bench.tree.write(id, 0, &vec![b'y'; THRESHOLD_BYTES + 1]).unwrap();
    let (stops, steps) = stops(&bench, 1);
    thread::scope(|scope| {
        scope.spawn(|| bench.tree.sync(id).unwrap());
        stops[0].come.recv_timeout(AT_MOST).unwrap();
        scope.spawn(|| bench.tree.truncate(id, 10).unwrap());
        thread::sleep(A_WHILE);
        stops[0].go.send(()).unwrap();
    });
    let steps = steps.lock().unwrap();
    let at = |wanted: &str| steps.iter().position(|step| step == wanted).unwrap();
    assert!(at("logged") < at("truncate"), "{steps:?}");
}

/// The lower has synced a file for one program, and its record is still to come. Another program's
/// sync of the file found nothing to do, and what the log had was replayed over it.
#[test]
fn a_sync_waits_for_the_record_of_the_lowers_sync() {
    let bench = Arc::new(Bench::new(1 << 20));
    let id = bench.synced("file", 100);
    bench.tree.end_epoch().unwrap();
    bench.tree.write(id, 0, b"second").unwrap();
    let (stops, _) = stops(&bench, 2);
    let (tell, told) = channel();
    thread::scope(|scope| {
        // It has `writer`.
        scope.spawn(|| bench.tree.release().unwrap());
        stops[0].come.recv_timeout(AT_MOST).unwrap();
        let other = &bench;
        scope.spawn(move || tell.send(other.tree.sync(id).is_ok()).unwrap());
        thread::sleep(A_WHILE);
        bench.tree.write(id, 0, &vec![b'z'; THRESHOLD_BYTES + 1]).unwrap();
        scope.spawn(|| bench.tree.sync(id).unwrap());
        thread::sleep(A_WHILE);
        stops[0].go.send(()).unwrap();
        stops[1].come.recv_timeout(AT_MOST).unwrap();
        let early = told.recv_timeout(A_WHILE);
        stops[1].go.send(()).unwrap();
        assert!(early.is_err(), "it is acknowledged before its record");
        assert!(told.recv_timeout(AT_MOST).unwrap());
    });
}

/// Bytes of a record in flight were taken for durable, and so were bytes that the lower had and the
/// log did not void yet. A loss of power behind the rename lost what the old file had.
#[test]
fn a_file_replaces_another_behind_the_record_that_makes_its_bytes_durable() {
    for is_lowers in [false, true] {
        let bench = Arc::new(Bench::new(1 << 20));
        bench.synced("old", 100);
        let new = bench.synced("new", 100);
        let length = if is_lowers { THRESHOLD_BYTES + 1 } else { 200 };
        bench.tree.write(new, 0, &vec![b'y'; length]).unwrap();
        let (stops, steps) = stops(&bench, 1);
        thread::scope(|scope| {
            scope.spawn(|| bench.tree.sync(new).unwrap());
            stops[0].come.recv_timeout(AT_MOST).unwrap();
            let replaces = || bench.tree.rename((ROOT, b"new"), (ROOT, b"old"), true).unwrap();
            scope.spawn(replaces);
            thread::sleep(A_WHILE);
            stops[0].go.send(()).unwrap();
        });
        let steps = steps.lock().unwrap();
        let at = |wanted: &str| steps.iter().position(|step| step == wanted).unwrap();
        assert!(at("logged") < at("renamed"), "{is_lowers}: {steps:?}");
    }
}

/// The kernel tells an error once: the second of two syncs of a file heard nothing of it.
#[test]
fn a_sync_beside_one_that_fails_is_told() {
    let bench = Arc::new(Bench::new(1 << 20));
    let id = bench.file("file", THRESHOLD_BYTES + 1);
    let ((tell, come), (go, wait)) = (channel(), channel::<()>());
    let (wait, syncs) = (Mutex::new(wait), AtomicU32::new(0));
    bench.steps.hook(move |step| {
        if step != "sync" || syncs.fetch_add(1, SeqCst) > 0 {
            return Ok(());
        }
        let _ = tell.send(());
        let _ = wait.lock().unwrap().recv_timeout(AT_MOST);
        Err(io::Error::other("as a device may"))
    });
    thread::scope(|scope| {
        let first = scope.spawn(|| bench.tree.sync(id));
        come.recv_timeout(AT_MOST).unwrap();
        let second = scope.spawn(|| bench.tree.sync(id));
        thread::sleep(A_WHILE);
        go.send(()).unwrap();
        assert!(first.join().unwrap().is_err());
        assert!(second.join().unwrap().is_err());
    });
}

/// The bytes stood behind the cut, with the size from before it.
#[test]
fn a_cut_stands_behind_the_bytes_of_its_record() {
    let bench = Arc::new(Bench::new(1 << 20));
    let id = bench.synced("file", 100);
    bench.make("another").unwrap();
    let (stops, _) = stops(&bench, 1);
    thread::scope(|scope| {
        scope.spawn(|| bench.tree.sync_operations().unwrap());
        stops[0].come.recv_timeout(AT_MOST).unwrap();
        bench.tree.write(id, 100, b"more").unwrap();
        // These share the next record.
        scope.spawn(|| bench.tree.sync(id).unwrap());
        scope.spawn(|| bench.tree.truncate(id, 10).unwrap());
        thread::sleep(A_WHILE);
        stops[0].go.send(()).unwrap();
    });
    assert_eq!(bench.logged().objects[&id].contents.size_bytes, Some(10));
}
