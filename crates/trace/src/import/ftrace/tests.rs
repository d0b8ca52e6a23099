//! Real lines: the phone's of kernel 3.x, and those of Linux 6.18 from a loop device with ext4 and
//! SQLite on it. The other lines are the kernel's own format strings of their version, filled in.

use std::io::Cursor;

use crate::import::{Format, Reader};
use crate::model::{Action, Content, DeviceId, Event, Flags};

fn reader(text: &str) -> Reader {
    Reader::with_format("test", Cursor::new(text.to_owned()), Format::Ftrace).unwrap()
}

/// The only event of a text, with its names: thread's, file's.
fn one(text: &str) -> (Event, String, String) {
    let mut reader = reader(text);
    let event = reader
        .next()
        .unwrap()
        .unwrap_or_else(|| panic!("no event in {text:?}: {:?}", reader.skipped()));
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!(reader.skipped().count, 0, "{:?}", reader.skipped());
    let name = |id: Option<_>| id.map_or(String::new(), |id| reader.names().text(id).to_owned());
    (event, name(event.actor.name), name(event.file))
}

fn actor_of(line: &str) -> (u32, u32, String) {
    let (event, name, _) = one(&format!("{line}\n"));
    (event.actor.thread, event.actor.process, name)
}

const WS: Flags = Flags {
    write: true,
    sync: true,
    read: false,
    discard: false,
    preflush: false,
    fua: false,
    meta: false,
    ahead: false,
};

#[test]
fn four_flags_as_a_phone_writes_them() {
    let (event, name, _) = one(
        "        adbd-3434  [002] d..2   263.581140: block_rq_insert: 179,0 WS 0 () 899944 + 8 \
            [sh]\n",
    );
    assert_eq!((event.time_ns, event.action), (263_581_140_000, Action::Insert));
    assert_eq!(
        (event.device, event.sector, event.bytes),
        (DeviceId { major: 179, minor: 0 }, 899_944, 4096)
    );
    assert_eq!((event.flags, event.actor.thread, name.as_str()), (WS, 3434, "adbd"));
}

#[test]
fn five_flags_with_the_priority_of_linux_6_10() {
    let (event, ..) = one(
        "    kworker/0:1H-20239   [000] ..... 36552.068045: block_rq_issue: 7,0 RAM 1024 () 522 + \
            2 be,0,6 [kworker/0:1H]\n",
    );
    assert_eq!((event.action, event.sector, event.bytes), (Action::Issue, 522, 1024));
    assert!(event.flags.read && event.flags.ahead && event.flags.meta && !event.flags.write);
    let (event, ..) = one(
        "     ksoftirqd/0-14      [000] ..s.. 36552.067008: block_rq_complete: 7,0 RM () 8742 + 2 \
            be,0,6 [0]\n",
    );
    assert_eq!((event.action, event.sector, event.bytes), (Action::Complete, 8742, 1024));
}

#[test]
fn without_flags() {
    let (event, ..) = one(
        "         python3-26164   [000]  36553.066376: block_bio_queue: 7,0 FWS 0 + 0 [python3]\n",
    );
    assert_eq!((event.time_ns, event.action, event.bytes), (36_553_066_376_000, Action::Queue, 0));
    assert!(event.flags.preflush && event.flags.write && !event.flags.fua);
}

#[test]
fn the_process_stands_in_parentheses_if_it_is_known() {
    let body = "block_bio_queue: 7,0 WS 8 + 8 [python3]";
    let line = format!("         python3-26121   (  26120) [001] ..... 36552.609460: {body}");
    assert_eq!(actor_of(&line), (26121, 26120, "python3".into()));
    let line = format!("         python3-26121   (-------) [001] ..... 36552.609460: {body}");
    assert_eq!(actor_of(&line), (26121, 0, "python3".into()));
    let line = format!("         python3-26121 (26120) [001] ...1 36552.609460: {body}");
    assert_eq!(actor_of(&line), (26121, 26120, "python3".into()));
}

