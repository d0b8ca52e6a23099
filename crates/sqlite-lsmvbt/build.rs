//! Compiles the amalgamation with both B-trees into `libsqlite3_lsmvbt.a`.
//!
//! The amalgamation is that of the crate `libsqlite3-sys`: its source is read, and it is no
//! dependency, which would link a second SQLite. `ONEFLUSH_SQLITE_AMALGAMATION=path` names another
//! `sqlite3.c`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../sqlite/src/generate.rs"]
mod generate;

/// Debian's options for `libsqlite3-0`. One is missing: `UPDATE … LIMIT` needs another parser than
/// that of the amalgamation.
const OPTIONS: [(&str, Option<&str>); 27] = [
    ("SQLITE_ALLOW_URI_AUTHORITY", Some("1")),
    ("SQLITE_ENABLE_COLUMN_METADATA", None),
    ("SQLITE_ENABLE_DBSTAT_VTAB", None),
    ("SQLITE_ENABLE_FTS3", None),
    ("SQLITE_ENABLE_FTS3_PARENTHESIS", None),
    ("SQLITE_ENABLE_FTS3_TOKENIZER", None),
    ("SQLITE_ENABLE_FTS4", None),
    ("SQLITE_ENABLE_FTS5", None),
    ("SQLITE_ENABLE_LOAD_EXTENSION", None),
    ("SQLITE_ENABLE_MATH_FUNCTIONS", None),
    ("SQLITE_ENABLE_PREUPDATE_HOOK", None),
    ("SQLITE_ENABLE_RTREE", None),
    ("SQLITE_ENABLE_SESSION", None),
    ("SQLITE_ENABLE_STMTVTAB", None),
    ("SQLITE_ENABLE_UNLOCK_NOTIFY", None),
    ("SQLITE_LIKE_DOESNT_MATCH_BLOBS", None),
    ("SQLITE_MAX_SCHEMA_RETRY", Some("25")),
    ("SQLITE_MAX_VARIABLE_NUMBER", Some("250000")),
    ("SQLITE_OMIT_LOOKASIDE", Some("1")),
    ("SQLITE_SECURE_DELETE", None),
    ("SQLITE_SOUNDEX", Some("1")),
    ("SQLITE_TEMP_STORE", Some("1")),
    ("SQLITE_THREADSAFE", Some("1")),
    ("SQLITE_USE_URI", Some("1")),
    ("HAVE_ISNAN", None),
    ("HAVE_USLEEP", None),
    ("_GNU_SOURCE", None),
];

fn main() {
    if let Err(what) = build() {
        eprintln!("oneflush-sqlite-lsmvbt: {what}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../sqlite/src/generate.rs");
    println!("cargo::rerun-if-changed=../sqlite/shim");
    println!("cargo::rerun-if-changed=../mvbt-c/include");
    println!("cargo::rerun-if-env-changed=ONEFLUSH_SQLITE_AMALGAMATION");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("there is no OUT_DIR")?);
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("there is no manifest")?);
    let source = amalgamation(&here)?;
    println!("cargo::rerun-if-changed={}", source.display());
    let text = std::fs::read_to_string(&source)
        .map_err(|error| format!("could not read {}: {error}", source.display()))?;
    let made = generate::generate(&text, "lsmvbt.c")
        .map_err(|what| format!("{}: {what}", source.display()))?;
    let file = out.join("sqlite3.c");
    std::fs::write(&file, made).map_err(|error| format!("{}: {error}", file.display()))?;

    let mut compiler = cc::Build::new();
    compiler.file(&file).pic(true).warnings(false).flag_if_supported("-fno-strict-aliasing");
    compiler.include(here.join("../sqlite/shim")).include(here.join("../mvbt-c/include"));
    if let Some(folder) = source.parent() {
        compiler.include(folder);
    }
    for (name, value) in OPTIONS {
        compiler.define(name, value);
    }
    let is_debug = std::env::var("PROFILE").as_deref() == Ok("debug");
    compiler.opt_level(if is_debug { 1 } else { 2 }).cargo_metadata(false);
    compiler.try_compile("sqlite3_lsmvbt").map_err(|error| error.to_string())?;
    println!("cargo::rustc-env=ONEFLUSH_SQLITE_ARCHIVE={}", out.join(ARCHIVE).display());
    println!("cargo::rustc-env=ONEFLUSH_SQLITE_SOURCE={}", source.display());
    Ok(())
}

const ARCHIVE: &str = "libsqlite3_lsmvbt.a";

/// `sqlite3.c`: the one that is named, or that of the crate `libsqlite3-sys` of this workspace.
fn amalgamation(here: &Path) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ONEFLUSH_SQLITE_AMALGAMATION") {
        return Ok(PathBuf::from(path));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let platform = std::env::var_os("TARGET").ok_or("there is no TARGET")?;
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform"])
        .arg(platform)
        .arg("--manifest-path")
        .arg(here.join("Cargo.toml"))
        .output()
        .map_err(|error| format!("could not run cargo metadata: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata (run `cargo fetch` first): {said}"));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let package = packages.iter().find(|package| package["name"] == "libsqlite3-sys");
    let package = package.ok_or("no crate of the workspace uses libsqlite3-sys")?;
    let manifest = package["manifest_path"].as_str().ok_or("libsqlite3-sys has no path")?;
    let folder = Path::new(manifest).parent().ok_or("libsqlite3-sys has no folder")?;
    Ok(folder.join("sqlite3/sqlite3.c"))
}
