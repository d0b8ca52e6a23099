//! What the paper says and no run of ours can show.

use crate::paper::Unmeasured;

pub const UNMEASURED: [Unmeasured; 21] = [
    Unmeasured {
        source: "Sec. 1 and 3.1",
        says: "78 % of an app's block writes are synchronous (Gmail)",
        theirs: Some(78.0),
        why: "It needs a trace of Gmail. Paper `io` has the same figure of two phones' \
                 traces.",
    },
    Unmeasured {
        source: "Sec. 3.1",
        says: "60 % of Gmail's synchronous writes are of SQLite's databases",
        theirs: Some(60.0),
        why: "It needs a trace of Gmail.",
    },
    Unmeasured {
        source: "Fig. 3.2",
        says: "a large part of the block writes is synchronous, in each app",
        theirs: None,
        why: "It needs traces of these apps. Paper `io` has two phones' traces.",
    },
    Unmeasured {
        source: "Sec. 3.2, Fig. 3.3",
        says: "many metadata that a sync writes are of other files",
        theirs: None,
        why: "The thesis left its number out. No workload here changes other files' \
                 metadata beside a sync.",
    },
    Unmeasured {
        source: "Sec. 3.2",
        says: "the sequentiality of Chrome, and its mean write size",
        theirs: None,
        why: "The thesis has placeholders there, and no trace of Chrome is public.",
    },
    Unmeasured {
        source: "Sec. 3.3, Fig. 3.4",
        says: "random writes make the device's garbage collection copy pages, sequential \
                  ones do not",
        theirs: None,
        why: "No device tells it. The emulated flash does: `oneflush bench --device emmc` \
                 has its write amplification.",
    },
    Unmeasured {
        source: "Sec. 4.2",
        says: "isets make what a sync writes smaller",
        theirs: None,
        why: "Records here are smaller than a block with and without, and padded to \
                 blocks.",
    },
    Unmeasured {
        source: "Sec. 4.3",
        says: "data that a sync has written are not logged again",
        theirs: None,
        why: "No workload here syncs twice without a write. `crates/eagerfs` tests it.",
    },
    Unmeasured {
        source: "Sec. 4.4",
        says: "large amounts of dirty data tend to be sequential",
        theirs: None,
        why: "No recording here has a sync of more than 28 KiB.",
    },
    Unmeasured {
        source: "Sec. 4.4",
        says: "various thresholds are evaluated",
        theirs: None,
        why: "The thesis shows no such experiment. Ours can be varied: `oneflush mount \
                 --threshold`.",
    },
    Unmeasured {
        source: "Sec. 4.5",
        says: "after a loss of power no synced file is lost",
        theirs: Some(0.0),
        why: "It is no run of the benchmark. Power cuts and simulated crashes are in \
                 docs/results: none lost.",
    },
    Unmeasured {
        source: "Table 5.2",
        says: "the SQLite test reads 1.5 times what it writes (25.5 to 17.3 MB)",
        theirs: Some(25.5 / 17.3),
        why: "Reads are not counted here.",
    },
    Unmeasured {
        source: "Table 5.2",
        says: "the file test reads more than it writes: 191.8 to 43.8 MB, a sync for each \
                  write",
        theirs: Some(191.8 / 43.8),
        why: "It describes AndroBench's settings; ours are chosen to be the same.",
    },
    Unmeasured {
        source: "Table 5.3",
        says: "Facebook: 15,369 writes of 3.36 KB, 2,875 syncs, 370 files",
        theirs: Some(15369.0 / 2875.0),
        why: "It describes their recording, which is not public.",
    },
    Unmeasured {
        source: "Table 5.3",
        says: "Gmail: 120,971 writes of 2.12 KB, 6,385 syncs, 135 files",
        theirs: Some(120971.0 / 6385.0),
        why: "It describes their recording, which is not public.",
    },
    Unmeasured {
        source: "Table 5.3",
        says: "Chrome: 90,638 writes of 2.69 KB, 575 syncs, 721 files",
        theirs: Some(90638.0 / 575.0),
        why: "It describes their recording, which is not public.",
    },
    Unmeasured {
        source: "Sec. 5.2.2",
        says: "the SQLite test does not overwrite often",
        theirs: None,
        why: "No figure here tells distinct pages from pages.",
    },
    Unmeasured {
        source: "Sec. 5.2.3",
        says: "above the threshold a sync is ext4's own, so a sequential stream is not \
                  logged",
        theirs: None,
        why: "A stream of more than 400 KB a sync is tried by the tests of \
                 `crates/eagerfs`.",
    },
    Unmeasured {
        source: "Sec. 5.2.3",
        says: "sizes that cross the threshold to and fro are written twice",
        theirs: None,
        why: "No workload here alternates around 400 KB.",
    },
    Unmeasured {
        source: "Sec. 5.3.1",
        says: "Facebook's and Gmail's syncs are mainly of SQLite's files, Chrome's of \
                  cached pages",
        theirs: None,
        why: "Their recordings are not public. Names are cut off in the one here.",
    },
    Unmeasured {
        source: "Sec. 5.3.2",
        says: "of the three apps Chrome gains most",
        theirs: Some(5.05 / 3.80),
        why: "It needs recordings of all three apps.",
    },
];