#[test]
fn a_name_may_hold_spaces_dashes_and_brackets() {
    let body = "[000] ...1  1.000000: block_bio_queue: 8,0 WS 8 + 8 [x]";
    for (name, line) in [
        ("AsyncTask #1-2", format!("  AsyncTask #1-2-1234  {body}")),
        ("kworker/u8:0-ev", format!(" kworker/u8:0-ev-7     {body}")),
        ("a-1 [000] b", format!("     a-1 [000] b-1234  {body}")),
        ("Binder:1_2", format!("      Binder:1_2-99     {body}")),
        ("a name of more than 16", format!("a name of more than 16-1234 {body}")),
        ("dash-7-", format!("dash-7--1234 {body}")),
    ] {
        let (_, _, found) = actor_of(&line);
        assert_eq!(found, name, "{line}");
    }
}

#[test]
fn where_the_kernel_forgot_the_name_the_request_says_it() {
    let line = "           <...>-3434  [002] d..2   263.581140: block_rq_insert: 179,0 R 0 () \
        899944 + 8 [IntentService[]]";
    assert_eq!(actor_of(line), (3434, 0, "IntentService[]".into()));
    let line = "           <...>-116   [000] ...1   263.581701: block_rq_complete: 179,0 RA () \
        899944 + 8 [0]";
    assert_eq!(actor_of(line).2, "", "the bracket of a completion is an error number");
}

#[test]
fn a_flush_has_no_sector_however_the_kernel_writes_it() {
    for body in [
        "block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]",
        "block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]",
        "block_rq_complete: 179,0 F () 18446744073709551615 + 0 [0]",
    ] {
        let (event, ..) =
            one(&format!("    kworker/1:1H-32590   [001] ..... 36552.068316: {body}\n"));
        assert_eq!((event.sector, event.bytes), (0, 0), "{body}");
        assert!(event.flags.preflush && !event.flags.write, "{body}");
    }
}

#[test]
fn an_error_and_a_passed_through_command_are_completions_too() {
    for body in [
        "block_rq_complete: 8,0 WS () 2048 + 8 [-5]",
        "block_rq_complete: 8,0 N (12 01 00 00 fe 00) 0 + 0 [0]",
        "block_rq_complete: 8,0 WS () 2048 + 8 rt,3,0 [-5]",
    ] {
        let (event, ..) = one(&format!("          <idle>-0     [001] ..s1  5.000001: {body}\n"));
        assert_eq!(event.action, Action::Complete);
    }
    let (event, ..) = one(
        "   sg-1     [001] ..s1  5.000001: block_rq_insert: 8,0 N 36 (12 00 00 00 24 00) 0 + 0 \
            [sg]\n",
    );
    assert_eq!((event.action, event.flags), (Action::Insert, Flags::default()));
}

#[test]
fn syncs_name_the_file_by_its_inode() {
    let head = "         python3-26074   [000] ..... 36552.067971: ";
    for (body, action, file) in [
        (
            "ext4_sync_file_enter: dev 7,0 ino 13 parent 2 datasync 1 ",
            Action::SyncEnter,
            "ino 13 on 7,0",
        ),
        ("ext4_sync_file_exit: dev 7,0 ino 13 ret 0", Action::SyncExit, "ino 13 on 7,0"),
        (
            "f2fs_sync_file_enter: dev = (259,5), ino = 4711, pino = 3, i_mode = 0x81b0, i_size = \
                20480, i_nlink = 1, \
             i_blocks = 48, i_advise = 0x0",
            Action::SyncEnter,
            "ino 4711 on 259,5",
        ),
        (
            "f2fs_sync_file_exit: dev = (259,5), ino = 4711, cp_reason: no needed, datasync = 1, \
                ret = 0",
            Action::SyncExit,
            "ino 4711 on 259,5",
        ),
        (
            "f2fs_sync_file_exit: dev = (259,5), ino = 4711, checkpoint is not needed, datasync = \
                1, ret = 0",
            Action::SyncExit,
            "ino 4711 on 259,5",
        ),
    ] {
        let (event, _, found) = one(&format!("{head}{body}\n"));
        assert_eq!((event.action, found.as_str()), (action, file), "{body}");
    }
}

