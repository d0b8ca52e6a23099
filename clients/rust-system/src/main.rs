//! An older rusqlite on the SQLite of the system, which loads `liboneflush.so`.

#[path = "../../rust-bundled/src/scenario.rs"]
mod scenario;

fn main() -> rusqlite::Result<()> {
    scenario::collect_log()?;
    scenario::load_extension()?;
    scenario::run("rust-system", env!("RUSQLITE_VERSION"))
}
