//! A new database in the place of an empty file.

use std::ffi::c_char;
use std::path::{Path, PathBuf};

use mvbt::{Database, Error};

use crate::call::{self, Failure, Out, path};
use crate::code::Code;
use crate::database::{Options, wanted};
use crate::place::{self, Place};

/// What a database is called while it is made. Only who holds the lock of the empty file makes one.
const ENDING: &str = "-oneflush-new";

/// Makes a database with an empty integer tree, tree 2, where no file is or an empty one. The file
/// is there whole or not at all: it is made beside, and then put into its place. It has owner and
/// permissions of the empty file; `permissions` are those of one that was not there. `options` may
/// be null. `*made` is false if a file is there that is not empty: another caller may have made it.
///
/// # Safety
/// `path` is a text that ends with a zero, `options` null or filled, and `made` null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_make(
    path: *const c_char,
    options: *const Options,
    permissions: u32,
    made: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        call::without_handle(Out::IfAsked(made), || {
            let path = self::path(path)?;
            make(&*place::of(path), path, wanted(options.as_ref()), permissions)
        })
    }
}

fn make(
    place: &dyn Place,
    path: &Path,
    options: mvbt::Options,
    permissions: u32,
) -> Result<bool, Failure> {
    let failed = |doing: &'static str| {
        let path = path.to_owned();
        move |source| Error::Io { path, doing, source }
    };
    let held = loop {
        if let Some(held) = place.hold(path, permissions).map_err(failed("open it"))? {
            break held;
        }
    };
    if held.bytes > 0 {
        return Ok(false);
    }
    let new = beside(path);
    // A crash may have left one.
    place.remove(&new).map_err(failed("remove an unfinished new file beside it"))?;
    let made = place
        .create(&new, options)
        .and_then(with_first_tree)
        .and_then(|()| place.replace(&new, path, held.owner));
    made.inspect_err(|_| drop(place.remove(&new)))?;
    Ok(true)
}

fn with_first_tree(db: Database) -> mvbt::Result<()> {
    let mut txn = db.begin_write()?;
    txn.create_tree(false)?;
    txn.commit()?;
    db.close()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ENDING);
    name.into()
}