#[test]
fn a_write_that_asked_for_flushes_ends_at_its_sector_without_bytes() {
    for (line, sector) in [
        (
            "     ksoftirqd/0-14      [000] d.s1. 39492.898535: block_rq_complete: 7,0 WSM () \
                32790 + 0 be,0,3 [0]",
            32_790,
        ),
        (
            "     ksoftirqd/0-14      [000] ..s.. 39492.898534: block_rq_complete: 7,0 FF () \
                18446744073709551615 + 0 none,0,0 [0]",
            0,
        ),
    ] {
        let (event, ..) = one(&format!("{line}\n"));
        assert_eq!(
            (event.action, event.sector, event.bytes),
            (Action::Complete, sector, 0),
            "{line}"
        );
    }
}

/// The lines of ext4 are Linux 6.18's under SQLite. One journal is deleted, one is truncated.
#[test]
fn deletions_and_truncations_name_the_file_by_its_inode() {
    let f2fs = "dev = (259,5), ino = 4711, pino = 3, i_mode = 0x81b0, i_size = 0, i_nlink = 1, \
        i_blocks = 48, i_advise = 0x0";
    for (line, action, file) in [
        (
            "         python3-7520    [000] ..... 39492.985681: ext4_unlink_enter: dev 7,0 ino 13 \
                size 8720 parent 2",
            Action::FileDelete,
            "ino 13 on 7,0",
        ),
        (
            "         python3-7520    [000] ..... 39492.985733: ext4_truncate_enter: dev 7,0 ino \
                13 blocks 18",
            Action::FileTruncate,
            "ino 13 on 7,0",
        ),
        (
            "         python3-7520    [001] ..... 39493.058682: ext4_truncate_enter: dev 7,0 ino \
                14 blocks 18",
            Action::FileTruncate,
            "ino 14 on 7,0",
        ),
        (
            "           app-7520    [001] ...1  12.5: f2fs_unlink_exit: dev = (259,5), ino = 4711, \
                ret = 0",
            Action::FileDelete,
            "ino 4711 on 259,5",
        ),
        (
            "           app-7520    [001] ...1  12.5: f2fs_unlink_exit: dev = (259,5), ino = 4711, \
                type: FILE, mode = 0600, ret = 0",
            Action::FileDelete,
            "ino 4711 on 259,5",
        ),
        (
            &format!("           app-7520    [001] ...1  12.5: f2fs_truncate: {f2fs}"),
            Action::FileTruncate,
            "ino 4711 on 259,5",
        ),
    ] {
        let (event, _, found) = one(&format!("{line}\n"));
        assert_eq!((event.action, event.bytes, found.as_str()), (action, 0, file), "{line}");
    }
}

/// Written by Linux 6.18 while it was busy. A worker of the kernel frees the blocks of a deleted
/// journal late: the next journal, of the same name, is already there and synchronized.
#[test]
fn a_deleted_file_whose_blocks_are_freed_later_is_not_truncated() {
    let mut reader = reader(concat!(
        "        oneflush-745     (    745) [000] ..... 49163.470000: oneflush_file: dev 7,1 ino \
            25 name /d/a.db-journal\n",
        " rollback_modes_-799     (    745) [000] ..... 49163.471122: ext4_unlink_enter: dev 7,1 \
            ino 25 parent 2 size 8720\n",
        "        oneflush-745     (    745) [000] ..... 49163.471516: oneflush_file: dev 7,1 ino \
            27 name /d/a.db-journal\n",
        "           <...>-804     (-------) [000] ..... 49163.471985: ext4_truncate_enter: dev 7,1 \
            ino 25 blocks 24\n",
        "        oneflush-745     (    745) [000] ..... 49163.480000: oneflush_file: dev 7,1 ino \
            25 name /d/b.db-journal\n",
        " rollback_modes_-799     (    745) [000] ..... 49163.490000: ext4_truncate_enter: dev 7,1 \
            ino 25 blocks 24\n",
    ));
    let mut found = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        found.push((event.action, event.file.map(|file| reader.names().text(file).to_owned())));
    }
    let expected =
        [(Action::FileDelete, "/d/a.db-journal"), (Action::FileTruncate, "/d/b.db-journal")];
    assert_eq!(found, expected.map(|(action, name)| (action, Some(name.to_owned()))));
    assert_eq!(reader.skipped().count, 0);
}

