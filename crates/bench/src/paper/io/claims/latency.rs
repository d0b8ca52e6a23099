//! Table 2.

use super::{AWAKE, OTHER_PHONES};
use crate::paper::io::{MOST, PERSIST, YCSB};
use crate::paper::short::cell;
use crate::paper::{At, Claim, Figure, Quantity, Rule};

pub const CLAIMS: [Claim; 11] = [
    Claim {
        source: "Sec. 4.2; Table 2",
        says: "a transaction takes 11 to 12 ms (median); a phone with YCSB",
        theirs: Some(11.9),
        over: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::Median))],
        under: &[],
        rule: Rule::Between { holds: [6.0, 24.0], in_part: [3.0, 48.0] },
        unless: OTHER_PHONES,
    },
    Claim {
        source: "Sec. 4.2; Table 2",
        says: "a transaction takes 11 to 12 ms (median); an insert on the emulated eMMC",
        theirs: Some(11.9),
        over: &[cell("emmc-single", PERSIST, Figure::Each(Quantity::Latency, At::Median))],
        under: &[],
        rule: Rule::Between { holds: [6.0, 24.0], in_part: [3.0, 48.0] },
        unless: "",
    },
    Claim {
        source: "Sec. 4.2; Table 2",
        says: "the mean latency is 6 medians (user 4; the others 2.3 to 3.9); a phone with \
                  YCSB",
        theirs: Some(68.8 / 11.2),
        over: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::Mean))],
        under: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::AtLeast { holds: 2.0, in_part: 1.3 },
        unless: AWAKE,
    },
    Claim {
        source: "Sec. 4.2; Table 2",
        says: "the mean latency is 6 medians (user 4; the others 2.3 to 3.9); a phone with \
                  six apps",
        theirs: Some(68.8 / 11.2),
        over: &[cell("phones", MOST, Figure::Each(Quantity::Latency, At::Mean))],
        under: &[cell("phones", MOST, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::AtLeast { holds: 2.0, in_part: 1.3 },
        unless: AWAKE,
    },
    Claim {
        source: "Sec. 4.2; Table 2",
        says: "the mean latency is 6 medians (user 4; the others 2.3 to 3.9); Facebook's \
                  SQL here",
        theirs: Some(68.8 / 11.2),
        over: &[cell("facebook", PERSIST, Figure::Each(Quantity::Latency, At::Mean))],
        under: &[cell("facebook", PERSIST, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::AtLeast { holds: 2.0, in_part: 1.3 },
        unless: AWAKE,
    },
    Claim {
        source: "Table 2",
        says: "of four transactions one takes more than 1.4 medians (17.0 ms); a phone \
                  with YCSB",
        theirs: Some(16.0 / 11.2),
        over: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::P75))],
        under: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::Between { holds: [1.1, 1.8], in_part: [1.0, 2.5] },
        unless: "",
    },
    Claim {
        source: "Table 2",
        says: "of four transactions one takes more than 1.4 medians (17.0 ms); a phone \
                  with six apps",
        theirs: Some(16.0 / 11.2),
        over: &[cell("phones", MOST, Figure::Each(Quantity::Latency, At::P75))],
        under: &[cell("phones", MOST, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::Between { holds: [1.1, 1.8], in_part: [1.0, 2.5] },
        unless: "",
    },
    Claim {
        source: "Table 2",
        says: "of four transactions one takes more than 1.4 medians (17.0 ms); Facebook's \
                  SQL here",
        theirs: Some(16.0 / 11.2),
        over: &[cell("facebook", PERSIST, Figure::Each(Quantity::Latency, At::P75))],
        under: &[cell("facebook", PERSIST, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::Between { holds: [1.1, 1.8], in_part: [1.0, 2.5] },
        unless: "",
    },
    Claim {
        source: "Table 2",
        says: "of a hundred one takes more than 7.5 medians (84 ms); a phone with YCSB",
        theirs: Some(84.4 / 11.2),
        over: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::P99))],
        under: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::Between { holds: [4.0, 12.0], in_part: [2.0, 24.0] },
        unless: AWAKE,
    },
    Claim {
        source: "Table 2",
        says: "of a hundred one takes more than 7.5 medians (84 ms); Facebook's SQL here",
        theirs: Some(84.4 / 11.2),
        over: &[cell("facebook", PERSIST, Figure::Each(Quantity::Latency, At::P99))],
        under: &[cell("facebook", PERSIST, Figure::Each(Quantity::Latency, At::Median))],
        rule: Rule::Between { holds: [4.0, 12.0], in_part: [2.0, 24.0] },
        unless: AWAKE,
    },
    Claim {
        source: "Sec. 4.2; Table 2",
        says: "of a thousand one takes several seconds (13 s of user 4), in ms; a phone \
                  with YCSB",
        theirs: Some(12986.8),
        over: &[cell("phones", YCSB, Figure::Each(Quantity::Latency, At::P999))],
        under: &[],
        rule: Rule::AtLeast { holds: 1000.0, in_part: 250.0 },
        unless: AWAKE,
    },
];
