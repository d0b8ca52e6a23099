//! SQLite's two lock protocols for the connections of one simulated machine. The "unix" VFS keeps
//! the same ones between processes.

/// The holder of a lock: one open file.
pub type Owner = u64;

#[derive(Debug, PartialEq, Eq)]
pub struct Busy;

/// The five levels of a database file, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

/// The locks of one database file.
#[derive(Default)]
pub struct FileLocks {
    shared: Vec<Owner>,
    reserved: Option<Owner>,
    pending: Option<Owner>,
    exclusive: Option<Owner>,
}

impl FileLocks {
    /// Raises `level`, which `owner` holds. Where EXCLUSIVE has to wait for readers, PENDING is
    /// kept.
    pub fn lock(&mut self, owner: Owner, level: &mut Level, wanted: Level) -> Result<(), Busy> {
        if *level >= wanted {
            return Ok(());
        }
        let others = |holder: Option<Owner>| holder.is_some_and(|holder| holder != owner);
        if others(self.pending) || others(self.exclusive) {
            return Err(Busy);
        }
        match wanted {
            Level::None => {}
            Level::Shared => self.shared.push(owner),
            Level::Reserved => {
                if others(self.reserved) {
                    return Err(Busy);
                }
                self.reserved = Some(owner);
            }
            Level::Pending | Level::Exclusive => {
                self.pending = Some(owner);
                if self.shared.len() > 1 {
                    *level = Level::Pending;
                    return Err(Busy);
                }
                self.exclusive = Some(owner);
            }
        }
        *level = wanted;
        Ok(())
    }

    /// Lowers `level` to SHARED or NONE.
    pub fn unlock(&mut self, owner: Owner, level: &mut Level, wanted: Level) {
        if *level <= wanted {
            return;
        }
        for holder in [&mut self.reserved, &mut self.pending, &mut self.exclusive] {
            if *holder == Some(owner) {
                *holder = None;
            }
        }
        if wanted == Level::None {
            self.shared.retain(|holder| *holder != owner);
        }
        *level = wanted;
    }

    /// Releases all locks of owners who have died.
    pub fn release(&mut self, has_died: impl Fn(Owner) -> bool) {
        for holder in [&mut self.reserved, &mut self.pending, &mut self.exclusive] {
            *holder = holder.filter(|&holder| !has_died(holder));
        }
        self.shared.retain(|&holder| !has_died(holder));
    }

    pub fn is_reserved(&self) -> bool {
        self.reserved.is_some() || self.pending.is_some() || self.exclusive.is_some()
    }
}

pub const SLOTS: usize = 8;

/// The slots of a WAL index.
#[derive(Default)]
pub struct SlotLocks {
    shared: [Vec<Owner>; SLOTS],
    exclusive: [Option<Owner>; SLOTS],
}

impl SlotLocks {
    pub fn lock(
        &mut self,
        owner: Owner,
        slots: std::ops::Range<usize>,
        exclusive: bool,
    ) -> Result<(), Busy> {
        for slot in slots.clone() {
            let others_write = self.exclusive[slot].is_some_and(|holder| holder != owner);
            let others_read = self.shared[slot].iter().any(|&holder| holder != owner);
            if others_write || (exclusive && others_read) {
                return Err(Busy);
            }
        }
        for slot in slots {
            if exclusive {
                self.exclusive[slot] = Some(owner);
            } else if !self.shared[slot].contains(&owner) {
                self.shared[slot].push(owner);
            }
        }
        Ok(())
    }

    pub fn unlock(&mut self, owner: Owner, slots: std::ops::Range<usize>) {
        for slot in slots {
            if self.exclusive[slot] == Some(owner) {
                self.exclusive[slot] = None;
            }
            self.shared[slot].retain(|&holder| holder != owner);
        }
    }

    /// Releases all locks of owners who are gone.
    pub fn release(&mut self, is_gone: impl Fn(Owner) -> bool) {
        for (shared, exclusive) in self.shared.iter_mut().zip(&mut self.exclusive) {
            shared.retain(|&holder| !is_gone(holder));
            *exclusive = exclusive.filter(|&holder| !is_gone(holder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_waits_for_readers_keeps_new_ones_out() {
        let mut locks = FileLocks::default();
        let (mut reader, mut writer, mut late) = (Level::None, Level::None, Level::None);
        locks.lock(1, &mut reader, Level::Shared).unwrap();
        locks.lock(2, &mut writer, Level::Shared).unwrap();
        locks.lock(2, &mut writer, Level::Reserved).unwrap();
        assert_eq!(locks.lock(1, &mut reader, Level::Reserved), Err(Busy));
        assert_eq!(locks.lock(2, &mut writer, Level::Exclusive), Err(Busy));
        assert_eq!(writer, Level::Pending);
        assert_eq!(locks.lock(3, &mut late, Level::Shared), Err(Busy));
        locks.unlock(1, &mut reader, Level::None);
        locks.lock(2, &mut writer, Level::Exclusive).unwrap();
        locks.unlock(2, &mut writer, Level::None);
        locks.lock(3, &mut late, Level::Shared).unwrap();
        assert!(!locks.is_reserved());
    }

    #[test]
    fn a_slot_has_many_readers_or_one_writer() {
        let mut locks = SlotLocks::default();
        locks.lock(1, 3..4, false).unwrap();
        locks.lock(2, 3..4, false).unwrap();
        assert_eq!(locks.lock(1, 3..5, true), Err(Busy));
        locks.unlock(2, 3..4);
        locks.lock(1, 3..5, true).unwrap();
        assert_eq!(locks.lock(2, 4..5, false), Err(Busy));
        locks.unlock(1, 3..5);
        locks.lock(2, 3..5, true).unwrap();
    }

    #[test]
    fn the_slots_of_those_who_have_died_are_free() {
        let mut locks = SlotLocks::default();
        locks.lock(1, 0..2, true).unwrap();
        locks.lock(1, 3..4, false).unwrap();
        locks.lock(2, 4..5, true).unwrap();
        assert_eq!(locks.lock(2, 0..4, true), Err(Busy));
        locks.release(|owner| owner == 1);
        locks.lock(2, 0..4, true).unwrap();
        assert_eq!(locks.lock(3, 4..5, false), Err(Busy));
    }
}
