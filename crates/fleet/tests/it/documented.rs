//! `docs/dataset.md` defines the schema: names, types, order and nulls are compared with the code,
//! and the code with what the schema was.

use std::fs;
use std::path::Path;

use oneflush_fleet::{Column, Kind, TRACES, TRANSACTIONS};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dataset.md");
    fs::read_to_string(path).unwrap()
}

/// Column, type and null of each line of the table below a heading.
fn documented(heading: &str) -> Vec<(String, String, String)> {
    let page = page();
    let (_, section) = page.split_once(heading).expect("the heading");
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[0].trim_end_matches('`').to_owned(), cells[1].to_owned(), cells[3].to_owned())
        })
        .collect()
}

fn said(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "string",
        Kind::Texts => "list of string",
        Kind::Whole => "int64",
        Kind::Real => "double",
        Kind::Time => "timestamp[us, UTC]",
        Kind::Flag => "boolean",
    }
}

fn assert_documented(heading: &str, columns: &[Column]) {
    let documented = documented(heading);
    let names: Vec<&str> = documented.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, columns.iter().map(|column| column.name).collect::<Vec<_>>());
    for ((name, kind, null), column) in documented.iter().zip(columns) {
        assert_eq!(kind, said(column.kind), "{name}");
        assert_eq!(null == "never", !column.is_optional, "{name}: {null}");
    }
}

#[test]
fn each_column_of_both_tables_is_documented_as_it_is() {
    assert_documented("## Table `transactions`", &TRANSACTIONS);
    assert_documented("## Table `traces`", &TRACES);
}

/// Readers that were written for a version go on with later ones: columns are only added. Files of
/// the version lie in folders for years, so this list is never changed.
#[test]
fn each_column_of_version_1_is_still_what_it_was() {
    let lines = |table: &str, columns: &[Column]| {
        let line = |column: &Column| {
            let null = if column.is_optional { ", null" } else { "" };
            format!("{table} {}: {}{null}", column.name, said(column.kind))
        };
        columns.iter().map(line).collect::<Vec<_>>()
    };
    let now = [lines("transactions", &TRANSACTIONS), lines("traces", &TRACES)].concat();
    for line in include_str!("../version-1.txt").lines() {
        assert!(now.iter().any(|column| column == line), "{line}");
    }
}

#[test]
fn the_version_is_the_documented_one() {
    let version = format!("Its version is {}.", oneflush_fleet::VERSION);
    assert!(page().replace('\n', " ").contains(&version));
}
