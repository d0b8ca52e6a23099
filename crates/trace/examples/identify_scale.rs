//! What identification costs with many databases:
//! `cargo run --release -p oneflush-trace --example identify_scale -- [DATABASES…]`.
//!
//! Each row is one shape of a trace (`tests/it/many_databases`) with so many databases, three
//! transactions each. Time and memory are of the identification alone, on one core. The events are
//! made before.
//!
//! Each row is measured in a process of its own. Memory that the row before had freed would hide
//! what this row takes.

#[path = "../tests/it/identify_common/mod.rs"]
mod identify_common;
#[path = "../tests/it/many_databases/mod.rs"]
mod many_databases;

use std::process::Command;
use std::time::Instant;

use many_databases::{SHAPES, Shape, trace};
use oneflush_trace::identify::Identifier;
use oneflush_trace::model::Names;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, shape, count] = &arguments[..]
        && word == "row"
    {
        return row(SHAPES[shape.parse::<usize>()?], count.parse()?);
    }
    let mut counts: Vec<u32> =
        arguments.iter().map(|count| count.parse()).collect::<Result<_, _>>()?;
    if counts.is_empty() {
        counts = vec![1_000, 4_000, 8_000, 32_000];
    }
    println!(
        "{:<22}{:>10}{:>10}{:>9}{:>12}{:>9}",
        "shape", "databases", "events", "s", "events/s", "KB/db"
    );
    for (number, shape) in SHAPES.iter().enumerate() {
        for count in &counts {
            let status = Command::new(std::env::current_exe()?)
                .args(["row", &number.to_string(), &count.to_string()])
                .status()?;
            if !status.success() {
                return Err(format!("{shape:?} with {count} databases: {status}").into());
            }
        }
    }
    Ok(())
}

fn row(shape: Shape, count: u32) -> Result<(), Box<dyn std::error::Error>> {
    let mut names = Names::default();
    let events = trace(&mut names, shape, count, 3);
    let before = resident_bytes()?;
    let begin = Instant::now();
    let mut identifier = Identifier::new();
    let mut found = 0;
    for event in &events {
        identifier.push(event, &names);
        while identifier.next_transaction().is_some() {
            found += 1;
        }
    }
    let kept = resident_bytes()?.saturating_sub(before) as f64 / 1024.0 / f64::from(count);
    found += identifier.finish(&names).0.len();
    let seconds = begin.elapsed().as_secs_f64();
    let rate = events.len() as f64 / seconds;
    let name = format!("{shape:?}");
    println!("{name:<22}{count:>10}{:>10}{seconds:>9.2}{rate:>12.0}{kept:>9.2}", events.len());
    assert!(found > 0, "a trace in which nothing is found measures nothing");
    Ok(())
}

/// The memory of this process.
fn resident_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("/proc/self/status has no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
