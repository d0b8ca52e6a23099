//! A trial as people read it, in 80 columns, and as one JSON object.

use oneflush_measure::floor::BLOCK_BYTES;
use oneflush_measure::mode::Strategy;
use oneflush_measure::trial::{Commit, Counted, Figures, Measured, Trial};
use oneflush_vfs::{StrategyKind, shown_name};
use serde_json::{Value, json};
use std::path::Path;

use super::advice::Advice;
use super::language::Language;

const COLUMNS: usize = 80;
const NAME_CHARS: usize = 16;

pub fn text(trial: &Trial, advice: &Advice, language: Option<Language>) -> String {
    let mut text = wrapped(&head(trial), "");
    text += "\n";
    text += &table(trial);
    text += "\n";
    for note in notes(trial) {
        text += &wrapped(&note, "");
    }
    text += "\n";
    for words in &advice.words {
        text += &wrapped(words, "");
    }
    let Some(strategy) = advice.strategy else { return text };
    text += "\nSwitch it on:\n";
    if advice.needs_wal {
        text += "  PRAGMA journal_mode=WAL    -- once; it stays in the database\n";
    }
    for line in language.unwrap_or(Language::Any).how(Some(strategy)).lines() {
        text += &format!("  {line}\n");
    }
    text += &wrapped(
        "Go back: start the program without it. With plain the database is SQLite's own at all \
            times, with eager after the last close.",
        "",
    );
    text
}

/// "app.db (12.4 MB, WAL, ext4 on vda): what a durable one-row commit costs here"
fn head(trial: &Trial) -> String {
    let subject = &trial.subject;
    let mut facts = Vec::new();
    if let Some(database) = &subject.database {
        facts.push(size(database.bytes));
        facts.push(database.journal.to_uppercase());
    }
    let device = subject.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    let place = format!("{}{device}", subject.fs);
    let name = shown_name(&subject.path);
    if subject.elsewhere {
        let directory = shown_name(&subject.directory);
        facts.push(format!("copied to {directory}, {place}"));
    } else {
        facts.push(place);
    }
    format!("{name} ({}): what a durable one-row commit costs", facts.join(", "))
}

fn table(trial: &Trial) -> String {
    let columns = format!("{:>6}{:>8}{:>8}{:>10}", "KB", "flushes", "p99 ms", "commits/s");
    let mut text = format!("{:NAME_CHARS$}{:^32}{:^32}\n", "", "1 writer", "8 writers");
    text = text.trim_end().to_owned() + "\n";
    text += &format!("{:NAME_CHARS$}{columns}{columns}\n", "");
    for (at, pair) in trial.measured.chunks(2).enumerate() {
        text += &format!("{:NAME_CHARS$}", name(&pair[0], at == 0));
        for measured in pair {
            text += &cells(&measured.figures);
        }
        text += "\n";
    }
    text += &floor(trial);
    text
}

/// What the least durable write costs: the best that a commit could.
fn floor(trial: &Trial) -> String {
    let (floor, quiet) = (&trial.floor, &trial.quiet);
    let count_of = |counted, at_disk: Option<f64>, call| match counted {
        Counted::Calls => call,
        Counted::Disk | Counted::DiskWithOthers => at_disk.unwrap_or(call),
    };
    let bytes = count_of(quiet.bytes_counted, quiet.floor_bytes, BLOCK_BYTES as f64);
    let flushes = count_of(quiet.flushes_counted, quiet.floor_flushes, 1.0);
    let ns: u64 = floor.latencies_ns.iter().sum();
    let rate = floor.latencies_ns.len() as f64 * 1e9 / ns.max(1) as f64;
    format!(
        "{:NAME_CHARS$}{:>6}{flushes:>8.2}{:>8}{:>10}\n",
        "one 4 KB write",
        kilobytes(bytes),
        milliseconds(floor.quantile_ns(0.99) as f64 / 1e6),
        count(rate)
    )
}

