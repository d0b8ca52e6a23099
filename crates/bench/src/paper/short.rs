//! The short forms that all descriptions are written in.

use super::{Cell, Column, Figure, Ours, Row};

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
