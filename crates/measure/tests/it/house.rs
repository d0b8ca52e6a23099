//! The house: no circle between the folders and files of `crates/measure/src` (ARCHITECTURE.md).

use oneflush_testing::house;

#[test]
fn no_folder_or_file_knows_one_that_knows_it() {
    house::assert_no_circle(env!("CARGO_MANIFEST_DIR"), 50);
}
