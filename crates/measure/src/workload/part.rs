//! A worker's part of the transactions.

/// Which worker of how many it is, and what all have to do.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// From 0 to `connections - 1`.
    pub index: u32,
    pub connections: u32,
    /// Of all connections together.
    pub transactions: u64,
}

impl Part {
    /// This worker's own transactions.
    pub fn share(self) -> u64 {
        share(self.transactions, self.connections, self.index)
    }
}

/// Worker `index`'s part of `total`, as even as it gets.
pub fn share(total: u64, connections: u32, index: u32) -> u64 {
    let (connections, index) = (u64::from(connections), u64::from(index));
    total / connections + u64::from(index < total % connections)
}