#[test]
fn what_neither_deletes_nor_empties_a_file_is_ignored() {
    let mut reader = reader(concat!(
        "  app-7520  [001] ...1  12.5: f2fs_unlink_enter: dev = (259,5), dir ino = 3, i_size = \
            4096, i_blocks = 8, name = a.db-journal\n",
        "  app-7520  [001] ...1  12.6: f2fs_unlink_exit: dev = (259,5), ino = 4711, ret = -2\n",
        "  app-7520  [001] ...1  12.7: f2fs_truncate: dev = (259,5), ino = 9, pino = 3, i_mode = \
            0x81b0, i_size = 8192, i_nlink = 1\n",
    ));
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!((reader.skipped().ignored, reader.skipped().count), (3, 0));
}

#[test]
fn markers_are_texts() {
    for line in [
        "            bash-26061   [000] ...1. 36551.008182: tracing_mark_write: begin of the run",
        "            bash-26061   [000]       36551.008182: print:                \
            tracing_mark_write: begin of the run",
        "            bash-26061   [000] ...1. 36551.008182: print: begin of the run",
    ] {
        let (event, _, text) = one(&format!("{line}\n"));
        assert_eq!((event.action, text.as_str()), (Action::Marker, "begin of the run"));
    }
}

#[test]
fn events_of_other_kinds_are_ignored_not_misunderstood() {
    let mut reader = reader(concat!(
        "# tracer: nop\n#\ncpus=2\nCPU 1 is empty\n",
        "          <idle>-0     [001] ...2   263.580732: sched_switch: prev_comm=swapper/1 \
            prev_pid=0 ==> next_comm=sh\n",
        "         python3-26074   [000] ..... 36551.044548: block_plug: [bash]\n",
        "         python3-26074   [000] ..... 36551.044549: do_sys_open <-sys_open\n",
        " => blk_mq_submit_bio\n\n",
    ));
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!((reader.skipped().ignored, reader.skipped().count), (3, 0));
}

#[test]
fn lost_events_are_counted_in_every_spelling() {
    let mut first = reader(
        "# entries-in-buffer/entries-written: 425/18981   #P:2\nCPU:1 [LOST 3551 EVENTS]\nCPU:0 \
            [27 EVENTS DROPPED]\n\
         CPU:2 [LOST EVENTS]\nCPU:3 [EVENTS DROPPED]\n",
    );
    assert_eq!(first.next().unwrap(), None);
    assert_eq!(
        (first.skipped().lost, first.skipped().lost_uncounted),
        (18_981 - 425 + 3551 + 27, 2)
    );
    let mut second = reader("# entries-in-buffer/entries-written: 318158/318158   #P:4\n");
    assert_eq!(second.next().unwrap(), None);
    assert_eq!((second.skipped().lost, second.skipped().lost_uncounted), (0, 0));
}

#[test]
fn a_line_that_is_not_understood_is_kept_with_its_number_up_to_ten() {
    let mut text = String::from("# tracer: nop\n");
    for n in 0..12 {
        text.push_str(&format!("garbage {n}\n"));
    }
    text.push_str("  sh-1  [000] ...1  1.000000: block_rq_issue: 8,0 WS 4096 () 8 + \n");
    let mut reader = reader(&text);
    assert_eq!(reader.next().unwrap(), None);
    let skipped = reader.skipped();
    assert_eq!((skipped.count, skipped.first.len()), (13, 10));
    assert_eq!((skipped.first[0].number, skipped.first[0].text.as_str()), (2, "garbage 0"));
    assert_eq!(skipped.first[9].number, 11);
}

