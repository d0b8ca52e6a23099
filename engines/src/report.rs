//! What was found, as markdown: goals first, then the tables.

use oneflush_bench::report::Figures;

use crate::Options;
use crate::measure::{Found, Life, OfEngine};

/// Ours comes first.
const OURS: usize = 0;
const LMDB: &str = "LMDB";

pub fn markdown(options: &Options, found: &Found) -> String {
    let mut text = String::from("# `make engines`\n\n## Goals\n\n");
    for goal in goals(&found.engines) {
        text.push_str(&format!("- **{}** — {}\n", goal.verdict(), goal.says));
    }
    text.push_str(&format!(
        "\n## A durable insert of 100 B into 100,000 rows, {} of them\n\n",
        options.txns
    ));
    text.push_str(
        "| | rising: KB | writes | flushes | random: KB | writes | flushes | median ms | × floor \
         |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: |\n",
    );
    for engine in &found.engines {
        let floors = p50_ms(&engine.in_turns) / (found.floor_p50_ns as f64 / 1e6);
        text.push_str(&format!(
            "| {} | {} | {} | {:.3} | {:.2} |\n",
            engine.name,
            device(&engine.rising),
            device(&engine.random),
            p50_ms(&engine.in_turns),
            floors
        ));
    }
    text.push_str(&format!(
        "\n## {} rows in random order, 100,000 a transaction: reads, and space\n\n",
        options.rows
    ));
    text.push_str(
        "| | inserted in s | MB | gets/s | scanned rows/s | updated in s | MB |\n\
         | --- | --: | --: | --: | --: | --: | --: |\n",
    );
    for OfEngine { name, life, .. } in &found.engines {
        let Life { fill_seconds, gets_per_s, rows_scanned_per_s, update_seconds, .. } = life;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        text.push_str(&format!(
            "| {name} | {fill_seconds:.1} | {:.0} | {gets_per_s:.0} | {rows_scanned_per_s:.0} | \
                {update_seconds:.1} | {:.0} |\n",
            megabytes(life.inserted_bytes),
            megabytes(life.updated_bytes),
        ));
    }
    text.push_str(&format!("\n```text\n{}```\n", found.environment));
    text
}

struct Goal {
    says: String,
    holds: bool,
}

impl Goal {
    fn verdict(&self) -> &'static str {
        if self.holds { "holds" } else { "does not hold here" }
    }
}

fn goals(engines: &[OfEngine]) -> Vec<Goal> {
    let ours = &engines[OURS];
    let others = &engines[OURS + 1..];
    let mut goals = Vec::new();
    for (keys, pick) in [
        ("rising", (|engine| &engine.rising) as fn(&OfEngine) -> &Figures),
        ("random", |engine| &engine.random),
    ] {
        let bytes = |engine: &OfEngine| pick(engine).bytes_per_transaction;
        let least = others
            .iter()
            .filter_map(|engine| Some((bytes(engine)?, &engine.name)))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        if let (Some(own), Some((least, name))) = (bytes(ours), least) {
            goals.push(Goal {
                says: format!(
                    "fewest bytes of all, {keys} keys: {:.2} KB; {name} {:.2} KB",
                    own / 1024.0,
                    least / 1024.0
                ),
                holds: own <= least,
            });
        }
    }
    let best = others.iter().map(|engine| p50_ms(&engine.in_turns)).fold(f64::INFINITY, f64::min);
    let own = p50_ms(&ours.in_turns);
    goals.push(Goal {
        says: format!("a median insert within 1.1 × of the best: {own:.3} ms to {best:.3} ms"),
        holds: own <= 1.1 * best,
    });
    if let Some(lmdb) = others.iter().find(|engine| engine.name == LMDB) {
        let rates = |pick: fn(&Life) -> f64| pick(&ours.life) / pick(&lmdb.life);
        for (what, ratio, least) in [
            ("point reads at least half of LMDB's", rates(|life| life.gets_per_s), 0.5),
            ("scans at least a third", rates(|life| life.rows_scanned_per_s), 1.0 / 3.0),
        ] {
            goals.push(Goal { says: format!("{what}: {ratio:.2}"), holds: ratio >= least });
        }
    }
    goals
}

fn p50_ms(figures: &Figures) -> f64 {
    figures.latency_ns.p50 as f64 / 1e6
}

/// KB, writes and flushes.
fn device(figures: &Figures) -> String {
    let told = |value: Option<f64>, digits: usize| {
        value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let kilobytes = figures.bytes_per_transaction.map(|bytes| bytes / 1024.0);
    [
        told(kilobytes, 2),
        told(figures.writes_per_transaction, 2),
        told(figures.flushes_per_transaction, 2),
    ]
    .join(" | ")
}
