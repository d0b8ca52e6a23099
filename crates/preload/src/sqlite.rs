//! Which SQLite a caller uses, where a process has several.
//!
//! Our `sqlite3_open` stands before that of every SQLite whose functions are looked up by name. It
//! must pass the call on to the SQLite that the caller's other functions are from. A handle of one
//! SQLite in the hands of another ends in a crash. In this order:
//!
//! 1. the object that other functions of SQLite are already bound to, in the object that calls;
//! 2. what the default scope has behind us, as for a function that is bound at its first call;
//! 3. what the calling object has in its own scope, if it refers to SQLite at all;
//! 4. the only SQLite there is. A caller that got its pointer elsewhere refers to none by name.
//!
//! A table of functions that an extension gets (`sqlite3_api_routines`) has our addresses, too. So
//! those words are given the SQLite's own functions, as soon as it is known.

use std::ffi::{CStr, c_void};

use crate::objects::{self, Object};

/// The SQLite whose function of this name the code at `caller` means.
pub fn used_by(caller: usize, name: &CStr) -> Option<Object> {
    let mut objects = objects::all();
    let n = find(&objects, caller, name)?;
    Some(objects.swap_remove(n))
}

fn find(objects: &[Object], caller: usize, name: &CStr) -> Option<usize> {
    let at = |address: usize| objects.iter().position(|object| object.contains(address));
    let here = at(find as *const () as usize)?;
    let has_it = |n: &usize| *n != here && objects[*n].function(name).is_some();
    let calling = at(caller).map(|n| &objects[n]);
    let references = calling.map(Object::references).unwrap_or_default();

    let bound = references.iter().find_map(|reference| {
        let n = at(reference.value()).filter(|n| *n != here)?;
        (objects[n].function(reference.name)? == reference.value()).then_some(n)
    });
    if let Some(n) = bound.filter(has_it) {
        return Some(n);
    }
    let next = at(look_up(libc::RTLD_NEXT, name));
    if let Some(n) = next.filter(has_it) {
        return Some(n);
    }
    if let Some(calling) = calling.filter(|_| !references.is_empty())
        && let Some(n) = at(in_scope_of(calling, name)).filter(has_it)
    {
        return Some(n);
    }
    let mut all = (0..objects.len()).filter(has_it);
    all.next().filter(|_| all.next().is_none())
}

fn in_scope_of(object: &Object, name: &CStr) -> usize {
    let Some(path) = object.name() else { return 0 };
    // SAFETY: only look-ups in an object that is loaded; what is opened here is closed again.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return 0;
        }
        let found = look_up(handle, name);
        libc::dlclose(handle);
        found
    }
}

fn look_up(scope: *mut c_void, name: &CStr) -> usize {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::dlsym(scope, name.as_ptr()) as usize }
}

/// Lets this SQLite's own references to functions of ours lead to its own. One thread at a time.
///
/// `ours`: the functions that this library has, too, and their addresses here.
pub fn refer_to_itself(sqlite: &Object, ours: &[(&CStr, usize)]) {
    for reference in sqlite.references() {
        let is_ours = ours.contains(&(reference.name, reference.value()));
        if is_ours && let Some(function) = sqlite.function(reference.name) {
            sqlite.bind(&reference, function);
        }
    }
}
