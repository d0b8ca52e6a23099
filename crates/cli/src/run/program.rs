//! What a program file is, as far as a library can be preloaded into it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Offsets in the 64-bit ELF header and program headers ("System V ABI", chapters 4 and 5).
const HEADER_BYTES: usize = 64;
const CLASS_AT: usize = 4;
const CLASS_64: u8 = 2;
const TYPE_AT: usize = 16;
const TYPES_OF_PROGRAMS: [u16; 2] = [2, 3];
const PROGRAM_HEADERS_AT: usize = 32;
const PROGRAM_HEADER_BYTES_AT: usize = 54;
const PROGRAM_HEADERS_COUNT_AT: usize = 56;
const INTERPRETER: u32 = 3;

/// True if no dynamic linker starts this program, so that nothing can be preloaded. False also
/// where that cannot be known, as for a script.
pub fn is_static(name: &OsStr) -> bool {
    find(name).and_then(|file| names_no_interpreter(&file)).unwrap_or(false)
}

/// As `execvp` finds it.
fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(is_program)
}

fn names_no_interpreter(path: &Path) -> Option<bool> {
    let file = File::open(path).ok()?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    let of_two = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    if !header.starts_with(b"\x7fELF")
        || header[CLASS_AT] != CLASS_64
        || !TYPES_OF_PROGRAMS.contains(&of_two(TYPE_AT))
    {
        return None;
    }
    let first = u64::from_ne_bytes(header[PROGRAM_HEADERS_AT..][..8].try_into().ok()?);
    let (each, count) =
        (u64::from(of_two(PROGRAM_HEADER_BYTES_AT)), u64::from(of_two(PROGRAM_HEADERS_COUNT_AT)));
    for n in 0..count {
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, first.checked_add(n * each)?).ok()?;
        if u32::from_ne_bytes(kind) == INTERPRETER {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_a_dynamic_linker_and_scripts_are_not_static() {
        assert!(!is_static("sh".as_ref()) && !is_static("/bin/sh".as_ref()));
        assert!(!is_static("no such program".as_ref()));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for text in ["", "#!/bin/sh\nexit 0\n", "\x7fELF"] {
            std::fs::write(&file, text).unwrap();
            assert!(!is_static(file.as_os_str()), "{text:?}");
        }
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        let mut header = [0_u8; HEADER_BYTES];
        header[..4].copy_from_slice(b"\x7fELF");
        header[CLASS_AT] = CLASS_64;
        header[TYPE_AT..][..2].copy_from_slice(&3_u16.to_ne_bytes());
        header[PROGRAM_HEADERS_AT..][..8].copy_from_slice(&64_u64.to_ne_bytes());
        header[PROGRAM_HEADER_BYTES_AT..][..2].copy_from_slice(&56_u16.to_ne_bytes());
        header[PROGRAM_HEADERS_COUNT_AT..][..2].copy_from_slice(&2_u16.to_ne_bytes());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for (second, is_static) in [(1_u32, true), (INTERPRETER, false)] {
            let mut all = header.to_vec();
            all.resize(64 + 2 * 56, 0);
            all[64 + 56..][..4].copy_from_slice(&second.to_ne_bytes());
            std::fs::write(&file, &all).unwrap();
            assert_eq!(super::is_static(file.as_os_str()), is_static);
        }
        std::fs::write(&file, header).unwrap();
        assert!(!super::is_static(file.as_os_str()), "its program headers are missing");
    }
}
