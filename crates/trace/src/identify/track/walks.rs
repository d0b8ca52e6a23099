//! Every state and every transition of the machine, each by a written-out trace.
//!
//! A letter is a group. A walk has two parts, with a space between them: the way to the state, and
//! the group under test or the trace's end. The outcome says which transaction each group came to:
//!
//! - `[LD]`: committed; `(LH)`: rolled back; `LH`: open; `[W+D]`: with a checkpoint; `P?`: held.
//! - A group that is in none of them belongs to no transaction.
//! - `!`: a transaction of which the trace holds only a part.
//!
//! ```text
//! L log  S segment  H header  P one page of the journal  R leftover of a rollback
//! D database  d database, not synchronized  W frames of a WAL  w header of a WAL
//! O record of our own log  K what keeps it  . the end of the trace
//! ```

use std::collections::BTreeSet;

use super::*;
use crate::identify::table::INPUT_COUNT;
use crate::identify::traffic::Amount;
use crate::model::{Actor, DeviceId, Flags};

fn input(letter: char) -> Input {
    match letter {
        'L' => Input::Log,
        'S' => Input::Segment,
        'H' => Input::Header,
        'P' => Input::Page,
        'R' => Input::Leftover,
        'D' => Input::Db,
        'd' => Input::DbUnsynced,
        'W' => Input::Wal,
        'w' => Input::WalHead,
        'O' => Input::Record,
        'K' => Input::Upkeep,
        '.' => Input::End,
        other => panic!("{other} is no group"),
    }
}

fn role(letter: char) -> Role {
    match letter {
        'D' | 'd' => Role::Database,
        'W' | 'w' => Role::Wal,
        'O' | 'K' => Role::EagerLog,
        _ => Role::Journal,
    }
}

/// The n-th group has `1 << n` bytes, so a sum of bytes says which groups it contains.
fn group(letter: char, number: usize) -> Group {
    let request = Request {
        begin_ns: number as u64 * 10,
        done_ns: number as u64 * 10 + 5,
        device: DeviceId::default(),
        sector: 0,
        bytes: 1 << number,
        data: Amount { bytes: 1 << number, requests: 1 },
        meta: Amount::default(),
        flushes: 0,
        flags: Flags::default(),
        actor: Actor { thread: 1, process: 1, name: None },
        content: None,
        file: None,
        is_call: false,
    };
    let mut group = Group::new(role(letter), &request);
    group.add(&request, None);
    if letter != 'd' {
        group.synced(number as u64 * 10 + 6);
    }
    group
}

fn letters(walk: &str, bytes: u64) -> String {
    walk.chars()
        .enumerate()
        .filter(|(number, _)| bytes >> number & 1 == 1)
        .map(|(_, letter)| letter)
        .collect()
}

fn shown(walk: &str, draft: &Draft) -> String {
    let checkpoint = draft.checkpoint.bytes();
    let own = letters(walk, draft.traffic.bytes() - checkpoint);
    if checkpoint == 0 { own } else { format!("{own}+{}", letters(walk, checkpoint)) }
}

fn walk(walk: &str) -> (State, String) {
    let mut track = Track::new(Database::Named("/d".into()));
    let groups: String = walk.chars().filter(|letter| *letter != ' ').collect();
    // A database counts as one without a journal as long as no journal was seen.
    track.has_journal = groups.contains(|letter| !"Dd.".contains(letter));
    for (number, letter) in groups.chars().enumerate() {
        track.run(input(letter), (letter != '.').then(|| group(letter, number)));
    }
    let mut outcome = String::new();
    for draft in &track.finished {
        let own = shown(&groups, draft);
        outcome += &match draft.outcome {
            Outcome::Committed => format!("[{own}]"),
            Outcome::RolledBack => format!("({own})"),
        };
    }
    outcome += &"!".repeat(track.partial_count as usize);
    if let Some(draft) = &track.draft {
        outcome += &shown(&groups, draft);
    }
    for held in &track.held {
        outcome += &format!("{}?", letters(&groups, held.bytes));
    }
    (track.state, outcome)
}

/// State after the walk, and outcome.
type Row = (&'static str, State, &'static str);

fn check(from: State, rows: &[Row]) {
    assert_eq!(rows.len(), INPUT_COUNT, "every input is tried");
    for (path, to, outcome) in rows {
        let (way, _) = path.split_once(' ').expect("a walk has a space before its last step");
        assert_eq!(walk(way).0, from, "the way of {path}");
        assert_eq!(walk(path), (*to, outcome.to_string()), "{path}");
    }
    let last: BTreeSet<char> = rows.iter().filter_map(|row| row.0.chars().last()).collect();
    assert_eq!(last.len(), INPUT_COUNT, "no input is tried twice");
}

