//! Real lines: strace 6.1 over a program whose two threads write two databases; paths shortened.

use std::io::Cursor;

use crate::import::{Format, OFFSET_UNKNOWN, Reader};
use crate::model::{Action, Event};

fn events(text: &str) -> (Vec<Event>, Reader) {
    let mut reader = Reader::from_read("test", Cursor::new(text.to_owned())).unwrap();
    assert_eq!(reader.format(), Format::Strace);
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    (events, reader)
}

fn file(reader: &Reader, event: &Event) -> String {
    event.file.map_or(String::new(), |id| reader.names().text(id).to_owned())
}

#[test]
fn a_write_and_a_sync_in_one_line_each() {
    let (events, reader) = events(concat!(
        "26990 1795199476.837514 pwrite64(5</mnt/s1.db-journal>, \"\\0\\0\\17\\36\\272H\\0\"..., \
            512, 1024) = 512 <0.000019>\n",
        "26989 1795199476.845520 fdatasync(6</mnt/s0.db-journal>) = 0 <0.000600>\n",
        "26989 1795199476.846166 munmap(0x7f46679a9000, 208896) = 0 <0.000120>\n",
        "26989 1795199476.846167 +++ exited with 0 +++\n",
    ));
    let actions: Vec<_> = events.iter().map(|event| event.action).collect();
    assert_eq!(actions, [Action::FileWrite, Action::SyncEnter, Action::SyncExit]);
    assert_eq!((events[0].sector, events[0].bytes, events[0].actor.thread), (1024, 512, 26990));
    assert_eq!(file(&reader, &events[0]), "/mnt/s1.db-journal");
    assert_eq!(events[1].time_ns, 1_795_199_476_845_520_000);
    assert_eq!(events[2].time_ns - events[1].time_ns, 600_000);
    assert_eq!(file(&reader, &events[2]), "/mnt/s0.db-journal");
    assert_eq!((reader.skipped().ignored, reader.skipped().count), (1, 0));
}

#[test]
fn calls_of_two_threads_are_put_together_again() {
    let (events, reader) = events(concat!(
        "26990 1795199476.842279 pwrite64(4</mnt/s1.db>, \"SQLite format 3\\0\\20\\0\"..., 4096, \
            8192 <unfinished ...>\n",
        "26989 1795199476.842290 fdatasync(7</mnt> <unfinished ...>\n",
        "26990 1795199476.842362 <... pwrite64 resumed>) = 4096 <0.000055>\n",
        "26990 1795199476.842400 pread64(4</mnt/s1.db>,  <unfinished ...>\n",
        "26989 1795199476.845167 <... fdatasync resumed>) = 0 <0.002688>\n",
        "26990 1795199476.845200 <... pread64 resumed>\"\\r\\0, )\\\"\", 16, 24) = 16 <0.000010>\n",
    ));
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.action, event.actor.thread, event.sector, event.bytes))
        .collect();
    assert_eq!(
        told,
        [
            (Action::SyncEnter, 26989, 0, 0),
            (Action::FileWrite, 26990, 8192, 4096),
            (Action::SyncExit, 26989, 0, 0),
            (Action::FileRead, 26990, 24, 16),
        ]
    );
    assert_eq!(file(&reader, &events[2]), "/mnt");
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    assert_eq!(reader.skipped().count, 0);
}

#[test]
fn vectors_give_their_result_and_their_offset() {
    let (mut events, _) = events(concat!(
        "1 1795199476.000001 pwritev(3</a>, [{iov_base=\"a, )\\\"\", iov_len=24}, \
            {iov_base=\"b\", iov_len=4096}], 2, 32) = 4120 <0.000019>\n",
        "1 1795199476.000002 pwritev2(3</a>, [{iov_base=\"b\"..., iov_len=4096}], 1, 4152, \
            RWF_DSYNC) = 4096 <0.000019>\n",
    ));
    events.retain(|event| event.action == Action::FileWrite);
    assert_eq!((events[0].bytes, events[0].sector), (4120, 32));
    assert_eq!((events[1].bytes, events[1].sector), (4096, 4152));
}

