//! A delta of any bytes, and the round trip of any two pages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneflush_blocklog::delta;

fuzz_target!(|data: &[u8]| {
    let Some((length, rest)) = data.split_first() else { return };
    let mut page: Vec<u8> = (0..usize::from(*length) * 16).map(|index| index as u8).collect();
    let base = page.clone();
    if delta::apply(rest, &mut page).is_err() {
        assert!(page == base);
    }

    let (base, page) = rest.split_at(rest.len() / 2);
    let page = &page[..base.len()];
    for from_zeros in [false, true] {
        let mut out = Vec::new();
        let mut made = if from_zeros { vec![0; base.len()] } else { base.to_vec() };
        if from_zeros {
            delta::encode_from_zeros(page, &mut out);
        } else {
            delta::encode(base, page, &mut out);
        }
        delta::apply(&out, &mut made).unwrap();
        assert!(made == page);
    }
});
