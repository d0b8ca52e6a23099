//! `oneflush bench --guest`: the same run in a guest for each of these file systems, and one table.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use oneflush_bench::guest::{self, Checkout, Spec};
pub use oneflush_bench::guest::{GuestArch, GuestFs, SUBCOMMAND};
use oneflush_bench::report::Report;
use oneflush_measure::run::{Plan, Workers};

use crate::failure::Failure;

/// Counts do not differ between rounds as times do.
const ROUNDS: u32 = 1;

/// Of the hidden subcommand.
#[derive(Args)]
pub struct Inside {
    place: PathBuf,
    out: PathBuf,
}

pub fn inside(options: &Inside) -> Result<(), Failure> {
    guest::serve(&options.place, &options.out).map_err(Failure::failed)
}

pub fn main(
    file_systems: &[GuestFs],
    arch: Option<GuestArch>,
    plan: Plan,
    rounds: Option<u32>,
) -> Result<Report, Failure> {
    if let Some(mode) = plan.modes.iter().find(|mode| mode.is_mounted) {
        let message = format!("mode {mode}: --guest has no mount; leave --guest or the mode out");
        return Err(Failure::usage(message));
    }
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let checkout = Checkout::find(&program).map_err(Failure::failed)?;
    let arch = arch.unwrap_or(GuestArch::X86_64);
    let spec = spec(plan, rounds.unwrap_or(ROUNDS));
    let mut reports = Vec::new();
    for (at, fs) in file_systems.iter().enumerate() {
        eprintln!("guest {} of {}: {fs}", at + 1, file_systems.len());
        let found = checkout.measure(arch, *fs, &program, std::slice::from_ref(&spec));
        let found = found.map_err(Failure::failed)?;
        reports.extend(found.into_iter().map(|found| (fs.to_string(), found.report)));
    }
    let emulator = match arch {
        GuestArch::X86_64 => emulator(),
        GuestArch::Aarch64 => format!("{}, aarch64", emulator()),
    };
    Report::of_guests(reports, &emulator)
        .ok_or_else(|| Failure::usage("--guest names no file system; try --guest f2fs,ext4"))
}

fn spec(plan: Plan, rounds: u32) -> Spec {
    Spec {
        modes: plan.modes,
        workload: plan.workload,
        transactions: plan.transactions,
        rounds,
        connections: plan.connections,
        processes: matches!(plan.workers, Workers::Processes { .. }),
        rate: plan.rate,
        busy_loops: plan.busy.map_or(0, |busy| busy.loops),
        in_turns: plan.in_turns,
        floor_writes: plan.floor_writes,
        recorded: false,
    }
}

/// "QEMU 7.2.22, emulated"
pub fn emulator() -> String {
    let said = Command::new("qemu-system-x86_64").arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match said.as_deref().unwrap_or_default().split_whitespace().nth(3) {
        Some(version) => format!("QEMU {version}, emulated"),
        None => "QEMU, emulated".to_owned(),
    }
}

/// Whether a guest can be had without anybody's asking for it: root may fetch a kernel.
pub fn is_at_hand(program: &Path) -> bool {
    let has_qemu = || Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    rustix::process::geteuid().is_root() && Checkout::find(program).is_ok() && has_qemu()
}
