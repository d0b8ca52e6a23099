//! Real traces of phones, from `../shared/data/traces` of the project's folder. Without that folder
//! these tests say so and pass. The numbers are counted without this crate: each test names the
//! commands.

use std::io::{Cursor, Read};
use std::path::PathBuf;

use oneflush_trace::import::{Format, Reader, open};
use oneflush_trace::model::{Action, Content, Event};

fn trace(name: &str) -> Option<PathBuf> {
    oneflush_testing::shared_data(&format!("traces/{name}"))
}

fn all(reader: &mut Reader) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    events
}

fn count(events: &[Event], action: Action) -> usize {
    events.iter().filter(|event| event.action == action).count()
}

/// Counts: `awk -F'\t' '{n[$2 FS $8]++} END {for (k in n) print k, n[k]}'`. Sums:
/// `awk -F'\t' '$2=="D" {n[$8]++; s[$8]+=$5} END {for (k in n) print k, n[k], s[k]*512}'`.
#[test]
fn most_result_gives_every_row_that_awk_counts() {
    let Some(path) = trace("most_result.po") else { return };
    let mut reader = open(&path).unwrap();
    let events = all(&mut reader);
    assert_eq!(reader.format(), Format::Most);
    assert_eq!(count(&events, Action::Queue), 155 + 357 + 80);
    assert_eq!(count(&events, Action::Insert), 100 + 62 + 63);
    assert_eq!(count(&events, Action::Issue), 56 + 62 + 33);
    assert_eq!(count(&events, Action::Complete), 55 + 93 + 56);
    assert_eq!((events.len() as u64 + reader.skipped().ignored, reader.skipped().count), (2333, 0));
    assert_eq!(reader.skipped().cut_off, None);
    let issued = |content| {
        let of = events
            .iter()
            .filter(|event| event.action == Action::Issue && event.content == Some(content));
        of.fold((0, 0), |(n, bytes), event| (n + 1, bytes + event.bytes))
    };
    assert_eq!(issued(Content::Data), (56, 303_104));
    assert_eq!(issued(Content::Journal), (62, 1_462_272));
    assert_eq!(issued(Content::Metadata), (33, 167_936));
}

/// `awk -F'\t' '$2=="D" && $9 ~ /rmq.db/ {n[$9]++; s[$9]+=$5}
/// END {for (k in n) print k, n[k], s[k]*512}'`
#[test]
fn the_rows_of_one_database_have_its_thread_without_mosts_digit() {
    let Some(path) = trace("most_result.po") else { return };
    let mut reader = open(&path).unwrap();
    let events = all(&mut reader);
    for (file, requests, bytes) in [("rmq.db", 8, 32_768), ("rmq.db-journal", 16, 81_920)] {
        let id =
            reader.names().find(&format!("/data/com.google.android.gms/databases/{file}")).unwrap();
        let issued: Vec<_> =
            events.iter().filter(|e| e.action == Action::Issue && e.file == Some(id)).collect();
        assert_eq!(
            (issued.len(), issued.iter().map(|e| e.bytes).sum::<u64>()),
            (requests, bytes),
            "{file}"
        );
        assert!(issued.iter().all(|e| e.actor.thread == 3336 && e.flags.write && e.flags.sync));
    }
}

/// `awk -F'\t' '{n[$8]++; s[$8]+=$5} END {for (k in n) print k, n[k], s[k]*512}' most_result3.po`
#[test]
fn most_result3_has_completions_only() {
    let Some(path) = trace("most_result3.po") else { return };
    let mut reader = open(&path).unwrap();
    let events = all(&mut reader);
    assert_eq!((reader.format(), events.len(), reader.skipped().count), (Format::Most, 204, 0));
    assert_eq!(count(&events, Action::Complete), 204);
    let bytes = |content| {
        events.iter().filter(|e| e.content == Some(content)).map(|e| e.bytes).sum::<u64>()
    };
    assert_eq!(bytes(Content::Data), 290_816);
    assert_eq!(bytes(Content::Journal), 1_462_272);
    assert_eq!(bytes(Content::Metadata), 167_936);
    assert!(reader.names().find("file-NONE").is_none());
}

/// Counts: `zgrep -c block_rq_insert:` and so on. Flags: `zgrep block_rq_insert: | grep -o
/// '179,[0-9]* [A-Z]* ' | sort | uniq -c`. Sum: awk over the number behind `+` where the flags have
/// a W.
#[test]
fn the_phones_ftrace_gives_every_line_that_zgrep_counts() {
    let Some(path) = trace("phone_ycsb_a.ftrace.gz") else { return };
    let mut reader = open(&path).unwrap();
    let events = all(&mut reader);
    assert_eq!(reader.format(), Format::Ftrace);
    assert_eq!(count(&events, Action::Insert), 6091);
    assert_eq!(count(&events, Action::Complete), 6542);
    assert_eq!(count(&events, Action::Marker), 5);
    assert_eq!((events.len(), reader.skipped().ignored), (6091 + 6542 + 5, 305_520));
    assert_eq!(
        (reader.skipped().count, reader.skipped().lost, reader.skipped().cut_off),
        (0, 0, None)
    );
    let inserted: Vec<_> = events.iter().filter(|event| event.action == Action::Insert).collect();
    let of = |wanted: fn(&Event) -> bool| inserted.iter().filter(|event| wanted(event)).count();
    assert_eq!(of(|e| e.flags.write && e.flags.preflush && e.flags.fua && e.flags.sync), 455);
    assert_eq!(of(|e| e.flags.write && e.flags.preflush && !e.flags.fua && e.bytes == 0), 1785);
    assert_eq!(of(|e| e.flags.read && !e.flags.meta), 602);
    assert_eq!(of(|e| e.flags.write && !e.flags.preflush && !e.flags.sync), 52);
    assert_eq!(of(|e| e.flags.write && !e.flags.preflush && e.flags.sync), 3162);
    assert_eq!(inserted.iter().filter(|e| e.flags.write).map(|e| e.bytes).sum::<u64>(), 21_098_496);
    assert!(reader.names().find("{\"EVENT\":\"SQL_START\"}").is_some());
}

/// The same trace, cut in the middle of its packed bytes (`head -c` of half its size). The number
/// is what `zcat` and `head -n -1 | grep -cE 'block_rq|tracing_mark'` find in it.
#[test]
fn a_cut_off_gzip_gives_its_first_events_and_says_so() {
    let Some(path) = trace("phone_ycsb_a.ftrace.gz") else { return };
    let mut packed = Vec::new();
    std::fs::File::open(&path).unwrap().read_to_end(&mut packed).unwrap();
    packed.truncate(packed.len() / 2);
    let mut reader = Reader::from_read("half", Cursor::new(packed)).unwrap();
    let half = all(&mut reader);
    assert_eq!(half.len(), 1328);
    let mut whole = open(&path).unwrap();
    let whole: Vec<_> =
        half.iter().map(|_| whole.next().unwrap().expect("the whole trace has more")).collect();
    assert!(
        half.iter()
            .zip(&whole)
            .all(|(a, b)| (a.time_ns, a.sector, a.bytes) == (b.time_ns, b.sector, b.bytes))
    );
    assert_eq!(reader.skipped().cut_off, Some("the compressed data end early"));
    assert_eq!(reader.skipped().count, 0);
}
