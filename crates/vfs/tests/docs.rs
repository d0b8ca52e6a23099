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
        WAITING,
        "FAILED_AFTER: Duration = Duration::from_secs(30);",
    ),
    (
        "eager.md",
        "a checkpoint, a close | 1 s",
        WAITING,
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
    (
        "errors.md",
        "more than 100 messages in a minute",
        "vfs/src/messages.rs",
        "LINES_MAX: u64 = 100;",
    ),
];

const STORE: &str = "vfs/src/strategy/eager/store.rs";
const PATIENCE: &str = "vfs/src/strategy/log_life/patience.rs";
const WAITING: &str = "vfs/src/strategy/eager/waiting.rs";
const CHECKPOINTER: &str = "vfs/src/engine/checkpointer.rs";
const CONFIG: &str = "vfs/src/config.rs";
const EXTENT: &str = "vfs/src/strategy/chunk.rs";
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
