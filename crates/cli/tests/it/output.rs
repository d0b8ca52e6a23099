//! The forms of a report: each can be read by what it is for, and carries the environment.

use std::process::Output;

use serde_json::Value;

use crate::common::{Sandbox, skip_unless_root, stderr, stdout};

/// A short run in a directory, so that it needs no root.
fn bench(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let dir = sandbox.path().join("dir");
    if !dir.exists() {
        sandbox.open_directory("dir");
    }
    let mut command = sandbox.oneflush();
    command.args(["bench", "--rounds", "2", "-n", "20", "--dir"]).arg(&dir).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    sandbox.assert_nothing_left(&[&dir]);
    output
}

#[test]
fn json_has_figures_rounds_histogram_and_environment() {
    let sandbox = Sandbox::new();
    let output = bench(&sandbox, &["--modes", "wal,delete:normal:sqlite", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let modes = report["modes"].as_array().unwrap();
    assert_eq!(modes[0]["mode"], "wal");
    assert_eq!(modes[1]["mode"], "delete:normal:sqlite");
    let median = &modes[0]["median"];
    assert_eq!(median["transactions"], 20);
    assert!(median["latency_ns"]["p50"].as_u64().unwrap() > 0);
    assert!(
        median["latency_ns"]["max"].as_u64().unwrap()
            >= median["latency_ns"]["p999"].as_u64().unwrap()
    );
    assert_eq!(median["counted_at"], "strategies");
    // Two frames of 24 + 4096 bytes and one sync; and once the WAL's header with a sync of its own.
    let journal_bytes = median["bytes_per_transaction_by_class"]["journal"].as_f64().unwrap();
    assert!((8240.0..8250.0).contains(&journal_bytes), "{journal_bytes}");
    let syncs = median["flushes_per_transaction"].as_f64().unwrap();
    assert!((1.0..1.1).contains(&syncs), "{syncs}");
    assert!(modes[1]["median"]["counted_at"].is_null());
    assert_eq!(modes[0]["rounds"].as_array().unwrap().len(), 2);
    let counts = modes[0]["latency_histogram_ns"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum::<u64>(), 40);
    assert!(report["environment"]["kernel"].as_str().unwrap().len() > 2);
    assert!(report["floor"]["p50_ns"].as_u64().unwrap() > 0);
    assert!(report["floor"]["max_ns"].as_u64() >= report["floor"]["p99_ns"].as_u64());
    assert!(report["conclusion"].as_str().unwrap().contains("times the floor"));
}

/// All strategies had what SQLite asked for: 8.3 KB and one sync, also `eager`, which writes half
/// of that. The picture drew equal bars.
#[test]
fn in_a_directory_each_strategy_has_what_it_wrote_in_every_form() {
    let sandbox = Sandbox::new();
    let modes = ["wal", "wal:plain", "wal:eager", "wal:waldio", "wal:sqlite"];
    let svg = sandbox.path().join("plot.svg");
    let arguments = ["--modes", &modes.join(","), "--json", "--plot", svg.to_str().unwrap()];
    let json = stdout(&bench(&sandbox, &arguments));
    let report: Value = serde_json::from_str(&json).unwrap();
    let median = |at: usize| &report["modes"][at]["median"];
    let number = |at: usize, name: &str| median(at)[name].as_f64();
    let bytes = |at: usize| number(at, "bytes_per_transaction");
    assert_eq!(report["counted_at"], "strategies");
    assert!((8240.0..8300.0).contains(&bytes(0).unwrap()), "two frames: {}", median(0));
    assert_eq!(bytes(0).map(f64::round), bytes(1).map(f64::round), "the same frames");
    assert!((4096.0..6000.0).contains(&bytes(2).unwrap()), "a block: {}", median(2));
    assert!((8192.0..16_000.0).contains(&bytes(3).unwrap()), "two blocks: {}", median(3));
    assert_eq!(bytes(4), None);
    // The log is new, and a WAL has its whole length.
    assert_eq!([0, 1].map(|at| number(at, "laid_out_bytes")), [Some(0.0); 2]);
    assert!(number(2, "laid_out_bytes").unwrap() >= 65_536.0, "{}", median(2));
    let writes = [0, 1, 2, 4].map(|at| number(at, "writes_per_transaction"));
    assert!(writes[0] >= Some(4.0) && writes[2] < Some(2.0), "{writes:?}");
    assert_eq!([writes[1], writes[3]], [None; 2]);
    for at in 0..3 {
        let classes = median(at)["bytes_per_transaction_by_class"].as_object().unwrap();
        let sum: f64 = classes.values().map(|bytes| bytes.as_f64().unwrap()).sum();
        assert!((sum - bytes(at).unwrap()).abs() < 1.0, "{classes:?}");
    }

    let saved = sandbox.path().join("run.json");
    std::fs::write(&saved, json).unwrap();
    let kb = [0, 1, 2, 3].map(|at| format!("{:.1}", bytes(at).unwrap() / 1024.0));
    for form in ["--format=table", "--format=brief", "--markdown"] {
        let mut command = sandbox.oneflush();
        let text = stdout(&command.args(["bench", form, "--from"]).arg(&saved).output().unwrap());
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for kb in &kb {
            assert!(words.contains(&format!(" {kb} ")), "{kb} is missing in {form}:\n{text}");
        }
        assert!(words.contains("by the strategies' own counters"), "{form}:\n{text}");
        assert!(words.contains("wal:eager: once "), "{form}:\n{text}");
        assert!(words.contains("in all less from transaction "), "{form}:\n{text}");
        let is_unknown = ["- -", "- | -"].iter().any(|cells| words.contains(cells));
        assert!(is_unknown || form == "--format=brief", "the file system's own:\n{text}");
    }
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.contains(&format!(">{}</text>", kb[0])), "{picture}");
    assert!(picture.contains(&format!(">{} +", kb[2])) && picture.contains(">by the strategies"));
}

#[test]
fn options_of_a_strategy_are_in_force_and_every_form_carries_them() {
    let sandbox = Sandbox::new();
    let modes = ["wal-growing:plain+prealloc=0", "wal-growing:plain+prealloc=65536+keep_wal=off"];
    let svg = sandbox.path().join("plot.svg");
    let arguments = ["--modes", &modes.join(","), "--json", "--plot", svg.to_str().unwrap()];
    let json = stdout(&bench(&sandbox, &arguments));
    let report: Value = serde_json::from_str(&json).unwrap();
    let wal_bytes = |at: usize| {
        assert_eq!(report["modes"][at]["mode"], modes[at]);
        report["modes"][at]["median"]["wal_bytes_at_end"].as_u64().unwrap()
    };
    // 20 commits of two frames behind the WAL's header, and the same in whole extents.
    assert_eq!(wal_bytes(0), 32 + 20 * 2 * (24 + 4096));
    assert_eq!(wal_bytes(1), 3 * 65536);
    let text = std::fs::read_to_string(&svg).unwrap();
    assert!(text.contains(">wal-growing:plain</text>") && text.contains("+keep_wal=off</text>"));
    let saved = sandbox.path().join("run.json");
    std::fs::write(&saved, json).unwrap();
    for form in ["--format=table", "--markdown", "--csv"] {
        let mut command = sandbox.oneflush();
        let output = command.args(["bench", form, "--from"]).arg(&saved).output().unwrap();
        let text = stdout(&output);
        assert!(modes.iter().all(|mode| text.contains(mode)), "{}{text}", stderr(&output));
    }
}

#[test]
fn csv_has_as_many_fields_in_every_line_as_in_its_head() {
    let sandbox = Sandbox::new();
    let text = stdout(&bench(&sandbox, &["--modes", "wal,memory:sqlite", "--csv"]));
    let lines: Vec<Vec<String>> = text.lines().map(csv_fields).collect();
    assert_eq!(lines.len(), 1 + 2 * 2, "head, modes x rounds:\n{text}");
    for line in &lines {
        assert_eq!(line.len(), lines[0].len(), "{line:?}");
    }
    let at = |name: &str| lines[0].iter().position(|field| field == name).unwrap();
    assert_eq!(lines[1][at("mode")], "wal");
    assert_eq!(lines[1][at("transactions")], "20");
    assert_eq!(lines[1][at("counted_at")], "strategies");
    assert!(lines[1][at("mount_options")].starts_with("rw"));
    assert_eq!(lines[3][at("bytes_per_transaction")], "");
}

/// RFC 4180, without line breaks in fields.
fn csv_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(other),
        }
    }
    fields
}

