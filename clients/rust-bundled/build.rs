//! Tells the program which rusqlite its lock file names; rusqlite itself does not say.

fn main() {
    println!("cargo:rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").expect("Cargo.lock is beside Cargo.toml");
    let entry = lock.split("[[package]]").find(|entry| entry.contains("name = \"rusqlite\"\n"));
    let version = entry.and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next());
    println!("cargo:rustc-env=RUSQLITE_VERSION={}", version.expect("Cargo.lock names rusqlite"));
}
