//! A record's payload of any bytes: decoded, and each page rebuilt.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneflush_blocklog::group::{Group, rebuild};

fuzz_target!(|data: &[u8]| {
    let Some((kind, payload)) = data.split_first() else { return };
    let Ok(group) = Group::decode(*kind, payload) else { return };
    let mut deltas_bytes = 0;
    for page in group.pages() {
        assert!(page.page_no > 0);
        deltas_bytes += page.delta.len();
        let _ = rebuild(page.base, page.delta, &mut [1; 4096]);
    }
    assert!(deltas_bytes <= payload.len());
});
