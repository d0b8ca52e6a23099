//! Random operations through the mount and in a plain directory: they must answer the same.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::PathBuf;

use oneflush_testing::named;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};

use crate::common::seen::{Digest, Seen, expect_same};
use crate::common::{Draws, Mount, Sizes};

const STEPS: usize = 6000;
const NAMES: [&str; 12] =
    ["a", "b", "c", "d", "e", "d/a", "d/b", "d/e", "e/a", "e/b", "e/d", "d/e/a"];

/// Random steps, the same from the same seed.
fn steps(seen: &mut Seen, seed: u64) {
    let mut draws = Draws(seed);
    let name = |draws: &mut Draws| NAMES[draws.below(NAMES.len() as u64) as usize];
    let mut open: BTreeMap<u64, File> = BTreeMap::new();
    for step in 0..STEPS {
        let (one, other) = (name(&mut draws), name(&mut draws));
        let (path, to): (PathBuf, PathBuf) = (seen.at(one), seen.at(other));
        let offset = draws.below(200_000);
        let length = 1 << draws.below(17);
        let bytes = vec![b'a' + draws.below(26) as u8; length];
        let slot = draws.below(6);
        let what = draws.below(24);
        let note = format!("{step}: {what} {one} {other} {slot} {offset} {}", bytes.len());
        let done: io::Result<String> = (|| {
            Ok(match what {
                0..=2 => format!("{:?}", fs::write(&path, &bytes)?),
                3 => format!("{:?}", Digest::of(&fs::read(&path)?)),
                4 | 5 => {
                    let file = OpenOptions::new().read(true).write(true).open(&path)?;
                    open.insert(slot, file);
                    "open".to_owned()
                }
                6 => {
                    let mut options = OpenOptions::new();
                    let file = options.read(true).write(true).create_new(true).open(&path)?;
                    open.insert(slot, file);
                    "made".to_owned()
                }
                7 => format!("{}", open.remove(&slot).is_some()),
                8..=10 => match open.get(&slot) {
                    Some(file) => format!("{:?}", file.write_at(&bytes, offset)?),
                    None => "none".to_owned(),
                },
                11 => match open.get(&slot) {
                    Some(file) => {
                        let mut buffer = vec![0; bytes.len()];
                        let read = file.read_at(&mut buffer, offset)?;
                        format!("{:?}", Digest::of(&buffer[..read]))
                    }
                    None => "none".to_owned(),
                },
                12 => match open.get(&slot) {
                    Some(file) => format!("{:?}", file.set_len(offset)?),
                    None => "none".to_owned(),
                },
                13 | 14 => match open.get(&slot) {
                    Some(file) => format!("{:?}", file.sync_all()?),
                    None => "none".to_owned(),
                },
                15 => match open.get(&slot) {
                    Some(file) => {
                        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                        let all = [FallocateFlags::empty(), punch, FallocateFlags::ZERO_RANGE];
                        let flags = all[bytes.len() % 3];
                        format!("{:?}", fallocate(file, flags, offset, bytes.len() as u64)?)
                    }
                    None => "none".to_owned(),
                },
                16 => format!("{:?}", fs::create_dir(&path)?),
                17 => format!("{:?}", fs::remove_dir(&path)?),
                18 => format!("{:?}", fs::remove_file(&path)?),
                19 => format!("{:?}", fs::rename(&path, &to)?),
                20 => {
                    let all = [RenameFlags::EXCHANGE, RenameFlags::NOREPLACE];
                    format!("{:?}", renameat_with(CWD, &path, CWD, &to, all[bytes.len() % 2])?)
                }
                21 => format!("{:?}", fs::hard_link(&path, &to)?),
                22 => format!("{:?}", symlink(other, &path)?),
                _ => {
                    let mode = Permissions::from_mode(0o600 + (offset % 0o200) as u32);
                    format!("{:?}", fs::set_permissions(&path, mode)?)
                }
            })
        })();
        seen.note(&note, done);
        if step % 500 == 499 {
            seen.list("");
            NAMES.iter().for_each(|name| seen.stat(name));
        }
    }
    let sizes: Vec<_> = open.values().map(|file| file.metadata().unwrap().len()).collect();
    seen.note("open files", Ok(sizes));
    NAMES.iter().for_each(|name| seen.contents(name));
}

/// A mount whose log is small, so that epochs end.
fn mounted(test: &str) -> Option<Mount> {
    Mount::with(test, Sizes { log_bytes: Some(4 << 20), ..Sizes::default() })
}

#[test]
fn random_operations_answer_as_in_a_plain_directory() {
    let Some(mut mount) = mounted(named!(random_operations_answer_as_in_a_plain_directory)) else {
        return;
    };
    let plain = mount.beside("plain");
    let seed = oneflush_testing::seed();
    for round in 0..3 {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(round);
        let below = format!("round-{round}");
        let (plain, at) = (plain.join(&below), mount.at.join(&below));
        fs::create_dir_all(&plain).unwrap();
        fs::create_dir(&at).unwrap();
        let (mut wanted, mut seen) = (Seen::in_dir(&plain), Seen::in_dir(&at));
        steps(&mut wanted, seed);
        steps(&mut seen, seed);
        expect_same(&wanted.lines, &seen.lines, format!("seed {seed}"));
        if round == 1 {
            mount.kill();
            mount.start();
        } else if round == 0 {
            mount.unmount();
            mount.start();
        }
        let mut again = Seen::in_dir(&at);
        NAMES.iter().for_each(|name| again.contents(name));
        assert_eq!(wanted.lines[wanted.lines.len() - NAMES.len()..], again.lines, "seed {seed}");
    }
    assert_eq!(mount.stat("poisoned"), 0);
    mount.unmount();
}

#[test]
fn several_at_a_time_answer_as_one_after_another() {
    let Some(mut mount) = mounted(named!(several_at_a_time_answer_as_one_after_another)) else {
        return;
    };
    let plain = mount.beside("plain");
    let seed = oneflush_testing::seed();
    let in_dir = |dir: PathBuf, number: u64| {
        fs::create_dir_all(&dir).unwrap();
        let mut seen = Seen::in_dir(&dir);
        steps(&mut seen, seed ^ number << 32);
        seen.lines
    };
    std::thread::scope(|scope| {
        let (at, in_dir) = (&mount.at, &in_dir);
        let running = (0..4)
            .map(|number| scope.spawn(move || in_dir(at.join(format!("dir-{number}")), number)));
        let running: Vec<_> = running.collect();
        for (number, thread) in running.into_iter().enumerate() {
            let wanted = in_dir(plain.join(format!("dir-{number}")), number as u64);
            let seen = thread.join().unwrap();
            expect_same(&wanted, &seen, format!("seed {seed}, {number}"));
        }
    });
    assert_eq!(mount.stat("poisoned"), 0);
    mount.unmount();
}
