//! Numbers in the documents are the constants of the code. Whoever changes a constant is told which
//! sentence says the old number.

use std::fs;
use std::path::Path;

/// A document, words of it, a source file, and the constant that the words are of.
type Pair = (&'static str, &'static str, &'static str, &'static str);

const PAIRS: &[Pair] = &[
    ("eager.md", "The image has 16,000 frames", STORE, "CHECKPOINT_FRAMES: u32 = 16_000;"),
    (
        "eager.md",
        "or 2,000 where each page has changed 16 times",
        STORE,
        "CHECKPOINT_DENSE_FRAMES: (u32, u64) = (2000, 16);",
    ),
    ("eager.md", "The epoch has 4 MiB of log", STORE, "CHECKPOINT_LOG_BYTES: u64 = 4 << 20;"),
    (
        "eager.md",
        "The image has 160 frames and is 5 s old, or has 32 and is 20 s old",
        STORE,
        "[(160, Duration::from_secs(5)), (32, Duration::from_secs(20))];",
    ),
    (
        "eager.md",
        "for a large transaction, and has 1,000 frames",
        STORE,
        "CHECKPOINT_IMAGE_FRAMES: u32 = 1000;",
    ),
    (
        "eager.md",
        "The last commit was 2 s ago",
        CHECKPOINTER,
        "IDLE_AFTER: Duration = Duration::from_secs(2);",
    ),
    (
        "eager.md",
        "This close takes up to 5 s",
        "vfs/src/ffi/at_exit.rs",
        "PATIENCE: Duration = Duration::from_secs(5);",
    ),
    (
        "eager.md",
        "does nothing with its turn for 5 ms",
        "vfs/src/strategy/tickets.rs",
        "const PATIENCE: Duration = Duration::from_millis(5);",
    ),
    (
        "eager.md",
        "or writes for longer than 200 ms",
        "vfs/src/strategy/tickets.rs",
        "WRITER_PATIENCE: Duration = Duration::from_millis(200);",
    ),
    (
        "eager.md",
        "no longer than a flush takes and no longer than 20 ms",
        "vfs/src/engine/batching_processes.rs",
        "WAIT_MAX: Duration = Duration::from_millis(20);",
    ),
    (
        "eager.md",
        "left out for 4 to 64 records",
        "vfs/src/engine/batching_processes.rs",
        "VAIN_MIN: u32 = 2;",
    ),
    (
        "eager.md",
        "left out for 4 to 64 records",
        "vfs/src/engine/batching_processes.rs",
        "VAIN_MAX: u32 = 6;",
    ),
    (
        "eager.md",
        "a commit that others may already see | 30 s",
        ENTRANCE,
        "FAILED_AFTER: Duration = Duration::from_secs(30);",
    ),
    (
        "eager.md",
        "a checkpoint, a close | 1 s",
        ENTRANCE,
        "REFUSED_AFTER: Duration = Duration::from_secs(1);",
    ),
    (
        "eager.md",
        "0.5 s longer than its busy timeout",
        PATIENCE,
        "OPEN_PATIENCE: Duration = Duration::from_millis(500);",
    ),
    (
        "eager.md",
        "as long as 20 flushes take, no longer than 100 ms",
        "vfs/src/strategy/board.rs",
        "COMPANY_FLUSHES: u32 = 20;",
    ),
    (
        "eager.md",
        "as long as 20 flushes take, no longer than 100 ms",
        "vfs/src/strategy/board.rs",
        "COMPANY_MAX: Duration = Duration::from_millis(100);",
    ),
    (
        "eager.md",
        "stuck after 20 ms",
        WAITING,
        "STUCK_AFTER: Duration = Duration::from_millis(20);",
    ),
    ("eager.md", "or after 8 flushes", WAITING, "STUCK_FLUSHES: u32 = 8;"),
    ("eager.md", "1 MiB to 1 TiB, 64 MiB by default", CONFIG, "LOG_SIZE_BYTES_MIN: u64 = 1 << 20;"),
    ("eager.md", "1 MiB to 1 TiB, 64 MiB by default", CONFIG, "LOG_SIZE_BYTES_MAX: u64 = 1 << 40;"),
    ("eager.md", "1 MiB to 1 TiB, 64 MiB by default", CONFIG, "log_size_bytes: 64 << 20,"),
    (
        "eager.md",
        "after its first 4 commits: 8 MiB a database",
        "vfs/src/strategy/eager/image_store.rs",
        "WRITES_BEFORE: u32 = 4;",
    ),
    (
        "eager.md",
        "after its first 4 commits: 8 MiB a database",
        "vfs/src/strategy/log_files.rs",
        "IMAGE_MEMORY_BYTES: u64 = 8 << 20;",
    ),
    (
        "eager.md",
        "less than 512 MiB free) image and log take an eighth each",
        "vfs/src/strategy/space.rs",
        "SHARE_BYTES_AMPLE: u64 = 64 << 20;",
    ),
    (
        "eager.md",
        "less than 512 MiB free) image and log take an eighth each",
        "vfs/src/strategy/space.rs",
        "SHARES: u64 = 8;",
    ),
    (
        "log-format.md",
        "The first chunk of a lane has 32,768 bytes",
        LAYOUT,
        "FIRST_CHUNK_BYTES: u64 = 32 * 1024;",
    ),
    (
        "log-format.md",
        "up to 262,144. So the file has 64 KiB at first",
        LAYOUT,
        "pub const CHUNK_BYTES: u64 = 256 * 1024;",
    ),
    (
        "log-format.md",
        "Such a record has at most 64 pages",
        "blocklog/src/delta/mod.rs",
        "ROW_PAGES_MAX: usize = 64;",
    ),
    ("design.md", "(up to 64 KiB)", LAYOUT, "BLOCK_BYTES_MAX: usize = 65_536;"),
    ("plain.md", "The WAL grows by 64 KiB at first", EXTENT, "FIRST_BYTES: u64 = 64 << 10;"),
    ("plain.md", "and from 1 MiB on by 1 MiB at a time", CONFIG, "prealloc_bytes: 1 << 20,"),
    (
        "plain.md",
        "by a quarter of its size, up to 4 MiB",
        EXTENT,
        "LONG_CHUNK_BYTES_MAX: u64 = 4 << 20;",
    ),
    ("plain.md", "bytes, 0 to 1 GiB", CONFIG, "PREALLOC_BYTES_MAX: u64 = 1 << 30;"),
    (
        "plain.md",
        "takes up to 32 frames up",
        "vfs/src/strategy/plain/kept.rs",
        "FRAMES_MAX: u32 = 32;",
    ),
    (
        "plain.md",
        "looks for its turn for up to 150 µs",
        "vfs/src/engine/turns.rs",
        "LOOK_MAX: Duration = Duration::from_micros(150);",
    ),
    (
        "plain.md",
        "in pieces of about 2 ms",
        "vfs/src/engine/pacing.rs",
        "PIECE_TIME: Duration = Duration::from_millis(2);",
    ),
    (
        "plain.md",
        "rests for as long, for 1 s in all",
        "vfs/src/engine/pacing.rs",
        "REST_MAX: Duration = Duration::from_secs(1);",
    ),
    (
        "plain.md",
        "After 10 s that is counted (`starved`)",
        CHECKPOINTER,
        "STARVING_AFTER: Duration = Duration::from_secs(10);",
    ),
    (
        "plain.md",
        "looks at that `flock` every 8 commits",
        "vfs/src/engine/shared.rs",
        "LOOKS_EVERY: u32 = 8;",
    ),
    (
        "plain.md",
        "waits for its thread for up to 2 s",
        "vfs/src/ffi/forked.rs",
        "const PATIENCE: Duration = Duration::from_secs(2);",
    ),
    ("waldio.md", "has up to 1 MiB of slots", SLOT_FILE, "RUN_BYTES_MAX: usize = 1 << 20;"),
    (
        "waldio.md",
        "at 1,000 frames, in a thread",
        "vfs/src/engine/connection.rs",
        "AUTOMATIC_FRAMES: u32 = 1000;",
    ),
    ("waldio.md", "header bytes 18 and 19 are 3", GUARD, "FIRST: usize = 18;"),
    ("waldio.md", "header bytes 18 and 19 are 3", GUARD, "VERSION_GUARDED: u8 = 3;"),
    ("waldio.md", "and bytes 72 to 91 name the log", GUARD, "UUID_AT: usize = 72;"),
    ("waldio.md", "and bytes 72 to 91 name the log", GUARD, "CRC_AT: usize = 88;"),
    (
        "waldio.md",
        "A *block* has 4 KiB",
        "blocklog/src/direct/open.rs",
        "BLOCK_BYTES_MIN: usize = 4096;",
    ),
    ("waldio.md", "(up to 64 KiB)", LAYOUT, "BLOCK_BYTES_MAX: usize = 65_536;"),
    ("waldio.md", "SQLite's 32 bytes", WAL_FILE, "HEADER_BYTES: u64 = 32;"),
    ("waldio.md", "The header of 24 bytes", WAL_FILE, "FRAME_HEADER_BYTES: usize = 24;"),
    ("waldio.md", "in one sector of 512 bytes", HEADER, "HEADER_BYTES: usize = 512;"),
    ("waldio.md", "| 256 | 8 | `1FLUSHWD` |", HEADER, "AT_MAGIC: usize = 256;"),
    ("waldio.md", "| 256 | 8 | `1FLUSHWD` |", HEADER, "*b\"1FLUSHWD\";"),
    ("waldio.md", "| 264 | 4 | format version: 1 |", HEADER, "AT_VERSION: usize = AT_MAGIC + 8;"),
    ("waldio.md", "| 264 | 4 | format version: 1 |", HEADER, "FORMAT_VERSION: u32 = 1;"),
    ("waldio.md", "| 268 | 4 | `B`:", HEADER, "AT_BLOCK_BYTES: usize = AT_VERSION + 4;"),
    ("waldio.md", "a power of two, 4,096 to 65,536", HEADER, "(4096..=65_536)"),
    ("waldio.md", "| 272 | 4 | `P`:", HEADER, "AT_PAGE_BYTES: usize = AT_BLOCK_BYTES + 4;"),
    ("waldio.md", "| 276 | 4 | layout:", HEADER, "AT_LAYOUT: usize = AT_PAGE_BYTES + 4;"),
    (
        "waldio.md",
        "0 `embed`, 1 `pad512`, 2 `pad4k`, 3 `pad8k`",
        CONFIG,
        "[Layout::Embed, Layout::Pad512, Layout::Pad4k, Layout::Pad8k];",
    ),
    ("waldio.md", "| 280 | 16 | UUID", HEADER, "AT_UUID: usize = AT_LAYOUT + 4;"),
    ("waldio.md", "| 508 | 4 | CRC32C", HEADER, "AT_CRC: usize = HEADER_BYTES - 4;"),
    ("waldio.md", "has `1FLUSHP1`", SLOT_FILE, "*b\"1FLUSHP1\";"),
    (
        "waldio.md",
        "a multiple of 8,192. `layout=pad4k` adds 4,096",
        SLOTS,
        "Layout::Pad4k => behind_copy.next_multiple_of(8192) + 4096,",
    ),
    ("waldio.md", "`P` + 24, rounded up to 512 bytes", SLOTS, "Layout::Pad512 => 512,"),
    (
        "waldio.md",
        "`P` + 24, rounded up to 4 KiB",
        SLOTS,
        "Layout::Pad4k => 4096.max(block_bytes),",
    ),
    (
        "waldio.md",
        "`P` + 24, rounded up to 8 KiB",
        SLOTS,
        "Layout::Pad8k => 8192.max(block_bytes),",
    ),
    ("waldio.md", "2³¹ + distance", SLOTS, "LANE: u32 = 1 << 31;"),
    ("waldio.md", "256 slots are followed by their 256 blocks", SLOTS, "GROUP_SLOTS: u32 = 256;"),
    (
        "waldio.md",
        "room for the bytes of 170 frames",
        SLOTS,
        "(self.block_bytes / FRAME_HEADER_BYTES) as u32",
    ),
    ("waldio.md", "The first use of 16 blocks", SLOT_FILE, "LANE_PIECE_SLOTS: u32 = 16;"),
    ("waldio.md", "by 64 KiB of slots at first", EXTENT, "FIRST_BYTES: u64 = 64 << 10;"),
    ("waldio.md", "and from 1 MiB on by `prealloc`", CONFIG, "prealloc_bytes: 1 << 20,"),
    ("waldio.md", "From 8 MiB on it grows by a quarter", EXTENT, "(size_bytes / 4)"),
    ("waldio.md", "up to 4 MiB", EXTENT, "LONG_CHUNK_BYTES_MAX: u64 = 4 << 20;"),
    ("waldio.md", "frames, 0 (off) to 1024 | 0 |", CONFIG, "GROUP_FRAMES_MAX: u32 = 1024;"),
    ("waldio.md", "frames, 0 (off) to 1024 | 0 |", CONFIG, "group_frames: 0,"),
    ("waldio.md", "1 to 1000 milliseconds", CONFIG, "(1..=1000).contains(milliseconds)"),
    ("waldio.md", "as in `2ms` | `2ms` |", CONFIG, "group_interval: Duration::from_millis(2),"),
    ("waldio.md", "bytes, 0 to 1 GiB | 1 MiB |", CONFIG, "PREALLOC_BYTES_MAX: u64 = 1 << 30;"),
    (
        "waldio.md",
        "saves more than 10 %",
        "blocklog/src/direct/measure.rs",
        "SAVING_MIN_PERCENT: u128 = 10;",
    ),
    (
        "waldio.md",
        "waits up to 0.5 s for frames in memory",
        WALDIO_STORE,
        "FRAMES_PATIENCE: Duration = Duration::from_millis(500);",
    ),
    ("waldio.md", "The paper has `group=4`, and `interval=2ms`", PAPER, "+group=4+interval=2ms\";"),
    (
        "waldio.md",
        "up to 8 MiB a database and process",
        "vfs/src/strategy/waldio/cache.rs",
        "CACHE_BYTES_MAX: usize = 8 << 20;",
    ),
    ("waldio.md", "32 KiB in all", WALDIO_READING, "RUN_BYTES: usize = 32 << 10;"),
    ("waldio.md", "up to 8 MiB a connection", TRANSACTION, "BYTES_MAX: usize = 8 << 20;"),
    ("waldio.md", "and half of them is kept", TRANSACTION, "BYTES_MAX / 2 / frame_bytes"),
    (
        "waldio.md",
        "stay in memory, up to 1 MiB. The flush",
        "vfs/src/strategy/waldio/grouping.rs",
        "STRICT_BYTES_MAX: usize = 1 << 20;",
    ),
    ("waldio.md", "each of 25 claims", PAPER, "CLAIMS: [Claim; 25]"),
    ("maw.md", "take more than 16 MiB of memory", MAW, "options.log_size_bytes.min(16 << 20)"),
    ("maw.md", "or is 20 s old", SYNCER, "AT_LATEST: Duration = Duration::from_secs(20);"),
    (
        "maw.md",
        "has 1 MiB of records",
        SYNCER,
        "let half = epoch_bytes_max(options.log_size_bytes) / 2;",
    ),
    (
        "maw.md",
        "At 2 MiB the commit syncs",
        "vfs/src/strategy/maw/open_log.rs",
        "(log_size_bytes / 8).min(2 << 20)",
    ),
    ("maw.md", "1 MiB to 1 TiB, 64 MiB by default", CONFIG, "log_size_bytes: 64 << 20,"),
    ("maw.md", "header bytes 18 and 19 are 3", GUARD, "VERSION_GUARDED: u8 = 3;"),
    (
        "errors.md",
        "more than 100 messages in a minute",
        "blocklog/src/messages/limit.rs",
        "LINES_MAX: u64 = 100;",
    ),
];

