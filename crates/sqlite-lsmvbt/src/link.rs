//! Links the compiled amalgamation with the engine. rustc hides what C exports from a shared
//! library, so `cc` makes it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiled amalgamation, with both B-trees.
const SQLITE: &str = env!("ONEFLUSH_SQLITE_ARCHIVE");

/// What was linked.
pub struct Libraries {
    /// With the name `libsqlite3.so.0` for the loader.
    pub shared: PathBuf,
    /// All in one archive.
    pub r#static: PathBuf,
}

/// Makes `liboneflush_sqlite3.so` and `.a` in a folder. `engine`: `liboneflush_mvbt.a`.
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

    // A list of commands for `ar`, which takes archives apart and puts them together.
    let script = folder.join("liboneflush_sqlite3.mri");
    let archive = made.r#static.display();
    write(
        &script,
        &format!("create {archive}\naddlib {SQLITE}\naddlib {}\nsave\nend\n", engine.display()),
    )?;
    let input = std::fs::File::open(&script).map_err(|error| error.to_string())?;
    let joined = run(Command::new("ar").arg("-M").stdin(input));
    let removed = std::fs::remove_file(&script).map_err(|error| error.to_string());
    joined.and(removed)?;
    Ok(made)
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
