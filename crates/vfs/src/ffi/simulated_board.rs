//! Boards of databases on simulated disks, by their full names. Such a disk may have several names
//! for one database. Then the users of different names are processes to each other.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock, Weak};

use crate::strategy::{Common, Private, Seat};
use crate::sync::{Mutex, lock};

#[derive(Default)]
struct Simulated {
    board: Arc<Private>,
    seats: Vec<Weak<Seat>>,
}

static BOARDS: LazyLock<Mutex<HashMap<String, Simulated>>> = LazyLock::new(Mutex::default);

/// A seat at the board of this name, for the process that names the database so.
pub fn seat(name: String, database: &str) -> Arc<Seat> {
    let mut boards = lock(&BOARDS);
    let Simulated { board, seats } = boards.entry(name).or_default();
    let seat = Arc::new(Seat::new(Arc::clone(board), database));
    seats.retain(|seat| seat.strong_count() > 0);
    seats.push(Arc::downgrade(&seat));
    seat
}

/// The words of the board of this name, if there is one.
pub fn words(name: &str) -> Option<Vec<u64>> {
    let boards = lock(&BOARDS);
    Some(boards.get(name)?.board.words().iter().map(|word| word.load(SeqCst)).collect())
}

/// The board's file was deleted. Who has it open keeps it.
pub fn deleted(name: &str) {
    lock(&BOARDS).remove(name);
}

/// The simulated process has died that names this database so. All that it holds of boards is
/// released, and what it still does changes nothing.
pub fn process_died(database: &str) {
    let seats: Vec<Arc<Seat>> = {
        let boards = lock(&BOARDS);
        boards.values().flat_map(|board| &board.seats).filter_map(Weak::upgrade).collect()
    };
    seats.iter().filter(|seat| seat.is_of(database)).for_each(|seat| seat.die());
}
