//! The contents of records: what is decoded is what was pushed, and any bytes at all do no harm.

use oneflush_blocklog::Error;
use oneflush_blocklog::group::{
    Base, Begin, Group, GroupWriter, KIND_BEGIN, KIND_COMMITS, KIND_IMAGES, PageEntry, page_crc,
    rebuild,
};
use proptest::prelude::*;

fn begin() -> impl Strategy<Value = Option<Begin>> {
    prop_oneof![
        Just(None),
        Just(Some(Begin::Database)),
        any::<(u32, [u32; 2], [u32; 2])>()
            .prop_map(|(frames, salt, checksum)| Some(Begin::Image { frames, salt, checksum })),
    ]
}

fn base() -> impl Strategy<Value = Base> {
    prop_oneof![
        Just(Base::Zeros),
        Just(Base::Previous),
        any::<u32>().prop_map(|crc| Base::Database { crc })
    ]
}

type Page = (u32, Base, Vec<u8>, bool);

fn page() -> impl Strategy<Value = Page> {
    (1..=u32::MAX, base(), prop::collection::vec(any::<u8>(), 0..300), any::<bool>())
}

fn entry((page_no, base, delta, in_row): &Page) -> PageEntry<'_> {
    PageEntry { page_no: *page_no, base: *base, in_row: *in_row, delta }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn decodes_what_was_pushed_also_into_used_memory(
        groups in prop::collection::vec(
            (begin(), any::<u32>(), prop::collection::vec(page(), 0..8)),
            1..4,
        ),
    ) {
        let mut writer = GroupWriter::new(None, 77);
        for (begin, database_pages, pages) in groups {
            writer.reset(begin, 0);
            for page in &pages {
                match page {
                    (_, _, _, true) => writer.push_entry(entry(page)),
                    (page_no, base, delta, false) => {
                        writer.push(*page_no, *base, |out| out.extend_from_slice(delta))
                    }
                }
            }
            writer.set_database_pages(database_pages);
            let kind = writer.kind();
            prop_assert_eq!(kind, if begin.is_some() { KIND_BEGIN } else { KIND_COMMITS });
            prop_assert_eq!(writer.len_bytes(), writer.finish().len());
            let group = Group::decode(kind, writer.finish()).unwrap();
            prop_assert_eq!((group.begin, group.database_pages), (begin, database_pages));
            prop_assert!(group.pages().eq(pages.iter().map(entry)));
            // Cut off anywhere, it is refused, or it ends between two pages.
            for length in 0..writer.len_bytes() {
                if let Ok(group) = Group::decode(kind, &writer.finish()[..length]) {
                    prop_assert!(group.pages().count() < pages.len());
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        kind in 0..6u8,
        payload in prop::collection::vec(prop_oneof![any::<u8>(), 0..4u8], 0..80),
    ) {
        match Group::decode(kind, &payload) {
            Ok(group) => {
                prop_assert!([KIND_BEGIN, KIND_COMMITS, KIND_IMAGES].contains(&kind));
                let least: usize = group.pages().map(|entry| entry.delta.len() + 3).sum();
                prop_assert!(least <= payload.len());
            }
            Err(error) => prop_assert!(matches!(error, Error::BadGroup { .. }), "{error}"),
        }
    }
}

#[test]
fn a_page_of_one_small_change_costs_few_bytes_beside_its_delta() {
    let mut writer = GroupWriter::new(None, 10);
    let empty = writer.len_bytes();
    writer.push(100, Base::Previous, |out| out.extend_from_slice(&[1; 30]));
    assert_eq!((empty, writer.len_bytes() - empty), (4, 33));
}

#[test]
fn a_page_is_rebuilt_from_the_base_that_it_names_and_from_no_other() {
    let old = vec![3; 1024];
    let mut new = old.clone();
    new[10] = 4;
    let mut delta = Vec::new();
    oneflush_blocklog::delta::encode(&old, &new, &mut delta);
    let mut page = old.clone();
    rebuild(Base::Database { crc: page_crc(&old) }, &delta, &mut page).unwrap();
    assert!(page == new);
    // The database's page is the new one already: this delta is not for it.
    let error = rebuild(Base::Database { crc: page_crc(&old) }, &delta, &mut page).unwrap_err();
    assert!(matches!(error, Error::BadGroup { .. }) && page == new);
    let mut delta = Vec::new();
    oneflush_blocklog::delta::encode_from_zeros(&new, &mut delta);
    page.fill(0xee);
    rebuild(Base::Zeros, &delta, &mut page).unwrap();
    assert!(page == new);
}
