//! No text of a picture leaves the picture, or touches another text, a bar, a mark or a line. That
//! holds in any common font.

use std::collections::BTreeMap;

use super::{Anchor, Canvas, Color, Pen, Picture, Rect, Style, WIDTH, font};
use crate::report::{Figures, FloorFigures, ModeReport, Report, sample};
use oneflush_measure::observe::{Class, Source};
use oneflush_measure::run::timeline::TimelineFigures;
use oneflush_measure::workload::Unit;

#[derive(Clone, Debug)]
struct Box {
    what: String,
    left: f32,
    right: f32,
    top: f32,
    bottom: f32,
}

impl Box {
    fn touches(&self, other: &Box) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

#[derive(Default)]
struct Recorder {
    texts: Vec<Box>,
    shapes: Vec<Box>,
}

impl Canvas for Recorder {
    fn fill(&mut self, rect: Rect, _: Color) {
        let Rect { x, y, width, height } = rect;
        let what = "a rectangle".to_owned();
        self.shapes.push(Box { what, left: x, right: x + width, top: y, bottom: y + height });
    }

    fn lines(&mut self, points: &[(f32, f32)], pen: Pen) {
        let half = pen.width / 2.0;
        for pair in points.windows(2) {
            let [(x1, y1), (x2, y2)] = [pair[0], pair[1]];
            self.shapes.push(Box {
                what: "a line".to_owned(),
                left: x1.min(x2) - half,
                right: x1.max(x2) + half,
                top: y1.min(y2) - half,
                bottom: y1.max(y2) + half,
            });
        }
    }

    fn text(&mut self, x: f32, y: f32, text: &str, style: Style) {
        let room = font::room(text, style.size);
        let left = match style.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - room / 2.0,
            Anchor::End => x - room,
        };
        // What letters with accents and tails take.
        let (top, bottom) = (y - style.size * 0.95, y + style.size * 0.3);
        self.texts.push(Box { what: text.to_owned(), left, right: left + room, top, bottom });
    }
}

fn assert_apart(report: &Report, picture: Picture) -> Recorder {
    let mut seen = Recorder::default();
    let height = picture.draw(report, &mut seen);
    assert!(seen.texts.len() > 5 && seen.shapes.len() > 2, "{picture:?}");
    for (at, text) in seen.texts.iter().enumerate() {
        let inside = text.left >= 2.0
            && text.right <= WIDTH - 2.0
            && text.top >= 2.0
            && text.bottom <= height - 2.0;
        assert!(inside, "{picture:?} of {WIDTH} x {height}: {text:?}");
        let other =
            seen.texts[at + 1..].iter().chain(&seen.shapes).find(|other| text.touches(other));
        assert!(other.is_none(), "{picture:?}: {text:?} touches {other:?}");
    }
    seen
}

