//! What is counted for a transaction and what is not: requests, flushes, the file system's journal,
//! metadata, others' writes.

use oneflush_trace::identify::{Amount, Identifier, JournalMode, Outcome, Synchronous};
use oneflush_trace::model::{Action, Actor, Event, Flags, Names};

use crate::identify_common::{DEVICE, PAGE, Pen, Show, identify, interleaved};

fn write_flags() -> Flags {
    Flags { write: true, sync: true, ..Flags::default() }
}

#[test]
fn a_commit_of_the_file_systems_journal_is_its_that_waits_for_it() {
    for show in [Show::Calls, Show::Flushes] {
        let mut names = Names::default();
        let mut pen = Pen::new(&mut names, show, 0);
        pen.commit_pages = 3;
        for _ in 0..2 {
            pen.log(3).count().update(2).zero().wait(50_000_000);
            // One more, of nobody: the file system's own, every five seconds.
            pen.commit(6).wait(50_000_000);
        }
        let events = pen.events;
        let (found, summary) = identify(&events, &names);
        assert_eq!(found.len(), 2, "{show:?}");
        for transaction in &found {
            assert_eq!(
                transaction.traffic.fs_journal,
                Amount { bytes: 5 * PAGE, requests: 2 },
                "{show:?}"
            );
            // The commit's, and one each for the count, the update and the reset.
            assert_eq!(transaction.flushes, 4);
            assert_eq!(transaction.journal_mode, JournalMode::Persist);
        }
        assert_eq!(summary.fs_journal, Amount { bytes: 2 * 8 * PAGE, requests: 4 });
        assert_eq!(summary.flushes, 2);
    }
}

/// As on XFS, which has no events for its sync calls. On a busy machine a thread waits long for a
/// processor before it sends its flush.
#[test]
fn a_flush_that_comes_late_still_ends_the_transaction_that_waits_for_it() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Flushes, 0);
    let (wal, sector) = (Some("/data/app0/a.db-wal"), pen.wal_sector);
    pen.wal_header();
    for number in 0..20 {
        // Every second flush is late.
        let late_ns = if number % 2 == 0 { 90_000_000 } else { 0 };
        pen.write(wal, &[(sector + number * 8, 2)]).wait(late_ns).flush().wait(20_000_000);
        // A flush of something else, long behind the transaction's own, is not its.
        pen.wait(30_000_000).flush();
    }
    let events = pen.events;
    let (found, summary) = identify(&events, &names);
    assert_eq!(found.len(), 20);
    assert!(found.iter().skip(1).all(|found| found.flushes == 1));
    assert_eq!(summary.flushes, 20);
}

#[test]
fn what_another_program_synchronizes_meanwhile_is_its_own() {
    for show in [Show::Calls, Show::Flushes] {
        let mut names = Names::default();
        let mut pen = Pen::new(&mut names, show, 0);
        for _ in 0..3 {
            pen.log(3).wait(3_000_000).count().update(2).zero().wait(2_000_000);
        }
        let database = pen.events;
        let mut pen = Pen::new(&mut names, show, 1);
        pen.now_ns = 1_000_000 + 1_500_000;
        for _ in 0..3 {
            let sector = pen.db_sector;
            pen.sync(Some("/data/app1/settings.xml"), |pen| {
                pen.write(Some("/data/app1/settings.xml"), &[(sector, 4)]).commit(5);
            });
            pen.wait(4_000_000);
        }
        let other = pen.events;
        let (alone, _) = identify(&database, &names);
        let (found, summary) = identify(&interleaved(vec![database, other]), &names);
        assert_eq!(found, alone, "{show:?}");
        assert_eq!(summary.other, Amount { bytes: 12 * PAGE, requests: 3 });
        assert_eq!(summary.fs_journal.bytes, 3 * 7 * PAGE);
    }
}

#[test]
fn metadata_that_the_transactions_thread_writes_is_counted_for_it() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Flushes, 0);
    for number in 0..2 {
        pen.log(3).count();
        pen.metadata(9_000_000 + number * 8);
        pen.update(2).zero().wait(2_000_000);
    }
    let events = pen.events;
    let (found, _) = identify(&events, &names);
    assert_eq!(found.len(), 2);
    assert!(
        found.iter().all(|found| found.traffic.metadata == Amount { bytes: PAGE, requests: 1 })
    );
}

