//! `oneflush bench --paper all --short`: every claim of every paper has its line, wherever it runs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::browser::Browser;
use crate::common::{Sandbox, assert_refused, may_mount, stderr, stdout};

const PAPERS: [&str; 5] = ["lsmvbt", "eager", "io", "waldio", "maw"];

/// The verdicts of a paper.
fn verdicts(folder: &Path, paper: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(format!("{paper}.json"))).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    report["verdicts"].as_array().unwrap().clone()
}

fn measured(verdicts: &[Value]) -> usize {
    verdicts.iter().filter(|claim| !claim["verdict"].is_null()).count()
}

fn assert_whole(folder: &Path) {
    let page = fs::read_to_string(folder.join("papers.md")).unwrap();
    let mut claims = 0;
    for paper in PAPERS {
        assert!(page.contains(&format!("\n## `{paper}`\n")), "{paper}");
        let verdicts = verdicts(folder, paper);
        claims += verdicts.len();
        for claim in &verdicts {
            assert!(!claim["why"].as_str().unwrap().is_empty(), "{claim}");
        }
    }
    assert!(claims > 400, "{claims}");
    assert_eq!(page.matches("\n- **").count(), claims);
}

#[test]
fn all_papers_run_at_a_device_and_their_page_shows_each_claim_and_figure() {
    // It takes minutes, and who is not root sees each claim and figure in every commit.
    if !oneflush_testing::seed().is_multiple_of(2) {
        return oneflush_testing::skip(
            "runs in every second commit, with ONEFLUSH_TEST_SEED=2 always",
        );
    }
    if !may_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command.args(["bench", "--paper", "all", "--short", "-o", "results"]);
    if let Some(inputs) = oneflush_testing::shared_data("") {
        command.arg("--inputs").arg(inputs);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let folder = sandbox.path().join("results");
    assert_whole(&folder);
    for (paper, least) in [("lsmvbt", 90), ("eager", 50), ("io", 20), ("waldio", 40), ("maw", 25)] {
        let found = measured(&verdicts(&folder, paper));
        assert!(found >= least, "{paper}: {found} claims were measured");
    }
    // The thesis' first result, on what costs as a phone's flash does. It is 1.5 or more where
    // nothing else runs.
    let eager = verdicts(&folder, "eager");
    let is_first = |claim: &&Value| {
        claim["claim"].as_str().unwrap().starts_with("300 inserts: 1.73")
            && claim["claim"].as_str().unwrap().ends_with("on the emulated eMMC")
    };
    let first = eager.iter().find(is_first).unwrap();
    assert!(first["ours"].as_f64().unwrap() > 0.7, "{first}");
    assert!(stdout(&output).contains("| `waldio` |"), "{}", stdout(&output));
    sandbox.assert_nothing_left(&[]);
    page_works(&folder.join("papers.html"));
}

fn page_works(page: &Path) {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    browser.open(page);
    let rows = "document.querySelectorAll('table.claims tbody tr').length";
    let all = browser.number(rows);
    assert!(all > 400.0, "{all}");
    browser.evaluate(
        "(() => { const select = document.querySelector('#filter-verdict'); select.value = 'holds';
            select.dispatchEvent(new Event('change')); })()",
    );
    let holds = browser.number(rows);
    assert!(holds > 0.0 && holds < all, "{holds} of {all}");
    let bars = browser.number("document.querySelectorAll('.chart-row .own').length");
    let marks = browser.number("document.querySelectorAll('.chart-row .theirs').length");
    assert!(bars > 100.0 && marks > 30.0, "{bars} bars, {marks} marks");
    assert_eq!(browser.complaints, [""; 0]);
    let own = format!("file://{}", page.display());
    let foreign = |address: &&String| **address != own && !address.starts_with("data:");
    assert_eq!(browser.requests.iter().find(foreign), None);
}

#[test]
fn who_is_not_root_gets_the_page_with_what_is_missing_marked() {
    let sandbox = Sandbox::new();
    let folder = sandbox.open_directory("results");
    let mut command = sandbox.oneflush_as_nobody();
    command.args(["bench", "--paper", "all", "--short", "-o", "results"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_whole(&folder);
    let page = fs::read_to_string(folder.join("papers.md")).unwrap();
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for why in ["run it as root, without --dir", "--inputs DIR", "a guest has it: --guest"] {
        assert!(words.contains(why), "{why}");
    }
    assert!(measured(&verdicts(&folder, "lsmvbt")) > 20);
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn what_does_not_fit_all_papers_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("empty")).unwrap();
    for (arguments, code, words) in [
        (&["--paper", "al"][..], 2, &["al", "lsmvbt, eager, io, waldio, maw, or all"][..]),
        (&["--paper", "all", "--only", "Fig. 8"], 2, &["--only", "--paper"]),
        (&["--paper", "all", "--inputs", "nowhere"], 1, &["--inputs", "nowhere", "mobigen"]),
        (&["--paper", "all", "--inputs", "empty"], 1, &["empty", "mobigen/NAME.mobigen"]),
        (&["--short"], 2, &["--paper"]),
        (&["--inputs", "empty"], 2, &["--paper"]),
        (&["--think", "1"], 2, &["--think needs --replay"]),
    ] {
        let output = sandbox.oneflush().arg("bench").args(arguments).output().unwrap();
        assert_refused(&output, code, words);
    }
    sandbox.assert_nothing_left(&[]);
}

/// The operations of a recording, again, on a plain directory and through a mount.
#[test]
fn a_recording_of_file_operations_is_replayed_and_what_is_none_is_refused() {
    let sandbox = Sandbox::new();
    let recording = sandbox.path().join("app.mobigen");
    let mut text = String::from("1 0 open /data/app/a.db O_RDWR|O_CREAT 10\n");
    for at in 0..20 {
        text += &format!("1 {} pwrite 10 {} 4096\n", 100 * at, 4096 * (at % 5));
        text += &format!("2 {} fsync 10 0\n", 100 * at + 50);
    }
    fs::write(&recording, text).unwrap();
    let dir = sandbox.open_directory("dir");
    let mut command = sandbox.oneflush();
    command.args(["bench", "--replay", "app.mobigen", "--modes", "files", "--rounds", "2"]);
    let output = command.args(["--dir", "dir", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["modes"][0]["median"]["transactions"], 20);
    let workload = report["workload"].as_str().unwrap();
    assert!(workload.contains("41 file operations of 2 threads, 20 syncs"), "{workload}");
    sandbox.assert_nothing_left(&[&dir]);
    if may_mount() {
        let mut command = sandbox.oneflush();
        command.args(["bench", "--replay", "app.mobigen", "--rounds", "1", "--size", "256M"]);
        let output = command.arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let modes = report["modes"].as_array().unwrap();
        assert_eq!(modes.len(), 2);
        for mode in modes {
            assert_eq!(mode["median"]["transactions"], 20, "{mode}");
            let ratio = mode["median"]["sequential_ratio"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&ratio), "{mode}");
            assert!(mode["median"]["request_sectors_mean"].as_f64().unwrap() >= 8.0, "{mode}");
        }
        sandbox.assert_nothing_left(&[]);
    }
    fs::write(&recording, "SELECT 1;\n").unwrap();
    let arguments = ["bench", "--replay", "app.mobigen", "--dir", "dir"];
    let output = sandbox.oneflush().args(arguments).output().unwrap();
    assert_refused(&output, 1, &["app.mobigen, line 1", "24 6542073 write 199 698"]);
}
