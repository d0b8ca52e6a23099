//! Starts a guest, and reads what came out of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Checkout, Found, GuestArch, GuestError, GuestFs, SUBCOMMAND, Spec};
use crate::report::SavedError;

/// Emulated, 1,000 commits take some 5 s.
const SECONDS_MAX: &str = "3600";

impl Checkout {
    /// One guest with this file system, and all runs in it, one after the other. `program` is this
    /// program: a guest of the same processor has it, too.
    pub fn measure(
        &self,
        arch: GuestArch,
        fs: GuestFs,
        program: &Path,
        specs: &[Spec],
    ) -> Result<Vec<Found>, GuestError> {
        let build = self.build();
        let file = |path: &Path| {
            let path = path.to_owned();
            move |source| GuestError::File { path, source }
        };
        fs::create_dir_all(&build).map_err(file(&build))?;
        let work = tempfile::Builder::new().prefix("run-").tempdir_in(&build);
        let work = work.map_err(file(&build))?;
        let script = work.path().join("bench.sh");
        fs::write(&script, text(specs)?).map_err(file(&script))?;
        // The guest knows a program by its file's name.
        let named = work.path().join("oneflush");
        symlink(program, &named).map_err(file(&named))?;

        let run = self.run();
        let own = (arch == GuestArch::X86_64).then_some(&named);
        let ended = Command::new(&run)
            .args(["--arch", arch.name(), "--fs", fs.name(), "--seconds", SECONDS_MAX, "--work"])
            .arg(work.path())
            .arg(&script)
            .args(own)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(file(&run))?;
        let out = work.path().join("out");
        if !ended.status.success() {
            let said = last_line(&fs::read_to_string(out.join("said")).unwrap_or_default());
            return Err(match said {
                Some(said) => {
                    // It may tell what this line does not.
                    let console = build.join("console");
                    let _ = fs::copy(work.path().join("console"), &console);
                    GuestError::Inside { fs, said, console }
                }
                None => {
                    let said = last_line(&String::from_utf8_lossy(&ended.stderr));
                    GuestError::Start { fs, said: said.unwrap_or(ended.status.to_string()), run }
                }
            });
        }
        let found = out.join("found.json");
        let bytes = fs::read(&found).map_err(file(&found))?;
        let failed = |source| GuestError::Output {
            fs,
            source: SavedError::Parse { path: found.clone(), source },
        };
        serde_json::from_slice(&bytes).map_err(failed)
    }
}

/// What the guest runs. A line of JSON has no line that could end it.
fn text(specs: &[Spec]) -> Result<String, GuestError> {
    let specs = serde_json::to_string(specs)?;
    Ok(format!(
        "exec oneflush {SUBCOMMAND} /mnt /out/found.json 2>/out/said <<'SPECS'\n{specs}\nSPECS\n"
    ))
}

fn last_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneflush_measure::workload::{Operation, Workload};

    #[test]
    fn the_script_is_three_lines_and_has_the_runs_as_they_were() {
        let spec = Spec {
            modes: vec!["persist:maw+atomic=f2fs".parse().unwrap()],
            workload: Workload::Table(Operation::Insert),
            transactions: Some(10),
            rounds: 1,
            connections: vec![1],
            processes: false,
            rate: None,
            busy_loops: 0,
            in_turns: false,
            floor_writes: 1,
            recorded: false,
        };
        let script = text(&[spec]).unwrap();
        let lines: Vec<&str> = script.lines().collect();
        assert_eq!((lines.len(), lines[2]), (3, "SPECS"));
        let again: Vec<Spec> = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(again[0].modes[0].to_string(), "persist:maw+atomic=f2fs");
    }

    #[test]
    fn the_last_line_that_says_something_is_told() {
        assert_eq!(last_line("a\nb \n\n").as_deref(), Some("b"));
        assert_eq!(last_line("\n"), None);
    }
}
