//! The commits of a trace, as strategies would have to make them: which pages, how many frames,
//! when, by whom.
//!
//! A rollback mode shows which blocks of the database a commit changed. In WAL mode a commit shows
//! only how many frames it appended. Which blocks they were shows at the checkpoint, for all
//! commits since the one before it. So the blocks of a checkpoint are given to its commits: each
//! commit has as many as it has frames, and all together have every block. How many come back at
//! the next checkpoint says in which order.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::cost::BLOCK_BYTES;
use super::frames::{self, WalEnd};
use crate::identify::{
    ACCESSES_COUNT_MAX, Access, Class, Database, JournalMode, Outcome, Synchronous, Transaction,
};
use crate::model::{Event, SECTOR_BYTES};

/// SQLite's default, and the least that a device shows.
const PAGE_BYTES_DEFAULT: u64 = 4096;
const PAGE_BYTES_MAX: u64 = 65_536;
/// Blocks behind all devices, for commits whose checkpoint the trace does not hold: of a database
/// with other checkpoints, and with none.
const UNPLACED: u64 = 1 << 60;
pub(super) const UNSEEN: u64 = 1 << 62;

/// One commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Commit {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub process: u32,
    pub thread: u32,
    /// Blocks of 4 KiB of the database file that it changed, each once.
    pub blocks: Vec<u64>,
    /// Frames that it appends to a WAL.
    pub frames: u32,
    /// The database file grows by so many blocks with it, if the trace shows that.
    pub new_blocks: Option<u32>,
    /// It also changed page 1 to count itself, as only a rollback mode does.
    pub counts_itself: bool,
    /// Somebody synchronized it.
    pub is_durable: bool,
}

/// What is known of a database from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    pub page_bytes: Option<u64>,
    /// It was recorded with the strategy `plain`.
    pub is_plain: bool,
}

/// The commits of one database.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub database: String,
    pub(super) commits: Vec<Commit>,
    /// The blocks by which the database file grew.
    pub(super) new_blocks: HashSet<u64>,
    /// By (journal mode, synchronous).
    pub(super) modes: BTreeMap<(JournalMode, Synchronous), u64>,
    /// Of all transactions, also those that are no commits.
    pub(super) recorded_bytes: u64,
    pub(super) recorded_flushes: u64,
    pub(super) transactions: u64,
    pub(super) rolled_back: u64,
    /// Transactions over several databases.
    pub(super) joint: u64,
    pub(super) page_bytes: u64,
    pub(super) is_page_known: bool,
    /// Commits in WAL mode behind the last checkpoint that the trace holds, or all.
    pub(super) unplaced: u64,
    /// Transactions with more requests than are kept.
    pub(super) cut: u64,
    /// It was recorded with the strategy `plain`.
    pub(super) is_plain: bool,
}

/// All databases of a trace.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// Not a number where the trace has no times.
    pub seconds: f64,
    /// A trace of system calls: no device.
    pub is_of_calls: bool,
    pub databases: Vec<Load>,
}

/// Takes the events and transactions of one trace. The requests of the transactions must have been
/// kept ([`crate::identify::Identifier::keep_accesses`]).
#[derive(Default)]
pub struct Collector {
    kept: HashMap<Database, Vec<Transaction>>,
    begin_ns: Option<u64>,
    end_ns: u64,
    has_no_times: bool,
}

impl Collector {
    /// Times are the numbers of lines.
    pub fn has_no_times(&mut self) {
        self.has_no_times = true;
    }

    pub fn event(&mut self, event: &Event) {
        if event.has_time() {
            self.time(event.time_ns);
        }
    }

    /// The recording holds this time.
    pub fn time(&mut self, time_ns: u64) {
        self.begin_ns = Some(self.begin_ns.map_or(time_ns, |begin| begin.min(time_ns)));
        self.end_ns = self.end_ns.max(time_ns);
    }

    pub fn transaction(&mut self, mut transaction: Transaction) {
        if self.has_no_times {
            (transaction.begin_ns, transaction.end_ns) = (0, 0);
        }
        self.kept.entry(transaction.database.clone()).or_default().push(transaction);
    }