#[test]
fn write_knows_its_offset_from_the_threads_own_lseek_only() {
    let (events, _) = events(concat!(
        "1 1795199476.000001 lseek(3</a>, 4096, SEEK_SET) = 4096 <0.000001>\n",
        "1 1795199476.000002 write(3</a>, \"x\"..., 100) = 100 <0.000001>\n",
        "1 1795199476.000003 write(3</a>, \"x\"..., 100) = 100 <0.000001>\n",
        "2 1795199476.000004 write(3</a>, \"x\"..., 100) = 100 <0.000001>\n",
        "1 1795199476.000005 write(4</b>, \"x\"..., 100) = 100 <0.000001>\n",
    ));
    let offsets: Vec<_> = events.iter().map(|event| event.sector).collect();
    assert_eq!(offsets, [4096, 4196, OFFSET_UNKNOWN, OFFSET_UNKNOWN]);
}

#[test]
fn only_files_are_told_and_their_names_are_the_real_ones() {
    let (events, reader) = events(concat!(
        "1 1795199476.000001 write(2</dev/null<char 1:3>>, \"x\", 1) = 1 <0.000001>\n",
        "1 1795199476.000002 write(4<socket:[17]>, \"x\", 1) = 1 <0.000001>\n",
        "1 1795199476.000003 write(4<TCP:[127.0.0.1:5000->127.0.0.1:80]>, \"x\", 1) = 1 \
            <0.000001>\n",
        "1 1795199476.000004 pwrite64(4</a b\\74c\\76, (d)\\303\\251.db>, \"x\", 1, 0) = 1 \
            <0.000001>\n",
        "1 1795199476.000005 pwrite64(4</tmp/x (deleted)>, \"x\", 1, 0) = 1 <0.000001>\n",
        "1 1795199476.000006 pwrite64(4</tmp/x>(deleted), \"x\", 1, 0) = 1 <0.000001>\n",
        "1 1795199476.000007 pwrite64(4</dev/sda<block 8:0>>, \"x\", 1, 0) = 1 <0.000001>\n",
        "1 1795199476.000008 pwrite64(4, \"x\", 1, 0) = 1 <0.000001>\n",
    ));
    let files: Vec<_> = events.iter().map(|event| file(&reader, event)).collect();
    assert_eq!(files, ["/a b<c>, (d)é.db", "/tmp/x", "/tmp/x", "/dev/sda", ""]);
    assert_eq!((reader.skipped().ignored, reader.skipped().count), (3, 0));
}

#[test]
fn deletions_and_truncations_name_the_file_as_far_as_the_call_does() {
    let (events, reader) = events(concat!(
        "7590 1795202402.600709 unlink(\"/mnt/a.db-journal\") = 0 <0.000219>\n",
        "7590 1795202402.609784 ftruncate(4</mnt/b.db-journal>, 0) = 0 <0.000168>\n",
        "7590 1795202402.615817 truncate(\"/mnt/c.db-journal\", 0) = 0 <0.000197>\n",
        "7590 1795202402.616115 unlinkat(3</mnt>, \"b, \\\"\\303\\251.db-journal\", 0) = 0 \
            <0.000142>\n",
        "7590 1795202402.616116 unlinkat(AT_FDCWD</mnt>, \"a.db\", 0) = 0 <0.000142>\n",
        "7590 1795202402.616117 unlinkat(AT_FDCWD</mnt>, \"/tmp/a.db\", 0) = 0 <0.000142>\n",
        "7590 1795202402.616392 unlink(\"s_delete.db\") = 0 <0.000014>\n",
        "7590 1795202402.700000 unlink(\"/mnt/d.db-journal\" <unfinished ...>\n",
        "7590 1795202402.800000 <... unlink resumed>) = 0 <0.100000>\n",
    ));
    let told: Vec<_> = events.iter().map(|event| (event.action, file(&reader, event))).collect();
    let expected = [
        (Action::FileDelete, "/mnt/a.db-journal"),
        (Action::FileTruncate, "/mnt/b.db-journal"),
        (Action::FileTruncate, "/mnt/c.db-journal"),
        (Action::FileDelete, "/mnt/b, \"é.db-journal"),
        (Action::FileDelete, "/mnt/a.db"),
        (Action::FileDelete, "/tmp/a.db"),
        // Relative to a folder that the call does not say.
        (Action::FileDelete, ""),
        (Action::FileDelete, "/mnt/d.db-journal"),
    ];
    assert_eq!(told, expected.map(|(action, file)| (action, file.to_owned())));
    assert_eq!(
        (reader.skipped().ignored, reader.skipped().count),
        (0, 0),
        "{:?}",
        reader.skipped()
    );
}