#[test]
fn a_request_is_counted_once_whatever_events_tell_of_it() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Flushes, 0);
    for _ in 0..2 {
        pen.log(3).count().update(2).zero().wait(2_000_000);
    }
    let all = pen.events;
    let (whole, _) = identify(&all, &names);
    let only = |kept: &[Action]| -> Vec<Event> {
        all.iter().filter(|event| kept.contains(&event.action)).copied().collect()
    };
    for kept in
        [&[Action::Queue][..], &[Action::Queue, Action::Complete], &[Action::Queue, Action::Issue]]
    {
        let (found, _) = identify(&only(kept), &names);
        assert_eq!(found.len(), 2, "{kept:?}");
        for (found, whole) in found.iter().zip(&whole) {
            assert_eq!((found.traffic, found.flushes), (whole.traffic, whole.flushes), "{kept:?}");
            assert_eq!(found.begin_ns, whole.begin_ns);
        }
    }
}

#[test]
fn merged_writes_are_one_request_and_a_split_one_is_two() {
    let mut names = Names::default();
    let path = Some(names.id("/d/a.db-journal"));
    let actor = Actor { thread: 5, process: 5, name: Some(names.id("app")) };
    let event = |time_ns, action, sector, pages: u64| Event {
        time_ns,
        action,
        device: DEVICE,
        sector,
        bytes: pages * PAGE,
        flags: write_flags(),
        actor,
        content: None,
        file: if action == Action::Queue { path } else { None },
    };
    let mut events = vec![
        // Two pieces that touch, sent as one.
        event(10, Action::Queue, 1000, 1),
        event(20, Action::Queue, 1008, 1),
        event(30, Action::Issue, 1000, 2),
        // One piece, sent as two.
        event(40, Action::Queue, 2000, 4),
        event(50, Action::Issue, 2000, 2),
        event(60, Action::Issue, 2016, 2),
        event(70, Action::Complete, 1000, 2),
        event(80, Action::Complete, 2000, 2),
        event(90, Action::Complete, 2016, 2),
    ];
    let database = names.id("/d/a.db");
    for (sector, time_ns) in [(1000, 100), (5000, 200)] {
        let (file, pages) = if sector == 5000 { (Some(database), 2) } else { (path, 1) };
        events.push(Event { file, ..event(time_ns, Action::Queue, sector, pages) });
        events.push(event(time_ns + 50, Action::Complete, sector, pages));
    }
    let (found, _) = identify(&events, &names);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].traffic.journal, Amount { bytes: 7 * PAGE, requests: 4 });
    assert_eq!(found[0].traffic.db, Amount { bytes: 2 * PAGE, requests: 1 });
    assert_eq!((found[0].begin_ns, found[0].end_ns), (10, 250));
}

#[test]
fn flushes_that_the_block_layer_makes_of_one_write_are_counted_with_it() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Flushes, 0);
    pen.log(3).count().update(2).zero();
    // The record of a commit at a device without FUA: flush, write, flush.
    let actor = Actor { thread: 9, process: 9, name: Some(pen.names.id("jbd2/sda1-8")) };
    let worker = Actor { thread: 8, process: 8, name: Some(pen.names.id("kworker/0:1H")) };
    let record = Flags { preflush: true, fua: true, meta: true, ..write_flags() };
    let flush = Flags { preflush: true, ..Flags::default() };
    pen.log(3);
    let at = |pen: &mut Pen, action, sector, bytes, flags, actor| {
        pen.now_ns += 10_000;
        pen.push(action, sector, bytes, flags, actor, None);
    };
    at(&mut pen, Action::Queue, 77, PAGE, record, actor);
    at(&mut pen, Action::Issue, 0, 0, flush, worker);
    at(&mut pen, Action::Complete, u64::MAX, 0, flush, worker);
    at(&mut pen, Action::Issue, 77, PAGE, write_flags(), worker);
    at(&mut pen, Action::Complete, 77, PAGE, write_flags(), worker);
    at(&mut pen, Action::Issue, 0, 0, flush, worker);
    at(&mut pen, Action::Complete, u64::MAX, 0, flush, worker);
    at(&mut pen, Action::Complete, 77, 0, write_flags(), worker);
    let record_done_ns = pen.now_ns;
    pen.wait(10_000).count().update(2).zero();
    let events = pen.events;
    let (found, summary) = identify(&events, &names);
    assert_eq!(found.iter().map(|found| found.flushes).collect::<Vec<_>>(), [4, 6]);
    assert_eq!(found[1].traffic.fs_journal, Amount { bytes: PAGE, requests: 1 });
    assert!(found[1].end_ns > record_done_ns);
    assert_eq!(summary.flushes, 0);
}

