//! Real lines: blkparse 1.2.0 over requests of a loop device, and examples of blkparse(1).

use std::io::Cursor;

use crate::import::{Format, Reader};
use crate::model::{Action, DeviceId, Event};

fn events(text: &str) -> (Vec<Event>, Reader) {
    let mut reader = Reader::from_read("test", Cursor::new(text.to_owned())).unwrap();
    assert_eq!(reader.format(), Format::Blkparse);
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    (events, reader)
}

#[test]
fn the_life_of_a_request() {
    let (events, reader) = events(concat!(
        "Input file loop0.blktrace.0 added\n",
        "  7,0    0      335     0.239773000 26070  Q FWFSM 32956 + 2 [jbd2/loop0-8]\n",
        "  7,0    0      336     0.239783000 32590  D  FN [kworker/1:1H]\n",
        "  7,0    0      337     0.243575000    14  C  FN 0 [0]\n",
        "  7,0    0      338     0.243582000 20239  I WSM 32956 + 2 [kworker/0:1H]\n",
        "  7,0    0      339     0.243584000 20239  D WSM 32956 + 2 [kworker/0:1H]\n",
        "  7,0    0      340     0.243597000    14  C WSM 32956 + 2 [0]\n",
        "  7,0    0      343     0.243854000    14  C WSM 0 [0]\n",
        "  7,0    0      344     0.243855000    14  C WSM 32956 [0]\n",
        "  7,0    0      345     0.243856000    14  C  FN 18446744073709551615 [0]\n",
    ));
    let ends: Vec<_> = events[5..].iter().map(|event| (event.sector, event.bytes)).collect();
    assert_eq!(ends, [(32956, 1024), (0, 0), (32956, 0), (0, 0)]);
    let actions: Vec<_> = events.iter().map(|event| event.action).collect();
    use Action::{Complete, Insert, Issue, Queue};
    assert_eq!(
        actions,
        [Queue, Issue, Complete, Insert, Issue, Complete, Complete, Complete, Complete]
    );
    assert_eq!(
        (events[0].device, events[0].sector, events[0].bytes),
        (DeviceId { major: 7, minor: 0 }, 32956, 1024)
    );
    assert!(events[0].flags.preflush && events[0].flags.fua && events[0].flags.meta);
    assert!(events[1].flags.preflush && !events[1].flags.write && events[1].bytes == 0);
    assert_eq!((events[0].time_ns, events[0].actor.thread), (239_773_000, 26070));
    assert_eq!(reader.names().text(events[0].actor.name.unwrap()), "jbd2/loop0-8");
    assert_eq!(events[5].actor.name, None, "the bracket of a completion is an error number");
    assert_eq!(reader.skipped().count, 0);
}

#[test]
fn what_says_nothing_more_is_ignored_and_the_sums_are_no_events() {
    let (events, reader) = events(concat!(
        "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n",
        "  8,0    3        2     0.000001829   697  P   R [kjournald]\n",
        "  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]\n",
        "  8,0    3        4     0.000005533   697  M   W 223498 + 8 [kjournald]\n",
        "  8,0    3        5     0.000020873   697  U   N [kblockd/3] 1\n",
        "  8,0    3        6     0.000020874   697 UT   N [kblockd/3] 1\n",
        "  8,0    3       10     0.009506713   697  A  WS 223490 + 8 <- (8,1) 223427\n",
        "  8,0    0        0     0.009507000     0  m   N cfq697S / alloced\n",
        "\n",
        "CPU0 (loop0):\n",
        " Reads Queued:           5,        5KiB\t Writes Queued:         127,      201KiB\n",
        " Read Dispatches:       39,        5KiB\t Write Dispatches:       48,      201KiB\n",
        " Reads Requeued:         0\t\t Writes Requeued:         0\n",
        " Read depth:             3        \t Write depth:             2\n",
        " IO unplugs:             0        \t Timer unplugs:           0\n",
        "\n",
        "Throughput (R/W): 20KiB/s / 827KiB/s\n",
        "Events (loop0): 343 entries\n",
        "Skips: 0 forward (0 -   0.0%)\n",
    ));
    assert_eq!(events.len(), 2);
    let from = DeviceId { major: 8, minor: 1 };
    assert_eq!(events[1].action, Action::Remap { from, from_sector: 223_427 });
    assert_eq!(
        (reader.skipped().ignored, reader.skipped().count),
        (6, 0),
        "{:?}",
        reader.skipped()
    );
}

#[test]
fn a_command_passed_through_has_no_sector_and_a_time_before_the_name_is_no_name() {
    let (events, reader) = events(concat!(
        "  8,0    3        1     0.009538213   697  D   N 36 (12 00 00 00 24 00) [sd]\n",
        "  8,0    3        2     0.009538214   697  D  WS 223490 + 8 (    4711) [kjournald]\n",
    ));
    assert_eq!((events[0].sector, events[0].bytes), (0, 0));
    assert_eq!((events[1].sector, events[1].bytes), (223_490, 4096));
    assert_eq!(reader.names().text(events[1].actor.name.unwrap()), "kjournald");
}

#[test]
fn a_line_cut_in_its_middle_gives_no_event() {
    let (events, reader) = events(concat!(
        "  8,0    3        1     0.009538213   697  D  WS 223490 + 8 [kjournald]\n",
        "  8,0    3        2     0.009538214   697  D  WS 22349\n",
        "  8,0    3        3     0.0095\n",
        "  8,0    3        4     0.009538214   697  D  WS 223490 + 8 [kjour",
    ));
    assert_eq!(events.len(), 1);
    assert_eq!(reader.skipped().count, 2);
    assert_eq!(reader.skipped().cut_off, Some("the last line has no end"));
}
