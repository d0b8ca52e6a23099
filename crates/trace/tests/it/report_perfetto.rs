//! The trace for ui.perfetto.dev: it is JSON of the Trace Event Format, every slice that begins
//! ends, and nothing lies outside.

use oneflush_trace::model::{Action, Actor, DeviceId, Event, Flags, Names};
use oneflush_trace::report::Perfetto;
use serde_json::{Value, json};

use crate::report_common::{transaction, with_accesses};

fn parsed(lines: Vec<String>) -> Vec<Value> {
    let whole: Value = serde_json::from_str(&lines.join("\n")).unwrap();
    assert_eq!(whole["displayTimeUnit"], "ms");
    whole["traceEvents"].as_array().unwrap().clone()
}

fn event(time_ns: u64, action: Action) -> Event {
    let actor = Actor { thread: 1, process: 1, name: None };
    let flags = Flags { write: true, ..Flags::default() };
    let device = DeviceId { major: 8, minor: 0 };
    Event {
        time_ns,
        action,
        device,
        sector: 8,
        bytes: 4096,
        flags,
        actor,
        content: None,
        file: None,
    }
}

#[test]
fn without_any_trace_it_is_empty_and_whole() {
    assert_eq!(parsed(vec![Perfetto::default().finish()]), [Value::Null; 0]);
}

#[test]
fn transactions_phases_flushes_and_the_queue_stand_in_it() {
    let mut perfetto = Perfetto::default();
    let names = Names::default();
    let mut lines = perfetto.trace("first");
    lines.extend(perfetto.event(&event(1_500, Action::Issue)));
    lines.extend(perfetto.event(&event(2_500, Action::Complete)));
    lines.extend(
        perfetto.transaction(&with_accesses(transaction("/a.db", 3, 8, [4, 8, 4, 0])), &names),
    );
    lines.extend(
        perfetto.transaction(&with_accesses(transaction("/b\"<\n.db", 5, 8, [4, 8, 4, 0])), &names),
    );
    lines.extend(perfetto.trace("second"));
    lines.extend(perfetto.transaction(&transaction("/a.db", 3, 8, [4, 8, 4, 0]), &names));
    lines.push(perfetto.finish());
    let events = parsed(lines);

    let of = |kind: &str| events.iter().filter(|event| event["ph"] == kind).collect::<Vec<_>>();
    let names: Vec<&Value> = of("M").iter().map(|event| &event["args"]["name"]).collect();
    assert_eq!(names, ["first", "second"]);
    let counters: Vec<(&Value, &Value)> =
        of("C").iter().map(|event| (&event["ts"], &event["args"]["requests"])).collect();
    assert_eq!(counters, [(&json!(1.5), &json!(1)), (&json!(2.5), &json!(0))]);
    assert_eq!(of("C")[0]["name"], "requests at 8:0");

    // A transaction and three phases each.
    assert_eq!((of("b").len(), of("e").len(), of("n").len()), (12, 12, 2));
    for id in 1..=3 {
        let own: Vec<&Value> = events.iter().filter(|event| event["id"] == id).collect();
        let at = |event: &Value| event["ts"].as_f64().unwrap();
        let mut open: Vec<&Value> = Vec::new();
        for event in &own {
            assert!(
                at(event) >= at(own[0]) && at(event) <= at(own[own.len() - 1]),
                "{event} lies outside"
            );
            assert_eq!((&event["cat"], &event["pid"]), (&own[0]["cat"], &own[0]["pid"]));
            match event["ph"].as_str().unwrap() {
                "b" => open.push(event),
                "e" => {
                    let begun = open.pop().expect("an end has its begin");
                    assert!(
                        begun["name"] == event["name"] && at(begun) <= at(event),
                        "{begun} {event}"
                    );
                }
                kind => assert_eq!((kind, &event["name"]), ("n", &json!("flush"))),
            }
        }
        assert!(open.is_empty(), "{open:?} never end");
    }
    let whole = of("b").into_iter().find(|event| event["name"] == "/b\"<\n.db").unwrap();
    assert_eq!((&whole["ts"], &whole["args"]["bytes"]), (&json!(5000.0), &json!(16 * 1024)));
    let flush = of("n")[0];
    assert_eq!((&flush["ts"], &flush["args"]["flushes"]), (&json!(4000.0), &json!(1)));
}
