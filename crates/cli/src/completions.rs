//! `oneflush completions SHELL`: what the shell needs to complete the program's command lines.
//!
//! Made from the same `clap::Command` as `--help`, so hidden commands are not in it.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use oneflush_vfs::StrategyKind;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "Examples:
  . <(oneflush completions bash)          for this shell, bash
  oneflush completions bash > /usr/share/bash-completion/completions/oneflush
                                          for all users, as root
  oneflush completions zsh > ~/.zfunc/_oneflush
                                          a folder of $fpath
  oneflush completions fish > ~/.config/fish/completions/oneflush.fish

The Debian package installs them for all three shells.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The shell
    #[arg(value_enum)]
    shell: Shells,
}

/// Those that a test runs.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Shells {
    Bash,
    Zsh,
    Fish,
}

/// `program`: without what is hidden.
pub fn main(options: &Options, mut program: Command) -> Result<(), Failure> {
    let shell = match options.shell {
        Shells::Bash => Shell::Bash,
        Shells::Zsh => Shell::Zsh,
        Shells::Fish => Shell::Fish,
    };
    for command in program.get_subcommands_mut() {
        *command = command.clone().mut_args(with_strategies);
    }
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Names the strategies where one is asked for. Their own parser has a message that names them.
fn with_strategies(option: Arg) -> Arg {
    if option.get_long() != Some("strategy") {
        return option;
    }
    let names = StrategyKind::ALL.map(StrategyKind::name);
    option.value_parser(PossibleValuesParser::new(std::iter::once("auto").chain(names)))
}
