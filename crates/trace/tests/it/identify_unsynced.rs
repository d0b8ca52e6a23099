//! Commits that their own thread does not synchronize, told by SQLite's lock for writing: with
//! NORMAL nobody does, and of several that share a flush one does. The trace is written out as the
//! kernel prints it.

use oneflush_trace::identify::{
    Amount, Identifier, JournalMode, Phases, Reason, Synchronous, Transaction,
};
use oneflush_trace::import;

const NAMES: &str = "\
 oneflush-9 (9) [000] ..... 0.000001: oneflush_file: dev 7,0 ino 11 name /d/a.db
 oneflush-9 (9) [000] ..... 0.000001: oneflush_file: dev 7,0 ino 12 name /d/a.db-wal
 oneflush-9 (9) [000] ..... 0.000001: oneflush_file: dev 7,0 ino 13 name /d/a.db-shm
 oneflush-9 (9) [000] ..... 0.000001: oneflush_file: dev 7,0 ino 14 name /d/a.db-oneflush
 oneflush-9 (9) [000] ..... 0.000001: oneflush_file: dev 7,0 ino 15 name /d/a.db-waldio
";

/// Lines of one thread at a time, a microsecond each.
struct Pen {
    text: String,
    now_us: u64,
    thread: u32,
}

impl Pen {
    fn line(&mut self, event: &str) {
        self.now_us += 1;
        let (thread, now_us) = (self.thread, self.now_us);
        self.text += &format!(" app-{thread} (1) [000] ..... 1.{now_us:06}: {event}\n");
    }

    fn lock(&mut self, kind: &str) {
        self.line(&format!(
            "posix_lock_inode: fl=00000000d8d0a1c6 dev=0x7:0x0 ino=0xd fl_blocker=0000000000000000 \
             fl_owner=00000000b4cb8b2e fl_pid=1 fl_flags=FL_POSIX fl_type={kind} fl_start=120 \
             fl_end=120 ret=0"
        ));
    }

    fn cached(&mut self, pos: u64, len: u64) {
        self.line(&format!("ext4_da_write_end: dev 7,0 ino 12 pos {pos} len {len} copied {len}"));
    }

    fn frames(&mut self, frames: &[u64]) {
        for frame in frames {
            self.cached(32 + frame * 4120, 24);
            self.cached(32 + frame * 4120 + 24, 4096);
        }
    }

    fn commit(&mut self, frames: &[u64]) {
        self.lock("F_WRLCK");
        self.frames(frames);
        self.lock("F_UNLCK");
    }

    /// The inode's data, and a flush.
    fn sync(&mut self, inode: u64, sector: u64, sectors: u64) {
        self.line(&format!("ext4_sync_file_enter: dev 7,0 ino {inode} parent 2 datasync 1"));
        self.direct(inode, sector, sectors);
        self.line("block_bio_queue: 7,0 FWS 0 + 0 [app]");
        self.line("block_rq_complete: 7,0 FWS () 0 + 0 [0]");
        self.line(&format!("ext4_sync_file_exit: dev 7,0 ino {inode} ret 0"));
    }

    /// A write past the page cache.
    fn direct(&mut self, inode: u64, sector: u64, sectors: u64) {
        self.line(&format!(
            "block_bio_queue: 7,0 WS {sector} + {sectors} [app] oneflush=data dev 7,0 ino {inode}"
        ));
        self.line(&format!("block_rq_complete: 7,0 WS () {sector} + {sectors} [0]"));
    }
}

fn count(found: &[Transaction], mode: JournalMode, synchronous: Synchronous) -> usize {
    let is = |found: &&Transaction| (found.journal_mode, found.synchronous) == (mode, synchronous);
    found.iter().filter(is).count()
}

fn identify(write: impl FnOnce(&mut Pen)) -> Vec<Transaction> {
    let mut pen = Pen { text: NAMES.to_owned(), now_us: 0, thread: 1 };
    write(&mut pen);
    let text = std::io::Cursor::new(pen.text.into_bytes());
    let mut reader =
        import::Reader::from_read("a trace", text).expect("the trace is of a known format");
    let mut identifier = Identifier::new();
    while let Some(event) = reader.next().expect("the trace can be read") {
        identifier.push(&event, reader.names());
    }
    assert_eq!(reader.skipped().count, 0, "{:?}", reader.skipped());
    let (mut found, _) = identifier.finish(reader.names());
    found.sort_by_key(|found| found.begin_ns);
    found
}

#[test]
fn each_lock_with_frames_is_a_commit_and_a_checkpoint_is_the_last_ones() {
    let found = identify(|pen| {
        pen.commit(&[0, 1]);
        pen.commit(&[2]);
        pen.commit(&[]);
        pen.commit(&[3, 4]);
        // The checkpoint behind it.
        pen.sync(12, 800, 48);
        pen.sync(11, 1600, 16);
        // The WAL begins anew. Its header is synchronized, then two frames overwrite what was
        // there.
        pen.lock("F_WRLCK");
        pen.cached(0, 32);
        pen.sync(12, 800, 8);
        pen.frames(&[0, 1]);
        pen.lock("F_UNLCK");
        pen.commit(&[2]);
    });
    let modes: Vec<_> = found.iter().map(|found| (found.journal_mode, found.synchronous)).collect();
    assert_eq!(modes, [(JournalMode::Wal, Synchronous::Normal); 5]);
    let bytes: Vec<_> =
        found.iter().map(|found| (found.traffic.journal.bytes, found.traffic.db.bytes)).collect();
    assert_eq!(bytes, [(0, 0), (0, 0), (48 * 512, 8192), (4096, 0), (0, 0)]);
    assert_eq!(found.iter().map(|found| found.flushes).collect::<Vec<_>>(), [0, 0, 2, 1, 0]);
    assert_eq!(found[0].confidence.reason, Reason::Lock);
    let Phases::Append { checkpoint, .. } = found[2].phases else { panic!("{:?}", found[2]) };
    assert_eq!(checkpoint.db, Amount { bytes: 8192, requests: 1 });
    // From the lock on, and to the end of the checkpoint.
    assert!(found[2].begin_ns < found[3].begin_ns && found[2].latency_ns() > found[3].latency_ns());
}

