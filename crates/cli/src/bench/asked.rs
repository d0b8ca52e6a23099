//! The value of `--paper`.

use std::str::FromStr;

use oneflush_bench::paper::{PAPERS, Paper};

#[derive(Clone, Copy)]
pub enum Asked {
    One(&'static Paper),
    All,
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(word: &str) -> Result<Asked, String> {
        if word == "all" {
            return Ok(Asked::All);
        }
        let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
        let paper = Paper::find(word);
        paper.map(Asked::One).ok_or_else(|| format!("it is one of: {}, or all", names.join(", ")))
    }
}
