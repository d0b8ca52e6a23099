//! Zeros that the device makes without a write (`FALLOC_FL_WRITE_ZEROES`, Linux 6.17).
//!
//! The file system allocates the blocks as written ones, so later writes change no metadata. It
//! asks the device to zero them. Only devices can that have `write_zeroes_unmap_max_hw_bytes` above
//! 0 in `/sys/block/*/queue`: SSDs by NVMe or SCSI whose blocks read as zeros after an unmap.
//! Elsewhere, and on older kernels, the call is refused before anything is changed.
//!
//! Untested with a device that can: none was at hand. What a refusal leaves is tested.

use std::fs::File;
use std::ops::Range;

use rustix::fs::{FallocateFlags, fallocate};

const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);

/// Makes these bytes zeros, and the file longer if they are behind its end. Nothing is durable
/// before a sync. False: the caller has to write the zeros.
pub fn zero_without_writing(file: &File, range: Range<u64>) -> bool {
    range.start < range.end
        && fallocate(file, WRITE_ZEROES, range.start, range.end - range.start).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_refused_is_left_as_it_was_and_what_is_not_is_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, [7; 8192]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let is_zeroed = zero_without_writing(&file, 4096..1 << 20);
        let mut bytes = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes[..4096], [7; 4096]);
        if is_zeroed {
            assert_eq!(bytes.len(), 1 << 20);
            assert!(bytes[4096..].iter().all(|&byte| byte == 0));
        } else {
            assert_eq!(bytes, [7; 8192]);
        }
        assert!(!zero_without_writing(&file, 5..5));
        assert!(!zero_without_writing(&File::open(&path).unwrap(), 0..4096), "not open to write");
    }
}
