//! Table 5, and what a part of the transactions has.

use super::OTHER_PHONES;
use crate::paper::io::{MOST, PERSIST, YCSB};
use crate::paper::short::cell;
use crate::paper::{Claim, Figure, Quantity, Rule};

pub const CLAIMS: [Claim; 19] = [
    Claim {
        source: "Abstract; Sec. 4.4",
        says: "the database gets less than 25 % of a transaction's bytes, journaling over \
                  75 %; a phone with YCSB",
        theirs: Some(33.3 / 147.0 * 100.0),
        over: &[cell("phones", YCSB, Figure::SharePercent(Quantity::DbBytes))],
        under: &[],
        rule: Rule::AtMost { holds: 25.0, in_part: 35.0 },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Abstract; Sec. 4.4",
        says: "the database gets less than 25 % of a transaction's bytes, journaling over \
                  75 %; a phone with six apps",
        theirs: Some(33.3 / 147.0 * 100.0),
        over: &[cell("phones", MOST, Figure::SharePercent(Quantity::DbBytes))],
        under: &[],
        rule: Rule::AtMost { holds: 25.0, in_part: 35.0 },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Abstract; Sec. 4.4",
        says: "the database gets less than 25 % of a transaction's bytes, journaling over \
                  75 %; Facebook's SQL here",
        theirs: Some(33.3 / 147.0 * 100.0),
        over: &[cell("facebook", PERSIST, Figure::SharePercent(Quantity::DbBytes))],
        under: &[],
        rule: Rule::AtMost { holds: 25.0, in_part: 35.0 },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Table 5",
        says: "SQLite's journal gets 1.75 times the database's bytes; a phone with YCSB",
        theirs: Some(58.3 / 33.3),
        over: &[cell("phones", YCSB, Figure::SharePercent(Quantity::JournalBytes))],
        under: &[cell("phones", YCSB, Figure::SharePercent(Quantity::DbBytes))],
        rule: Rule::Between { holds: [1.4, 2.2], in_part: [1.1, 2.8] },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Table 5",
        says: "SQLite's journal gets 1.75 times the database's bytes; a phone with six \
                  apps",
        theirs: Some(58.3 / 33.3),
        over: &[cell("phones", MOST, Figure::SharePercent(Quantity::JournalBytes))],
        under: &[cell("phones", MOST, Figure::SharePercent(Quantity::DbBytes))],
        rule: Rule::Between { holds: [1.4, 2.2], in_part: [1.1, 2.8] },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Table 5",
        says: "SQLite's journal gets 1.75 times the database's bytes; Facebook's SQL here",
        theirs: Some(58.3 / 33.3),
        over: &[cell("facebook", PERSIST, Figure::SharePercent(Quantity::JournalBytes))],
        under: &[cell("facebook", PERSIST, Figure::SharePercent(Quantity::DbBytes))],
        rule: Rule::Between { holds: [1.4, 2.2], in_part: [1.1, 2.8] },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Table 5",
        says: "ext4's journal gets 1.66 times the database's bytes; a phone with YCSB",
        theirs: Some(55.4 / 33.3),
        over: &[cell("phones", YCSB, Figure::SharePercent(Quantity::FsJournalBytes))],
        under: &[cell("phones", YCSB, Figure::SharePercent(Quantity::DbBytes))],
        rule: Rule::Between { holds: [1.3, 2.2], in_part: [0.8, 3.3] },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Table 5",
        says: "ext4's journal gets 1.66 times the database's bytes; a phone with six apps",
        theirs: Some(55.4 / 33.3),
        over: &[cell("phones", MOST, Figure::SharePercent(Quantity::FsJournalBytes))],
        under: &[cell("phones", MOST, Figure::SharePercent(Quantity::DbBytes))],
        rule: Rule::Between { holds: [1.3, 2.2], in_part: [0.8, 3.3] },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Table 5",
        says: "ext4's journal gets 1.66 times the database's bytes; Facebook's SQL here",
        theirs: Some(55.4 / 33.3),
        over: &[cell("facebook", PERSIST, Figure::SharePercent(Quantity::FsJournalBytes))],
        under: &[cell("facebook", PERSIST, Figure::SharePercent(Quantity::DbBytes))],
        rule: Rule::Between { holds: [1.3, 2.2], in_part: [0.8, 3.3] },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Sec. 1, 4.4 and 6",
        says: "frequent syncs make ext4's journal commit in each transaction (%); a phone \
                  with YCSB",
        theirs: None,
        over: &[cell("phones", YCSB, Figure::WithFsJournalPercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 90.0, in_part: 50.0 },
        unless: "",
    },
    Claim {
        source: "Sec. 1, 4.4 and 6",
        says: "frequent syncs make ext4's journal commit in each transaction (%); a phone \
                  with six apps",
        theirs: None,
        over: &[cell("phones", MOST, Figure::WithFsJournalPercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 90.0, in_part: 50.0 },
        unless: "",
    },
    Claim {
        source: "Sec. 1, 4.4 and 6",
        says: "frequent syncs make ext4's journal commit in each transaction (%); \
                  Facebook's SQL here",
        theirs: None,
        over: &[cell("facebook", PERSIST, Figure::WithFsJournalPercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 90.0, in_part: 50.0 },
        unless: "",
    },
    Claim {
        source: "Sec. 2.2",
        says: "in normal circumstances a rollback journal has one log segment (%); a phone \
                  with YCSB",
        theirs: None,
        over: &[cell("phones", YCSB, Figure::OneSegmentPercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 99.0, in_part: 95.0 },
        unless: "",
    },
    Claim {
        source: "Sec. 2.2",
        says: "in normal circumstances a rollback journal has one log segment (%); a phone \
                  with six apps",
        theirs: None,
        over: &[cell("phones", MOST, Figure::OneSegmentPercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 99.0, in_part: 95.0 },
        unless: "",
    },
    Claim {
        source: "Sec. 2.2",
        says: "in normal circumstances a rollback journal has one log segment (%); \
                  Facebook's SQL here",
        theirs: None,
        over: &[cell("facebook", PERSIST, Figure::OneSegmentPercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 99.0, in_part: 95.0 },
        unless: "",
    },
    Claim {
        source: "Sec. 2.3 and 4.4",
        says: "Android's SQLite uses PERSIST, with FULL (% of the transactions); a phone \
                  with YCSB",
        theirs: Some(100.0),
        over: &[cell("phones", YCSB, Figure::FoundPercent("persist full"))],
        under: &[],
        rule: Rule::AtLeast { holds: 99.0, in_part: 80.0 },
        unless: "",
    },
    Claim {
        source: "Sec. 2.3 and 4.4",
        says: "Android's SQLite uses PERSIST, with FULL (% of the transactions); a phone \
                  with six apps",
        theirs: Some(100.0),
        over: &[cell("phones", MOST, Figure::FoundPercent("persist full"))],
        under: &[],
        rule: Rule::AtLeast { holds: 99.0, in_part: 80.0 },
        unless: "",
    },
    Claim {
        source: "Eager synching thesis, Sec. 3.1",
        says: "a large part of an app's block writes is synchronous (78 % with Gmail); a \
                  phone with YCSB",
        theirs: Some(78.0),
        over: &[cell("phones", YCSB, Figure::SyncWritePercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 70.0, in_part: 50.0 },
        unless: "",
    },
    Claim {
        source: "Eager synching thesis, Sec. 3.1",
        says: "the same; a phone with six apps",
        theirs: Some(78.0),
        over: &[cell("phones", MOST, Figure::SyncWritePercent)],
        under: &[],
        rule: Rule::AtLeast { holds: 70.0, in_part: 50.0 },
        unless: "",
    },
];