#[test]
fn nanoseconds_of_trace_cmd_are_kept() {
    let (event, ..) =
        one("   dd-12  [000] 100.000000042: block_bio_queue:      8,0 WS 8 + 8 [dd]\n");
    assert_eq!(event.time_ns, 100_000_000_042);
}

/// As `oneflush trace` writes it.
const RECORDING: &str = "\
# tracer: nop
        oneflush-900     (    900) [000] .....     0.000000: oneflush_area: dev 7,0 sector 262144 \
        sectors 65536 journal
        oneflush-900     (    900) [000] .....    10.000001: oneflush_file: dev 7,0 ino 12 name \
        /mnt/a b\\134\\012.db
         sqlite3-901     (    901) [001] .....    10.000001: ext4_sync_file_enter: dev 7,0 ino 12 \
         parent 2 datasync 1
         sqlite3-901     (    901) [001] .....    10.000002: block_bio_queue: 7,0 WS 1024 + 8 \
         [sqlite3] oneflush=data dev 7,0 ino 12
         sqlite3-901     (    901) [001] .....    10.000003: block_bio_queue: 7,0 WS 2048 + 8 [a] \
         [b]] oneflush=data dev 7,0 ino 13
    jbd2/loop0-8-77      (     77) [001] .....    10.000004: block_bio_queue: 7,0 WSM 262144 + 8 \
    [jbd2/loop0-8] oneflush=journal
         sqlite3-901     (    901) [001] .....    10.000005: block_bio_queue: 7,0 WSM 4096 + 8 \
         [sqlite3] oneflush=metadata
         sqlite3-901     (    901) [001] .....    10.000006: ext4_unlink_enter: dev 7,0 ino 12 \
         size 512 parent 2
      jbd2/7-8-99        (     99) [000] .....    10.000006: block_bio_queue: 7,0 WS 8184 + 8 \
      [jbd2/7-8] oneflush=data dev 7,0 ino 12
        oneflush-900     (    900) [000] .....    10.000007: oneflush_file: dev 7,0 ino 12 name \
        /mnt/c-journal
         sqlite3-901     (    901) [001] .....    10.000007: block_bio_queue: 7,0 WS 8192 + 8 \
         [sqlite3] oneflush=data dev 7,0 ino 12
";

#[test]
fn a_recording_of_ours_says_whose_each_write_is() {
    let mut reader = reader(RECORDING);
    let mut found = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        let file = event.file.map(|id| reader.names().text(id).to_owned()).unwrap_or_default();
        found.push((event.action, event.content, file));
    }
    let data = |file: &str| (Action::Queue, Some(Content::Data), file.to_owned());
    let expected = [
        (Action::SyncEnter, None, "/mnt/a b\\\n.db".to_owned()),
        data("/mnt/a b\\\n.db"),
        data("ino 13 on 7,0"),
        (Action::Queue, Some(Content::Journal), String::new()),
        (Action::Queue, Some(Content::Metadata), String::new()),
        (Action::FileDelete, None, "/mnt/a b\\\n.db".to_owned()),
        (Action::Queue, Some(Content::DeletedData), "/mnt/a b\\\n.db".to_owned()),
        data("/mnt/c-journal"),
    ];
    assert_eq!(found, expected);
    assert_eq!((reader.skipped().count, reader.skipped().ignored), (0, 0));
}

#[test]
fn half_an_attribution_is_not_understood() {
    let line = RECORDING.lines().find(|line| line.ends_with("ino 13")).unwrap();
    for length in line.find("oneflush=").unwrap() + "oneflush=".len()..line.len() - " 13".len() {
        let mut reader = reader(&format!("{}\n", &line[..length]));
        assert_eq!(reader.next().unwrap(), None, "{}", &line[..length]);
        assert_eq!(reader.skipped().count, 1);
    }
}