    /// The trace has ended. `known`: what is known of a database. `is_of_calls`: no device was
    /// observed.
    pub fn finish(self, is_of_calls: bool, known: impl Fn(&str) -> Known) -> Loads {
        let begin_ns = self.begin_ns.unwrap_or(0);
        let load = |(database, mut transactions): (Database, Vec<Transaction>)| {
            transactions.sort_by_key(|transaction| transaction.begin_ns);
            let name = database.to_string();
            let known = known(&name);
            load(name, &transactions, known, is_of_calls)
        };
        let mut databases: Vec<Load> = self.kept.into_iter().map(load).collect();
        databases.sort_by(|one, other| {
            (other.transactions, &one.database).cmp(&(one.transactions, &other.database))
        });
        let seconds = match self.has_no_times {
            true => f64::NAN,
            false => self.end_ns.saturating_sub(begin_ns) as f64 / 1e9,
        };
        Loads { seconds, is_of_calls, databases }
    }
}

fn load(database: String, transactions: &[Transaction], known: Known, is_of_calls: bool) -> Load {
    let page_bytes = known.page_bytes.or_else(|| page_bytes(transactions));
    let mut load = Load {
        database,
        page_bytes: page_bytes.unwrap_or(PAGE_BYTES_DEFAULT),
        is_plain: known.is_plain,
        is_page_known: known.page_bytes.is_some() || is_of_calls && page_bytes.is_some(),
        ..Load::default()
    };
    let mut wal = Wal::default();
    for transaction in transactions {
        load.transactions += 1;
        load.recorded_bytes += transaction.traffic.bytes();
        load.recorded_flushes += if is_of_calls { transaction.syncs } else { transaction.flushes };
        load.joint += u64::from(!transaction.others.is_empty());
        load.cut += u64::from(transaction.accesses.len() >= ACCESSES_COUNT_MAX);
        *load.modes.entry((transaction.journal_mode, transaction.synchronous)).or_default() += 1;
        if transaction.outcome == Outcome::RolledBack {
            load.rolled_back += 1;
            continue;
        }
        let commit = Commit {
            begin_ns: transaction.begin_ns,
            end_ns: transaction.end_ns,
            process: transaction.process.process,
            thread: transaction.process.thread,
            is_durable: transaction.syncs > 0
                || transaction.flushes > 0
                || transaction.synchronous == Synchronous::Full,
            ..Commit::default()
        };
        match transaction.journal_mode {
            JournalMode::Wal => wal.commit(&mut load, commit, transaction),
            // Records of our own logs do not say which pages they hold.
            JournalMode::Eager | JournalMode::Waldio | JournalMode::Maw => {}
            // No strategy works on it.
            JournalMode::Lsmvbt => {}
            _ => rollback(&mut load, commit, transaction),
        }
    }
    wal.finish(&mut load);
    if load.modes.keys().any(|(mode, _)| keeps_old_pages(*mode)) {
        leave_page_one(&mut load);
    }
    load
}

fn keeps_old_pages(mode: JournalMode) -> bool {
    matches!(mode, JournalMode::Delete | JournalMode::Truncate | JournalMode::Persist)
}

/// A transaction in a rollback mode: its writes to the database are its pages.
fn rollback(load: &mut Load, mut commit: Commit, transaction: &Transaction) {
    commit.blocks = blocks(&transaction.accesses);
    if commit.blocks.is_empty() {
        return;
    }
    let page_blocks = (load.page_bytes / BLOCK_BYTES).max(1);
    commit.frames = (commit.blocks.len() as u64).div_ceil(page_blocks) as u32;
    let headers = match (transaction.journal_mode, transaction.synchronous) {
        (JournalMode::Unknown, _) => None,
        (mode, synchronous) => Some(
            u64::from(synchronous != Synchronous::Normal) + u64::from(mode == JournalMode::Persist),
        ),
    };
    // Of calls, a header is a few bytes.
    let header_bytes =
        if transaction.accesses.iter().any(|access| access.is_call) { 12 } else { BLOCK_BYTES };
    let old = headers.map(|headers| {
        let bytes = transaction.traffic.journal.bytes.saturating_sub(headers * header_bytes);
        frames::journaled(bytes, load.page_bytes)
    });
    let new_blocks =
        old.map(|old| commit.frames.saturating_sub(old).min(commit.frames) * page_blocks as u32);
    commit.new_blocks = new_blocks;
    // A file grows towards higher sectors, mostly.
    load.new_blocks.extend(commit.blocks.iter().rev().take(new_blocks.unwrap_or(0) as usize));
    load.commits.push(commit);
}

