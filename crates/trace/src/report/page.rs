//! The report as one HTML file that needs nothing else. Library, style, code and data are in it.
//! Its security policy forbids every request.
//!
//! The data are JSON in an element that no browser runs. `<` is escaped, so nothing in a name can
//! end the element. Names reach the page as text, never as markup.

use serde::Serialize;

use super::columns::{Columns, Picture, pictures};
use super::databases;
use super::{CLASSES, Finding, Report, Tables, Trace};

/// With most transactions, and with most bytes; ten of each are shown.
const DATABASES_COUNT_MAX: usize = 100;

const TEMPLATE: &str = include_str!("../../assets/page.html");
const STYLES: [&str; 2] =
    [include_str!("../../assets/uplot/uPlot.min.css"), include_str!("../../assets/page.css")];
/// In the order in which they need each other.
const SCRIPTS: [&str; 10] = [
    include_str!("../../assets/uplot/uPlot.iife.min.js"),
    include_str!("../../assets/format.js"),
    include_str!("../../assets/data.js"),
    include_str!("../../assets/charts.js"),
    include_str!("../../assets/summary.js"),
    include_str!("../../assets/bars.js"),
    include_str!("../../assets/timeline.js"),
    include_str!("../../assets/transactions.js"),
    include_str!("../../assets/picture.js"),
    include_str!("../../assets/main.js"),
];

#[derive(Serialize)]
struct Data<'a> {
    program: &'a str,
    classes: [&'static str; 4],
    traces: Vec<Tables>,
    findings: &'a [Finding],
    transactions: Columns,
    pictures: Vec<Picture>,
}

/// The whole file. `program`: name and version of the program that made it.
pub fn page(program: &str, report: &Report, traces: &[Trace]) -> String {
    let data = Data {
        program,
        classes: CLASSES,
        traces: report.traces.iter().map(shown).collect(),
        findings: &report.findings,
        transactions: Columns::new(traces),
        pictures: pictures(traces),
    };
    let data =
        serde_json::to_string(&data).expect("numbers and texts are JSON").replace('<', "\\u003c");
    fill(
        TEMPLATE,
        &[
            ("{{style}}", &STYLES.join("\n")),
            ("{{data}}", &data),
            ("{{script}}", &SCRIPTS.join("\n")),
        ],
    )
}

/// What the page has room for.
fn shown(tables: &Tables) -> Tables {
    let databases = databases::foremost(&tables.databases, DATABASES_COUNT_MAX);
    Tables { databases, ..tables.clone() }
}

/// Another page in the same frame and style. `template` has the places `{{style}}`, `{{data}}` and
/// `{{script}}`. `data` is JSON. `script` may use `format.js`.
pub fn frame(template: &str, script: &str, data: &str) -> String {
    let scripts = [include_str!("../../assets/format.js"), script];
    fill(
        template,
        &[
            ("{{style}}", include_str!("../../assets/page.css")),
            ("{{data}}", &data.replace('<', "\\u003c")),
            ("{{script}}", &scripts.join("\n")),
        ],
    )
}

/// Fills in the places, each once, in this order. Text that is filled in is not looked through.
fn fill(template: &str, places: &[(&str, &str)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    for (place, text) in places {
        let (before, after) = rest.split_once(place).expect("the template has each place");
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page + rest
}
