//! What the program says where it is not used as it should be. What it does is for a guest
//! (`guest/power-cut`).

use std::process::Command;

#[test]
fn each_command_is_named_and_an_unknown_one_is_refused() {
    let run = |argument: &str| {
        Command::new(env!("CARGO_BIN_EXE_powercut")).arg(argument).output().unwrap()
    };
    let help = run("--help");
    let said = String::from_utf8_lossy(&help.stdout);
    assert!(help.status.success(), "{help:?}");
    for command in ["work", "judge"] {
        assert!(said.contains(command), "{command}: {said}");
    }
    let unknown = run("cuts");
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("'cuts'"), "{unknown:?}");
}