#[test]
fn idle_takes_what_can_begin_a_transaction() {
    check(
        State::Idle,
        &[
            (" L", State::Logged, "L"),
            (" S", State::Logged, "S"),
            (" H", State::Idle, ""),
            (" P", State::Logged, "P"),
            (" R", State::Logged, "R"),
            (" D", State::Bare, "D"),
            (" d", State::Idle, ""),
            (" W", State::Appended, "W"),
            (" w", State::WalBegun, "w"),
            (" O", State::Recorded, "O"),
            (" K", State::LogKept, ""),
            (" .", State::Idle, ""),
        ],
    );
}

#[test]
fn a_log_that_is_kept_takes_the_database_for_a_checkpoint() {
    check(
        State::LogKept,
        &[
            ("K L", State::Logged, "L"),
            ("K S", State::Logged, "S"),
            ("K H", State::LogKept, ""),
            ("K P", State::Logged, "P"),
            ("K R", State::Logged, "R"),
            ("K D", State::LogKept, ""),
            ("K d", State::LogKept, ""),
            ("K W", State::Appended, "W"),
            ("K w", State::WalBegun, "w"),
            ("K O", State::Recorded, "O"),
            ("K K", State::LogKept, ""),
            ("K .", State::Idle, ""),
        ],
    );
}

#[test]
fn a_log_is_counted_or_updates_the_database_or_was_rolled_back() {
    check(
        State::Logged,
        &[
            ("L L", State::Logged, "(L)L"),
            ("L S", State::Logged, "LS"),
            ("L H", State::Counted, "LH"),
            ("L P", State::Counted, "LP"),
            ("L R", State::Logged, "(L)R"),
            ("L D", State::UpdatedNormal, "LD"),
            ("L d", State::Spilled, "Ld"),
            ("L W", State::Appended, "(L)W"),
            ("L w", State::WalBegun, "(L)w"),
            ("L O", State::Recorded, "(L)O"),
            ("L K", State::Logged, "L"),
            ("L .", State::Idle, "!"),
        ],
    );
}

#[test]
fn a_counted_log_updates_the_database_or_spills_again_or_was_rolled_back() {
    check(
        State::Counted,
        &[
            ("LH L", State::Logged, "(LH)L"),
            ("LH S", State::Logged, "LHS"),
            ("LH H", State::Idle, "(LHH)"),
            ("LH P", State::Idle, "(LHP)"),
            ("LH R", State::Logged, "(LH)R"),
            ("LH D", State::UpdatedFull, "LHD"),
            ("LH d", State::Spilled, "LHd"),
            ("LH W", State::Appended, "(LH)W"),
            ("LH w", State::WalBegun, "(LH)w"),
            ("LH O", State::Recorded, "(LH)O"),
            ("LH K", State::Counted, "LH"),
            ("LH .", State::Idle, "!"),
        ],
    );
}

#[test]
fn spilled_pages_are_followed_by_a_segment_or_by_the_update() {
    check(
        State::Spilled,
        &[
            ("LHd L", State::Logged, "(LHd)L"),
            ("LHd S", State::Logged, "LHdS"),
            ("LHd H", State::Counted, "LHdH"),
            ("LHd P", State::Counted, "LHdP"),
            ("LHd R", State::Logged, "(LHd)R"),
            ("LHd D", State::UpdatedFull, "LHdD"),
            ("LHd d", State::Spilled, "LHdd"),
            ("LHd W", State::Appended, "(LHd)W"),
            ("LHd w", State::WalBegun, "(LHd)w"),
            ("LHd O", State::Recorded, "(LHd)O"),
            ("LHd K", State::Spilled, "LHd"),
            ("LHd .", State::Idle, "!"),
        ],
    );
}

#[test]
fn s3_an_updated_database_is_reset_or_followed_by_the_next_log() {
    check(
        State::UpdatedFull,
        &[
            ("LHD L", State::Logged, "[LHD]L"),
            ("LHD S", State::Logged, "[LHD]S"),
            ("LHD H", State::Idle, "[LHDH]"),
            ("LHD P", State::TailFull1, "LHDP?"),
            ("LHD R", State::Idle, "(LHDR)"),
            ("LHD D", State::UpdatedFull, "LHDD"),
            ("LHD d", State::UpdatedFull, "LHDd"),
            ("LHD W", State::Appended, "[LHD]W"),
            ("LHD w", State::WalBegun, "[LHD]w"),
            ("LHD O", State::Recorded, "[LHD]O"),
            ("LHD K", State::LogKept, "[LHD]"),
            ("LHD .", State::Idle, "[LHD]"),
        ],
    );
}

