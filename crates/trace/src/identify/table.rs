//! The finite state machine that cuts a database's writes into transactions. It is one table, as in
//! the paper (Figures 9 to 14, Table 1).
//!
//! An input is a *group*: the writes to one file between two synchronizations (the paper's "JH" and
//! "DB"). The paper's machine takes two transactions in a row, because the reset of a `PERSIST`
//! journal looks like the log of the next transaction. This machine also does so where header and
//! body of the journal share a page (`Page`). Its states are then the paper's:
//!
//! ```text
//! FULL    S0 ─JH→ S1 ─JH→ S2 ─DB→ S3 ─JH→ S4 ─JH→ S5 ─DB→ S9: two of DELETE/TRUNCATE
//!                                                    └─JH→ S6 ─DB→ S7 ─JH→ S8: two of PERSIST
//! NORMAL          S1 ─DB→ S10 ─JH→ S11 ─DB→ S15: two of DELETE/TRUNCATE
//!                                     └─JH→ S12 ─DB→ S13 ─JH→ S14: two of PERSIST
//! ```
//!
//! Once it is clear where the second transaction begins, its groups are run again from `Idle`
//! ([`Action::Split`]). Therefore S7 and S9 are S3 of the next transaction, and S13 and S15 are its
//! S10.
//!
//! Differences to the paper:
//! - Most journals have a body of their own. A group with a body (`Log`) is told from one that only
//!   rewrites the header (`Header`), and no look-ahead is needed.
//! - Spilled logs, rollbacks, WAL, our own logs, and databases without a journal have states.
//! - A group that nobody synchronized is an input of its own.

/// Where a database is between two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum State {
    /// S0. No transaction is open.
    Idle,
    /// S1. The log is durable. The number of its records is durable only with NORMAL.
    Logged,
    /// S2. The number of records is durable: FULL.
    Counted,
    /// S3. The database is durable after S2. Only the reset may be missing.
    UpdatedFull,
    /// S4, S5, S6. One, two, three one-page groups of the journal since S3. Their transaction is
    /// not clear yet.
    TailFull1,
    TailFull2,
    TailFull3,
    /// S10. The database is durable after S1.
    UpdatedNormal,
    /// S11, S12.
    TailNormal1,
    TailNormal2,
    /// Pages of the database were written, but not synchronized: the page cache spilled.
    Spilled,
    /// The header of a WAL was written and synchronized alone, as after each restart of the log.
    WalBegun,
    /// Frames are in the WAL.
    Appended,
    /// A record is in our own log.
    Recorded,
    /// Our own log is there, with the database guarded, and no transaction is open.
    LogKept,
    /// The database was written and nothing is known of a journal.
    Bare,
}

/// A group of writes, seen by the database it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Input {
    /// Journal: header and body.
    Log,
    /// Journal: body without the first header, as the later segments of a spilled log.
    Segment,
    /// Journal: a header alone.
    Header,
    /// Journal: one page, which may hold header and body.
    Page,
    /// Journal: the first header, and a last segment that was never synchronized. Only a rollback
    /// after a spill leaves that.
    Leftover,
    /// Database, synchronized.
    Db,
    /// Database, not synchronized.
    DbUnsynced,
    Wal,
    /// WAL: the first page alone.
    WalHead,
    /// Our own log.
    Record,
    /// Our own log, and no commit: how it is made, and what a checkpoint and the close need of it.
    Upkeep,
    /// Nothing more comes.
    End,
}

/// What a transition means for the open transaction and the group that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// The group begins a transaction.
    Begin,
    /// The group belongs to the open one.
    Extend,
    /// The group belongs to the open one and ends it.
    Close,
    /// The group belongs to the open one and ends it: rolled back.
    RollBack,
    /// The open one has ended; the group begins the next.
    Next,
    /// The open one was rolled back; the group begins the next.
    RolledBackNext,
    /// The open one has ended; the group belongs to no transaction.
    Leave,
    /// The transaction of the group shows later.
    Hold,
    /// So many of the held groups end the open transaction. The other held groups, and then this
    /// group, are run again from `Idle`.
    Split(usize),
    /// The group is a checkpoint of the open one.
    Checkpoint,
    /// The group belongs to no transaction.
    Stray,
    /// The trace ends: the open one is complete.
    Finish,
    /// The trace ends within the open one.
    Abandon,
}

/// With [`Action::Split`], `to` means nothing: the groups that are run again give the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    pub from: State,
    pub on: Input,
    pub to: State,
    pub action: Action,
}

macro_rules! table {
    ($($from:ident { $($on:ident => $to:ident, $action:expr;)* })*) => {{
        use Action::*;
        &[$($(
            Transition { from: State::$from, on: Input::$on, to: State::$to, action: $action },
        )*)*]
    }};
}

