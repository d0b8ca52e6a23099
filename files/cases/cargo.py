"""cargo: a small crate with a build script, a library and tests is built, changed and built again inside the mount."""

import os
import shutil

import told
from place import Place, run

MANIFEST = """[package]
name = "small"
version = "0.1.0"
edition = "2021"
[profile.dev]
debug = 0
"""
BUILD = """fn main() {
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap());
    std::fs::write(out.join("made.rs"), "pub const MADE: u32 = 42;").unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
"""
LIBRARY = """include!(concat!(env!("OUT_DIR"), "/made.rs"));
pub mod part;
pub fn answer() -> u32 { MADE + part::more() }
#[cfg(test)]
mod tests {
    #[test]
    fn answers() { assert_eq!(super::answer(), 42 + super::part::more()); }
    #[test]
    fn writes() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("written");
        std::fs::write(&path, "x").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"x");
    }
}
"""
MAIN = 'fn main() { println!("{}", small::answer()); }\n'


def cargo(folder, *words):
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target"), "CARGO_NET_OFFLINE": "true", "CARGO_TERM_COLOR": "never"}
    return run("cargo", *words, cwd=folder, env=environment)


def build(folder):
    (folder / "src").mkdir(parents=True)
    for name, text in {"Cargo.toml": MANIFEST, "build.rs": BUILD, "src/lib.rs": LIBRARY, "src/main.rs": MAIN,
                       "src/part.rs": "pub fn more() -> u32 { 1 }\n"}.items():
        (folder / name).write_text(text)
    first = cargo(folder, "build")
    seen = ["Compiling small" in first, run(folder / "target/debug/small")]
    # What has not changed is not built again: that goes by times.
    seen += ["Compiling" in cargo(folder, "build"), "Compiling" in cargo(folder, "build")]
    (folder / "src/part.rs").write_text("pub fn more() -> u32 { 2 }\n")
    seen += ["Compiling small" in cargo(folder, "build"), run(folder / "target/debug/small"), "Compiling" in cargo(folder, "build")]
    tested = cargo(folder, "test", "--lib")
    seen += ["2 passed; 0 failed" in tested, run(folder / "target/debug/small")]
    shutil.copytree(folder / "src", folder / "copy")
    cargo(folder, "clean")
    return seen + [sorted(os.listdir(folder))]


def main():
    if shutil.which("cargo") is None:
        told.skip("there is no cargo")
    with Place() as place:
        plain = build(place.control / "small")
        ours = build(place.at / "small")
    told.check("what cargo does", ours, plain)
    told.check("what it must do", plain[:8], [True, "43\n", False, False, True, "44\n", False, True])
    told.ok("built, found fresh, built again after a change, tested and cleaned, as in a plain directory")


main()
