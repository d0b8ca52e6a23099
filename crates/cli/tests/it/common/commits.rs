//! Traces of as many commits as a test wants, by MOST's columns: of several databases, every fifth
//! with PERSIST, the others with WAL.

use std::fmt::Write;

/// What a trace is made of.
pub struct Commits {
    pub count: u64,
    pub databases: u64,
    /// Between two commits.
    pub gap_us: u64,
    /// Appended to the folder of each database.
    pub name: &'static str,
}

impl Commits {
    pub fn new(count: u64, databases: u64) -> Commits {
        Commits { count, databases, gap_us: 20_000, name: "app" }
    }

    /// Database `number` is `/data/NAMEnumber/a.db`; those whose number is a multiple of 5 have
    /// PERSIST.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut now_us = 1000;
        for commit in 0..self.count {
            let database = commit % self.databases;
            // Some number that looks like chance, and is the same each time.
            let chance = commit.wrapping_mul(2_654_435_761) % 1000;
            let slow_us = if chance == 0 { 15_000 } else { chance };
            self.commit(&mut text, &mut now_us, database, slow_us);
            now_us += self.gap_us;
        }
        text
    }

    fn commit(&self, text: &mut String, now_us: &mut u64, database: u64, slow_us: u64) {
        let path = format!("/data/{}{database}/a.db", self.name);
        let base = 1_000_000 * (database + 1);
        let mut line = |after_us: u64,
                        flags: &str,
                        sector: u64,
                        count: u64,
                        what: &str,
                        file: &str| {
            *now_us += after_us;
            let (seconds, micros) = (*now_us / 1_000_000, *now_us % 1_000_000);
            let process = format!("{}\tapp{database}", 1000 + database);
            let _ = writeln!(
                text,
                "{seconds}.{micros:06}000\tC\t{flags}\t{sector}\t{count}\t{process}\t{what}\t{file}"
            );
        };
        let journal = format!("{path}-journal");
        if database.is_multiple_of(5) {
            line(100, "WS", base, 8, "D", &journal);
            line(100, "WS", base + 32, 16, "D", &journal);
            line(700 + slow_us, "FWS", 0, 0, "M", "file-NONE");
            line(100, "WS", base, 8, "D", &journal);
            line(700, "FWS", 0, 0, "M", "file-NONE");
            line(100, "WS", base + 5000, 16, "D", &path);
            line(700, "FWS", 0, 0, "M", "file-NONE");
            line(100, "WS", base, 8, "D", &journal);
            line(700, "FWS", 0, 0, "M", "file-NONE");
        } else {
            line(100, "WS", base + 9000, 16 + 8 * (slow_us % 4), "D", &format!("{path}-wal"));
            line(700 + slow_us, "FWS", 0, 0, "M", "file-NONE");
        }
    }
}