/// Every allowed transition, once.
pub(super) const TABLE: &[Transition] = table! {
    Idle {
        Log => Logged, Begin;
        Leftover => Logged, Begin;
        Segment => Logged, Begin;
        Page => Logged, Begin;
        Header => Idle, Stray;
        Db => Bare, Begin;
        DbUnsynced => Idle, Stray;
        Wal => Appended, Begin;
        WalHead => WalBegun, Begin;
        Record => Recorded, Begin;
        Upkeep => LogKept, Stray;
        End => Idle, Stray;
    }
    LogKept {
        Log => Logged, Begin;
        Leftover => Logged, Begin;
        Segment => Logged, Begin;
        Page => Logged, Begin;
        Header => LogKept, Stray;
        Db => LogKept, Stray;
        DbUnsynced => LogKept, Stray;
        Wal => Appended, Begin;
        WalHead => WalBegun, Begin;
        Record => Recorded, Begin;
        Upkeep => LogKept, Stray;
        End => Idle, Stray;
    }
    Logged {
        Log => Logged, RolledBackNext;
        Leftover => Logged, RolledBackNext;
        Segment => Logged, Extend;
        Page => Counted, Extend;
        Header => Counted, Extend;
        Db => UpdatedNormal, Extend;
        DbUnsynced => Spilled, Extend;
        Wal => Appended, RolledBackNext;
        WalHead => WalBegun, RolledBackNext;
        Record => Recorded, RolledBackNext;
        Upkeep => Logged, Stray;
        End => Idle, Abandon;
    }
    Counted {
        Log => Logged, RolledBackNext;
        Leftover => Logged, RolledBackNext;
        Segment => Logged, Extend;
        Page => Idle, RollBack;
        Header => Idle, RollBack;
        Db => UpdatedFull, Extend;
        DbUnsynced => Spilled, Extend;
        Wal => Appended, RolledBackNext;
        WalHead => WalBegun, RolledBackNext;
        Record => Recorded, RolledBackNext;
        Upkeep => Counted, Stray;
        End => Idle, Abandon;
    }
    Spilled {
        Log => Logged, RolledBackNext;
        Leftover => Logged, RolledBackNext;
        Segment => Logged, Extend;
        Page => Counted, Extend;
        Header => Counted, Extend;
        Db => UpdatedFull, Extend;
        DbUnsynced => Spilled, Extend;
        Wal => Appended, RolledBackNext;
        WalHead => WalBegun, RolledBackNext;
        Record => Recorded, RolledBackNext;
        Upkeep => Spilled, Stray;
        End => Idle, Abandon;
    }
    UpdatedFull {
        Log => Logged, Next;
        Leftover => Idle, RollBack;
        Segment => Logged, Next;
        Page => TailFull1, Hold;
        Header => Idle, Close;
        Db => UpdatedFull, Extend;
        DbUnsynced => UpdatedFull, Extend;
        Wal => Appended, Next;
        WalHead => WalBegun, Next;
        Record => Recorded, Next;
        Upkeep => LogKept, Leave;
        End => Idle, Finish;
    }
    TailFull1 {
        Log => Idle, Split(1);
        Leftover => Idle, Split(1);
        Segment => Idle, Split(1);
        Page => TailFull2, Hold;
        Header => TailFull2, Hold;
        Db => Idle, Split(0);
        DbUnsynced => Idle, Split(0);
        Wal => Idle, Split(1);
        WalHead => Idle, Split(1);
        Record => Idle, Split(1);
        Upkeep => Idle, Split(1);
        End => Idle, Split(1);
    }
    TailFull2 {
        Log => Idle, Split(1);
        Leftover => Idle, Split(1);
        Segment => Idle, Split(1);
        Page => TailFull3, Hold;
        Header => TailFull3, Hold;
        Db => Idle, Split(0);
        DbUnsynced => Idle, Split(0);
        Wal => Idle, Split(1);
        WalHead => Idle, Split(1);
        Record => Idle, Split(1);
        Upkeep => Idle, Split(1);
        End => Idle, Split(1);
    }
    TailFull3 {
        Log => Idle, Split(1);
        Leftover => Idle, Split(1);
        Segment => Idle, Split(1);
        Page => Idle, Split(1);
        Header => Idle, Split(1);
        Db => Idle, Split(1);
        DbUnsynced => Idle, Split(1);
        Wal => Idle, Split(1);
        WalHead => Idle, Split(1);
        Record => Idle, Split(1);
        Upkeep => Idle, Split(1);
        End => Idle, Split(1);
    }
    UpdatedNormal {
        Log => Logged, Next;
        Leftover => Idle, RollBack;
        Segment => Logged, Next;
        Page => TailNormal1, Hold;
        Header => Idle, Close;
        Db => UpdatedNormal, Extend;
        DbUnsynced => UpdatedNormal, Extend;
        Wal => Appended, Next;
        WalHead => WalBegun, Next;
        Record => Recorded, Next;
        Upkeep => LogKept, Leave;
        End => Idle, Finish;
    }
    TailNormal1 {
        Log => Idle, Split(1);
        Leftover => Idle, Split(1);
        Segment => Idle, Split(1);
        Page => TailNormal2, Hold;
        Header => TailNormal2, Hold;
        Db => Idle, Split(0);
        DbUnsynced => Idle, Split(0);
        Wal => Idle, Split(1);
        WalHead => Idle, Split(1);
        Record => Idle, Split(1);
        Upkeep => Idle, Split(1);
        End => Idle, Split(1);
    }
    TailNormal2 {
        Log => Idle, Split(1);
        Leftover => Idle, Split(1);
        Segment => Idle, Split(1);
        Page => Idle, Split(1);
        Header => Idle, Split(1);
        Db => Idle, Split(1);
        DbUnsynced => Idle, Split(1);
        Wal => Idle, Split(1);
        WalHead => Idle, Split(1);
        Record => Idle, Split(1);
        Upkeep => Idle, Split(1);
        End => Idle, Split(1);
    }
    WalBegun {
        Log => Logged, RolledBackNext;
        Leftover => Logged, RolledBackNext;
        Segment => Logged, RolledBackNext;
        Page => Logged, RolledBackNext;
        Header => WalBegun, Stray;
        Db => WalBegun, Checkpoint;
        DbUnsynced => WalBegun, Checkpoint;
        Wal => Appended, Extend;
        WalHead => Appended, Extend;
        Record => Recorded, RolledBackNext;
        Upkeep => WalBegun, Stray;
        End => Idle, Abandon;
    }
    Appended {
        Log => Logged, Next;
        Leftover => Logged, Next;
        Segment => Logged, Next;
        Page => Logged, Next;
        Header => Appended, Stray;
        Db => Appended, Checkpoint;
        DbUnsynced => Appended, Checkpoint;
        Wal => Appended, Next;
        WalHead => WalBegun, Next;
        Record => Recorded, Next;
        Upkeep => LogKept, Leave;
        End => Idle, Finish;
    }
    Recorded {
        Log => Logged, Next;
        Leftover => Logged, Next;
        Segment => Logged, Next;
        Page => Logged, Next;
        Header => Recorded, Stray;
        Db => Recorded, Checkpoint;
        DbUnsynced => Recorded, Checkpoint;
        Wal => Appended, Next;
        WalHead => WalBegun, Next;
        Record => Recorded, Next;
        Upkeep => Recorded, Checkpoint;
        End => Idle, Finish;
    }
    Bare {
        Log => Logged, Next;
        Leftover => Logged, Next;
        Segment => Logged, Next;
        Page => Idle, Close;
        Header => Idle, Close;
        Db => Bare, Next;
        DbUnsynced => Bare, Extend;
        Wal => Appended, Next;
        WalHead => WalBegun, Next;
        Record => Recorded, Next;
        Upkeep => LogKept, Leave;
        End => Idle, Finish;
    }
};

