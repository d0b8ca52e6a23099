//! The trace of `oneflush report --perfetto` in Perfetto's own page, whose trace processor then
//! says what it has read of it.
//!
//! The page is in the folder that ONEFLUSH_PERFETTO_UI names (`scripts/perfetto-ui` puts it there);
//! without it, or without a Chromium, the test says so and passes. `make test` has both.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::{fs, thread};

use serde_json::Value;

use crate::common::browser::Browser;
use crate::common::commits::Commits;
use crate::common::{Sandbox, stderr};

/// Serves a folder's files, and `/trace.json` from elsewhere; returns where.
fn serve(folder: PathBuf, trace: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (folder, trace) = (folder.clone(), trace.clone());
            thread::spawn(move || answer(&folder, &trace, stream));
        }
    });
    address
}

fn answer(folder: &Path, trace: &Path, stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    let _ = reader.read_line(&mut request);
    let mut header = String::new();
    while reader.read_line(&mut header).is_ok_and(|length| length > 2) {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap_or("/");
    let file = if path == "/trace.json" {
        trace.to_owned()
    } else {
        folder.join(path.trim_start_matches('/'))
    };
    let kind = match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("json") => "application/json",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    };
    let mut stream = reader.into_inner();
    // The browser may have gone.
    let _ = match fs::read(file).ok().filter(|_| request.starts_with("GET ")) {
        Some(bytes) => write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: \
                close\r\n\r\n",
            bytes.len()
        )
        .and_then(|()| stream.write_all(&bytes)),
        None => write!(
            stream,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: \
            close\r\n\r\n"
        ),
    };
}

/// Name and number, as the trace processor counts them.
fn counts(browser: &mut Browser, sql: &str) -> BTreeMap<String, u64> {
    let rows = browser.evaluate(&format!(
        "(async () => {{
            const result = await app.trace.engine.query({sql:?});
            const rows = [];
            for (const row = result.iter({{ name: 'str', count: 0 }}); row.valid(); row.next()) \
            rows.push([row.name, row.count]);
            return rows;
        }})()"
    ));
    let row = |row: &Value| (row[0].as_str().unwrap().to_owned(), row[1].as_u64().unwrap());
    rows.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn perfettos_own_page_opens_it_and_finds_every_transaction() {
    let page = std::env::var_os("ONEFLUSH_PERFETTO_UI").map(PathBuf::from);
    let Some(page) = page.filter(|page| page.join("index.html").exists()) else {
        oneflush_testing::skip(
            "no page of Perfetto in ONEFLUSH_PERFETTO_UI; scripts/perfetto-ui fetches it",
        );
        return;
    };
    let sandbox = Sandbox::new();
    let commits = Commits::new(300, 7);
    let (trace, perfetto) =
        (sandbox.path().join("trace.txt"), sandbox.path().join("perfetto.json"));
    fs::write(&trace, commits.text()).unwrap();
    let output = sandbox
        .oneflush()
        .arg("report")
        .arg(&trace)
        .arg("--perfetto")
        .arg(&perfetto)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let events: Value = serde_json::from_slice(&fs::read(&perfetto).unwrap()).unwrap();
    let events = events["traceEvents"].as_array().unwrap();

    let Some(mut browser) = Browser::start(1400, 900) else { return };
    let address = serve(page, perfetto);
    browser.visit(
        &format!("{address}/index.html#!/?url={address}/trace.json"),
        "typeof app !== 'undefined' && app.trace !== undefined && \
            document.title.includes('trace.json')",
    );
    browser.evaluate("waitForPerfettoIdle()");

    let errors = "select name, value as count from stats where severity in ('error', 'data_loss') \
        and value > 0";
    assert_eq!(counts(&mut browser, errors), BTreeMap::new());
    let mut slices: BTreeMap<String, u64> = BTreeMap::new();
    let mut samples = 0;
    for event in events {
        match event["ph"].as_str().unwrap() {
            // Instants are slices without a length there.
            "b" | "n" => {
                *slices.entry(event["name"].as_str().unwrap().to_owned()).or_default() += 1
            }
            "C" => samples += 1,
            _ => {}
        }
    }
    assert!(slices.values().sum::<u64>() > commits.count * 3);
    assert_eq!(
        counts(&mut browser, "select name, count(*) as count from slice group by name"),
        slices
    );
    let open = "select 'open' as name, count(*) as count from slice where dur < 0";
    assert_eq!(counts(&mut browser, open)["open"], 0);
    assert_eq!(
        counts(&mut browser, "select 'counter' as name, count(*) as count from counter")["counter"],
        samples
    );
    // And it is drawn: the timeline has a track for each of the seven databases.
    let tracks =
        "select 'tracks' as name, count(distinct track_id) as count from slice where depth = 0";
    assert!(counts(&mut browser, tracks)["tracks"] >= commits.databases);
}