#[test]
fn the_table_fits_80_columns_and_says_where_it_counted() {
    let sandbox = Sandbox::new();
    let output =
        bench(&sandbox, &["--modes", "wal-growing:normal:sqlite,truncate:normal:sqlite,wal"]);
    let text = stdout(&output);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for words in [
        "txn/s",
        "p99.9",
        "KB",
        "journal, WAL",
        "CPU µs",
        "floor:",
        "SQLite 3.",
        "strategies' own counters",
    ] {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    assert!(text.trim_end().lines().last().unwrap().ends_with('.'), "{text}");
    assert!(stderr(&output).contains("round 2 of 2 done"));
}

#[test]
fn markdown_has_two_tables_and_the_environment() {
    let sandbox = Sandbox::new();
    let text = stdout(&bench(&sandbox, &["--modes", "wal,delete", "--markdown"]));
    assert_eq!(text.lines().filter(|line| line.starts_with("| ---")).count(), 2, "{text}");
    assert!(text.starts_with("**") && text.contains("```text\noneflush"), "{text}");
}

#[test]
fn mobibench_format_is_mobibenchs_line() {
    let sandbox = Sandbox::new();
    let output = bench(
        &sandbox,
        &[
            "--mobibench",
            "-d",
            "0",
            "-j",
            "3",
            "-s",
            "2",
            "-t",
            "2",
            "-T",
            "3",
            "-D",
            "2",
            "-i",
            "0",
            "-R",
            "1",
            "--format",
            "mobibench",
        ],
    );
    let text = stdout(&output);
    assert!(text.starts_with("[TIME] :       0 sec "), "{text}");
    assert!(text.contains("us. \t") && text.ends_with(" Transactions/sec\n"), "{text}");
}

#[test]
fn every_workload_runs_with_threads_and_with_processes() {
    let sandbox = Sandbox::new();
    for workers in ["threads", "processes"] {
        for workload in ["insert", "update", "delete", "mixed"] {
            let arguments = [
                "--workload",
                workload,
                "--as",
                workers,
                "-t",
                "3",
                "--modes",
                "wal,persist",
                "--json",
            ];
            let report: Value =
                serde_json::from_slice(&bench(&sandbox, &arguments).stdout).unwrap();
            for mode in report["modes"].as_array().unwrap() {
                assert_eq!(mode["median"]["transactions"], 20, "{workload} {workers}");
                assert!(mode["median"]["bytes_per_transaction"].as_f64().unwrap() > 4096.0);
            }
        }
        for operation in ["0", "1", "2"] {
            let arguments =
                ["--mobibench", "-d", operation, "-j", "2", "--as", workers, "-t", "2", "--json"];
            let report: Value =
                serde_json::from_slice(&bench(&sandbox, &arguments).stdout).unwrap();
            assert_eq!(report["modes"][0]["median"]["transactions"], 20, "{operation} {workers}");
        }
    }
}

#[test]
fn a_rate_is_kept() {
    let sandbox = Sandbox::new();
    let arguments = ["--modes", "memory:off", "--rate", "40", "-t", "2", "--json"];
    let report: Value = serde_json::from_slice(&bench(&sandbox, &arguments).stdout).unwrap();
    let rate = report["modes"][0]["median"]["transactions_per_s"].as_f64().unwrap();
    // 20 transactions of two connections: the last ones begin after 9/20 s, so a little more than
    // 40 is measured.
    assert!((36.0..=50.0).contains(&rate), "{rate}");
}

/// Before the first measurement a terminal said "0/0 … about 0s left".
#[test]
fn progress_tells_no_number_before_there_is_one() {
    if !oneflush_testing::has_programs(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    let mut program = sandbox.oneflush();
    program.args(["bench", "--modes", "memory:off", "-n", "5", "--rounds", "1", "--dir"]).arg(&dir);
    let script = "import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut at_a_terminal = std::process::Command::new("python3");
    at_a_terminal.args(["-c", script]).arg(program.get_program()).args(program.get_args());
    let output = at_a_terminal.output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(text.contains("making a place to measure"), "{text}");
    assert!(!text.contains("0/0"), "{text}");
    assert!(text.contains("0/1") && text.contains("about"), "{text}");
}

#[test]
fn plots_are_written_as_svg_and_as_png() {
    let sandbox = Sandbox::new();
    let svg = sandbox.path().join("plot.svg");
    bench(&sandbox, &["--modes", "wal,delete:sqlite", "--plot", svg.to_str().unwrap()]);
    let text = std::fs::read_to_string(&svg).unwrap();
    assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"));
    assert!(
        text.contains(">delete:sqlite</text>")
            && text.contains(">wal:stock</text>")
            && text.contains("not counted")
    );
    let png = sandbox.path().join("plot.PNG");
    bench(&sandbox, &["--modes", "wal", "--plot", png.to_str().unwrap()]);
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
}

#[test]
fn a_saved_run_is_told_and_drawn_again_without_measuring() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path().join(name);
    let pictures = |svg: &str, png: &str| {
        let options = [("--plot", svg), ("--plot-latency", png)];
        options.map(|(option, name)| [option.to_owned(), at(name).display().to_string()]).concat()
    };
    let run = |arguments: &[&str], pictures: Vec<String>| {
        let output =
            sandbox.oneflush().arg("bench").args(arguments).args(pictures).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let saved = at("run.json");
    let measured =
        ["--modes", "wal,delete:sqlite", "-n", "40", "-t", "1,2", "--rounds", "2", "--json"];
    let json = run(&measured, pictures("first.svg", "first.png"));
    std::fs::write(&saved, &json).unwrap();
    let from = ["--from", saved.to_str().unwrap()];
    assert_eq!(run(&[&from[..], &["--json"]].concat(), pictures("again.svg", "again.png")), json);
    for kind in ["svg", "png"] {
        let read = |name: &str| std::fs::read(at(&format!("{name}.{kind}"))).unwrap();
        assert!(read("first") == read("again"), "{kind}");
    }
    let table = run(&from, Vec::new());
    assert!(table.contains("delete:sqlite ×2") && table.contains("floor:"), "{table}");
}

#[test]
fn help_shows_examples() {
    for command in ["bench", "probe"] {
        let text = stdout(&Sandbox::new().oneflush().args([command, "--help"]).output().unwrap());
        assert!(text.contains("Examples:"), "{text}");
        assert!(!text.contains("__worker"));
    }
}

#[test]
fn at_a_device_of_our_own_the_classes_sum_to_the_total() {
    if skip_unless_root("--fs") {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command
        .args(["bench", "--fs", "ext4", "--size", "64M", "--rounds", "1", "-n", "200", "--json"]);
    let output = command.args(["--modes", "delete,delete:sqlite"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let source = report["counted_at"].as_str().unwrap();
    assert!(source.starts_with("block_device"), "{source}");
    for mode in report["modes"].as_array().unwrap() {
        let median = &mode["median"];
        let total = median["bytes_per_transaction"].as_f64().unwrap();
        assert!((50.0..80.0).contains(&(total / 1024.0)), "{total}");
        if source == "block_device" {
            let classes = median["bytes_per_transaction_by_class"].as_object().unwrap();
            let sum: f64 = classes.values().map(|bytes| bytes.as_f64().unwrap()).sum();
            assert!((sum - total).abs() < 1.0, "{sum} of {total}");
        }
    }
    sandbox.assert_nothing_left(&[]);
}
