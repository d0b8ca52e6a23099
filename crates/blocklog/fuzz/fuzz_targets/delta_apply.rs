//! A delta of any bytes, alone and in a row, and the round trip of any two pages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneflush_blocklog::delta::{self, Row};

fuzz_target!(|data: &[u8]| {
    let Some((length, rest)) = data.split_first() else { return };
    let mut page: Vec<u8> = (0..usize::from(*length) * 16).map(|index| index as u8).collect();
    let base = page.clone();
    if delta::apply(rest, &mut page).is_err() {
        assert!(page == base);
    }
    // The same bytes, for a page of a row of these bytes.
    let pages = usize::from(*length % 7) + 1;
    let page_bytes = base.len() / pages;
    let (row, own) = (&base[..page_bytes * pages], usize::from(*length) % pages);
    let mut page = vec![1; page_bytes];
    let known = delta::sources(rest, page_bytes, own, pages);
    assert_eq!(delta::apply_in_row(rest, row, own, &mut page).is_ok(), known.is_ok());
    assert!(known.is_ok() || page == vec![1; page_bytes]);

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
    // Halves of both as a row; the new page may come from anywhere in it.
    let page_bytes = base.len() / 2;
    if page_bytes >= 8 {
        let row =
            [&base[..page_bytes], &page[..page_bytes], &base[base.len() - page_bytes..]].concat();
        for (own, allowed) in [(0, 0b111), (2, 0b011), (1, 0b100)] {
            let new = &page[page.len() - page_bytes..];
            let mut out = Vec::new();
            let sources = Row::new(&row, page_bytes).encode(own, new, allowed, &mut out);
            assert!(
                delta::sources(&out, page_bytes, own, 3).unwrap() == sources
                    && sources & !allowed == 0
            );
            let mut made = vec![1; page_bytes];
            delta::apply_in_row(&out, &row, own, &mut made).unwrap();
            assert!(made == new);
        }
    }
});
