//! `oneflush top` beside a work that begins and ends between two of its tables.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use oneflush_testing::Running;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub struct Watched {
    first: Value,
    /// The first table with the whole work.
    pub last: Value,
    pub output: Output,
}

impl Watched {
    /// Begins `work` when the first table is there, and ends `top` when a table has `transactions`
    /// more. Nothing is written beside the work: when a table is printed and when it is read are
    /// then in no figure. Both tables are of all that was watched if the work takes less than the
    /// window of 10 s.
    pub fn of(top: &mut Command, transactions: usize, work: impl FnOnce()) -> Watched {
        top.args(["--batch", "60", "--interval", "1", "--json"]);
        let mut top = Running::start(top.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let lines = BufReader::new(top.stdout.take().unwrap()).lines();
        let mut tables =
            lines.map(|line| -> Value { serde_json::from_str(&line.unwrap()).unwrap() });
        let first = tables.next().expect("a first table");
        work();
        // The last transaction of a database may still wait for what follows.
        let least = transactions as f64 * 0.9;
        let last = tables.find(|table| done(&first, table, &commits) >= least);
        let last = last.expect("a table with the whole work");
        kill_process(Pid::from_child(&top), Signal::INT).unwrap();
        tables.for_each(drop);
        Watched { first, last, output: top.wait_with_output().unwrap() }
    }

    /// What was done between both tables, by the rate that a table shows.
    pub fn between(&self, rate: &dyn Fn(&Value) -> f64) -> f64 {
        done(&self.first, &self.last, rate)
    }
}

pub fn commits(table: &Value) -> f64 {
    table["total"]["transactions_per_s"].as_f64().unwrap()
}

fn done(first: &Value, last: &Value, rate: &dyn Fn(&Value) -> f64) -> f64 {
    let sum = |table: &Value| rate(table) * table["window_s"].as_f64().unwrap();
    sum(last) - sum(first)
}
