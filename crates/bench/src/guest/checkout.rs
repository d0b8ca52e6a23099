//! The project's own folder: a guest is started by a script of it.

use std::path::{Path, PathBuf};

use super::GuestError;

/// Where `guest/run` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// The first folder with `guest/run`, from `program` upwards, then from the current directory
    /// upwards.
    pub fn find(program: &Path) -> Result<Checkout, GuestError> {
        let here = std::env::current_dir().unwrap_or_default();
        let found = above(program).or_else(|| above(&here));
        found.ok_or_else(|| GuestError::NoCheckout { program: program.to_owned() })
    }

    pub fn run(&self) -> PathBuf {
        self.root.join("guest/run")
    }

    /// For what guests leave.
    pub fn build(&self) -> PathBuf {
        self.root.join("build/guest/bench")
    }
}

fn above(start: &Path) -> Option<Checkout> {
    let is_root =
        |root: &&Path| root.join("guest/run").is_file() && root.join("Cargo.toml").is_file();
    start.ancestors().find(is_root).map(|root| Checkout { root: root.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_folder_with_the_script_is_the_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let program = root.join("target/release/oneflush");
        assert_eq!(above(&program), None);
        fs::create_dir_all(root.join("guest")).unwrap();
        fs::write(root.join("guest/run"), "").unwrap();
        assert_eq!(above(&program), None, "a script alone is no checkout");
        fs::write(root.join("Cargo.toml"), "").unwrap();
        let found = above(&program).unwrap();
        assert_eq!(found.run(), root.join("guest/run"));
        assert!(found.build().starts_with(root));
    }
}
