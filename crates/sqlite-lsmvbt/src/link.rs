//! Links the compiled amalgamation with the engine. rustc hides what C exports from a shared
//! library, so `cc` makes it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiled amalgamation, with both B-trees.
const SQLITE: &str = env!("ONEFLUSH_SQLITE_ARCHIVE");
/// The `sqlite3.c` that it was made from.
const SOURCE: &str = env!("ONEFLUSH_SQLITE_SOURCE");

/// What was linked.
pub struct Libraries {
    /// With the name `libsqlite3.so.0` for the loader.
    pub shared: PathBuf,
    /// All in one archive.
    pub r#static: PathBuf,
}

/// Makes `liboneflush_sqlite3.so` and `.a` in a folder. `engine`: `liboneflush_mvbt_c.a`.
pub fn link(engine: &Path, folder: &Path) -> Result<Libraries, String> {
    let made = Libraries {
        shared: folder.join("liboneflush_sqlite3.so"),
        r#static: folder.join("liboneflush_sqlite3.a"),
    };
    // Exactly what the stock library exports.
    let exports = folder.join("liboneflush_sqlite3.map");
    write(
        &exports,
        "{ global: sqlite3_*; sqlite3rebaser_*; sqlite3session_*; \
                       sqlite3changegroup_*; sqlite3changeset_*; local: *; };\n",
    )?;
    let linked = run(Command::new("cc")
        .arg("-shared")
        .arg("-o")
        .arg(&made.shared)
        .args(["-Wl,-soname,libsqlite3.so.0", "-Wl,--no-undefined", "-Wl,--gc-sections"])
        .arg(format!("-Wl,--version-script={}", exports.display()))
        .args(["-Wl,--whole-archive", SQLITE, "-Wl,--no-whole-archive"])
        .arg(engine)
        .args(["-lpthread", "-ldl", "-lm"]));
    let removed = std::fs::remove_file(&exports).map_err(|error| error.to_string());
    linked.and(removed)?;

    // One object whose names are SQLite's alone: a program in Rust has its own standard library. It
    // has no section groups either: the linker would take those of that library for the same.
    let object = folder.join("liboneflush_sqlite3.o");
    let _ = std::fs::remove_file(&made.r#static);
    let joined = run(Command::new("cc")
        .args(["-r", "-nostdlib", "-Wl,--force-group-allocation", "-o"])
        .arg(&object)
        .args(["-Wl,--whole-archive", SQLITE, "-Wl,--no-whole-archive"])
        .arg(engine))
    .and_then(|()| {
        // What rustc keeps for its own linker would be taken for code of another kind by `ar`.
        run(Command::new("objcopy")
            .args(["--wildcard", "--keep-global-symbol=sqlite3*"])
            .args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"])
            .arg(&object))
    })
    .and_then(|()| run(Command::new("ar").arg("rcs").arg(&made.r#static).arg(&object)));
    let removed = std::fs::remove_file(&object).map_err(|error| error.to_string());
    joined.and(removed)?;
    Ok(made)
}

/// Makes the shell `oneflush-sqlite3`, if `shell.c` stands beside the `sqlite3.c` that was
/// compiled. The crate `libsqlite3-sys` has none; the amalgamation of Debian's source package has.
pub fn link_shell(made: &Libraries, folder: &Path) -> Result<Option<PathBuf>, String> {
    let source = Path::new(SOURCE).with_file_name("shell.c");
    if !source.exists() {
        return Ok(None);
    }
    let program = folder.join("oneflush-sqlite3");
    run(Command::new("cc")
        .args(["-O2", "-w", "-o"])
        .arg(&program)
        .arg(source)
        .arg(&made.r#static)
        .args(["-lpthread", "-ldl", "-lm"]))?;
    Ok(Some(program))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
