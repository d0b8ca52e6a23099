//! The page of `oneflush report` in a real browser. Where there is no Chromium, a test says so and
//! passes (`make test` installs it).

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::browser::Browser;
use crate::common::commits::Commits;
use crate::common::{Sandbox, stderr};

/// The page of these traces.
fn page(sandbox: &Sandbox, traces: &[PathBuf]) -> PathBuf {
    let page = sandbox.path().join("report.html");
    let output =
        sandbox.oneflush().arg("report").args(traces).arg("-o").arg(&page).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    page
}

fn written(sandbox: &Sandbox, name: &str, commits: &Commits) -> PathBuf {
    let path = sandbox.path().join(name);
    std::fs::write(&path, commits.text()).unwrap();
    path
}

/// Pixels of a canvas that are not empty.
fn painted(browser: &mut Browser, canvas: &str) -> f64 {
    browser.number(&format!(
        "(() => {{ const canvas = document.querySelector('{canvas}');
            const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, \
            canvas.height);
            let painted = 0;
            for (let at = 3; at < data.length; at += 4) painted += data[at] > 0;
            return painted; }})()"
    ))
}

fn assert_calm(browser: &Browser, page: &Path) {
    assert_eq!(browser.complaints, [""; 0]);
    let own = format!("file://{}", page.display());
    assert!(!browser.requests.is_empty(), "the page itself was asked for");
    let foreign = |address: &&String| **address != own && !address.starts_with("data:");
    assert_eq!(browser.requests.iter().find(foreign), None);
}

const TIMELINE_STATUS: &str = "document.querySelector('#timeline-status').textContent";
const LIST_STATUS: &str = "document.querySelector('#list-status').textContent";
/// Cells of a column of the list, by its number.
fn cells(browser: &mut Browser, column: usize) -> Vec<String> {
    let cells = browser.evaluate(&format!(
        "[...document.querySelectorAll('table.list tbody tr')].map((row) => \
            row.children[{column}].title || row.children[{column}].textContent)"
    ));
    cells.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
}

fn filter(browser: &mut Browser, name: &str, value: &str) {
    browser.evaluate(&format!(
        "(() => {{ const input = document.querySelector('#filter-{name}'); input.value = '{value}';
            input.dispatchEvent(new Event(input.tagName === 'SELECT' ? 'change' : 'input')); }})()"
    ));
}

#[test]
fn all_parts_are_drawn_and_nothing_is_asked_of_the_network() {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let sandbox = Sandbox::new();
    let traces = [
        written(&sandbox, "before.txt", &Commits::new(600, 7)),
        written(&sandbox, "after.txt", &Commits { name: "later", ..Commits::new(400, 4) }),
    ];
    let page = page(&sandbox, &traces);
    browser.open(&page);
    for chart in [
        "#latency .u-over",
        "#volume .u-over",
        "#classes .u-over",
        "#timeline .u-over",
        "#picture .u-over",
    ] {
        let area = browser.number(&format!(
            "(() => {{ const {{ width, height }} = \
                document.querySelector('{chart}').getBoundingClientRect(); return width * height; \
                }})()"
        ));
        assert!(area > 20_000.0, "{chart}: {area}");
    }
    for canvas in [
        "#latency canvas",
        "#volume canvas",
        "#classes canvas",
        "#timeline canvas",
        "#picture canvas",
    ] {
        let painted = painted(&mut browser, canvas);
        assert!(painted > 3_000.0, "{canvas}: {painted}");
    }
    assert!(browser.number("document.querySelectorAll('.findings li').length") >= 3.0);
    // One row a trace in the tables of latency and volume; bars of two traces and of the ten
    // largest databases.
    assert_eq!(
        browser.number("document.querySelectorAll('#latency .figures tbody tr').length"),
        2.0
    );
    assert_eq!(
        browser.number("document.querySelectorAll('#volume .figures tbody tr').length"),
        2.0
    );
    assert_eq!(browser.number("document.querySelectorAll('#databases .bar').length"), 10.0);
    assert_eq!(browser.text(TIMELINE_STATUS), "1,000 transactions in the whole time");
    assert_eq!(browser.text(LIST_STATUS), "1 to 25 of 1,000 transactions");
    assert!(browser.number("document.querySelectorAll('#picture-choice option').length") > 11.0);
    assert_calm(&browser, &page);
}

