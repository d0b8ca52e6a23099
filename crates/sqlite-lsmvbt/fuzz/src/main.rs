//! Changes bytes of databases, with right checksums, and has `exercise` use them:
//! `oneflush-sqlite-lsmvbt-fuzz EXERCISE FOLDER SECONDS [SEED]`.
//!
//! `FOLDER/base` has the databases. Their copies are in the folder for temporary files. What
//! `exercise` names stays in `FOLDER/found`, and is made again by its seed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

#[path = "../../../mvbt/fuzz/src/checksum.rs"]
#[allow(dead_code, reason = "mvbt's own fuzz targets use more of it")]
mod checksum;
mod damage;

/// So many files for one process.
const BATCH: u64 = 32;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [exercise, folder, seconds, seed @ ..] = &arguments[..] else {
        eprintln!("use: oneflush-sqlite-lsmvbt-fuzz EXERCISE FOLDER SECONDS [SEED]");
        return ExitCode::from(2);
    };
    let seconds = seconds.parse().expect("SECONDS is a number");
    let seed = seed.first().map_or(1, |seed| seed.parse().expect("SEED is a number"));
    let until = Instant::now() + Duration::from_secs(seconds);
    let folder = Path::new(folder);
    let bases = databases(&folder.join("base"));
    let turn = std::env::temp_dir().join(format!("oneflush-fuzz-sql-{}", std::process::id()));
    let found = folder.join("found");
    [&turn, &found].into_iter().for_each(|folder| fs::create_dir_all(folder).expect("a folder"));
    let (mut next, mut count) = (seed, 0);
    while Instant::now() < until {
        let files: Vec<PathBuf> =
            (next..next + BATCH).map(|seed| damaged(&bases, seed, &turn)).collect();
        next += BATCH;
        let output = Command::new(exercise).arg("use").args(&files).output().expect("exercise");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout);
            println!("{said}{}", String::from_utf8_lossy(&output.stderr));
            for file in files.iter().filter(|file| said.contains(&file.display().to_string())) {
                let seed: u64 = file.file_name().unwrap().to_str().unwrap().parse().unwrap();
                println!("kept: {}", damaged(&bases, seed, &found).display());
                count += 1;
            }
        }
        fs::read_dir(&turn).expect("the folder").flatten().for_each(|entry| {
            let _ = fs::remove_file(entry.path());
        });
    }
    let _ = fs::remove_dir_all(&turn);
    println!("{} files from seed {seed} on, {count} found", next - seed);
    if count > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn databases(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("FOLDER/base").map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_none() && !path.to_str().unwrap().contains("-shm"));
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

fn damaged(bases: &[Vec<u8>], seed: u64, folder: &Path) -> PathBuf {
    let mut random = damage::Random::new(seed);
    let mut bytes = bases[random.below(bases.len())].clone();
    damage::damage(&mut bytes, &mut random);
    let path = folder.join(seed.to_string());
    fs::write(&path, bytes).expect("the file is written");
    path
}
