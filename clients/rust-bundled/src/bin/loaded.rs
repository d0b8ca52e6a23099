//! rusqlite with its own SQLite, which loads `liboneflush.so`.

#[path = "../scenario.rs"]
mod scenario;

fn main() -> rusqlite::Result<()> {
    scenario::collect_log()?;
    scenario::load_extension()?;
    scenario::run("rust-bundled", env!("RUSQLITE_VERSION"))
}
