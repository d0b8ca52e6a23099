//! Several handles of one database, as several processes have them. Some die while they write.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use oneflush_blocklog::Storage;
use oneflush_mvbt::{
    Database, Error, Memory as Commons, Options, Read, ReadTransaction, Retain, Version,
};

use crate::common::model::{
    Model, check, check_reader, contents, drawn_options, sound, transaction,
};
use crate::common::{self, Memory};

/// A process' view of the file. It dies after so many writes and flushes; of the last write only
/// some sectors arrive.
struct Mortal {
    file: Memory,
    left: Mutex<Option<usize>>,
}

impl Mortal {
    fn dies_after(&self, left: usize) {
        *self.left.lock().unwrap() = Some(left);
    }

    /// True: this is the last thing that it does.
    fn tick(&self) -> io::Result<bool> {
        let mut left = self.left.lock().unwrap();
        match &mut *left {
            None => Ok(false),
            Some(0) => Err(io::Error::other("the process is dead")),
            Some(left) => {
                *left -= 1;
                Ok(*left == 0)
            }
        }
    }

    fn put(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        if !self.tick()? {
            return self.file.write(blocks, offset);
        }
        let sectors = blocks.len() / 512;
        let arrive = fastrand::usize(..=sectors) * 512;
        self.file.write(&blocks[..arrive], offset)?;
        Err(io::Error::other("the process dies"))
    }
}

impl Storage for Mortal {
    fn block_bytes(&self) -> usize {
        self.file.block_bytes()
    }
    fn alignment_bytes(&self) -> usize {
        self.file.alignment_bytes()
    }
    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }
    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.put(blocks, offset)
    }
    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.put(blocks, offset)
    }
    fn flush(&self) -> io::Result<()> {
        self.tick().map(drop)
    }
    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.tick()?;
        self.file.extend(size_bytes)
    }
    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.tick()?;
        self.file.zero(range)
    }
    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.tick()?;
        self.file.cut(size_bytes)
    }
}

struct Handle {
    db: Database,
    file: Arc<Mortal>,
    readers: Vec<Reader>,
}

struct Reader {
    txn: ReadTransaction,
    model: Model,
    /// Somebody has died since, so it may be told that its version is gone.
    may_be_gone: bool,
}

struct Episode {
    rng: fastrand::Rng,
    file: Memory,
    commons: Arc<Commons>,
    options: Options,
    handles: Vec<Handle>,
    model: Model,
    /// So many versions are kept. 0: the file has no history.
    retained: usize,
    /// What was committed, as far as it is kept, and how often.
    states: Vec<(Version, Model)>,
    commits: usize,
    /// Clean closes of the last handle, deaths, looks of old readers, of them in vain, and looks at
    /// versions that are kept.
    counts: [usize; 5],
}

impl Episode {
    fn begin(seed: u64) -> Episode {
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = drawn_options(&mut rng);
        let file = Memory::default();
        let retained = rng.choice([0, 3, 20, 200]).unwrap();
        let db = file.create(options.clone()).unwrap();
        let mut states = Vec::new();
        if retained > 0 {
            let mut txn = db.begin_write().unwrap();
            txn.set_retain(Retain::Versions(retained as u64)).unwrap();
            states.push((txn.commit().unwrap(), Model::default()));
        }
        db.close().unwrap();
        let (commons, handles, model) = (Commons::new(), Vec::new(), Model::default());
        let (commits, counts) = (1, [0; 5]);
        Episode { rng, file, commons, options, handles, model, retained, states, commits, counts }
    }

    fn drawn(&mut self) -> usize {
        self.rng.usize(..self.handles.len())
    }

