//! What `--help` prints, for a terminal of 80 columns.

use crate::common::{Sandbox, commands, stdout};

#[test]
fn no_help_has_a_line_over_80_columns() {
    let sandbox = Sandbox::new();
    let help = |arguments: &[&str]| {
        let output = sandbox.oneflush().args(arguments).env_remove("COLUMNS").output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        let text = stdout(&output);
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{arguments:?}: {long:#?}");
        text
    };
    let all = commands(&help(&["--help"]));
    assert!(all.len() >= 10 && all.iter().any(|name| name == "bench"), "{all:?}");
    help(&["-h"]);
    for command in all.iter().filter(|name| *name != "help") {
        help(&[command, "--help"]);
        help(&[command, "-h"]);
    }
    for command in ["check", "dump"] {
        help(&["mvbt", command, "--help"]);
        help(&["mvbt", command, "-h"]);
    }
}

/// Who wrote a script had to try what a command answers: four of eighteen said it.
#[test]
fn each_command_says_its_exit_codes_in_one_line() {
    let sandbox = Sandbox::new();
    let line = |arguments: &[&str]| {
        let text = stdout(&sandbox.oneflush().args(arguments).arg("--help").output().unwrap());
        let lines: Vec<&str> =
            text.lines().filter(|line| line.starts_with("Exit codes: ")).collect();
        assert_eq!(lines.len(), 1, "{arguments:?}: {text}");
        lines[0].to_owned()
    };
    let help = stdout(&sandbox.oneflush().arg("--help").output().unwrap());
    let all = commands(&help);
    let own = ["run", "shell", "trace"];
    for command in all.iter().filter(|name| *name != "help") {
        let line = line(&[command]);
        let expected = if own.contains(&command.as_str()) { "own" } else { "0 done, 1 found or" };
        assert!(line.contains(expected), "{command}: {line}");
    }
    assert_eq!(line(&["mvbt", "check"]), line(&["probe"]));
}
