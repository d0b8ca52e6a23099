use std::io::Cursor;

use super::*;
use crate::import::{Format, ImportError, Reader};

const HEAD: &str = "# tracer: nop
#
# oneflush: format 1
# oneflush: clock 2026-11-28T22:44:10.123456789Z at 12345.678901234
# oneflush: kernel Linux 6.18.0 x86_64
# oneflush: recorder oneflush trace 0.1.0
# oneflush: file_system ext4
# oneflush: file_system ext4
# oneflush: file_system xfs
# oneflush: label device=kiosk 7\\012b
# oneflush: label note=a=b
# oneflush: part 3
# oneflush: what_comes_later 1
#
";
const EVENT: &str = "              sh-3397    (   3390) [001] ..... 12346.000000: \
                     block_bio_queue: 7,0 WS 1024 + 8 [sh]\n";

fn reader(text: &str) -> Result<Reader, ImportError> {
    Reader::from_read("t.zst", Cursor::new(text.as_bytes().to_vec()))
}

fn facts(text: &str) -> Facts {
    let mut reader = reader(text).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.skipped().count, 0);
    reader.facts().clone()
}

#[test]
fn a_head_is_read_and_its_text_comes_back() {
    let facts = facts(&format!("{HEAD}{EVENT}# oneflush: own_bytes 4096\n"));
    let labels = [("device", "kiosk 7\nb"), ("note", "a=b")];
    let expected = Facts {
        format: Some(1),
        recorder: Some("oneflush trace 0.1.0".to_owned()),
        kernel: Some("Linux 6.18.0 x86_64".to_owned()),
        clock: Some(Clock { unix_ns: 1_795_905_850_123_456_789, at_ns: 12_345_678_901_234 }),
        file_systems: vec!["ext4".to_owned(), "xfs".to_owned()],
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        part: Some(3),
        own_bytes: Some(4096),
    };
    assert_eq!(facts, expected);
}

#[test]
fn a_recording_without_facts_has_none() {
    assert_eq!(facts(&format!("# tracer: nop\n#\n{EVENT}")), Facts::default());
    assert_eq!(facts(EVENT), Facts::default());
}

#[test]
fn of_recordings_one_behind_the_other_the_first_facts_stay_and_bytes_are_added() {
    let second = HEAD.replace("part 3", "part 4").replace("6.18.0", "6.19.0");
    let end = "# oneflush: own_bytes 10\n";
    let facts = facts(&format!("{HEAD}{EVENT}{end}{second}{EVENT}{end}"));
    assert_eq!((facts.part, facts.own_bytes), (Some(3), Some(20)));
    assert_eq!(facts.kernel.as_deref(), Some("Linux 6.18.0 x86_64"));
}

#[test]
fn a_newer_format_is_an_error_that_says_both_formats_and_the_way_out() {
    let newer = HEAD.replace("format 1", "format 2");
    let error = reader(&newer).err().expect("it is newer").to_string();
    for words in ["t.zst: ", "format 2", "knows format 1", "newer one"] {
        assert!(error.contains(words), "{words} in {error}");
    }
    assert!(reader(&newer.replace("format 2", "format 99999999999")).is_err());
    // Who is told the format does not look ahead.
    let read = Cursor::new(format!("{newer}{EVENT}").into_bytes());
    let mut reader = Reader::with_format("t.zst", read, Format::Ftrace).unwrap();
    assert!(matches!(reader.next(), Err(ImportError::Newer { format: 2, known: 1, .. })));
}

#[test]
fn what_is_kept_is_bounded() {
    let mut facts = Facts::default();
    for n in 0..1000 {
        facts.line(format!("# oneflush: label n{n}=v").as_bytes()).unwrap();
        facts.line(format!("# oneflush: file_system f{n}").as_bytes()).unwrap();
    }
    assert_eq!((facts.labels.len(), facts.file_systems.len()), (LABELS_MAX, FILE_SYSTEMS_MAX));
    let mut facts = Facts::default();
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    for line in [format!("label a={long}"), format!("label {long}=a"), format!("kernel {long}")] {
        facts.line(format!("# oneflush: {line}").as_bytes()).unwrap();
    }
    assert_eq!(facts, Facts::default());
}

#[test]
fn lines_that_say_nothing_are_passed_over() {
    let mut facts = Facts::default();
    for line in [
        "# oneflush:",
        "# oneflush: ",
        "# oneflush: format",
        "# oneflush: format one",
        "# oneflush: clock yesterday at 1.0",
        "# oneflush: clock 2026-11-28T22:44:10Z at noon",
        "# oneflush: label",
        "# oneflush: label =value",
        "# oneflush: label name",
        "# oneflush: part -1",
        "# oneflush: own_bytes much",
        "oneflush: part 1",
    ] {
        facts.line(line.as_bytes()).unwrap();
    }
    assert_eq!(facts, Facts::default());
}
