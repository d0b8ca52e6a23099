//! Says where the header is.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::metadata=include={folder}/include");
    println!("cargo::rerun-if-changed=build.rs");
}
