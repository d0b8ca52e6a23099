//! What exit codes mean: one table for all commands. `--help` and the man pages take their line
//! from here, and `docs/use.md` has it in words.
//!
//! A command that becomes another program has that program's codes. Its own are those of env(1).

use clap::Command;

/// What was looked for is wrong (a violation, a fault, a damaged trace), or the work failed.
pub const FAILED: u8 = 1;
/// The command line cannot be used.
pub const USAGE: u8 = 2;
/// Nothing was done: what is named, or who asks, does not allow it. The message has the way out.
pub const REFUSED: u8 = 3;
/// Nothing was done: somebody uses it just now. `EX_TEMPFAIL` of sysexits.h.
pub const AGAIN: u8 = 75;

const LINE: &str = "0 done, 1 found or failed, 2 usage, 3 refused, 75 try again";
/// Those that become another program, or start one.
const OF_A_PROGRAM: &[(&str, &str)] = &[
    ("run", "CMD's own; 1 failed, 2 usage, 3 refused; 126 and 127 as env's"),
    ("shell", "the sqlite3 shell's own; before it 1 failed, 2 usage"),
    ("trace", "CMD's own; else 0 done, 1 failed, 2 usage, 3 refused"),
];

/// Each command, and each of its own, has its line below what its help ends with.
pub fn with_lines(program: Command) -> Command {
    let names: Vec<String> =
        program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.iter().fold(program, |program, name| {
        program.mut_subcommand(name, |command| with_lines(with_line(command)))
    })
}

fn with_line(command: Command) -> Command {
    let own = OF_A_PROGRAM.iter().find(|(name, _)| *name == command.get_name());
    let line = format!("Exit codes: {}", own.map_or(LINE, |(_, line)| line));
    let below = match command.get_after_help() {
        Some(text) => format!("{text}\n\n{line}"),
        None => line,
    };
    command.after_help(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts read these numbers.
    #[test]
    fn the_line_and_the_page_have_the_numbers_that_are_answered() {
        let page = include_str!("../../../docs/use.md");
        for (code, word) in
            [(FAILED, "found or failed"), (USAGE, "usage"), (REFUSED, "refused"), (AGAIN, "try")]
        {
            assert!(LINE.contains(&format!("{code} {word}")), "{code} {word}: {LINE}");
            assert!(page.contains(&format!("\n| {code} | ")), "{code} is not in docs/use.md");
        }
        for (name, line) in OF_A_PROGRAM {
            assert!(page.contains(&format!("`{name}`")), "{name}: {line}");
        }
    }
}
