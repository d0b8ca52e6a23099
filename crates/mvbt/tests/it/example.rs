//! The example as a user runs it.

#[path = "../../examples/temperatures.rs"]
#[allow(dead_code, reason = "its main")]
mod temperatures;

#[test]
fn the_example_keeps_readings_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.mvbt").display().to_string();
    let run = |arguments: &[&str]| temperatures::run(&[&[file.as_str()], arguments].concat());
    for (name, value, at) in [
        ("attic", "21500", "100"),
        ("cellar", "9000", "100"),
        ("attic", "-300", "50"),
        ("attic", "22000", "150"),
    ] {
        run(&["add", name, value, at]).unwrap();
    }
    assert_eq!(run(&["list", "attic"]).unwrap(), "50 -300\n100 21500\n150 22000\n");
    assert_eq!(run(&["list", "attic", "60", "150"]).unwrap(), "100 21500\n");
    assert_eq!(run(&["trim", "attic", "100"]).unwrap(), "1 readings removed\n");
    assert_eq!(run(&["list", "attic"]).unwrap(), "100 21500\n150 22000\n");
    assert_eq!(run(&["list", "cellar"]).unwrap(), "100 9000\n");
    assert!(run(&["list", "garden"]).is_err());
}
