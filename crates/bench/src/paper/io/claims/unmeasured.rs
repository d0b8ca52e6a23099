//! What the paper says and no run of ours can show.

use crate::paper::Unmeasured;

pub const UNMEASURED: [Unmeasured; 29] = [
    Unmeasured {
        source: "Fig. 6",
        says: "an insert with DELETE and fsync writes 80 KB",
        theirs: Some(80.0),
        why: "SQLite is built with fdatasync here, as it is on Android since version 5.",
    },
    Unmeasured {
        source: "Fig. 6",
        says: "PERSIST with fdatasync writes nearly half of DELETE with fsync (36 to 80 \
                  KB)",
        theirs: Some(36.0 / 80.0),
        why: "SQLite is built with fdatasync here.",
    },
    Unmeasured {
        source: "Sec. 2.3; Fig. 6",
        says: "ext4's journal costs more with fsync than with fdatasync",
        theirs: None,
        why: "SQLite is built with fdatasync here.",
    },
    Unmeasured {
        source: "Sec. 2.2",
        says: "fdatasync journals nothing where no block is allocated",
        theirs: Some(0.0),
        why: "No workload here calls fdatasync without SQLite. The floor of each run does: \
                 4 KB and one flush.",
    },
    Unmeasured {
        source: "Sec. 4.4",
        says: "the database's header page is written in every transaction",
        theirs: Some(100.0),
        why: "No figure here tells which page was written.",
    },
    Unmeasured {
        source: "Sec. 2.2",
        says: "a transaction with many dirty pages makes several log segments",
        theirs: None,
        why: "No workload here spills its cache. `crates/trace/tests/it/identify_modes.rs` \
                 tries it.",
    },
    Unmeasured {
        source: "Sec. 3.3; Fig. 10",
        says: "PERSIST zeroes the journal's header and syncs it at the end of each \
                  transaction",
        theirs: Some(100.0),
        why: "It is how `oneflush identify` tells the mode; see the lines on Table 1.",
    },
    Unmeasured {
        source: "Sec. 3.2 to 3.4",
        says: "the order is journal, journal's header, database, journal's header",
        theirs: Some(100.0),
        why: "It is how `oneflush identify` tells a transaction; see the lines on Table 1.",
    },
    Unmeasured {
        source: "Fig. 15 to 17",
        says: "three identified transactions: 56, 48 and 56 KB of data, 0, 40 and 0 KB of \
                  journal",
        theirs: None,
        why: "They are single transactions of one user's phone.",
    },
    Unmeasured {
        source: "Sec. 4.2",
        says: "0.16 % of the transactions take a second or more",
        theirs: Some(0.16),
        why: "It is of phones that sleep, over six months.",
    },
    Unmeasured {
        source: "Table 2",
        says: "the longest transaction takes 111 to 296 s",
        theirs: Some(295.9341),
        why: "It is of phones that sleep, over six months.",
    },
    Unmeasured {
        source: "Sec. 4.2; Fig. 19(a)",
        says: "222 s pass between database update and log reset (user 3)",
        theirs: Some(222.0),
        why: "It is a single event of a user's phone.",
    },
    Unmeasured {
        source: "Sec. 4.2; Fig. 19(b)",
        says: "134 s pass between the first and the second sync (user 4)",
        theirs: Some(134.0),
        why: "It is a single event of a user's phone.",
    },
    Unmeasured {
        source: "Abstract; Sec. 4.2; Fig. 19(c)",
        says: "a suspend lengthens a transaction that runs (267 s)",
        theirs: Some(267.0),
        why: "No machine is suspended here.",
    },
    Unmeasured {
        source: "Sec. 1, 4.2 and 6",
        says: "a transaction survives a suspend without crash recovery",
        theirs: Some(100.0),
        why: "No machine is suspended here.",
    },
    Unmeasured {
        source: "Sec. 1 and 6",
        says: "to abort and retry would avoid the delay",
        theirs: None,
        why: "The paper measures nothing of it.",
    },
    Unmeasured {
        source: "Sec. 4.3; Table 4",
        says: "the largest transaction makes next to no journaling (17,816 of 17,880 KB)",
        theirs: Some(17816.0 / 17880.0 * 100.0),
        why: "It is a single transaction of a user's phone.",
    },
    Unmeasured {
        source: "Sec. 4.3; Fig. 21",
        says: "the 17.5 MB are a subway app's map, made anew (user 3)",
        theirs: Some(17.5),
        why: "It is a fact of one app on a user's phone.",
    },
    Unmeasured {
        source: "Sec. 4.3",
        says: "another one of 10.9 MB is a subway app's, too (user 4)",
        theirs: Some(10.9),
        why: "It is a fact of one app on a user's phone.",
    },
    Unmeasured {
        source: "Sec. 4.4; Table 5",
        says: "SQLite wrote 14.9, 21.5, 57.0 and 53.6 GB in six months",
        theirs: Some(57.0 / 14.9),
        why: "It is of four users over six months.",
    },
    Unmeasured {
        source: "Sec. 4.1",
        says: "four users were recorded for six months",
        theirs: Some(4.0),
        why: "It says how they measured.",
    },
    Unmeasured {
        source: "Table 6; Sec. 4.5",
        says: "transactions are skewed: one database makes 58 % (user 1)",
        theirs: Some(58.0),
        why: "It is of a user's apps.",
    },
    Unmeasured {
        source: "Table 6; Sec. 4.5",
        says: "Facebook and KakaoTalk make 46 % of user 3's transactions",
        theirs: Some(46.0),
        why: "It is of a user's apps.",
    },
    Unmeasured {
        source: "Table 6; Sec. 4.5",
        says: "KakaoTalk is in the top three of users 1 and 3",
        theirs: Some(2.0),
        why: "It is of a user's apps.",
    },
    Unmeasured {
        source: "Table 6; Sec. 4.5",
        says: "prefs (Facebook) is in the top three of users 2, 3 and 4",
        theirs: Some(3.0),
        why: "It is of a user's apps.",
    },
    Unmeasured {
        source: "Table 6; Sec. 4.5",
        says: "alarms, rmq and es0 of the system are in the top three, too",
        theirs: Some(4.0),
        why: "It is of a user's apps.",
    },
    Unmeasured {
        source: "Table 6",
        says: "the top three make 74, 34, 56 and 42 % of the transactions",
        theirs: Some(74.0),
        why: "It is of a user's apps.",
    },
    Unmeasured {
        source: "Table 6",
        says: "rmq.db: 14 % of its bytes are the database's (user 2)",
        theirs: Some(0.2 / 1.4 * 100.0),
        why: "Figures here are of all databases of a trace. `oneflush identify --database \
                 rmq.db` has 10 % in one.",
    },
    Unmeasured {
        source: "Table 6",
        says: "each of the twelve databases has at most 27 % of the bytes in its file",
        theirs: Some(3.1 / 11.6 * 100.0),
        why: "It is of a user's apps.",
    },
];
