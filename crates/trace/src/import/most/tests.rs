use std::io::Cursor;

use crate::import::{Format, Reader};
use crate::model::{Action, Content, Event};

fn events(text: &str) -> (Vec<Event>, Reader) {
    let mut reader = Reader::from_read("test", Cursor::new(text.to_owned())).unwrap();
    assert_eq!(reader.format(), Format::Most);
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    (events, reader)
}

#[test]
fn type_and_file_are_read_and_the_digit_before_the_process_is_taken_off() {
    let (events, reader) = events(concat!(
        "    0.000204740\tG\tWS\t23004888\t   8\t4767\t     IntentService[]\tM\n",
        "    0.076800053\tC\tWAS\t 4079904\t  96\t 137\t     jbd2/mmcblk0p28\tJ\tfile-NONE\n",
        "    0.096422553\tD\tWAS\t23901680\t  16\t103336\t           \
            GCMReader\tD\t/data/gms/rmq.db-journal\n",
        "    0.109431355\tD\tWAS\t23901656\t   8\t503336\t           \
            GCMReader\tD\t/data/gms/rmq.db\n",
        "    0.130000000\tQ\tW\t23901656\t   8\t 135\t         flush-179:0\tD\t/app_chrome/Sync \
            Data/x\n",
    ));
    let name = |n: usize| events[n].file.map(|id| reader.names().text(id));
    assert_eq!(events.len(), 4);
    assert_eq!(
        (events[0].action, events[0].content, name(0)),
        (Action::Complete, Some(Content::Journal), None)
    );
    assert_eq!(
        (events[1].content, name(1)),
        (Some(Content::Data), Some("/data/gms/rmq.db-journal"))
    );
    assert_eq!(
        (events[1].actor.thread, events[2].actor.thread, events[3].actor.thread),
        (3336, 3336, 135)
    );
    assert_eq!(
        (events[1].sector, events[1].bytes, events[1].time_ns),
        (23_901_680, 8192, 96_422_553)
    );
    assert_eq!(name(3), Some("/app_chrome/Sync Data/x"));
    assert_eq!(reader.names().text(events[1].actor.name.unwrap()), "GCMReader");
    assert_eq!((reader.skipped().ignored, reader.skipped().count), (1, 0));
}

#[test]
fn a_barrier_of_the_old_blkparse_is_a_preflush() {
    let (events, _) =
        events("    0.077373178\tQ\tWBS\t 4080000\t   8\t 137\t     jbd2/mmcblk0p28\tJ\n");
    assert!(events[0].flags.preflush && events[0].flags.write && events[0].flags.sync);
}

#[test]
fn the_same_form_without_the_two_columns_is_read_too() {
    let (events, _) =
        events("    0.000012000\tD\tRM\t    8742\t   2\t26074\t             python3\n");
    assert_eq!(
        (events[0].action, events[0].content, events[0].actor.thread),
        (Action::Issue, None, 26074)
    );
}

#[test]
fn a_row_of_another_shape_is_not_understood() {
    let (events, reader) = events(concat!(
        "    0.077373178\tQ\tWS\t 4080000\t   8\t 137\t     jbd2/mmcblk0p28\tJ\n",
        "    0.077373178\tQ\tWS\t 4080000\t   8\t 137\n",
        "    0.077373178\tQ\tWS\t 4080000\t   8\t 137\t     jbd2/mmcblk0p28\tX\n",
        "    0.077373178\tQ\tWS\t 4080000\t   8\t 137\t     jbd2/mmcblk0p28\tJ\tfile\tmore\n",
    ));
    assert_eq!((events.len(), reader.skipped().count), (1, 3));
    assert_eq!(reader.skipped().first[0].number, 2);
}
