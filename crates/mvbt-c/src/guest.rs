//! What the engine owes the process and the place that it is a guest of: where messages go, and
//! which file systems are refused. Who stands on these functions asks for both; nothing else here
//! does.

use std::ffi::{CStr, c_char};

use oneflush_blocklog::ground::Ground;
use oneflush_blocklog::messages;

use crate::call::{self, Failure, Out, misuse, path};
use crate::code::Code;

/// Looks where `ONEFLUSH_LOG` says that messages go: off, stderr, syslog, or a file. The first call
/// of a process counts. ONEFLUSH_MVBT_MISUSE: they cannot go there. The message is
/// oneflush_mvbt_open_error()'s.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_mvbt_say_where() -> Code {
    let begin = || messages::begin().map_err(|refused| misuse(&refused.to_string()));
    // SAFETY: nothing is written.
    unsafe { call::without_handle(Out::NOTHING, begin) }
}

/// Writes a message there, in a line, unless it has said the same a short time ago. Null is right.
/// It never waits.
///
/// # Safety
/// `text` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_say(text: *const c_char) {
    let say = || {
        if !text.is_null() && messages::begin().is_ok() {
            // SAFETY: by the contract of this function.
            messages::say(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
        }
        Ok(())
    };
    // SAFETY: nothing is written.
    unsafe { call::without_handle(Out::NOTHING, say) };
}

/// Looks at the file system of a database, which need not exist. ONEFLUSH_MVBT_IO: it may lose what
/// a flush has promised, or others than this kernel may change the file. The message, which
/// oneflush_mvbt_open_error() answers, has the reason. What is in memory alone is right.
///
/// # Safety
/// `path` is a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_check_ground(path: *const c_char) -> Code {
    let check = || {
        // SAFETY: by the contract of this function.
        let path = unsafe { self::path(path) }?;
        let Some(ground) = Ground::of(path) else { return Ok(()) };
        let Some(fault) = ground.refuses_durable(false) else { return Ok(()) };
        let text = format!(
            "{}: LS-MVBT is refused on {}: {fault}, or unsafe_ground=allow [OF-823]",
            path.display(),
            ground.file_system
        );
        Err(Failure { code: Code::ONEFLUSH_MVBT_IO, text })
    };
    // SAFETY: by the contract of this function.
    unsafe { call::without_handle(Out::NOTHING, check) }
}