#[test]
fn a_dark_system_gets_a_dark_page_and_its_charts_again() {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let sandbox = Sandbox::new();
    let page = page(&sandbox, &[written(&sandbox, "trace.txt", &Commits::new(100, 3))]);
    browser.open(&page);
    let paper = "getComputedStyle(document.documentElement).backgroundColor";
    // Of the first pixel of the first curve that is painted in full.
    let ink = "(() => { const canvas = document.querySelector('#latency canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] === 255 && data[at + 2] > data[at] + 60) return data.slice(at, at + \
            3).join();
        return ''; })()";
    browser.prefer("light");
    let light = [browser.text(paper), browser.text(ink)];
    browser.prefer("dark");
    let dark = [browser.text(paper), browser.text(ink)];
    assert_eq!((light[0].as_str(), dark[0].as_str()), ("rgb(251, 251, 250)", "rgb(21, 24, 27)"));
    assert!(
        !light[1].is_empty() && !dark[1].is_empty() && light[1] != dark[1],
        "{light:?} {dark:?}"
    );
    assert_eq!(browser.number("document.querySelectorAll('#latency .u-over').length"), 1.0);
    assert_calm(&browser, &page);
}

#[test]
fn it_fits_a_telephone_and_can_be_used_without_a_mouse() {
    let Some(mut browser) = Browser::start(400, 800) else { return };
    let sandbox = Sandbox::new();
    let page = page(&sandbox, &[written(&sandbox, "trace.txt", &Commits::new(300, 6))]);
    browser.open(&page);
    assert!(browser.number("document.documentElement.scrollWidth") <= 400.0);
    let nameless = "[...document.querySelectorAll('button, input, select')].filter((control) =>
        control.textContent.trim() === '' && !control.labels?.length && \
        !control.getAttribute('aria-label')).length";
    assert_eq!(browser.number(nameless), 0.0);
    let heads = "[...document.querySelectorAll('table.list th')].every((head) => \
        head.firstChild.tagName === 'BUTTON')";
    assert_eq!(browser.evaluate(heads), true);
    let unsaid = "[...document.querySelectorAll('.chart, .bar, .range')].filter((chart) => \
        !chart.getAttribute('aria-label')).length";
    assert_eq!(browser.number(unsaid), 0.0);
    browser.evaluate("document.querySelector('#timeline-chart').focus()");
    for _ in 0..3 {
        browser.key("+");
    }
    browser.evaluate("new Promise((done) => setTimeout(() => done(1), 50))");
    let zoomed = browser.text(TIMELINE_STATUS);
    assert!(zoomed.contains(" from "), "{zoomed}");
    browser.key("0");
    browser.evaluate("new Promise((done) => setTimeout(() => done(1), 50))");
    assert_eq!(browser.text(TIMELINE_STATUS), "300 transactions in the whole time");
    assert_calm(&browser, &page);
}

/// Elements that reach over the window's edge, or show less than they hold.
const CUT: &str = "[...document.querySelectorAll('body *')].filter((element) => {
        const right = element.getBoundingClientRect().right;
        return right > innerWidth || (element.matches('.scroll') && element.scrollWidth > \
        element.clientWidth);
    }).map((element) => `${element.tagName}.${element.className} \
    ${element.textContent.slice(0, 40)}`).join('; ')";

#[test]
fn nothing_is_cut_at_common_widths_and_wide_tables_scroll_in_their_own_box_on_a_telephone() {
    let sandbox = Sandbox::new();
    let long = "a-company's.application-with-a-long-name";
    let traces = [
        written(&sandbox, "before.txt", &Commits { name: long, ..Commits::new(300, 7) }),
        written(&sandbox, "after.txt", &Commits::new(300, 4)),
    ];
    for shown in [&traces[..1], &traces[..]] {
        let page = page(&sandbox, shown);
        for width in [1280, 1920] {
            let Some(mut browser) = Browser::start(width, 900) else { return };
            browser.open(&page);
            assert_eq!(browser.text(CUT), "", "{} traces at {width}", shown.len());
        }
        let Some(mut browser) = Browser::start(400, 800) else { return };
        browser.open(&page);
        assert!(browser.number("document.documentElement.scrollWidth") <= 400.0);
        let scrolls = "document.querySelector('table.list').parentElement";
        let hidden = browser.number(&format!("{scrolls}.scrollWidth - {scrolls}.clientWidth"));
        assert!(hidden > 100.0, "the list has no room in 400 pixels: {hidden}");
    }
}

