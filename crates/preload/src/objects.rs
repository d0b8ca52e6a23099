//! The program and its libraries, as the dynamic linker has loaded them: where they lie, which
//! functions of SQLite they have, and which they refer to.
//!
//! Nothing here asks the linker for more than the list (`dl_iterate_phdr`). `dlsym()` answers in
//! the scope of some object, and the question is which object a function is in. Where objects are
//! of 32 bits, they have no functions and refer to none.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// "System V ABI", chapters 4 and 5.
const DYNAMIC: u32 = 2;
const LOAD: u32 = 1;
const RELRO: u32 = 0x6474_e552;
const WRITABLE: u32 = 2;
const READABLE: u32 = 4;
const TAG_JUMP_BYTES: usize = 2;
const TAG_HASH: usize = 4;
const TAG_STRINGS: usize = 5;
const TAG_SYMBOLS: usize = 6;
const TAG_RELOCATIONS: usize = 7;
const TAG_RELOCATION_BYTES: usize = 8;
const TAG_JUMPS: usize = 23;
const TAG_GNU_HASH: usize = 0x6fff_fef5;

#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

struct Segment {
    at: Range<usize>,
    flags: u32,
}

pub struct Object {
    /// As the linker has it: empty for the program.
    name: CString,
    base: usize,
    /// What of the file is mapped, without the zeros behind it.
    segments: Vec<Segment>,
    end: usize,
    dynamic: *const [usize; 2],
    /// What the linker has write-protected.
    relro: Range<usize>,
}

/// A word of an object that has the address of a function of SQLite, once it is bound.
pub struct Reference {
    pub name: &'static CStr,
    word: *mut usize,
}

impl Reference {
    pub fn value(&self) -> usize {
        // SAFETY: the linker has written, and may be writing, this aligned word of the object.
        unsafe { self.word.read_volatile() }
    }
}

/// All objects, the program first.
pub fn all() -> Vec<Object> {
    let mut all: Vec<Object> = Vec::new();
    // SAFETY: `add` gets the list it is made for, and calls nothing that takes the linker's locks.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut all).cast()) };
    all
}

unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, all: *mut c_void) -> c_int {
    // SAFETY: `all()` passes the list, the linker what it has of an object; the name ends with a
    // NUL, and there are as many headers as it says.
    let (all, info, name, headers) = unsafe {
        let info = &*info;
        let name = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        (&mut *all.cast::<Vec<Object>>(), info, name, headers)
    };
    let base = info.dlpi_addr as usize;
    let mut object = Object {
        name: name.to_owned(),
        base,
        segments: Vec::new(),
        end: 0,
        dynamic: std::ptr::null(),
        relro: 0..0,
    };
    for header in headers {
        let from = base.wrapping_add(header.p_vaddr as usize);
        match header.p_type {
            LOAD => {
                let at = from..from + header.p_filesz as usize;
                object.segments.push(Segment { at, flags: header.p_flags });
                object.end = object.end.max(from + header.p_memsz as usize);
            }
            DYNAMIC => object.dynamic = from as *const [usize; 2],
            RELRO => object.relro = from..from + header.p_memsz as usize,
            _ => {}
        }
    }
    all.push(object);
    0
}

impl Object {
    pub fn range(&self) -> Range<usize> {
        let from = self.segments.iter().map(|segment| segment.at.start).min().unwrap_or(0);
        from..self.end
    }

    pub fn contains(&self, address: usize) -> bool {
        self.range().contains(&address)
    }

    /// For `dlopen()`: the program has no name there.
    pub fn name(&self) -> Option<&CStr> {
        (!self.name.is_empty()).then_some(&self.name)
    }

    pub fn path(&self) -> PathBuf {
        match self.name() {
            Some(name) => Path::new(OsStr::from_bytes(name.to_bytes())).to_owned(),
            None => std::env::current_exe().unwrap_or_default(),
        }
    }

    /// True if these bytes stand in what is only read of the object.
    pub fn has_bytes(&self, bytes: &[u8]) -> bool {
        let only_read = |segment: &&Segment| segment.flags & (READABLE | WRITABLE) == READABLE;
        self.segments.iter().filter(only_read).any(|segment| {
            let start = segment.at.start as *const c_void;
            // SAFETY: the segment is mapped for reading as long as its object is loaded, and the
            // caller's code is running in it.
            let found = unsafe {
                libc::memmem(start, segment.at.len(), bytes.as_ptr().cast(), bytes.len())
            };
            !found.is_null()
        })
    }

    /// The address that a tag of the dynamic section has. Some linkers leave it relative.
    fn address(&self, tag: usize) -> Option<usize> {
        self.tag(tag).map(|value| if value < self.base { value + self.base } else { value })
    }