#[test]
fn pages_that_the_kernel_wrote_back_belong_to_the_transaction_and_not_to_the_kernels_thread() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    for _ in 0..2 {
        let (thread, comm) = (pen.thread, pen.comm.clone());
        (pen.thread, pen.comm) = (7, "kworker/u8:2".into());
        let sector = pen.journal_sector + 400;
        pen.write(Some("/data/app0/a.db-journal"), &[(sector, 6)]);
        (pen.thread, pen.comm) = (thread, comm);
        pen.log(3).count().update(2).zero();
    }
    let events = pen.events;
    let (found, _) = identify(&events, &names);
    assert_eq!(found.len(), 2);
    assert!(
        found
            .iter()
            .all(|found| found.process.thread == 100 && found.traffic.journal.bytes == 11 * PAGE)
    );
}

/// Memory does not grow with the trace: only the last transaction waits for its end.
#[test]
fn transactions_are_handed_out_as_they_become_complete() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    for _ in 0..500 {
        pen.log(3).count().update(2).zero().wait(60_000_000);
    }
    let events = pen.events;
    let mut identifier = Identifier::new();
    let (mut count, mut behind_max) = (0, 0);
    for (number, event) in events.iter().enumerate() {
        identifier.push(event, &names);
        while identifier.next_transaction().is_some() {
            count += 1;
        }
        behind_max = behind_max.max(number * 500 / events.len() - count);
    }
    assert_eq!((count, behind_max), (499, 2));
    assert_eq!(identifier.finish(&names).0.len(), 1);
}

#[test]
fn a_suspended_machine_makes_a_transaction_long_but_not_two() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Flushes, 0);
    pen.log(3).count().update(2).zero().wait(5_000_000);
    pen.log(3).count().update(2).wait(222_000_000_000).zero();
    pen.log(3).wait(134_000_000_000).count().update(2).zero();
    let events = pen.events;
    let (found, _) = identify(&events, &names);
    let silent_s: Vec<u64> = found.iter().map(|found| found.silent_ns / 1_000_000_000).collect();
    assert_eq!(silent_s, [0, 222, 134]);
    assert!(
        found.iter().all(|found| found.journal_mode == JournalMode::Persist
            && found.traffic.db.bytes == 2 * PAGE)
    );
    assert!(found[1].latency_ns() - found[1].silent_ns < 20_000_000);
}

#[test]
fn a_trace_that_begins_or_ends_within_a_transaction_does_not_make_one_of_the_rest() {
    type Rest = fn(&mut Pen);
    let rests: [Rest; 3] = [
        |pen| {
            pen.count().update(2).zero();
        },
        |pen| {
            pen.update(2).zero();
        },
        |pen| {
            pen.zero();
        },
    ];
    for (number, rest) in rests.into_iter().enumerate() {
        let mut names = Names::default();
        let mut pen = Pen::new(&mut names, Show::Flushes, 0);
        rest(&mut pen);
        for _ in 0..2 {
            pen.log(3).count().update(2).zero();
        }
        pen.log(3).count();
        let events = pen.events;
        let (found, summary) = identify(&events, &names);
        assert_eq!(found.len(), 2, "rest {number}");
        assert!(
            found.iter().all(|found| found.outcome == Outcome::Committed
                && found.traffic.journal.bytes == 5 * PAGE)
        );
        assert_eq!(summary.partial_count, 2);
    }
}

#[test]
fn temporary_files_and_the_wal_index_make_no_transactions() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    pen.append(2);
    pen.write(Some("/tmp/etilqs_0123456789abcdef"), &[(77_000, 4)]);
    pen.write(Some("/data/app0/a.db-shm"), &[(78_000, 8)]);
    pen.append(2);
    let events = pen.events;
    let (found, summary) = identify(&events, &names);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|found| found.synchronous == Synchronous::Full));
    assert_eq!(summary.other.bytes, 4 * PAGE);
}
