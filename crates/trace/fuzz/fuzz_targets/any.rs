//! Bytes of any format, packed or not: the format is found, or the file refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oneflush_trace_fuzz::read(bytes, None));
