//! Pages of any bytes with right checksums: read as several versions see them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneflush_mvbt_fuzz::exercise;
use oneflush_mvbt_fuzz::program::{File, Input};

fuzz_target!(|data: &[u8]| exercise::look_at_pages(File::made_by(&mut Input(data))));
