//! I/O errors on demand: which operation fails, how, and for how long.

use serde::{Deserialize, Serialize};

/// What a process asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Truncate,
    Create,
    Unlink,
    Rename,
    Sync,
    SyncDir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// EIO, at any operation.
    Io,
    /// ENOSPC, at operations that may need space.
    NoSpace,
    /// Half of a write is done. Then there is no space.
    ShortWrite,
    /// A sync fails. What it covered is in an unknown state from then on.
    Sync,
    /// The code that asked panics. The operation is not done.
    Panic,
}

impl Fault {
    pub const ALL: [Fault; 5] =
        [Fault::Io, Fault::NoSpace, Fault::ShortWrite, Fault::Sync, Fault::Panic];

    pub fn name(self) -> &'static str {
        match self {
            Fault::Io => "EIO",
            Fault::NoSpace => "ENOSPC",
            Fault::ShortWrite => "short write",
            Fault::Sync => "failed fsync",
            Fault::Panic => "panic",
        }
    }

    fn can_strike(self, operation: Operation) -> bool {
        use Operation::*;
        match self {
            Fault::Io => operation != Sync,
            Fault::NoSpace => matches!(operation, Write | Truncate | Create),
            Fault::ShortWrite => operation == Write,
            Fault::Sync => matches!(operation, Sync | SyncDir),
            Fault::Panic => matches!(operation, Read | Write | Truncate | Sync),
        }
    }
}

/// Fails operation number `at` among those that the fault can strike. With `lasting` it fails all
/// of them from there on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FaultPlan {
    pub fault: Fault,
    pub at: u32,
    pub lasting: bool,
    /// Decides what a failed sync leaves behind.
    pub seed: u64,
    /// How many operations it could have struck so far.
    #[serde(skip)]
    pub seen: u32,
    /// Operations go on as if there were no plan.
    #[serde(skip)]
    pub is_suspended: bool,
}

impl FaultPlan {
    pub fn new(fault: Fault, at: u32, lasting: bool, seed: u64) -> FaultPlan {
        FaultPlan { fault, at, lasting, seed, seen: 0, is_suspended: false }
    }

    /// True if an operation has failed.
    pub fn has_struck(&self) -> bool {
        self.seen > self.at
    }

    pub(crate) fn strikes(&mut self, operation: Operation) -> Option<Fault> {
        if self.is_suspended || !self.fault.can_strike(operation) {
            return None;
        }
        let number = self.seen;
        self.seen += 1;
        (number == self.at || (self.lasting && number > self.at)).then_some(self.fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_strikes_once_or_from_then_on_and_only_what_it_can() {
        for (lasting, struck) in [(false, [false, true, false]), (true, [false, true, true])] {
            let mut plan = FaultPlan::new(Fault::ShortWrite, 1, lasting, 0);
            assert_eq!(plan.strikes(Operation::Sync), None);
            assert_eq!(struck, [(); 3].map(|()| plan.strikes(Operation::Write).is_some()));
            assert!(plan.has_struck());
        }
    }
}
