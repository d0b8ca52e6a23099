//! rusqlite with its own SQLite, and Oneflush linked into the program: nothing is loaded.

#[path = "../scenario.rs"]
mod scenario;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    scenario::collect_log()?;
    oneflush_vfs::register()?;
    Ok(scenario::run("rust-bundled-linked", env!("RUSQLITE_VERSION"))?)
}
