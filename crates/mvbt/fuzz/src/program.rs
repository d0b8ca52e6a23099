//! The fuzzer's input as a program that makes a file.

use std::collections::BTreeSet;

use crate::base::{Base, PAGES_AT};
use crate::checksum;

/// What of the input has not been read. Behind its end there are zeros.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Small numbers are likely, and each number can be.
    fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..250 => u64::from(small),
            250 => u64::from(self.short()),
            251 => (1 << 48) - 1 - u64::from(self.byte()),
            252 => u64::MAX - u64::from(self.byte()),
            253 => (1 << 62) - u64::from(self.byte()),
            254 => 1 << (self.byte() % 64),
            255 => {
                let mut bytes = [0; 8];
                bytes.fill_with(|| self.byte());
                u64::from_le_bytes(bytes)
            }
        }
    }
}

pub struct File {
    pub bytes: Vec<u8>,
    pub page_bytes: usize,
    /// Pages that the program has changed.
    pub changed: BTreeSet<u64>,
}

impl File {
    /// What the whole program makes.
    pub fn made_by(input: &mut Input<'_>) -> File {
        let base = Base::choose(input.byte());
        let mut file = File {
            bytes: base.bytes.clone(),
            page_bytes: base.page_bytes,
            changed: BTreeSet::new(),
        };
        let steps = input.byte() % 24;
        for _ in 0..steps {
            match input.byte() % 8 {
                0 | 1 => file.patch_page(input),
                2 | 3 => file.build_page(input),
                4 => file.build_overflow(input),
                5 => file.patch_anchor(input),
                6 => file.build_commit_block(input),
                _ => file.copy_page(input),
            }
        }
        file
    }

    fn uuid(&self) -> [u8; 16] {
        *self.bytes[24..].first_chunk().unwrap()
    }

    fn pages(&self) -> usize {
        ((self.bytes.len() - PAGES_AT) / self.page_bytes).min(64)
    }

    /// The number of a page that is there.
    pub fn choose(&self, input: &mut Input<'_>) -> u64 {
        (usize::from(input.byte()) % self.pages()) as u64 + 1
    }

    fn page(&mut self, no: u64) -> &mut [u8] {
        let at = PAGES_AT + (no as usize - 1) * self.page_bytes;
        &mut self.bytes[at..at + self.page_bytes]
    }

    fn seal(&mut self, no: u64) {
        self.changed.insert(no);
        let uuid = self.uuid();
        checksum::of_page(self.page(no), &uuid);
    }

    pub fn patch_page(&mut self, input: &mut Input<'_>) {
        let no = self.choose(input);
        let (page_bytes, place, length) = (self.page_bytes, input.short(), input.byte() % 32);
        // Slots are small, and what matters most.
        let at = match place & 0x8000 {
            0 => usize::from(place) % page_bytes,
            _ => usize::from(place) % 80,
        };
        let patch = input.take(usize::from(length));
        let end = (at + patch.len()).min(page_bytes);
        self.page(no)[at..end].copy_from_slice(&patch[..end - at]);
        self.seal(no);
    }

    fn copy_page(&mut self, input: &mut Input<'_>) {
        let (from, to) = (self.choose(input), self.choose(input));
        let copy = self.page(from).to_vec();
        self.page(to).copy_from_slice(&copy);
        self.page(to)[..8].copy_from_slice(&to.to_le_bytes());
        self.seal(to);
    }

    /// A page of cells, with one or two directories that list some of them.
    pub fn build_page(&mut self, input: &mut Input<'_>) {
        let (no, tree, flags) = (self.choose(input), u32::from(input.byte() % 5), input.byte());
        let (is_record, is_inner) = (flags & 1 != 0, flags & 2 != 0);
        let page_bytes = self.page_bytes;
        let mut page = vec![0; page_bytes];
        page[..8].copy_from_slice(&no.to_le_bytes());
        page[8..12].copy_from_slice(&tree.to_le_bytes());
        let mut end = page_bytes;
        let mut places: Vec<u16> = Vec::new();
        for _ in 0..input.byte() % 64 {
            let cell = self.cell(input, is_record, is_inner);
            if end < cell.len() + 400 {
                break;
            }
            end -= cell.len();
            page[end..end + cell.len()].copy_from_slice(&cell);
            places.push(end as u16);
        }
        let mut at = 80;
        for slot in [16, 48].into_iter().take(usize::from(flags >> 2 & 1) + 1) {
            let rows = self.directory(input, &places);
            if at + rows.bytes.len() > end {
                break;
            }
            page[at..at + rows.bytes.len()].copy_from_slice(&rows.bytes);
            let raw = &mut page[slot..slot + 32];
            raw[..6].copy_from_slice(&input.number().to_le_bytes()[..6]);
            raw[6] = u8::from(is_record) * 4 | input.byte() & 3;
            raw[7] = if is_inner { input.byte().max(1) } else { 0 };
            raw[8..16].copy_from_slice(&input.number().to_le_bytes());
            raw[16..18].copy_from_slice(&(at as u16).to_le_bytes());
            raw[18..20].copy_from_slice(&rows.live.to_le_bytes());
            raw[20..22].copy_from_slice(&rows.dead.to_le_bytes());
            at += rows.bytes.len();
        }
        self.page(no).copy_from_slice(&page);
        self.seal(no);
    }

