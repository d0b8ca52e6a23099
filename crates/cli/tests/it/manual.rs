//! The man pages say what `--help` says, and groff and mandoc find nothing wrong in them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Sandbox, commands, options, stderr, stdout};

/// 2026-01-02.
const EPOCH: &str = "1767312000";

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The folder with the pages.
fn pages(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.path().join("man");
    let output = sandbox
        .oneflush()
        .arg("man")
        .arg(&folder)
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    folder
}

/// As a terminal of 80 columns shows it.
fn shown(page: &Path) -> String {
    let output = Command::new("mandoc").args(["-T", "utf8", "-O", "width=80"]).arg(page).output();
    let bold_and_underlined = stdout(&output.expect("mandoc"));
    // A letter, a backspace and the letter again is a bold one.
    let mut text = String::new();
    for letter in bold_and_underlined.chars() {
        match letter {
            '\u{8}' => drop(text.pop()),
            '\u{a0}' => text.push(' '),
            _ => text.push(letter),
        }
    }
    text
}

#[test]
fn the_program_and_each_command_have_a_page_with_every_option_and_example_of_the_help() {
    if !oneflush_testing::has_programs(&["mandoc"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let folder = pages(&sandbox);
    let help = |arguments: &[&str]| {
        stdout(&sandbox.oneflush().args(arguments).env_remove("COLUMNS").output().unwrap())
    };
    let all: Vec<String> =
        commands(&help(&["--help"])).into_iter().filter(|name| name != "help").collect();
    let main = words(&shown(&folder.join("oneflush.1")));
    let mut checked = 0;
    let mut names = BTreeSet::from(["oneflush.1".to_owned()]);
    // A command's own commands have pages, too; its page leads there.
    let mut paths: Vec<(String, Vec<&str>)> = Vec::new();
    for command in &all {
        assert!(main.contains(&format!("oneflush-{command}(1)")), "{command} in {main}");
        paths.push((command.clone(), vec![command]));
    }
    let own = commands(&help(&["mvbt", "--help"]));
    for command in own.iter().filter(|name| *name != "help") {
        paths.push((format!("mvbt-{command}"), vec!["mvbt", command]));
    }
    assert!(paths.len() == all.len() + 3, "{paths:?}");
    for (command, path) in &paths {
        names.insert(format!("oneflush-{command}.1"));
        let text = help(&[&path[..], &["--help"]].concat());
        let page = words(&shown(&folder.join(format!("oneflush-{command}.1"))));
        assert!(page.contains("January 2, 2026") || page.contains("2026-01-02"), "{page}");
        let options = options(&text);
        assert!(options.iter().any(|option| option == "--help"), "{text}");
        for option in options {
            assert!(page.contains(&option), "{command}: {option} is not in {page}");
        }
        // What stands below the options: examples, with their explanations, and notes. The short
        // help has no empty lines between options.
        let short = help(&[&path[..], &["-h"]].concat());
        let blocks: Vec<&str> = short.trim_end().split("\n\n").collect();
        let is_of_options = |block: &&str| block.lines().any(|l| l.trim_start().starts_with('-'));
        let last = blocks.iter().rposition(is_of_options).expect("options");
        let titles = ["Examples:", "Exit codes:"];
        let below = blocks[last + 1..].iter().flat_map(|block| block.lines());
        for line in below.filter(|line| !titles.contains(line)) {
            checked += 1;
            for part in line.split("  ").filter(|part| !part.is_empty()) {
                let part = words(part.trim_start_matches("Exit codes:"));
                assert!(page.contains(&part), "{command}: {part:?} is not in {page}");
            }
        }
    }
    assert!(checked > 100, "{checked} lines below options");
    let files = fs::read_dir(&folder).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names);
}

#[test]
fn no_page_has_a_warning() {
    if !oneflush_testing::has_programs(&["mandoc", "groff"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for file in fs::read_dir(pages(&sandbox)).unwrap() {
        let page = file.unwrap().path();
        let linted =
            Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(&page).output();
        let linted = linted.unwrap();
        assert!(linted.status.success(), "{}", stdout(&linted));
        let set = Command::new("groff")
            .args(["-Kutf8", "-man", "-ww", "-z", "-Tutf8"])
            .arg(&page)
            .output();
        assert_eq!(stderr(&set.unwrap()), "", "{}", page.display());
    }
}

#[test]
fn pages_without_a_date_are_the_same_each_time_and_a_wrong_date_is_refused() {
    let sandbox = Sandbox::new();
    let made = |name: &str| {
        let folder = sandbox.path().join(name);
        let output = sandbox.oneflush().arg("man").arg(&folder).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        fs::read(folder.join("oneflush-run.1")).unwrap()
    };
    assert_eq!(made("one"), made("two"));
    for wrong in ["yesterday", "-1", "99999999999999999"] {
        let output = sandbox
            .oneflush()
            .args(["man", "three"])
            .env("SOURCE_DATE_EPOCH", wrong)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains("SOURCE_DATE_EPOCH"), "{}", stderr(&output));
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path().join("file"), "").unwrap();
    let output = sandbox.oneflush().arg("man").arg(sandbox.path().join("file")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("file: cannot be written"), "{}", stderr(&output));
}
