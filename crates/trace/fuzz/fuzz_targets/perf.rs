//! perf script's text.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oneflush_trace_fuzz::read(
    bytes,
    Some(oneflush_trace::import::Format::Perf)
));
