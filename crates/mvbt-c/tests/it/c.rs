//! Programs in C, with the header and both forms of the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use oneflush_testing::{built, run};

fn compiled(source: &str, folder: &Path, library: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let flags = ["-std=c11", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_GNU_SOURCE"];
    run(Command::new("cc")
        .args(flags)
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg("-o")
        .arg(&program)
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display())));
    program
}

#[test]
fn a_program_in_c_calls_every_function() {
    let Some(libraries) = built(&["cc"]) else { return };
    let all = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all.c"));
    let header = include_str!("../../include/oneflush_mvbt.h");
    let lines = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = lines.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next());
    let functions: Vec<&str> = names.filter(|name| name.starts_with("oneflush_mvbt_")).collect();
    let said = format!("each of the {} functions", functions.len());
    assert!(include_str!("../../README.md").contains(&said), "the README does not say: {said}");
    let all = all.unwrap();
    for name in functions {
        assert!(all.contains(&format!("{name}(")), "{name} is not called");
    }
    for library in ["liboneflush_mvbt_c.a", "liboneflush_mvbt_c.so"] {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled("tests/all.c", folder.path(), &libraries.join(library));
        assert!(run(Command::new(program).arg(folder.path())).contains(" checks"));
    }
}

#[test]
fn valgrind_finds_nothing_in_it() {
    let Some(libraries) = built(&["cc", "valgrind"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled("tests/all.c", folder.path(), &libraries.join("liboneflush_mvbt_c.a"));
    run(Command::new("valgrind")
        .args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"])
        .args(["--errors-for-leak-kinds=definite"])
        .arg(program)
        .arg(folder.path()));
}

#[test]
fn the_example_keeps_notes() {
    let Some(libraries) = built(&["cc"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program =
        compiled("examples/notes.c", folder.path(), &libraries.join("liboneflush_mvbt_c.a"));
    let notes = |text: &[&str]| run(Command::new(&program).arg(folder.path().join("n")).args(text));
    assert_eq!(notes(&["buy milk"]), "");
    notes(&["call Ada"]);
    assert_eq!(notes(&[]), "1 buy milk\n2 call Ada\n");
}