/// What one mode made: commits a second, median and longest.
struct Made(&'static str, u32, f64, u64, u64);

fn report(made: &[Made]) -> Report {
    let mode = |Made(name, connections, rate, p50, max): &Made| {
        let figures = Figures {
            counted_at: Some(Source::BlockDevice),
            bytes_per_transaction: Some(78_643.2),
            bytes_per_transaction_by_class: BTreeMap::from([
                (Class::Db, 32_768.0),
                (Class::Journal, 13_107.2),
                (Class::FsJournal, 28_672.0),
                (Class::Other, 4096.0),
            ]),
            ..sample::round(*rate, sample::latency(*p50, *max))
        };
        let stretches = *p50 as usize % 97 + 3;
        ModeReport {
            latency_timeline: TimelineFigures {
                stretch_ns: 4_000_000,
                counts: vec![10; stretches],
                p50_ns: vec![*p50; stretches],
                max_ns: vec![*max; stretches],
            },
            ..sample::mode(name, *connections, vec![figures; 2])
        }
    };
    let report = sample::report(made.iter().map(mode).collect());
    let floor = FloorFigures {
        p50_ns: 231_434,
        p99_ns: 8_118_950,
        max_ns: 98_573_350,
        ..report.floor.clone()
    };
    Report { counted_at: Some(Source::BlockDevice), floor, ..report }
}

fn strategies() -> Report {
    report(&[
        Made("wal", 1, 1948.0, 275_583, 12_841_589),
        Made("wal:plain", 1, 903.0, 333_567, 14_261_101),
        Made("wal:eager", 1, 336.0, 1_768_447, 149_102_265),
        Made("wal", 16, 661.0, 2_113_535, 6_583_023_678),
        Made("wal:plain", 16, 7872.9, 1_494_015, 196_208_459),
        Made("wal:eager", 16, 7421.8, 1_705_983, 16_314_303),
    ])
}

/// The title of each picture.
fn titles(report: &Report) -> [String; 2] {
    [Picture::Summary, Picture::Timelines].map(|picture| {
        assert_apart(report, picture);
        picture.title(report).text
    })
}

#[test]
fn strategies_beside_each_other() {
    let report = strategies();
    let [speed, longest] = titles(&report);
    assert_eq!(speed, "16 writers: wal:plain commits 11.9× as fast as wal:stock");
    assert_eq!(longest, "16 writers, longest commit: wal:stock 6.58 s, wal:eager 16.3 ms");
    let seen = assert_apart(&report, Picture::Summary);
    for figure in [
        "7,873",
        "661",
        "76.8",
        "276 µs",
        "6.58 s",
        "16 writers",
        "wal:stock",
        "file system's journal",
    ] {
        assert!(seen.texts.iter().any(|text| text.what == figure), "{figure}");
    }
}

/// A short run drew the bar of a log with its space in it, and so higher than that of the WAL.
#[test]
fn what_was_written_once_is_drawn_apart() {
    let mut report = strategies();
    for mode in report.modes.iter_mut().filter(|mode| mode.mode.to_string() == "wal:eager") {
        mode.median.laid_out_bytes = Some(8_493_466.0);
        mode.median.transactions = 500;
    }
    let seen = assert_apart(&report, Picture::Summary);
    let texts = |what: &str| seen.texts.iter().filter(|text| text.what == what).count();
    assert_eq!((texts("76.8"), texts("76.8 +16.6")), (4, 2));
    assert_eq!(
        texts("space ahead,") + texts("+ space ahead,") + texts("+ space ahead, written"),
        1
    );
    assert_eq!(report.counting().1, "at the block device");
}

#[test]
fn journal_modes_of_which_some_lose_commits() {
    let journals = [
        "delete",
        "truncate:normal",
        "wal-growing:extra:sqlite",
        "wal:normal:eager",
        "memory",
        "off:off",
    ];
    let made = |(at, mode)| Made(mode, 1, 83.2 + 1_234_567.0 * at as f64, 320_000, 999_400_000);
    let report = report(&journals.into_iter().enumerate().map(made).collect::<Vec<_>>());
    let [speed, _] = titles(&report);
    assert!(
        speed.starts_with("wal-growing:extra:sqlite commits 29678.1× as fast as delete:stock"),
        "{speed}"
    );
    let seen = assert_apart(&report, Picture::Summary);
    assert!(seen.texts.iter().any(|text| text.what == "memory:stock *"), "{:?}", seen.texts);
}

#[test]
fn what_nobody_counted_and_what_did_not_run() {
    let mut report = strategies();
    report.counted_at = None;
    for mode in &mut report.modes {
        mode.median.bytes_per_transaction = None;
        mode.median.bytes_per_transaction_by_class.clear();
    }
    titles(&report);
    report.modes[4].median.transactions = 0;
    report.modes[4].median.transactions_per_s = 0.0;
    report.modes[4].latency_timeline =
        TimelineFigures { stretch_ns: 1000, ..TimelineFigures::default() };
    assert_eq!(titles(&report)[0], "16 writers: wal:eager commits 11.2× as fast as wal:stock");
    let seen = assert_apart(&report, Picture::Summary);
    assert_eq!(seen.texts.iter().filter(|text| text.what == "–").count(), 2, "rate and times");
    report.modes.iter_mut().for_each(|mode| mode.median.transactions = 0);
    assert_eq!(titles(&report)[0], "No transaction was measured");
}

#[test]
fn reads_turns_rates_and_long_names() {
    let mut reads = strategies();
    reads.unit = Unit::Read;
    for mode in &mut reads.modes {
        mode.median.latency_ns = sample::latency(900, 999_499);
        mode.median.transactions_per_s = 612_345.6;
    }
    reads.modes[4].median.transactions_per_s = 622_345.6;
    assert_eq!(titles(&reads)[0], "16 readers: wal:plain reads as fast as wal:stock");
    let mut paced = strategies();
    paced.rate = Some(100.0);
    paced.environment.place = format!("directory {}", "/with-a-long-name".repeat(30));
    paced.workload = "replay of SQL ".repeat(30);
    assert!(titles(&paced)[0].starts_with("16 writers, longest commit: "));
    let mut turns = report(&[
        Made("wal", 1, 99.0, 300_000, 1_000_000),
        Made("wal:eager", 1, 99.0, 200_000, 2_000_000),
    ]);
    turns.in_turns = true;
    assert_eq!(titles(&turns)[0], "wal:eager commits 1.5× as fast as wal:stock");
}

#[test]
fn times_from_nanoseconds_to_minutes_and_all_the_same() {
    titles(&report(&[
        Made("wal", 1, 0.01, 100, 590_000_000_000),
        Made("delete", 1, 0.01, 999_400, 999_400),
    ]));
    titles(&report(&[Made("wal", 1, 5000.0, 200_000, 200_000)]));
}

#[test]
fn a_report_that_was_written_is_read_again() {
    let report = strategies();
    let again: Report = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(again.to_json(), report.to_json());
}
