//! Compiles the amalgamation with both B-trees into `libsqlite3_lsmvbt.a`.
//!
//! The amalgamation is that of the crate `libsqlite3-sys`: its source is read, and it is no
//! dependency, which would link a second SQLite. `ONEFLUSH_SQLITE_AMALGAMATION=path` names another
//! `sqlite3.c`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "src/generate.rs"]
mod generate;

fn main() {
    if let Err(what) = build() {
        eprintln!("oneflush-sqlite-lsmvbt: {what}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/generate.rs");
    println!("cargo::rerun-if-changed=shim");
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
    compiler.include(here.join("shim")).include(here.join("../mvbt-c/include"));
    if let Some(folder) = source.parent() {
        compiler.include(folder);
    }
    for (name, value) in generate::OPTIONS {
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
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
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
