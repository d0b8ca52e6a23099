//! Deltas: what is applied is what was encoded, and any bytes at all do no harm.

use oneflush_blocklog::Error;
use oneflush_blocklog::delta::{self, Row};
use proptest::prelude::*;

fn round_trip(base: &[u8], page: &[u8]) -> usize {
    let mut out = vec![0xee];
    delta::encode(base, page, &mut out);
    assert_eq!(out[0], 0xee, "it appends");
    let mut made = base.to_vec();
    delta::apply(&out[1..], &mut made).unwrap();
    assert!(made == page);
    out.len() - 1
}

/// A page and a later version of it. Bytes are set, and stretches moved as a B-tree moves pointers
/// and cells.
fn versions() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let change = (any::<u16>(), 1..200usize, -8..8isize, any::<u8>());
    (
        prop::sample::select(vec![512usize, 1024, 4096, 65_536]),
        any::<u64>(),
        prop::collection::vec(change, 0..12),
    )
        .prop_map(|(length, seed, changes)| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let few = rng.u8(1..);
            let base: Vec<u8> = (0..length).map(|_| rng.u8(..few)).collect();
            let mut page = base.clone();
            for (place, count, shift, value) in changes {
                let start = usize::from(place) % (length - 200 - 8);
                match shift {
                    0 => page[start..start + count].fill(value),
                    shift => {
                        page.copy_within(start..start + count, start.saturating_add_signed(shift))
                    }
                }
            }
            (base, page)
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn applying_a_delta_to_its_base_gives_the_page((base, page) in versions()) {
        round_trip(&base, &page);
        let mut out = Vec::new();
        delta::encode_from_zeros(&page, &mut out);
        let mut made = vec![0; page.len()];
        delta::apply(&out, &mut made).unwrap();
        prop_assert!(made == page);
    }

    #[test]
    fn a_row_gives_each_of_its_pages(
        versions in prop::collection::vec(versions(), 1..5),
        length in prop::sample::select(vec![8usize, 300, 512]),
        allowed in any::<u64>(),
        shuffled in any::<bool>(),
    ) {
        let cut = |page: &[u8]| page[..length].to_vec();
        let row: Vec<u8> = versions.iter().flat_map(|(base, _)| cut(base)).collect();
        let page_bytes = row.len() / versions.len();
        for own in 0..versions.len() {
            // Its own new version, or another page's.
            let (_, page) = &versions[if shuffled { versions.len() - 1 - own } else { own }];
            row_round_trip(&row, page_bytes, own, &cut(page), allowed);
        }
    }

    #[test]
    fn any_bytes_are_applied_in_a_row_or_refused_and_a_refused_delta_changes_nothing(
        delta in prop::collection::vec(prop_oneof![any::<u8>(), 0..20u8], 0..60),
        length in 1..200usize,
        pages in 1..80usize,
        own in 0..80usize,
    ) {
        let row = vec![3; length * pages];
        let mut page = vec![1; length];
        let known = delta::sources(&delta, length, own, pages);
        match delta::apply_in_row(&delta, &row, own, &mut page) {
            Ok(()) => prop_assert!(known.is_ok() || pages > delta::ROW_PAGES_MAX),
            Err(_) => prop_assert!(known.is_err() && page == vec![1; length]),
        }
    }

    #[test]
    fn any_bytes_are_applied_or_refused_and_a_refused_delta_changes_nothing(
        delta in prop::collection::vec(prop_oneof![any::<u8>(), 0..20u8], 0..60),
        length in 0..700usize,
    ) {
        let base: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let mut page = base.clone();
        if delta::apply(&delta, &mut page).is_err() {
            prop_assert!(page == base);
        }
    }

    #[test]
    fn a_delta_of_another_page_size_is_applied_inside_of_the_page_or_refused(
        (base, page) in versions(),
        length in 0..5000usize,
    ) {
        let mut out = Vec::new();
        delta::encode(&base, &page, &mut out);
        let mut other = vec![0; length];
        let _ = delta::apply(&out, &mut other);
        prop_assert_eq!(other.len(), length);
    }
}

/// Applies what the search found. `page` is page `own` of the row.
fn row_round_trip(row: &[u8], page_bytes: usize, own: usize, page: &[u8], allowed: u64) -> usize {
    let mut out = vec![0xee];
    let sources = Row::new(row, page_bytes).encode(own, page, allowed, &mut out);
    let pages = row.len() / page_bytes;
    assert_eq!(delta::sources(&out[1..], page_bytes, own, pages).unwrap(), sources);
    assert_eq!(sources & !allowed, 0, "no copy from elsewhere");
    let mut made = vec![1; page_bytes];
    delta::apply_in_row(&out[1..], row, own, &mut made).unwrap();
    assert!(made == page);
    out.len() - 1
}

