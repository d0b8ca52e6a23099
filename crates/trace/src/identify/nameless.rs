//! Traces without file names: which sectors are a rollback journal, which its database.
//!
//! The groups of writes between flushes are worked out per thread and device. The header of a
//! journal is the one page that is written in both of two ways:
//! - together with other pages (header and body);
//! - alone (number of records, or reset).
//!
//! In between is a group that does not hold the header (the database). Any of these rows of groups,
//! where `s` is the first page of `A`, shows it:
//!
//! | mode | groups |
//! |---|---|
//! | PERSIST, FULL | A = {s, …} · {s} · C without s · {s} |
//! | DELETE or TRUNCATE, FULL, the journal stays | A = {s, …} · {s} · C without s · {s, …} |
//! | the same, the journal moves | A = {s, …} · {s} · C = {p, …} · B = {t, …} · {t} · D = {p, …} |
//! | PERSIST, NORMAL | A = {s, …} · C without s · {s} · {s, …} |
//!
//! A journal that moves is known by the database's first page `p`.
//!
//! From then on, these groups are known:
//! - A group that holds `s` or lies in the journal's known pages is the journal's.
//! - What the thread writes between a log and the reset is the database's.
//! - Of a journal that moves, each row that ends with `p` is known.
//!
//! The groups that were seen before are not lost: they are handed out with the row. Not found:
//! DELETE and TRUNCATE with NORMAL, a cache that spills in every transaction, WAL.

mod databases;
mod run;

use std::collections::{HashMap, HashSet, VecDeque};

use crate::model::{DeviceId, SECTOR_BYTES};

use super::files::Role;
use super::requests::Request;
use super::transaction::Landmark;
use super::waiters::Busy;
use databases::Databases;
pub(super) use databases::Place;
use run::Run;
pub(super) use run::Step;

/// The longest row, and room for one group of something else.
const RECENT_COUNT_MAX: usize = 7;
/// A longer group is no commit that could teach anything. Its content is dropped.
const STEPS_COUNT_MAX: usize = 65_536;
const THREADS_COUNT_MAX: usize = 4096;

/// A group whose owner is known.
#[derive(Debug)]
pub(super) struct Found {
    pub place: Place,
    pub role: Role,
    pub steps: Vec<Step>,
}

#[derive(Debug, Default)]
struct Thread {
    open: Run,
    recent: VecDeque<Run>,
    known: Databases,
    /// The journal of the last group.
    last: Option<usize>,
    left: Vec<Step>,
}

/// A thread, and the device that it writes to.
type Number = (DeviceId, u32);

#[derive(Debug, Default)]
pub(super) struct Nameless {
    threads: HashMap<Number, Thread>,
    /// The threads that have shown no database yet.
    unknown: HashSet<Number>,
    left: Vec<Step>,
}

impl Nameless {
    /// A write of `thread`. Also returns the threads that are forgotten. `waits_show`: only the
    /// thread's waiting shows where a group ends.
    pub(super) fn write(
        &mut self,
        number: Number,
        request: Request,
        waits_show: bool,
    ) -> (Vec<Found>, Vec<Number>) {
        let mut given_up = Vec::new();
        if self.threads.len() >= THREADS_COUNT_MAX {
            given_up.extend(self.unknown.drain());
            let threads = given_up.iter().filter_map(|thread| self.threads.remove(thread));
            self.left.extend(threads.flat_map(Thread::into_steps));
        }
        let thread = self.threads.entry(number).or_default();
        let mut found = Vec::new();
        let waited =
            waits_show && !thread.open.ranges.is_empty() && thread.open.done_ns <= request.begin_ns;
        if thread.open.is_closed || waited {
            found = thread.close();
        }
        if thread.known.is_empty() {
            self.unknown.insert(number);
        } else {
            self.unknown.remove(&number);
        }
        if thread.open.steps.len() >= STEPS_COUNT_MAX {
            self.left.append(&mut std::mem::take(&mut thread.open).steps);
        }
        let run = &mut thread.open;
        run.device = request.device;
        run.bytes += request.bytes;
        run.done_ns = run.done_ns.max(request.done_ns);
        run.ranges
            .push((request.sector, request.sector.saturating_add(request.bytes / SECTOR_BYTES)));
        run.steps.push(Step::Write(request));
        self.left.append(&mut thread.left);
        (found, given_up)
    }

