//! Which device is served.

use serde::Serialize;

use crate::preset::{Model, Preset};

/// What there is before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Precondition {
    /// Of the device, that is filled.
    pub share: f64,
    /// How often that is overwritten at random.
    pub overwrites: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Of the preset, or any other.
    pub name: String,
    pub model: Model,
    pub logical_bytes: u64,
    pub seed: u64,
    pub precondition: Option<Precondition>,
}

impl Options {
    /// A new device, with nothing on it.
    pub fn of(preset: &Preset, logical_bytes: u64) -> Options {
        Options {
            name: preset.name.to_owned(),
            model: preset.model(),
            logical_bytes,
            seed: 1,
            precondition: None,
        }
    }
}
