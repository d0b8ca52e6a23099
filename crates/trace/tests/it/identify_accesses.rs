//! The single requests of transactions. A caller that asks for them gets every byte and flush once.
//! A caller that does not ask gets none, and nothing else differs.

use oneflush_trace::identify::{Class, Identifier, Traffic, Transaction};
use oneflush_trace::import;
use oneflush_trace::model::{Event, Names};

use crate::identify_common::{Pen, Show, interleaved};

fn found(mut identifier: Identifier, events: &[Event], names: &Names) -> Vec<Transaction> {
    events.iter().for_each(|event| identifier.push(event, names));
    let mut found = Vec::new();
    while let Some(transaction) = identifier.next_transaction() {
        found.push(transaction);
    }
    found.extend(identifier.finish(names).0);
    found
}

/// Returns how many transactions there are.
fn check(events: &[Event], names: &Names) -> usize {
    let without = found(Identifier::new(), events, names);
    let mut with = found(Identifier::new().keep_accesses(), events, names);
    for transaction in &mut with {
        let accesses = std::mem::take(&mut transaction.accesses);
        assert!(accesses.is_sorted_by_key(|access| access.begin_ns));
        let mut traffic = Traffic::default();
        for access in &accesses {
            traffic.class(access.class).bytes += access.bytes;
        }
        let bytes = |traffic: Traffic| {
            [traffic.db, traffic.journal, traffic.fs_journal, traffic.metadata].map(|of| of.bytes)
        };
        assert_eq!(bytes(traffic), bytes(transaction.traffic), "{transaction:?}");
        assert_eq!(
            accesses.iter().map(|access| access.flushes).sum::<u64>(),
            transaction.flushes,
            "{transaction:?}"
        );
        let ends = accesses.iter().map(|access| access.done_ns);
        assert!(ends.max().unwrap() <= transaction.end_ns, "{transaction:?}");
    }
    assert_eq!(with, without);
    with.len()
}

#[test]
fn they_have_the_bytes_and_flushes_of_their_transaction() {
    for show in [Show::Calls, Show::Flushes] {
        let mut names = Names::default();
        let mut events = Vec::new();
        for number in 0..3 {
            let mut pen = Pen::new(&mut names, show, number);
            pen.commit_pages = 3;
            for _ in 0..4 {
                match number {
                    0 => pen.log(4).count().update(2).zero(),
                    1 => pen.log(3).count().segment(20, 6).count_at(20).update(5).truncate(),
                    _ => pen.append(2).append(3).update(6).append(1),
                };
                pen.wait(3_000_000);
            }
            events.push(std::mem::take(&mut pen.events));
        }
        let count = check(&interleaved(events), &names);
        assert!(count > 15, "{count}");
    }
}

#[test]
fn a_transaction_over_several_databases_has_those_of_all_and_of_its_super_journal() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    for round in 0..3 {
        pen.durable("-mj0A1B2C9FF", &[(7_000_000 + round * 8, 1)], 2);
        let main = pen.database.clone();
        for path in [main.clone(), Some("/data/app0/b.db".to_owned())] {
            pen.database = path;
            pen.log(3).count().update(2);
            (pen.db_sector, pen.journal_sector) =
                (pen.db_sector ^ 0x80_0000, pen.journal_sector ^ 0x80_0000);
        }
        for path in [main.clone(), Some("/data/app0/b.db".to_owned())] {
            pen.database = path;
            pen.truncate();
        }
        pen.database = main;
        pen.wait(2_000_000);
    }
    let events = std::mem::take(&mut pen.events);
    assert_eq!(check(&events, &names), 3);
    let transactions = found(Identifier::new().keep_accesses(), &events, &names);
    assert!(transactions.iter().all(|transaction| transaction.others.len() == 1));
    let super_journal = |transaction: &Transaction| {
        transaction
            .accesses
            .iter()
            .any(|access| access.class == Class::Journal && access.sector / 1000 == 7000)
    };
    assert!(transactions.iter().all(super_journal));
}

#[test]
fn on_traces_of_phones_too() {
    for name in ["most_result.po", "phone_ycsb_a.ftrace.gz"] {
        let Some(path) = oneflush_testing::shared_data(&format!("traces/{name}")) else { return };
        let mut reader = import::open(&path).unwrap();
        let mut events = Vec::new();
        while let Some(event) = reader.next().unwrap() {
            events.push(event);
        }
        assert!(check(&events, reader.names()) >= 6);
    }
}
