//! Traces of many databases at the same time, for what must hold, and stay fast, however many there
//! are.
//!
//! Every database begins 7 µs behind the one before. It pauses between its transactions until all
//! others have begun theirs. Each database is therefore open while all the others write. Nothing is
//! random, and no two databases do anything in the same nanosecond.

#![allow(dead_code, reason = "the tests and each example use a part of it")]

use oneflush_trace::model::{Action, Event, Names};

use super::identify_common::{Pen, Show, interleaved};

/// Time between the beginnings of two databases. No multiple of the unit in which a [`Pen`] counts.
const STAGGER_NS: u64 = 7_001;

/// Which thread writes which databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A thread for each database, in all journal modes.
    Threads(Show),
    /// The same. The file system's journal is committed by its own thread within every sync of a
    /// log.
    Commits(Show),
    /// One thread, one database after the other, all in one folder. Deletions are made durable by a
    /// sync of the folder.
    OneThread(Show),
    /// Two databases for each thread, in one transaction with a super-journal.
    Pairs,
    /// The same, all by one thread.
    PairsOfOneThread,
    /// A thread for each database, and no file names.
    Nameless,
    /// One thread, and no file names.
    NamelessOfOneThread,
}

pub const SHAPES: [Shape; 12] = [
    Shape::Threads(Show::Calls),
    Shape::Threads(Show::Flushes),
    Shape::Threads(Show::Waits),
    Shape::Commits(Show::Calls),
    Shape::Commits(Show::Flushes),
    Shape::OneThread(Show::Calls),
    Shape::OneThread(Show::Flushes),
    Shape::Pairs,
    Shape::PairsOfOneThread,
    Shape::Nameless,
    Shape::NamelessOfOneThread,
    Shape::Commits(Show::Waits),
];

/// `rounds` transactions of each of so many databases.
pub fn trace(names: &mut Names, shape: Shape, databases: u32, rounds: u32) -> Vec<Event> {
    match shape {
        Shape::OneThread(_) | Shape::PairsOfOneThread | Shape::NamelessOfOneThread => {
            one_thread(names, shape, databases, rounds)
        }
        _ => threads(names, shape, databases, rounds),
    }
}

fn threads(names: &mut Names, shape: Shape, databases: u32, rounds: u32) -> Vec<Event> {
    let round_ns = u64::from(databases) * STAGGER_NS;
    let pens = if shape == Shape::Pairs { databases / 2 } else { databases };
    let traces = (0..pens).map(|number| {
        let show = match shape {
            Shape::Threads(show) | Shape::Commits(show) => show,
            Shape::Pairs => Show::Calls,
            _ => Show::Flushes,
        };
        let mut pen = Pen::new(names, show, number);
        pen.wait(u64::from(number) * STAGGER_NS);
        if shape == Shape::Nameless {
            pen.database = None;
        }
        for round in 0..rounds {
            let begin_ns = pen.now_ns;
            match shape {
                Shape::Pairs => pair(&mut pen, number, round),
                Shape::Nameless => nameless(&mut pen, number, round),
                _ => {
                    if matches!(shape, Shape::Commits(_)) {
                        pen.commit_pages = u64::from(3 + (number + round) % 5);
                    }
                    named(&mut pen, number, round);
                }
            }
            pen.now_ns = pen.now_ns.max(begin_ns + round_ns);
        }
        pen.events
    });
    interleaved(traces.collect())
}

fn one_thread(names: &mut Names, shape: Shape, databases: u32, rounds: u32) -> Vec<Event> {
    let show = if matches!(shape, Shape::OneThread(Show::Calls) | Shape::PairsOfOneThread) {
        Show::Calls
    } else {
        Show::Flushes
    };
    let mut pen = Pen::new(names, show, 0);
    for round in 0..rounds {
        let count = if shape == Shape::PairsOfOneThread { databases / 2 } else { databases };
        for number in 0..count {
            let base = 1_000_000 * u64::from(number + 1);
            (pen.db_sector, pen.journal_sector) = (base, base + 100_000);
            pen.database =
                (shape != Shape::NamelessOfOneThread).then(|| format!("/data/app/{number}.db"));
            match shape {
                Shape::NamelessOfOneThread => nameless(&mut pen, number, round),
                Shape::PairsOfOneThread => pair(&mut pen, number, round),
                _ => {
                    pen.log(u64::from(2 + number % 3)).count().update(2).delete_durably();
                }
            }
        }
    }
    pen.events
}

/// One transaction in the journal mode of this database.
fn named(pen: &mut Pen, number: u32, round: u32) {
    let pages = u64::from(2 + (number / 8 + round) % 4);
    match number % 8 {
        0 => pen.log(pages).count().update(pages).zero(),
        1 => pen.log(pages).update(pages).zero(),
        2 => pen.log(pages).count().update(pages).truncate(),
        3 => pen.log(pages).count().update(pages).remove(Action::FileDelete),
        4 => pen.log(pages).count().update(pages).delete_durably(),
        5 => pen.append(pages),
        6 => pen.record("-oneflush"),
        _ => pen.log(pages).count().segment(40, pages).count_at(40).update(pages).zero(),
    };
    if number % 8 == 5 && round % 2 == 1 {
        pen.update(3).restart_wal();
    }
    if number % 16 == 9 {
        let sector = pen.db_sector + 400_000;
        pen.metadata(sector);
    }
}

/// What shows without file names: PERSIST, and TRUNCATE whose journal stays, or moves.
fn nameless(pen: &mut Pen, number: u32, round: u32) {
    let pages = u64::from(2 + (number + round) % 3);
    match number % 3 {
        0 => pen.log(pages).count().update(pages).zero(),
        1 => pen.log(pages).count().update(pages),
        _ => {
            pen.journal_sector += 1_000;
            pen.log(pages).count().update(pages)
        }
    };
}

fn pair(pen: &mut Pen, number: u32, round: u32) {
    let main = pen.database.clone();
    let (db, journal) = (pen.db_sector, pen.journal_sector);
    // A pair by turns with each database alone, so that a part may wait for the next transaction.
    if (number + round) % 4 == 3 {
        pen.log(3).count().update(2).truncate();
        return;
    }
    let paths = [main.clone(), Some(format!("/data/pair{number}/b.db"))];
    pen.durable("-mj0A1B2C9FF", &[(db + 700_000, 1)], 2);
    for (path, offset) in paths.iter().zip([0, 50_000]) {
        pen.database = path.clone();
        (pen.db_sector, pen.journal_sector) = (db + offset, journal + offset);
        pen.log(3).count().update(2);
    }
    for (path, offset) in paths.iter().zip([0, 50_000]) {
        pen.database = path.clone();
        pen.journal_sector = journal + offset;
        pen.truncate();
    }
    (pen.database, pen.db_sector, pen.journal_sector) = (main, db, journal);
}
