//! The shells themselves complete command lines with what `oneflush completions` prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Sandbox, assert_refused, commands, options, stderr, stdout};

fn script(sandbox: &Sandbox, shell: &str) -> String {
    let output = sandbox.oneflush().args(["completions", shell]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// Calls the function that bash itself would call for this line, with the cursor at its end.
const BASH: &str = r#"
. "$1"
line=$2
read -ra COMP_WORDS <<< "$line"
case $line in *" ") COMP_WORDS+=("") ;; esac
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
function=$(complete -p oneflush | sed -n 's/.*-F \([^ ]*\).*/\1/p')
"$function" oneflush "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// zsh completes only at a terminal, which zsh's own module `zpty` makes. What was inserted is what
/// the line of the inner shell then prints: the first word becomes `print`.
const ZSH: &str = r#"
zmodload zsh/zpty
folder=$1 line=$2
zpty inner zsh -f
send() { zpty -w inner "$1" }
send "stty columns 200 rows 500"
send "fpath=($folder \$fpath); autoload -U compinit; compinit -u -d $folder/dump"
send "zstyle ':completion:*' list-colors ''; zstyle ':completion:*' menu no"
send "setopt no_always_last_prompt; LISTMAX=9999; PROMPT=; unsetopt beep auto_menu"
send "print read''y"
zpty -r inner output '*ready*'
zpty -w -n inner "$line"$'\t\t'
sleep 1
zpty -w -n inner $'\x15'
send "print complet''ed-now"
zpty -r inner output '*completed-now*'
print -r -- "$output"
"#;

fn completed(program: &str, code: &str, script: &Path, line: &str) -> String {
    let output = Command::new(program)
        .args(if program == "bash" { vec!["--norc", "-c", code] } else { vec!["-f", "-c", code] })
        .arg(program)
        .arg(script)
        .arg(line)
        .env("TERM", "dumb")
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {}", stderr(&output));
    stdout(&output)
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// What the shell must offer: all commands of `--help`, and all long options of `bench`.
fn expected(sandbox: &Sandbox) -> (BTreeSet<String>, BTreeSet<String>) {
    let help = |arguments: &[&str]| stdout(&sandbox.oneflush().args(arguments).output().unwrap());
    let commands: BTreeSet<String> = commands(&help(&["--help"])).into_iter().collect();
    let of_bench: BTreeSet<String> = options(&help(&["bench", "--help"])).into_iter().collect();
    assert!(commands.contains("recover") && of_bench.contains("--modes"));
    (commands, of_bench)
}

const HIDDEN: [&str; 2] = ["man", "__"];

fn has_no_hidden(offered: &BTreeSet<String>) -> bool {
    !offered.iter().any(|word| HIDDEN.iter().any(|hidden| word.starts_with(hidden)))
}

#[test]
fn bash_completes_commands_options_and_values() {
    if !oneflush_testing::has_programs(&["bash"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("oneflush.bash");
    fs::write(&file, script(&sandbox, "bash")).unwrap();
    let complete = |line: &str| lines(&completed("bash", BASH, &file, line));
    let (commands, of_bench) = expected(&sandbox);
    let offered = complete("oneflush ");
    assert!(offered.is_superset(&commands), "{offered:?}");
    assert!(has_no_hidden(&offered), "{offered:?}");
    assert_eq!(complete("oneflush reco"), BTreeSet::from(["recover".to_owned()]));
    let offered = complete("oneflush bench --");
    assert!(offered.is_superset(&of_bench), "{:?}", of_bench.difference(&offered));
    let shells = complete("oneflush completions ");
    assert!(shells.contains("bash") && shells.contains("fish"), "{shells:?}");
    assert_eq!(complete("oneflush run --strategy eag"), BTreeSet::from(["eager".to_owned()]));
}

#[test]
fn fish_completes_commands_options_and_values() {
    if !oneflush_testing::has_programs(&["fish"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("oneflush.fish");
    fs::write(&file, script(&sandbox, "fish")).unwrap();
    let complete = |line: &str| {
        let output = Command::new("fish")
            .args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"])
            .arg(&file)
            .arg(line)
            .env("HOME", sandbox.path())
            .output()
            .unwrap();
        assert_eq!(stderr(&output), "");
        lines(&stdout(&output))
    };
    let (commands, of_bench) = expected(&sandbox);
    let offered = complete("oneflush ");
    assert!(offered.is_superset(&commands), "{offered:?}");
    assert!(has_no_hidden(&offered), "{offered:?}");
    assert_eq!(complete("oneflush reco"), BTreeSet::from(["recover".to_owned()]));
    let offered = complete("oneflush bench --");
    assert!(offered.is_superset(&of_bench), "{:?}", of_bench.difference(&offered));
    assert_eq!(complete("oneflush run --strategy eag"), BTreeSet::from(["eager".to_owned()]));
    let forms = complete("oneflush bench --format ");
    assert_eq!(forms, BTreeSet::from(["brief", "mobibench", "table"].map(str::to_owned)));
}

#[test]
fn zsh_completes_commands_options_and_values() {
    if !oneflush_testing::has_programs(&["zsh"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.path().join("_oneflush"), script(&sandbox, "zsh")).unwrap();
    let complete = |line: &str| completed("zsh", ZSH, sandbox.path(), line);
    let (commands, of_bench) = expected(&sandbox);
    let offered = complete("oneflush ");
    for command in commands {
        assert!(offered.contains(&command), "{command} is not in {offered}");
    }
    assert!(!offered.contains("man pages"), "{offered}");
    assert!(complete("oneflush reco").contains("recover"));
    let offered = complete("oneflush bench --");
    for option in of_bench {
        assert!(offered.contains(&option), "{option} is not in {offered}");
    }
    assert!(complete("oneflush completions f").contains("fish"));
}

#[test]
fn another_shell_is_refused_with_those_that_are_known() {
    let output = Sandbox::new().oneflush().args(["completions", "tcsh"]).output().unwrap();
    assert_refused(&output, 2, &["tcsh", "bash", "zsh", "fish"]);
}
