//! A recorder of several files, and what is in them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};

use oneflush_measure::place::Place;
use oneflush_testing::Running;
use oneflush_trace::import::{self, Facts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::Sandbox;

pub struct Recorder {
    child: Running,
    messages: BufReader<ChildStderr>,
}

pub fn command(sandbox: &Sandbox, place: &Place, arguments: &[&str]) -> Command {
    let mut command = sandbox.oneflush();
    command.args(["trace", "--dir"]).arg(place.path()).args(arguments);
    command
}

impl Recorder {
    pub fn begin(sandbox: &Sandbox, place: &Place, arguments: &[&str]) -> Recorder {
        let mut command = command(sandbox, place, arguments);
        let mut child = Running::start(command.stderr(Stdio::piped()));
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        messages.read_line(&mut line).unwrap();
        assert!(line.starts_with("oneflush trace: recording /dev/"), "{line}");
        Recorder { child, messages }
    }

    /// Asks it to end; gives what it said.
    pub fn end(self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let (code, said) = self.ended();
        assert_eq!(code, Some(0), "{said}");
        said
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it has ended: its exit code, and what it said.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.messages.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What is in a folder, in the order of names.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// One file of a recording.
pub struct Part {
    pub path: PathBuf,
    pub number: u64,
    pub facts: Facts,
    /// As `identify --json` tells them.
    pub transactions: Vec<Value>,
    /// Transactions of which the file holds only a part.
    pub cut_count: u64,
    /// Syncs of files whose names the file does not say before.
    pub nameless: usize,
    /// Its last line is the recording's end.
    pub ends: bool,
    lines: Vec<String>,
}

/// The numbers of a recording's complete files, rising.
pub fn numbers(folder: &Path) -> Vec<u64> {
    let number = |name: String| name.strip_prefix("app.")?.strip_suffix(".zst")?.parse().ok();
    names(folder).into_iter().filter_map(number).collect()
}

/// The complete files of a recording, in their order.
pub fn parts(folder: &Path) -> Vec<Part> {
    let path = |number| folder.join(format!("app.{number:06}.zst"));
    numbers(folder).into_iter().map(|number| Part::read(&path(number))).collect()
}

impl Part {
    pub fn read(path: &Path) -> Part {
        let mut lines = Vec::new();
        let unpack = zstd::Decoder::new(File::open(path).unwrap()).unwrap();
        // Half a line at the end of a file that is cut off is none.
        lines.extend(BufReader::new(unpack).lines().map_while(Result::ok));
        let mut reader = import::open(path).unwrap();
        let mut nameless = 0;
        while let Some(event) = reader.next().unwrap() {
            use oneflush_trace::model::Action;
            nameless += usize::from(event.action == Action::SyncEnter && event.file.is_none());
        }
        let output = Command::new(env!("CARGO_BIN_EXE_oneflush"))
            .args(["identify", "--json"])
            .arg(path)
            .output()
            .unwrap();
        let transactions = String::from_utf8(output.stdout).unwrap();
        let transactions =
            transactions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.rsplit('.').next());
        Part {
            path: path.to_owned(),
            number: number.and_then(|number| number.parse().ok()).unwrap_or(0),
            facts: reader.facts().clone(),
            transactions,
            cut_count: cut_count(path),
            nameless,
            ends: lines.last().is_some_and(|line| line.starts_with("# end of the recording")),
            lines,
        }
    }
}

fn cut_count(path: &Path) -> u64 {
    let mut reader = import::open(path).unwrap();
    let mut identifier = oneflush_trace::identify::Identifier::new();
    while let Some(event) = reader.next().unwrap() {
        identifier.push(&event, reader.names());
        while identifier.next_transaction().is_some() {}
    }
    identifier.finish(reader.names()).1.partial_count
}

/// The events of all files: seconds, and what stands behind.
pub fn lines_of_events(parts: &[Part]) -> Vec<(f64, String)> {
    let event = |line: &String| {
        let (time, rest) = line.split_once("] ..... ")?.1.split_once(": ")?;
        let rest = rest.split(" oneflush=").next()?;
        (!rest.starts_with("oneflush_"))
            .then(|| Some((time.trim().parse().ok()?, rest.to_owned())))?
    };
    parts.iter().flat_map(|part| &part.lines).filter_map(event).collect()
}

/// Two recorders give an event times of their own, a few microseconds apart.
const APART: f64 = 0.001;

/// `many` has all events of `one` and, in the time of `one`, no others: none twice, none missing.
pub fn assert_same(one: &[(f64, String)], many: &[(f64, String)]) {
    let [begin, end] = [one.first(), one.last()].map(|event| event.expect("events").0);
    assert!(many.is_sorted_by(|before, behind| before.0 <= behind.0), "in the order of time");
    let within = |events: &[(f64, String)], apart: f64| {
        let is_within = |time: f64| (begin + apart..=end - apart).contains(&time);
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (_, text) in events.iter().filter(|(time, _)| is_within(*time)) {
            *counts.entry(text.clone()).or_default() += 1;
        }
        counts
    };
    let sum = |counts: &HashMap<String, usize>| counts.values().sum::<usize>();
    for (inner, outer) in [(one, many), (many, one)] {
        let (inner, outer) = (within(inner, APART), within(outer, -APART));
        for (text, count) in &inner {
            let there = outer.get(text).copied().unwrap_or(0);
            assert!(there >= *count, "{text}: {count} here, {there} there");
        }
        assert!(sum(&inner) > 1000, "{} events", sum(&inner));
    }
    eprintln!("{} events are the same", sum(&within(many, APART)));
}
