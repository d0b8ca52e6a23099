//! Traces of people who read the wrong figures out of them (`../shared/cases`).

use std::path::Path;
use std::process::{Command, Output};

use oneflush_testing::shared_case;

fn oneflush(arguments: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oneflush"))
        .args(arguments)
        .arg(file)
        .output()
        .expect("oneflush can be run")
}

fn identify(file: &Path) -> String {
    let output = oneflush(&["identify"], file);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a table is text")
}

/// The story: two disks in one trace. The database on 8:0 was charged with the journal of the file
/// system on 8:16, whose thread wrote while the database waited. That was 50.4 KB and 17.14 flushes
/// a transaction.
#[test]
fn a_database_is_not_charged_with_what_another_disk_is_sent() {
    let Some(case) = shared_case("01-other-device-charged") else { return };
    let row = "  PERSIST FULL        7    8.0    11.0     0.7    0.0    4.14  31.9   43.8  59 %";
    for file in ["one-device.txt", "two-devices.txt"] {
        let table = identify(&case.join(file));
        assert!(table.lines().any(|line| line == row), "{file}: {table}");
        let report = oneflush(&["report"], &case.join(file));
        let report = String::from_utf8(report.stdout).unwrap();
        let of_database = report.lines().find(|line| line.contains("PERSIST FULL")).unwrap();
        assert!(of_database.ends_with(" 4.14"), "{file}: {report}");
    }
}

/// The story: `strace -tt` is what most record with, and it was no known format; without `-y` there
/// were 0 transactions and no reason.
#[test]
fn strace_with_other_options_has_the_same_transaction() {
    let Some(case) = shared_case("07-strace-other-options") else { return };
    for file in ["control-ttt-yy.txt", "input-tt.txt", "input-ttt-without-y.txt"] {
        let table = identify(&case.join(file));
        assert!(
            table.contains("\n1 transaction of 1 database\n") && table.contains("DELETE"),
            "{file}: {table}"
        );
    }
}

/// The story: 400 inserts with `eager` were 15 transactions, since `RWF_DSYNC` was not taken for a
/// synchronization.
#[test]
fn commits_by_writes_that_are_durable_on_return_are_all_there() {
    let Some(case) = shared_case("08-strace-rwf-dsync") else { return };
    for file in ["dsync.txt", "fdatasync.txt"] {
        let output = oneflush(&["identify", "--json"], &case.join(file));
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 8, "{file}");
    }
}

/// The story (case 13): a trace of calls with 6 syncs told "flushes a txn 0.00". It also told 0.0
/// KB of a journal that it cannot show.
#[test]
fn what_a_trace_of_calls_does_not_show_is_no_zero() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.txt");
    let mut text = String::new();
    for second in 0..2 {
        for (n, call) in [
            "pwrite64(3</d/a.db-journal>, \"\"..., 512, 0) = 512",
            "pwrite64(3</d/a.db-journal>, \"\"..., 4096, 516) = 4096",
            "fdatasync(3</d/a.db-journal>) = 0",
            "pwrite64(3</d/a.db-journal>, \"\"..., 12, 0) = 12",
            "fdatasync(3</d/a.db-journal>) = 0",
            "pwrite64(3</d/a.db>, \"\"..., 4096, 0) = 4096",
            "fdatasync(3</d/a.db>) = 0",
            "unlink(\"/d/a.db-journal\") = 0",
        ]
        .iter()
        .enumerate()
        {
            text += &format!("7 179520240{second}.00{n}000 {call} <0.000100>\n");
        }
    }
    std::fs::write(&file, text).unwrap();
    let table = identify(&file);
    let row = table
        .lines()
        .find(|line| line.contains("DELETE FULL"))
        .unwrap_or_else(|| panic!("{table}"));
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[2..8], ["2", "4.0", "4.5", "–", "–", "3.00"], "{table}");
    assert!(table.contains("  syncs  latency"), "{table}");
    let json = oneflush(&["identify", "--json"], &file);
    for line in String::from_utf8(json.stdout).unwrap().lines() {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (found["flushes"].is_null(), found["syncs"].as_u64()),
            (true, Some(3)),
            "{found}"
        );
        assert!(found["bytes"]["fs_journal"].is_null(), "{found}");
    }
    let report = String::from_utf8(oneflush(&["report"], &file).stdout).unwrap();
    let of_database = report.lines().find(|line| line.contains("DELETE FULL")).unwrap();
    assert!(of_database.ends_with('–'), "{report}");
}