fn cells(figures: &Figures) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    format!(
        "{:>6}{:>8}{:>8}{:>10}",
        or_dash(figures.bytes_per_commit.map(kilobytes)),
        or_dash(figures.flushes_per_commit.map(|flushes| format!("{flushes:.2}"))),
        or_dash(figures.p99_ms.map(milliseconds)),
        count(figures.commits_per_s),
    )
}

fn kilobytes(bytes: f64) -> String {
    let kilobytes = bytes / 1024.0;
    if kilobytes < 99.95 { format!("{kilobytes:.1}") } else { format!("{kilobytes:.0}") }
}

fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

/// "11,701"; below 100 with a digit behind the point.
fn count(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn name(measured: &Measured, is_now: bool) -> String {
    let journal = measured.mode.journal.pragma().to_uppercase();
    match measured.mode.strategy {
        Strategy::Oneflush(StrategyKind::Stock) | Strategy::Sqlite => {
            format!("{journal}{}", if is_now { " (now)" } else { "" })
        }
        Strategy::Oneflush(kind) => kind.name().to_owned(),
    }
}

/// What the figures are, and what there is to doubt.
fn notes(trial: &Trial) -> Vec<String> {
    let commit = &trial.commit;
    let mut notes = Vec::new();
    let more = if commit.rows_counted_max { "or more " } else { "" };
    notes.push(match &commit.table {
        Some(table) => {
            format!(
                "A commit moves one of the {} {more}rows of {} to its end, with {} index {}.",
                count(commit.rows as f64),
                shown_name(Path::new(table)),
                commit.indexes,
                if commit.indexes == 1 { "entry" } else { "entries" }
            ) + &why(commit)
        }
        None if trial.subject.database.is_some() => "No table here has 200 rows to move: a commit \
            moves a row of 100 bytes in a table of ours."
            .to_owned(),
        None => "A commit moves a row of 100 bytes in a small database of ours.".to_owned(),
    });
    notes.extend(counting(trial));
    if let Some(varies) = varies(trial) {
        notes.push(varies);
    }
    if trial.measured.iter().any(|measured| measured.figures.p99_ms.is_none()) {
        notes.push("p99 –: fewer than 100 commits there; --seconds gives it more time.".to_owned());
    }
    if trial.rounds < 3 {
        let rounds = if trial.rounds == 1 { "round" } else { "rounds" };
        notes.push(format!(
            "{} {rounds} only, so rates are not compared: --seconds gives them more time.",
            trial.rounds
        ));
    }
    if trial.subject.elsewhere {
        notes.push("Measured on another file system than the database's own.".to_owned());
    }
    if trial.subject.database.as_ref().is_some_and(|database| database.cloned) {
        notes.push(
            "The copy is a clone: the first write to a block costs more than with the original."
                .to_owned(),
        );
    }
    for refused in &trial.refused {
        notes.push(format!("{}: cannot be used here: {}", refused.strategy, refused.reason));
    }
    notes
}

/// " It is the largest of 4 tables: 1,234 pages."
fn why(commit: &Commit) -> String {
    let pages = commit.pages.map_or(String::new(), |pages| {
        let about = if pages.is_estimate { "about " } else { "" };
        let unit = if pages.count == 1 { "page" } else { "pages" };
        let number = match pages.count {
            few @ 0..100 => few.to_string(),
            many => count(many as f64),
        };
        format!(": {about}{number} {unit}")
    });
    match commit.tables {
        _ if commit.asked => format!(" --table asked for it{pages}."),
        1 => format!(" It is the only table that can be used{pages}."),
        tables => format!(" It is the largest of {tables} tables{pages}."),
    }
}

fn counting(trial: &Trial) -> Vec<String> {
    let quiet = &trial.quiet;
    let device = trial.subject.device.as_deref().unwrap_or("the disk");
    let percent = quiet.others_share.unwrap_or_default() * 100.0;
    let by_calls =
        "what the strategies wrote and synced; the file system's own writes are not in it";
    let both = quiet.bytes_counted == quiet.flushes_counted;
    let what = if both { "KB, flushes" } else { "KB" };
    let mut notes = vec![match quiet.bytes_counted {
        Counted::Disk => format!("{what}: counted at {device}; others made {percent:.1} % of it."),
        Counted::DiskWithOthers => format!(
            "{what}: counted at {device}, which others use too: up to {percent:.0} % too many."
        ),
        Counted::Calls if quiet.others_share.is_none() => {
            format!("{what}: there is not one disk to ask, so this is {by_calls}.")
        }
        Counted::Calls if quiet.others_in_bursts => format!(
            "{what}: the disk was busy. {device} wrote more than commits explain, so this is \
                {by_calls}."
        ),
        Counted::Calls if percent > 25.0 => {
            format!("{what}: others are busy at {device}, so this is {by_calls}.")
        }
        Counted::Calls => format!("{what}: {device} does not count them, so this is {by_calls}."),
    }];
    if !both {
        notes.push(match quiet.flushes_counted {
            Counted::Calls if quiet.floor_flushes.is_some_and(|flushes| flushes < 0.9) => {
                format!("flushes: {device} is sent or counts none; these are calls of fdatasync.")
            }
            Counted::Calls => "flushes: others are busy; these are calls of fdatasync.".to_owned(),
            Counted::DiskWithOthers => {
                format!("flushes: counted at {device}, up to {percent:.0} % too many.")
            }
            Counted::Disk => format!("flushes: counted at {device}."),
        });
    }
    notes
}

/// The rounds of one measurement differ much.
fn varies(trial: &Trial) -> Option<String> {
    let spread = |measured: &Measured| {
        let rates = &measured.figures.commits_per_s_of_rounds;
        let most = rates.iter().copied().fold(0.0, f64::max);
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        if least > 0.0 { most / least } else { 1.0 }
    };
    let most = trial.measured.iter().map(spread).fold(1.0, f64::max);
    (most > 1.5).then(|| {
        format!(
            "The machine is not quiet: rounds of the same differ by {:.0} %. Bytes and flushes \
                repeat better than times.",
            (most - 1.0) * 100.0
        )
    })
}

/// In the units of `oneflush bench`.
fn size(bytes: u64) -> String {
    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;
    match bytes {
        0..KB => format!("{bytes} bytes"),
        KB..MB => format!("{:.1} KB", bytes as f64 / KB as f64),
        MB..GB => format!("{:.1} MB", bytes as f64 / MB as f64),
        _ => format!("{:.1} GB", bytes as f64 / GB as f64),
    }
}

/// In lines of at most 80 columns, between words; all but the first begin with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let chars = lines[last].chars().count();
        if chars > 0 && chars + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{indent}{word}"));
        } else {
            let gap = if lines[last].is_empty() { "" } else { " " };
            lines[last] += &format!("{gap}{word}");
        }
    }
    lines.join("\n") + "\n"
}

