//! A file of any content with right checksums: opened, checked, read, changed, and opened again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneflush_mvbt_fuzz::exercise;
use oneflush_mvbt_fuzz::program::{File, Input};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let file = File::made_by(&mut input);
    exercise::use_it(file, &mut input);
});
