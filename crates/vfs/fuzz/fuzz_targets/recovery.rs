//! A guarded database beside a log of any content: opened with strategy `eager`, read, written to
//! and closed.
//!
//! The input is a program: each step appends a record with the log itself, so that its checksums
//! are right and what is behind them is reached. Its payload is the fuzzer's bytes, or pages made
//! by the rules from a few of them, against bases that are right or wrong. A step may also patch
//! the file of the log, or leave an image of the WAL.
//!
//! Wanted: no panic, no unbounded memory, and where SQLite is told that nothing was changed,
//! nothing was.

#![no_main]

#[path = "../../../blocklog/fuzz/memory.rs"]
mod memory;

use std::cell::Cell;
use std::path::Path;
use std::sync::{Once, OnceLock};

use libfuzzer_sys::fuzz_target;
use memory::Memory;
use oneflush_blocklog::delta::Row;
use oneflush_blocklog::group::{
    Base, Begin, GroupWriter, KIND_BEGIN, KIND_COMMITS, KIND_IMAGES, PageEntry, page_crc,
};
use oneflush_blocklog::{CHUNK_BYTES, Head, Log, Uuid, delta};
use rusqlite::{Connection, OpenFlags, ffi, trace};

const PAGE: usize = 1024;
const UUID: Uuid = Uuid([7; 16]);

thread_local! {
    static NOTHING_CHANGED: Cell<bool> = const { Cell::new(false) };
}

/// A database in WAL mode with the guard set, as a process that died leaves it.
fn database() -> &'static [u8] {
    static DATABASE: OnceLock<Vec<u8>> = OnceLock::new();
    DATABASE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size={PAGE}; PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY \
                KEY, v); CREATE INDEX i ON t(v);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<60) INSERT INTO \
             t SELECT i, hex(randomblob(20)) FROM n;"
        ))
        .unwrap();
        drop(db);
        let mut bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[18..20], [2, 2]);
        bytes[18..20].fill(3);
        bytes[72..88].copy_from_slice(&UUID.0);
        bytes[88..92].copy_from_slice(&page_crc(&UUID.0).to_be_bytes());
        bytes
    })
}

fn page_of(bytes: &[u8], page_no: u32) -> Vec<u8> {
    let at = (page_no as usize).saturating_sub(1).saturating_mul(PAGE);
    bytes.get(at..at.saturating_add(PAGE)).map_or_else(|| vec![0; PAGE], <[u8]>::to_vec)
}

/// Pages by the rules: each four bytes are one.
fn group(what: u8, pages: &[u8]) -> Vec<u8> {
    let begin = match what & 3 {
        0 => None,
        1 => Some(Begin::Database),
        frames => {
            Some(Begin::Image { frames: u32::from(frames - 1), salt: [1, 2], checksum: [3, 4] })
        }
    };
    let mut writer = GroupWriter::new(begin, u32::from(what >> 2));
    // As SQLite splits a page: each of them may have what another had.
    let row: Vec<u8> = pages
        .chunks_exact(4)
        .flat_map(|entry| page_of(database(), u32::from(entry[0] & 31)))
        .collect();
    for (own, entry) in pages.chunks_exact(4).enumerate() {
        let page_no = u32::from(entry[0] & 31);
        let old = page_of(database(), page_no);
        let mut new = old.clone();
        let at = usize::from(entry[1]) * 4 % PAGE;
        new[at] ^= entry[2];
        if entry[3] >= 128 {
            let from = usize::from(entry[1]) % (row.len() / PAGE);
            let (mut delta, base) = (
                Vec::new(),
                [Base::Previous, Base::Database { crc: page_crc(&old) }][usize::from(entry[3] & 1)],
            );
            new = row[from * PAGE..][..PAGE].to_vec();
            Row::new(&row, PAGE).encode(own, &new, u64::MAX, &mut delta);
            writer.push_entry(PageEntry {
                page_no,
                base,
                in_row: entry[3] & 2 == 0,
                delta: &delta,
            });
            continue;
        }
        match entry[3] % 4 {
            0 => writer.push(page_no, Base::Zeros, |out| delta::encode_from_zeros(&new, out)),
            1 => writer.push(page_no, Base::Previous, |out| delta::encode(&old, &new, out)),
            2 => writer.push(page_no, Base::Database { crc: page_crc(&old) }, |out| {
                delta::encode(&old, &new, out)
            }),
            _ => writer
                .push(page_no, Base::Database { crc: 1 }, |out| delta::encode(&old, &new, out)),
        }
    }
    writer.finish().to_vec()
}

fn append(log: &Log<&Memory>, head: Head, kind: u8, payload: &[u8]) -> Head {
    let appended = match kind {
        KIND_BEGIN => log.begin_epoch(&head, kind, payload),
        _ => log.append(&head, kind, payload),
    };
    appended.unwrap_or(head)
}

/// The log's file, and the image of the WAL beside it.
fn files(program: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let memory = Memory::default();
    let mut image = Vec::new();
    let (log, mut head) = Log::create(&memory, UUID, PAGE as u32, CHUNK_BYTES).unwrap();
    for step in program.chunks(16) {
        let [what, rest @ ..] = step else { break };
        let kind = [KIND_BEGIN, KIND_COMMITS, KIND_IMAGES, what >> 4][usize::from(what & 3)];
        match (what >> 2 & 3, rest) {
            (0, payload) => head = append(&log, head, kind, payload),
            (1, [shape, pages @ ..]) => head = append(&log, head, kind, &group(*shape, pages)),
            (2, [a, b, bytes @ ..]) => {
                let at = usize::from(u16::from_le_bytes([*a, *b])) * 8;
                let mut file = memory.0.lock().unwrap();
                if let Some(part) = file.get_mut(at..at + bytes.len()) {
                    part.copy_from_slice(bytes);
                }
            }
            (_, bytes) => image.extend_from_slice(bytes),
        }
    }
    (memory.0.into_inner().unwrap(), image)
}

fn heard(_: std::ffi::c_int, message: &str) {
    if message.contains("Nothing was changed") {
        NOTHING_CHANGED.set(true);
    }
}

fn use_it(path: &Path) -> rusqlite::Result<()> {
    let uri = format!("file:{}?vfs=oneflush&strategy=eager", path.display());
    let db = Connection::open_with_flags(
        uri,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI,
    )?;
    db.busy_timeout(std::time::Duration::ZERO)?;
    let _: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
    db.execute("INSERT INTO t(v) VALUES ('new')", [])?;
    let _: String = db.query_row("PRAGMA integrity_check(3)", [], |row| row.get(0))?;
    Ok(())
}

fuzz_target!(|program: &[u8]| {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // SAFETY: nothing uses SQLite yet.
        unsafe { trace::config_log(Some(heard)).unwrap() };
        // SAFETY: as above.
        assert_eq!(unsafe { ffi::sqlite3_initialize() }, ffi::SQLITE_OK);
        oneflush_vfs::register().unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let beside = |suffix: &str| folder.path().join(format!("a.db{suffix}"));
    let (log, image) = files(program);
    std::fs::write(&path, database()).unwrap();
    std::fs::write(beside("-oneflush"), &log).unwrap();
    if !image.is_empty() {
        std::fs::write(beside("-oneflush-wal"), &image).unwrap();
    }
    NOTHING_CHANGED.set(false);
    // Contents by the rules of the log need not be a sound database, which SQLite says.
    let used = use_it(&path);
    if NOTHING_CHANGED.get() {
        assert!(used.is_err());
        assert!(std::fs::read(&path).unwrap() == database());
        assert!(std::fs::read(beside("-oneflush")).unwrap() == log);
    }
});
