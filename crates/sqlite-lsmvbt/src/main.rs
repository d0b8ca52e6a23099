//! Links the drop-in library, and the shell where its source is:
//! `oneflush-link-sqlite3 LIBONEFLUSH_MVBT_A FOLDER`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [archive, folder] = &arguments[..] else {
        eprintln!("use: oneflush-link-sqlite3 LIBONEFLUSH_MVBT_A FOLDER");
        return ExitCode::from(2);
    };
    match made(Path::new(archive), Path::new(folder)) {
        Ok(files) => {
            files.iter().for_each(|file| println!("{}", file.display()));
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("oneflush-link-sqlite3: {what}");
            ExitCode::FAILURE
        }
    }
}

fn made(archive: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let libraries = oneflush_sqlite_lsmvbt::link(archive, folder)?;
    let shell = oneflush_sqlite_lsmvbt::link_shell(&libraries, folder)?;
    Ok([libraries.shared, libraries.r#static].into_iter().chain(shell).collect())
}
