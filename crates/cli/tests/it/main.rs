//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

mod advise;
mod advise_error;
mod bad_input;
#[cfg(feature = "laboratory")]
mod bench_device;
#[cfg(feature = "laboratory")]
mod bench_guest;
mod bench_mounted;
#[cfg(feature = "laboratory")]
mod bench_paper;
#[cfg(feature = "laboratory")]
mod bench_papers;
mod bench_trace;
mod check;
mod collect_unit;
mod common;
mod completions;
mod convert;
mod crash;
#[cfg(feature = "laboratory")]
mod dataset;
#[cfg(feature = "laboratory")]
mod dataset_loss;
mod engines;
mod guest;
mod help;
mod identify;
#[cfg(feature = "laboratory")]
mod identify_parquet;
#[cfg(not(feature = "laboratory"))]
mod left_out;
mod manual;
mod messages;
mod mount;
mod mvbt;
mod names;
mod output;
mod pictures;
mod recording;
mod recover;
mod recover_loss;
mod recover_power;
mod replay;
mod report;
#[cfg(feature = "laboratory")]
mod report_dataset;
mod report_page;
mod report_viewer;
mod rotated;
mod run;
mod run_engine;
mod run_others;
mod shell;
mod stats;
mod top;
mod trace;
mod trace_bytes;
mod trace_cases;
mod trace_devices;
mod trace_lsmvbt;
mod trace_modes;
mod trace_names;
mod trace_rotate;
mod trace_stacks;
mod trace_unreadable;
mod r#try;
mod who;
mod workloads;
