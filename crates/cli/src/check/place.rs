//! The folder of the database: its file system by name, and what was tried there.

use oneflush_measure::interrupt;
use oneflush_vfs::{Fault, Ground, Tried, WalMode, tried, verdicts, wal_mode};

use super::facts::Facts;
use super::finding::{Finding, Status};

const PLACE: &str = "place";
const LOCKS: &str = "locks";
const LOCAL: &str = "use a local disk";

pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![place(facts)];
    if !interrupt::requested() {
        findings.extend(locks(facts));
    }
    findings
}

/// What the type of the file system tells.
fn place(facts: &Facts) -> Finding {
    let Some(ground) = Ground::of(facts.folder()) else {
        let says = "the file system cannot be found out";
        return Finding::new(Status::Unknown, PLACE, says, "oneflush probe DIR tries what it does");
    };
    let refused: Vec<&str> = verdicts(facts.folder(), &[])
        .into_iter()
        .filter(|verdict| verdict.refuses)
        .map(|verdict| verdict.strategy)
        .collect();
    let wal = wal_mode(facts.folder());
    judged(&ground, wal, &refused, facts.survey.journal_mode == "wal")
}

fn judged(ground: &Ground, wal: WalMode, refused: &[&str], is_wal: bool) -> Finding {
    let file_system = &ground.file_system;
    let Some(fault) = ground.fault else {
        return Finding::ok(PLACE, format!("{file_system}: WAL mode and all strategies work"));
    };
    let (why, way_out) = fault.why().rsplit_once("; ").unwrap_or((fault.why(), LOCAL));
    let modes = match wal {
        WalMode::Works | WalMode::Allowed => "WAL mode works",
        WalMode::WorksIfLocksDo => "WAL mode works if locks do",
        WalMode::Refused => "there is no WAL mode with Oneflush",
    };
    let strategies = match refused {
        [] => "so do all strategies".to_owned(),
        names => format!("{} refuse it", names.join(", ")),
    };
    // On such a file system SQLite alone goes on in WAL mode, and two hosts have two indexes.
    let status = match (fault, is_wal) {
        (Fault::Shared, true) => Status::Fault,
        _ => Status::Warn,
    };
    let says = format!("{file_system}: {why}; {modes}, {strategies}");
    Finding::new(status, PLACE, says, way_out)
}

/// What locks, syncs and shared memory do there, on scratch files.
fn locks(facts: &Facts) -> Vec<Finding> {
    let scratch = tempfile::Builder::new().prefix(".oneflush-check-").tempdir_in(facts.folder());
    let tried = match scratch.and_then(|scratch| tried(scratch.path())) {
        Ok(tried) => tried,
        Err(error) => {
            let says = format!("left out: no scratch file can be made in the folder: {error}");
            let way_out = "run it as somebody who may write there";
            return vec![Finding::new(Status::Unknown, LOCKS, says, way_out)];
        }
    };
    let failed: Vec<Finding> = tried.iter().filter_map(failed).collect();
    if !failed.is_empty() {
        return failed;
    }
    let says = "locks keep others out; syncs and shared memory work";
    vec![Finding::ok(LOCKS, says)]
}

/// None: it works, or nothing depends on it.
fn failed(tried: &Tried) -> Option<Finding> {
    let why = tried.fails_eager()?;
    // SQLite relies on these two itself.
    let status = match tried.what {
        "record locks" => Status::Fault,
        _ if tried.fails_sync() => Status::Fault,
        _ => Status::Warn,
    };
    Some(Finding::of_reason(status, LOCKS, &format!("{}: {why}", tried.what), LOCAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_several_hosts_may_mount_is_a_fault_for_a_database_in_wal_mode() {
        let nfs = Ground { file_system: "nfs4".to_owned(), fault: Some(Fault::Shared) };
        let refused = ["eager", "waldio", "maw"];
        for (is_wal, status) in [(true, Status::Fault), (false, Status::Warn)] {
            let found = judged(&nfs, WalMode::Refused, &refused, is_wal);
            assert_eq!((found.status, found.way_out.as_deref()), (status, Some(LOCAL)));
            for words in ["nfs4: other hosts", "no WAL mode", "eager, waldio, maw refuse it"] {
                assert!(found.says.contains(words), "{words}: {}", found.says);
            }
        }
        let ext4 = Ground { file_system: "ext4".to_owned(), fault: None };
        assert_eq!(judged(&ext4, WalMode::Works, &[], true).status, Status::Ok);
    }

    #[test]
    fn what_sqlite_relies_on_is_a_fault_and_what_only_a_log_needs_a_warning() {
        let tried = |what, fails: Option<&str>, needed| Tried {
            what,
            fails: fails.map(str::to_owned),
            needed,
        };
        let status = |tried: &Tried| failed(tried).map(|found| found.status);
        let why = Some("two have one lock; use a local disk");
        assert_eq!(status(&tried("record locks", why, true)), Some(Status::Fault));
        assert_eq!(status(&tried("sync of file", why, true)), Some(Status::Fault));
        assert_eq!(status(&tried("flock", why, true)), Some(Status::Warn));
        assert_eq!(status(&tried("direct I/O", why, false)), None);
        assert_eq!(status(&tried("record locks", None, true)), None);
    }
}