pub(super) const STATE_COUNT: usize = 16;
pub(super) const INPUT_COUNT: usize = 12;
const _: () = assert!(TABLE.len() == STATE_COUNT * INPUT_COUNT);

/// The one transition for this state and input. The test
/// `the_table_is_complete_and_has_each_pair_once` says that there is one.
pub(super) fn transition(from: State, on: Input) -> Transition {
    *TABLE.iter().find(|row| row.from == from && row.on == on).expect("the table is complete")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_complete_and_has_each_pair_once() {
        let pairs: BTreeSet<(State, Input)> = TABLE.iter().map(|row| (row.from, row.on)).collect();
        let states: BTreeSet<State> = TABLE.iter().map(|row| row.from).collect();
        let inputs: BTreeSet<Input> = TABLE.iter().map(|row| row.on).collect();
        assert_eq!(pairs.len(), TABLE.len());
        assert_eq!((states.len(), inputs.len()), (STATE_COUNT, INPUT_COUNT));
        assert_eq!(pairs.len(), STATE_COUNT * INPUT_COUNT);
        assert!(TABLE.iter().all(|row| states.contains(&row.to)));
    }

    #[test]
    fn every_state_can_be_reached_from_idle() {
        let mut reached = BTreeSet::from([State::Idle]);
        while let Some(row) =
            TABLE.iter().find(|row| reached.contains(&row.from) && !reached.contains(&row.to))
        {
            reached.insert(row.to);
        }
        assert_eq!(reached, TABLE.iter().map(|row| row.from).collect());
    }

    #[test]
    fn a_split_always_makes_progress() {
        // What is run again is shorter than what was held. Or it goes on to another state: S4 and
        // S5 with a database write.
        for row in TABLE {
            if let Action::Split(ended) = row.action {
                let held = match row.from {
                    State::TailFull1 | State::TailNormal1 => 1,
                    State::TailFull2 | State::TailNormal2 => 2,
                    State::TailFull3 => 3,
                    other => panic!("{other:?} holds no group"),
                };
                let mut state = State::Idle;
                for _ in ended..held {
                    let next = transition(state, Input::Page);
                    assert!(!matches!(next.action, Action::Split(_) | Action::Hold), "{row:?}");
                    state = next.to;
                }
                assert!(!matches!(transition(state, row.on).action, Action::Split(_)), "{row:?}");
            }
        }
    }
}
