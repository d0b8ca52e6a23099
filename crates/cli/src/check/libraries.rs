//! The SQLites in the memory of a process, by the files that it has mapped to run them
//! (`/proc/PID/maps`).
//!
//! A file that many processes have mapped is read once.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::version::{Content, Version};

/// No program is larger, and no file is read further.
const FILE_BYTES_MAX: u64 = 1 << 30;

const DELETED: &str = " (deleted)";

/// A file with a part that can be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    /// The addresses, as a name in `/proc/PID/map_files`.
    range: String,
    device: String,
    inode: u64,
    path: String,
}

/// What a process has mapped.
#[derive(Debug, Default)]
pub struct Found {
    /// Each file with a SQLite: its name and the version.
    pub sqlites: Vec<(String, Version)>,
    pub has_oneflush: bool,
    /// The name of a file that may have one, and cannot be read.
    pub unread: Option<String>,
}

#[derive(Default)]
pub struct Libraries {
    /// By device and inode.
    known: HashMap<(String, u64), Option<Content>>,
}

impl Libraries {
    pub fn of_process(&mut self, pid: u32) -> io::Result<Found> {
        let maps = fs::read(format!("/proc/{pid}/maps"))?;
        let mut found = Found::default();
        for file in mapped(&String::from_utf8_lossy(&maps)) {
            let key = (file.device.clone(), file.inode);
            let content = self.known.entry(key).or_insert_with(|| content(pid, &file));
            let path = file.path.trim_end_matches(DELETED);
            let name = path.rsplit('/').next().unwrap_or_default();
            match content {
                Some(content) => {
                    found.has_oneflush |= content.has_oneflush;
                    found.sqlites.extend(content.sqlite.clone().map(|one| (name.to_owned(), one)));
                }
                None if name.contains("sqlite") => found.unread = Some(name.to_owned()),
                None => {}
            }
        }
        Ok(found)
    }
}

/// Each file once.
fn mapped(maps: &str) -> Vec<Mapped> {
    let mut files: Vec<Mapped> = Vec::new();
    for file in maps.lines().filter_map(line) {
        if !files.iter().any(|known| (&known.device, known.inode) == (&file.device, file.inode)) {
            files.push(file);
        }
    }
    files
}

/// A line such as `7f25602-7f25604 r-xp 00001000 fe:00 1014 /usr/lib/libsqlite3.so.0`.
fn line(line: &str) -> Option<Mapped> {
    let mut words = line.splitn(6, ' ');
    let (range, rights) = (words.next()?, words.next()?);
    let (_, device, inode) = (words.next()?, words.next()?, words.next()?);
    let path = words.next()?.trim_start();
    (rights.contains('x') && path.starts_with('/')).then(|| Mapped {
        range: range.to_owned(),
        device: device.to_owned(),
        inode: inode.parse().unwrap_or_default(),
        path: path.to_owned(),
    })
}

/// None: it cannot be read.
fn content(pid: u32, file: &Mapped) -> Option<Content> {
    // The first is the file itself, also if its name is gone; root alone may open it. The program
    // may be opened by each who may look at the maps.
    let mut names = vec![format!("/proc/{pid}/map_files/{}", file.range)];
    if !file.path.ends_with(DELETED) {
        names.push(format!("/proc/{pid}/root{}", file.path));
    } else if fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|program| program == Path::new(&file.path))
    {
        names.push(format!("/proc/{pid}/exe"));
    }
    names.iter().find_map(|name| read(Path::new(name)).ok()).map(|bytes| Content::of(&bytes))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // To open a device may do something, and to open a pipe may wait.
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_can_be_executed_are_found_once_whatever_their_names() {
        let maps = "\
            7f00-7f01 r--p 00000000 fe:00 12   /lib/a.so\n\
            7f01-7f02 r-xp 00001000 fe:00 12   /lib/a.so\n\
            7f03-7f04 r-xp 00001000 fe:00 12   /lib/a.so\n\
            7f05-7f06 r-xp 00001000 fe:00 13   /lib/with space/b.so (deleted)\n\
            7f07-7f08 rw-s 00000000 fe:00 14   /d/a.db-shm\n\
            7f09-7f0a r-xp 00000000 00:00 0    [vdso]\n\
            7f0b-7f0c rwxp 00000000 00:00 0 \n\
            garbage\n";
        let found = mapped(maps);
        let names: Vec<(&str, u64)> =
            found.iter().map(|file| (file.path.as_str(), file.inode)).collect();
        assert_eq!(names, [("/lib/a.so", 12), ("/lib/with space/b.so (deleted)", 13)]);
        assert_eq!(found[0].range, "7f01-7f02");
    }

    /// It has the SQLite of both engines. Which one is not told here: the tests have versions too.
    #[test]
    fn this_program_has_one_sqlite_and_oneflush() {
        let found = Libraries::default().of_process(std::process::id()).unwrap();
        assert_eq!(found.sqlites.len(), 1, "{:?}", found.sqlites);
        assert!(found.has_oneflush && found.unread.is_none());
    }
}
