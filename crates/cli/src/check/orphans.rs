//! `app.db-orphan-0`: what was acknowledged when a file of the database was removed or replaced in
//! use (OF-242 of `docs/errors.md`).

use std::fs;
use std::path::Path;

use humantime::format_rfc3339_seconds;
use oneflush_vfs::shown_name;

use super::facts::Facts;
use super::finding::{Finding, Status};
use crate::stats::size;

const ORPHANS: &str = "orphans";
const BEGIN: &str = "-orphan-";
const WAL: &str = "-wal";

pub fn findings(facts: &Facts) -> Vec<Finding> {
    let suffixes = facts.survey.side_files.iter().filter_map(|file| file.suffix.to_str());
    let found: Vec<Finding> = suffixes
        .filter_map(|suffix| match suffix.strip_suffix(WAL) {
            // The WAL of an empty file is saved alone.
            Some(orphan) if is_orphan(orphan) && facts.side_bytes(orphan).is_none() => {
                Some(alone(facts, suffix))
            }
            _ => is_orphan(suffix).then(|| finding(facts, suffix)),
        })
        .collect();
    match found.is_empty() {
        true => vec![Finding::ok(ORPHANS, "none: nothing was saved beside it")],
        false => found,
    }
}

/// Without the WAL of an orphan.
fn is_orphan(suffix: &str) -> bool {
    suffix
        .strip_prefix(BEGIN)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn finding(facts: &Facts, suffix: &str) -> Finding {
    let (name, orphan) = (&facts.name, format!("{}{suffix}", facts.name));
    let bytes = facts.side_bytes(suffix).unwrap_or_default();
    let wal = facts.side_bytes(&format!("{suffix}{WAL}"));
    let with_wal = wal.map(|bytes| format!(", WAL of {}", size(bytes))).unwrap_or_default();
    let when = changed(&facts.folder().join(&orphan));
    let says = format!(
        "{orphan}: {}{with_wal}{when}: commits that were acknowledged before a file of {name} was \
            removed or replaced in use",
        size(bytes)
    );
    let way_out = format!(
        "look into it (sqlite3 {orphan}); take over what {name} lacks, then move it and its WAL \
            away (OF-242)"
    );
    Finding::new(Status::Warn, ORPHANS, says, way_out)
}

fn alone(facts: &Facts, suffix: &str) -> Finding {
    let (name, wal) = (&facts.name, format!("{}{suffix}", facts.name));
    let says = format!(
        "{wal}: {}{}: commits that were beside an empty {name}, without their database file",
        size(facts.side_bytes(suffix).unwrap_or_default()),
        changed(&facts.folder().join(&wal))
    );
    let orphan = wal.trim_end_matches(WAL);
    let way_out = format!("put the {name} that they belong to beside it as {orphan} (OF-149)");
    Finding::new(Status::Warn, ORPHANS, says, way_out)
}

fn changed(path: &Path) -> String {
    match fs::metadata(path).and_then(|file| file.modified()) {
        Ok(time) => format!(", of {}", format_rfc3339_seconds(time)),
        Err(error) => format!(", {}: {error}", shown_name(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_is_known_by_its_number_and_its_wal_is_not_another_one() {
        for (suffix, is) in [
            ("-orphan-0", true),
            ("-orphan-12", true),
            ("-orphan-0-wal", false),
            ("-orphan-", false),
            ("-orphan-x", false),
            ("-wal", false),
        ] {
            assert_eq!(is_orphan(suffix), is, "{suffix}");
        }
    }
}