#[test]
fn s4_one_page_after_the_update_may_be_reset_or_log() {
    check(
        State::TailFull1,
        &[
            ("PPDP L", State::Logged, "[PPDP]L"),
            ("PPDP S", State::Logged, "[PPDP]S"),
            ("PPDP H", State::TailFull2, "PPDP?H?"),
            ("PPDP P", State::TailFull2, "PPDP?P?"),
            ("PPDP R", State::Logged, "[PPDP]R"),
            ("PPDP D", State::UpdatedNormal, "[PPD]PD"),
            ("PPDP d", State::Spilled, "[PPD]Pd"),
            ("PPDP W", State::Appended, "[PPDP]W"),
            ("PPDP w", State::WalBegun, "[PPDP]w"),
            ("PPDP O", State::Recorded, "[PPDP]O"),
            ("PPDP K", State::LogKept, "[PPDP]"),
            ("PPDP .", State::Idle, "[PPDP]"),
        ],
    );
}

#[test]
fn s5_two_pages_and_the_database_are_delete_or_truncate_full() {
    check(
        State::TailFull2,
        &[
            ("PPDPP L", State::Logged, "[PPDP](P)L"),
            ("PPDPP S", State::Logged, "[PPDP]PS"),
            ("PPDPP H", State::TailFull3, "PPDP?P?H?"),
            ("PPDPP P", State::TailFull3, "PPDP?P?P?"),
            ("PPDPP R", State::Logged, "[PPDP](P)R"),
            ("PPDPP D", State::UpdatedFull, "[PPD]PPD"),
            ("PPDPP d", State::Spilled, "[PPD]PPd"),
            ("PPDPP W", State::Appended, "[PPDP](P)W"),
            ("PPDPP w", State::WalBegun, "[PPDP](P)w"),
            ("PPDPP O", State::Recorded, "[PPDP](P)O"),
            ("PPDPP K", State::Logged, "[PPDP]P"),
            ("PPDPP .", State::Idle, "[PPDP]!"),
        ],
    );
}

#[test]
fn s6_three_pages_and_the_database_are_persist_full() {
    check(
        State::TailFull3,
        &[
            ("PPDPPP L", State::Logged, "[PPDP](PP)L"),
            ("PPDPPP S", State::Logged, "[PPDP]PPS"),
            ("PPDPPP H", State::Idle, "[PPDP](PPH)"),
            ("PPDPPP P", State::Idle, "[PPDP](PPP)"),
            ("PPDPPP R", State::Logged, "[PPDP](PP)R"),
            ("PPDPPP D", State::UpdatedFull, "[PPDP]PPD"),
            ("PPDPPP d", State::Spilled, "[PPDP]PPd"),
            ("PPDPPP W", State::Appended, "[PPDP](PP)W"),
            ("PPDPPP w", State::WalBegun, "[PPDP](PP)w"),
            ("PPDPPP O", State::Recorded, "[PPDP](PP)O"),
            ("PPDPPP K", State::Counted, "[PPDP]PP"),
            ("PPDPPP .", State::Idle, "[PPDP]!"),
        ],
    );
}

#[test]
fn s10_an_updated_database_after_one_sync_is_reset_or_followed_by_the_next_log() {
    check(
        State::UpdatedNormal,
        &[
            ("LD L", State::Logged, "[LD]L"),
            ("LD S", State::Logged, "[LD]S"),
            ("LD H", State::Idle, "[LDH]"),
            ("LD P", State::TailNormal1, "LDP?"),
            ("LD R", State::Idle, "(LDR)"),
            ("LD D", State::UpdatedNormal, "LDD"),
            ("LD d", State::UpdatedNormal, "LDd"),
            ("LD W", State::Appended, "[LD]W"),
            ("LD w", State::WalBegun, "[LD]w"),
            ("LD O", State::Recorded, "[LD]O"),
            ("LD K", State::LogKept, "[LD]"),
            ("LD .", State::Idle, "[LD]"),
        ],
    );
}