/// Cells of some bytes each, in this order.
fn cells(order: impl Iterator<Item = u64>) -> Vec<u8> {
    order
        .flat_map(|cell| {
            cell.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(2)
        })
        .collect()
}

#[test]
fn cells_that_changed_places_cost_four_bytes_each() {
    let base = cells(0..256);
    let page = cells((0..256).map(|cell| cell * 77 % 256));
    let bytes = row_round_trip(&base, base.len(), 0, &page, 1);
    assert!(bytes <= 256 * 5, "{bytes}");
    assert!(round_trip(&base, &page) > 4000, "which the quick search does not find");
}

#[test]
fn a_page_that_is_split_costs_a_few_copies_from_its_old_version() {
    let row = [cells(0..256), vec![0; 4096]].concat();
    let mut new = vec![0; 4096];
    new[100..2148].copy_from_slice(&row[2048..4096]);
    assert!(row_round_trip(&row, 4096, 1, &new, 0b11) < 20);
    assert!(row_round_trip(&row, 4096, 1, &new, 0b10) > 2048, "without the other page");
}

#[test]
fn stretches_of_one_value_are_copied_at_once() {
    let base: Vec<u8> = (0..4096).map(|at| if at < 2048 { 7 } else { at as u8 }).collect();
    let mut page = base.clone();
    page.rotate_left(1024);
    let bytes = row_round_trip(&base, 4096, 0, &page, 1);
    assert!(bytes < 60, "{bytes}");
}

#[test]
fn a_copy_from_beyond_the_row_and_a_row_of_too_many_pages_are_refused() {
    let row = vec![7; 20];
    let mut page = [1; 10];
    for (own, delta) in
        [(0, &[1, 2, 40][..]), (1, &[1, 2, 20]), (1, &[1, 2, 21]), (2, &[]), (1, &[1, 11, 0])]
    {
        assert!(
            matches!(delta::apply_in_row(delta, &row, own, &mut page), Err(Error::BadDelta { .. })),
            "{delta:?}"
        );
        assert_eq!(page, [1; 10]);
    }
    delta::apply_in_row(&[1, 2, 19], &row, 1, &mut page).unwrap();
    assert_eq!(page, [7; 10]);
    for (own, pages) in [(0, 65), (3, 3)] {
        assert!(delta::sources(&[], 512, own, pages).is_err());
    }
}

#[test]
fn equal_pages_need_no_byte_and_a_changed_byte_four() {
    let base = vec![5; 4096];
    assert_eq!(round_trip(&base, &base), 0);
    for at in [0, 1, 31, 32, 2047, 4088, 4095] {
        let mut page = base.clone();
        page[at] = 6;
        assert!(round_trip(&base, &page) <= 4);
    }
}

#[test]
fn a_page_of_other_bytes_costs_little_more_than_itself() {
    let mut rng = fastrand::Rng::with_seed(1);
    let [base, page] = [0, 1].map(|_| (0..4096).map(|_| rng.u8(..)).collect::<Vec<u8>>());
    let bytes = round_trip(&base, &page);
    assert!(bytes < 4110, "{bytes}");
}

#[test]
fn zero_gaps_cost_nothing() {
    let mut page = vec![0; 4096];
    page[..100].fill(1);
    page[4000..].fill(2);
    let mut out = Vec::new();
    delta::encode_from_zeros(&page, &mut out);
    assert!(out.len() <= 196 + 6, "{}", out.len());
}

#[test]
fn pointers_that_move_by_two_bytes_are_copied_once_for_each_insertion() {
    let base: Vec<u8> =
        (0..4096usize).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut page = base.clone();
    page.copy_within(100..398, 102);
    page[100..102].copy_from_slice(&[1, 2]);
    assert!(round_trip(&base, &page) < 16);
    page.copy_within(300..398, 302);
    page[300..302].copy_from_slice(&[3, 4]);
    assert!(round_trip(&base, &page) < 30);
    assert!(round_trip(&page, &base) < 30, "deletions as well");
}

#[test]
fn what_reaches_out_of_the_page_ends_early_or_is_empty_is_refused() {
    for delta in [
        &[0][..],    // no length
        &[0, 2, 1],  // one byte of two
        &[0, 0],     // empty
        &[20, 1, 9], // behind the end of ten bytes
        &[0, 11, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        &[1, 2, 1],  // a copy from before the page
        &[1, 2, 18], // and from behind it
        &[1, 2],     // without its shift
        &[0xff, 0xff, 0xff, 0xff, 0xff, 1],
    ] {
        let mut page = [7; 10];
        assert!(matches!(delta::apply(delta, &mut page), Err(Error::BadDelta { .. })), "{delta:?}");
        assert_eq!(page, [7; 10]);
    }
}
