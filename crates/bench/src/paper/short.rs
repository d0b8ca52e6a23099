//! The short forms that all descriptions are written in.

use super::{Cell, Column, Experiment, Figure, How, On, Ours, Row, Work};

/// One connection, rounds, and databases that are there before.
pub const fn experiment(
    name: &'static str,
    what: &'static str,
    work: Work,
    operations: u64,
) -> Experiment {
    Experiment {
        name,
        what,
        work,
        operations,
        connections: 1,
        processes: false,
        fresh: false,
        how: How::Rounds,
        on: On::Asked,
        is_long: false,
    }
}

pub const fn column(head: &'static str, experiment: &'static str, figure: Figure) -> Column {
    Column { head, experiment, figure, ratio_to: None }
}

/// With its ratio to the control in the same experiment.
pub const fn compared(head: &'static str, experiment: &'static str, figure: Figure) -> Column {
    Column { head, experiment, figure, ratio_to: Some(experiment) }
}

pub const fn row(label: &'static str, theirs: &'static [Option<f64>], mode: &'static str) -> Row {
    Row { label, theirs, ours: Ours::Mode(mode) }
}

pub const fn cell(experiment: &'static str, mode: &'static str, figure: Figure) -> Cell {
    Cell { experiment, mode, figure }
}

pub const fn rate(experiment: &'static str, mode: &'static str) -> Cell {
    cell(experiment, mode, Figure::PerSecond)
}
