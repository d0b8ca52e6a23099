//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

mod identify_accesses;
mod identify_causes;
mod identify_common;
mod identify_eager;
mod identify_f2fs;
mod identify_interleaving;
mod identify_layers;
mod identify_lsmvbt;
mod identify_many;
mod identify_modes;
mod identify_nameless;
mod identify_real;
mod identify_recorded;
mod identify_several;
mod identify_unsynced;
mod import_any_bytes;
mod import_data;
mod import_refused;
mod many_databases;
mod report_common;
mod report_findings;
mod report_page;
mod report_perfetto;
mod report_tables;
