//! Whether the end of every rollback journal of a database is durable.
//!
//! SQLite deletes a journal without a sync of its folder, except with `synchronous=EXTRA`. After a
//! crash the journal may be there again, and hot. SQLite alone rolls back by it what the next
//! transaction has not replaced: one commit at most, since each begins a journal. A commit without
//! a journal leaves the old one in its place. Then the old pages go over newer commits, and the
//! database is broken.
//!
//! So a commit without a journal needs that the end of the last journal is durable. Any process may
//! have made that journal. Its end shows in the folder's time of modification, or in the journal
//! file itself, which TRUNCATE and PERSIST leave. Where these are as they were at the last look,
//! nothing is synced.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::names::journal_path;

/// A file system may count time in steps as long as a tick of its kernel. What has changed within
/// this time may change once more without a trace.
const COARSE: Duration = Duration::from_millis(50);

/// What was seen when everything was durable.
#[derive(Default)]
pub struct Seen(Option<(Trace, Option<Trace>)>);

/// A file by inode and size, and the times when its contents and its inode were changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Trace {
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Trace {
    fn of(file: &Metadata) -> Trace {
        Trace {
            inode: file.ino(),
            size_bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// True if the next change will show.
    fn is_settled(&self) -> bool {
        let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else {
            return false;
        };
        let (seconds, nanoseconds) = self.changed.max(self.modified);
        let then = Duration::new(seconds.max(0) as u64, nanoseconds.clamp(0, 999_999_999) as u32);
        now.checked_sub(then).is_some_and(|since| since > COARSE)
    }
}

/// Makes the end of every journal durable. The caller has the database locked exclusively, so no
/// journal is in use.
///
/// `in_order`: the file system keeps the order of its names with the commits that follow.
pub fn settle(database: &str, in_order: bool, seen: &mut Seen) -> io::Result<()> {
    let path = journal_path(database);
    let folder = Path::new(database).parent().unwrap_or(Path::new("/"));
    let journal = match fs::metadata(&path) {
        Ok(journal) => Some(Trace::of(&journal)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let now = (Trace::of(&fs::metadata(folder)?), journal);
    if seen.0 == Some(now) {
        return Ok(());
    }
    let (before, journal_before) = seen.0.take().unzip();
    if journal.is_some() && journal_before.flatten() != journal {
        File::open(&path)?.sync_all()?;
    }
    if !in_order && before != Some(now.0) {
        File::open(folder)?.sync_all()?;
    }
    if now.0.is_settled() && journal.is_none_or(|journal| journal.is_settled()) {
        seen.0 = Some(now);
    }
    Ok(())
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_folder_or_of_the_journal_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db").to_str().unwrap().to_owned();
        let mut seen = Seen::default();
        settle(&database, false, &mut seen).unwrap();
        assert!(seen.0.is_none(), "the folder is too young");
        std::thread::sleep(2 * COARSE);
        settle(&database, false, &mut seen).unwrap();
        let first = seen.0;
        assert!(first.is_some());
        settle(&database, false, &mut seen).unwrap();
        assert!(seen.0 == first);
        // A journal that was there for a moment.
        fs::write(journal_path(&database), "hot").unwrap();
        fs::remove_file(journal_path(&database)).unwrap();
        settle(&database, false, &mut seen).unwrap();
        // On a slow machine what has changed is settled by now.
        assert!(seen.0 != first);
        fs::write(journal_path(&database), "hot").unwrap();
        std::thread::sleep(2 * COARSE);
        settle(&database, false, &mut seen).unwrap();
        let second = seen.0;
        assert!(second.is_some_and(|(_, journal)| journal.is_some()));
        fs::write(journal_path(&database), "").unwrap();
        settle(&database, false, &mut seen).unwrap();
        assert!(seen.0 != second);
    }
}
