//! What each workload and each number of connections must leave in a report.

use std::process::Stdio;

use oneflush_testing::wait_until;
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, skip_unless_root, stderr, stdout};

fn text_of(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let dir = sandbox.path().join("dir");
    if !dir.exists() {
        sandbox.open_directory("dir");
    }
    let mut command = sandbox.oneflush();
    command.arg("bench").args(arguments);
    if !arguments.contains(&"--fs") {
        command.arg("--dir").arg(&dir);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    sandbox.assert_nothing_left(&[&dir]);
    stdout(&output)
}

fn report(arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&text_of(&Sandbox::new(), &arguments)).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn every_mode_runs_with_every_number_of_connections() {
    let arguments = ["--modes", "wal:sqlite,wal", "-t", "1,4", "-n", "40", "--rounds", "2"];
    let report = report(&arguments);
    let modes = report["modes"].as_array().unwrap();
    let rows: Vec<(&str, u64)> = modes
        .iter()
        .map(|mode| (mode["mode"].as_str().unwrap(), mode["connections"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, [("wal:sqlite", 1), ("wal", 1), ("wal:sqlite", 4), ("wal", 4)]);
    for mode in modes {
        assert_eq!(mode["median"]["transactions"], 40);
        assert_eq!(mode["to_control"].is_null(), mode["mode"] == "wal:sqlite", "{}", mode["mode"]);
    }
    // Which of both is faster is noise, and so is whether the floor is told.
    let conclusion = report["conclusion"].as_str().unwrap();
    for told in ["WAL (our VFS, stock)", " stock SQLite", "ith 1 connection", "ith 4 connections"] {
        assert!(conclusion.contains(told), "{told}: {conclusion}");
    }

    let sandbox = Sandbox::new();
    let table = text_of(&sandbox, &arguments);
    assert!(table.contains("\nwal:sqlite ×1 ") && table.contains("\nwal ×4 "), "{table}");
    let csv = text_of(
        &sandbox,
        &["--modes", "wal", "--writers", "1,4", "-n", "8", "--rounds", "1", "--csv"],
    );
    let at =
        csv.lines().next().unwrap().split(',').position(|name| name == "transactions").unwrap();
    assert_eq!(
        csv.lines().skip(1).map(|line| line.split(',').nth(at).unwrap()).collect::<Vec<_>>(),
        ["8", "8"]
    );
}

#[test]
fn sixteen_writers_all_commit_with_threads_and_with_processes() {
    for workers in ["threads", "processes"] {
        let modes = "wal:off:sqlite,wal:off,wal";
        let report =
            report(&["--modes", modes, "-t", "16", "--as", workers, "-n", "800", "--rounds", "1"]);
        for mode in report["modes"].as_array().unwrap() {
            // The program itself compares the rows of the table with what was acknowledged.
            assert_eq!(mode["median"]["transactions"], 800, "{workers}, {}", mode["mode"]);
            let latency = &mode["median"]["latency_ns"];
            assert!(
                number(&latency["max"]) >= number(&latency["p99"]) && number(&latency["p99"]) > 0.0
            );
        }
    }
}

/// An open and a close of a log cost more flushes than those of a WAL, so programs that open for
/// each commit are slower.
#[test]
fn the_headline_of_a_run_in_which_ours_is_slower_says_so_first() {
    let arguments =
        ["--workload", "reopen", "--modes", "wal,wal:plain,wal:eager", "-n", "60", "--rounds", "3"];
    // On a noisy device another mode may be slower still, and is then said before.
    let says_so_first = |text: &str| {
        let (first, _) = text.split_once(": ").unwrap();
        first.contains(" SLOWER than stock SQLite") && text.contains("WAL (eager) is ")
    };
    let conclusion = report(&arguments)["conclusion"].as_str().unwrap().to_owned();
    assert!(says_so_first(&conclusion), "{conclusion}");
    assert!(conclusion.contains("WAL (plain) is "), "{conclusion}");
    let sandbox = Sandbox::new();
    let table = text_of(&sandbox, &arguments);
    let last = table.trim_end().rsplit("\n\n").next().unwrap();
    assert!(says_so_first(&last.replace('\n', " ")), "{table}");
    let markdown = text_of(&sandbox, &[&arguments[..], &["--markdown"]].concat());
    let first = markdown.lines().next().unwrap();
    assert!(first.starts_with("**") && says_so_first(first), "{markdown}");
    // Who measures only ours is told what is missing.
    let alone =
        text_of(&sandbox, &["--modes", "wal:eager", "-n", "20", "--rounds", "1", "--markdown"]);
    assert!(alone.starts_with("**There is nothing to compare WAL (eager) with, "), "{alone}");
    assert!(alone.contains("add it, --modes wal,wal:eager."), "{alone}");
}

/// Processes of this parent that are busy loops.
fn busy_loops(parent: u32) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let wanted = format!("__busy\0{parent}\0");
    processes
        .filter(|path| {
            std::fs::read_to_string(path.join("cmdline")).is_ok_and(|it| it.ends_with(&wanted))
        })
        .count()
}

#[test]
fn busy_loops_run_beside_the_writers_and_end_with_the_program_even_if_it_is_killed() {
    let text =
        text_of(&Sandbox::new(), &["--busy", "2", "--modes", "wal", "-n", "20", "--rounds", "1"]);
    assert!(text.contains("beside 2 busy loops"), "{text}");

    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    let dir = sandbox.open_directory("dir");
    command
        .args(["bench", "--busy", "2", "--modes", "wal", "--rate", "1", "-n", "100000", "--dir"])
        .arg(dir);
    let mut child = oneflush_testing::Running::start(command.stdout(Stdio::null()));
    let pid = child.id();
    wait_until("two busy loops", || busy_loops(pid) == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no busy loop", || busy_loops(pid) == 0);
}

#[test]
fn a_cycle_opens_commits_three_times_and_closes() {
    for workers in ["threads", "processes"] {
        let modes = "wal:sqlite,wal,wal-growing,delete";
        let arguments =
            ["--workload", "reopen", "--modes", modes, "-n", "7", "--rounds", "2", "--as", workers];
        let report = report(&arguments);
        assert_eq!(report["unit"], "cycle");
        for mode in report["modes"].as_array().unwrap() {
            assert_eq!(mode["median"]["transactions"], 7, "{workers}, {}", mode["mode"]);
            assert!(
                mode["median"]["counted_at"].is_null(),
                "nobody stays in the database to count"
            );
        }
    }
    let sandbox = Sandbox::new();
    let table =
        text_of(&sandbox, &["--workload", "reopen", "--modes", "wal", "-n", "5", "--rounds", "1"]);
    assert!(
        table.contains("cycle/s") && table.contains("opens, commits three times and closes in"),
        "{table}"
    );
}

#[test]
fn reads_of_pages_in_the_wal_do_not_go_to_the_database() {
    let arguments = ["--workload", "point-in-wal", "--modes", "wal", "-n", "3000", "--rounds", "1"];
    let report = report(&arguments);
    let stats = &report["modes"][0]["vfs_stats"][0][0];
    let reads = |file: &str| {
        let of = |when: &str| stats[when]["files"][file]["reads"].as_u64().unwrap();
        of("at_end") - of("at_begin")
    };
    assert!(reads("wal") > 1000 && reads("db") < 10, "{} {}", reads("wal"), reads("db"));
    let sandbox = Sandbox::new();
    let refused = |arguments: &[&str]| {
        let mut command = sandbox.oneflush();
        command.args(["bench", "--workload", "point-in-wal"]).args(arguments).output().unwrap()
    };
    assert_refused(&refused(&["--modes", "wal,delete"]), 2, &["delete", "use wal"]);
    assert_refused(&refused(&["--beside-writer"]), 2, &["--beside-writer", "point or scan"]);
}

/// 31 rows fit one page of the table, whose commits then are one frame each.
#[test]
fn a_commit_of_one_page_is_one_frame() {
    let arguments = ["--workload", "one-page", "--modes", "wal", "-n", "31", "--rounds", "1"];
    let report = report(&arguments);
    let bytes = number(&report["modes"][0]["median"]["bytes_per_transaction"]);
    // And once the header of the WAL.
    assert!((4120.0..4123.0).contains(&bytes), "{bytes}");
}

#[test]
fn at_a_device_a_cycle_has_its_commits_flushes_and_those_of_its_close() {
    if skip_unless_root("--fs") {
        return;
    }
    let arguments =
        ["--workload", "reopen", "--fs", "ext4", "--size", "64M", "--rounds", "1", "-n", "50"];
    let report = report(&[&arguments[..], &["--modes", "wal:sqlite,wal"]].concat());
    for mode in report["modes"].as_array().unwrap() {
        // At least three commits, the WAL's header and the checkpoint. A journal may add some.
        let flushes = number(&mode["median"]["flushes_per_transaction"]);
        assert!((4.0..20.0).contains(&flushes), "{flushes}");
    }
}

#[test]
fn reads_are_checked_timed_and_compared_with_sqlite_alone() {
    // So many that the writer gets a processor meanwhile, also of a busy machine.
    for (workload, count) in [("point", "30000"), ("scan", "20")] {
        let arguments =
            ["--workload", workload, "--modes", "wal:sqlite,wal", "-n", count, "--rounds", "2"];
        let alone = report(&arguments);
        assert_eq!(alone["unit"], "read");
        let modes = alone["modes"].as_array().unwrap();
        assert_eq!(modes[0]["median"]["transactions"].to_string(), count);
        assert!(modes[0]["to_control"].is_null() && modes[0]["median"]["beside"].is_null());
        assert_eq!(modes[1]["to_control"]["control"], "wal:sqlite");
        let spread = &modes[1]["to_control"]["mean"];
        assert!(number(&spread["lowest"]) <= number(&spread["median"]), "{spread}");
        assert!(number(&spread["median"]) <= number(&spread["highest"]), "{spread}");

        for workers in ["threads", "processes"] {
            let beside = report(
                &[&arguments[..], &["--beside-writer", "-t", "2", "--as", workers]].concat(),
            );
            for mode in beside["modes"].as_array().unwrap() {
                assert_eq!(mode["median"]["transactions"].to_string(), count);
                assert!(
                    number(&mode["median"]["beside"]["commits"]) > 0.0,
                    "{workload}, {}",
                    mode["mode"]
                );
                assert!(
                    mode["median"]["bytes_per_transaction"].is_null(),
                    "the bytes are the writer's"
                );
            }
        }
    }
    let arguments = [
        "--workload",
        "point",
        "--beside-writer=100",
        "--modes",
        "wal:off",
        "-n",
        "20000",
        "--rounds",
        "1",
    ];
    let commits_per_s =
        number(&report(&arguments)["modes"][0]["median"]["beside"]["commits_per_s"]);
    assert!(commits_per_s > 0.0 && commits_per_s < 150.0, "{commits_per_s}");
    let sandbox = Sandbox::new();
    let arguments = [
        "--workload",
        "point",
        "--beside-writer",
        "--modes",
        "wal:sqlite,wal",
        "-n",
        "500",
        "--rounds",
        "1",
    ];
    let table = text_of(&sandbox, &arguments);
    // The sentence may be broken anywhere.
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("read/s") && words.contains("commit/s"), "{table}");
    assert!(words.contains("a read takes "), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn modes_that_read_in_turns_read_as_much_and_the_writer_beside_them_commits_in_each() {
    for (workload, count) in [("point", "20000"), ("scan", "6")] {
        let arguments = [
            "--workload",
            workload,
            "--in-turns",
            "--modes",
            "wal:sqlite,wal:sqlite,wal:plain",
            "-n",
            count,
        ];
        let report = report(&[&arguments[..], &["--rounds", "2", "--beside-writer"]].concat());
        assert_eq!(report["in_turns"], true);
        for mode in report["modes"].as_array().unwrap() {
            for round in mode["rounds"].as_array().unwrap() {
                assert_eq!(round["transactions"].to_string(), count);
                assert!(number(&round["beside"]["commits"]) > 0.0, "{workload}, {}", mode["mode"]);
            }
        }
        assert_eq!(report["modes"][2]["to_control"]["control"], "wal:sqlite");
        assert!(
            report["modes"][2]["vfs_stats"][1][0]["at_end"]["plain"]["turns"]["waits"].is_u64()
        );
    }
    let sandbox = Sandbox::new();
    let arguments = [
        "--workload",
        "scan",
        "--in-turns",
        "--modes",
        "wal:sqlite,wal",
        "-n",
        "2",
        "--rounds",
        "1",
    ];
    let table = text_of(&sandbox, &arguments);
    assert!(
        table.replace('\n', " ").contains("all modes in turns") && !table.contains("commit/s"),
        "{table}"
    );
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn modes_that_commit_in_turns_commit_as_much_as_the_floor_writes() {
    let arguments = ["--in-turns", "-n", "60", "--rounds", "2"];
    let report = report(&arguments);
    assert_eq!(report["in_turns"], true);
    let modes: Vec<&str> = report["modes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| mode["mode"].as_str().unwrap())
        .collect();
    assert_eq!(modes, ["wal:sqlite", "wal:plain", "wal:eager"]);
    for mode in report["modes"].as_array().unwrap() {
        for round in mode["rounds"].as_array().unwrap() {
            assert_eq!(round["transactions"], 60);
            assert!(round["counted_at"].is_null(), "nobody can tell whose a write is");
        }
    }
    // The turn in which a connection finds that it has committed all is the floor's, too.
    assert_eq!(report["floor"]["writes"], 2 * 80);
    assert_eq!(report["modes"][2]["to_control"]["control"], "wal:sqlite");
    let sandbox = Sandbox::new();
    let table = text_of(&sandbox, &[&arguments[..], &["--workload", "indexed"]].concat());
    assert!(table.contains("p50/floor") && !table.contains("KB"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

/// Without the reader, the WAL is reset after 1,000 frames (4.2 MB). The set-up's transaction makes
/// it 4.6 MB long. While the reader holds its snapshot, each insert adds two frames. At 4,000 a
/// second that is 30 MB; a busy machine does not reach it.
#[test]
fn a_reader_that_keeps_its_snapshot_makes_the_wal_grow_and_its_time_is_told_apart() {
    for workers in ["threads", "processes"] {
        let arguments = [
            "--workload",
            "long-reader",
            "--hold",
            "0.9",
            "-t",
            "3",
            "--rate",
            "4000",
            "--rounds",
            "1",
        ];
        let report = report(
            &[&arguments[..], &["--modes", "wal:off:sqlite,wal:off", "--as", workers]].concat(),
        );
        for mode in report["modes"].as_array().unwrap() {
            let median = &mode["median"];
            let phases = median["phases"].as_array().unwrap();
            let names: Vec<&str> =
                phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["before", "while", "after"]);
            let sum: u64 = phases.iter().map(|phase| phase["transactions"].as_u64().unwrap()).sum();
            assert_eq!(median["transactions"], sum);
            let seconds = number(&phases[1]["seconds"]);
            assert!((0.89..0.91).contains(&seconds), "{seconds}");
            assert!(
                phases.iter().all(|phase| phase["transactions"].as_u64().unwrap() > 0),
                "{phases:?}"
            );
            let wal_bytes = number(&median["wal_bytes_at_end"]);
            // Half of it: the reader may have come late.
            let frame_of_each = number(&phases[1]["transactions"]) * 4120.0;
            assert!(wal_bytes > frame_of_each.max(5e6), "{workers}, {}: {wal_bytes}", mode["mode"]);
        }
    }
    let sandbox = Sandbox::new();
    let arguments =
        ["--workload", "long-reader", "--hold", "0.3", "--modes", "wal", "--rounds", "1"];
    let table = text_of(&sandbox, &arguments);
    assert!(table.contains("while/before"), "{table}");
    let csv = text_of(&sandbox, &[&arguments[..], &["--csv"]].concat());
    assert!(csv.lines().next().unwrap().contains("while_per_s"), "{csv}");
}

#[test]
fn without_a_reader_the_wal_does_not_grow() {
    let report = report(&["--modes", "wal:off", "-n", "4000", "--rounds", "1"]);
    let wal_bytes = number(&report["modes"][0]["median"]["wal_bytes_at_end"]);
    assert!(wal_bytes < 5e6, "{wal_bytes}");
}

#[test]
fn a_workload_refuses_what_does_not_fit_it() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    for (arguments, words) in [
        (&["--workload", "long-reader", "--modes", "wal,delete"][..], ["mode delete", "use wal"]),
        (&["--hold", "3"], ["--hold", "long-reader"]),
        (&["--workload", "scan", "--hold", "3"], ["--hold", "long-reader"]),
        (&["--beside-writer"], ["--beside-writer", "point or scan"]),
        (&["--workload", "long-reader", "--hold", "0"], ["--hold", "0.001"]),
        (&["--connections", "4,0"], ["--connections", "0"]),
        (&["--workload", "reopen", "--in-turns"], ["--in-turns", "point or scan"]),
        (&["--in-turns", "--modes", "wal-growing"], ["--in-turns", "wal-growing"]),
        (&["--workload", "point", "--in-turns", "-t", "2"], ["--in-turns", "one connection"]),
        (
            &["--workload", "scan", "--in-turns", "--as", "processes"],
            ["--in-turns", "one connection"],
        ),
        (&["--mobibench", "--beside-writer"], ["--mobibench", "--beside-writer"]),
    ] {
        let output =
            sandbox.oneflush().args(["bench", "--dir"]).arg(&dir).args(arguments).output().unwrap();
        assert_refused(&output, 2, &words);
    }
    sandbox.assert_nothing_left(&[&dir]);
}

/// The set-up once stayed open and had made the WAL: what a strategy writes ahead was in no figure.
#[test]
fn a_fresh_database_is_measured_from_its_first_opening() {
    let report = report(&["--modes", "wal-growing,wal", "-n", "1200", "--rounds", "1"]);
    let stats = |at: usize| &report["modes"][at]["vfs_stats"][0][0];
    assert_eq!(report["modes"][0]["median"]["transactions"], 1200);
    assert!(stats(0)["at_begin"].is_null() && stats(1)["at_begin"]["commits"]["count"].is_u64());
    // Its counters begin with the first commit, and with the WAL's header of 32 bytes.
    assert_eq!(stats(0)["at_end"]["commits"]["count"], 1200);
    let wal_bytes = number(&stats(0)["at_end"]["files"]["wal"]["write_bytes"]);
    assert!(wal_bytes >= 1200.0 * 2.0 * 4120.0 + 32.0, "{wal_bytes}");
}

#[test]
fn at_a_device_the_first_commits_pay_for_the_growth_of_the_wal() {
    if skip_unless_root("--fs") {
        return;
    }
    let arguments = [
        "--fs",
        "ext4",
        "--size",
        "64M",
        "--rounds",
        "1",
        "-n",
        "300",
        "--modes",
        "wal-growing,wal",
    ];
    let report = report(&arguments);
    let bytes =
        |at: usize| number(&report["modes"][at]["median"]["bytes_per_transaction"]) / 1024.0;
    assert!(bytes(0) > 20.0 && bytes(1) < 16.0, "{} KB growing, {} KB steady", bytes(0), bytes(1));
}

#[test]
fn counters_of_the_vfs_are_in_the_report_as_they_were_said() {
    for (workers, entries) in [("threads", 1), ("processes", 3)] {
        let arguments =
            ["--modes", "wal,wal:sqlite", "-t", "3", "-n", "60", "--rounds", "2", "--as", workers];
        let report = report(&arguments);
        let rounds = report["modes"][0]["vfs_stats"].as_array().unwrap();
        assert_eq!(rounds.len(), 2);
        for round in rounds {
            let round = round.as_array().unwrap();
            assert_eq!(round.len(), entries, "{workers}");
            let count = |stats: &Value| stats["commits"]["count"].as_u64().unwrap();
            let commits: u64 =
                round.iter().map(|stats| count(&stats["at_end"]) - count(&stats["at_begin"])).sum();
            assert_eq!(commits, 60, "{workers}");
            assert_eq!(round[0]["at_end"]["strategy"], "stock");
        }
        assert_eq!(report["modes"][1]["vfs_stats"], Value::Array(Vec::new()));
    }
}

#[test]
fn a_hundred_thousand_commits_keep_their_longest_in_a_timeline_of_bounded_length() {
    let report = report(&["--modes", "wal:off", "-n", "100000", "--rounds", "1"]);
    let mode = &report["modes"][0];
    assert_eq!(mode["median"]["transactions"], 100_000);
    let list = |name: &str| -> Vec<u64> {
        mode["latency_timeline"][name]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_u64().unwrap())
            .collect()
    };
    assert!(list("counts").len() <= 512, "{}", list("counts").len());
    assert_eq!(list("counts").iter().sum::<u64>(), 100_000);
    assert_eq!(list("max_ns").into_iter().max(), mode["median"]["latency_ns"]["max"].as_u64());
}

/// Every workload runs each strategy that the VFS knows, and checks its contents. Threads or
/// processes: that follows from the seed.
#[test]
fn every_strategy_runs_every_workload() {
    let all = oneflush_vfs::StrategyKind::ALL.iter();
    let in_wal: Vec<String> = all
        .filter(|kind| !kind.is_for_rollback())
        .map(|kind| format!("wal:{}", kind.name()))
        .collect();
    let in_wal = in_wal.join(",");
    let modes = format!("{in_wal},persist:maw+atomic=log");
    for (n, arguments) in [
        &["-t", "1,8", "-n", "200"][..],
        &["-t", "4", "-n", "80", "--workload", "mixed"],
        &["-t", "2", "-n", "80", "--workload", "indexed"],
        &["-t", "2", "-n", "80", "--workload", "one-page"],
        &["-t", "2", "-n", "8", "--workload", "reopen"],
        &["-t", "2", "-n", "400", "--workload", "point", "--beside-writer"],
        &["-n", "3", "--workload", "scan"],
        &["-t", "2", "-n", "400", "--workload", "point-in-wal"],
        &["-t", "3", "--hold", "0.3", "--workload", "long-reader"],
        &["-t", "2", "-n", "40", "--mobibench", "-T", "2"],
        &["-n", "40", "--workload", "attached=3"],
    ]
    .into_iter()
    .enumerate()
    {
        // A reader that keeps its snapshot keeps out every writer of a rollback mode.
        let is_for_wal = ["long-reader", "point-in-wal", "--beside-writer"]
            .iter()
            .any(|of| arguments.contains(of));
        let modes = if is_for_wal { &in_wal } else { &modes };
        let workers = ["threads", "processes"][(oneflush_testing::seed() as usize + n) % 2];
        let report =
            report(&[arguments, &["--modes", modes, "--as", workers, "--rounds", "1"]].concat());
        for mode in report["modes"].as_array().unwrap() {
            let count = mode["median"]["transactions"].as_u64().unwrap();
            assert!(count > 0, "{arguments:?}, {workers}, {}", mode["mode"]);
            // Its WAL is a file of another name, which is there until the last close.
            if mode["mode"] == "wal:waldio" && !arguments.contains(&"reopen") {
                let bytes = mode["median"]["wal_bytes_at_end"].as_u64().unwrap();
                assert!(bytes >= 4096, "{arguments:?}, {workers}, {bytes}");
            }
            if let Some(at) = arguments.iter().position(|argument| *argument == "-n") {
                let asked = arguments[at + 1];
                assert_eq!(count.to_string(), asked, "{arguments:?}, {workers}, {}", mode["mode"]);
            }
        }
    }
}

#[test]
fn latencies_over_time_are_drawn_with_a_panel_for_each_row() {
    let sandbox = Sandbox::new();
    let svg = sandbox.path().join("latency.svg");
    let arguments =
        ["--modes", "wal,delete:off", "-t", "1,2", "-n", "40", "--rounds", "1", "--plot-latency"];
    text_of(&sandbox, &[&arguments[..], &[svg.to_str().unwrap()]].concat());
    let text = std::fs::read_to_string(&svg).unwrap();
    for row in ["wal, 1 writer", "delete:off, 1 writer", "wal, 2 writers", "delete:off, 2 writers"]
    {
        assert!(text.contains(&format!(">{row}: 40 commits")), "{row}: {text}");
    }
    assert!(text.trim_end().ends_with("</svg>"));
    let png = sandbox.path().join("latency.png");
    let reads =
        ["--workload", "point", "-n", "100", "--modes", "wal", "--rounds", "1", "--plot-latency"];
    text_of(&sandbox, &[&reads[..], &[png.to_str().unwrap()]].concat());
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    let output =
        sandbox.oneflush().args(["bench", "--plot-latency", "result.pdf"]).output().unwrap();
    assert_refused(&output, 2, &["--plot-latency result.pdf", ".svg or .png"]);
}