#[test]
fn a_folder_that_goes_a_file_that_shrinks_and_a_call_that_failed_delete_nothing() {
    let (events, reader) = events(concat!(
        "1 1795199476.000001 unlinkat(AT_FDCWD</mnt>, \"folder\", AT_REMOVEDIR) = 0 <0.000001>\n",
        "1 1795199476.000002 ftruncate(4</mnt/a.db>, 8192) = 0 <0.000001>\n",
        "1 1795199476.000003 unlink(\"/mnt/a.db-wal\") = -1 ENOENT (No such file or directory) \
            <0.000001>\n",
        "1 1795199476.000004 fsync(4</mnt/a.db>) = 0 <0.000001>\n",
    ));
    assert!(
        events.iter().all(|event| matches!(event.action, Action::SyncEnter | Action::SyncExit))
    );
    assert_eq!(
        (reader.skipped().ignored, reader.skipped().count),
        (3, 0),
        "{:?}",
        reader.skipped()
    );
}

#[test]
fn a_call_that_failed_wrote_nothing() {
    let (events, reader) = events(concat!(
        "1 1795199476.000001 pwrite64(4</a>, \"x\", 1, 0) = -1 ENOSPC (No space left on device) \
            <0.000001>\n",
        "1 1795199476.000002 fsync(4</a>) = ? ERESTARTSYS (To be restarted)\n",
    ));
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].action, reader.skipped().ignored), (Action::SyncEnter, 1));
}

#[test]
fn the_terminals_form_with_notes_of_strace_in_its_lines() {
    let (events, reader) = events(concat!(
        "strace: Process 27010 attached\n",
        "1795199477.322708 brk(NULL)             = 0x55e871b32000 <0.000007>\n",
        "[pid 27012] 1795199477.372062 clone(child_stack=NULL, flags=SIGCHLDstrace: Process 27013 \
            attached\n",
        " <unfinished ...>\n",
        "[pid 27012] 1795199477.372338 fsync(3</a>strace: Process 27014 attached\n",
        " <unfinished ...>\n",
        "[pid 27013<python3>] 1795199477.372339 fsync(4</b>) = 0 <0.000010>\n",
        "[pid 27012] 1795199477.372400 <... fsync resumed>) = 0 <0.000055>\n",
    ));
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.action, event.actor.thread, file(&reader, event)))
        .collect();
    let (a, b) = ("/a".to_owned(), "/b".to_owned());
    assert_eq!(
        told,
        [
            (Action::SyncEnter, 27012, a.clone()),
            (Action::SyncEnter, 27013, b.clone()),
            (Action::SyncExit, 27013, b),
            (Action::SyncExit, 27012, a),
        ]
    );
    assert_eq!(reader.skipped().count, 0, "{:?}", reader.skipped());
}

#[test]
fn a_sync_whose_begin_is_not_in_the_trace_ends_all_the_same() {
    let (events, _) = events("7 1795199477.372400 <... fsync resumed>) = 0 <0.000055>\n");
    assert_eq!((events[0].action, events[0].file), (Action::SyncExit, None));
}

