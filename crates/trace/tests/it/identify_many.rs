//! What is found does not depend on how it is found. Counts and hashes of all that is handed out,
//! in its order, are compared.

use oneflush_trace::identify::{Identifier, Summary, Transaction};
use oneflush_trace::import;
use oneflush_trace::model::Names;

use crate::identify_common::Show;
use crate::many_databases::{Shape, trace};

/// FNV-1a of everything that is handed out.
struct Told {
    count: u64,
    hash: u64,
}

impl Told {
    fn new() -> Told {
        Told { count: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }

    fn text(&mut self, text: &str) {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn transaction(&mut self, transaction: &Transaction) {
        self.count += 1;
        // Single requests were not asked for, so there are none. Sync calls were not counted when
        // the hashes were taken.
        let syncs = format!(", syncs: {}", transaction.syncs);
        self.text(&format!("{transaction:?}").replace(", accesses: []", "").replace(&syncs, ""));
    }

    fn rest(&mut self, identifier: Identifier, names: &Names) -> (u64, u64) {
        let (rest, summary): (Vec<Transaction>, Summary) = identifier.finish(names);
        rest.iter().for_each(|transaction| self.transaction(transaction));
        self.text(&format!("{summary:?}"));
        (self.count, self.hash)
    }
}

fn told(shape: Shape) -> (u64, u64) {
    let mut names = Names::default();
    let mut told = Told::new();
    let mut identifier = Identifier::new();
    for event in trace(&mut names, shape, 300, 4) {
        identifier.push(&event, &names);
        while let Some(transaction) = identifier.next_transaction() {
            told.transaction(&transaction);
        }
    }
    told.rest(identifier, &names)
}

/// Shape, transactions, hash. Like the rows below, taken from the code that compared all databases
/// for each flush.
const INTERLEAVED: [(Shape, u64, u64); 12] = [
    (Shape::Threads(Show::Calls), 1200, 0x2647_f266_ae90_7e92),
    (Shape::Threads(Show::Flushes), 1200, 0xebc5_c04f_f959_0191),
    (Shape::Threads(Show::Waits), 1198, 0x7997_d6c0_715e_aa77),
    (Shape::Commits(Show::Calls), 1200, 0x2433_7be8_3d1e_8091),
    (Shape::Commits(Show::Flushes), 1200, 0xc7b2_8c4c_411b_f1c3),
    (Shape::Commits(Show::Waits), 1199, 0xe648_b601_a259_1cff),
    (Shape::OneThread(Show::Calls), 1200, 0x2c4a_e011_bad4_dbe2),
    (Shape::OneThread(Show::Flushes), 1200, 0xeaf3_76b1_9650_6a1c),
    (Shape::Pairs, 789, 0x8f56_6fc5_5b59_7b32),
    (Shape::PairsOfOneThread, 465, 0xf974_e113_b907_28b6),
    (Shape::Nameless, 1200, 0x23ef_a9fe_80d7_71e2),
    (Shape::NamelessOfOneThread, 400, 0x3445_0e59_9681_e30b),
];

#[test]
fn interleaved_databases_give_what_they_always_gave() {
    for (shape, count, hash) in INTERLEAVED {
        assert_eq!(told(shape), (count, hash), "{shape:?}");
    }
}

/// Skips, and says so, where the folder with the data is missing.
#[test]
fn phones_give_what_they_always_gave() {
    for (name, count, hash) in [
        ("most_result.po", 6, 0xe5b3_660f_0ea4_574d),
        ("most_result3.po", 6, 0xb3e9_bedb_de11_f51f),
        ("phone_ycsb_a.ftrace.gz", 447, 0xcce8_6de1_1179_193b),
    ] {
        let Some(path) = oneflush_testing::shared_data(&format!("traces/{name}")) else { continue };
        let mut reader = import::open(&path).expect("the trace is of a known format");
        let mut told = Told::new();
        let mut identifier = Identifier::new();
        while let Some(event) = reader.next().expect("the trace can be read") {
            identifier.push(&event, reader.names());
            while let Some(transaction) = identifier.next_transaction() {
                told.transaction(&transaction);
            }
        }
        assert_eq!(told.rest(identifier, reader.names()), (count, hash), "{name}");
    }
}
