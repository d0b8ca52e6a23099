//! `oneflush mvbt`: what it tells of sound, damaged and foreign files, and that it changes none.

use std::path::{Path, PathBuf};

use oneflush_mvbt::{Database, Options, Retain};

use crate::common::{Sandbox, stderr, stdout};

/// Tree 2 has integer keys and a long payload, tree 3 records.
fn database(sandbox: &Sandbox, is_closed: bool) -> PathBuf {
    let path = sandbox.path().join("a.mvbt");
    let db = Database::create(&path, Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let (rows, records) = (txn.create_tree(false).unwrap(), txn.create_tree(true).unwrap());
    for key in 0..200 {
        txn.insert(rows, key, format!("row {key}").as_bytes()).unwrap();
    }
    txn.insert(rows, 1000, &[0xab; 10_000]).unwrap();
    txn.insert_record(records, b"fig", &|stored| stored.cmp(b"fig")).unwrap();
    txn.commit().unwrap();
    if is_closed {
        db.close().unwrap();
    }
    path
}

/// Exit code, what stands on stdout, and what on stderr. No line has more than 80 columns.
fn run(sandbox: &Sandbox, command: &str, path: &Path, more: &[&str]) -> (i32, String, String) {
    let before = std::fs::read(path).ok();
    let output = sandbox.oneflush().args(["mvbt", command]).arg(path).args(more).output().unwrap();
    assert!(std::fs::read(path).ok() == before, "the file was changed");
    let text = stdout(&output);
    let name = path.display().to_string();
    for line in text.lines().filter(|line| !line.contains(&name) && !line.starts_with('{')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    (output.status.code().unwrap(), text, stderr(&output))
}

#[test]
fn a_check_counts_the_pages_of_a_sound_file() {
    for is_closed in [true, false] {
        let sandbox = Sandbox::new();
        let path = database(&sandbox, is_closed);
        let (code, text, said) = run(&sandbox, "check", &path, &[]);
        assert_eq!((code, said.as_str()), (0, ""), "{text}");
        assert!(text.contains("cells") && text.contains("faults"), "{text}");
        let (code, text, _) = run(&sandbox, "check", &path, &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &json["faults"]), (0, &serde_json::json!([])));
        assert_eq!(json["overflow_pages"], 3);
        // The catalog has four entries of its own; without meta words two.
        assert!(json["cells"].as_u64().unwrap() >= 202, "{json}");
        // A process that died has left its pool.
        assert_eq!(json["lost_pages"].as_u64().unwrap() > 0, !is_closed, "{json}");
    }
}

#[test]
fn faults_are_told_and_are_exit_code_1() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox, true);
    let mut bytes = std::fs::read(&path).unwrap();
    // The long payload is found by its bytes.
    let at = bytes.windows(64).position(|window| window == [0xab; 64]).unwrap();
    for at in (at..bytes.len()).step_by(500) {
        bytes[at] ^= u8::from(bytes[at] == 0xab);
    }
    std::fs::write(&path, bytes).unwrap();
    let (code, text, said) = run(&sandbox, "check", &path, &[]);
    assert_eq!(code, 1);
    assert!(text.contains("damaged"), "{text}");
    assert!(said.contains("it has faults") && said.ends_with("[OF-704]\n"), "{said}");
}

#[test]
fn a_dump_shows_the_file_its_trees_and_its_pages() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox, false);
    let (code, text, _) = run(&sandbox, "dump", &path, &[]);
    assert_eq!(code, 0);
    for words in ["Anchors", "counts", "not closed", "Ring of commit blocks", "integers", "records"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (_, rows, _) = run(&sandbox, "dump", &path, &["--tree", "2", "--limit", "3"]);
    assert!(rows.contains("\"row 2\"") && !rows.contains("row 3"), "{rows}");
    assert!(rows.contains("more than 3"), "{rows}");
    let (_, rows, _) = run(&sandbox, "dump", &path, &["--tree", "2", "--limit", "500"]);
    assert!(rows.contains("10000  abab") && rows.contains('…'), "{rows}");
    assert!(run(&sandbox, "dump", &path, &["--tree", "3"]).1.contains("\"fig\""));
    let (mut leaves, mut overflows) = (0, 0);
    for no in 1..12 {
        let (code, page, _) = run(&sandbox, "dump", &path, &["--page", &no.to_string()]);
        assert_eq!(code, 0);
        leaves += u32::from(page.contains("a leaf") && page.contains("lives"));
        overflows += u32::from(page.contains("of a long payload of tree 2"));
    }
    assert!(leaves > 3 && overflows == 3, "{leaves} {overflows}");
}

