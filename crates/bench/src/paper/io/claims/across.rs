//! Claims on several workloads at once.

use crate::paper::io::{MOST, PERSIST, YCSB};
use crate::paper::short::cell;
use crate::paper::{Across, Figure, Of, Quantity, Rule};

pub const ACROSS: [Across; 1] = [Across {
    source: "Sec. 4.4; Table 5",
    says: "the database's share is nearly the same for all users: largest to smallest \
                  1.15",
    theirs: Some(23.5 / 20.5),
    of: Of::LargestRatio,
    pairs: &[
        (
            cell("phones", YCSB, Figure::SharePercent(Quantity::DbBytes)),
            cell("phones", MOST, Figure::SharePercent(Quantity::DbBytes)),
        ),
        (
            cell("facebook", PERSIST, Figure::SharePercent(Quantity::DbBytes)),
            cell("phones", MOST, Figure::SharePercent(Quantity::DbBytes)),
        ),
        (
            cell("twitter", PERSIST, Figure::SharePercent(Quantity::DbBytes)),
            cell("phones", MOST, Figure::SharePercent(Quantity::DbBytes)),
        ),
    ],
    rule: Rule::AtMost { holds: 1.25, in_part: 1.6 },
    unless: "The users here are two phones and the SQL of two apps.",
}];
