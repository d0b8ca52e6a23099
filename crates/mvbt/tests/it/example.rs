//! The example as a user runs it.

use std::path::PathBuf;
use std::process::Command;

/// Cargo builds examples before it runs tests, beside the folder of the test programs.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/temperatures")
}

#[test]
fn the_example_keeps_readings_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.mvbt");
    let run = |arguments: &[&str]| {
        let output = Command::new(example()).arg(&file).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (name, value, at) in [
        ("attic", "21500", "100"),
        ("cellar", "9000", "100"),
        ("attic", "-300", "50"),
        ("attic", "22000", "150"),
    ] {
        run(&["add", name, value, at]);
    }
    assert_eq!(run(&["list", "attic"]), "50 -300\n100 21500\n150 22000\n");
    assert_eq!(run(&["list", "attic", "60", "150"]), "100 21500\n");
    assert_eq!(run(&["trim", "attic", "100"]), "1 readings removed\n");
    assert_eq!(run(&["list", "attic"]), "100 21500\n150 22000\n");
    assert_eq!(run(&["list", "cellar"]), "100 9000\n");
    let unknown = Command::new(example()).arg(&file).args(["list", "garden"]).output().unwrap();
    assert!(!unknown.status.success());
}
