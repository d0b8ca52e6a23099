//! What the page is made of: one file, with its data in it, whatever the names are. Also which
//! transactions have their requests.

use oneflush_trace::report::{Report, Why, page};
use serde_json::Value;

use crate::report_common::{trace, transaction, with_accesses};

/// The data that stand in a page.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_name_cannot_end_the_data_or_stand_for_a_place_of_the_template() {
    let name = "</script><script>{{script}} {{data}} <!--\u{2028}\"\\";
    let trace = trace("t", [transaction(name, 0, 1, [4, 0, 0, 0])]);
    let page = page("test", &Report::new(std::slice::from_ref(&trace)), &[trace]);
    assert_eq!(data(&page)["transactions"]["databases"][0], name);
    assert_eq!(page.matches("<script").count(), 2, "that of the data, and the page's own");
}

#[test]
fn the_page_names_no_other_file() {
    let page = page("test", &Report::new(&[]), &[]);
    assert!(page.contains("default-src 'none'"));
    // As attributes of elements; the library's own comment has its address.
    for other in ["src=\"", "href=\"http", "href=\"//", "@import", "url("] {
        assert!(!page.contains(other), "{other}");
    }
}

#[test]
fn columns_give_back_the_transactions() {
    let transactions =
        [transaction("/a.db", 10, 3, [4, 8, 16, 0]), transaction("/b.db", 40, 5, [8, 8, 0, 4])];
    let traces = [trace("t", transactions.clone()), trace("u", transactions)];
    let page = page("test", &Report::new(&traces), &traces);
    let columns = &data(&page)["transactions"];
    let text = |name: &str| columns[name].to_string();
    assert_eq!(text("trace"), "[0,0,1,1]");
    assert_eq!(text("begin_us"), "[10000,30000,10000,30000]");
    assert_eq!(text("latency_us"), "[3000,5000,3000,5000]");
    assert_eq!(columns["bytes"][1].to_string(), "[8192,8192,8192,8192]");
    assert_eq!(
        (text("database"), text("databases")),
        ("[0,1,0,1]".into(), "[\"/a.db\",\"/b.db\"]".into())
    );
    assert_eq!((text("mode"), text("modes")), ("[0,0,0,0]".into(), "[\"PERSIST FULL\"]".into()));
}

#[test]
fn of_each_database_the_first_a_median_the_slowest_and_the_largest_keep_their_requests() {
    let transactions = (0..1000).map(|n| {
        let (ms, kb) = match n {
            700 => (5000, 8),
            800 => (20, 9000),
            n => (10 + n % 21, 8),
        };
        with_accesses(transaction("/a.db", n * 50, ms, [kb, 8, 0, 0]))
    });
    let trace = trace("t", transactions);
    let chosen: Vec<(&[Why], usize)> =
        trace.samples.iter().map(|sample| (&sample.why[..], sample.entry)).collect();
    let [(first, 0), (median, number), (slowest, 700), (largest, 800)] = chosen[..] else {
        panic!("{chosen:?}")
    };
    assert_eq!(
        [first, median, slowest, largest],
        [[Why::First], [Why::Median], [Why::Slowest], [Why::Largest]]
    );
    let median_ms = trace.entries[number].latency_ns / 1_000_000;
    assert!((18..=22).contains(&median_ms), "{median_ms} is not near 20");
    assert!(trace.samples.iter().all(|sample| sample.accesses.len() == 2));
}

#[test]
fn requests_are_kept_of_a_bounded_number_of_databases() {
    let transactions =
        (0..500).map(|n| with_accesses(transaction(&format!("/{n}.db"), n, 1, [4, 4, 0, 0])));
    let trace = trace("t", transactions);
    assert_eq!(trace.samples.len(), 64, "one of each of the first 64");
    assert!(trace.samples.iter().all(|sample| sample.why.len() == 4));
}