    fn cell(&self, input: &mut Input<'_>, is_record: bool, is_inner: bool) -> Vec<u8> {
        let mut cell = input.number().to_le_bytes()[..6].to_vec();
        if is_inner {
            let child = match input.byte() {
                255 => input.number(),
                small => u64::from(small) % self.pages() as u64 + 1,
            };
            cell.extend_from_slice(&child.to_le_bytes()[..6]);
        }
        let length = match input.byte() {
            small @ 0..200 => u64::from(small) % 48,
            200..240 => self.page_bytes as u64 * 2,
            _ => input.number(),
        };
        let has_content = is_record || !is_inner;
        if has_content {
            checksum::push_varint(&mut cell, length);
        }
        if !is_record {
            let key = input.number();
            checksum::push_varint(&mut cell, key);
        }
        if has_content {
            let local = checksum::local_bytes(self.page_bytes, length, is_record);
            let payload = input.take(local.min(16));
            cell.extend_from_slice(payload);
            cell.resize(cell.len() + local - payload.len(), 7);
            if (local as u64) < length {
                cell.extend_from_slice(&self.choose(input).to_le_bytes()[..6]);
            }
        }
        cell
    }

    fn directory(&self, input: &mut Input<'_>, places: &[u16]) -> Rows {
        let mut rows = Rows::default();
        if places.is_empty() {
            return rows;
        }
        let (what, live) = (input.byte(), input.byte());
        let mut listed: Vec<u16> = match what & 1 {
            0 => places.to_vec(),
            _ => (0..live % 40).map(|_| places[usize::from(input.byte()) % places.len()]).collect(),
        };
        listed.truncate(usize::from(live));
        for place in &listed {
            rows.bytes.extend(place.to_le_bytes());
        }
        rows.live = listed.len() as u16;
        for _ in 0..what >> 1 & 7 {
            rows.bytes.extend(places[usize::from(input.byte()) % places.len()].to_le_bytes());
            rows.bytes.extend(u16::from(input.byte()).to_le_bytes());
            rows.bytes.extend(&input.number().to_le_bytes()[..6]);
            rows.dead += 1;
        }
        rows
    }

    pub fn build_overflow(&mut self, input: &mut Input<'_>) {
        let (no, tree, next) = (self.choose(input), input.byte() % 5, input.number());
        let version = input.number();
        let most = self.page_bytes - 36;
        let length = match input.byte() {
            255 => most,
            other => usize::from(other) * most / 255,
        };
        let page = self.page(no);
        page.fill(3);
        page[..8].copy_from_slice(&no.to_le_bytes());
        page[8..12].copy_from_slice(&u32::from(tree).to_le_bytes());
        page[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        page[16..24].copy_from_slice(&version.to_le_bytes());
        page[24..32].copy_from_slice(&next.to_le_bytes());
        self.seal(no);
    }

    fn patch_anchor(&mut self, input: &mut Input<'_>) {
        const PLACES: [usize; 14] = [16, 20, 24, 40, 48, 56, 64, 72, 76, 80, 88, 2128, 2132, 2138];
        let which = usize::from(input.byte() % 2) * 4096;
        let place = input.byte();
        let number = input.number().to_le_bytes();
        let block = &mut self.bytes[which..which + 4096];
        let at = PLACES[usize::from(place) % PLACES.len()];
        let length = match at {
            16 | 20 | 72 | 76 | 2128 => 4,
            2132 | 2138 => 6,
            _ => 8,
        };
        block[at..at + length].copy_from_slice(&number[..length]);
        checksum::of_block(block);
    }

    fn build_commit_block(&mut self, input: &mut Input<'_>) {
        let place = 8192 + usize::from(input.byte() % 8) * 4096;
        let (version, count) = (input.number(), input.byte() % 12);
        let mut block = vec![0; 4096];
        block[..8].copy_from_slice(b"MVBTcmmt");
        block[8..24].copy_from_slice(&self.uuid());
        block[24..32].copy_from_slice(&version.to_le_bytes());
        block[32..36].copy_from_slice(&u32::from(count).to_le_bytes());
        for index in 0..usize::from(count) {
            let no = match input.byte() {
                255 => input.number(),
                small => u64::from(small) % self.pages() as u64 + 1,
            };
            let at = 40 + 12 * index;
            block[at..at + 8].copy_from_slice(&no.to_le_bytes());
            let is_there = no > 0 && no <= self.pages() as u64;
            let slot = [28, 60, 32][usize::from(input.byte() % 3)];
            if is_there {
                block[at + 8..at + 12].copy_from_slice(&self.page(no)[slot + 16..slot + 20]);
            }
        }
        checksum::of_block(&mut block);
        self.bytes[place..place + 4096].copy_from_slice(&block);
    }
}

#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    live: u16,
    dead: u16,
}
