//! Many scenes in one test.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Plays scenes one after the other, and fails at the end with what all of them have said.
#[derive(Default)]
pub struct Scenes {
    failed: Vec<String>,
}

impl Scenes {
    /// A scene fails by a panic.
    pub fn play(&mut self, about: &str, scene: impl FnOnce()) {
        if let Err(said) = catch_unwind(AssertUnwindSafe(scene)) {
            self.failed.push(format!("{about}: {}", words(&*said).unwrap_or("a panic")));
        }
    }

    pub fn end(self) {
        let failed = self.failed;
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    }
}

fn words(said: &(dyn Any + Send)) -> Option<&str> {
    said.downcast_ref::<String>().map(String::as_str).or_else(|| said.downcast_ref().copied())
}