/// In a rollback mode every commit counts itself in page 1. In WAL mode page 1 is changed only
/// where the database grows. So page 1 is taken out of the commits that did not make it grow.
fn leave_page_one(load: &mut Load) {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for block in load.commits.iter().flat_map(|commit| &commit.blocks) {
        *counts.entry(*block).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(block, count)| (count, std::cmp::Reverse(block)));
    let Some((page_one, _)) = most.filter(|&(_, count)| count * 10 >= load.commits.len() * 9)
    else {
        return;
    };
    let page_blocks = (load.page_bytes / BLOCK_BYTES).max(1);
    let page_one = page_one..page_one + page_blocks;
    for commit in &mut load.commits {
        let others = commit.blocks.iter().filter(|block| !page_one.contains(block)).count();
        if commit.new_blocks == Some(0) && others < commit.blocks.len() && commit.frames > 1 {
            commit.blocks.retain(|block| !page_one.contains(block));
            commit.frames -= 1;
            commit.counts_itself = true;
        }
    }
}

/// Different blocks of the database that were written.
fn blocks(accesses: &[Access]) -> Vec<u64> {
    let mut blocks: Vec<u64> = accesses
        .iter()
        .filter(|access| access.class == Class::Db && access.bytes > 0)
        .flat_map(|access| {
            let unit = if access.is_call { BLOCK_BYTES } else { BLOCK_BYTES / SECTOR_BYTES };
            let length = if access.is_call { access.bytes } else { access.bytes / SECTOR_BYTES };
            access.sector / unit..(access.sector.saturating_add(length)).div_ceil(unit)
        })
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// The length of a page, where the writes to the database show one of more than a block.
fn page_bytes(transactions: &[Transaction]) -> Option<u64> {
    let accesses = || transactions.iter().flat_map(|transaction| &transaction.accesses);
    let of_database = |access: &&Access| access.class == Class::Db && access.bytes > 0;
    if accesses().any(|access| access.is_call) {
        // SQLite writes a page in one call.
        return accesses()
            .filter(|access| access.bytes.is_power_of_two())
            .filter(|access| (512..=PAGE_BYTES_MAX).contains(&access.bytes))
            .map(|access| access.bytes)
            .max();
    }
    let divisor =
        accesses().filter(of_database).fold(0, |divisor, access| gcd(divisor, access.bytes));
    let power = 1u64 << divisor.trailing_zeros().min(63);
    (divisor > 0 && power > BLOCK_BYTES).then_some(power.min(PAGE_BYTES_MAX))
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Commits in WAL mode, until all checkpoints are known.
#[derive(Default)]
struct Wal {
    end: WalEnd,
    /// Behind each checkpoint, the number of the first commit that the next one copies; and the
    /// blocks that it copied.
    checkpoints: Vec<(usize, Vec<u64>)>,
    has_commits: bool,
}

impl Wal {
    fn commit(&mut self, load: &mut Load, mut commit: Commit, transaction: &Transaction) {
        let writes: Vec<Access> = transaction
            .accesses
            .iter()
            .filter(|access| access.class == Class::Journal && access.bytes > 0)
            .copied()
            .collect();
        commit.frames = self.end.append(&writes, load.page_bytes);
        if commit.frames > 0 {
            load.commits.push(commit);
            self.has_commits = true;
        }
        let copied = blocks(&transaction.accesses);
        if !copied.is_empty() {
            self.checkpoints.push((load.commits.len(), copied));
        }
    }

    fn finish(self, load: &mut Load) {
        if !self.has_commits {
            return;
        }
        let page_blocks = (load.page_bytes / BLOCK_BYTES).max(1);
        let back = back_share(&self.checkpoints);
        let (mut first, mut last, mut highest) = (0, None, None);
        for (end, copied) in &self.checkpoints {
            let waiting = &mut load.commits[first..*end];
            let frames = frames_of(waiting);
            if frames == 0 {
                continue;
            }
            let back = back.unwrap_or_else(|| back_share_of(copied, frames as f64));
            spread(waiting, copied, back);
            last = Some((copied, frames, back));
            if let Some(highest) = highest {
                grow(&mut load.new_blocks, waiting, copied, highest);
            }
            highest = highest.max(copied.last().copied());
            first = *end;
        }
        // Behind the last checkpoint commits change blocks as before it. Without one, each frame
        // has its own, and `steady.rs` makes fewer of them.
        let waiting = &mut load.commits[first..];
        let frames = frames_of(waiting);
        if frames > 0 {
            load.unplaced = waiting.len() as u64;
            let (blocks, back) = match last {
                Some((copied, before, back)) => {
                    unplaced(copied, back, frames as f64 / before as f64)
                }
                None => ((UNSEEN..UNSEEN + frames * page_blocks).collect(), 0.0),
            };
            spread(waiting, &blocks, back);
        }
    }
}

/// The blocks of commits that no checkpoint shows, and how many of these come back. `copied`, of
/// which `back` come back, is the checkpoint before. There are `length` times as many frames as it
/// had.
fn unplaced(copied: &[u64], back: f64, length: f64) -> (Vec<u64>, f64) {
    let (pool, draws) = pool_of(copied.len() as f64, back);
    let met = pool * (1.0 - (-draws * length / pool).exp());
    let count = (met.ceil() as u64).max(1);
    // So many of them the checkpoint before has met, too.
    let known = ((count as f64 * back) as u64).min(copied.len() as u64);
    let at = |number: u64| number * known / count;
    let block = |number: u64| match at(number + 1) > at(number) {
        true => copied[(at(number) * copied.len() as u64 / known) as usize],
        false => UNPLACED + number,
    };
    ((0..count).map(block).collect(), met / pool)
}

fn frames_of(commits: &[Commit]) -> u64 {
    commits.iter().map(|commit| u64::from(commit.frames)).sum()
}

/// What lies behind all that was copied before is new.
fn grow(new_blocks: &mut HashSet<u64>, commits: &mut [Commit], copied: &[u64], highest: u64) {
    new_blocks.extend(copied.iter().filter(|block| **block > highest));
    let mut seen = HashSet::new();
    for commit in commits {
        let fresh = commit.blocks.iter().filter(|block| **block > highest);
        commit.new_blocks = Some(fresh.filter(|block| seen.insert(**block)).count() as u32);
    }
}

/// How many of a checkpoint's blocks are in the next one, too. Blocks that are filled in turn do
/// not come back; of blocks that are met by chance, as many do as the checkpoint has of all.
/// `None`: of less than two checkpoints nobody can say it.
fn back_share(checkpoints: &[(usize, Vec<u64>)]) -> Option<f64> {
    let back = |pair: &[(usize, Vec<u64>)]| {
        pair[1].1.iter().filter(|block| pair[0].1.binary_search(block).is_ok()).count()
    };
    let back: usize = checkpoints.windows(2).map(back).sum();
    let all: usize = checkpoints.iter().skip(1).map(|(_, copied)| copied.len()).sum();
    (all > 0).then(|| back as f64 / all as f64)
}

/// Blocks next to each other were filled in turn.
const NEIGHBOURS_SHARE: f64 = 0.9;

/// The same from the places of one checkpoint's blocks.
fn back_share_of(copied: &[u64], frames: f64) -> f64 {
    let next = copied.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
    if next as f64 >= copied.len() as f64 * NEIGHBOURS_SHARE {
        return 0.0;
    }
    copied.len() as f64 / pool(frames, copied.len() as f64)
}

const BACK_SHARES: std::ops::RangeInclusive<f64> = 0.01..=0.99;

/// Gives the blocks to the commits, so that each block has one commit at least.
///
/// Some frames fall by chance on a block of a pool, of which `back` says how large it is. The
/// others fall on a block that was met before: mostly the last one.
fn spread(commits: &mut [Commit], blocks: &[u64], back: f64) {
    let frames = frames_of(commits).max(1) as f64;
    let each = blocks.len().div_ceil(frames as usize).max(1);
    let (pool, draws) = pool_of(blocks.len() as f64, back);
    let rate = (draws / frames).min(each as f64);
    let (mut met, mut due, mut left) = (0, 1.0, frames);
    let (mut again, mut far) = (0, 0.0);
    for commit in commits {
        let mut own = Vec::new();
        for _ in 0..commit.frames {
            due += rate * (1.0 - met as f64 / pool);
            let must = (blocks.len() - met) as f64 >= left * each as f64;
            left -= 1.0;
            for _ in 0..each {
                if met < blocks.len() && (due >= 1.0 || must) {
                    own.push(blocks[met]);
                    met += 1;
                    due -= 1.0;
                    continue;
                }
                far += back;
                if far >= 1.0 {
                    far -= 1.0;
                    // A step that shares no factor with most lengths.
                    again = (again + 7919) % met.max(1);
                    own.push(blocks[again]);
                } else {
                    own.push(blocks[met.saturating_sub(1 + own.len()).min(blocks.len() - 1)]);
                }
            }
        }
        own.sort_unstable();
        own.dedup();
        commit.blocks = own;
    }
}

/// Of how many blocks those of a checkpoint are drawn, and by how many draws. `back` of them come
/// back in the next checkpoint.
fn pool_of(count: f64, back: f64) -> (f64, f64) {
    let back = back.clamp(*BACK_SHARES.start(), *BACK_SHARES.end());
    let pool = count / back;
    (pool, -pool * (1.0 - back).ln())
}

/// Of how many blocks `frames` draws by chance meet `met` different ones.
fn pool(frames: f64, met: f64) -> f64 {
    let (mut low, mut high) = (met, met * 1e4);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if middle * (1.0 - (-frames / middle).exp()) < met { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commits(count: usize, frames: u32) -> Vec<Commit> {
        vec![Commit { frames, ..Commit::default() }; count]
    }

    fn different(commits: &[Commit]) -> usize {
        commits.iter().flat_map(|commit| &commit.blocks).collect::<HashSet<_>>().len()
    }

    #[test]
    fn a_checkpoints_blocks_all_have_a_commit_and_each_commit_has_some() {
        let blocks: Vec<u64> = (100..740).collect();
        for back in [0.0, 0.3, 0.6, 1.0] {
            let mut commits = commits(500, 2);
            spread(&mut commits, &blocks, back);
            assert_eq!(different(&commits), 640, "{back}");
            assert!(commits.iter().all(|commit| (1..=2).contains(&commit.blocks.len())));
        }
    }

    #[test]
    fn blocks_by_chance_are_met_early_and_blocks_in_turn_evenly() {
        let blocks: Vec<u64> = (100..740).collect();
        let quarter = |back| {
            let mut commits = commits(1000, 1);
            spread(&mut commits, &blocks, back);
            different(&commits[..250])
        };
        assert!((158..164).contains(&quarter(0.0)), "{}", quarter(0.0));
        // A pool of 1,049 blocks: 1,049 * (1 - exp(-250 / 1,049)).
        let chance = 640.0 / pool(1000.0, 640.0);
        assert!((215..230).contains(&quarter(chance)), "{}", quarter(chance));
    }

    #[test]
    fn commits_behind_the_last_checkpoint_change_as_many_blocks_as_those_before_it() {
        // By chance, of 1,049 blocks.
        let by_chance: Vec<u64> = (0..640).map(|number| 100 + number * 2).collect();
        let in_turn: Vec<u64> = (100..740).collect();
        let changed = |copied: &Vec<u64>, range: std::ops::Range<usize>| {
            let mut load = Load { commits: commits(1500, 1), page_bytes: 4096, ..Load::default() };
            let checkpoints = vec![(1000, copied.clone())];
            Wal { checkpoints, has_commits: true, ..Wal::default() }.finish(&mut load);
            assert_eq!(load.unplaced, 500);
            different(&load.commits[range])
        };
        // 1,049 * (1 - exp(-250 / 1,049)), and the same of 500 and of all 1,500. The blocks that
        // are met late are met less often than by chance.
        for begin in [0, 1000] {
            let quarter = changed(&by_chance, begin..begin + 250);
            assert!((205..240).contains(&quarter), "{begin}: {quarter}");
        }
        let half = changed(&by_chance, 1000..1500);
        assert!((390..405).contains(&half), "{half}");
        let all = changed(&by_chance, 0..1500);
        assert!((780..830).contains(&all), "{all}");
        let half = changed(&in_turn, 1000..1500);
        assert!((315..325).contains(&half), "{half}");
    }

    #[test]
    fn the_next_checkpoint_says_which_blocks_come_back() {
        let checkpoint = |begin: u64, step: usize| (begin..begin + 1000).step_by(step).collect();
        let same = [(1, checkpoint(0, 2)), (2, checkpoint(0, 2))];
        let next = [(1, checkpoint(0, 1)), (2, checkpoint(900, 1))];
        assert_eq!((back_share(&same), back_share(&next)), (Some(1.0), Some(0.1)));
        assert_eq!((back_share(&same[..1]), back_share_of(&next[0].1, 2000.0)), (None, 0.0));
        assert!(back_share_of(&same[0].1, 1000.0) > 0.5);
    }
}
