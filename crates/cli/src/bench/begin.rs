//! What comes before the first measurement.

use oneflush_measure::interrupt;
use oneflush_measure::run::PlaceChoice;

use crate::failure::Failure;

/// Before the first thread: a namespace and a signal handler are the process's.
pub fn begin(place: &PlaceChoice) -> Result<(), Failure> {
    interrupt::install().map_err(Failure::failed)?;
    place.prepare().map_err(Failure::refused)?;
    if matches!(place, PlaceChoice::Temporary) {
        eprintln!(
            "not root: measuring in a temporary directory, {}",
            std::env::temp_dir().display()
        );
    }
    Ok(())
}
