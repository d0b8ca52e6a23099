//! `oneflush identify --parquet`: the file says what the JSON says, row by row.

use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use crate::common::commits::Commits;
use crate::common::{Sandbox, assert_refused, stderr, stdout};

fn identify(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.oneflush().arg("identify").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn read(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

/// The JSON's value for a column: classes and phases are objects there.
fn json_of<'a>(object: &'a Value, column: &str) -> &'a Value {
    let class =
        |from: &'a Value, prefix: &str| column.strip_prefix(prefix).map(|class| &from[class]);
    class(&object["phases"]["checkpoint_bytes"], "checkpoint_bytes_")
        .or_else(|| class(&object["requests"], "requests_"))
        .or_else(|| class(&object["bytes"], "bytes_"))
        .unwrap_or_else(|| object.get(column).unwrap_or(&object["phases"][column]))
}

fn assert_same(row: &Row, object: &Value) {
    for (name, field) in row.get_column_iter() {
        let json = json_of(object, name);
        match field {
            Field::Null => assert!(json.is_null(), "{name}: {json}"),
            Field::Str(text) if name == "others" => {
                assert_eq!(text.split(';').count() > 1, json.as_array().unwrap().len() > 1)
            }
            Field::Str(text) => assert_eq!(Some(text.as_str()), json.as_str(), "{name}"),
            Field::Long(number) => assert_eq!(Some(*number), json.as_i64(), "{name}"),
            Field::Double(number) => assert_eq!(Some(*number), json.as_f64(), "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn rows_are_the_json_of_each_transaction_over_groups_and_traces() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path().join("many.txt"), Commits::new(17_000, 6).text()).unwrap();
    std::fs::write(sandbox.path().join("few.txt"), Commits::new(20, 2).text()).unwrap();
    let lines = identify(&sandbox, &["many.txt", "few.txt", "--json", "--parquet", "t.parquet"]);
    let objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reader = read(&sandbox.path().join("t.parquet"));
    let metadata = reader.metadata();
    assert_eq!((metadata.num_row_groups(), metadata.file_metadata().num_rows()), (2, 17_020));
    assert_eq!(metadata.file_metadata().schema_descr().num_columns(), 35);
    assert_eq!(objects.len(), 17_020);
    let mut first = 0;
    for group in 0..2 {
        let group = reader.get_row_group(group).unwrap();
        // Not all of the many: a reader without optimization takes long.
        let rows = group.get_row_iter(None).unwrap().take(700);
        rows.zip(&objects[first..]).for_each(|(row, object)| assert_same(&row.unwrap(), object));
        first += group.metadata().num_rows() as usize;
    }
    assert_eq!(first, 17_020);
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn the_table_is_told_beside_it_and_a_trace_without_transactions_makes_an_empty_file() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path().join("t.txt"), Commits::new(20, 2).text()).unwrap();
    let table = identify(&sandbox, &["t.txt", "--parquet", "t.parquet"]);
    assert!(table.contains("20 transactions of 2 databases"), "{table}");
    identify(&sandbox, &["t.txt", "--database", "nobody's", "--parquet", "t.parquet"]);
    let reader = read(&sandbox.path().join("t.parquet"));
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn a_file_that_cannot_be_is_refused_with_its_option() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path().join("t.txt"), Commits::new(5, 1).text()).unwrap();
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = sandbox.oneflush().arg("identify").args(arguments).output().unwrap();
        assert_refused(&output, code, words);
    };
    refused(&["t.txt", "--parquet", "t.txt"], 2, &["--parquet t.txt", "is one of the traces"]);
    refused(&["t.txt", "-o", "x", "--parquet", "x"], 2, &["-o and --parquet"]);
    refused(
        &["t.txt", "--parquet", "no/such/t"],
        1,
        &["no/such/t", "choose another with --parquet"],
    );
}
