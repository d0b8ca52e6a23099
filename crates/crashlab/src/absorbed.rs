//! `maw` absorbs SQLite's rollback journal. Its options and databases are drawn here.
//!
//! | drawn by seed | where the user has not given it |
//! |---|---|
//! | journal mode | DELETE, TRUNCATE and PERSIST, for every strategy |
//! | `atomic` | `log`, `f2fs` and `xfs` |
//! | `log_size` | 1 MiB, with short epochs, and now and then the default |
//! | pages | 512 bytes to 64 KiB |
//! | `synchronous` | NORMAL, FULL and EXTRA |
//! | locking mode | now and then EXCLUSIVE, where one connection is enough |
//! | auto-vacuum | on, a quarter of the time |
//! | who makes the database | the strategy, or SQLite alone |
//! | VACUUM | now and then to another page size |
//! | deaths | of processes, in the workloads that have several |
//!
//! Other strategies have their scripts as they are: what was found once is found by its seed.

use fastrand::Rng;

use crate::mix::mix2;
use crate::script::{Script, Step, killed};
use crate::setting::{Journal, Setting, Synchronous};
use crate::workload::Workload;

/// For seeds that no other draw has.
const OF_OPTIONS: u64 = 0x006d_6177;
const OF_SCRIPT: u64 = 0x006d_6178;

const ATOMIC: [&str; 4] = ["log", "log", "f2fs", "xfs"];
const LOG_SIZES: [Option<&str>; 4] = [Some("1048576"), Some("1048576"), Some("1048576"), None];
const PAGES: [u32; 10] = [512, 1024, 1024, 4096, 4096, 4096, 4096, 8192, 16_384, 65_536];
const MADE_BY: [Option<u8>; 4] = [None, None, Some(0), Some(24)];

/// The setting with the options that the user has not given.
pub fn drawn(setting: Setting, seed: u64) -> Setting {
    let mut rng = Rng::with_seed(mix2(seed, OF_OPTIONS));
    let journal = Journal::OF_ROLLBACK[rng.usize(..Journal::OF_ROLLBACK.len())];
    let atomic = ATOMIC[rng.usize(..ATOMIC.len())];
    let log_size = LOG_SIZES[rng.usize(..LOG_SIZES.len())];
    let setting = match setting.journal {
        Journal::Rollback => Setting { journal, ..setting },
        _ => setting,
    };
    if !setting.absorbs_journal() {
        return setting;
    }
    [("atomic", Some(atomic)), ("log_size", log_size)].into_iter().fold(
        setting,
        |setting, (name, value)| match value {
            Some(value) if setting.parameter(name).is_none() => {
                setting.with_uri(&format!("{name}={value}"))
            }
            _ => setting,
        },
    )
}

/// The script with what a strategy must stand that absorbs journals.
pub fn varied(script: Script) -> Script {
    let mut rng = Rng::with_seed(mix2(script.seed, OF_SCRIPT));
    let page_bytes = PAGES[rng.usize(..PAGES.len())];
    let made_by_sqlite = MADE_BY[rng.usize(..MADE_BY.len())];
    let workload = script.workload;
    let mut steps = script.steps;
    for step in &mut steps {
        if let Step::Vacuum { page_bytes, .. } = step
            && rng.bool()
        {
            *page_bytes = Some(PAGES[rng.usize(..PAGES.len())]);
        }
    }
    if workload.has_processes() && !workload.is_threaded() {
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..=steps.len());
            steps.insert(at, killed(&mut rng));
        }
    }
    let mut lives = script.lives;
    for life in &mut lives {
        if rng.bool() {
            let at = rng.usize(..=life.steps.len());
            life.steps.insert(at, killed(&mut rng));
        }
    }
    Script {
        // As with the other strategies.
        page_bytes: if workload.fills_a_log() { page_bytes.max(1024) } else { page_bytes },
        made_by_sqlite: made_by_sqlite.filter(|_| workload != Workload::Fresh),
        auto_vacuum: script.auto_vacuum || rng.u8(..4) == 0,
        is_exclusive: has_one_connection(workload) && rng.u8(..4) == 0,
        level: Some(Synchronous::ALL[rng.usize(..Synchronous::ALL.len())]),
        steps,
        lives,
        ..script
    }
}

fn has_one_connection(workload: Workload) -> bool {
    use Workload::*;
    matches!(
        workload,
        Fresh
            | One
            | Large
            | Savepoints
            | Vacuum
            | Schema
            | Attach
            | Synchronous
            | Growing
            | Full
            | Huge
    )
}
