//! Links the drop-in library: `oneflush-link-sqlite3 LIBONEFLUSH_MVBT_A FOLDER`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [archive, folder] = &arguments[..] else {
        eprintln!("use: oneflush-link-sqlite3 LIBONEFLUSH_MVBT_A FOLDER");
        return ExitCode::from(2);
    };
    match oneflush_sqlite_lsmvbt::link(Path::new(archive), Path::new(folder)) {
        Ok(made) => {
            println!("{}\n{}", made.shared.display(), made.r#static.display());
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("oneflush-link-sqlite3: {what}");
            ExitCode::FAILURE
        }
    }
}
