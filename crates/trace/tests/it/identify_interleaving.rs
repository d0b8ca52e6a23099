//! A database's transactions are found as if it were alone, whatever a machine does at the same
//! time.

use oneflush_trace::identify::{Database, Transaction};
use oneflush_trace::model::{Action, Actor, Content, DeviceId, Event, Flags, Names};
use proptest::prelude::*;

use crate::identify_common::{Pen, Show, identify, interleaved};

#[derive(Clone, Copy, Debug)]
enum Mode {
    PersistFull,
    PersistNormal,
    TruncateFull,
    DeleteFull,
    DeleteNormal,
    DeleteExtra,
    WalFull,
    Eager,
}

/// One transaction: pages logged, pages updated, what comes of it, and the pause behind it.
#[derive(Clone, Copy, Debug)]
struct Step {
    log_pages: u64,
    db_pages: u64,
    spills: bool,
    rolls_back: bool,
    pause_ns: u64,
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::PersistFull),
        Just(Mode::PersistNormal),
        Just(Mode::TruncateFull),
        Just(Mode::DeleteFull),
        Just(Mode::DeleteNormal),
        Just(Mode::DeleteExtra),
        Just(Mode::WalFull),
        Just(Mode::Eager),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (2..20u64, 1..20u64, prop::bool::weighted(0.2), prop::bool::weighted(0.1), 0..3_000_000u64);
    let step = step.prop_map(|(log_pages, db_pages, spills, rolls_back, pause_ns)| Step {
        log_pages,
        db_pages,
        spills,
        rolls_back,
        pause_ns,
    });
    prop::collection::vec(step, 1..12)
}

fn shows() -> impl Strategy<Value = Show> {
    prop_oneof![Just(Show::Calls), Just(Show::Flushes)]
}

fn transaction(pen: &mut Pen, mode: Mode, step: Step) {
    let is_full = !matches!(mode, Mode::PersistNormal | Mode::DeleteNormal);
    match mode {
        Mode::WalFull => {
            pen.append(step.log_pages);
            if step.spills {
                pen.update(step.db_pages).restart_wal();
            }
        }
        Mode::Eager => {
            pen.record("-oneflush");
            if step.spills {
                pen.update(step.db_pages);
            }
        }
        _ => {
            pen.log(step.log_pages);
            if is_full {
                pen.count();
            }
            if step.spills {
                pen.segment(40, step.log_pages);
                if is_full {
                    pen.count_at(40);
                }
            }
            if !step.rolls_back {
                pen.update(step.db_pages);
            }
            match mode {
                Mode::PersistFull | Mode::PersistNormal => {
                    pen.zero();
                }
                Mode::TruncateFull => {
                    let path = pen.database.as_ref().map(|path| format!("{path}-journal"));
                    pen.sync(path.as_deref(), |pen| {
                        pen.flush();
                    });
                }
                Mode::DeleteExtra => {
                    let folder = pen
                        .database
                        .as_ref()
                        .and_then(|path| path.rsplit_once('/'))
                        .map(|parts| parts.0.to_string());
                    pen.sync(folder.as_deref(), |pen| {
                        pen.flush();
                    });
                }
                _ => {}
            }
        }
    }
    pen.wait(step.pause_ns);
}

fn trace(
    names: &mut Names,
    show: Show,
    number: u32,
    mode: Mode,
    steps: &[Step],
    offset_ns: u64,
) -> Vec<Event> {
    let mut pen = Pen::new(names, show, number);
    pen.wait(offset_ns);
    for step in steps {
        transaction(&mut pen, mode, *step);
    }
    pen.events
}

