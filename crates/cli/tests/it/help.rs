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
