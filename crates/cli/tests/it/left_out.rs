//! A build without the laboratory: each option of it says so in one line, with the way to have it.

use crate::common::{Sandbox, stderr};

#[test]
fn what_was_left_out_says_how_to_have_it() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path();
    std::fs::write(folder.join("trace"), "").unwrap();
    std::fs::create_dir(folder.join("fleet")).unwrap();
    for (arguments, what) in [
        (&["bench", "--paper", "waldio"][..], "papers"),
        (&["bench", "--guest", "f2fs"], "guests"),
        (&["bench", "--device", "emmc"], "emulated devices"),
        (&["bench", "--device", "list"], "emulated devices"),
        (&["identify", "trace", "--dataset", "fleet"], "data sets"),
        (&["identify", "trace", "--parquet", "table"], "Parquet files"),
        (&["report", "fleet"], "data sets"),
    ] {
        let output = sandbox.oneflush().current_dir(folder).args(arguments).output().unwrap();
        let said = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {output:?}");
        let told = format!("this build has no {what}: `make build-all` ");
        assert!(said.contains(&told), "{arguments:?}: {said}");
    }
    assert!(!folder.join("table").exists());
}
