//! Registration: as a Rust crate, and as a loadable extension. For C programs: `linked.rs`.

use std::ffi::{c_char, c_int};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libsqlite3_sys as sqlite;
use oneflush_blocklog::messages;

use super::api::{self, Api};
use super::process::follow_process;
use super::shim::Shim;
use crate::config::{self, OptionError, Options};
use crate::{calls, variables};

/// Why the VFS could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("{0}")]
    Option(#[from] OptionError),
    #[error("SQLite {found} is too old: Oneflush needs {needed} or newer [OF-407]")]
    Version { found: String, needed: String },
    #[error("this SQLite has no default VFS to build on [OF-408]")]
    NoVfs,
    #[error("SQLite refused to register the VFS: code {0} [OF-409]")]
    Refused(c_int),
}

/// Registers the VFS `oneflush` over the default VFS of the SQLite that this program links.
///
/// The options are those of the environment. Another call reads the environment anew. The VFS
/// becomes the default only if `ONEFLUSH_DEFAULT=1`.
#[cfg(not(feature = "loadable"))]
pub fn register() -> Result<(), RegisterError> {
    register_with(api::linked(), false)
}

/// The same, and makes the VFS the default of the process.
#[cfg(not(feature = "loadable"))]
pub fn register_default() -> Result<(), RegisterError> {
    register_with(api::linked(), true)
}

fn register_with(api: Api, default: bool) -> Result<(), RegisterError> {
    let found = api.libversion_number();
    if found < api::LIBVERSION_NUMBER_MIN {
        let text = |number: c_int| {
            format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
        };
        return Err(RegisterError::Version {
            found: text(found),
            needed: text(api::LIBVERSION_NUMBER_MIN),
        });
    }
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let options = Options::from_environment(environment)?;
    let default = config::default_wanted(environment)? || default;
    messages::begin().map_err(OptionError::from)?;
    calls::begin()?;
    follow_process();
    match Shim::of(api, options).ok_or(RegisterError::NoVfs)?.register(default) {
        sqlite::SQLITE_OK => {
            if default {
                note_where_it_is(&api);
            }
            say_what_is_unknown(&api);
        }
        code => return Err(RegisterError::Refused(code)),
    }
    Ok(())
}

/// A place in each SQLite whose default VFS is ours.
static IN: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

fn note_where_it_is(api: &Api) {
    let function = api.place();
    let _ = IN.iter().find(|place| {
        let noted = place.compare_exchange(0, function, Relaxed, Relaxed);
        noted.is_ok() || noted == Err(function)
    });
}

/// True if our VFS is the default of a SQLite that lies there. The library behind `oneflush run`
/// asks: the program may have loaded this one itself.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_is_in(from: usize, to: usize) -> bool {
    IN.iter().any(|place| (from..to).contains(&place.load(Relaxed)))
}

/// Warns of unknown variables once in a process: later registrations have the same environment.
fn say_what_is_unknown(api: &Api) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for message in variables::unknown(names) {
            api.log(sqlite::SQLITE_WARNING, &message);
        }
    });
}

/// The version of this library, for a program that is about to load it.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The entry point of the loadable extension.
///
/// # Safety
/// SQLite calls it, with the arguments of its contract ("Run-Time Loadable Extensions").
#[cfg(feature = "loadable")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_oneflush_init(
    _db: *mut sqlite::sqlite3,
    error_out: *mut *mut c_char,
    routines: *const sqlite::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite passes its own table.
    let Some(api) = (unsafe { api::loaded(routines) }) else { return sqlite::SQLITE_ERROR };
    // "SQLITE_OK_LOAD_PERMANENTLY": SQLite keeps pointers into this library from now on.
    match answered(std::panic::catch_unwind(|| register_with(api, false)), &api, error_out) {
        sqlite::SQLITE_OK => sqlite::SQLITE_OK_LOAD_PERMANENTLY,
        code => code,
    }
}

/// The code that an entry point answers, and the reason where it is an error.
///
/// `error_out` is null or the `pzErrMsg` of SQLite's contract.
pub(super) fn answered(
    registered: std::thread::Result<Result<(), RegisterError>>,
    api: &Api,
    error_out: *mut *mut c_char,
) -> c_int {
    let error = match registered {
        Ok(Ok(())) => return sqlite::SQLITE_OK,
        Ok(Err(error)) => format!("oneflush: {error}"),
        Err(_) => "oneflush: internal error while the extension was loaded [OF-410]".to_owned(),
    };
    if error_out.is_null() {
        api.log(sqlite::SQLITE_ERROR, &error);
    } else {
        // SAFETY: "*pzErrMsg may be set to a string from sqlite3_mprintf()"; SQLite frees it.
        unsafe { *error_out = api.string(&error) };
    }
    sqlite::SQLITE_ERROR
}