    fn step(&mut self, about: &str) {
        match self.rng.u8(..40) {
            0..=3 if self.handles.len() < 4 => self.open_one(),
            4 => self.close_one(),
            5 => {
                // It dies at rest.
                let which = self.drawn();
                self.handles.swap_remove(which);
                self.bury();
            }
            6..=8 => self.die_writing(about),
            9..=14 => {
                let which = self.drawn();
                let txn = self.handles[which].db.begin_read().unwrap();
                check(&txn, &self.model, about);
                let model = self.model.clone();
                self.handles[which].readers.push(Reader { txn, model, may_be_gone: false });
            }
            15..=17 => self.look(about),
            18..=19 if self.retained == 0 => self.look(about),
            18..=19 => self.look_back(about),
            _ => {
                let which = self.drawn();
                let spills = self.options.spill_bytes < 1 << 30;
                let Episode { rng, handles, model, .. } = self;
                transaction(rng, &handles[which].db, model, &mut false, spills).unwrap();
                self.note();
            }
        }
        if self.handles.is_empty() {
            self.open_one();
        }
    }

    fn open_one(&mut self) {
        let file = Arc::new(Mortal { file: self.file.clone(), left: Mutex::new(None) });
        let storage: Arc<dyn Storage> = Arc::clone(&file) as _;
        let (path, options) = (PathBuf::from("a.mvbt"), self.options.clone());
        let db = Database::join_on(storage, path, options, &self.commons).unwrap();
        self.handles.push(Handle { db, file, readers: Vec::new() });
    }

    fn close_one(&mut self) {
        let which = self.drawn();
        let Handle { db, readers, .. } = self.handles.swap_remove(which);
        drop(readers);
        db.close().unwrap();
        self.counts[0] += usize::from(self.handles.is_empty());
    }

    /// Each transaction has a time, so the newest of these has the newest version.
    fn note(&mut self) {
        if self.retained == 0 {
            return;
        }
        if self.handles.is_empty() {
            self.open_one();
        }
        let newest = self.handles[0].db.history().unwrap().marks.last().unwrap().version;
        if newest > self.states.last().unwrap().0 {
            self.states.push((newest, self.model.clone()));
            self.commits += 1;
        }
    }

    /// A version that is kept is as it was, and may be read for longer than it is kept.
    fn look_back(&mut self, about: &str) {
        let which = self.drawn();
        let Episode { rng, handles, states, .. } = self;
        let Handle { db, readers, .. } = &mut handles[which];
        let history = db.history().unwrap();
        let kept = history.marks.iter().filter(|mark| mark.version >= history.from).count();
        assert!(kept >= self.retained.min(self.commits), "{about}: {kept} versions are kept");
        let gone = states.partition_point(|(version, _)| *version <= history.from) - 1;
        if states[0].0 < history.from {
            let asked = db.begin_read_at(states[0].0).map(|reader| reader.version());
            assert!(matches!(asked, Err(Error::NotKept { .. })), "{about}: {asked:?}");
        }
        states.drain(..gone);
        let (version, model) = rng.choice(&*states).unwrap();
        let txn = db.begin_read_at((*version).max(history.from)).unwrap();
        check(&txn, model, &format!("{about}: kept version {version}"));
        if rng.u8(..4) == 0 {
            readers.push(Reader { txn, model: model.clone(), may_be_gone: false });
        }
        self.counts[4] += 1;
    }

    /// Readers of others may lose their version, if it is not in the history.
    fn bury(&mut self) {
        self.counts[1] += 1;
        if self.retained > 0 {
            return;
        }
        let readers = self.handles.iter_mut().flat_map(|handle| &mut handle.readers);
        readers.for_each(|reader| reader.may_be_gone = true);
    }

    fn die_writing(&mut self, about: &str) {
        let which = self.drawn();
        let Handle { db, file, readers } = self.handles.swap_remove(which);
        file.dies_after(self.rng.usize(..8));
        let before = self.model.clone();
        let mut is_committing = false;
        let ended = transaction(&mut self.rng, &db, &mut self.model, &mut is_committing, true);
        drop((db, readers));
        self.bury();
        if ended.is_ok() {
            return self.note();
        }
        let after = std::mem::replace(&mut self.model, before);
        if self.handles.is_empty() {
            self.open_one();
        } else {
            let db = &self.handles[0].db;
            check(&db.begin_read().unwrap(), &self.model, &format!("{about}: not published"));
            db.begin_write().unwrap().rollback().unwrap();
        }
        let reader = self.handles[0].db.begin_read().unwrap();
        // Trees of the one may not be there in the other.
        let is_after = is_committing && contents(&reader, &after).is_ok_and(|one| one == after);
        let is_before = contents(&reader, &self.model).is_ok_and(|one| one == self.model);
        assert!(is_after || is_before, "{about}: half of a transaction is there");
        if is_after && !is_before {
            self.model = after;
        }
        drop(reader);
        self.note();
    }

