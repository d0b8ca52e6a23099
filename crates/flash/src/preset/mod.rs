//! Devices of a kind, each number with its source.
//!
//! A source names a data sheet, a paper or a public model. Where there is none, it says "assumed",
//! and why so. A preset is no product: the numbers of one come from several.

mod all;
mod emmc;
mod nvme;
mod sd;
mod ufs;

use std::fmt::Display;

use serde::Serialize;

use crate::geometry::Shape;
use crate::timing::Timing;

/// A number and where it is from.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sourced<T> {
    pub value: T,
    pub source: &'static str,
}

const fn sourced<T: Copy>(value: T, source: &'static str) -> Sourced<T> {
    Sourced { value, source }
}

/// What a device is made of. `Preset::model` makes one; tests make their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Model {
    pub shape: Shape,
    pub timing: Timing,
    /// 0: a write is answered when it is programmed, and a flush has nothing to do.
    pub cache_bytes: u64,
    pub has_fua: bool,
    pub queue_depth: u32,
    /// Of the table, in memory. 0: all of it.
    pub map_cache_bytes: u64,
    pub endurance_cycles: u32,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Preset {
    pub name: &'static str,
    pub describes: &'static str,
    pub unit_bytes: Sourced<u32>,
    pub page_bytes: Sourced<u32>,
    pub block_pages: Sourced<u32>,
    pub dies: Sourced<u32>,
    pub planes: Sourced<u32>,
    pub spare_share: Sourced<f64>,
    pub read_ns: Sourced<u64>,
    pub program_ns: Sourced<u64>,
    pub erase_ns: Sourced<u64>,
    pub bus_mb_per_s: Sourced<u64>,
    pub command_ns: Sourced<u64>,
    pub flush_ns: Sourced<u64>,
    pub cache_bytes: Sourced<u64>,
    pub has_fua: Sourced<bool>,
    pub queue_depth: Sourced<u32>,
    pub map_cache_bytes: Sourced<u64>,
    pub endurance_cycles: Sourced<u32>,
}

/// A line of a preset, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: &'static str,
    pub value: String,
    pub source: &'static str,
}

impl Preset {
    pub fn model(&self) -> Model {
        Model {
            shape: Shape {
                unit_bytes: self.unit_bytes.value,
                page_bytes: self.page_bytes.value,
                block_pages: self.block_pages.value,
                dies: self.dies.value,
                planes: self.planes.value,
                spare_share: self.spare_share.value,
            },
            timing: Timing {
                read_ns: self.read_ns.value,
                program_ns: self.program_ns.value,
                erase_ns: self.erase_ns.value,
                bus_mb_per_s: self.bus_mb_per_s.value,
                command_ns: self.command_ns.value,
                flush_ns: self.flush_ns.value,
            },
            cache_bytes: self.cache_bytes.value,
            has_fua: self.has_fua.value,
            queue_depth: self.queue_depth.value,
            map_cache_bytes: self.map_cache_bytes.value,
            endurance_cycles: self.endurance_cycles.value,
        }
    }

    /// All numbers, in the order of the struct.
    pub fn facts(&self) -> Vec<Fact> {
        fn fact<T: Display>(name: &'static str, sourced: &Sourced<T>) -> Fact {
            Fact { name, value: sourced.value.to_string(), source: sourced.source }
        }
        vec![
            fact("unit_bytes", &self.unit_bytes),
            fact("page_bytes", &self.page_bytes),
            fact("block_pages", &self.block_pages),
            fact("dies", &self.dies),
            fact("planes", &self.planes),
            fact("spare_share", &self.spare_share),
            fact("read_ns", &self.read_ns),
            fact("program_ns", &self.program_ns),
            fact("erase_ns", &self.erase_ns),
            fact("bus_mb_per_s", &self.bus_mb_per_s),
            fact("command_ns", &self.command_ns),
            fact("flush_ns", &self.flush_ns),
            fact("cache_bytes", &self.cache_bytes),
            fact("has_fua", &self.has_fua),
            fact("queue_depth", &self.queue_depth),
            fact("map_cache_bytes", &self.map_cache_bytes),
            fact("endurance_cycles", &self.endurance_cycles),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;

    #[test]
    fn each_number_of_a_preset_has_a_source() {
        for preset in Preset::ALL {
            for fact in preset.facts() {
                assert!(fact.source.len() > 20, "{} {}", preset.name, fact.name);
            }
            assert_eq!(Preset::named(preset.name).map(|found| found.name), Some(preset.name));
        }
    }

    #[test]
    fn a_preset_makes_a_device_of_a_gibibyte() {
        for preset in Preset::ALL {
            let geometry = Geometry::new(preset.model().shape, 1 << 30).expect(preset.name);
            assert!(geometry.alpha() > 1.0, "{}", preset.name);
        }
    }

    /// The tables of README: values by preset, and by source what it is the source of.
    fn tables() -> String {
        let facts = Preset::ALL.map(Preset::facts);
        let mut lines = Vec::new();
        for (index, fact) in facts[0].iter().enumerate() {
            let values: Vec<&str> = facts.iter().map(|of| of[index].value.as_str()).collect();
            lines.push(format!("| `{}` | {} |", fact.name, values.join(" | ")));
        }
        let mut by_source: Vec<(&str, Vec<String>)> = Vec::new();
        for (preset, facts) in Preset::ALL.iter().zip(&facts) {
            for fact in facts {
                let what = format!("{} `{}`", preset.name, fact.name);
                match by_source.iter_mut().find(|(source, _)| *source == fact.source) {
                    Some((_, of)) => of.push(what),
                    None => by_source.push((fact.source, vec![what])),
                }
            }
        }
        for (source, of) in by_source {
            lines.push(format!("| {source} | {} |", of.join(", ")));
        }
        lines.join("\n")
    }

    #[test]
    fn the_readme_has_each_number_and_its_source() {
        let readme = include_str!("../../README.md");
        let missing: Vec<String> =
            tables().lines().filter(|line| !readme.contains(line)).map(str::to_owned).collect();
        assert!(missing.is_empty(), "README lacks:\n{}", missing.join("\n"));
    }
}