#[test]
fn cumulative_curves_rise_from_nothing() {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let sandbox = Sandbox::new();
    let page = page(&sandbox, &[written(&sandbox, "trace.txt", &Commits::new(100, 1))]);
    browser.open(&page);
    for section in ["latency", "volume", "classes"] {
        // Pixels where the axes meet that are darker than the grid.
        let lowest = browser.number(&format!(
            "(() => {{ const canvas = document.querySelector('#{section} canvas');
                const over = document.querySelector('#{section} .u-over').getBoundingClientRect();
                const frame = canvas.getBoundingClientRect();
                const dense = canvas.width / frame.width;
                const left = Math.round((over.left - frame.left) * dense);
                const bottom = Math.round((over.bottom - frame.top) * dense);
                const {{ data }} = canvas.getContext('2d').getImageData(left + 1, bottom - 3, 4, 5);
                let coloured = 0;
                for (let at = 0; at < data.length; at += 4)
                    coloured += data[at + 3] > 200 && Math.min(data[at], data[at + 1], data[at + \
                    2]) < 170;
                return coloured; }})()"
        ));
        assert!(lowest >= 4.0, "{section}: no curve begins in the lower left corner");
    }
    let actions = "[...document.querySelectorAll('.findings li')].map((item) => \
        item.lastChild.className).join()";
    assert!(!browser.text(actions).is_empty());
    assert!(
        browser.text(actions).split(',').all(|class| class == "action"),
        "each finding ends with what to do"
    );
    let commands = "[...document.querySelectorAll('.findings code')].map((code) => \
        code.textContent).join()";
    assert!(browser.text(commands).contains("oneflush "), "{}", browser.text(commands));
    let findings = browser.text("document.querySelector('.findings').textContent");
    assert!(!findings.contains('`'), "commands are told by their type: {findings}");
    assert_calm(&browser, &page);
}

