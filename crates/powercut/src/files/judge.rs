//! What a state has of the plain files, against what the notes say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::script::{BLOCK_BYTES, DIRECTORIES, FileNo, Script, Tree, block, version_of};
use super::{PROCESSES, directory_of};

/// The files of all processes, up to a cut.
pub struct Files {
    seed: u64,
    processes: Vec<Process>,
}

struct Process {
    script: Script,
    /// So many steps were begun, have returned, and are covered by a sync (F1).
    begun: usize,
    done: usize,
    covered: usize,
    /// What the sync that was begun last covers, of each process.
    covers: Vec<usize>,
    /// The syncs of files that have returned.
    synced: BTreeSet<usize>,
}

/// A file that a state has.
struct Found {
    inode: u64,
    bytes: Vec<u8>,
}

impl Files {
    pub fn new(seed: u64) -> Files {
        let process = |number| Process {
            script: Script::draw(seed, number),
            begun: 0,
            done: 0,
            covered: 0,
            covers: vec![0; PROCESSES],
            synced: BTreeSet::new(),
        };
        Files { seed, processes: (0..PROCESSES).map(process).collect() }
    }

    /// A step was begun, or has returned.
    pub fn follow(&mut self, number: usize, step: usize, is_done: bool) -> Result<(), String> {
        let covers: Vec<usize> = self.processes.iter().map(|process| process.done).collect();
        let process = self.processes.get_mut(number);
        let process = process.filter(|process| step < process.script.steps.len());
        let Some(process) = process else {
            return Err(format!("plain files: step {step} of process {number} is not known"));
        };
        let is_sync = process.script.steps[step].is_sync();
        if !is_done {
            process.begun = step + 1;
            process.covers = covers;
            return Ok(());
        }
        process.done = step + 1;
        if is_sync {
            if process.script.synced_by(step).is_some() {
                process.synced.insert(step);
            }
            let covers = process.covers.clone();
            for (process, covers) in self.processes.iter_mut().zip(covers) {
                process.covered = process.covered.max(covers);
            }
        }
        Ok(())
    }

    /// Says what is wrong with the files below this directory, if anything.
    pub fn judge(&self, directory: &Path) -> Result<(), String> {
        for (number, process) in self.processes.iter().enumerate() {
            read(&directory.join(directory_of(number)))
                .map_err(|error| error.to_string())
                .and_then(|found| process.judge(&found, self.seed, number))
                .map_err(|error| format!("plain files, process {number}: {error}"))?;
        }
        Ok(())
    }
}

impl Process {
    fn judge(
        &self,
        found: &BTreeMap<String, Found>,
        seed: u64,
        number: usize,
    ) -> Result<(), String> {
        let has_names = |after: &usize| self.script.trees[*after].keys().eq(found.keys());
        let mut objection = None;
        for after in (self.covered..=self.begun).filter(has_names) {
            match self.contents(found, after, seed, number) {
                Ok(()) => return Ok(()),
                Err(message) => objection = Some(format!("names as after step {after}: {message}")),
            }
        }
        Err(objection.unwrap_or_else(|| {
            let names: Vec<&String> = found.keys().collect();
            format!(
                "what was synced is lost: no moment from step {}, which a sync covers, to {} has \
                    these names: {names:?}; the first has {:?}",
                self.covered,
                self.begun,
                self.script.trees[self.covered].keys().collect::<Vec<_>>()
            )
        }))
    }

    /// F2 to F4, with the names that were there after so many steps.
    fn contents(
        &self,
        found: &BTreeMap<String, Found>,
        after: usize,
        seed: u64,
        number: usize,
    ) -> Result<(), String> {
        let tree: &Tree = &self.script.trees[after];
        let mut inodes: BTreeMap<FileNo, u64> = BTreeMap::new();
        for ((name, file), found) in tree.iter().zip(found.values()) {
            if *inodes.entry(*file).or_insert(found.inode) != found.inode {
                return Err(format!("{name} is no link to file {file} any more"));
            }
            let content = |block_no, version| block(seed, number, *file, block_no, version);
            self.content(*file, after, &found.bytes, content)
                .map_err(|error| format!("{name}, file {file}: {error}"))?;
        }
        Ok(())
    }