#[test]
fn a_history_says_what_is_kept_and_of_which_times() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox, true);
    let (code, text, said) = run(&sandbox, "history", &path, &[]);
    assert_eq!((code, said.as_str()), (0, ""), "{text}");
    assert!(text.contains("keeps no history"), "{text}");
    let (_, text, _) = run(&sandbox, "history", &path, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["retain"], &json["marks"]),
        (&serde_json::Value::Null, &serde_json::json!([]))
    );
    for (retain, words) in [
        (Retain::Versions(3), "keeps 3 versions"),
        (Retain::Duration(std::time::Duration::from_secs(5400)), "keeps the versions of 1h 30m"),
    ] {
        let mut options = Options::default();
        options.clock = || {
            static SECONDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
            let seconds = SECONDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400 + seconds)
        };
        let db = Database::open(&path, options).unwrap();
        let mut txn = db.begin_write().unwrap();
        txn.set_retain(retain).unwrap();
        txn.commit().unwrap();
        for word in 0..6 {
            let mut txn = db.begin_write().unwrap();
            txn.set_meta(1, word).unwrap();
            txn.commit().unwrap();
        }
        let history = db.history().unwrap();
        db.close().unwrap();
        let (code, text, _) = run(&sandbox, "history", &path, &["--limit", "2"]);
        assert_eq!(code, 0);
        assert!(text.contains(words) && text.contains("1970-01-02T00:00:"), "{text}");
        assert!(text.contains("more than 2"), "{text}");
        let (_, text, _) = run(&sandbox, "history", &path, &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["from"], history.from.0, "{json}");
        assert_eq!(json["marks"][0]["version"], history.marks.last().unwrap().version.0);
        assert_eq!(json["marks_count"], history.marks.len());
    }
    let (_, text, _) = run(&sandbox, "check", &path, &[]);
    assert!(text.contains("of older versions"), "{text}");
}

#[test]
fn what_cannot_be_shown_is_named_with_the_way_out() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox, true);
    let missing = sandbox.path().join("missing.mvbt");
    let foreign = sandbox.path().join("foreign.db");
    std::fs::write(&foreign, b"SQLite format 3\0").unwrap();
    let text = sandbox.path().join("notes.txt");
    std::fs::write(&text, b"a text that is no database").unwrap();
    let cases: [(&str, &Path, &[&str], &str); 9] = [
        ("check", &missing, &[], "[OF-701]"),
        ("dump", &missing, &[], "[OF-701]"),
        ("check", sandbox.path(), &[], "[OF-701]"),
        ("check", &text, &[], "[OF-702]"),
        ("check", &foreign, &[], "[OF-707]"),
        ("history", &missing, &[], "[OF-701]"),
        ("history", &foreign, &[], "[OF-707]"),
        ("dump", &path, &["--page", "99999"], "[OF-705]"),
        ("dump", &path, &["--tree", "77"], "[OF-706]"),
    ];
    for (command, path, more, code) in cases {
        let (status, text, said) = run(&sandbox, command, path, more);
        assert_eq!((status, text.as_str()), (1, ""), "{said}");
        assert!(said.contains(path.to_str().unwrap()), "{said}");
        assert!(said.trim_end().ends_with(code), "{said}");
    }
    // A catalog that cannot be read hides all trees.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40_960..40_960 + 4096].fill(1);
    std::fs::write(&path, bytes).unwrap();
    let (status, _, said) = run(&sandbox, "dump", &path, &["--tree", "2"]);
    assert!(status == 1 && said.contains("[OF-703]"), "{said}");
    let (status, _, said) = run(&sandbox, "history", &path, &[]);
    assert!(status == 1 && said.contains("[OF-703]"), "{said}");
    let (status, text, _) = run(&sandbox, "dump", &path, &[]);
    assert!(status == 0 && text.contains("the catalog cannot be read"), "{text}");
}
