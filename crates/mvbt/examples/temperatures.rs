//! A log of temperatures that survives a loss of power.
//!
//! ```sh
//! cargo run --example temperatures -- FILE add SENSOR MILLIDEGREES [SECONDS]
//! cargo run --example temperatures -- FILE list SENSOR [FROM [TO]]
//! cargo run --example temperatures -- FILE trim SENSOR BEFORE
//! ```
//!
//! A sensor has a tree of integer keys: seconds since 1970, and a reading of four bytes. A tree of
//! records has the sensors: the number of the tree, and the name.

use std::cmp::Ordering;
use std::error::Error;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use oneflush_mvbt::{Database, Options, Probe, Read, TreeId, WriteTransaction};

/// The first tree that a new database gets.
const SENSORS: TreeId = TreeId(2);
const USAGE: &str = "usage: FILE add SENSOR MILLIDEGREES [SECONDS]
       FILE list SENSOR [FROM [TO]]
       FILE trim SENSOR BEFORE";

fn open(path: &Path) -> Result<Database, Box<dyn Error>> {
    if path.exists() {
        return Ok(Database::open(path, Options::default())?);
    }
    let database = Database::create(path, Options::default())?;
    let mut txn = database.begin_write()?;
    assert_eq!(txn.create_tree(true)?, SENSORS);
    txn.commit()?;
    Ok(database)
}

/// A record of the tree of sensors: its name, and then the number of its tree.
fn record_of(name: &str, tree: TreeId) -> Vec<u8> {
    [name.as_bytes(), &[0], &tree.0.to_le_bytes()].concat()
}

/// Compares the names of sensors.
fn by_name(name: &str) -> impl Fn(&[u8]) -> Ordering {
    move |record: &[u8]| {
        let end = record.iter().position(|&byte| byte == 0).unwrap_or(record.len());
        record[..end].cmp(name.as_bytes())
    }
}

fn tree_of(reader: &dyn Read, name: &str) -> Result<Option<TreeId>, Box<dyn Error>> {
    let mut sensors = reader.cursor(SENSORS)?;
    if !sensors.seek(reader.source(), Probe::Record(&by_name(name)))? {
        return Ok(None);
    }
    let record = sensors.payload(reader.source())?.unwrap_or_default();
    let number = record.last_chunk().ok_or("the record of a sensor is too short")?;
    Ok(Some(TreeId(u32::from_le_bytes(*number))))
}

fn add(txn: &mut WriteTransaction, name: &str, at: i64, value: i32) -> Result<(), Box<dyn Error>> {
    let tree = match tree_of(txn, name)? {
        Some(tree) => tree,
        None => {
            let tree = txn.create_tree(false)?;
            txn.insert_record(SENSORS, &record_of(name, tree), &by_name(name))?;
            tree
        }
    };
    txn.insert(tree, at, &value.to_le_bytes())?;
    Ok(())
}

fn list(reader: &dyn Read, name: &str, from: i64, to: i64) -> Result<String, Box<dyn Error>> {
    let mut lines = String::new();
    let tree = tree_of(reader, name)?.ok_or_else(|| format!("there is no sensor {name}"))?;
    let source = reader.source();
    let mut readings = reader.cursor(tree)?;
    readings.seek(source, Probe::Integer(from))?;
    while let Some(at) = readings.integer_key(source)?.filter(|&at| at < to) {
        let payload = readings.payload(source)?.unwrap_or_default();
        let bytes = payload.first_chunk().ok_or("a reading is too short")?;
        lines.push_str(&format!("{at} {}\n", i32::from_le_bytes(*bytes)));
        readings.next(source)?;
    }
    Ok(lines)
}

/// Takes out what was read before a time. Answers how many readings that were.
fn trim(txn: &mut WriteTransaction, name: &str, before: i64) -> Result<u64, Box<dyn Error>> {
    let tree = tree_of(txn, name)?.ok_or_else(|| format!("there is no sensor {name}"))?;
    let mut count = 0;
    loop {
        // A change takes its place from a cursor.
        let mut oldest = txn.cursor(tree)?;
        oldest.first(txn.source())?;
        match oldest.integer_key(txn.source())? {
            Some(at) if at < before => count += u64::from(txn.delete(tree, at)?),
            _ => return Ok(count),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    print!("{}", run(&words)?);
    Ok(())
}

/// Returns what is to be printed.
pub fn run(words: &[&str]) -> Result<String, Box<dyn Error>> {
    let [path, rest @ ..] = words else { return Err(USAGE.into()) };
    let mut said = String::new();
    let database = open(Path::new(path))?;
    match rest {
        ["add", name, value, seconds @ ..] => {
            let at = match seconds {
                [seconds] => seconds.parse()?,
                _ => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as i64,
            };
            let mut txn = database.begin_write()?;
            add(&mut txn, name, at, value.parse()?)?;
            // Durable when this returns, for one flush.
            txn.commit()?;
        }
        ["list", name, range @ ..] => {
            let from = range.first().map_or(Ok(i64::MIN), |from| from.parse())?;
            let to = range.get(1).map_or(Ok(i64::MAX), |to| to.parse())?;
            // Writers may go on meanwhile: this sees the database as it is now.
            said = list(&database.begin_read()?, name, from, to)?;
        }
        ["trim", name, before] => {
            let mut txn = database.begin_write()?;
            let count = trim(&mut txn, name, before.parse()?)?;
            txn.commit()?;
            said = format!("{count} readings removed\n");
        }
        _ => return Err(USAGE.into()),
    }
    database.close()?;
    Ok(said)
}