pub fn json(trial: &Trial, advice: &Advice) -> String {
    let measured = |measured: &Measured| {
        let strategy = measured.mode.strategy.to_string();
        let mut value = serde_json::to_value(&measured.figures).unwrap_or(Value::Null);
        value["mode"] = json!(measured.mode.to_string());
        value["journal"] = json!(measured.mode.journal.pragma());
        value["strategy"] = json!(strategy);
        value["writers"] = json!(measured.writers);
        value
    };
    let mut subject = serde_json::to_value(&trial.subject).unwrap_or(Value::Null);
    subject["path"] = json!(shown_name(&trial.subject.path));
    subject["directory"] = json!(shown_name(&trial.subject.directory));
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "subject": subject,
        "commit": trial.commit,
        "measured": trial.measured.iter().map(measured).collect::<Vec<_>>(),
        "refused": trial.refused,
        "floor": {
            "p50_ms": trial.floor.median_ns() as f64 / 1e6,
            "p99_ms": trial.floor.quantile_ns(0.99) as f64 / 1e6,
            "direct_io": trial.floor.direct_io,
        },
        "counting": trial.quiet,
        "rounds": trial.rounds,
        "seconds": trial.elapsed.as_secs_f64(),
        "advice": {
            "strategy": advice.strategy.map(StrategyKind::name),
            "needs_wal": advice.needs_wal,
            "words": advice.words,
        },
    });
    format!("{value}\n")
}