/// The story: `-tt` is what most people record with, and it was turned away as no known format. So
/// were `-t`, `-r` and no times.
#[test]
fn times_of_every_option_are_read_and_what_they_do_not_say_is_told() {
    let calls = ["pwrite64(3</a>, \"x\", 1, 0) = 1", "fsync(3</a>) = 0"];
    let trace =
        |times: [&str; 2]| format!("7 {} {}\n7 {} {}\n", times[0], calls[0], times[1], calls[1]);
    for (times, apart_ns, lacks) in [
        (["1795199476.000001", "1795199476.000003"], 2_000, false),
        (["12:00:00.000100", "12:00:00.000300"], 200_000, false),
        (["12:00:00", "12:00:00"], 1_000, true),
        (["     0.000000", "     0.000123"], 123_000, false),
        ([" ", " "], 1_000, true),
    ] {
        let (events, reader) = events(&trace(times));
        let actions: Vec<_> = events.iter().map(|event| event.action).collect();
        assert_eq!(actions, [Action::FileWrite, Action::SyncEnter, Action::SyncExit], "{times:?}");
        assert_eq!(events[1].time_ns - events[0].time_ns, apart_ns, "{times:?}");
        assert_eq!(reader.skipped().no_times.is_some(), lacks, "{times:?}");
        assert_eq!(events[0].actor.thread, 7);
    }
}

#[test]
fn descriptors_without_names_are_those_that_were_opened() {
    let (events, reader) = events(concat!(
        "1 1795199476.000001 openat(AT_FDCWD, \"/m/a.db-journal\", O_RDWR|O_CREAT, 0644) = 4\n",
        "1 1795199476.000002 clone(child_stack=0x7f, \
            flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2\n",
        "1 1795199476.000003 clone(child_stack=NULL, flags=SIGCHLD) = 3\n",
        "3 1795199476.000004 close(4) = 0\n",
        "2 1795199476.000005 pwrite64(4, \"x\"..., 512, 0) = 512\n",
        "2 1795199476.000006 pwrite64(9, \"x\"..., 4096, 8192) = 4096\n",
        "3 1795199476.000007 pwrite64(4, \"x\"..., 512, 0) = 512\n",
    ));
    let files: Vec<_> = events.iter().map(|event| file(&reader, event)).collect();
    assert_eq!(files, ["/m/a.db-journal", "/m/a.db", ""]);
    assert_eq!(reader.skipped().nameless_calls, 1);
}

#[test]
fn a_write_that_is_durable_on_return_is_a_write_inside_of_a_sync() {
    let (events, _) = events(concat!(
        "1 1795199476.000001 openat(AT_FDCWD, \"/a\", O_WRONLY|O_DSYNC) = 4</a>\n",
        "1 1795199476.000002 pwrite64(4</a>, \"x\"..., 512, 0) = 512 <0.000300>\n",
        "1 1795199476.000003 pwritev2(5</b>, [{iov_base=\"b\"..., iov_len=4096}], 1, 0, \
            RWF_HIPRI|RWF_SYNC) = 4096 <0.000019>\n",
        "1 1795199476.000004 pwritev2(5</b>, [{iov_base=\"b\"..., iov_len=4096}], 1, 0, 0) = 4096 \
            <0.000019>\n",
    ));
    let actions: Vec<_> = events.iter().map(|event| event.action).collect();
    let durable = [Action::SyncEnter, Action::FileWrite, Action::SyncExit];
    assert_eq!(actions, [&durable[..], &durable[..], &[Action::FileWrite]].concat());
    assert_eq!(events[2].time_ns - events[0].time_ns, 300_000);
}

#[test]
fn a_begin_that_is_too_long_to_keep_is_told() {
    let (events, reader) = events(&format!(
        "1 1795199476.000001 pwrite64(4</a>, \"{}\", 9000, 0 <unfinished ...>\n1 1795199476.000002 \
            <... pwrite64 resumed>) = 9000 <0.1>\n",
        "x".repeat(9000)
    ));
    assert_eq!((events.len(), reader.skipped().count), (0, 1));
}
