//! By how much a WAL is made longer ahead of its use, with `plain` and `waldio`.

/// The first extension of a new WAL. The next ones are by the WAL's own size, up to a chunk.
///
/// Of many databases in one process most have few commits, and a chunk for each would cost more
/// than those. A database with many commits has four more extensions, each with a flush, which is
/// little.
const FIRST_BYTES: u64 = 64 << 10;

/// The largest extension of a long WAL.
///
/// A WAL becomes long because a reader holds checkpoints up or a transaction is large. It is then
/// extended by a quarter of its size, if that is more than a chunk. Each extension costs the
/// commits a flush of its own. Where the WAL grows by 130 MB/s, extensions of 1 MiB take a fifth of
/// the commits' rate.
const LONG_CHUNK_BYTES_MAX: u64 = 4 << 20;

/// By how much a file of this size is extended.
pub fn chunk_at(size_bytes: u64, chunk_bytes: u64) -> u64 {
    if size_bytes < chunk_bytes {
        return chunk_bytes.min(1 << size_bytes.max(FIRST_BYTES).ilog2());
    }
    let chunks = (size_bytes / 4).min(LONG_CHUNK_BYTES_MAX) / chunk_bytes;
    chunk_bytes * chunks.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_long_wal_is_extended_by_more_at_a_time() {
        for (size_mib, chunk_mib) in
            [(1, 1), (4, 1), (7, 1), (8, 2), (13, 3), (16, 4), (17, 4), (4096, 4)]
        {
            assert_eq!(chunk_at(size_mib * MIB, MIB), chunk_mib * MIB, "{size_mib}");
        }
        assert_eq!(chunk_at(4096 * MIB, 64 * MIB), 64 * MIB, "what was asked for is more");
        assert_eq!(chunk_at(1000, 300), 300);
        assert_eq!(chunk_at(5000, 300), 1200);
    }

    #[test]
    fn a_short_wal_is_doubled_until_a_chunk_is_no_more() {
        for (size_kib, chunk_kib) in
            [(0, 64), (63, 64), (64, 64), (100, 64), (128, 128), (900, 512), (1023, 512)]
        {
            assert_eq!(chunk_at(size_kib << 10, MIB), chunk_kib << 10, "{size_kib}");
        }
        assert_eq!(chunk_at(0, 4096), 4096, "what was asked for is less");
        assert_eq!(chunk_at(0, 100_000), 1 << 16);
        assert_eq!(chunk_at(70_000, 300_000), 1 << 16);
        assert_eq!(chunk_at(290_000, 300_000), 1 << 18);
    }
}
