//! Files that nobody has written: any contents, with right checksums.

use oneflush_mvbt::{Database, Options, Read, TreeId};

use super::Memory;

pub const PAGES_AT: usize = 40_960;

/// A directory, and the cells that it lists by their index.
#[derive(Clone, Default)]
pub struct Directory {
    pub version: u64,
    pub flags: u8,
    pub height: u8,
    pub floor: u64,
    pub live: Vec<usize>,
    /// Each with its rank and its end.
    pub dead: Vec<(usize, u16, u64)>,
}

pub struct Forge {
    pub bytes: Vec<u8>,
    pub page_bytes: usize,
    /// An integer tree with one leaf, which is its root, and a record tree like it.
    pub tree: TreeId,
    pub root: u64,
    pub records: TreeId,
    pub records_root: u64,
}

pub fn leaf_cell(key: u8, payload: &[u8]) -> Vec<u8> {
    let mut cell = vec![1, 0, 0, 0, 0, 0, payload.len() as u8, key * 2];
    cell.extend_from_slice(payload);
    cell
}

/// A cell of a leaf of an integer tree, with an overflow page.
pub fn long_cell(key: u8, length: u64, local: usize, overflow: u64) -> Vec<u8> {
    let mut cell = vec![1, 0, 0, 0, 0, 0];
    let mut rest = length;
    while rest >= 0x80 {
        cell.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    cell.extend([rest as u8, key * 2]);
    cell.resize(cell.len() + local, 7);
    cell.extend_from_slice(&overflow.to_le_bytes()[..6]);
    cell
}

pub fn child_cell(key: u8, child: u64) -> Vec<u8> {
    let mut cell = vec![1, 0, 0, 0, 0, 0];
    cell.extend_from_slice(&child.to_le_bytes()[..6]);
    cell.push(key * 2);
    cell
}

impl Forge {
    pub fn new(page_bytes: usize) -> Forge {
        let mut options = Options::default();
        options.page_bytes = page_bytes;
        let memory = Memory::default();
        let db = memory.create(options).unwrap();
        let mut txn = db.begin_write().unwrap();
        let (tree, records) = (txn.create_tree(false).unwrap(), txn.create_tree(true).unwrap());
        txn.insert(tree, 1, b"one").unwrap();
        txn.insert_record(records, b"one", &|stored| stored.cmp(b"one")).unwrap();
        let [root, records_root] = [tree, records].map(|tree| txn.tree(tree).unwrap().root.0);
        txn.commit().unwrap();
        db.close().unwrap();
        Forge { bytes: memory.bytes(), page_bytes, tree, root, records, records_root }
    }

    pub fn open(&self) -> Database {
        Memory::of(self.bytes.clone()).open(Options::default()).unwrap()
    }

    pub fn uuid(&self) -> [u8; 16] {
        *self.bytes[24..].first_chunk().unwrap()
    }

    pub fn page(&mut self, no: u64) -> &mut [u8] {
        let at = PAGES_AT + (no as usize - 1) * self.page_bytes;
        &mut self.bytes[at..at + self.page_bytes]
    }

    /// A page of a tree. A second directory may list the same cells.
    pub fn put(&mut self, no: u64, tree: u32, cells: &[Vec<u8>], directories: &[Directory]) {
        let (uuid, page_bytes) = (self.uuid(), self.page_bytes);
        let page = self.page(no);
        page.fill(0);
        page[..8].copy_from_slice(&no.to_le_bytes());
        page[8..12].copy_from_slice(&tree.to_le_bytes());
        let mut end = page_bytes;
        let places: Vec<usize> = cells
            .iter()
            .map(|cell| {
                end -= cell.len();
                page[end..end + cell.len()].copy_from_slice(cell);
                end
            })
            .collect();
        let mut at = 80;
        for (index, one) in directories.iter().enumerate() {
            let mut rows = Vec::new();
            one.live.iter().for_each(|&cell| rows.extend((places[cell] as u16).to_le_bytes()));
            for &(cell, rank, end) in &one.dead {
                rows.extend((places[cell] as u16).to_le_bytes());
                rows.extend(rank.to_le_bytes());
                rows.extend(&end.to_le_bytes()[..6]);
            }
            page[at..at + rows.len()].copy_from_slice(&rows);
            let slot = 16 + 32 * index;
            page[slot..slot + 6].copy_from_slice(&one.version.to_le_bytes()[..6]);
            page[slot + 6] = one.flags;
            page[slot + 7] = one.height;
            page[slot + 8..slot + 16].copy_from_slice(&one.floor.to_le_bytes());
            page[slot + 16..slot + 18].copy_from_slice(&(at as u16).to_le_bytes());
            page[slot + 18..slot + 20].copy_from_slice(&(one.live.len() as u16).to_le_bytes());
            page[slot + 20..slot + 22].copy_from_slice(&(one.dead.len() as u16).to_le_bytes());
            let mut sum = crc32c::crc32c(&uuid);
            sum = crc32c::crc32c_append(sum, &page[..16]);
            sum = crc32c::crc32c_append(sum, &page[slot..slot + 28]);
            sum = crc32c::crc32c_append(sum, &rows);
            for &cell in one.live.iter().chain(one.dead.iter().map(|(cell, ..)| cell)) {
                sum = crc32c::crc32c_append(sum, &cells[cell]);
            }
            page[slot + 28..slot + 32].copy_from_slice(&sum.to_le_bytes());
            at += rows.len();
        }
    }

    /// A page with one directory, which lists all cells.
    pub fn put_all(&mut self, no: u64, tree: u32, height: u8, cells: &[Vec<u8>]) {
        let live = (0..cells.len()).collect();
        let flags = if tree == self.records.0 { 4 } else { 0 };
        let one = Directory { version: 1, flags, height, floor: 1, live, dead: Vec::new() };
        self.put(no, tree, cells, &[one]);
    }

    pub fn put_overflow(&mut self, no: u64, tree: u32, payload: &[u8], next: u64) {
        let uuid = self.uuid();
        let page = self.page(no);
        page.fill(0);
        page[..8].copy_from_slice(&no.to_le_bytes());
        page[8..12].copy_from_slice(&tree.to_le_bytes());
        page[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        page[16] = 1;
        page[24..32].copy_from_slice(&next.to_le_bytes());
        page[36..36 + payload.len()].copy_from_slice(payload);
        let mut sum = crc32c::crc32c(&uuid);
        sum = crc32c::crc32c_append(sum, &page[..32]);
        sum = crc32c::crc32c_append(sum, payload);
        page[32..36].copy_from_slice(&sum.to_le_bytes());
    }

    /// Changes both anchors, and makes their checksums right.
    pub fn change_anchors(&mut self, change: impl Fn(&mut [u8])) {
        for at in [0, 4096] {
            let block = &mut self.bytes[at..at + 4096];
            change(block);
            let sum = crc32c::crc32c(&block[..4092]);
            block[4092..].copy_from_slice(&sum.to_le_bytes());
        }
    }
}
