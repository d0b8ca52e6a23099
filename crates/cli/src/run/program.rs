//! What a program file is, as far as a library can be preloaded into it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

/// Offsets in the 64-bit ELF header, program headers and section headers ("System V ABI", chapters
/// 4 and 5).
const HEADER_BYTES: usize = 64;
const CLASS_AT: usize = 4;
const CLASS_64: u8 = 2;
const TYPE_AT: usize = 16;
const TYPES_OF_PROGRAMS: [u16; 2] = [2, 3];
const PROGRAM_HEADERS_AT: usize = 32;
const PROGRAM_HEADER_BYTES_AT: usize = 54;
const PROGRAM_HEADERS_COUNT_AT: usize = 56;
const INTERPRETER: u32 = 3;
const OFFSET_IN_PROGRAM_HEADER: u64 = 8;
const SIZE_IN_PROGRAM_HEADER: u64 = 32;
const SECTIONS_AT: usize = 40;
const SECTION_BYTES_AT: usize = 58;
const SECTIONS_COUNT_AT: usize = 60;
const SECTION_OF_NAMES_AT: usize = 62;
const OFFSET_IN_SECTION: u64 = 24;
const SIZE_IN_SECTION: u64 = 32;

/// In each program of Go, also in one without symbols.
const OF_GO: &[u8] = b".go.buildinfo\0";
/// How SQLite describes its schema table to itself, also as Go's translation of it does.
const OF_SQLITE: &[u8] = b"type text,name text,tbl_name text,rootpage int";
const PIECE_BYTES: usize = 1 << 20;
/// `#!` and what Linux reads behind it.
const SCRIPT_BYTES: u64 = 256;

/// In the name of the dynamic linker of musl.
const OF_MUSL: &[u8] = b"ld-musl";

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2010;

/// Why Oneflush cannot be in use in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    Static,
    /// Of 32 bits, or with the other of glibc and musl. The dynamic linker of musl would end it.
    Foreign,
    /// The dynamic linker drops `LD_PRELOAD`, also from what the program starts.
    Privileged,
    /// Opens of Go's own do not go through the C library, so nobody would notice them.
    Go,
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Without::Static => "is linked statically",
            Without::Foreign => "is for another processor or C library",
            Without::Privileged => "is setuid, setgid or has capabilities",
            Without::Go => "is a Go program with SQLite built in",
        })
    }
}

/// None also where it cannot be known. Of a script the interpreter counts.
pub fn without(name: &OsStr) -> Option<Without> {
    let file = find(name)?;
    let file = interpreter_of_script(&file).unwrap_or(file);
    if is_privileged(&file) {
        return Some(Without::Privileged);
    }
    let elf = Elf::open(&file)?;
    if elf.header[CLASS_AT] != CLASS_64 {
        return Some(Without::Foreign);
    }
    let Some(interpreter) = elf.interpreter()? else { return Some(Without::Static) };
    let is_of_musl = contains(&interpreter, OF_MUSL);
    if is_of_musl != cfg!(target_env = "musl") {
        return Some(Without::Foreign);
    }
    (elf.is_of_go() && elf.has(OF_SQLITE)).then_some(Without::Go)
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

fn interpreter_of_script(path: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    BufReader::new(File::open(path).ok()?.take(SCRIPT_BYTES)).read_until(b'\n', &mut line).ok()?;
    let rest = line.strip_prefix(b"#!")?.trim_ascii_start();
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    Some(OsString::from_vec(rest[..end].to_vec()).into())
}

/// True if the program gets rights that this process has not ("secure execution" in `ld.so(8)`).
fn is_privileged(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let is_set = |bits| metadata.mode() & bits == bits;
    let has_capabilities =
        user != 0 && rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 64][..]).is_ok();
    (is_set(SETUID) && metadata.uid() != user
        || is_set(SETGID) && metadata.gid() != group
        || has_capabilities)
        && !rustix::thread::no_new_privs().unwrap_or(false)
        && !rustix::fs::statvfs(path)
            .is_ok_and(|place| place.f_flag.contains(StatVfsMountFlags::NOSUID))
}

struct Elf {
    file: File,
    header: [u8; HEADER_BYTES],
}