    /// An old reader looks, and perhaps for the last time.
    fn look(&mut self, about: &str) {
        let which = self.drawn();
        let handle = &mut self.handles[which];
        if handle.readers.is_empty() {
            return;
        }
        let drawn = self.rng.usize(..handle.readers.len());
        let Reader { txn, model, may_be_gone } = &handle.readers[drawn];
        let is_void = self.retained == 0 && self.options.spill_bytes < 1 << 30;
        let may_be_gone = *may_be_gone || is_void;
        let about = format!("{about}: a reader of {}", txn.version());
        let found = check_reader(txn, model, may_be_gone, &about);
        self.counts[if found { 2 } else { 3 }] += 1;
        if self.rng.bool() || !found {
            handle.readers.swap_remove(drawn);
        }
    }
}

#[test]
fn handles_see_what_others_commit_and_survive_their_deaths() {
    let seeds = std::env::var("ONEFLUSH_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let mut counts = [0; 5];
    let from = std::env::var("ONEFLUSH_TEST_FROM").ok().and_then(|from| from.parse().ok());
    for seed in from.unwrap_or(0)..seeds.unwrap_or(60) {
        let mut episode = Episode::begin(seed);
        episode.open_one();
        for number in 0..300 {
            episode.step(&format!("seed {seed}, step {number}"));
        }
        let about = format!("seed {seed}, at the end");
        for handle in &episode.handles {
            check(&handle.db.begin_read().unwrap(), &episode.model, &about);
        }
        sound(&episode.handles[0].db, &about);
        if episode.retained > 0 {
            episode.look_back(&about);
        }
        while !episode.handles.is_empty() {
            episode.close_one();
        }
        let db = episode.file.open(Options::default()).unwrap();
        check(&db.begin_read().unwrap(), &episode.model, &about);
        sound(&db, &about);
        drop(db);
        episode.open_one();
        if episode.retained > 0 {
            (0..3).for_each(|_| episode.look_back(&format!("{about}, opened again")));
        }
        counts.iter_mut().zip(episode.counts).for_each(|(all, one)| *all += one);
    }
    println!(
        "closes {}, deaths {}, looks {}, in vain {}, back {}",
        counts[0], counts[1], counts[2], counts[3], counts[4]
    );
    assert!(counts.iter().take(3).chain(&counts[4..]).all(|&count| count > 0));
    assert!(counts[3] < counts[2] / 4, "versions of readers are seldom gone: {counts:?}");
}

#[test]
fn free_pages_of_one_that_closes_go_to_the_others() {
    let (file, commons) = (Memory::default(), Commons::new());
    let mut options = Options::default();
    options.page_bytes = 512;
    file.create(options.clone()).unwrap().close().unwrap();
    let join = || {
        let path = PathBuf::from("a.mvbt");
        Database::join_on(Arc::new(file.clone()), path, options.clone(), &commons).unwrap()
    };
    let stays = join();
    for number in 0..20 {
        let comes = join();
        let mut txn = comes.begin_write().unwrap();
        let tree = txn.create_tree(false).unwrap();
        txn.insert(tree, number, &[1; 300]).unwrap();
        txn.drop_tree(tree).unwrap();
        txn.commit().unwrap();
        comes.close().unwrap();
    }
    stays.begin_write().unwrap().rollback().unwrap();
    assert_eq!(sound(&stays, "beside others"), 0);
    let pages = stays.begin_read().unwrap().page_count().unwrap();
    assert!(pages < 60, "{pages} pages: each has taken some, and nobody has had them again");
    stays.close().unwrap();
    let db = file.open(options.clone()).unwrap();
    assert_eq!(sound(&db, "afterwards"), 0);
}

#[test]
fn pages_that_a_history_needs_are_handed_over_by_those_who_close() {
    let (file, commons) = (Memory::default(), Commons::new());
    let mut options = Options::default();
    options.page_bytes = 512;
    options.clock = common::clock::now;
    let join = |read_only: bool| {
        let mut options = options.clone();
        options.read_only = read_only;
        let path = PathBuf::from("a.mvbt");
        Database::join_on(Arc::new(file.clone()), path, options, &commons).unwrap()
    };
    let listed = |db: &Database, about: &str| {
        let report = db.check(None).unwrap();
        assert_eq!(
            (report.faults, report.lost, report.unlisted),
            (vec![], vec![], vec![]),
            "{about}"
        );
        report.history_pages
    };
    let db = file.create(options.clone()).unwrap();
    let mut txn = db.begin_write().unwrap();
    txn.set_retain(Retain::Versions(60)).unwrap();
    let tree = txn.create_tree(false).unwrap();
    let first = txn.commit().unwrap();
    let write = |db: &Database, count: i64| {
        for key in 0..count {
            let mut txn = db.begin_write().unwrap();
            txn.insert(tree, key % 3, &[key as u8; 900]).unwrap();
            txn.commit().unwrap();
        }
    };
    write(&db, 20);
    db.close().unwrap();
    // What the close has left in the anchor comes to the first who writes.
    let stays = join(true);
    let kept = listed(&stays, "nothing was written since the close");
    assert!(kept > 20, "{kept}");
    let comes = join(false);
    write(&comes, 1);
    assert!(listed(&comes, "written") >= kept);
    write(&comes, 30);
    assert!(listed(&comes, "written more") > 60);
    comes.close().unwrap();
    assert!(listed(&stays, "one has closed, and the other reads") > 60);
    assert_eq!(stays.begin_read_at(first).unwrap().count(tree).unwrap(), 0);
    let comes = join(false);
    let pages = comes.begin_read().unwrap().page_count().unwrap();
    write(&comes, 200);
    listed(&comes, "the history has gone on");
    let after = comes.begin_read().unwrap().page_count().unwrap();
    assert!(after < pages + 150, "{pages} pages, and then {after}: those are used again");
    assert!(matches!(stays.begin_read_at(first), Err(Error::NotKept { .. })));
    stays.close().unwrap();
    comes.close().unwrap();
    listed(&file.open(options.clone()).unwrap(), "opened again");
}

#[test]
fn pages_are_reclaimed_by_one_that_is_alone() {
    let (file, commons) = (Memory::default(), Commons::new());
    file.create(Options::default()).unwrap().close().unwrap();
    let join = || {
        let path = PathBuf::from("a.mvbt");
        Database::join_on(Arc::new(file.clone()), path, Options::default(), &commons).unwrap()
    };
    let (one, other) = (join(), join());
    assert!(matches!(one.reclaim(), Err(Error::Busy { .. })));
    drop(other);
    one.reclaim().unwrap();
}

/// A write of the transaction failed, and a savepoint before it is what is left: it commits
/// nothing. Some of its pages may be in the file, under its version.
#[test]
fn a_version_of_which_something_may_be_in_the_file_is_not_given_again() {
    let (file, commons) = (Memory::default(), Commons::new());
    let mut options = Options::default();
    options.spill_bytes = 0;
    file.create(options.clone()).unwrap().close().unwrap();
    let join = |storage: Arc<dyn Storage>| {
        Database::join_on(storage, PathBuf::from("a.mvbt"), options.clone(), &commons).unwrap()
    };
    let mortal = Arc::new(Mortal { file: file.clone(), left: Mutex::default() });
    let (one, other) = (join(mortal.clone()), join(Arc::new(file.clone())));
    let mut txn = one.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    let mut txn = one.begin_write().unwrap();
    let version = txn.version();
    let savepoint = txn.savepoint();
    mortal.dies_after(1);
    assert!(matches!(txn.insert(tree, 1, b"one"), Err(Error::Io { .. })));
    txn.roll_back_to(savepoint).unwrap();
    let _ = txn.commit();
    let mut txn = other.begin_write().unwrap();
    assert!(txn.version() > version, "{version} is given again");
    txn.insert(tree, 2, b"two").unwrap();
    txn.commit().unwrap();
    assert_eq!(other.begin_read().unwrap().get(tree, 1).unwrap(), None);
}
