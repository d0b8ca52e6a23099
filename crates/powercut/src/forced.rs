//! Which writes the guest forced to the medium (FUA), by the guest's own trace: QEMU's log does not
//! say it (7.2).
//!
//! The trace is that of `block:block_rq_issue` (Linux, include/trace/events/block.h). Forced writes
//! have an `F` behind the `W`. A write of the log is the first of the trace with the same sectors
//! that no earlier write of the log was. Both count from the first note on. The trace begins some
//! time before it, and the log when the guest boots.

use std::collections::{HashMap, VecDeque};

/// The writes of a trace: what they cover, and whether each was forced, in order.
#[derive(Debug, Default, PartialEq)]
pub struct Forced(HashMap<(u64, u64), VecDeque<bool>>);

impl Forced {
    /// Reads the text of a trace. Lines of other events do not count. `notes`: the first sector of
    /// the notes.
    pub fn parse(trace: &str, notes: u64) -> Result<Forced, String> {
        let mut forced = Forced::default();
        let mut has_begun = false;
        for (number, line) in trace.lines().enumerate() {
            let Some((_, event)) = line.split_once(" block_rq_issue: ") else { continue };
            let (flags, sector, sectors) = parse_event(event)
                .ok_or_else(|| format!("line {}: \"{event}\" is not understood", number + 1))?;
            has_begun |= sector >= notes;
            if let Some((_, behind)) = flags.split_once('W').filter(|_| has_begun) {
                let write = forced.0.entry((sector, sectors)).or_default();
                write.push_back(behind.starts_with('F'));
            }
        }
        Ok(forced)
    }

    /// Whether the log's next write of these sectors was forced. `None`: the trace lacks it.
    pub fn next(&mut self, sector: u64, sectors: u64) -> Option<bool> {
        self.0.get_mut(&(sector, sectors))?.pop_front()
    }
}

/// `259,0 WFS 4096 () 18592 + 8 [name]`: flags, first sector, number of sectors.
fn parse_event(event: &str) -> Option<(&str, u64, u64)> {
    let (before, behind) = event.split_once(" + ")?;
    let flags = before.split_whitespace().nth(1)?;
    let sector = before.rsplit(' ').next()?.parse().ok()?;
    let sectors = behind.split_whitespace().next()?.parse().ok()?;
    Some((flags, sector, sectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "# tracer: nop
  powercut-124 [000] .....     3.085750: block_rq_issue: 259,0 WS 4096 () 18592 + 8 [powercut]
 kworker/0:1H-38      [000] .....     3.087025: block_rq_issue: 259,0 FF 0 () 0 + 0 [kworker/0:1H]
     powercut-124     [000] .....     3.087929: block_rq_issue: 259,0 WFS 4096 () 18592 + 8 [a b]
     powercut-124     [000] .....     3.129346: block_rq_issue: 259,0 R 4096 () 18600 + 8 [powercut]
     powercut-124     [000] .....     3.129347: block_rq_issue: 259,0 FWFSM 512 () 8 + 1 [powercut]
";

    #[test]
    fn writes_of_the_same_sectors_are_told_apart_by_their_order() {
        let mut forced = Forced::parse(TRACE, 0).unwrap();
        assert_eq!(forced.next(18_592, 8), Some(false));
        assert_eq!(forced.next(18_592, 8), Some(true));
        assert_eq!(forced.next(18_592, 8), None);
        assert_eq!(forced.next(18_600, 8), None);
        assert_eq!(forced.next(8, 1), Some(true));
    }

    #[test]
    fn what_comes_before_the_first_note_does_not_count() {
        let mut forced = Forced::parse(TRACE, 18_600).unwrap();
        assert_eq!(forced.next(18_592, 8), None);
        assert_eq!(forced.next(8, 1), Some(true));
    }

    #[test]
    fn a_line_that_was_cut_is_named() {
        let cut = TRACE.split_once(" () 8 + 1").unwrap().0;
        let message = Forced::parse(cut, 0).unwrap_err();
        assert!(message.starts_with("line 6: "), "{message}");
    }
}