    /// The steps that have turned out to belong to no database.
    pub(super) fn take_left(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.left)
    }

    /// Another step of a thread that has written.
    pub(super) fn step(&mut self, thread: Number, step: Step) {
        match self
            .threads
            .get_mut(&thread)
            .map(|thread| &mut thread.open)
            .filter(|run| !run.ranges.is_empty())
        {
            Some(run) => {
                run.is_closed |= matches!(step, Step::Flushed(_));
                run.steps.push(step);
            }
            None => self.left.push(step),
        }
    }

    /// What the thread does, as far as others must know.
    pub(super) fn busy(&self, number: Number) -> Option<Busy> {
        let run = self
            .threads
            .get(&number)
            .map(|thread| &thread.open)
            .filter(|run| !run.ranges.is_empty())?;
        let (since_ns, data_done_ns, thread) = (run.done_ns, run.done_ns, Some(number.1));
        Some(Busy { since_ns, data_done_ns, thread, ..Busy::default() })
    }

    pub(super) fn finish(&mut self) -> Vec<Found> {
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        threads.sort_unstable_by_key(|(number, _)| *number);
        let mut found = Vec::new();
        for (_, mut thread) in threads {
            found.append(&mut thread.close());
            self.left.extend(thread.into_steps());
        }
        found
    }
}

impl Thread {
    fn into_steps(self) -> impl Iterator<Item = Step> {
        self.left
            .into_iter()
            .chain(self.recent.into_iter().chain([self.open]).flat_map(|run| run.steps))
    }

    /// The open group is complete: whose is it?
    fn close(&mut self) -> Vec<Found> {
        let run = std::mem::take(&mut self.open);
        if run.ranges.is_empty() {
            return Vec::new();
        }
        if let Some((index, role)) = self.classify(&run) {
            self.known.learn(index, &run, role);
            self.last = Some(index);
            return vec![Found { place: self.known.place(index), role, steps: run.steps }];
        }
        if self.recent.len() == RECENT_COUNT_MAX {
            self.left.extend(self.recent.pop_front().into_iter().flat_map(|run| run.steps));
        }
        self.recent.push_back(run);
        self.recognise()
    }

    fn classify(&self, run: &Run) -> Option<(usize, Role)> {
        if let Some(index) = self.known.journal_of(run) {
            return Some((index, Role::Journal));
        }
        let last = self.last.filter(|&last| self.known.is_logged(last))?;
        Some((last, Role::Database))
    }

    /// Do the last groups show a journal?
    fn recognise(&mut self) -> Vec<Found> {
        let rows = |count: usize| self.recent.len().checked_sub(count);
        if let Some(begin) = rows(4)
            && let Some(header) = fixed(&self.recent.range(begin..).collect::<Vec<_>>())
        {
            return self.learn(begin, Landmark::JournalHeader, header);
        }
        let Some(page) =
            rows(3).and_then(|begin| moving(&self.recent.range(begin..).collect::<Vec<_>>()))
        else {
            return Vec::new();
        };
        let device = self.recent[self.recent.len() - 1].device;
        let place = Place { device, landmark: Landmark::FirstPage, sector: page };
        let before = rows(6).filter(|&begin| {
            self.recent[begin].device == device
                && moving(&self.recent.range(begin..begin + 3).collect::<Vec<_>>()) == Some(page)
        });
        match (self.known.find(place).is_some(), before) {
            (true, _) => self.learn(self.recent.len() - 3, Landmark::FirstPage, page),
            (false, Some(begin)) => self.learn(begin, Landmark::FirstPage, page),
            (false, None) => Vec::new(),
        }
    }

    /// Hands out the last groups, from `begin` on, as a database's.
    fn learn(&mut self, begin: usize, landmark: Landmark, sector: u64) -> Vec<Found> {
        let place = Place { device: self.recent[begin].device, landmark, sector };
        let index = self.known.find_or_add(place);
        let mut found = Vec::new();
        for run in self.recent.drain(begin..) {
            let is_journal = run.holds(sector) == (landmark == Landmark::JournalHeader);
            let role = if is_journal { Role::Journal } else { Role::Database };
            match landmark {
                Landmark::JournalHeader => self.known.learn(index, &run, role),
                Landmark::FirstPage => {}
            }
            found.push(Found { place, role, steps: run.steps });
        }
        self.left.extend(self.recent.drain(..).flat_map(|run| run.steps));
        self.last = (landmark == Landmark::JournalHeader).then_some(index);
        found
    }
}

/// The header of a journal that stays in its place, if the four groups show one.
fn fixed(row: &[&Run]) -> Option<u64> {
    let header = row[0].ranges[0].0;
    let is_database = |run: &Run| !run.holds(header) && !run.meets(row[0]);
    let is_log = |run: &Run| run.holds(header) && run.has_body();
    let full = row[1].is_alone(header) && is_database(row[2]) && row[3].holds(header);
    let normal = is_database(row[1]) && row[2].is_alone(header) && is_log(row[3]);
    let same_device = row.iter().all(|run| run.device == row[0].device);
    (same_device && is_log(row[0]) && (full || normal)).then_some(header)
}

/// The first page of the database, if the three groups are log, count and update.
fn moving(row: &[&Run]) -> Option<u64> {
    let header = row[0].ranges[0].0;
    let same_device = row.iter().all(|run| run.device == row[0].device);
    let is_it =
        same_device && row[0].has_body() && row[1].is_alone(header) && !row[2].meets(row[0]);
    is_it.then(|| row[2].ranges[0].0)
}
