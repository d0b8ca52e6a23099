//! Whether connections of others are likely to come while one would close last.
//!
//! A close that finds others at the database says so. Where a last close has waited for others in
//! vain, they are not likely any more.
//!
//! Only waits depend on this. No fork waits for its lock, so nothing here waits for it either: a
//! child may find it taken for ever.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::sync::StaticMutex;

/// For how long after such a close others are likely.
const LATELY: Duration = Duration::from_secs(10);

/// So many databases are kept in mind.
const DATABASES_MAX: usize = 256;

static SEEN: LazyLock<StaticMutex<HashMap<String, Instant>>> = LazyLock::new(StaticMutex::default);

/// A close has found others at this database.
pub fn seen(path: &str) {
    let Some(mut seen) = SEEN.try_lock() else { return };
    if seen.len() >= DATABASES_MAX && !seen.contains_key(path) {
        seen.clear();
    }
    seen.insert(path.to_owned(), Instant::now());
}

/// Others have not come while they were waited for.
pub fn missed(path: &str) {
    if let Some(mut seen) = SEEN.try_lock() {
        seen.remove(path);
    }
}

pub fn is_likely(path: &str) -> bool {
    let Some(seen) = SEEN.try_lock() else { return false };
    seen.get(path).is_some_and(|at| at.elapsed() < LATELY)
}