fn of(found: &[Transaction], number: u32) -> Vec<Transaction> {
    let path = Database::Named(format!("/data/app{number}/a.db").into());
    found.iter().filter(|found| found.database == path).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn interleaving_two_databases_changes_neithers_transactions(
        show in shows(),
        modes in (modes(), modes()),
        steps in (steps(), steps()),
        offset_ns in 0..20_000_000u64,
    ) {
        let mut names = Names::default();
        let first = trace(&mut names, show, 0, modes.0, &steps.0, 0);
        let second = trace(&mut names, show, 1, modes.1, &steps.1, offset_ns);
        let (alone_first, summary_first) = identify(&first, &names);
        let (alone_second, summary_second) = identify(&second, &names);
        prop_assert!(!alone_first.is_empty() || summary_first.partial_count > 0);
        let (found, summary) = identify(&interleaved(vec![first, second]), &names);
        prop_assert_eq!(of(&found, 0), alone_first);
        prop_assert_eq!(of(&found, 1), alone_second);
        let partial_count = summary_first.partial_count + summary_second.partial_count;
        prop_assert_eq!(summary.partial_count, partial_count);
    }

    #[test]
    fn every_byte_is_some_transactions_or_in_the_summary(
        show in shows(),
        modes in (modes(), modes(), modes()),
        steps in (steps(), steps(), steps()),
    ) {
        let mut names = Names::default();
        let traces = vec![
            trace(&mut names, show, 0, modes.0, &steps.0, 0),
            trace(&mut names, show, 1, modes.1, &steps.1, 1_234_567),
            trace(&mut names, show, 2, modes.2, &steps.2, 2_345_678),
        ];
        let events = interleaved(traces);
        let (found, summary) = identify(&events, &names);
        let (complete, partial) = (found.len() as u64, summary.partial_count);
        prop_assert!(complete + partial <= (steps.0.len() + steps.1.len() + steps.2.len()) as u64);
        let written: u64 = events
            .iter()
            .filter(|event| event.action == Action::Queue)
            .map(|event| event.bytes)
            .sum();
        let counted: u64 = found.iter().map(|found| found.traffic.bytes()).sum();
        let left = summary.other.bytes
            + summary.fs_journal.bytes
            + summary.metadata.bytes
            + summary.partial.bytes();
        prop_assert_eq!(counted + left, written);
        let asks = |event: &&Event| event.action == Action::Queue && event.flags.preflush;
        let asked = events.iter().filter(asks).count() as u64;
        let flushes: u64 = found.iter().map(|found| found.flushes).sum();
        prop_assert_eq!(flushes + summary.flushes, asked);
    }

    /// No order of any events makes it panic, and what it hands out is possible.
    #[test]
    fn any_events_are_taken(
        raw in prop::collection::vec(
            (0..14u8, 0..7u8, 0..40u64, 0..6u64, any::<u8>(), 0..4u32, 0..2_000_000_000u64),
            0..400,
        ),
    ) {
        let mut names = Names::default();
        let files = [
            "/d/a.db", "/d/a.db-journal", "/d/a.db-wal", "/d/a.db-mj0A1B2C9FF", "/d",
            "/d/b.db-oneflush", "/d/a.db-shm",
        ]
        .map(|path| names.id(path));
        let comms = ["app", "jbd2/sda1-8", "kworker/0:1", "other"].map(|name| names.id(name));
        let mut time_ns = 0;
        let mut events = Vec::new();
        for (action, file, place, pages, bits, thread, pause_ns) in raw {
            let action = [
                Action::Queue, Action::Insert, Action::Issue, Action::Complete, Action::SyncEnter,
                Action::SyncExit, Action::FileWrite, Action::FileRead, Action::Marker,
                Action::FileTruncate, Action::FileDelete, Action::WalWrite, Action::WriteLock,
                Action::WriteUnlock,
            ][usize::from(action)];
            time_ns += if bits & 1 == 0 { pause_ns } else { pause_ns % 100_000 };
            let contents = [None, None, Some(Content::Data), Some(Content::Metadata)];
            events.push(Event {
                time_ns,
                action,
                device: DeviceId { major: 8, minor: u32::from(bits >> 7) },
                sector: if place == 39 { u64::MAX } else { place * 8 },
                bytes: pages * 4096,
                flags: Flags {
                    write: bits & 6 != 0,
                    preflush: bits & 24 == 24,
                    fua: bits & 40 == 40,
                    ..Flags::default()
                },
                actor: Actor { thread, process: 1, name: Some(comms[thread as usize]) },
                content: contents[usize::from(bits >> 3 & 3)],
                file: if bits & 64 == 0 { Some(files[usize::from(file)]) } else { None },
            });
        }
        for transaction in identify(&events, &names).0 {
            prop_assert!(transaction.begin_ns <= transaction.end_ns);
            prop_assert!(transaction.end_ns <= time_ns);
            prop_assert!((0.0..=1.0).contains(&transaction.confidence.value));
            prop_assert!(transaction.segments > 0);
        }
    }

    /// The same of a WAL alone, so that locks, frames and synchronizations meet.
    #[test]
    fn any_events_of_a_wal_are_taken(
        raw in prop::collection::vec((0..9u8, 0..5u64, 1..4u32, 0..1_000_000u64), 0..400),
    ) {
        let mut names = Names::default();
        let [db, wal, index] = ["/d/a.db", "/d/a.db-wal", "/d/a.db-shm"].map(|path| names.id(path));
        let (mut time_ns, mut events) = (0, Vec::new());
        let mut written = 0;
        for (kind, place, thread, pause_ns) in raw {
            time_ns += pause_ns;
            let (action, file, sector, bytes) = match kind {
                0 => (Action::WriteLock, index, 0, 0),
                1 => (Action::WriteUnlock, index, 0, 0),
                2 | 3 => (Action::WalWrite, wal, 32 + place * 4120, 24),
                4 => (Action::WalWrite, wal, 0, 32),
                5 => (Action::SyncEnter, wal, 0, 0),
                6 => (Action::SyncExit, wal, 0, 0),
                7 => (Action::Queue, wal, 1000 + place * 8, 4096),
                _ => (Action::Queue, db, place * 8, 4096),
            };
            let is_request = action == Action::Queue;
            let event = Event {
                time_ns,
                action,
                device: DeviceId { major: 8, minor: 0 },
                sector,
                bytes,
                flags: Flags { write: is_request, ..Flags::default() },
                actor: Actor { thread, process: 1, name: None },
                content: is_request.then_some(Content::Data),
                file: Some(file),
            };
            events.push(event);
            if is_request {
                written += bytes;
                events.push(Event { action: Action::Complete, file: None, content: None, ..event });
            }
        }
        let (found, summary) = identify(&events, &names);
        for transaction in &found {
            prop_assert!(transaction.begin_ns <= transaction.end_ns);
            prop_assert!(transaction.end_ns <= time_ns);
        }
        let counted: u64 = found.iter().map(|found| found.traffic.bytes()).sum();
        prop_assert_eq!(counted + summary.partial.bytes() + summary.other.bytes, written);
    }
}