/// The story: without times, `latency_ms` was null and its phases were some microseconds that
/// nobody had measured. Without sync calls, the report told 0.00 flushes.
#[test]
fn what_calls_without_times_or_syncs_do_not_show_is_no_zero() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.txt");
    let transaction = "pwrite64(3</d/a.db-journal>, \"\"..., 512, 0) = 512\n\
                       pwrite64(3</d/a.db-journal>, \"\"..., 4096, 516) = 4096\n\
                       pwrite64(3</d/a.db>, \"\"..., 4096, 0) = 4096\n\
                       unlink(\"/d/a.db-journal\") = 0\n";
    std::fs::write(&file, transaction.repeat(3)).unwrap();
    let json = String::from_utf8(oneflush(&["identify", "--json"], &file).stdout).unwrap();
    let found: serde_json::Value =
        serde_json::from_str(json.lines().next().expect("a transaction")).unwrap();
    let phases = found["phases"].as_object().unwrap();
    let times = phases.iter().filter(|(name, _)| name.ends_with("_ms"));
    assert!(found["latency_ms"].is_null() && times.clone().count() > 0, "{found}");
    assert!(times.into_iter().all(|(_, ms)| ms.is_null()), "{found}");
    let report: serde_json::Value =
        serde_json::from_slice(&oneflush(&["report", "--json"], &file).stdout).unwrap();
    assert!(report["traces"][0]["flushes"].is_null(), "{report}");
}

/// PERSIST on LUKS: what the program asks of the upper device, a thread of the kernel's sends to
/// the disk.
fn on_luks(without: &[&str]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = |who: &str, event: &str| {
        let us = 10 * lines.len();
        lines.push(format!("{who:>16} [000] ..... 1000.{us:06}: {event}\n"));
    };
    let mut ask = |rwbs: &str, at: u64, count: u64| {
        let below = if count > 0 { at + 32_768 } else { at };
        let (app, crypt) = ("app-100", "dmcrypt_write/2-77");
        line(app, &format!("block_bio_queue: 253,0 {rwbs} {at} + {count} [app]"));
        line(crypt, &format!("block_bio_remap: 8,0 {rwbs} {below} + {count} <- (253,0) {at}"));
        line(crypt, &format!("block_bio_queue: 8,0 {rwbs} {below} + {count} [dmcrypt_write/2]"));
        line(
            crypt,
            &format!(
                "block_rq_issue: 8,0 {rwbs} {} () {below} + {count} [dmcrypt_write/2]",
                count * 512
            ),
        );
        line("kworker/0:1H-54", &format!("block_rq_complete: 8,0 {rwbs} () {below} + {count} [0]"));
        line("kworker/0:1H-54", &format!("block_bio_complete: 253,0 {rwbs} {at} + {count} [0]"));
    };
    for _ in 0..10 {
        for group in [
            &[(40_000, 8), (40_008, 16)][..],
            &[(40_000, 8)],
            &[(8_000, 8), (8_064, 8)],
            &[(40_000, 8)],
        ] {
            group.iter().for_each(|&(at, count)| ask("WS", at, count));
            ask("FWS", 0, 0);
        }
    }
    lines.into_iter().filter(|line| !without.iter().any(|event| line.contains(event))).collect()
}