const STORE: &str = "vfs/src/strategy/eager/store.rs";
const MAW: &str = "vfs/src/strategy/maw/mod.rs";

const SYNCER: &str = "vfs/src/strategy/maw/syncer.rs";
const PATIENCE: &str = "vfs/src/strategy/log_life/patience.rs";
const ENTRANCE: &str = "vfs/src/strategy/eager/entrance.rs";
const WAITING: &str = "vfs/src/strategy/eager/waiting.rs";
const CHECKPOINTER: &str = "vfs/src/engine/checkpointer.rs";
const CONFIG: &str = "vfs/src/config.rs";
const EXTENT: &str = "vfs/src/strategy/chunk.rs";
const GUARD: &str = "vfs/src/strategy/guard.rs";
const HEADER: &str = "vfs/src/strategy/waldio/header.rs";
const SLOTS: &str = "vfs/src/strategy/waldio/slots.rs";
const SLOT_FILE: &str = "vfs/src/strategy/waldio/slot_file.rs";
const TRANSACTION: &str = "vfs/src/strategy/waldio/transaction.rs";
const WALDIO_STORE: &str = "vfs/src/strategy/waldio/store.rs";
const WALDIO_READING: &str = "vfs/src/strategy/waldio/reading.rs";
const WAL_FILE: &str = "vfs/src/wal_file.rs";
const PAPER: &str = "bench/src/paper/waldio.rs";
const LAYOUT: &str = "blocklog/src/layout.rs";

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of a file of the project, with a blank for each run of white space.
fn folded(path: &str) -> String {
    read(path).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn numbers_in_the_documents_are_the_constants() {
    for (document, words, source, constant) in PAIRS {
        assert!(
            folded(&format!("docs/{document}")).contains(words),
            "docs/{document} says no longer \"{words}\": crates/{source} has `{constant}`"
        );
        assert!(
            folded(&format!("crates/{source}")).contains(constant),
            "crates/{source} has no longer `{constant}`: docs/{document} says \"{words}\""
        );
    }
}

#[test]
fn the_documents_know_how_many_places_a_process_is_killed_at() {
    let source = read("crates/vfs/src/kill_point.rs");
    let places = source.lines().filter(|line| line.contains(" = \"") && line.ends_with("\","));
    let places = places.count();
    let words = format!("at each of {places} places");
    assert!(folded("docs/eager.md").contains(&words), "docs/eager.md does not say \"{words}\"");
}

/// Some of the claims are goals of this project, and not the paper's.
#[test]
fn the_document_of_waldio_knows_how_many_goals_are_among_the_claims() {
    let source = read("crates/bench/src/paper/waldio.rs");
    let claims = source.split("const CLAIMS").nth(1).unwrap();
    let goals = claims.matches("source: \"Goal\"").count();
    let words = format!("{goals} of these are goals of this project");
    assert!(folded("docs/waldio.md").contains(&words), "docs/waldio.md: \"{words}\"");
}
