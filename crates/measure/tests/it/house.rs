//! The house: no circle between the folders and files of `crates/measure/src` (ARCHITECTURE.md).

use std::path::Path;

use oneflush_testing::house;

#[test]
fn no_folder_or_file_knows_one_that_knows_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let imports = house::imports(&src);
    assert!(imports.len() > 50, "the sources were read");
    // What the root passes on, and globs of it, would hide whose it is.
    let hidden = imports.iter().find(|import| !is_module(&src, &import.to));
    assert!(hidden.is_none(), "{}; name the module that it is of", hidden.unwrap());
    if let Some(circle) = house::circle(&imports, |module| module.first().cloned()) {
        panic!("a circle; move what they share below both:\n{circle}");
    }
}

fn is_module(src: &Path, path: &[String]) -> bool {
    path.first().is_some_and(|first| {
        src.join(first).is_dir() || src.join(first).with_extension("rs").is_file()
    })
}
