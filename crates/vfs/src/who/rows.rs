//! A row for each process: as JSON, and in words.

use serde::Serialize;

use super::held::Hold;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// None: the row is of all those that cannot be seen.
    pub pid: Option<u32>,
    /// The name of the program, as the kernel has it: 15 bytes at most.
    pub program: Option<String>,
    pub stopped: Option<bool>,
    /// Descriptors of the database file. None: they cannot be seen.
    pub connections: Option<usize>,
    /// Oneflush's, as far as locks tell it. None: SQLite's own, or not told.
    pub strategy: Option<&'static str>,
    pub holds: Vec<Hold>,
    /// When `oneflush who --watch` saw it first, in milliseconds of Unix time.
    pub since_ms: Option<u64>,
    /// What is not known, and the way out.
    pub note: Option<String>,
    /// Tells the process from a later one with the same number.
    #[serde(skip)]
    pub start_ticks: u64,
}

impl Row {
    /// The row of those that cannot be seen.
    pub fn of_unseen(count: usize) -> Row {
        let those = if count == 1 { "process" } else { "processes" };
        Row {
            pid: None,
            program: None,
            stopped: None,
            connections: None,
            strategy: None,
            holds: Vec::new(),
            since_ms: None,
            note: Some(format!("{count} {those} {}", unseen())),
            start_ticks: 0,
        }
    }

    /// What the process holds, without what follows from something else that it holds.
    pub fn words(&self) -> Vec<&str> {
        let mut words: Vec<&str> = Vec::new();
        if self.stopped == Some(true) {
            words.push("STOPPED");
        }
        let has = |lock: &str| self.holds.iter().any(|hold| hold.lock == lock && !hold.waits);
        for hold in &self.holds {
            let follows = !hold.waits
                && match hold.lock.as_str() {
                    "PENDING" | "RESERVED" => has("EXCLUSIVE"),
                    "log shown" => has("log"),
                    _ => false,
                };
            if !follows && !words.contains(&hold.says.as_str()) {
                words.push(&hold.says);
            }
        }
        if self.holds.is_empty() && self.connections.is_some() {
            words.push("open, holds nothing");
        }
        words.extend(self.note.as_deref());
        words
    }
}

/// Why a process cannot be seen, and the way out.
///
/// Root in a container may lack the right to look into processes, or has less rights than they.
pub fn unseen() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "cannot be seen: root needs CAP_SYS_PTRACE for it",
        false => "cannot be seen: run as root",
    }
}

/// One array on one line.
pub fn to_json(rows: &[Row]) -> String {
    serde_json::to_string(rows).unwrap_or_else(|error| format!("[\"{error}\"]"))
}
