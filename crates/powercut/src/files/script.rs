//! What a process does with its files, and what must be there after each step.

use std::collections::BTreeMap;

use fastrand::Rng;

/// Written at once by every device. So a block is of one write.
pub const BLOCK_BYTES: usize = 512;

/// In which files are, and between which they are renamed.
pub const DIRECTORIES: [&str; 2] = ["a", "b"];

/// Each has two notes, for which there is room of `NOTES_MIB` (`work.rs`).
pub const STEPS: usize = 250;

/// A process has no more at once.
const FILES_MAX: usize = 12;

/// Beyond what a sync leaves to the file system below (400 KiB).
const BLOCKS_LARGE: u32 = 1000;
const BLOCKS_MAX: u32 = 1600;

/// The step that made a file is its number.
pub type FileNo = usize;

/// The names of one moment.
pub type Tree = BTreeMap<String, FileNo>;

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Make { name: String },
    Write { name: String, first: u32, count: u32 },
    Sync { name: String },
    SyncDirectory { name: &'static str },
    Rename { from: String, to: String },
    Link { from: String, to: String },
    Remove { name: String },
}

impl Step {
    pub fn is_sync(&self) -> bool {
        matches!(self, Step::Sync { .. } | Step::SyncDirectory { .. })
    }
}

/// All steps of a process.
pub struct Script {
    pub steps: Vec<Step>,
    /// The names after so many steps: one more than there are steps.
    pub trees: Vec<Tree>,
}

impl Script {
    pub fn draw(seed: u64, process: usize) -> Script {
        let mut rng = Rng::with_seed(seed ^ (process as u64 + 1) << 40);
        let mut script = Script { steps: Vec::new(), trees: vec![Tree::new()] };
        let mut sizes = BTreeMap::new();
        while script.steps.len() < STEPS {
            let number = script.steps.len();
            let mut tree = script.trees[number].clone();
            let step = step(number, &tree, &sizes, &mut rng);
            match &step {
                Step::Make { name } => {
                    tree.insert(name.clone(), number);
                    sizes.insert(number, 0);
                }
                Step::Write { name, first, count } => {
                    let size = sizes.entry(tree[name]).or_insert(0);
                    *size = (*size).max(first + count);
                }
                Step::Rename { from, to } => {
                    if let Some(file) = tree.remove(from) {
                        tree.insert(to.clone(), file);
                    }
                }
                Step::Link { from, to } => {
                    tree.insert(to.clone(), tree[from]);
                }
                Step::Remove { name } => {
                    tree.remove(name);
                }
                Step::Sync { .. } | Step::SyncDirectory { .. } => {}
            }
            script.steps.push(step);
            script.trees.push(tree);
        }
        script
    }

    /// The writes to a file: each one's step, first block and number of blocks.
    pub fn writes(&self, file: FileNo) -> impl Iterator<Item = (usize, u32, u32)> {
        self.steps.iter().enumerate().filter_map(move |(number, step)| match step {
            Step::Write { name, first, count } if self.trees[number].get(name) == Some(&file) => {
                Some((number, *first, *count))
            }
            _ => None,
        })
    }

    /// The file that a step syncs, if it syncs one.
    pub fn synced_by(&self, step: usize) -> Option<FileNo> {
        match &self.steps[step] {
            Step::Sync { name } => self.trees[step].get(name).copied(),
            _ => None,
        }
    }

    /// The file that takes the place of another in this step.
    pub fn replaces_in(&self, step: usize) -> Option<FileNo> {
        match &self.steps[step] {
            Step::Rename { from, to } if self.trees[step].contains_key(to) => {
                self.trees[step].get(from).copied()
            }
            _ => None,
        }
    }
}

