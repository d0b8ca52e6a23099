//! The engines. Each has the same memory for what it has read.

mod fjall;
mod lmdb;
mod redb;
mod rocksdb;

use oneflush_bench::kv::{Engine, Subject};

/// For pages or blocks that were read. LMDB has the kernel's.
const MEMORY_BYTES: u64 = 512 << 20;

/// A key whose bytes are in the order of its numbers.
fn bytes_of(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// How long a value is, after it was copied. The others hand out copies, too. Without one the value
/// would not even be read.
fn copied(value: &[u8]) -> usize {
    std::hint::black_box(value.to_vec()).len()
}

/// All of them. The first one is ours.
pub fn all() -> Vec<Box<dyn Engine>> {
    let subject = |word: &str| -> Box<dyn Engine> {
        let subject: Subject = word.parse().expect("these words are subjects");
        subject.engine(word, Some(MEMORY_BYTES))
    };
    vec![
        subject("mvbt"),
        subject("wal:sqlite"),
        Box::new(lmdb::Lmdb),
        Box::new(redb::Redb),
        Box::new(fjall::Fjall),
        Box::new(rocksdb::RocksDb),
    ]
}

#[cfg(test)]
mod tests {
    use oneflush_bench::kv::Change;

    use super::*;

    #[test]
    fn every_engine_keeps_what_it_committed_and_forgets_what_it_deleted() {
        for engine in all() {
            let directory = tempfile::tempdir().unwrap();
            let mut store = engine.create(directory.path()).unwrap();
            let puts: Vec<Change> = (0..1000).rev().map(Change::Put).collect();
            store.commit(&puts, &[1; 100]).unwrap();
            store.commit(&[Change::Put(7)], &[2; 50]).unwrap();
            store.commit(&[Change::Delete(8), Change::Put(2000)], &[3; 10]).unwrap();
            store.settle().unwrap();
            store.close().unwrap();
            let mut store = engine.open(directory.path()).unwrap();
            let name = engine.name();
            assert_eq!(store.get(6).unwrap(), Some(100), "{name}");
            assert_eq!(store.get(7).unwrap(), Some(50), "{name}");
            assert_eq!(store.get(8).unwrap(), None, "{name}");
            assert_eq!(store.get(2000).unwrap(), Some(10), "{name}");
            assert_eq!(store.scan().unwrap(), 1000, "{name}");
        }
    }
}
