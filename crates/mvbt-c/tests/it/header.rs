//! The header is what cbindgen makes of the sources. `UPDATE_HEADER=1` writes it.

use std::path::Path;

#[test]
fn the_header_is_made_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_root_or_default(folder);
    let mut builder = cbindgen::Builder::new().with_config(config);
    let files = ["code", "call", "compare", "database", "transaction", "trees", "cursor"];
    for file in files.into_iter().chain(["make", "guest", "history", "stats", "backup"]) {
        builder = builder.with_src(folder.join(format!("src/{file}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().expect("cbindgen reads the sources").write(&mut made);
    let made = without_safety(&String::from_utf8(made).unwrap());
    let path = folder.join("include/oneflush_mvbt.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "UPDATE_HEADER=1 cargo test -p oneflush-mvbt-c --test it header::");
}

/// What the sources say under "Safety" is how Rust says what C's types and the head say.
fn without_safety(header: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in header.lines() {
        let is_comment = line.trim_start().starts_with("//");
        if line.trim() == "// # Safety" {
            is_safety = true;
            while lines.last().is_some_and(|line| line.trim() == "//") {
                lines.pop();
            }
        }
        is_safety &= is_comment;
        if !is_safety {
            lines.push(line.trim_end());
        }
    }
    lines.join("\n") + "\n"
}
