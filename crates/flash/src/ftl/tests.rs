//! Of the FTL alone: recovery, trims, and what it does with a full array.

use super::*;
use crate::geometry::{RESERVE_BLOCKS, Shape};
use crate::nand::{Array, Store};

fn geometry() -> Geometry {
    let shape = Shape {
        unit_bytes: 512,
        page_bytes: 1024,
        block_pages: 4,
        dies: 2,
        planes: 1,
        spare_share: 0.3,
    };
    Geometry::new(shape, 160 * 512).expect("a valid shape")
}

fn ftl() -> Ftl<Array> {
    Ftl::recover(Array::new(geometry(), Store::memory()).expect("memory")).expect("a new array")
}

fn item(logical: u32, byte: u8) -> Item {
    Item::Data(Logical(logical), Some(vec![byte; 512].into()))
}

fn byte(ftl: &mut Ftl<Array>, logical: u32) -> u8 {
    ftl.read(Logical(logical)).expect("readable").map_or(0, |bytes| bytes[0])
}

#[test]
fn what_was_written_last_is_read_also_after_recovery() {
    let mut ftl = ftl();
    let mut expected = [0; 160];
    for round in 0..2000_u32 {
        let (one, other) = (round * 7 % 160, round * 31 % 160);
        ftl.write_page(vec![item(one, round as u8), item(other, !round as u8)]).expect("room");
        expected[one as usize] = round as u8;
        expected[other as usize] = !round as u8;
        ftl.check().expect("sound");
        if round % 97 == 0 {
            ftl = Ftl::recover(ftl.into_nand()).expect("an array of ours");
            ftl.check().expect("sound");
        }
    }
    for logical in 0..160 {
        assert_eq!(byte(&mut ftl, logical), expected[logical as usize], "{logical}");
    }
}

#[test]
fn recovery_finds_what_was_there() {
    let mut ftl = ftl();
    for round in 0..500_u32 {
        ftl.write_page(vec![item(round * 13 % 160, round as u8)]).expect("room");
    }
    let (valid, free) = (ftl.usage.iter().map(|of| of.valid_units).collect(), ftl.free_blocks);
    let table = ftl.table.0.clone();
    let recovered = Ftl::recover(ftl.into_nand()).expect("an array of ours");
    // Of two copies the other one may be chosen, but only while a victim is not yet erased.
    let same = recovered.table.0.iter().zip(&table).filter(|(one, other)| one == other).count();
    assert!(same + 16 >= table.len(), "{same}");
    assert_eq!(recovered.free_blocks, free);
    let valid: Vec<u32> = valid;
    let sum: u32 = recovered.usage.iter().map(|of| of.valid_units).sum();
    assert_eq!(sum, valid.iter().sum::<u32>());
}

#[test]
fn f5_a_trim_that_was_not_written_may_come_back_and_one_that_was_does_not() {
    let mut ftl = ftl();
    for logical in (0..160).step_by(2) {
        ftl.write_page(vec![item(logical, 1), item(logical + 1, 1)]).expect("room");
    }
    ftl.trim(Logical(5));
    assert_eq!(byte(&mut ftl, 5), 0);
    let mut ftl = Ftl::recover(ftl.into_nand()).expect("an array of ours");
    assert_eq!(byte(&mut ftl, 5), 1);
    for logical in 5..25 {
        ftl.trim(Logical(logical));
    }
    let records = ftl.trims_to_write();
    assert_eq!(records.len(), 1);
    ftl.write_page(records).expect("room");
    // The record is copied by garbage collection, and its units are written again one by one.
    for round in 0..600_u32 {
        ftl.write_page(vec![item(30 + round * 11 % 130, 2), item(round % 5, 3)]).expect("room");
        ftl.check().expect("sound");
    }
    let mut ftl = Ftl::recover(ftl.into_nand()).expect("an array of ours");
    assert!((5..25).all(|logical| byte(&mut ftl, logical) == 0));
    assert_eq!(ftl.records.len(), 1);
    for logical in 5..25 {
        ftl.write_page(vec![item(logical, 4)]).expect("room");
    }
    assert!(ftl.records.is_empty());
    ftl.check().expect("sound");
}

#[test]
fn f4_the_host_leaves_room_to_garbage_collection() {
    let mut ftl = ftl();
    for round in 0..3000_u32 {
        ftl.write_page(vec![item(round * 7 % 160, 1), item(round * 11 % 160, 2)]).expect("room");
        assert!(ftl.free_blocks >= RESERVE_BLOCKS - 1);
    }
    assert!((0..ftl.geometry.blocks).all(|block| ftl.nand.erases(Block(block)) > 0));
}

#[test]
fn a_record_of_ranges_is_read_as_it_was_written() {
    let ranges = vec![(Logical(3), 4), (Logical(1 << 20), 1 << 10)];
    assert_eq!(trim::decode(&trim::encode(&ranges, 512)), ranges);
    assert_eq!(trim::decode(&[]), []);
    // A count that is larger than the record.
    assert_eq!(trim::decode(&[9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]), [(Logical(1), 2)]);
}
