//! The name of a test, for a test that runs its own program again.

/// The name of a test of the calling module, as the test program knows it: `kills::worker` of
/// `named!(worker)`.
///
/// A name that no function of the module has does not compile.
#[macro_export]
macro_rules! named {
    ($test:ident) => {{
        let _: fn() -> _ = $test;
        const { $crate::without_crate(concat!(module_path!(), "::", stringify!($test))) }
    }};
}

/// A path without its first part.
#[doc(hidden)]
pub const fn without_crate(path: &str) -> &str {
    let bytes = path.as_bytes();
    let mut at = 0;
    while bytes[at] != b':' {
        at += 1;
    }
    path.split_at(at + 2).1
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_has_the_name_that_its_program_gives_it() {
        let name = named!(a_test_has_the_name_that_its_program_gives_it);
        // The thread of a test has its name, unless there is one thread for all.
        let thread = std::thread::current().name().unwrap_or("main").to_owned();
        assert!([name, "main"].contains(&thread.as_str()), "{name}, {thread}");
        assert_eq!(name, "named::tests::a_test_has_the_name_that_its_program_gives_it");
    }
}