impl Elf {
    /// None for what is no program.
    fn open(path: &Path) -> Option<Elf> {
        let file = File::open(path).ok()?;
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).ok()?;
        let elf = Elf { file, header };
        let is_program = header.starts_with(b"\x7fELF")
            && TYPES_OF_PROGRAMS.contains(&(elf.of_two(TYPE_AT) as u16));
        is_program.then_some(elf)
    }

    fn of_two(&self, at: usize) -> u64 {
        u16::from_ne_bytes([self.header[at], self.header[at + 1]]).into()
    }

    fn of_eight(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.header[at..][..8].try_into().expect("eight bytes"))
    }

    fn read<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    /// The dynamic linker that it names, or that it names none. None if its program headers are
    /// damaged.
    fn interpreter(&self) -> Option<Option<Vec<u8>>> {
        let first = self.of_eight(PROGRAM_HEADERS_AT);
        let each = self.of_two(PROGRAM_HEADER_BYTES_AT);
        for n in 0..self.of_two(PROGRAM_HEADERS_COUNT_AT) {
            let header = first.checked_add(n * each)?;
            if u32::from_ne_bytes(self.read(header)?) == INTERPRETER {
                let offset = header.checked_add(OFFSET_IN_PROGRAM_HEADER)?;
                let size = header.checked_add(SIZE_IN_PROGRAM_HEADER)?;
                return self.bytes(offset, size).map(Some);
            }
        }
        Some(None)
    }

    /// The bytes whose offset and size stand at these places.
    fn bytes(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        let word = |at| Some(u64::from_ne_bytes(self.read(at)?));
        let (offset, size) = (word(offset)?, usize::try_from(word(size)?).ok()?);
        let mut bytes = vec![0; Some(size).filter(|size| *size < PIECE_BYTES)?];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    fn is_of_go(&self) -> bool {
        self.names_of_sections().is_some_and(|names| contains(&names, OF_GO))
    }

    fn names_of_sections(&self) -> Option<Vec<u8>> {
        let n = self.of_two(SECTION_OF_NAMES_AT);
        if n >= self.of_two(SECTIONS_COUNT_AT) {
            return None;
        }
        let section = self.of_eight(SECTIONS_AT).checked_add(n * self.of_two(SECTION_BYTES_AT))?;
        let at = |field| section.checked_add(field);
        self.bytes(at(OFFSET_IN_SECTION)?, at(SIZE_IN_SECTION)?)
    }

    fn has(&self, bytes: &[u8]) -> bool {
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        loop {
            let Ok(count) = self.file.read_at(&mut piece, at) else { return false };
            if contains(&piece[..count], bytes) {
                return true;
            }
            if count < bytes.len() {
                return false;
            }
            // A text may stand over the border of two pieces.
            at += (count + 1 - bytes.len()) as u64;
        }
    }
}

fn contains(all: &[u8], bytes: &[u8]) -> bool {
    all.windows(bytes.len()).any(|some| some[0] == bytes[0] && some == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_a_dynamic_linker_and_scripts_are_not_static() {
        for name in ["sh", "/bin/sh", "no such program"] {
            assert_eq!(without(name.as_ref()), None, "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for text in ["", "#!/bin/sh\nexit 0\n", "\x7fELF"] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(without(file.as_os_str()), None, "{text:?}");
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
        for (second, found) in [(1_u32, Some(Without::Static)), (INTERPRETER, None)] {
            let mut all = header.to_vec();
            all.resize(64 + 2 * 56, 0);
            all[64 + 56..][..4].copy_from_slice(&second.to_ne_bytes());
            std::fs::write(&file, &all).unwrap();
            assert_eq!(without(file.as_os_str()), found);
            let script = dir.path().join("script");
            std::fs::write(&script, format!("#! {} -x\n", file.display())).unwrap();
            assert_eq!(without(script.as_os_str()), found, "as the interpreter of a script");
        }
        std::fs::write(&file, header).unwrap();
        assert_eq!(without(file.as_os_str()), None, "its program headers are missing");
    }

    /// `oneflush run` of a program with musl ended with 127: its linker takes a library that it
    /// cannot preload for an error.
    #[test]
    fn a_program_of_another_linker_or_of_32_bits_is_foreign() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let mut all = std::fs::read("/proc/self/exe").unwrap();
        let linker = b"/lib/ld-musl-x86_64.so.1\0";
        let elf = Elf::open(Path::new("/proc/self/exe")).unwrap();
        let own = elf.interpreter().unwrap().unwrap();
        let at = all.windows(own.len()).position(|some| some == own).unwrap();
        all[at..][..linker.len()].copy_from_slice(linker);
        std::fs::write(&file, &all[..]).unwrap();
        let found = (!cfg!(target_env = "musl")).then_some(Without::Foreign);
        assert_eq!(without(file.as_os_str()), found);
        all[CLASS_AT] = 1;
        std::fs::write(&file, &all[..]).unwrap();
        assert_eq!(without(file.as_os_str()), Some(Without::Foreign));
    }
}
