//! Writes the amalgamation with two B-trees: `generate SQLITE3_C OUT`. It needs nothing but `std`,
//! so `rustc` alone compiles it, as `suite/run` does.

use std::path::Path;
use std::process::ExitCode;

#[path = "../src/generate.rs"]
mod generate;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [source, made] = &arguments[..] else {
        eprintln!("use: generate SQLITE3_C OUT");
        return ExitCode::from(2);
    };
    match write(Path::new(source), Path::new(made)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("generate: {what}");
            ExitCode::FAILURE
        }
    }
}

fn write(source: &Path, made: &Path) -> Result<(), String> {
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(source).map_err(|error| failed(source, error))?;
    let text = generate::generate(&text, "lsmvbt.c")?;
    std::fs::write(made, text).map_err(|error| failed(made, error))
}
