//! The mounts of this program that the process sees, as the kernel lists them.
//!
//! Nothing is asked of a mount itself: its daemon may be dead.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const KIND: &[u8] = b"fuse.oneflush";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As whoever mounted has named it.
    pub lower: PathBuf,
    pub at: PathBuf,
}

/// What is mounted at this place: the last one hides the others.
pub fn at(mountpoint: &Path) -> Option<Seen> {
    let mountpoint = place(mountpoint);
    all().into_iter().rfind(|seen| seen.at == mountpoint)
}

/// Where a directory is mounted, if this process sees that.
pub fn of(lower: &Path) -> Option<Seen> {
    let is_this = |seen: &Seen| seen.lower.canonicalize().is_ok_and(|path| path == lower);
    all().into_iter().rfind(is_this)
}

/// Without links in its path. A dead mount has no answer, but the folder that it is in has.
fn place(mountpoint: &Path) -> PathBuf {
    let absolute = std::path::absolute(mountpoint).unwrap_or_else(|_| mountpoint.to_owned());
    let folder = absolute.parent().and_then(|folder| folder.canonicalize().ok());
    match (absolute.canonicalize(), folder, absolute.file_name()) {
        (Ok(path), ..) => path,
        (_, Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

fn all() -> Vec<Seen> {
    let table = fs::read("/proc/self/mounts").unwrap_or_default();
    table.split(|&byte| byte == b'\n').filter_map(seen).collect()
}

/// `/srv/my\040data /mnt/data fuse.oneflush rw,… 0 0`
fn seen(line: &[u8]) -> Option<Seen> {
    let mut fields = line.split(|&byte| byte == b' ');
    let (lower, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
    (kind == KIND).then(|| Seen { lower: unescaped(lower), at: unescaped(at) })
}

/// Spaces, tabs, line feeds and backslashes stand there as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), field);
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| byte == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &behind[3..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_and_backslashes_is_read_as_it_is() {
        let line = br"/srv/my\040data\134 /mnt/a\011b fuse.oneflush rw,nosuid 0 0";
        let expected = Seen { lower: r"/srv/my data\".into(), at: "/mnt/a\tb".into() };
        assert_eq!(seen(line), Some(expected));
        assert_eq!(seen(b"/dev/sda1 / ext4 rw 0 0"), None);
        assert_eq!(seen(b""), None);
    }
}