    fn content(
        &self,
        file: FileNo,
        after: usize,
        bytes: &[u8],
        content: impl Fn(u32, usize) -> [u8; BLOCK_BYTES],
    ) -> Result<(), String> {
        let synced = self.synced.iter().filter(|step| self.script.synced_by(**step) == Some(file));
        let replaced = (0..after).filter(|step| self.script.replaces_in(*step) == Some(file));
        let durable_before = synced.copied().chain(replaced).max().unwrap_or(0);
        let writes: Vec<_> =
            self.script.writes(file).filter(|(step, ..)| *step < self.begun).collect();
        let end = writes.iter().map(|(_, first, count)| first + count).max().unwrap_or(0);
        if !bytes.len().is_multiple_of(BLOCK_BYTES) || bytes.len() > end as usize * BLOCK_BYTES {
            return Err(format!("it has {} bytes, where {end} blocks were written", bytes.len()));
        }
        for number in 0..end {
            let here = || {
                writes.iter().filter(|(_, first, count)| (*first..first + count).contains(&number))
            };
            let least = here().map(|(step, ..)| *step).filter(|step| *step < durable_before).max();
            let at = number as usize * BLOCK_BYTES;
            let found = bytes.get(at..at + BLOCK_BYTES).unwrap_or(&[]);
            let Some(version) = version_of(found) else {
                match least {
                    None => continue,
                    Some(least) => {
                        return Err(format!(
                            "what was synced is lost: block {number} is empty, where step {least} \
                                wrote before step {durable_before} made it durable"
                        ));
                    }
                }
            };
            if !here().any(|(step, ..)| *step == version) || found != content(number, version) {
                return Err(format!("block {number} has what nobody wrote there"));
            }
            if let Some(least) = least.filter(|least| version < *least) {
                return Err(format!(
                    "what was synced is lost: block {number} is of step {version}, where step \
                        {least} wrote before step {durable_before} made it durable"
                ));
            }
        }
        Ok(())
    }
}

/// All files of a process.
fn read(directory: &Path) -> io::Result<BTreeMap<String, Found>> {
    let mut all = BTreeMap::new();
    for name in DIRECTORIES {
        let entries = match fs::read_dir(directory.join(name)) {
            // Then it has lost everything.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let found = Found { inode: entry.metadata()?.ino(), bytes: fs::read(entry.path())? };
            all.insert(format!("{name}/{}", entry.file_name().to_string_lossy()), found);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::script::Step;
    use super::*;

    const SEED: u64 = 3;

    /// What a file system that loses nothing has after so many steps.
    fn kept(script: &Script, after: usize) -> BTreeMap<String, Found> {
        let mut contents: BTreeMap<FileNo, Vec<u8>> = BTreeMap::new();
        for number in 0..after {
            let Step::Write { name, first, count } = &script.steps[number] else { continue };
            let file = script.trees[number][name];
            let bytes = contents.entry(file).or_default();
            let (start, end) =
                (*first as usize * BLOCK_BYTES, (first + count) as usize * BLOCK_BYTES);
            bytes.resize(bytes.len().max(end), 0);
            for block_no in *first..first + count {
                let at = block_no as usize * BLOCK_BYTES - start;
                bytes[start + at..start + at + BLOCK_BYTES]
                    .copy_from_slice(&block(SEED, 0, file, block_no, number));
            }
        }
        let tree = &script.trees[after];
        let found = |file: &FileNo| Found {
            inode: *file as u64,
            bytes: contents.get(file).cloned().unwrap_or_default(),
        };
        tree.iter().map(|(name, file)| (name.clone(), found(file))).collect()
    }

    fn followed(steps: usize) -> Files {
        let mut files = Files::new(SEED);
        for step in 0..steps {
            files.follow(0, step, false).unwrap();
            files.follow(0, step, true).unwrap();
        }
        files
    }

    fn judged(files: &Files, found: &BTreeMap<String, Found>) -> Result<(), String> {
        files.processes[0].judge(found, SEED, 0)
    }

    #[test]
    fn a_state_that_loses_nothing_is_right_and_one_without_a_synced_name_is_not() {
        let script = Script::draw(SEED, 0);
        for steps in (1..script.steps.len()).step_by(7) {
            let files = followed(steps);
            judged(&files, &kept(&script, steps)).unwrap();
            let covered = files.processes[0].covered;
            judged(&files, &kept(&script, covered)).unwrap();
            let earlier = (0..covered).rev().find(|after| {
                (covered..=steps)
                    .all(|now| !script.trees[now].keys().eq(script.trees[*after].keys()))
            });
            if let Some(earlier) = earlier {
                assert!(judged(&files, &kept(&script, earlier)).is_err());
            }
        }
    }

    #[test]
    fn what_was_written_before_a_sync_must_be_there_and_what_came_behind_need_not() {
        let script = Script::draw(SEED, 0);
        let is_written = |step: usize| {
            script.synced_by(step).filter(|file| script.writes(*file).any(|(at, ..)| at < step))
        };
        let step = (0..script.steps.len()).find(|step| is_written(*step).is_some()).unwrap();
        let file = is_written(step).unwrap();
        let mut found = kept(&script, step + 1);
        for found in found.values_mut().filter(|found| found.inode == file as u64) {
            found.bytes.clear();
        }
        let mut files = followed(step);
        judged(&files, &found).unwrap();
        files.follow(0, step, false).unwrap();
        judged(&files, &found).unwrap();
        files.follow(0, step, true).unwrap();
        let message = judged(&files, &found).unwrap_err();
        assert!(message.contains("what was synced is lost"), "{message}");
    }

    #[test]
    fn a_sync_covers_what_another_process_had_done_before_it() {
        let mut files = followed(1);
        assert_eq!(files.processes[0].covered, 0);
        let sync = files.processes[1].script.steps.iter().position(Step::is_sync).unwrap();
        files.follow(1, sync, false).unwrap();
        files.follow(0, 1, false).unwrap();
        files.follow(0, 1, true).unwrap();
        files.follow(1, sync, true).unwrap();
        assert_eq!(files.processes[0].covered, 1);
    }
}