#[test]
fn filters_sorting_zoom_and_choice_show_what_was_asked_for() {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let sandbox = Sandbox::new();
    let name = "</script><script>document.title=\"taken\"</script><!--";
    let page = page(
        &sandbox,
        &[written(&sandbox, "trace.txt", &Commits { name, ..Commits::new(600, 6) })],
    );
    browser.open(&page);
    assert_eq!(
        browser.text("document.title"),
        "SQLite transactions",
        "a name of the trace was run"
    );
    let (database, mode, latency) = (1, 2, 3);

    filter(&mut browser, "text", "app5/ x");
    assert_eq!(browser.text(LIST_STATUS), "No transaction passes the filter.");
    filter(&mut browser, "text", "SCRIPT><!--5/ wal");
    assert_eq!(
        browser.text(LIST_STATUS),
        "No transaction passes the filter.",
        "database 5 has PERSIST"
    );
    filter(&mut browser, "text", "SCRIPT><!--5/ persist");
    assert_eq!(browser.text(LIST_STATUS), "1 to 25 of 100 transactions (all: 600)");
    assert_eq!(cells(&mut browser, database)[0], format!("/data/{name}5/a.db"));
    assert!(browser.text(TIMELINE_STATUS).contains("of 100 that pass the filter"));
    filter(&mut browser, "text", "");
    filter(&mut browser, "mode", "1");
    assert!(cells(&mut browser, mode).iter().all(|mode| mode == "WAL FULL"));
    filter(&mut browser, "mode", "");
    filter(&mut browser, "latency", "3");
    let slow = browser.text(LIST_STATUS);
    let (begin, end) = (slow.find("of ").unwrap() + 3, slow.find(" transactions").unwrap());
    let number: u32 = slow[begin..end].parse().unwrap();
    assert!((100..400).contains(&number), "every PERSIST takes 3.2 ms or more: {slow}");
    filter(&mut browser, "latency", "");

    let sorted = |cells: Vec<String>| -> Vec<f64> {
        cells.iter().map(|cell| cell.replace(',', "").parse().unwrap()).collect()
    };
    browser.evaluate("document.querySelector('[data-sort=latency]').click()");
    let falling = sorted(cells(&mut browser, latency));
    assert!(falling.is_sorted_by(|a, b| a >= b) && falling[0] > 10.0, "{falling:?}");
    browser.evaluate("document.querySelector('[data-sort=latency]').click()");
    let rising = sorted(cells(&mut browser, latency));
    assert!(rising.is_sorted() && rising[0] < 2.0, "{rising:?}");
    assert_eq!(
        browser.text("document.querySelector('th[aria-sort]').getAttribute('aria-sort')"),
        "ascending"
    );
    browser.evaluate("document.querySelector('#list-on').click()");
    assert_eq!(browser.text(LIST_STATUS), "26 to 50 of 600 transactions");

    // The mouse draws a window in the middle half of the timeline.
    browser
        .evaluate("document.querySelector('#timeline-chart').scrollIntoView({ block: 'center' })");
    let side = |side: &str| {
        format!("document.querySelector('#timeline .u-over').getBoundingClientRect().{side}")
    };
    let [left, right, top] = ["left", "right", "top"].map(|name| browser.number(&side(name)));
    let at = |share: f64| (left + (right - left) * share, top + 80.0);
    browser.drag(at(0.25), at(0.75));
    browser.evaluate("new Promise((done) => setTimeout(() => done(1), 100))");
    let zoomed = browser.text(TIMELINE_STATUS);
    let within: f64 = zoomed.split(' ').next().unwrap().parse().unwrap();
    assert!(zoomed.contains(" from ") && (200.0..400.0).contains(&within), "{zoomed}");
    browser.evaluate("document.querySelector('#filter-window').click()");
    assert!(browser.text(LIST_STATUS).contains(&format!(" of {within} transactions")), "{zoomed}");
    browser.evaluate("document.querySelector('#filter-window').click()");

    // A transaction with its requests, chosen in the list.
    browser.evaluate("document.querySelector('#filter-pictured').click()");
    filter(&mut browser, "text", "persist");
    browser.evaluate("document.querySelector('table.list tbody button').click()");
    assert_eq!(browser.number("document.querySelectorAll('table.list tr.chosen').length"), 1.0);
    assert!(
        browser.text("document.querySelector('.chosen-one').textContent").contains("PERSIST FULL")
    );
    // Header, body, header, database, header; and four flushes.
    assert_eq!(
        browser.number("document.querySelectorAll('#picture details tbody tr').length"),
        9.0
    );
    assert!(painted(&mut browser, "#picture canvas") > 3_000.0);
    assert_calm(&browser, &page);
}

#[test]
fn a_hundred_thousand_transactions_stay_usable() {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let sandbox = Sandbox::new();
    let page = page(&sandbox, &[written(&sandbox, "trace.txt", &Commits::new(100_000, 12))]);
    browser.open(&page);
    let loaded = browser.worked();
    let shown = browser.text(LIST_STATUS);
    assert_eq!(shown, "1 to 25 of 100,000 transactions");
    assert!(!loaded.is_zero() && loaded < Duration::from_secs(5), "loading took {loaded:?}");
    assert!(painted(&mut browser, "#timeline canvas") > 3_000.0);
    let mut timed = |what: &str, script: &str| {
        let before = browser.worked();
        browser.evaluate(&format!(
            "(async () => {{ {script};
                await new Promise((done) => requestAnimationFrame(() => \
                requestAnimationFrame(done))); }})()"
        ));
        let took = browser.worked() - before;
        eprintln!("{what}: {took:.0?}");
        assert!(!took.is_zero() && took < Duration::from_secs(1), "{what} took {took:?}");
    };
    timed(
        "filter",
        "const input = document.querySelector('#filter-text'); input.value = 'app7'; \
            input.dispatchEvent(new Event('input'))",
    );
    timed(
        "filter off",
        "const input = document.querySelector('#filter-text'); input.value = ''; \
            input.dispatchEvent(new Event('input'))",
    );
    timed("sort", "document.querySelector('[data-sort=latency]').click()");
    timed("sort by name", "document.querySelector('[data-sort=database]').click()");
    timed("zoom", "document.querySelector('[aria-label=\"Zoom in\"]').click()");
    timed(
        "colour",
        "const paint = document.querySelector('#timeline-paint'); paint.value = 'mode'; \
            paint.dispatchEvent(new Event('change'))",
    );
    eprintln!("loaded in {loaded:?}, {} bytes", std::fs::metadata(&page).unwrap().len());
    assert_calm(&browser, &page);
}