/// The story: such a trace without queue events told 0 transactions with exit code 0, and no
/// reason.
#[test]
fn what_a_trace_of_stacked_devices_lacks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let queues = "the trace lacks block_bio_queue: no transaction was found";
    let both = "the trace lacks block_bio_queue and block_rq_complete: no transaction was found";
    let ends = "the trace lacks block_rq_complete: times may be too short";
    let names = "no file has a name in the trace";
    let remaps = "device 253,0 seems to lie on or under another, and the trace does not say which";
    for (without, note, is_found) in [
        (&[][..], None, true),
        (&["bio_queue"], Some(queues), false),
        (&["bio_queue", "_complete"], Some(both), false),
        (&["rq_complete"], Some(ends), true),
        (&["_remap"], Some(remaps), true),
        // The disk's alone, by a thread of the kernel's.
        (&["bio_queue: 253,0", "_remap", "bio_complete"], Some(names), false),
    ] {
        std::fs::write(&file, on_luks(without)).unwrap();
        let table = identify(&file);
        assert_eq!(!table.contains("\n0 transactions of 0 databases\n"), is_found, "{table}");
        let json = oneflush(&["identify", "--json"], &file);
        let report = oneflush(&["report"], &file);
        let said = [table.into_bytes(), json.stderr, report.stdout].map(|text| {
            String::from_utf8(text).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        });
        for said in said {
            match note {
                Some(note) => assert!(said.contains(note), "{note}: {said}"),
                None => {
                    assert!(!said.contains("lacks") && !said.contains("seems to lie"), "{said}")
                }
            }
        }
    }
}

/// The story: without its syncs, such a trace was said to have no event that is needed. Without its
/// writes, it had 0 transactions and no reason.
#[test]
fn what_a_trace_of_calls_lacks_is_named() {
    let calls = [
        ("pwrite64(4</srv/app.db-journal>, \"\"..., 512, 0) = 512 <0.000012>", false),
        ("fdatasync(4</srv/app.db-journal>) = 0 <0.000900>", true),
        ("pwrite64(3</srv/app.db>, \"\"..., 4096, 0) = 4096 <0.000012>", false),
        ("fdatasync(3</srv/app.db>) = 0 <0.000900>", true),
        ("unlink(\"/srv/app.db-journal\") = 0 <0.000020>", false),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let no_sync = "no call in the trace synchronizes a file (fsync, fdatasync, RWF_DSYNC)";
    let no_write =
        "the trace lacks calls that write files (pwrite64, write): no transaction was found";
    for (has_writes, has_syncs, note) in
        [(true, true, None), (true, false, Some(no_sync)), (false, true, Some(no_write))]
    {
        let is_there = |call: &&(&str, bool)| if call.1 { has_syncs } else { has_writes };
        let lines = calls.iter().filter(is_there).enumerate();
        let text: String =
            lines.map(|(n, (call, _))| format!("12  1700000000.00{n}000 {call}\n")).collect();
        std::fs::write(&file, text).unwrap();
        let said = [identify(&file).into_bytes(), oneflush(&["identify", "--json"], &file).stderr]
            .into_iter()
            .chain([
                oneflush(&["report"], &file).stdout,
                oneflush(&["report", "--json"], &file).stdout,
            ])
            .map(|text| {
                String::from_utf8(text).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
            });
        for said in said {
            assert!(note.is_none_or(|note| said.contains(note)), "{note:?}: {said}");
            assert!(
                note.is_some() || !said.contains("lacks") && !said.contains("no call"),
                "{said}"
            );
        }
    }
}

#[test]
fn formats_that_are_not_read_are_refused_by_name_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    for (begin, name) in [
        ("     0.123 ( 0.005 ms): app/1234 fdatasync(fd: 3</a.db>)        = 0\n", "`perf trace`"),
        ("Attaching 3 probes...\n12:00:00 app 8,0 4096\n", "bpftrace"),
        (
            "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)\n0.000004001 \
                app 1950 xvda1 W 13092560 4096 0.74\n",
            "biosnoop",
        ),
    ] {
        let file = folder.path().join("trace.txt");
        std::fs::write(&file, begin).unwrap();
        let output = oneflush(&["identify"], &file);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains(name) && error.contains("record"),
            "{error}"
        );
    }
}
