//! CSV for spreadsheets and data frames: one line a mode and round, the environment in every line.

use super::{Figures, ModeReport, Report};
use oneflush_measure::observe::Class;
use oneflush_measure::run::Workers;

const HEAD: &str = "mode,round,transactions,seconds,transactions_per_s,mean_ns,p50_ns,p95_ns,\
p99_ns,p999_ns,max_ns,cpu_us_per_transaction,counted_at,\
bytes_per_transaction,writes_per_transaction,flushes_per_transaction,\
db_bytes_per_transaction,journal_bytes_per_transaction,fs_journal_bytes_per_transaction,\
other_bytes_per_transaction,floor_p50_ns,floor_p99_ns,workload,connections,workers,\
oneflush,date,kernel,sqlite,place,fs,mount_options,device,write_cache,\
cpu,cpu_count,memory_bytes,unit,wal_bytes_at_end,\
beside_commits_per_s,beside_p99_ns,beside_max_ns,before_per_s,while_per_s,after_per_s,\
before_max_ns,while_max_ns,after_max_ns,\
request_sectors_mean,sequential_ratio,laid_out_bytes";

pub fn render(report: &Report) -> String {
    let mut text = format!("{HEAD}\n");
    for mode in &report.modes {
        for (at, figures) in mode.rounds.iter().enumerate() {
            let mut fields = vec![mode.mode.to_string(), (at + 1).to_string()];
            fields.extend(measured(figures));
            fields.extend(environment(report, mode));
            fields.extend(of_workload(report, figures));
            let fields: Vec<String> = fields.iter().map(|field| quote(field)).collect();
            text.push_str(&fields.join(","));
            text.push('\n');
        }
    }
    text
}

fn measured(figures: &Figures) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    let latency = &figures.latency_ns;
    let source = figures.counted_at.and_then(|source| serde_json::to_value(source).ok());
    let mut fields = vec![
        figures.transactions.to_string(),
        format!("{:.6}", figures.seconds),
        number(Some(figures.transactions_per_s)),
    ];
    fields.extend(
        [latency.mean, latency.p50, latency.p95, latency.p99, latency.p999, latency.max]
            .map(|ns| ns.to_string()),
    );
    fields.extend([
        number(Some(figures.cpu_us_per_transaction)),
        source.as_ref().and_then(|source| source.as_str()).unwrap_or_default().to_owned(),
        number(figures.bytes_per_transaction),
        number(figures.writes_per_transaction),
        number(figures.flushes_per_transaction),
    ]);
    let by_class = &figures.bytes_per_transaction_by_class;
    fields.extend(Class::ALL.map(|class| number(by_class.get(&class).copied())));
    fields
}

/// What some workloads have; empty fields elsewhere.
fn of_workload(report: &Report, figures: &Figures) -> Vec<String> {
    const PHASES: usize = 3;
    let text = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let rate = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    let beside = figures.beside.as_ref();
    let phase = |at| figures.phases.get(at);
    let mut fields = vec![report.unit.singular().to_owned(), text(figures.wal_bytes_at_end)];
    fields.push(rate(beside.map(|beside| beside.commits_per_s)));
    fields.push(text(beside.map(|beside| beside.latency_ns.p99)));
    fields.push(text(beside.map(|beside| beside.latency_ns.max)));
    fields.extend((0..PHASES).map(|at| rate(phase(at).map(|phase| phase.transactions_per_s))));
    fields.extend((0..PHASES).map(|at| text(phase(at).map(|phase| phase.latency_ns.max))));
    fields.extend(
        [figures.request_sectors_mean, figures.sequential_ratio, figures.laid_out_bytes].map(rate),
    );
    fields
}

fn environment(report: &Report, mode: &ModeReport) -> Vec<String> {
    let environment = &report.environment;
    let device = environment.device.as_ref();
    let workers = match report.workers {
        Workers::Threads => "threads",
        Workers::Processes { .. } => "processes",
    };
    vec![
        report.floor.p50_ns.to_string(),
        report.floor.p99_ns.to_string(),
        report.workload.clone(),
        mode.connections.to_string(),
        workers.to_owned(),
        environment.oneflush_version.clone(),
        environment.date.clone(),
        environment.kernel.clone(),
        environment.sqlite_version.clone(),
        environment.place.clone(),
        mode.guest.clone().unwrap_or_else(|| environment.fs.clone()),
        environment.mount_options.clone(),
        device.map_or(String::new(), |device| device.name.clone()),
        device.map_or(String::new(), |device| device.write_cache.clone()),
        environment.cpu_model.clone(),
        environment.cpu_count.to_string(),
        environment.memory_bytes.to_string(),
    ]
}

/// RFC 4180.
fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(quote("rw,relatime"), "\"rw,relatime\"");
        assert_eq!(quote("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(quote("plain"), "plain");
    }
}
