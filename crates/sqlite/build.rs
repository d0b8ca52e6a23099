//! Compiles the amalgamation of `libsqlite3-sys` with both B-trees, and links it.

use std::path::{Path, PathBuf};

#[path = "src/generate.rs"]
mod generate;

/// Those of `libsqlite3-sys` for its own library: a program sees no difference.
const OPTIONS: [(&str, Option<&str>); 19] = [
    ("SQLITE_CORE", None),
    ("SQLITE_DEFAULT_FOREIGN_KEYS", Some("1")),
    ("SQLITE_ENABLE_API_ARMOR", None),
    ("SQLITE_ENABLE_COLUMN_METADATA", None),
    ("SQLITE_ENABLE_DBSTAT_VTAB", None),
    ("SQLITE_ENABLE_FTS3", None),
    ("SQLITE_ENABLE_FTS3_PARENTHESIS", None),
    ("SQLITE_ENABLE_FTS5", None),
    ("SQLITE_ENABLE_JSON1", None),
    ("SQLITE_ENABLE_LOAD_EXTENSION", Some("1")),
    ("SQLITE_ENABLE_RTREE", None),
    ("SQLITE_ENABLE_STAT4", None),
    ("SQLITE_SOUNDEX", None),
    ("SQLITE_THREADSAFE", Some("1")),
    ("SQLITE_USE_URI", None),
    ("HAVE_USLEEP", Some("1")),
    ("HAVE_ISNAN", None),
    ("HAVE_LOCALTIME_R", None),
    ("_GNU_SOURCE", None),
];

fn main() {
    if let Err(what) = build() {
        eprintln!("oneflush-sqlite: {what}");
        std::process::exit(1);
    }
}

fn folder(variable: &str) -> Result<PathBuf, String> {
    println!("cargo::rerun-if-env-changed={variable}");
    std::env::var_os(variable).map(PathBuf::from).ok_or(format!("there is no {variable}"))
}

/// More of them, as `libsqlite3-sys` takes them from the environment.
fn flags() -> Vec<String> {
    const VARIABLE: &str = "LIBSQLITE3_FLAGS";
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let all = std::env::var(VARIABLE).unwrap_or_default();
    let flag = |word: &str| match word.starts_with("-D") || word.starts_with("-U") {
        true => word.to_owned(),
        false => format!("-D{word}"),
    };
    all.split_whitespace().map(flag).collect()
}

fn build() -> Result<(), String> {
    let out = folder("OUT_DIR")?;
    let shim = folder("CARGO_MANIFEST_DIR")?.join("shim");
    let engine = folder("DEP_ONEFLUSH_MVBT_INCLUDE")?;
    let sqlite = folder("DEP_SQLITE3_INCLUDE")?;
    for read in [Path::new("build.rs"), Path::new("src/generate.rs"), &shim, &engine] {
        println!("cargo::rerun-if-changed={}", read.display());
    }
    let source = sqlite.join("sqlite3.c");
    let about = |what: String| format!("{}: {what}", source.display());
    let text = std::fs::read_to_string(&source).map_err(|error| about(error.to_string()))?;
    let made = generate::generate(&text, "lsmvbt.c").map_err(about)?;
    let file = out.join("sqlite3.c");
    std::fs::write(&file, made).map_err(|error| format!("{}: {error}", file.display()))?;

    let mut compiler = cc::Build::new();
    compiler.file(&file).warnings(false).flag_if_supported("-fno-strict-aliasing");
    let is_debug = std::env::var("PROFILE").as_deref() == Ok("debug");
    compiler.includes([&shim, &engine, &sqlite]).opt_level(if is_debug { 1 } else { 2 });
    for (name, value) in OPTIONS {
        compiler.define(name, value);
    }
    for flag in flags() {
        compiler.flag(flag);
    }
    compiler.cargo_metadata(false);
    compiler.try_compile("oneflush_sqlite").map_err(|error| error.to_string())?;
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static:+whole-archive=oneflush_sqlite");
    Ok(())
}