#[test]
fn frames_that_the_next_writes_over_were_rolled_back() {
    let found = identify(|pen| {
        pen.commit(&[0]);
        // The transaction had spilled.
        pen.commit(&[1, 2, 3]);
        pen.commit(&[1]);
        pen.commit(&[2, 3, 2]);
        pen.commit(&[4]);
    });
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|found| found.synchronous == Synchronous::Normal));
}

#[test]
fn with_full_the_lock_adds_nothing() {
    let found = identify(|pen| {
        for commit in 0..3 {
            pen.lock("F_WRLCK");
            pen.frames(&[commit]);
            pen.sync(12, 800 + commit * 8, 16);
            pen.lock("F_UNLCK");
        }
    });
    let modes: Vec<_> = found.iter().map(|found| (found.journal_mode, found.synchronous)).collect();
    assert_eq!(modes, [(JournalMode::Wal, Synchronous::Full); 3]);
    assert!(found.iter().all(|found| found.flushes == 1));
}

/// 1,000 commits of `plain` were 10 transactions "WAL FULL" of 835 KB: it writes header and page of
/// a frame by one call, and only headers were looked for.
#[test]
fn whole_frames_tell_the_commits_of_plain() {
    let found = identify(|pen| {
        for commit in 0..30 {
            pen.lock("F_WRLCK");
            pen.cached(32 + commit * 4120, 4120);
            pen.lock("F_UNLCK");
        }
        pen.thread = 2;
        pen.sync(12, 800, 240);
        pen.sync(11, 1600, 16);
    });
    assert_eq!(count(&found, JournalMode::Wal, Synchronous::Normal), 31);
    let carrier = found.iter().find(|found| found.traffic.bytes() > 0).unwrap();
    assert_eq!(carrier.confidence.reason, Reason::Carries);
    assert!(
        found.iter().filter(|found| found.confidence.reason.is_written_elsewhere()).count() >= 29
    );
}

/// The same of `eager`, which was one transaction: its frames are in memory, and only the lock
/// shows them.
#[test]
fn only_the_lock_tells_the_commits_of_eager() {
    let commits = |count: u64| {
        identify(|pen| {
            // The log is there.
            pen.lock("F_WRLCK");
            pen.sync(14, 800, 8);
            pen.lock("F_UNLCK");
            (0..count).for_each(|_| pen.commit(&[]));
            pen.lock("F_WRLCK");
            pen.sync(14, 808, 64);
            pen.lock("F_UNLCK");
        })
    };
    let found = commits(30);
    let alone = found.iter().filter(|found| found.confidence.reason == Reason::LockAlone).count();
    assert_eq!(alone, 30);
    assert_eq!(count(&found, JournalMode::Eager, Synchronous::Normal), found.len());
    // With FULL some transactions change nothing. They come one by one.
    let found = commits(5);
    assert_eq!(count(&found, JournalMode::Eager, Synchronous::Full), 2);
    assert_eq!(found.len(), 2);
}

/// And of `waldio`, which were 18: it writes each commit, and only synchronizes it later.
#[test]
fn slots_written_under_the_lock_tell_the_commits_of_waldio() {
    let found = identify(|pen| {
        for commit in 0..30 {
            pen.lock("F_WRLCK");
            pen.direct(15, 800 + commit * 8, 8);
            pen.lock("F_UNLCK");
        }
        pen.sync(15, 1040, 8);
    });
    assert!((30..=31).contains(&count(&found, JournalMode::Waldio, Synchronous::Normal)));
    assert_eq!(found.iter().map(|found| found.traffic.bytes()).sum::<u64>(), 31 * 4096);
}

/// 900 commits of three threads were 463 transactions, since those that shared a flush were one. So
/// a commit seemed to cost 73 % of what it had cost, and it was 37 %.
#[test]
fn commits_that_share_a_flush_are_told_apart() {
    let found = identify(|pen| {
        for commit in 0..20 {
            for thread in 1..=3 {
                pen.thread = thread;
                pen.lock("F_WRLCK");
                pen.cached(32 + (commit * 3 + u64::from(thread) - 1) * 4120, 4120);
                pen.lock("F_UNLCK");
            }
            pen.sync(12, 800 + commit * 24, 32);
        }
    });
    assert_eq!(found.len(), 60);
    assert_eq!(count(&found, JournalMode::Wal, Synchronous::Full), 60);
    let shared: Vec<_> =
        found.iter().filter(|found| found.confidence.reason == Reason::Shared).collect();
    assert_eq!(shared.len(), 40);
    // It is durable when the other's flush is done.
    assert!(shared.iter().all(|shared| shared.latency_ns() > 5_000), "{shared:?}");
    assert_eq!(found.iter().map(|found| found.flushes).sum::<u64>(), 20);
}