    fn tag(&self, tag: usize) -> Option<usize> {
        if self.dynamic.is_null() || cfg!(not(target_pointer_width = "64")) {
            return None;
        }
        (0..)
            // SAFETY: the section is an array that ends with tag 0.
            .map(|n| unsafe { *self.dynamic.add(n) })
            .take_while(|[tag, _]| *tag != 0)
            .find(|[found, _]| *found == tag)
            .map(|[_, value]| value)
    }

    /// Its symbols by their numbers.
    fn symbols(&self) -> Option<impl Fn(usize) -> (Symbol, &'static CStr)> {
        let (symbols, strings) = (self.address(TAG_SYMBOLS)?, self.address(TAG_STRINGS)?);
        // SAFETY: the numbers are from the object's own tables, and names end with a NUL.
        Some(move |n| unsafe {
            let symbol = *(symbols as *const Symbol).add(n);
            (symbol, CStr::from_ptr((strings + symbol.name as usize) as *const _))
        })
    }

    fn count_of_symbols(&self) -> Option<usize> {
        if let Some(hash) = self.address(TAG_HASH) {
            // SAFETY: the table begins with the numbers of buckets and of symbols.
            return Some(unsafe { *(hash as *const u32).add(1) } as usize);
        }
        let hash = self.address(TAG_GNU_HASH)? as *const u32;
        // SAFETY: the table has four words, a filter of 64-bit words, buckets, and a chain that is
        // marked at the end of each bucket.
        unsafe {
            let [buckets, first, filter] = [0, 1, 2].map(|n| *hash.add(n) as usize);
            let start = hash.add(4 + 2 * filter);
            let mut last = (0..buckets).map(|n| *start.add(n) as usize).max()?;
            if last < first {
                return Some(first);
            }
            while *start.add(buckets + last - first) & 1 == 0 {
                last += 1;
            }
            Some(last + 1)
        }
    }

    /// The function of this name that stands in this object itself.
    pub fn function(&self, name: &CStr) -> Option<usize> {
        let symbol = self.symbols()?;
        (1..self.count_of_symbols()?).find_map(|n| {
            let (symbol, found) = symbol(n);
            let is_it = symbol.section != 0 && symbol.value != 0 && found == name;
            is_it.then(|| self.base + symbol.value as usize)
        })
    }

    /// Where the object refers to functions of SQLite, also to its own by name.
    pub fn references(&self) -> Vec<Reference> {
        let tables = [(TAG_JUMPS, TAG_JUMP_BYTES), (TAG_RELOCATIONS, TAG_RELOCATION_BYTES)];
        let mut all = Vec::new();
        let Some(symbol) = self.symbols() else { return all };
        for (table, bytes) in tables {
            let (Some(table), Some(bytes)) = (self.address(table), self.tag(bytes)) else {
                continue;
            };
            let count = bytes / size_of::<Relocation>();
            // SAFETY: the object has a table of so many bytes there.
            let relocations =
                unsafe { std::slice::from_raw_parts(table as *const Relocation, count) };
            for relocation in relocations {
                let n = (relocation.info >> 32) as usize;
                if n == 0 {
                    continue;
                }
                let (_, name) = symbol(n);
                if name.to_bytes().starts_with(b"sqlite3_") {
                    let word = (self.base + relocation.offset as usize) as *mut usize;
                    all.push(Reference { name, word });
                }
            }
        }
        all
    }

    /// Writes a function's address where the object refers to it. Leaves it where that cannot be.
    /// One thread at a time.
    pub fn bind(&self, reference: &Reference, function: usize) {
        let word = reference.word as usize;
        let in_segment = |segment: &Segment| {
            segment.flags & WRITABLE != 0
                && segment.at.contains(&word)
                && word.is_multiple_of(size_of::<usize>())
        };
        if !self.segments.iter().any(in_segment) {
            return;
        }
        // SAFETY: has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let page = |address: usize| address / page_bytes * page_bytes;
        let is_protected = (page(self.relro.start)..page(self.relro.end)).contains(&word);
        let protect = |protection| {
            // SAFETY: the page belongs to the object, and keeps the right to be read.
            !is_protected
                || unsafe { libc::mprotect(page(word) as *mut c_void, page_bytes, protection) } == 0
        };
        if protect(libc::PROT_READ | libc::PROT_WRITE) {
            // SAFETY: an aligned word, which may be written now; the function is of the type of the
            // one that it replaces.
            unsafe { reference.word.write_volatile(function) };
            protect(libc::PROT_READ);
        }
    }
}