#[test]
fn s11_one_page_and_the_database_are_delete_or_truncate_normal() {
    check(
        State::TailNormal1,
        &[
            ("PDP L", State::Logged, "[PDP]L"),
            ("PDP S", State::Logged, "[PDP]S"),
            ("PDP H", State::TailNormal2, "PDP?H?"),
            ("PDP P", State::TailNormal2, "PDP?P?"),
            ("PDP R", State::Logged, "[PDP]R"),
            ("PDP D", State::UpdatedNormal, "[PD]PD"),
            ("PDP d", State::Spilled, "[PD]Pd"),
            ("PDP W", State::Appended, "[PDP]W"),
            ("PDP w", State::WalBegun, "[PDP]w"),
            ("PDP O", State::Recorded, "[PDP]O"),
            ("PDP K", State::LogKept, "[PDP]"),
            ("PDP .", State::Idle, "[PDP]"),
        ],
    );
}

#[test]
fn s12_two_pages_and_the_database_are_persist_normal() {
    check(
        State::TailNormal2,
        &[
            ("PDPP L", State::Logged, "[PDP](P)L"),
            ("PDPP S", State::Logged, "[PDP]PS"),
            ("PDPP H", State::Counted, "[PDP]PH"),
            ("PDPP P", State::Counted, "[PDP]PP"),
            ("PDPP R", State::Logged, "[PDP](P)R"),
            ("PDPP D", State::UpdatedNormal, "[PDP]PD"),
            ("PDPP d", State::Spilled, "[PDP]Pd"),
            ("PDPP W", State::Appended, "[PDP](P)W"),
            ("PDPP w", State::WalBegun, "[PDP](P)w"),
            ("PDPP O", State::Recorded, "[PDP](P)O"),
            ("PDPP K", State::Logged, "[PDP]P"),
            ("PDPP .", State::Idle, "[PDP]!"),
        ],
    );
}

#[test]
fn the_header_of_a_wal_belongs_to_the_first_frames() {
    check(
        State::WalBegun,
        &[
            ("w L", State::Logged, "(w)L"),
            ("w S", State::Logged, "(w)S"),
            ("w H", State::WalBegun, "w"),
            ("w P", State::Logged, "(w)P"),
            ("w R", State::Logged, "(w)R"),
            ("w D", State::WalBegun, "w+D"),
            ("w d", State::WalBegun, "w+d"),
            ("w W", State::Appended, "wW"),
            ("w w", State::Appended, "ww"),
            ("w O", State::Recorded, "(w)O"),
            ("w K", State::WalBegun, "w"),
            ("w .", State::Idle, "!"),
        ],
    );
}

#[test]
fn frames_are_a_transaction_and_the_database_is_their_checkpoint() {
    check(
        State::Appended,
        &[
            ("W L", State::Logged, "[W]L"),
            ("W S", State::Logged, "[W]S"),
            ("W H", State::Appended, "W"),
            ("W P", State::Logged, "[W]P"),
            ("W R", State::Logged, "[W]R"),
            ("W D", State::Appended, "W+D"),
            ("W d", State::Appended, "W+d"),
            ("W W", State::Appended, "[W]W"),
            ("W w", State::WalBegun, "[W]w"),
            ("W O", State::Recorded, "[W]O"),
            ("W K", State::LogKept, "[W]"),
            ("W .", State::Idle, "[W]"),
        ],
    );
}

#[test]
fn a_record_of_our_log_is_a_transaction() {
    check(
        State::Recorded,
        &[
            ("O L", State::Logged, "[O]L"),
            ("O S", State::Logged, "[O]S"),
            ("O H", State::Recorded, "O"),
            ("O P", State::Logged, "[O]P"),
            ("O R", State::Logged, "[O]R"),
            ("O D", State::Recorded, "O+D"),
            ("O d", State::Recorded, "O+d"),
            ("O W", State::Appended, "[O]W"),
            ("O w", State::WalBegun, "[O]w"),
            ("O O", State::Recorded, "[O]O"),
            ("O K", State::Recorded, "O+K"),
            ("O .", State::Idle, "[O]"),
        ],
    );
}

#[test]
fn a_database_without_journal_is_a_transaction_as_long_as_no_journal_was_seen() {
    check(
        State::Bare,
        &[
            ("D L", State::Logged, "!L"),
            ("D S", State::Logged, "!S"),
            ("D H", State::Idle, "!"),
            ("D P", State::Idle, "!"),
            ("D R", State::Logged, "!R"),
            ("D D", State::Bare, "[D]D"),
            ("D d", State::Bare, "Dd"),
            ("D W", State::Appended, "!W"),
            ("D w", State::WalBegun, "!w"),
            ("D O", State::Recorded, "!O"),
            ("D K", State::LogKept, "!"),
            ("D .", State::Idle, "[D]"),
        ],
    );
}