fn step(number: usize, tree: &Tree, sizes: &BTreeMap<FileNo, u32>, rng: &mut Rng) -> Step {
    let names: Vec<&String> = tree.keys().collect();
    let new = |rng: &mut Rng| format!("{}/f{number}", DIRECTORIES[rng.usize(..2)]);
    if names.is_empty() {
        return Step::Make { name: new(rng) };
    }
    let name = |rng: &mut Rng| names[rng.usize(..names.len())].clone();
    match rng.u8(..100) {
        0..15 if names.len() < FILES_MAX => Step::Make { name: new(rng) },
        0..50 => {
            let name = name(rng);
            let size = sizes.get(&tree[&name]).copied().unwrap_or(0);
            // Over what is there, behind it, or both.
            let first = if rng.bool() { size } else { rng.u32(..=size) };
            let most = if rng.u8(..12) == 0 { BLOCKS_LARGE } else { 40 };
            let count = rng.u32(most / 2..=most).max(1);
            let first = first.min(BLOCKS_MAX - count);
            Step::Write { name, first, count }
        }
        50..70 => Step::Sync { name: name(rng) },
        70..74 => Step::SyncDirectory { name: DIRECTORIES[rng.usize(..2)] },
        74..88 => {
            let (from, to) = (name(rng), name(rng));
            // Over itself, or another name of itself, a rename does nothing.
            let is_new = rng.bool() || tree[&from] == tree[&to];
            Step::Rename { from, to: if is_new { new(rng) } else { to } }
        }
        88..93 if names.len() < FILES_MAX => Step::Link { from: name(rng), to: new(rng) },
        _ => Step::Remove { name: name(rng) },
    }
}

/// What the step `version` of a process writes into one block of a file.
pub fn block(
    seed: u64,
    process: usize,
    file: FileNo,
    number: u32,
    version: usize,
) -> [u8; BLOCK_BYTES] {
    let of = [process as u64, file as u64, u64::from(number), version as u64];
    let seed = of.iter().fold(seed, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut rng = Rng::with_seed(seed);
    let mut block = [0; BLOCK_BYTES];
    // Many files are zeros for the most part, and the log packs those.
    let filled = if rng.bool() { BLOCK_BYTES } else { rng.usize(16..BLOCK_BYTES) };
    rng.fill(&mut block[..filled]);
    block[..4].copy_from_slice(&(version as u32 + 1).to_le_bytes());
    block
}

/// The step that a block says it is of. `None`: it is empty.
pub fn version_of(block: &[u8]) -> Option<usize> {
    let word = block.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
    (word != 0 || block.iter().any(|byte| *byte != 0)).then(|| (word as usize).wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_kind_of_step_is_drawn_and_names_are_there() {
        let script = Script::draw(7, 0);
        assert_eq!(script.steps.len(), STEPS);
        let mut kinds = HashMap::new();
        let mut replaced = 0;
        for (number, step) in script.steps.iter().enumerate() {
            let before = &script.trees[number];
            *kinds.entry(std::mem::discriminant(step)).or_insert(0) += 1;
            replaced += usize::from(script.replaces_in(number).is_some());
            match step {
                Step::Make { name } => assert!(!before.contains_key(name)),
                Step::Write { name, first, count } => {
                    assert!(before.contains_key(name) && first + count <= BLOCKS_MAX);
                }
                Step::Sync { name } | Step::Remove { name } => assert!(before.contains_key(name)),
                Step::Rename { from, to } => {
                    assert_ne!(before.get(from), before.get(to));
                }
                Step::Link { from, to } => {
                    assert!(before.contains_key(from) && !before.contains_key(to));
                }
                Step::SyncDirectory { .. } => {}
            }
        }
        assert_eq!(kinds.len(), 7, "{kinds:?}");
        assert!(replaced > 5, "{replaced}");
    }

    #[test]
    fn a_block_says_which_step_wrote_it() {
        let written = block(1, 2, 3, 4, 5);
        assert_eq!(version_of(&written), Some(5));
        assert_ne!(written, block(1, 2, 3, 5, 5));
        assert_eq!(version_of(&[0; BLOCK_BYTES]), None);
    }
}
