//! The letters by which the kernel says what a request is (`rwbs`): `blk_fill_rwbs` in
//! `kernel/trace/blktrace.c`, and blkparse's own.
//!
//! ```text
//! [F] (W | R | D[E] | F | N | Z…) [F] [A] [S] [M] [U]
//!  │   └ operation: write, read, discard, flush, none        └ atomic write
//!  └ preflush                      └ FUA  └ readahead  └ sync  └ metadata
//! ```
//!
//! `F` before the operation empties the cache first. `F` behind it makes the data durable. A string
//! of only `F` is a flush. blkparse before 1.0.2 writes the bit of the preflush as `B`, behind the
//! operation. The bit was "barrier" until Linux 2.6.37.

use crate::model::Flags;

/// The flags of the letters. `None` if a letter is none of the kernel's.
pub(super) fn flags(letters: &[u8]) -> Option<Flags> {
    if letters.is_empty() || letters.len() > 10 {
        return None;
    }
    let mut flags = Flags::default();
    let mut operation_seen = false;
    let mut zone = false;
    for &letter in letters {
        match letter {
            // The second letter of a zone's operation means nothing here ("ZR": reset, "ZO": open
            // …).
            _ if zone => zone = false,
            b'F' if operation_seen => flags.fua = true,
            b'F' => flags.preflush = true,
            b'B' => flags.preflush = true,
            b'W' | b'R' | b'D' | b'N' => {
                flags.write |= letter == b'W';
                flags.read |= letter == b'R';
                flags.discard |= letter == b'D';
                operation_seen = true;
            }
            b'Z' => {
                operation_seen = true;
                zone = true;
            }
            // MOST's phone has this letter on writes, where it means nothing.
            b'A' => flags.ahead |= flags.read,
            b'S' => flags.sync = true,
            b'M' => flags.meta = true,
            b'E' | b'U' => {}
            _ => return None,
        }
    }
    Some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(letters: &str) -> Flags {
        flags(letters.as_bytes()).unwrap()
    }

    #[test]
    fn a_flush_before_the_operation_is_a_preflush_and_behind_it_fua() {
        let (write, sync, meta) = (true, true, true);
        assert_eq!(of("WS"), Flags { write, sync, ..Flags::default() });
        assert_eq!(of("FWS"), Flags { write, sync, preflush: true, ..Flags::default() });
        assert_eq!(of("WFS"), Flags { write, sync, fua: true, ..Flags::default() });
        assert_eq!(
            of("FWFSM"),
            Flags { write, sync, meta, preflush: true, fua: true, ..Flags::default() }
        );
    }

    #[test]
    fn a_string_of_only_f_is_a_flush_without_data() {
        for letters in ["F", "FF", "FFS"] {
            let flags = of(letters);
            assert!(flags.preflush && !flags.fua && !flags.write, "{letters}");
        }
    }

    #[test]
    fn reads_discards_and_what_passes_through_are_no_writes() {
        assert_eq!(of("RAM"), Flags { read: true, ahead: true, meta: true, ..Flags::default() });
        assert_eq!(of("DE"), Flags { discard: true, ..Flags::default() });
        assert_eq!(of("N"), Flags::default());
        assert_eq!(of("ZR"), Flags::default());
    }

    #[test]
    fn an_old_barrier_is_a_preflush() {
        assert_eq!(
            of("WBS"),
            Flags { write: true, sync: true, preflush: true, ..Flags::default() }
        );
    }

    #[test]
    fn a_write_ahead_is_no_readahead() {
        assert_eq!(of("WAS"), Flags { write: true, sync: true, ..Flags::default() });
    }

    #[test]
    fn other_letters_are_not_understood() {
        for letters in ["", "X", "ws", "WSWSWSWSWSW"] {
            assert_eq!(flags(letters.as_bytes()), None, "{letters}");
        }
    }
}
