//! Real lines: perf 6.1 on Linux 6.18, a loop device with ext4 and SQLite on it.

use std::io::Cursor;

use crate::import::{Format, Reader};
use crate::model::{Action, Event};

fn events(text: &str) -> (Vec<Event>, Reader) {
    let mut reader = Reader::from_read("test", Cursor::new(text.to_owned())).unwrap();
    assert_eq!(reader.format(), Format::Perf);
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    (events, reader)
}

#[test]
fn requests_and_syncs_of_a_commit() {
    let (events, reader) = events(concat!(
        "         python3 26847 [000] 36564.359178:                 block:block_touch_buffer: 7,0 \
            sector=278 size=1024\n",
        "         python3 26847 [000] 36564.359913:                ext4:ext4_sync_file_enter: dev \
            7,0 ino 14 parent 2 datasync 1 \n",
        "         python3 26847 [000] 36564.359946:                    block:block_bio_queue: 7,0 \
            WS 18310 + 2 [python3]\n",
        "         python3 26847 [000] 36564.359962:                     block:block_rq_issue: 7,0 \
            WS 1024 () 18310 + 2 0x2,0,6 [python3]\n",
        "         python3 26847 [000] 36564.363960:                 ext4:ext4_sync_file_exit: dev \
            7,0 ino 14 ret 0\n",
    ));
    let actions: Vec<_> = events.iter().map(|event| event.action).collect();
    assert_eq!(actions, [Action::SyncEnter, Action::Queue, Action::Issue, Action::SyncExit]);
    assert_eq!(
        (events[1].time_ns, events[1].sector, events[1].bytes),
        (36_564_359_946_000, 18310, 1024)
    );
    assert_eq!((events[1].actor.thread, events[1].actor.process), (26847, 0));
    assert_eq!(reader.names().text(events[1].actor.name.unwrap()), "python3");
    assert_eq!((reader.skipped().ignored, reader.skipped().count), (1, 0));
}

#[test]
fn heads_with_process_with_period_without_processor_and_with_spaces_in_the_name() {
    let body = "block:block_bio_queue: 7,0 WS 18310 + 2 [x]";
    for (line, name, process, thread) in [
        (
            format!("         python3 26847/26850 [000] 36564.359946:  {body}\n"),
            "python3",
            26847,
            26850,
        ),
        (
            format!("         python3 26847 36564.359946:          1   {body}\n"),
            "python3",
            0,
            26847,
        ),
        (format!("Web Content: 12 1234 [001] 5.000000001: {body}\n"), "Web Content: 12", 0, 1234),
    ] {
        let (events, reader) = events(&line);
        assert_eq!((events[0].actor.process, events[0].actor.thread), (process, thread), "{line}");
        assert_eq!(reader.names().text(events[0].actor.name.unwrap()), name);
    }
}

#[test]
fn lost_events_comments_and_call_chains() {
    let (events, reader) = events(concat!(
        "# captured on: Fri Nov 20\n",
        "         python3 26847 [000] 36564.359962: PERF_RECORD_LOST lost 12\n",
        "         python3 26847 [000] 36564.359963: block:block_bio_queue: 7,0 WS 18310 + 2 \
            [python3]\n",
        "\tffffffff8142a5b1 submit_bio_noacct+0x1 ([kernel.kallsyms])\n",
        "\n",
    ));
    assert_eq!((events.len(), reader.skipped().lost, reader.skipped().count), (1, 12, 0));
}
