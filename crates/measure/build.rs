//! Tells the code which of Cargo's profiles compiles it: `PROFILE` has only what it inherits from.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // target/PROFILE/build/PACKAGE/out
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).unwrap_or_default();
    println!("cargo::rustc-env=ONEFLUSH_PROFILE={}", profile.to_string_lossy());
}
